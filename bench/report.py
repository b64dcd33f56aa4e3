"""docs/performance.md, written from the results."""

from typing import Any

from bench import cuda, executor, fields, hybrid, kernels, noise, privacy, server
from bench.parts import PARTS
from bench.versus import LEAST

#: What must hold: its name, what was measured, what is to be reached, and whether a small number is good.
Target = tuple[str, float, float, bool]

_INTRODUCTION = """# Performance

Made by `make bench` (`python -m bench`), which writes this page and `bench/results.json`; do not edit.
Times are milliseconds and move with the machine; ratios are measured in one run and move less. The *floor*
is what the cryptographic library alone needs for the same number of X25519 agreements (from the peer's 32
bytes) and the same bytes of AES-128-CTR keystream, sampled all through the run (`bench/floor.py`)."""


def page(results: dict[str, Any]) -> str:
    """Return the page: the targets, and a section for each part."""
    sections = [
        _INTRODUCTION,
        _machine(results["machine"]),
        "## Targets",
        _targets(targets(results)),
    ]
    for name, part in PARTS.items():
        sections += [f"## {part.title}", part.text(results[name])]
    return "\n\n".join(sections) + "\n"


def targets(results: dict[str, Any]) -> list[Target]:
    watched, million, versus = results["table"][-1], results["million"], results["flower"]
    rows: list[Target] = [
        ("client, steps 1+2, n = 500, q = 0.1: times its floor", watched["client_ratio"], 1.6, True),
        ("server, n = 500, q = 0.1: times its floor", watched["server_ratio"], 2.0, True),
        ("server, n = 1,000, a million words: times its floor", results["server"]["ratio"], 2.0, True),
        (
            "client, steps 1+2, a million parameters, 50 neighbours: times its floor",
            million["one_thread_ms"] / million["floor_ms"],
            1.5,
            True,
        ),
        (
            "the same with two threads: times faster",
            million["one_thread_ms"] / million["two_threads_ms"],
            1.7,
            False,
        ),
        (
            "masking 10,000 words with two threads allowed: times one thread",
            results["threads"]["lengths"]["10000"]["ratio"],
            1.05,
            True,
        ),
        (
            "masking a million words: times faster with two threads",
            1 / results["threads"]["lengths"]["1000000"]["ratio"],
            1.7,
            False,
        ),
        *kernels.targets(results["kernels"]),
        *server.whole_client(results["server"]),
        *executor.targets(results["executor"]),
        (
            "`import ccesa`: times the import of numpy, cryptography and msgspec",
            results["imports"]["ratio"],
            2.5,
            True,
        ),
        (
            "8-bit values of 1,000 clients: bytes per parameter",
            fields.bytes_each(results["fields"]),
            2.7,
            True,
        ),
        (
            "the same: mask step, times faster than with 32-bit words",
            results["fields"]["ratio"],
            1.4,
            False,
        ),
        (
            "client under the hybrid agreement: times the classical",
            hybrid.slower(results["hybrid"]),
            1.25,
            True,
        ),
        (
            "a million draws of noise, the slowest case: ms",
            max(map(noise.draws_ms, results["noise"])),
            150,
            True,
        ),
        *privacy.targets(results["privacy"]),
        (
            "server, 100,000 clients, 1,000 words: seconds",
            results["scale"]["servers"]["100000"]["cpu_s"],
            8,
            True,
        ),
        ("the same: MB", results["scale"]["servers"]["100000"]["memory_mb"], 1500, True),
        ("a GPU: TB/s of keystream added", cuda.server_rate(results["cuda"]), 1.0, False),
    ]
    for name, found in versus.items():
        rows.append((f"Flower's time over ours: {name}", found["ratio"], LEAST[name], False))
    return rows


def _machine(machine: dict[str, str]) -> str:
    parts = [f"{name} {value}" for name, value in machine.items() if name != "processor" and value]
    return f"Machine: {machine['processor']}. Versions: {', '.join(parts)}."


def _targets(rows: list[Target]) -> str:
    lines = ["| what | measured | to reach |", "|---|---:|---:|"]
    for name, value, wanted, small in rows:
        met = value <= wanted if small else value >= wanted
        sign = "at most" if small else "at least"
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
        lines.append(f"| {name} | {shown}{'' if met else ' (missed)'} | {sign} {wanted:g} |")
    return "\n".join(lines)
