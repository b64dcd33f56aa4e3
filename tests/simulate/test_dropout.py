import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.plan.paper import step_dropout
from ccesa.protocol.steps import steps_under
from ccesa.simulate.simulation import Exactly, Independent, StepProbabilities
from strategies import seeds

CURIOUS = steps_under("curious")
NAMES = [step.name for step in CURIOUS]

fractions = st.floats(0, 1, exclude_max=True)
names = st.sampled_from(NAMES)
counts = st.integers(1, 60)
models = st.one_of(
    st.builds(Independent, fractions),
    st.builds(StepProbabilities, st.dictionaries(names, fractions)),
    st.builds(StepProbabilities, fractions),
)


def drawn(model, clients: int, seed: int = 0):
    return model.draw(CURIOUS, clients, np.random.default_rng(seed))


@given(models, counts, seeds)
def test_the_same_seed_draws_the_same_sets(model, clients, seed):
    assert drawn(model, clients, seed) == drawn(model, clients, seed)


@given(models, counts, seeds)
def test_only_enrolled_clients_drop_out_in_known_steps(model, clients, seed):
    dropouts = drawn(model, clients, seed)
    assert set(dropouts) <= set(NAMES)
    assert all(gone <= frozenset(range(clients)) for gone in dropouts.values())


@given(models, counts)
def test_steps_may_come_from_an_iterator(model, clients):
    assert model.draw(iter(CURIOUS), clients, np.random.default_rng(0)) == drawn(model, clients)


def test_another_seed_draws_other_sets():
    for model in (Independent(0.5), StepProbabilities({"mask": 0.5})):
        assert drawn(model, 200, 1) != drawn(model, 200, 2)


# How often


@given(fractions, st.integers(1, 8))
def test_independent_steps_lose_the_total_together(total, steps):
    q = step_dropout(total, steps)
    assert 0 <= q <= total * (1 + 1e-12)
    assert 1 - (1 - q) ** steps == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("total", [0.01, 0.1, 0.5, 0.9])
def test_independent_dropout_adds_up_over_a_round(total):
    clients = 100_000
    dropouts = drawn(Independent(total), clients)
    q = step_dropout(total, len(NAMES))
    for gone in dropouts.values():
        assert abs(len(gone) - q * clients) < 5 * math.sqrt(clients * q * (1 - q))
    ever = len(frozenset().union(*dropouts.values()))
    assert abs(ever - total * clients) < 5 * math.sqrt(clients * total * (1 - total))


def test_step_probabilities_hold_step_by_step():
    clients, wanted = 100_000, {"share": 0.02, "unmask": 0.7}
    dropouts = drawn(StepProbabilities(wanted), clients)
    for name in NAMES:
        q = wanted.get(name, 0.0)
        assert abs(len(dropouts[name]) - q * clients) <= 5 * math.sqrt(clients * q * (1 - q))


@given(fractions, counts, seeds)
def test_one_probability_holds_in_every_step(q, clients, seed):
    named = StepProbabilities(dict.fromkeys(NAMES, q))
    assert drawn(StepProbabilities(q), clients, seed) == drawn(named, clients, seed)


@given(counts, seeds)
def test_probability_zero_loses_nobody(clients, seed):
    for model in (Independent(0.0), StepProbabilities(dict.fromkeys(NAMES, 0.0))):
        assert not any(drawn(model, clients, seed).values())


# Exactly


@given(st.dictionaries(names, st.frozensets(st.integers(0, 59))), seeds)
def test_named_clients_drop_out_exactly(sets, seed):
    assert drawn(Exactly(sets), 60, seed) == sets


@given(names, st.lists(st.integers(0, 9)))
def test_repeated_clients_drop_out_once(name, members):
    assert drawn(Exactly({name: members}), 10) == {name: frozenset(members)}


@given(names, st.integers(-5, 30), counts)
def test_clients_that_were_never_enrolled_cannot_drop_out(name, stranger, clients):
    assume(not 0 <= stranger < clients)
    with pytest.raises(ConfigError, match=rf"client {stranger} is not in 0..{clients - 1}"):
        drawn(Exactly({name: [0, stranger]}), clients)


# Refused


@given(st.floats().filter(lambda value: not 0 <= value < 1))
def test_what_is_no_fraction_is_refused(value):
    for name, make in (
        ("dropout", lambda: Independent(value)),
        ("dropout", lambda: StepProbabilities(value)),
        ("mask", lambda: StepProbabilities({"share": 0.5, "mask": value})),
    ):
        with pytest.raises(ConfigError, match=rf"{name} must be a number in \[0, 1\), not"):
            make()


@given(st.text(max_size=12).filter(lambda name: name not in NAMES))
def test_unknown_steps_are_refused_with_the_known_ones(name):
    for model in (StepProbabilities({name: 0.5}), Exactly({name: [0]})):
        with pytest.raises(ConfigError, match=f"unknown step .*; the steps of this round are {', '.join(NAMES)}"):
            drawn(model, 5)


def test_exact_sets_given_as_iterators_are_the_same_every_time():
    model = Exactly({"mask": iter([1, 2])})
    rng = np.random.default_rng(0)
    assert model.draw(CURIOUS, 5, rng) == model.draw(CURIOUS, 5, rng) == {"mask": {1, 2}}
