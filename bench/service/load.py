"""A hub under load: crowds of real participants, strangers beside them, and several hubs on one database."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bench.progress import say
from bench.service.crowd import Case
from bench.service.runs import Ran, run

ROOT = Path(__file__).parents[2]

#: By name: who takes part, and whether strangers are beside them.
RUNS = {
    "large": (Case("curious", 1_000, 100_000, rounds=2), False),
    "large, with strangers": (Case("curious", 1_000, 100_000, rounds=2), True),
    "many, with strangers": (Case("curious", 5_000, 1_000), True),
    "active, with strangers": (Case("active", 200, 10_000, rounds=2), True),
}
#: A run that is repeated with strangers and without, in turn.
BESIDE = Case("curious", 300, 10_000, rounds=2)
#: A run that counts replies, and how many hubs share it.
BURST, HUBS = Case("curious", 300, 100_000, rounds=2), (1, 2, 3)
#: How often both are repeated.
TIMES = 3


def compare() -> dict[str, Any]:
    """Run everything; hubs and crowds share this machine."""
    found = {}
    for name, (case, strangers) in RUNS.items():
        say(f"{case.clients:,} participants, {case.words:,} words ({name})")
        with tempfile.TemporaryDirectory(prefix="ccesa-bench-") as folder:
            found[name] = run(case, Path(folder), strangers=strangers).record()
    return {"runs": found, "beside": _beside(), "hubs": _several()}


def _beside() -> dict[str, Any]:
    """Return what strangers change, in runs with and without them, in turn."""
    with_them: dict[bool, list[Ran]] = {False: [], True: []}
    for _ in range(TIMES):
        for strangers, ran in with_them.items():
            say(f"{BESIDE.clients} participants, {'with' if strangers else 'without'} strangers")
            with tempfile.TemporaryDirectory(prefix="ccesa-bench-") as folder:
                ran.append(run(BESIDE, Path(folder), strangers=strangers))
    without, beside = ([one.acknowledged() for one in some] for some in with_them.values())
    return {
        "clients": BESIDE.clients,
        "words": BESIDE.words,
        "times": TIMES,
        "exact": all(one.exact for some in with_them.values() for one in some),
        "everyone": all(
            count == BESIDE.clients for some in with_them.values() for one in some for count in one.survivors
        ),
        "median_s": [median(one[0] for one in some) for some in (without, beside)],
        "p99_s": [median(one[1] for one in some) for some in (without, beside)],
        "hub_cpu_s": [median(one.hubs[0]["cpu_s"] for one in some) for some in with_them.values()],
    }


def _several() -> dict[str, Any]:
    """Count replies per second with one hub and with several on one PostgreSQL, in turn."""
    bursts: dict[str, list[dict[str, Any]]] = {str(hubs): [] for hubs in HUBS}
    with _postgres() as server:
        for _ in range(TIMES if server else 0):
            for hubs in HUBS:
                say(f"{BURST.clients} vectors of {BURST.words:,} words at once, {hubs} hubs on PostgreSQL")
                with tempfile.TemporaryDirectory(prefix="ccesa-bench-") as folder:
                    ran = run(BURST, Path(folder), store=server.url(), hubs=hubs, hold=True)
                    if not ran.exact:
                        raise AssertionError(f"a sum of {hubs} hubs is not the plain one")
                    bursts[str(hubs)] += ran.seen.bursts
    return {hubs: _rate(some) for hubs, some in bursts.items() if some}


def _rate(bursts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "bursts": len(bursts),
        "replies": bursts[0]["replies"],
        "per_s": median(one["replies"] / one["wall_s"] for one in bursts),
        "cpu_ms_each": median(1e3 * sum(one["hubs_cpu_s"]) / one["replies"] for one in bursts),
        "busiest_ms_each": median(1e3 * max(one["hubs_cpu_s"]) / one["replies"] for one in bursts),
    }


@contextmanager
def _postgres() -> Iterator[Any]:
    """Yield a server that writes to its disk as a real one does; None where there is none installed."""
    if not any(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        say("there is no PostgreSQL on this machine")
        yield None
        return
    sys.path.insert(0, str(ROOT / "tests" / "service"))
    server = import_module("postgres").Server()
    try:
        server.start(fsync="on", full_page_writes="on", shared_buffers="128MB", max_wal_size="4GB")
        yield server
    finally:
        server.remove()


def targets(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """What must hold, for the table of targets."""
    runs = found["runs"]
    complete = sum(one["complete"] for one in runs.values() if one["exact"])
    wanted = sum(one["rounds"] for one in runs.values())
    beside = found["beside"]["median_s"]
    large, many = runs["large, with strangers"], runs["many, with strangers"]
    rows = [
        ("service: rounds complete and exact, with strangers and without", complete, wanted, False),
        ("service: everyone is in every sum, part", _everyone(runs), 1, False),
        ("service: opening to acknowledgement beside strangers, times", beside[1] / beside[0], 1.3, True),
        ("service: memory of 1,000 x 100,000 words, part of all vectors", _held(large), 0.5, True),
        ("service: hub's MB for 5,000 sites", _growth(many), 500, True),
    ]
    if len(found["hubs"]) > 1:
        one, several = found["hubs"]["1"], found["hubs"]["3"]
        ratio = several["busiest_ms_each"] / one["busiest_ms_each"]
        rows.append(("service: work of the busiest of three hubs, times that of one alone", ratio, 0.5, True))
    return rows


def _everyone(runs: dict[str, Any]) -> float:
    return min(count / one["clients"] for one in runs.values() for count in one["survivors"])


def _growth(one: dict[str, Any]) -> float:
    return max(hub["peak_mb"] - hub["before_mb"] for hub in one["hubs"])


def _held(one: dict[str, Any]) -> float:
    return _growth(one) / (one["clients"] * one["words"] * 4 / 1e6)


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    parts = [
        "`ccesa serve` on SQLite, among participants that are the real core with real cryptography, all in "
        "one process on the same machine (`bench/service/load.py`, `bench/service/crowd.py`): crowd, hub and "
        "database share its cores. An exchange closes when everyone has answered. *Strangers* are 200 "
        "connections that never end a header, 100 that say nothing, 100 every ten seconds that vanish "
        "without a word, and 50 requests per second of nonsense, from a process of their own."
    ]
    parts += [_run_text(name, one) for name, one in found["runs"].items()]
    parts += [_beside_text(found["beside"]), _memory_text(found["runs"]), _hubs_text(found["hubs"])]
    return "\n\n".join(parts)


def _run_text(name: str, one: dict[str, Any]) -> str:
    hub = one["hubs"][0]
    lines = [
        f"**{one['clients']:,} participants, {one['words']:,} words, guard `{one['guard']}`"
        f"{', ' + name.partition(', ')[2] if ', ' in name else ''}**: {one['complete']} of {one['rounds']} "
        f"rounds complete, {'sums exact' if one['exact'] else 'SUMS NOT EXACT'}, survivors "
        f"{', '.join(f'{count:,}' for count in one['survivors'])}; {one['degree']:.0f} neighbours, "
        f"{one['wall_s']:.0f} s in all, {one['bytes_to_hub'] / 1e6:,.0f} MB to the hub and "
        f"{one['bytes_from_hub'] / 1e6:,.0f} MB back; {one['told'].get('away', 0):,} times a participant "
        "was told to "
        f"come again later. Processor time: hub {hub['cpu_s']:.1f} s (event loop "
        f"{hub['loop_s']:.1f} s, engine {hub['engine_s']:.1f} s), crowd {one['crowd_cpu_s']:.1f} s.\n",
        "| exchange | KB per reply | open, s | opening to acknowledgement, median s | 99th, s "
        "| sending to acknowledgement, median s | 99th, s |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    return "\n".join(lines + [_step_text(step) for step in one["steps"]])


def _step_text(step: dict[str, Any]) -> str:
    return (
        f"| {step['exchange']}{' (vectors)' if step['vectors'] else ''} "
        f"| {step['bytes'] / max(step['replies'], 1) / 1e3:,.1f} | {step['open_s']:.2f} "
        f"| {step['median_s']:.2f} | {step['p99_s']:.2f} "
        f"| {step['answer_median_s']:.2f} | {step['answer_p99_s']:.2f} |"
    )


def _beside_text(one: dict[str, Any]) -> str:
    lines = [
        f"The cost of strangers: {one['clients']} participants, {one['words']:,} words, two rounds, "
        f"{one['times']} runs with them and {one['times']} without, in turn; medians. "
        f"{'All' if one['exact'] else 'NOT ALL'} sums are exact, and "
        f"{'everyone is' if one['everyone'] else 'NOT EVERYONE IS'} in each of them.\n",
        "| | without | with strangers | ratio |",
        "|---|--:|--:|--:|",
    ]
    rows = {
        "median_s": "opening to acknowledgement, median s",
        "p99_s": "99th percentile, s",
        "hub_cpu_s": "hub, processor s",
    }
    lines += [
        f"| {what} | {one[name][0]:.2f} | {one[name][1]:.2f} | {one[name][1] / one[name][0]:.2f} |"
        for name, what in rows.items()
    ]
    return "\n".join(lines)


def _memory_text(runs: dict[str, Any]) -> str:
    lines = [
        "The hub's memory beyond a hub that is ready; all vectors at once would be what the third column "
        "says. Bodies under way have 64 MiB between them, by the limits of the hub. Sizes differ in several "
        "ways between these runs, so they bound the growth, and do not show what it is in proportion to.\n",
        "| run | pairs | all vectors, MB | peak, MB | beyond start, MB |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {name} | {one['edges']:,} | {one['clients'] * one['words'] * 4 / 1e6:,.0f} "
        f"| {one['hubs'][0]['peak_mb']:,.0f} | {_growth(one):,.0f} |"
        for name, one in runs.items()
    ]
    return "\n".join(lines)


def _hubs_text(hubs: dict[str, Any]) -> str:
    if not hubs:
        return "Several hubs on one PostgreSQL: not measured, for there was none."
    lines = [
        f"Several hubs on one PostgreSQL, which writes to its disk: {hubs['1']['replies']} vectors of "
        f"{BURST.words:,} words, made beforehand, leave at once; clients are shared out in turn. Medians of "
        f"{hubs['1']['bursts']} bursts, hubs in turn. Crowd, hubs and database share the cores, so what "
        "counts is what the busiest hub has to do.\n",
        "| hubs | replies per s | processor ms per reply, all hubs | the busiest hub's |",
        "|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {count} | {one['per_s']:,.0f} | {one['cpu_ms_each']:.2f} | {one['busiest_ms_each']:.2f} |"
        for count, one in hubs.items()
    ]
    return "\n".join(lines)
