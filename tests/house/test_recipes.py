"""The five recipes of CONTRIBUTING.md touch the files that their tables name."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ccesa"
#: What a recipe's files mention today. Its table names every file of the other two implementations that does.
MENTIONED = {
    "A family of assignment graphs": r"erdos-renyi",
    "A generator": r"chacha20",
    "A guard": r'"(active|assisted)"',
    "A field of a message": r'"advertise-reply"',
}
#: What is there for each name that a recipe leaves open. One of them has each file.
EXAMPLES = {"<family>": ["harary"], "<guard>": ["active", "assisted"]}

FAMILY = '''
"""A toy: a circle like Harary's, drawn from the seed read backwards."""

import numpy as np

from ccesa.graphs.kinds import circle_distance, circle_positions, every_pair, others
from ccesa.graphs.kinds import Kind, Ladder


class Backwards(Kind, frozen=True, kw_only=True, tag="backwards"):
    degree: int

    def max_degree(self, clients):
        return min(self.degree, clients - 1)

    def edges(self, seed, ids):
        for low, high in every_pair(ids.size):
            near = self._near(seed, ids, low, high)
            yield low[near], high[near], np.ones(np.count_nonzero(near), bool)

    def neighbours(self, seed, ids, node):
        rest, low, high = others(ids.size, node)
        return rest[self._near(seed, ids, low, high)]

    def _near(self, seed, ids, low, high):
        return circle_distance(circle_positions(seed[::-1], ids.size), low, high) <= self.degree // 2

    def degrees(self, clients):
        from ccesa.graphs.harary_risks import EqualDegrees

        return EqualDegrees(self.max_degree(clients))

    def masks(self, clients):
        from ccesa.graphs.harary_risks import CircleMasks

        return CircleMasks(self.max_degree(clients))

    @classmethod
    def candidates(cls, clients):
        return Ladder((clients - 2) // 2, lambda half: cls(degree=2 * half))
'''

ROUNDS_WITH_THE_FAMILY = """
import numpy as np
from ccesa import RoundConfig, plan
from ccesa.graphs import NAMES
from ccesa.graphs.assignment import draw
from ccesa.graphs.backwards import Backwards
from ccesa.simulate import Independent, federate, simulate

assert NAMES[-1] == "backwards"
kind, seed, ids = Backwards(degree=6), bytes(range(32)), np.arange(20)
graph = draw(kind, seed, ids)
assert all(np.array_equal(kind.neighbours(seed, ids, i), graph.neighbours(i)) for i in range(20))
config = RoundConfig(clients=20, length=50, graph=kind)
assert RoundConfig.decode(config.encode()) == config
assert simulate(config, dropout=Independent(0.05), seed=1).exact
federation = federate(20, graph=kind)
assert simulate(federation.charter.config(length=50), federation=federation, seed=1).exact
for guard in ("curious", "active"):
    toy, circle = (plan.plan(300, 0.1, guard=guard, graph=name) for name in ("backwards", "harary"))
    assert (toy.graph.degree, toy.threshold) == (circle.graph.degree, circle.threshold)
    assert toy.certificate.unreliable == circle.certificate.unreliable
    assert toy.is_private
    assert not toy.shortfalls
"""

GENERATOR = '''

def aes256_ctr(key: bytes, block: int) -> Stream:
    """Return the AES-256-CTR keystream from its 16-byte block number ``block`` on."""
    return Cipher(algorithms.AES256(key), _counter(block)).encryptor()
'''

ROUNDS_WITH_THE_GENERATOR = """
from ccesa import RoundConfig
from ccesa.simulate import Independent, federate, simulate

config = RoundConfig(clients=10, length=1000, generator="aes256-ctr")
assert RoundConfig.decode(config.encode()) == config
assert simulate(config, dropout=Independent(0.1), seed=2).exact
federation = federate(10, generator="aes256-ctr")
assert simulate(federation.charter.config(length=50), federation=federation, seed=1).exact
"""

#: A guard without a charter under which a client wants a neighbour more than its threshold in step 2.
GUARD_CLIENT = '''
"""The steps of a client under the guard ``careful``: it masks only where one neighbour more is left."""

import dataclasses

from ccesa.protocol import curious_client


def mask(round, state, request):
    return with_one_more(curious_client.mask, round, state, request)


def mask_at_once(round, state, request):
    return with_one_more(curious_client.mask_at_once, round, state, request)


def with_one_more(answer, round, state, request):
    held, reply = answer(round, dataclasses.replace(state, threshold=state.threshold + 1), request)
    return dataclasses.replace(held, threshold=state.threshold), reply
'''

GUARD_TABLE = """
_CAREFUL = tuple(
    row._replace(answer=getattr(careful_client, row.answer.__name__)) if row.name == "mask" else row
    for row in _CURIOUS
)
TABLES: dict[str, tuple[Step, ...]] = {
    "curious": _CURIOUS, "active": _ACTIVE, "assisted": _ASSISTED, "careful": _CAREFUL
}
"""

GUARD_RECORD = """
CAREFUL = dataclasses.replace(CURIOUS, name="careful", privacy_bits=50.0)
GUARDS = {guard.name: guard for guard in (CURIOUS, ACTIVE, ASSISTED, CAREFUL)}
"""

ROUNDS_WITH_THE_GUARD = """
from ccesa import Fixed, RoundConfig, FaultyServer, plan
from ccesa.simulate import Exactly, simulate

config = RoundConfig(clients=9, length=50, guard="careful")
assert RoundConfig.decode(config.encode()) == config
assert simulate(config, seed=1).exact
planned = plan.plan(300, 0.1, guard="careful")
assert planned.privacy_bits == 50
assert not planned.shortfalls

def with_three_lost(guard):
    config = RoundConfig(clients=9, length=50, guard=guard, threshold=Fixed(t=6))
    return simulate(config, dropout=Exactly({"share": {0, 1, 2}}), seed=1)

assert with_three_lost("curious").exact
try:
    with_three_lost("careful")
except FaultyServer as fault:
    assert "threshold 7" in str(fault)
else:
    raise SystemExit("the careful client went on")
"""


TRANSPORT = """
import threading
from queue import Queue

import numpy as np
from ccesa import Client, RoundConfig, Series, SeriesClient, Server
from ccesa.protocol.round import run_round, run_series

def by_post(clients):
    \"\"\"Return a transport with a thread for every client. Client 3 never answers.\"\"\"

    def carry(requests):
        box = Queue()
        senders = [
            threading.Thread(target=lambda i=i, request=request: box.put((i, clients[i].receive(request))))
            for i, request in requests.items()
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        while not box.empty():
            client, reply = box.get()
            if client != 3 and reply is not None:
                yield client, reply

    return carry

config = RoundConfig(clients=8, length=4, bits=32, accept=True)
vectors = {i: np.full(4, i, np.uint32) for i in range(8)}
carry = by_post({i: Client(config, i, vectors[i]) for i in vectors})
total = run_round(Server(config), lambda step, requests: carry(requests))
assert 3 not in total.survivors
assert total.vector.tolist() == [sum(total.survivors)] * 4
members = {i: SeriesClient(config, lambda config, i=i: Client(config, i, vectors[i])) for i in vectors}
ended = list(run_series(Series(config, rounds=2), by_post(members)))
assert [one.aggregate.vector.tolist() for one in ended] == [[25] * 4] * 2
"""

ROUNDS_WITH_THE_FIELD = """
from ccesa import RoundConfig
from ccesa.protocol import messages as m
from ccesa.simulate import Independent, simulate

config = RoundConfig(clients=9, length=50)
assert m.limit(m.AdvertiseReply, config) == 96 + 64 + 8
assert simulate(config, dropout=Independent(0.1), seed=2).exact
message = m.AdvertiseReply(context=bytes(32), client=1, keys=bytes(64), colour=b"unlikely")
assert m.decode(message.encode(), m.limit(m.AdvertiseReply, config)) == message
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package that may be changed."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "ccesa", ignore=shutil.ignore_patterns("__pycache__")))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is not where the recipe says"
    path.write_text(text.replace(old, new))


def tabled(recipe: str) -> list[str]:
    """The files that the table of a recipe names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition(f"### {recipe}\n")[2].partition("\n#")[0]
    rows = [row for row in section.splitlines() if row.startswith("| `")]
    return [path for row in rows for path in re.findall(r"`([^`]+)`", row.split("|")[1])]


def of_package(recipe: str, **names: str) -> set[str]:
    """Those of the package, with names in place of what the recipe leaves open."""
    paths = [path.removeprefix("src/ccesa/") for path in tabled(recipe) if path.startswith("src/ccesa/")]
    return {re.sub(r"<(\w+)>", lambda found: names[found[1]], path) for path in paths}


@pytest.mark.parametrize("recipe", ["A transport", *MENTIONED])
def test_every_file_of_a_recipe_is_there(recipe):
    for path in tabled(recipe):
        every = [path]
        for name, examples in EXAMPLES.items():
            every = [one.replace(name, example) for one in every for example in examples]
        assert any((ROOT / one).exists() for one in every) or path == "<your own>.py", path


@pytest.mark.parametrize(("recipe", "pattern"), MENTIONED.items(), ids=str)
def test_a_recipe_names_what_the_other_implementations_have_to_change(recipe, pattern):
    folders = (("clients/typescript/src", "*.ts"), ("tests/second", "*.py"))
    files = [path for folder, kind in folders for path in (ROOT / folder).rglob(kind)]
    mentioning = {str(path.relative_to(ROOT)) for path in files if re.search(pattern, path.read_text(encoding="utf-8"))}
    named = {path.replace("<guard>", "curious") for path in tabled(recipe)}
    assert mentioning
    assert mentioning <= named


def run(package: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=package.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def touched(package: Path) -> set[str]:
    """Files that differ from the package, or are new."""
    found = (path.relative_to(package) for path in package.rglob("*.py"))
    return {
        str(path)
        for path in found
        if not (PACKAGE / path).exists() or not filecmp.cmp(PACKAGE / path, package / path, shallow=False)
    }


def test_a_family_of_graphs_is_its_module_and_its_name_in_the_list(package):
    (package / "graphs" / "backwards.py").write_text(FAMILY.lstrip())
    listed = package / "graphs" / "__init__.py"
    replace(listed, "Graph = Harary | ErdosRenyi | Complete\n", "Graph = Harary | ErdosRenyi | Complete | Backwards\n")
    replace(
        listed, "from ccesa.graphs.complete", "from ccesa.graphs.backwards import Backwards\nfrom ccesa.graphs.complete"
    )
    assert touched(package) == of_package("A family of assignment graphs", family="backwards")
    run(package, "-c", ROUNDS_WITH_THE_FAMILY)
    shown = run(package, "-m", "ccesa", "plan", "--clients", "300", "--graph", "backwards")
    assert "backwards, 36 neighbours hold shares" in shown
    assert run(package, "-m", "ccesa", "simulate", "--clients", "30", "--length", "9", "--graph", "backwards")


def test_a_generator_is_its_stream_and_its_name_in_the_list(package):
    listed = package / "crypto" / "primitives.py"
    replace(listed, "class Generator(", f"{GENERATOR.strip()}\n\n\nclass Generator(")
    replace(listed, "GENERATORS = {", 'GENERATORS = {"aes256-ctr": Generator(32, 16, aes256_ctr), ')
    assert touched(package) == of_package("A generator")
    run(package, "-c", ROUNDS_WITH_THE_GENERATOR)
    options = ("--clients", "10", "--length", "9", "--generator", "aes256-ctr")
    assert "equal to the plain sum" in run(package, "-m", "ccesa", "simulate", *options)


def test_a_guard_is_its_record_its_steps_and_its_table(package):
    (package / "protocol" / "careful_client.py").write_text(GUARD_CLIENT.lstrip())
    steps = package / "protocol" / "steps.py"
    table = 'TABLES: dict[str, tuple[Step, ...]] = {"curious": _CURIOUS, "active": _ACTIVE, "assisted": _ASSISTED}\n'
    replace(steps, table, GUARD_TABLE.lstrip())
    replace(steps, "    assisted_server,\n", "    assisted_server,\n    careful_client,\n")
    record = package / "guards.py"
    replace(record, "GUARDS = {guard.name: guard for guard in (CURIOUS, ACTIVE, ASSISTED)}\n", GUARD_RECORD.lstrip())
    names = 'Literal["curious", "active", "assisted"'
    replace(record, names, f'{names}, "careful"')
    replace(record, "from dataclasses import dataclass\n", "import dataclasses\nfrom dataclasses import dataclass\n")
    own = touched(package)
    assert own == {"guards.py", "protocol/careful_client.py", "protocol/steps.py"}
    assert own < of_package("A guard", guard="careful")  # with messages and server steps of its own, all of them
    run(package, "-c", ROUNDS_WITH_THE_GUARD)
    shown = run(package, "-m", "ccesa", "plan", "--clients", "300", "--guard", "careful")
    assert "guard careful" in shown
    assert run(package, "-m", "ccesa", "simulate", "--clients", "30", "--length", "9", "--guard", "careful")


def test_a_transport_is_a_function_outside_of_the_package(package):
    assert not touched(package) | of_package("A transport")
    run(package, "-c", TRANSPORT)


def test_a_field_of_a_message_is_its_line_and_both_ends_of_its_step(package):
    messages, client, server = (
        package / "protocol" / f"{name}.py" for name in ("messages", "curious_client", "curious_server")
    )
    line = "    keys: _Bundle  # of c_i, of s_i, then the others of the agreement\n"
    head = '"""Shows the public keys of a client."""\n\n'
    replace(messages, head + line, head + line + "    colour: Annotated[bytes, Size(8)]\n")
    filled = "m.AdvertiseReply(**round.head, keys=advertised.public_keys)"
    replace(client, filled, f'{filled[:-1]}, colour=b"unlikely")')
    kept = "    note_keys(round, state, m.check(reply, round.config))\n"
    replace(server, kept, f'{kept}    if reply.colour != b"unlikely":\n        raise ValueError(reply.colour)\n')
    assert touched(package) == of_package("A field of a message", guard="curious")
    run(package, "-c", ROUNDS_WITH_THE_FIELD)
