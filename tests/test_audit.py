"""An audit with teeth: no test on real sums beats the certificate, and wrong noise or clipping is caught."""

import math

import numpy as np
import pytest
from experiments.privacy.audit import canaries
from experiments.privacy.audit.clients import CLIENTS
from scipy import stats

from ccesa.privacy import DifferentialPrivacy, chosen

CANARIES, DIMENSION = 802, 1024
WRONG = [name for name in CLIENTS if name != "right"]


@pytest.fixture(scope="module", params=[8.0, 3.0])
def mechanism(request):
    """One sum has it all, and nobody is in it whose noise does not count: the audit is as sharp as it gets."""
    demand = DifferentialPrivacy(epsilon=request.param, delta=1e-5, rounds=1, norm=1.0)
    return chosen(demand, clients=CANARIES, honest=CANARIES, dimension=DIMENSION)


def audited(mechanism, name, seed, releases=2):
    encode = CLIENTS[name](mechanism)
    heard = [canaries.listen(mechanism, encode, [seed, number]) for number in range(releases)]
    return canaries.audit(heard[0], canaries.Heard.of(heard[1:]), mechanism.delta)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_test_beats_the_certificate(mechanism, seed):
    found = audited(mechanism, "right", seed)
    assert found["canaries"] == CANARIES
    assert mechanism.epsilon / 3 < found["epsilon"] < mechanism.certified() <= mechanism.epsilon
    assert found["epsilon_plain"] < found["epsilon"]


@pytest.mark.parametrize("name", WRONG)
def test_whatever_is_wrong_is_caught(mechanism, name):
    assert audited(mechanism, name, 1)["epsilon"] > mechanism.epsilon
