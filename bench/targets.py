"""What must hold, read from the results: the first table of docs/performance.md."""

from collections.abc import Callable
from typing import Any

from bench import typescript
from bench.crypto import cuda, kernels, noise
from bench.flower.versus import LEAST
from bench.protocol import assisted, executor, fields, hybrid, privacy, server
from bench.service import load as service

#: What was measured, how much, what it has to reach, and whether a small number is good.
Target = tuple[str, float, float, bool]


_OLDER = """Three targets are older than the compiled kernel: what two threads gain in steps 1 and 2, fields
against 32-bit words, and the hybrid agreement against the classical. Masks are a smaller part of these steps
since then. `CCESA_KERNEL=pure python -m bench --only million` (`fields`, `hybrid`) measures what they were
set for."""


def table(results: dict[str, Any]) -> str:
    """Return the table; a part that was not measured, or not in full, is named."""
    lines = ["| what | measured | to reach |", "|---|---:|---:|"]
    for part, targets in TARGETS.items():
        try:
            lines += [_row(*target) for target in targets(results[part])]
        except KeyError:
            lines.append(f"| `{part}` | not measured | |")
    return "\n".join([*lines, "", _OLDER])


def _row(name: str, value: float, wanted: float, small: bool) -> str:
    met = value <= wanted if small else value >= wanted
    sign = "at most" if small else "at least"
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"| {name} | {shown}{'' if met else ' (missed)'} | {sign} {wanted:g} |"


def _table(rows: list[dict[str, Any]]) -> list[Target]:
    watched = rows[-1]
    return [
        ("client, steps 1+2, n = 500, q = 0.1: times its floor", watched["client_ratio"], 1.6, True),
        ("server, n = 500, q = 0.1: times its floor", watched["server_ratio"], 2.0, True),
    ]


def _server(found: dict[str, Any]) -> list[Target]:
    what = "server, n = 1,000, a million words: times its floor"
    return [(what, found["ratio"], 2.0, True), *server.whole_client(found)]


def _million(million: dict[str, float]) -> list[Target]:
    one, two, floor = (million[name] for name in ("one_thread_ms", "two_threads_ms", "floor_ms"))
    what = "client, steps 1+2, a million parameters, 50 neighbours: times its floor"
    return [(what, one / floor, 1.5, True), ("the same with two threads: times faster", one / two, 1.7, False)]


def _threads(threads: dict[str, Any]) -> list[Target]:
    ratio = {length: one["ratio"] for length, one in threads["lengths"].items()}
    short = "masking 10,000 words with two threads allowed: times one thread"
    return [
        (short, ratio["10000"], 1.05, True),
        ("masking a million words: times faster with two threads", 1 / ratio["1000000"], 1.7, False),
    ]


def _imports(imports: dict[str, float]) -> list[Target]:
    what = "`import ccesa`: times the import of numpy, cryptography and msgspec"
    return [(what, imports["ratio"], 2.5, True)]


def _fields(found: dict[str, Any]) -> list[Target]:
    return [
        ("8-bit values of 1,000 clients: bytes per parameter", fields.bytes_each(found), 2.7, True),
        ("the same: mask step, times faster than with 32-bit words", found["ratio"], 1.4, False),
    ]


def _hybrid(found: dict[str, Any]) -> list[Target]:
    return [("client under the hybrid agreement: times the classical", hybrid.slower(found), 1.25, True)]


def _noise(cases: list[dict[str, Any]]) -> list[Target]:
    slowest = max(map(noise.draws_ms, cases))
    return [("a million draws of noise, the slowest case: ms", slowest, 150, True)]


def _scale(scale: dict[str, Any]) -> list[Target]:
    large = scale["servers"]["100000"]
    return [
        ("server, 100,000 clients, 1,000 words: seconds", large["cpu_s"], 8, True),
        ("the same: MB", large["memory_mb"], 1500, True),
    ]


def _cuda(found: dict[str, Any]) -> list[Target]:
    return [("a GPU: TB/s of keystream added", cuda.server_rate(found), 1.0, False)]


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
    "executor": executor.targets,
    "imports": _imports,
    "fields": _fields,
    "assisted": assisted.targets,
    "hybrid": _hybrid,
    "noise": _noise,
    "privacy": privacy.targets,
    "scale": _scale,
    "service": service.targets,
    "typescript": typescript.targets,
    "cuda": _cuda,
    "flower": _flower,
}
