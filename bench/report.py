"""docs/performance.md, written from the results."""

from typing import Any

from bench.scale import LENGTH, exponents

#: What must hold, as (name, how to read it from the results, target, whether a small number is good).
Target = tuple[str, float, float, bool]


_INTRODUCTION = """# Performance

Made by `make bench` (`python -m bench`), which writes this page and `bench/results.json`; do not edit.
Times are milliseconds and move with the machine; ratios are measured in one run and move less. The *floor*
is what the cryptographic library alone needs for the same number of X25519 agreements (from the peer's 32
bytes) and the same bytes of AES-128-CTR keystream, sampled all through the run (`bench/floor.py`)."""

_TABLE = """## The paper's running-time table

10,000 elements of 16 bits, one thread. Client steps are medians over the clients; the server is its whole
work in the round. In brackets the paper's own milliseconds, from another machine (its table of running
times); its generator is `numpy.random`, ours is AES-CTR."""


def page(results: dict[str, Any]) -> str:
    parts = [
        _INTRODUCTION,
        _machine(results["machine"]),
        "## Targets",
        _targets(targets(results)),
        _TABLE,
        _table(results["table"]),
        "## A million parameters",
        _million(results["million"]),
        "## Fields in words",
        _fields(results["fields"]),
        "## Masks ahead",
        _ahead(results["ahead"]),
        "## Exact noise",
        _noise(results["noise"]),
        "## Beside Flower's SecAgg+",
        _flower(results["flower"], results["machine"]["flwr"]),
        "## The guard `active`",
        _active(results["active"]),
        "## The hybrid agreement",
        _hybrid(results["hybrid"]),
        "## Noisy sums",
        _privacy(results["privacy"]),
        "## Wrong shares",
        _liars(results["liars"]),
        "## Importing",
        _imports(results["imports"]),
        "## Memory and scale",
        _large(results["large"]),
        "## Servers of many clients",
        _scale(results["scale"]),
    ]
    return "\n\n".join(parts) + "\n"


def targets(results: dict[str, Any]) -> list[Target]:
    watched, million, versus = results["table"][-1], results["million"], results["flower"]
    rows: list[Target] = [
        ("client, steps 1+2, n = 500, q = 0.1: times its floor", watched["client_ratio"], 1.6, True),
        ("server, n = 500, q = 0.1: times its floor", watched["server_ratio"], 2.0, True),
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
            "`import ccesa`: times the import of numpy, cryptography and msgspec",
            results["imports"]["ratio"],
            2.5,
            True,
        ),
        ("8-bit values of 1,000 clients: bytes per parameter", _each(results["fields"]), 2.7, True),
        (
            "the same: mask step, times faster than with 32-bit words",
            results["fields"]["ratio"],
            1.4,
            False,
        ),
        ("client under the hybrid agreement: times the classical", _slower(results["hybrid"]), 1.25, True),
        ("a million draws of noise, the slowest case: ms", max(map(_draws, results["noise"])), 150, True),
        *_noisy(results["privacy"]),
        (
            "server, 100,000 clients, 1,000 words: seconds",
            results["scale"]["servers"]["100000"]["cpu_s"],
            8,
            True,
        ),
        ("the same: MB", results["scale"]["servers"]["100000"]["memory_mb"], 1500, True),
    ]
    for (name, pair), least in zip(versus.items(), (300, 8, 500, 60), strict=False):
        rows.append((f"Flower's time over ours: {name}", pair["flower"] / pair["ccesa"], least, False))
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


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| | n | q | t | p | step 0 | step 1 | step 2 | step 3 | server | client / floor | server / floor |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ours = [row["client"][step] for step in ("advertise", "share", "mask", "unmask")] + [row["server"]]
        cells = [f"{mine:.1f} ({theirs:,})" for mine, theirs in zip(ours, row["paper"], strict=True)]
        head = [row["scheme"], str(row["n"]), f"{row['q']:g}", str(row["t"]), f"{row['p']:g}"]
        ratios = [f"{row['client_ratio']:.2f}", f"{row['server_ratio']:.2f}"]
        lines.append(f"| {' | '.join(head + cells + ratios)} |")
    lines.append(f"\nWork behind the last row: {rows[-1]['work']}.")
    return "\n".join(lines)


def _million(found: dict[str, float]) -> str:
    return (
        "One client, steps 1 and 2, 1,000,000 elements of 32 bits, 50 neighbours: "
        f"{found['one_thread_ms']:.1f} ms with one thread, {found['two_threads_ms']:.1f} ms with two; "
        f"floor {found['floor_ms']:.1f} ms (one thread)."
    )


def _each(found: dict[str, Any]) -> float:
    """Bytes of a mask reply for each parameter."""
    return float(found["reply_bytes"] / found["length"])


def _ahead(found: dict[str, Any]) -> str:
    ms = {name: f"{found[f'{name}_ms']:.1f}" for name in ("prepare", "ahead", "at_once")}
    return (
        f"{found['length']:,} words of 32 bits, {found['degree']:.0f} neighbours, masks with "
        f"{found['mask_degree']:.0f} of them, one thread (`bench/ahead.py`). In a series a client agrees on "
        "masks before its vector is there. Summed ahead (`SeriesClient.prepare`, "
        f"{ms['prepare']} ms while it trains), they leave {ms['ahead']} ms for the mask step: one addition, "
        f"the digest of the vector, and the message. Without that it takes {ms['at_once']} ms; in turn, "
        f"{found['ratio']:.1f} times as long."
    )


def _fields(found: dict[str, Any]) -> str:
    timed = ("words", "fields", "pack", "encode", "unpack", "decode")
    ms = {name: format(found[f"{name}_ms"], ".1f") for name in timed}
    return (
        f"{found['clients']:,} clients, the planned circle of {found['degree']:.0f} neighbours with masks on "
        f"{found['mask_degree']:.0f}, {found['length']:,} values of {found['value_bits']} bits in fields of "
        f"{found['bits']} bits, {found['per_word']} per 64-bit word (`bench/fields.py`). A mask reply has "
        f"{_each(found):.2f} bytes per parameter; Flower's SecAgg+ sends {found['flower_bytes']}. A client's "
        f"mask step takes {ms['fields']} ms, with a 32-bit word per parameter {ms['words']} ms; in turn, "
        f"with one thread, the median ratio is {found['ratio']:.2f}. Laying the numbers into words takes "
        f"{ms['pack']} of the {ms['encode']} ms of `Quantizer.encode`, reading the sum {ms['unpack']} of the "
        f"{ms['decode']} ms of `decode`."
    )


def _draws(case: dict[str, Any]) -> float:
    return float(case["draws_ms"])


def _noise(found: list[dict[str, Any]]) -> str:
    rows = ["| s | p | thresholds | tables, ms | a million draws, ms |", "|--:|--:|--:|--:|--:|"]
    rows += [
        f"| {one['deviation']:g} | {one['grid_bits']} | {one['thresholds']:,} | {one['tables_ms']:,.0f} "
        f"| {_draws(one):.0f} |"
        for one in found
    ]
    return (
        "A million draws of the discrete Gaussian with standard deviation s around numbers of a grid of step "
        "2^-p, and the tables that they come from, which are built once; processor time, one thread "
        "(`bench/noise.py`).\n\n" + "\n".join(rows)
    )


def _flower(found: dict[str, dict[str, float]], version: str) -> str:
    if not found:
        return "Not measured: flwr was not installed."
    lines = [
        f"flwr {version}: its own client mod (`flwr.client.mod`) and workflow (`flwr.server.workflow`), "
        "driven in memory by `bench/flower.py`; same neighbours, threshold and length, one process, one "
        "thread. Its elements are 64-bit integers modulo 2^32, ours are 32-bit words.\n",
        "| | flwr, ms | ccesa, ms | ratio |",
        "|---|---:|---:|---:|",
    ]
    for name, pair in found.items():
        ratio = pair["flower"] / pair["ccesa"]
        shown = f"{pair['ccesa']:.2f}" if pair["ccesa"] >= 1 else f"{pair['ccesa']:.3f}"
        lines.append(f"| {name} | {pair['flower']:,.0f} | {shown} | {ratio:,.0f} |")
    return "\n".join(lines)


def _active(found: dict[str, Any]) -> str:
    moved = {guard: sum(ways.values()) for guard, ways in found["bytes"].items()}
    return (
        f"{found['clients']:,} clients, {found['length']:,} elements, the planned circle of "
        f"{found['degree']} neighbours (t = {found['t']}), masks on every edge; "
        "both guards in one run, nobody drops out.\n\n"
        "| | curious | active |\n|---|---:|---:|\n"
        f"| client, ms | {found['client_ms']['curious']:.1f} | {found['client_ms']['active']:.1f} |\n"
        f"| server, ms | {found['server_ms']['curious']:,.0f} | {found['server_ms']['active']:,.0f} |\n"
        f"| client, bytes sent and received | {moved['curious']:,.0f} | {moved['active']:,.0f} |\n\n"
        f"The client's extra time is {found['extra_ratio']:.2f} times its floor of {2 * found['degree']} "
        f"Ed25519 verifications ({found['verification_ms'] * 1e3:.0f} µs each): one for "
        "each neighbour's keys, one for each neighbour's word on who survived."
    )


def _slower(found: dict[str, Any]) -> float:
    """How much longer a client takes under the hybrid agreement."""
    return found["x25519-mlkem768"]["client_ms"] / found["x25519"]["client_ms"]


def _hybrid(found: dict[str, Any]) -> str:
    rows = ["| | client, ms | sent beside the vector, bytes | received, bytes |", "|---|---:|---:|---:|"]
    rows += [
        f"| `{name}` | {one['client_ms']:.1f} | {one['sent_bytes']:,} | {one['received_bytes']:,} |"
        for name, one in found.items()
    ]
    return (
        "One client through all steps with *accept*, 38 neighbours, 18 masks, a million words of 32 bits, "
        "one thread; processor time, medians of 60 clients, the agreements in turn (`bench/hybrid.py`). The "
        f"hybrid takes {_slower(found):.2f} times as long.\n\n" + "\n".join(rows)
    )


def _noisy(found: dict[str, Any]) -> list[Target]:
    over = "noise in a sum over a trusted curator's"
    return [
        (f"{over}: {found['clients']:,} clients, a tenth drop out", found["follows"], 1.08, True),
        (f"{over}: the same, nobody drops out", found["all_stay"], 1.14, True),
        (f"{over}: the server may lie, {found['clients']:,} clients", found["lies"], 1.10, True),
        (f"{over}: the server may lie, {found['few']} clients", found["few_lies"], 1.25, True),
        ("noise: a client with a million parameters, seconds", found["client_ms"] / 1e3, 0.5, True),
        ("noise: upload, bytes per parameter", found["bytes_each"], 1.6, True),
    ]


def _privacy(found: dict[str, Any]) -> str:
    return (
        f"ε = {found['epsilon']:g}, δ = {found['delta']:g}, {found['rounds']} rounds; a tenth drop out, a "
        f"twentieth collude (`bench/privacy.py`). Clipping, rotating, rounding, checking and drawing of a "
        f"million parameters together take {found['client_ms']:.0f} ms of processor time, with numpy alone "
        f"and one thread. With {found['clients']:,} clients, of whom {found['honest']} are counted on, "
        f"fields have {found['field_bits']} bits, and a mask reply over "
        f"2^20 parameters has {found['bytes_each']:.2f} bytes for each. The standard deviation of the noise "
        f"in a sum of all survivors' real vectors, {found['dimension']:,} parameters (2^20 with "
        f"{found['few']} clients), over what a trusted curator adds to the same sum, tightly accounted:\n\n"
        "| | honest | measured |\n|---|--:|--:|\n"
        f"| {found['clients']:,} clients, the server follows | {found['honest']} | {found['follows']:.3f} |\n"
        f"| the same, nobody drops out | {found['honest']} | {found['all_stay']:.3f} |\n"
        f"| {found['clients']:,} clients, complete graph, the server may lie | {found['lies_honest']} "
        f"| {found['lies']:.3f} |\n"
        f"| {found['few']} clients, complete graph, the server may lie | {found['few_honest']} "
        f"| {found['few_lies']:.3f} |\n\n"
        f"A vector as long as the norm keeps {100 * found['kept']:.1f} % of its length: the rest is room for "
        "rounding."
    )


def _liars(found: dict[str, Any]) -> str:
    return (
        f"To find the wrong shares of one secret, medians of {found['cases']} cases with 20 to 200 holders "
        f"(`bench/liars.py`): {found['combined_ms']:.2f} ms from two random combinations of its 16 elements, "
        f"{found['by_columns_ms']:.0f} ms element by element (`bench/columns.py`). The median ratio is "
        f"1 : {1 / found['ratio']:.0f}."
    )


def _imports(found: dict[str, float]) -> str:
    return (
        f"`import ccesa` takes {found['ccesa_ms']:.0f} ms in a fresh interpreter; the parts of numpy, "
        f"cryptography and msgspec that it uses take {found['libraries_ms']:.0f} ms, measured in turn "
        "(`bench/imports.py`). Servers, series, the planner and the command line are loaded when used."
    )


def _scale(found: dict[str, Any]) -> str:
    servers = sorted(found["servers"].values(), key=lambda one: int(one["clients"]))
    time, memory = exponents(found["servers"])
    lines = [
        f"The server alone, in a process of its own, {LENGTH:,} words, a planned circle, a tenth drop out "
        "over the round (`bench/scale.py`). Clients are stand-ins (`bench/stand_ins.py`) with real keys and "
        "shares and real masks of whoever drops out: every sum below is compared with the plain one. Memory "
        "is the peak beyond a server that has not been opened.\n",
        "| clients | neighbours | exact | requests, s | receiving, s | closing, s | in all, s | MB |",
        "|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for one in servers:
        part = {name: _sum_of(one["seconds"], name) for name in ("requests", "receive", "close")}
        lines.append(
            f"| {one['clients']:,} | {one['degree']:.0f} | {'yes' if one['exact'] else 'no'} "
            f"| {part['requests']:.2f} | {part['receive']:.2f} | {part['close']:.2f} "
            f"| {one['cpu_s']:.2f} | {one['memory_mb']:,.0f} |"
        )
    lines += [
        f"\nFrom 10,000 clients on time grows as n^{time:.2f} and memory as n^{memory:.2f}; neighbours grow "
        "with log n besides.\n",
        "![growth of a server](../bench/scale.png)\n",
        _crowd(found["crowd"]),
    ]
    return "\n".join(lines)


def _sum_of(seconds: dict[str, float], name: str) -> float:
    return sum(value for what, value in seconds.items() if what.startswith(name))


def _crowd(found: dict[str, Any]) -> str:
    names = ("share", "mask", "confirm", "unmask")
    rows = [
        f"| {int(size):,} | "
        + " | ".join(f"{one[name]:.2f}" for name in names)
        + f" | {sum(one.values()):.2f} |"
        for size, one in found["clients"].items()
    ]
    return (
        f"One client of the guard `active` with {found['degree']} neighbours and {found['length']:,} words, "
        "in milliseconds of processor time (`bench/crowd.py`): the crowd costs it the sets V1, V2 and V3, a "
        "bit for each client, and the circle on which it finds its neighbours.\n\n"
        "| clients | share | mask | confirm | unmask | in all |\n|--:|--:|--:|--:|--:|--:|\n"
        + "\n".join(rows)
    )


def _large(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "`ccesa simulate`, all clients and the server in one process, two threads.\n",
        "| | outcome | exact | seconds | peak memory, MB | server, ms | options |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for name, one in found.items():
        lines.append(
            f"| {name} | {one['outcome']} | {'yes' if one['exact'] else 'no'} | {one['seconds']:.0f} "
            f"| {one['peak_rss_mb']:.0f} | {one['server_ms']:,.0f} | `{one['options']}` |"
        )
    return "\n".join(lines)
