"""Runs everything, says how far it is, and writes bench/results.json and docs/performance.md."""

import argparse
import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench import (
    active,
    ahead,
    client,
    crowd,
    cuda,
    executor,
    fields,
    flower,
    hybrid,
    imports,
    kernels,
    large,
    liars,
    noise,
    privacy,
    report,
    rounds,
    scale,
    server,
    threads,
    versus,
)
from bench.paper import PAPER
from bench.rounds import Measured
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.thresholds import Fixed

HERE = Path(__file__).parent

#: The row whose ratios have targets is run more often.
WATCHED = PAPER[-1]


def table_row(row: tuple[Any, ...]) -> dict[str, Any]:
    scheme, n, q, t, p, paper = row
    graph = Complete() if scheme == "SA" else ErdosRenyi(p=p)
    config = rounds.paper_config(n, graph, Fixed(t=t))
    runs = rounds.median_of(4 if row == WATCHED else 1, config, q)
    best = sorted(runs, key=lambda run: run.server_ratio)[len(runs) // 2]
    return {"scheme": scheme, "n": n, "q": q, "t": t, "p": p, "paper": paper, **_ratios(best, runs)}


def _ratios(chosen: Measured, runs: list[Measured]) -> dict[str, Any]:
    return {
        "client": chosen.client,
        "server": chosen.server,
        "client_floor": chosen.client_floor,
        "server_floor": chosen.server_floor,
        "client_ratio": median(run.client_ratio for run in runs),
        "server_ratio": median(run.server_ratio for run in runs),
        "work": chosen.exact_work,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        choices=[
            "table",
            "million",
            "flower",
            "server",
            "large",
            "active",
            "liars",
            "imports",
            "fields",
            "ahead",
            "hybrid",
            "noise",
            "privacy",
            "scale",
            "million-clients",
            "threads",
            "executor",
            "cuda",
            "kernels",
        ],
        help="measure one part anew; the others stay as they are in bench/results.json",
    )
    only = parser.parse_args().only
    kept = HERE / "results.json"
    parts: dict[str, Callable[[], Any]] = {
        "table": lambda: [_told(table_row, row) for row in PAPER],
        "million": _million,
        "server": _server,
        "flower": lambda: versus.compare(_say) if flower.VERSION else {},
        "active": _active,
        "liars": _liars,
        "imports": _imports,
        "fields": _fields,
        "ahead": _ahead,
        "hybrid": _hybrid,
        "noise": _noise,
        "privacy": _privacy,
        "scale": lambda: _scale(kept),
        "threads": _threads,
        "executor": _executor,
        "kernels": _kernels,
        "cuda": cuda.kept,
        "large": lambda: {name: _told_large(name, options) for name, options in large.CASES.items()},
    }
    results = json.loads(kept.read_text()) if only and kept.exists() else {}
    if only == "million-clients" and "scale" not in results:
        parser.error("million-clients is one row of scale; first measure scale")
    results |= {name: part() for name, part in parts.items() if only in (None, name)}
    if only == "million-clients":  # a quarter of an hour and 20 GB: never along with the others
        results["scale"]["servers"][str(scale.MILLION)] = _told_scale(scale.MILLION)
    if only in (None, "scale", "million-clients"):
        scale.picture(results["scale"]["servers"]).savefig(HERE / "scale.png", dpi=150)
    results["machine"] = _machine()
    kept.write_text(json.dumps(results, indent=1) + "\n")
    page = HERE.parent / "docs" / "performance.md"
    page.write_text(report.page(results))
    print(page.read_text())
    _say(f"written: {page.relative_to(HERE.parent)}")


def _million() -> dict[str, float]:
    _say("one client, a million parameters")
    return client.million()


def _server() -> dict[str, Any]:
    _say("the server of 1,000 clients with a million words, beside its floor")
    return server.compare()


def _hybrid() -> dict[str, Any]:
    _say("one client under both agreements")
    return hybrid.compare()


def _noise() -> list[dict[str, Any]]:
    _say("a million draws of exact noise")
    return noise.compare()


def _privacy() -> dict[str, Any]:
    _say("noisy sums beside a trusted curator's")
    return privacy.compare()


def _threads() -> dict[str, Any]:
    _say("masks with one thread and with two")
    return threads.compare()


def _executor() -> dict[str, Any]:
    _say("masks that come off through one worker and through two")
    return executor.compare()


def _kernels() -> list[dict[str, Any]]:
    _say("the mask step by every kernel")
    return kernels.compare()


def _active() -> dict[str, Any]:
    _say("both guards, 1,000 clients at the planned degree")
    return active.compare()


def _liars() -> dict[str, Any]:
    _say("wrong shares, found in two ways")
    return liars.compare()


def _imports() -> dict[str, float]:
    _say("import ccesa, beside its libraries")
    return imports.compare()


def _ahead() -> dict[str, Any]:
    _say("masks ahead, a million words")
    return ahead.compare()


def _fields() -> dict[str, Any]:
    _say("fields in words, 1,000 clients, a million parameters")
    return fields.compare()


def _told(work: Callable[[tuple[Any, ...]], dict[str, Any]], row: tuple[Any, ...]) -> dict[str, Any]:
    _say(f"table: {row[0]} n={row[1]} q={row[2]}")
    return work(row)


def _told_large(name: str, options: str) -> dict[str, object]:
    _say(name)
    return large.simulate(options)


def _scale(kept: Path) -> dict[str, Any]:
    """Measure servers and a client in crowds; a million clients stay as they were measured last."""
    before = json.loads(kept.read_text()).get("scale", {}).get("servers", {}) if kept.exists() else {}
    servers = {str(clients): _told_scale(clients) for clients in scale.CLIENTS}
    _say("one client of the guard active among 100,000")
    return {"servers": {**before, **servers}, "crowd": crowd.compare()}


def _told_scale(clients: int) -> dict[str, Any]:
    _say(f"a server among {clients:,} stand-ins")
    return scale.measure(clients)


def _machine() -> dict[str, str]:
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("ccesa", "numpy", "cryptography", "msgspec")},
        "flwr": flower.VERSION,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.machine()


def _say(text: str) -> None:
    print(f"· {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
