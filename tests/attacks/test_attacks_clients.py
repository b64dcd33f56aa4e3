"""The rows C: each attack by clients fails, and succeeds once its defence is taken away."""

import re

import numpy as np
import pytest

from attacks.client_accusations import garbage
from attacks.client_copies import forked
from attacks.client_keys import LIAR, low_order_key, same_key
from attacks.client_messages import OVERSIZE, answer_at_two, leave_together, oversize, send_twice, stale_task
from attacks.client_shares import crooked_dealer, short_shares, wrong_share
from attacks.client_text import forged_line
from attacks.clients import CLIENT_ATTACKS

GUARDS = ["curious", "active"]
#: What the one sentence of the outcome says, with the defence in place and without.
WORDS = {
    "C1": (wrong_share, f"\\[{LIAR}\\] did", "the secret of client [^4] cannot be rebuilt"),
    "C2": (crooked_dealer, f"no sum: the secret of client {LIAR} cannot be rebuilt", "wrong sum"),
    "C3": (short_shares, f"client {LIAR}: shares: expected 288 bytes, got 32", "crashed half way"),
    "C4": (low_order_key, f"client {LIAR}: .*low order.*8 others go on", "lost for all: .*low order"),
    "C5": (
        same_key,
        f"client {LIAR}: .*advertised before.*8 others go on",
        "lost for all: .*a public key occurs twice",
    ),
    "C6": (oversize, f"client {LIAR}: .*at most", f"client {LIAR}: task: expected .* got {OVERSIZE}"),
    "C7": (send_twice, f"client {LIAR}: a second, different", "sum is wrong"),
    "C8": (leave_together, "disconnected", "takes its own vector away"),
    "C9": (garbage, "7 others go on, the sum is right, .* point to \\[4, 6\\]", "costs everyone the round"),
    "C10": (
        forged_line,
        f"one line: client {LIAR}: expected .*advertise-reply, got another message",
        f"a line that client {LIAR} wrote",
    ),
    "C14": (stale_task, f"client {LIAR}: a vector for another task .*8 others", "made for another model"),
    "C15": (answer_at_two, f"two servers have taken a reply of client {LIAR};", "counts twice"),
    "C16": (forked, "the fork sent nothing: this client was made in another process", "difference is plain"),
}


@pytest.mark.parametrize("row", WORDS)
@pytest.mark.parametrize("guard", GUARDS)
def test_fails_with_the_defence(row, guard):
    attack, words, _ = WORDS[row]
    outcome = attack(True, lambda line: None, guard)
    assert not outcome.succeeded
    assert matches(words, outcome.summary)
    assert outcome.stolen is None


@pytest.mark.parametrize("row", WORDS)
def test_succeeds_without_the_defence(row):
    attack, _, words = WORDS[row]
    outcome = attack(False, lambda line: None)
    assert outcome.succeeded
    assert matches(words, outcome.summary)


@pytest.mark.parametrize("row", ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C9", "C10", "C15", "C16"])
def test_succeeds_without_the_defence_under_the_active_guard(row):
    assert WORDS[row][0](False, lambda line: None, "active").succeeded


def test_c8_the_victims_vector_is_stolen_exactly():
    outcome = leave_together(False, lambda line: None)
    assert np.array_equal(outcome.stolen, outcome.victim)


def test_c8_under_the_active_guard_clients_refuse_even_without_the_servers_check():
    """On a circle t = 2, and one confirmation is not enough to release anything (R3)."""
    outcome = leave_together(False, lambda line: None, "active")
    assert not outcome.succeeded
    assert "share holders" in outcome.summary


def test_every_row_is_there_and_tells_its_story():
    assert [attack.number for attack in CLIENT_ATTACKS] == list(WORDS)
    assert len({attack.name for attack in CLIENT_ATTACKS}) == len(CLIENT_ATTACKS)
    for attack in CLIENT_ATTACKS:
        told = []
        attack.run(True, told.append)
        assert told


def matches(words: str, summary: str) -> bool:
    return re.search(words, summary) is not None
