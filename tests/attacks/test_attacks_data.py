"""Attacks on one site's data: each fails, and succeeds without its defence."""

import re

import pytest

from attacks.data import DATA_ATTACKS
from attacks.registry import find

#: What an attacker ends up with, defended or not.
ENDS = {
    "D2": ("8 of 8 sent a vector$", "7 of 8 sent a vector: all but client 3$"),
    "D3": (r"noise as of 1\d\.\d around one client", r"noise as of [01]\.\d around one client"),
    "D4": ("the mean of 0 value.s. is None", "the mean of 1 value.s. is 48113"),
}


def test_every_attack_on_data_is_here():
    assert [attack.number for attack in DATA_ATTACKS] == list(ENDS)


@pytest.mark.parametrize("defended", [True, False])
@pytest.mark.parametrize("number", ENDS)
def test_it_fails_and_succeeds_without_its_defence(number, defended):
    outcome = find(number).run(defended, lambda line: None)
    assert outcome.succeeded is not defended
    assert re.match(ENDS[number][not defended], outcome.summary)
