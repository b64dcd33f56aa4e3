"""The table of claims: each with its number, read from the results, and the command behind it.

``python -m bench.claims`` writes all of them into docs/claims.md, and five into the README; ``python -m
bench`` does so by itself.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from attacks.registry import ATTACKS
from ccesa.guards import guard_named
from ccesa.plan import plan
from ccesa.plan.report import bill
from ccesa.protocol.steps import steps_under

ROOT = Path(__file__).parent.parent
#: Which page has which claims: all, or those of the front page.
PAGES = {ROOT / "docs" / "claims.md": False, ROOT / "README.md": True}
#: What is between these two lines of a page is written by this file.
BEGIN, END = "<!-- claims: written by python -m bench.claims -->", "<!-- claims end -->"


class Results(NamedTuple):
    """What was measured: by the bench, and by the parts of experiments/, which are read when asked for."""

    bench: dict[str, Any]

    def of(self, part: str) -> Any:
        """Return the results of a part of experiments/."""
        return json.loads((ROOT / "experiments" / part / "results.json").read_text(encoding="utf-8"))


def kept() -> Results:
    return Results(json.loads((ROOT / "bench" / "results.json").read_text(encoding="utf-8")))


class Claim(NamedTuple):
    """What is claimed, the number that was found, and the commands that find it again."""

    what: str
    found: Callable[[Results], str]
    commands: tuple[str, ...]
    #: Whether it is also on the front page.
    front: bool = False


def _paper_client(results: Results) -> str:
    row = results.bench["table"][-1]
    ours, theirs = row["client"]["share"] + row["client"]["mask"], sum(row["paper"][1:3]) / 1000
    return f"{ours:.0f} ms, {row['client_ratio']:.1f} times the bare primitives; the paper: {theirs:.0f} s"


def _paper_server(results: Results) -> str:
    row = results.bench["table"][-1]
    ours, theirs = row["server"] / 1000, row["paper"][4] / 1000
    return f"{ours:.2f} s, {row['server_ratio']:.1f} times the bare primitives; the paper: {theirs:.0f} s"


def _large_client(results: Results) -> str:
    found = results.bench["server"]
    ours = found["client_ms"]["curious"]
    return f"{ours:.0f} ms, {ours / found['client_limit_ms']:.1f} times the bare AES instructions for its masks"


def _large_server(results: Results) -> str:
    found = results.bench["server"]
    ours = sum(found["server_ms"].values()) / 1000
    return f"{ours:.1f} s, {found['ratio']:.1f} times additions, keystreams and agreements alone"


def _flower(results: Results) -> str:
    found = {name.partition(" ")[0]: one for name, one in results.bench["flower"].items()}
    whole = found["whole"]
    return (
        f"a whole round {whole['ratio']:.0f} times less ({whole['lowest']:.0f} to {whole['highest']:.0f}), "
        f"masking {found['masking']['ratio']:.0f}, sharing {found['sharing']['ratio']:,.0f}, "
        f"rebuilding a secret {found['rebuilding']['ratio']:,.0f}"
    )


def _one_process(results: Results) -> str:
    both = results.bench["large"].values()
    return "; ".join(f"{one['seconds']:.0f} s and {one['peak_rss_mb']:.0f} MB" for one in both)


def _scale(results: Results) -> str:
    servers = (results.bench["scale"]["servers"][many] for many in ("100000", "1000000"))
    return "; ".join(f"{one['cpu_s']:.0f} s and {one['memory_mb'] / 1000:.1f} GB" for one in servers)


def _service(results: Results) -> str:
    found = results.bench["service"]["runs"]["large"]
    fewest, memory = min(found["survivors"]), found["hubs"][0]["peak_mb"]
    rounds, seconds = len(found["survivors"]), found["wall_s"]
    return f"{rounds} rounds in {seconds:.0f} s, {fewest:,} sites in each sum, {memory:.0f} MB at the hub"


def _gpu(results: Results) -> str:
    found = results.of("cifar_masked")
    seconds, exact = found["median_seconds"]["masked"], "every" if found["all_exact"] else "NOT EVERY"
    return f"{seconds:.1f} s per round, {found['ratio']:.1f} times the same without masks; {exact} sum exact"


def _bytes(results: Results) -> str:
    def extra(clients: int) -> Iterator[str]:
        made = plan(clients, dropout=0.1)
        for cost in filter(None, bill(made)):
            many = cost.sent_bytes + cost.received_bytes - made.shape.vector_bytes
            yield f"{many / 1e6:.2g} MB" if many >= 1e6 else f"{many / 1e3:.0f} kB"

    ours, rule, everyone = (" and ".join(pair) for pair in zip(extra(1000), extra(100_000), strict=True))
    return f"{ours}; the paper's rule: {rule}; everyone with everyone: {everyone}"


def _fields(results: Results) -> str:
    found, version = results.bench["fields"], results.bench["machine"]["flwr"]
    return f"{found['bytes_each']:.2f} bytes; Flower {version}'s SecAgg+: {found['flower_bytes']}"


def _exchanges(results: Results) -> str:
    series = [guard_named(guard).stride for guard in ("curious", "active")]
    alone = [len(steps_under(guard)) for guard in ("curious", "active")]
    return f"{series[0]} and {series[1]}, instead of {alone[0]} and {alone[1]}"


def _certificate(results: Results) -> str:
    made = plan(1000, dropout=0.1)
    private, lost = map(math.ceil, (made.certificate.privacy(made.guard), made.certificate.unreliable))
    return f"{made.degree:.0f}; not private with at most 2^{private}, lost with at most 2^{lost}"


def _noise(results: Results) -> str:
    found = results.bench["privacy"]
    times, each = found["follows"], found["bytes_each"]
    return f"{times:.2f} times the noise of a trusted curator, {each:.2f} bytes per parameter"


def _accuracy(results: Results) -> str:
    found = results.of("privacy/accuracy")["summary"]["1000"]
    noisy, plain = 100 * found["1"]["distributed"], 100 * found["inf"]["accuracy"]
    return f"{noisy:.1f} % at ε = 1; {plain:.1f} % without noise"


def _attacks(results: Results) -> str:
    every = [one.number[0] for one in ATTACKS.values()]
    servers, clients, data, helped = map(every.count, "SCDH")
    by = f"{servers} by a server, {clients} by clients, {data} on one site's data, {helped} on rounds with helpers"
    return f"{len(every)}: {by}"


def _vectors(results: Results) -> str:
    rows = _numbers("clients/typescript/README.md", r"^\| `\w+\.json` \| (\d+) \|")
    return f"{len(rows)} files, {sum(rows):,} cases"


def _mixed(results: Results) -> str:
    (rounds,) = _numbers("tests/typescript/test_ts_mixed_rounds.py", r"^FEW, MANY = \d+, (\d+)$")
    return f"{rounds} mixed rounds"


def _hostile(results: Results) -> str:
    (rounds,) = _numbers("tests/protocol/test_stateful.py", r'"ADVERSARIAL_ROUNDS", "(\d+)"')
    return f"{rounds:,} rounds"


def _numbers(path: str, pattern: str) -> list[int]:
    """Return the numbers that a file of the repository says."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return [int(number) for number in re.findall(pattern, text, re.MULTILINE)]


def _bench(*parts: str) -> tuple[str, ...]:
    return tuple(f"python -m bench --only {part}" for part in parts)


CLAIMS = (
    Claim(
        "A client in the paper's running-time table, n = 500, a tenth dropping out, steps 1 and 2",
        _paper_client,
        _bench("table"),
    ),
    Claim("The server of that round, every share checked", _paper_server, _bench("table")),
    Claim(
        "A client with 1,000,000 words among 1,000 planned clients, all steps",
        _large_client,
        _bench("server"),
        front=True,
    ),
    Claim("The server of that round, a tenth dropping out", _large_server, _bench("server")),
    Claim(
        "Processor time beside Flower {flwr}'s SecAgg+: same neighbours, threshold, length",
        _flower,
        _bench("flower"),
        front=True,
    ),
    Claim("All in one process: 1,000 clients of 1,000,000 parameters; 10,000 of 1,000", _one_process, _bench("large")),
    Claim("The server alone, 1,000 parameters: 100,000 clients; a million", _scale, _bench("scale", "million-clients")),
    Claim("A hub over HTTP with 1,000 sites of 100,000 words", _service, _bench("service")),
    Claim(
        "CIFAR-10 on one H200: 1,000 clients of 9.2 million parameters, every mask real",
        _gpu,
        ("make reproduce ONLY=cifar_masked",),
    ),
    Claim(
        "Bytes per client on top of its vector, 1,000 clients and 100,000",
        _bytes,
        ("make pictures", "ccesa plan --clients 100000 --dropout 0.1"),
        front=True,
    ),
    Claim("Bytes for a value of 8 bits, 1,000 clients", _fields, _bench("fields")),
    Claim(
        "Exchanges per round of a series, `curious` and `active`",
        _exchanges,
        ("python -m pytest tests/protocol/test_series.py",),
    ),
    Claim(
        "Neighbours for 1,000 clients, a tenth dropping out, and what they promise",
        _certificate,
        ("ccesa plan --clients 1000 --dropout 0.1",),
    ),
    Claim("Differential privacy, 1,000 clients of whom a twentieth collude, ε = 8", _noise, _bench("privacy")),
    Claim("Accuracy on digits, 1,000 clients, 20 rounds", _accuracy, ("make reproduce ONLY=privacy/accuracy",)),
    Claim(
        "Attacks to run: each fails, and succeeds with its defence taken away",
        _attacks,
        ("make attack", "make attack NAME=split-view DEFENCE=off"),
        front=True,
    ),
    Claim("A second client, in TypeScript, in the same rounds as ours", _mixed, ("make test-typescript",), front=True),
    Claim(
        "Test vectors for a client, good and bad",
        _vectors,
        ("python vectors/make.py --check", "python -m pytest tests/typescript/test_ts_vectors.py"),
    ),
    Claim("A hostile network: the right sum or a failure by name", _hostile, ("make test-adversarial",)),
)


def table(results: Results, *, front: bool = False) -> str:
    """Return the table in Markdown, of all claims or of those of the front page."""
    lines = ["| claim | found | again with |", "|---|---|---|"]
    for claim in CLAIMS:
        if front and not claim.front:
            continue
        commands = "<br>".join(f"`{command}`" for command in claim.commands)
        what = claim.what.format(flwr=results.bench["machine"]["flwr"])
        lines.append(f"| {what} | {_found(claim, results)} | {commands} |")
    return "\n".join(lines)


def _found(claim: Claim, results: Results) -> str:
    try:
        return claim.found(results)
    except (KeyError, ValueError):  # nobody measured it, or a bench did that measured less
        return "not measured yet"


def page(text: str, results: Results, *, front: bool = False) -> str:
    """Return the page with the table as it is now; ValueError where it has no place for one."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table(results, front=front)}\n\n{END}{after}"


def write() -> None:
    """Write the claims into both pages."""
    for path, front in PAGES.items():
        path.write_text(page(path.read_text(encoding="utf-8"), kept(), front=front), encoding="utf-8")


if __name__ == "__main__":
    write()
