"""Attacks on rounds with helpers: each fails, and succeeds once its one defence is taken away."""

import re

import numpy as np
import pytest
from msgspec.structs import replace

from attacks.helpers import HELPER_ATTACKS
from attacks.registry import find
from attacks.stage import active
from ccesa.errors import TaskSpent
from ccesa.memory import ProcessMemory
from ccesa.protocol.spending import Spending
from ccesa.simulate.enrolment import federate

#: With its defence in place: what the last lines say about where it was stopped.
STOPPED = {
    "two-questions": "helper 0 refuses: this helper has answered another question about this round",
    "different-survivors": "each helper has masks of its own",
    "task-again": "helper 0 refuses: this helper has answered about this task in another round",
    "two-charters": "client 0 refuses: this client has contributed to this task in another series",
    "made-up-member": "helper 0 refuses: client 0 is in V3, and its box does not fit",
    "foreign-box": "helper 0 refuses: client 0 is in V3, and its box does not fit",
    "too-few-survivors": "3 clients in V3, the charter demands 4",
    "hub-as-helper": "client 2 sends nothing: helper helper-2 did not sign its keys as shown",
    "restored-helper": "helper 0 refuses: this helper has answered another question about this round",
    "bad-box": "the sum of clients 0, 1, 2, 4 is right",
    "refusal-oracle": "used its key for 0 of 160 texts that nobody signed, and 0 of them fit",
    "helper-and-member": "client 2 sends nothing: helper helper-1 did not sign its keys as shown",
    "hybrid-boxes": "the masks of 3 of 3 helpers stay on",
    "careless-helper": "there is no sum: the check words of the sum do not fit",
    "two-honest-members": "they learn the sum of the two honest members, and nothing else",
    "old-keys": "the masks of 3 of 3 helpers stay on",
    "cloned-key": "nothing is plain: round, task and keys are in every mask",
}
#: Rows whose harm is not a vector.
NOTHING_STOLEN = {"bad-box", "refusal-oracle", "careless-helper"}

each_attack = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs("ml-kem") if "hybrid" in name else ()) for name in STOPPED]
)


def test_every_row_has_one():
    assert [attack.number for attack in HELPER_ATTACKS] == [f"H{k}" for k in (1, 2, 3, *range(3, 17))]
    assert STOPPED.keys() == {attack.name for attack in HELPER_ATTACKS}
    assert {attack.guard for attack in HELPER_ATTACKS} == {"assisted"}


@each_attack
def test_the_defence_holds(name):
    told: list[str] = []
    outcome = find(name).run(True, told.append)
    assert not outcome.succeeded
    assert outcome.stolen is None
    assert re.search(STOPPED[name], outcome.summary)


@each_attack
def test_without_the_defence_it_succeeds(name):
    outcome = find(name).run(False, lambda line: None)
    assert outcome.succeeded
    if name in NOTHING_STOLEN:
        assert outcome.stolen is None
    else:
        assert np.array_equal(outcome.stolen, outcome.victim)
        assert outcome.victim.any()


def told_by(name: str) -> str:
    told: list[str] = []
    find(name).run(True, told.append)
    return "\n".join(told)


def test_h7_every_other_wrong_key_is_refused_too():
    told = told_by("hub-as-helper")
    for member in (0, 1, 3, 4, 5):
        assert re.search(rf"client {member} refuses: (helper helper-\d did not sign|keys: expected 96 bytes)", told)


def test_h5_what_was_sent_in_another_round_does_not_fit():
    assert "helper 0 leaves out client 2" in told_by("foreign-box")


def test_h6_nobody_counts_twice():
    assert "members is not strictly ascending: an id twice, or out of order" in told_by("too-few-survivors")


def test_h9_the_liars_are_named():
    told = told_by("bad-box")
    assert "client 5: a signature that does not verify" in told
    assert "of whom one lied: [(1, 3)]" in told


@pytest.mark.needs("ml-kem")
def test_h12_malformed_keys_and_ciphertexts_are_refused():
    told = told_by("hybrid-boxes")
    assert "client 0 refuses: the key of helper helper-0: not a valid ML-KEM-768 public key" in told
    assert "helper 2 leaves out client 1" in told


def test_h14_a_charter_that_leaves_one_honest_member_is_refused():
    assert "set min_survivors to at least 6" in told_by("two-honest-members")


def test_h15_a_member_refuses_a_key_that_stays_for_longer():
    assert "client 0 refuses: the key of helper helper-0 would stay for longer than key_days" in told_by("old-keys")


@pytest.mark.parametrize("first", ["assisted", "active"])
def test_h3_a_task_under_one_guard_is_refused_under_another(first):
    """Also where the hub chooses a series id that looks like the charter."""
    charter = federate(4, helpers=2).charter
    task, memory = bytes(range(32)), ProcessMemory()
    helped = charter.config(length=8, series_id=charter.digest)
    graph = replace(active(4, lambda line: None).server.config, series_id=charter.digest)
    one, other = (helped, graph) if first == "assisted" else (graph, helped)
    Spending(config=one, memory=memory).send(task, task)
    later = Spending(config=replace(other, number=5), memory=memory)
    with pytest.raises(TaskSpent, match="in another series"):
        later.check(task)
