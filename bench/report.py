"""docs/performance.md, written from the results."""

from collections.abc import Callable
from typing import Any

from bench import flower, kernels, targets
from bench.scale import LENGTH, exponents

_INTRODUCTION = """# Performance

Made by `make bench` (`python -m bench`), which writes this page and `bench/results.json`; do not edit.
Times are milliseconds and move with the machine; ratios are measured in one run and move less. The *floor*
is what the cryptographic library alone needs for the same number of X25519 agreements (from the peer's 32
bytes) and the same bytes of AES-128-CTR keystream, sampled all through the run (`bench/floor.py`)."""


def page(results: dict[str, Any]) -> str:
    """Return the page, as far as there are results: each part can be measured by itself."""
    parts = [_INTRODUCTION, _machine(results["machine"]), "## Targets", targets.table(results)]
    for heading, name, section in SECTIONS:
        parts.append(f"## {heading}")
        try:
            parts.append(section(results[name]))
        except KeyError:  # was not measured, or by a bench that did not measure all of it
            parts.append(f"Not measured, or not all of it: `python -m bench --only {name}` does.")
    return "\n\n".join(parts) + "\n"


def _machine(machine: dict[str, str]) -> str:
    parts = [f"{name} {value}" for name, value in machine.items() if name != "processor" and value]
    return f"Machine: {machine['processor']}. Versions: {', '.join(parts)}."


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "10,000 elements of 16 bits, one thread. Client steps are medians over the clients; the server is "
        "its whole work in the round. In brackets the paper's own milliseconds, from another machine (its "
        "table of running times); its generator is `numpy.random`, ours is AES-CTR.\n",
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


def _server(found: dict[str, Any]) -> str:
    spent, least, work = found["server_ms"], found["floor_ms"], found["work"]
    rows = [
        f"| {name} | {spent[part]:,.0f} | {what} | {sum(least[one] for one in floor):,.0f} |"
        for name, part, what, floor in (
            ("taking in the vectors", "vectors", f"{work['addition']:,} additions", ["addition"]),
            (
                "unmasking",
                "unmasking",
                f"{work['keystream']:,} keystreams, {work['agreement']:,} agreements",
                ["keystream", "agreement"],
            ),
            ("all other messages and steps", "the rest", "", []),
        )
    ]
    ms = {guard: f"{found['client_ms'][guard]:.1f}" for guard in ("curious", "active")}
    least = found["client_limit_ms"]
    bare = f", of which bare instructions for its keystream would take {least:.1f}" if least else ""
    return (
        f"{found['clients']:,} clients, the planned circle of {found['degree']:.0f} neighbours with masks on "
        f"{found['mask_degree']:.0f}, {found['length']:,} words of 32 bits, a tenth of the clients lost on "
        f"the way, {found['survivors']} in the sum; one thread, processor time, kernel {found['kernel']} "
        "(`bench/server.py`). The floor is the keystreams that have to be added, by the same kernel, the "
        "agreements by the library, and one addition per vector, sampled between the replies. The server "
        f"takes {found['ratio']:.2f} times its floor.\n\n"
        "| | server, ms | floor | floor, ms |\n|---|---:|---|---:|\n" + "\n".join(rows) + "\n\n"
        f"A client of that round takes {ms['curious']} ms for all its steps{bare}; under `active`, masks "
        f"run on all {found['degree']:.0f} edges and every signature checked, {ms['active']} ms."
    )


def _threads(found: dict[str, Any]) -> str:
    rows = [
        f"| {int(length):,} | {one['one_ms']:.2f} | {one['two_ms']:.2f} | {one['ratio']:.2f} |"
        for length, one in found["lengths"].items()
    ]
    return (
        f"{found['masks']} masks on words of 32 bits, `threads=1` and `threads=2` in turn "
        "(`bench/threads.py`). A number of threads is the most that work: a short vector has one in any "
        f"case. With a second thread keystreams are {found['keystreams_gain']:.2f} times as fast, and X25519 "
        f"agreements {found['agreements_gain']:.2f} times.\n\n"
        "| words | one, ms | two, ms | two / one |\n|--:|--:|--:|--:|\n" + "\n".join(rows)
    )


def _executor(found: dict[str, Any]) -> str:
    rows = [
        f"| {row['executor']} | {row['kernel']} | {row['length']:,} | {row['alone_s']:.2f} "
        f"| {row['one_s']:.2f} | {row['two_s']:.2f} | {row['gain']:.2f} |"
        for row in found["rows"]
    ]
    return (
        f"`Server(executor=...)`: {found['masks']:,} masks come off a sum of 32-bit words, as many as with "
        "1,000 clients at the planned degree, a tenth of whom drop out. Seconds by the clock, everything on "
        "this machine, one thread each; *alone* is the server without an executor (`bench/executor.py`). The "
        "last column is one worker over two.\n\n"
        "| executor | kernel | words | alone, s | one worker, s | two, s | gain |\n"
        "|---|---|--:|--:|--:|--:|--:|\n" + "\n".join(rows)
    )


def _ahead(found: dict[str, Any]) -> str:
    ms = {name: f"{found[f'{name}_ms']:.1f}" for name in ("prepare", "ahead", "at_once")}
    return (
        f"{found['length']:,} words of 32 bits, {found['degree']:.0f} neighbours, masks with "
        f"{found['mask_degree']:.0f} of them, one thread (`bench/ahead.py`). In a series a client agrees on "
        "masks before its vector is there. Summed ahead (`SeriesClient.prepare`, "
        f"{ms['prepare']} ms while it trains), they leave {ms['ahead']} ms for the mask step: one addition, "
        f"the tag of the vector, and the message. Without that it takes {ms['at_once']} ms; in turn, "
        f"{found['ratio']:.1f} times as long."
    )


def _fields(found: dict[str, Any]) -> str:
    ms = {name: format(found[f"{name}_ms"], ".1f") for name in ("words", "fields")}
    ms |= {name: _compiled(found[f"{name}_ms"], 1) for name in ("pack", "encode", "unpack", "decode")}
    each = targets.bytes_each(found)
    return (
        f"{found['clients']:,} clients, the planned circle of {found['degree']:.0f} neighbours with masks on "
        f"{found['mask_degree']:.0f}, {found['length']:,} values of {found['value_bits']} bits in fields of "
        f"{found['bits']} bits, {found['per_word']} per 64-bit word (`bench/fields.py`). A mask reply has "
        f"{each:.2f} bytes per parameter; Flower's SecAgg+ sends {found['flower_bytes']}. A client's "
        f"mask step takes {ms['fields']} ms, with a 32-bit word per parameter {ms['words']} ms; in turn, "
        f"with one thread, the median ratio is {found['ratio']:.2f}. In processor time, compiled (with numpy "
        f"alone), laying the numbers into words takes {ms['pack']} of the {ms['encode']} ms of "
        f"`Quantizer.encode`, reading the sum {ms['unpack']} of the {ms['decode']} ms of `decode`."
    )


def _compiled(ms: dict[str, float], digits: int) -> str:
    """Both of them: compiled, and with numpy alone."""
    first = f"{ms['native']:.{digits}f}" if "native" in ms else "–"
    return f"{first} ({ms['pure']:.{digits}f})"


def _noise(found: list[dict[str, Any]]) -> str:
    rows = [
        "| s | p | thresholds | tables, ms | a million draws, ms (with numpy alone) |",
        "|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {one['deviation']:g} | {one['grid_bits']} | {one['thresholds']:,} | {one['tables_ms']:,.0f} "
        f"| {_compiled(one['draws_ms'], 0)} |"
        for one in found
    ]
    return (
        "A million draws of the discrete Gaussian with standard deviation s around numbers of a grid of step "
        "2^-p, and the tables that they come from, which are built once; processor time, one thread "
        "(`bench/noise.py`).\n\n" + "\n".join(rows)
    )


def _flower(found: dict[str, dict[str, float]]) -> str:
    if not found:
        return "Not measured: flwr was not installed."
    lines = [
        f"flwr {flower.VERSION}: its own client mod (`flwr.client.mod`) and workflow "
        "(`flwr.server.workflow`), driven in memory by `bench/flower.py`; same neighbours, threshold and "
        "length, one process, one "
        "thread. Its elements are 64-bit integers modulo 2^32, ours are 32-bit words. Both take turns "
        "(`bench/versus.py`); processor time, medians, and the lowest and the highest ratio of all turns. "
        "By the clock ours uses a second core, as it does by default; Flower's code has one thread.\n",
        "| | turns | flwr, ms | ccesa, ms | ratio | lowest to highest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, one in found.items():
        ours = f"{one['ccesa']:.2f}" if one["ccesa"] >= 1 else f"{one['ccesa']:.3f}"
        lines.append(
            f"| {name} | {one['turns']:.0f} | {one['flower']:,.0f} | {ours} | {one['ratio']:,.0f} "
            f"| {one['lowest']:,.0f} to {one['highest']:,.0f} |"
        )
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


def _hybrid(found: dict[str, Any]) -> str:
    rows = ["| | client, ms | sent beside the vector, bytes | received, bytes |", "|---|---:|---:|---:|"]
    rows += [
        f"| `{name}` | {one['client_ms']:.1f} | {one['sent_bytes']:,} | {one['received_bytes']:,} |"
        for name, one in found.items()
    ]
    return (
        "One client through all steps with *accept*, 38 neighbours, 18 masks, a million words of 32 bits, "
        "one thread; processor time, medians of 60 clients, the agreements in turn (`bench/hybrid.py`). The "
        f"hybrid takes {targets.slower(found):.2f} times as long.\n\n" + "\n".join(rows)
    )


def _cuda(found: dict[str, Any]) -> str:
    by_bits = ", ".join(f"{rate:.2f} with {bits} bits" for bits, rate in found["bits"].items())
    by_masks = ", ".join(f"{rate:.2f} with {count}" for count, rate in found["masks"].items())
    return (
        f"ChaCha20 on one {found['device']} (`bench/cuda.py` needs a GPU and writes `bench/cuda.json`; this "
        f"page reads it). TB/s of keystream added to {found['length']:,} words of 32 bits on the "
        f"device, by the number of masks: {by_masks}. By the size of a word, {found['server']:,} masks: "
        f"{by_bits}. A copy on the device moves {found['copy_tb']:.1f} TB/s, read and written: additions "
        f"are bound by arithmetic. {found['server']:,} masks taken off a vector of the host, both copies "
        f"included: {found['host_seconds']:.2f} s."
    )


def _privacy(found: dict[str, Any]) -> str:
    return (
        f"ε = {found['epsilon']:g}, δ = {found['delta']:g}, {found['rounds']} rounds; a tenth drop out, a "
        f"twentieth collude (`bench/privacy.py`). Clipping, rotating, rounding, checking and drawing of a "
        f"million parameters together take {_compiled(found['client_ms'], 0)} ms of processor time, compiled "
        f"(with numpy alone), one thread; the mean of a sum {_compiled(found['mean_ms'], 0)} ms. "
        f"With {found['clients']:,} clients, of whom {found['honest']} are counted on, "
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


#: The page in its order: headings, the parts of the results that they are about, and who writes on these.
SECTIONS: list[tuple[str, str, Callable[[Any], str]]] = [
    ("The paper's running-time table", "table", _table),
    ("A million parameters", "million", _million),
    ("Kernels", "kernels", kernels.text),
    ("A server with large vectors", "server", _server),
    ("Threads", "threads", _threads),
    ("Many processes and machines", "executor", _executor),
    ("Fields in words", "fields", _fields),
    ("Masks ahead", "ahead", _ahead),
    ("Exact noise", "noise", _noise),
    ("Beside Flower's SecAgg+", "flower", _flower),
    ("The guard `active`", "active", _active),
    ("The hybrid agreement", "hybrid", _hybrid),
    ("Noisy sums", "privacy", _privacy),
    ("On a GPU", "cuda", _cuda),
    ("Wrong shares", "liars", _liars),
    ("Importing", "imports", _imports),
    ("Memory and scale", "large", _large),
    ("Servers of many clients", "scale", _scale),
]
