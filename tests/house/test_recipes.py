"""The recipes of CONTRIBUTING.md for graphs, generators and guards touch the files that it names."""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "ccesa"

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
TABLES: dict[str, tuple[Step, ...]] = {"curious": _CURIOUS, "active": _ACTIVE, "careful": _CAREFUL}
"""

GUARD_RECORD = """
CAREFUL = dataclasses.replace(CURIOUS, name="careful", privacy_bits=50.0)
GUARDS = {guard.name: guard for guard in (CURIOUS, ACTIVE, CAREFUL)}
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


@pytest.fixture
def package(tmp_path):
    """A copy of the package that may be changed."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "ccesa", ignore=shutil.ignore_patterns("__pycache__")))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is not where the recipe says"
    path.write_text(text.replace(old, new))


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
    assert touched(package) == {"graphs/backwards.py", "graphs/__init__.py"}
    run(package, "-c", ROUNDS_WITH_THE_FAMILY)
    shown = run(package, "-m", "ccesa", "plan", "--clients", "300", "--graph", "backwards")
    assert "backwards, 36 neighbours hold shares" in shown
    assert run(package, "-m", "ccesa", "simulate", "--clients", "30", "--length", "9", "--graph", "backwards")


def test_a_generator_is_its_stream_and_its_name_in_the_list(package):
    listed = package / "crypto" / "primitives.py"
    replace(listed, "class Generator(", f"{GENERATOR.strip()}\n\n\nclass Generator(")
    replace(listed, "GENERATORS = {", 'GENERATORS = {"aes256-ctr": Generator(32, 16, aes256_ctr), ')
    assert touched(package) == {"crypto/primitives.py"}
    run(package, "-c", ROUNDS_WITH_THE_GENERATOR)
    options = ("--clients", "10", "--length", "9", "--generator", "aes256-ctr")
    assert "equal to the plain sum" in run(package, "-m", "ccesa", "simulate", *options)


def test_a_guard_is_its_record_its_steps_and_its_table(package):
    (package / "protocol" / "careful_client.py").write_text(GUARD_CLIENT.lstrip())
    steps = package / "protocol" / "steps.py"
    table = 'TABLES: dict[str, tuple[Step, ...]] = {"curious": _CURIOUS, "active": _ACTIVE}\n'
    replace(steps, table, GUARD_TABLE.lstrip())
    imported = "from ccesa.protocol import active_client, active_server, curious_client, curious_server\n"
    replace(steps, imported, imported.replace("active_server,", "active_server, careful_client,"))
    record = package / "guards.py"
    replace(record, "GUARDS = {guard.name: guard for guard in (CURIOUS, ACTIVE)}\n", GUARD_RECORD.lstrip())
    replace(record, 'GuardName = Literal["curious", "active"]', 'GuardName = Literal["curious", "active", "careful"]')
    replace(record, "from dataclasses import dataclass\n", "import dataclasses\nfrom dataclasses import dataclass\n")
    assert touched(package) == {"guards.py", "protocol/careful_client.py", "protocol/steps.py"}
    run(package, "-c", ROUNDS_WITH_THE_GUARD)
    shown = run(package, "-m", "ccesa", "plan", "--clients", "300", "--guard", "careful")
    assert "guard careful" in shown
    assert run(package, "-m", "ccesa", "simulate", "--clients", "30", "--length", "9", "--guard", "careful")
