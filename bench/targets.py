"""What must hold, read from the results: the first table of docs/performance.md."""

from collections.abc import Callable
from typing import Any

from bench import kernels
from bench.versus import LEAST

#: What was measured, how much, what it has to reach, and whether a small number is good.
Target = tuple[str, float, float, bool]


def table(results: dict[str, Any]) -> str:
    """Return the table; parts that were not measured, or not in full, are named."""
    lines = ["| what | measured | to reach |", "|---|---:|---:|"]
    for part, targets in TARGETS.items():
        try:
            lines += [_row(*target) for target in targets(results[part])]
        except KeyError:
            lines.append(f"| `{part}` | not measured | |")
    return "\n".join(lines)


def _row(name: str, value: float, wanted: float, small: bool) -> str:
    met = value <= wanted if small else value >= wanted
    sign = "at most" if small else "at least"
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"| {name} | {shown}{'' if met else ' (missed)'} | {sign} {wanted:g} |"


def bytes_each(fields: dict[str, Any]) -> float:
    """Bytes of a mask reply for each parameter."""
    return float(fields["reply_bytes"] / fields["length"])


def slower(hybrid: dict[str, Any]) -> float:
    """How much longer a client takes under the hybrid agreement."""
    return float(hybrid["x25519-mlkem768"]["client_ms"] / hybrid["x25519"]["client_ms"])


def _fastest(ms: dict[str, float]) -> float:
    """The compiled module's time, or that of numpy alone where it was not there."""
    return ms.get("native", ms["pure"])


def _table(rows: list[dict[str, Any]]) -> list[Target]:
    watched = rows[-1]
    return [
        ("client, steps 1+2, n = 500, q = 0.1: times its floor", watched["client_ratio"], 1.6, True),
        ("server, n = 500, q = 0.1: times its floor", watched["server_ratio"], 2.0, True),
    ]


def _server(server: dict[str, Any]) -> list[Target]:
    rows = [("server, n = 1,000, a million words: times its floor", server["ratio"], 2.0, True)]
    limit = server["client_limit_ms"]  # 0 where there is no compiled kernel
    whole = "whole client of that round: times the bare instructions for its keystream"
    return [*rows, (whole, server["client_ms"]["curious"] / limit, 2.3, True)] if limit else rows


def _million(million: dict[str, float]) -> list[Target]:
    one, two, floor = (million[name] for name in ("one_thread_ms", "two_threads_ms", "floor_ms"))
    what = "client, steps 1+2, a million parameters, 50 neighbours: times its floor"
    return [
        (what, one / floor, 1.5, True),
        ("the same with two threads: times faster", one / two, 1.7, False),
    ]


def _threads(threads: dict[str, Any]) -> list[Target]:
    ratio = {length: one["ratio"] for length, one in threads["lengths"].items()}
    short = "masking 10,000 words with two threads allowed: times one thread"
    return [
        (short, ratio["10000"], 1.05, True),
        ("masking a million words: times faster with two threads", 1 / ratio["1000000"], 1.7, False),
    ]


def _executor(executor: dict[str, Any]) -> list[Target]:
    longest = max(row["length"] for row in executor["rows"])
    what = f"masks off {longest:,} words, two workers: times faster than one"
    return [
        (f"{what} ({row['executor']}, kernel {row['kernel']})", row["gain"], 1.8, False)
        for row in executor["rows"]
        if row["length"] == longest
    ]


def _imports(imports: dict[str, float]) -> list[Target]:
    what = "`import ccesa`: times the import of numpy, cryptography and msgspec"
    return [(what, imports["ratio"], 2.5, True)]


def _fields(fields: dict[str, Any]) -> list[Target]:
    return [
        ("8-bit values of 1,000 clients: bytes per parameter", bytes_each(fields), 2.7, True),
        ("the same: mask step, times faster than with 32-bit words", fields["ratio"], 1.4, False),
    ]


def _hybrid(hybrid: dict[str, Any]) -> list[Target]:
    return [("client under the hybrid agreement: times the classical", slower(hybrid), 1.25, True)]


def _noise(cases: list[dict[str, Any]]) -> list[Target]:
    slowest = max(_fastest(case["draws_ms"]) for case in cases)
    return [("a million draws of noise, the slowest case: ms", slowest, 150, True)]


def _privacy(privacy: dict[str, Any]) -> list[Target]:
    over = "noise in a sum over a trusted curator's"
    return [
        (f"{over}: {privacy['clients']:,} clients, a tenth drop out", privacy["follows"], 1.08, True),
        (f"{over}: the same, nobody drops out", privacy["all_stay"], 1.14, True),
        (f"{over}: the server may lie, {privacy['clients']:,} clients", privacy["lies"], 1.10, True),
        (f"{over}: the server may lie, {privacy['few']} clients", privacy["few_lies"], 1.25, True),
        ("noise: a client with a million parameters: ms", _fastest(privacy["client_ms"]), 60, True),
        ("noise: upload, bytes per parameter", privacy["bytes_each"], 1.6, True),
    ]


def _scale(scale: dict[str, Any]) -> list[Target]:
    large = scale["servers"]["100000"]
    return [
        ("server, 100,000 clients, 1,000 words: seconds", large["cpu_s"], 8, True),
        ("the same: MB", large["memory_mb"], 1500, True),
    ]


def _cuda(cuda: dict[str, Any]) -> list[Target]:
    rate = cuda["masks"][str(cuda["server"])]  # with as many masks as a server takes off
    return [("a GPU: TB/s of keystream added", rate, 1.0, False)]


def _flower(versus: dict[str, dict[str, float]]) -> list[Target]:
    over = "Flower's time over ours"
    return [(f"{over}: {name}", one["ratio"], LEAST[name], False) for name, one in versus.items()]


#: By parts of the results, in the order of the table.
TARGETS: dict[str, Callable[[Any], list[Target]]] = {
    "table": _table,
    "server": _server,
    "million": _million,
    "threads": _threads,
    "kernels": kernels.targets,
    "executor": _executor,
    "imports": _imports,
    "fields": _fields,
    "hybrid": _hybrid,
    "noise": _noise,
    "privacy": _privacy,
    "scale": _scale,
    "cuda": _cuda,
    "flower": _flower,
}
