"""What a site contributes, by the form of its charter: arrays, tables, and noise, charged to a ledger."""

from functools import cache

import numpy as np
import pytest

from ccesa.agreement.charter import Learning
from ccesa.errors import ConfigError
from ccesa.memory import TASK
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.privacy.ledger import Ledger
from ccesa.service.forms import Arrays, form_of
from ccesa.service.tasks import pack_arrays
from ccesa.statistics import Category, Number, Schema
from played_hub import Played, PlayedHub, play
from rounds import charter

EVERYONE = tuple(range(6))
MODEL = {"weights": np.zeros((3, 4)), "bias": np.zeros(4)}
LEARNING = Learning(clip=1.0, max_weight=10.0)
SCHEMA = Schema(
    name="beds",
    least_group=1,
    numbers=(Number(name="age", lower=0, upper=120, measures=("count", "sum")),),
    categories=(Category(name="ward", values=("surgery", "births")),),
    group_by=("ward",),
)


def hub_of(form, payload: bytes, rounds: int = 2, **agreed) -> PlayedHub:
    """A hub under a charter, whose vectors are as long as this form has them."""
    hub = PlayedHub("active", rounds=rounds, length=form.length(payload), **{"bits": 64, **agreed})
    hub.form, hub.payload_of = form, lambda number: payload
    return hub


def survivors(hub: PlayedHub) -> list:
    return [one.aggregate and one.aggregate.survivors for one in hub.ended]


def change(client: int) -> tuple[dict, float]:
    source = np.random.default_rng(client)
    return {name: source.uniform(-1, 1, one.shape) for name, one in MODEL.items()}, client + 1.0


def test_models_are_averaged_by_what_the_charter_says_whatever_the_hub_announces():
    form, payload = form_of(charter(6, bits=64, learning=LEARNING), None), pack_arrays(MODEL)
    hub = hub_of(form, payload, rounds=1, learning=LEARNING)
    hub.form = Arrays(clients=6, clip=1e-6, max_weight=1e6)  # would give away who is far off
    given = []

    def contribute(client: int):
        def train(task, number):
            given.append({name: one.shape for name, one in task.items()})
            return change(client)

        return train

    play(hub, [Played(hub, client, contribute=contribute(client)) for client in EVERYONE])
    (ended,) = hub.ended
    mean = form.value(ended.aggregate.vector, 6, payload, b"")
    assert mean.weight == pytest.approx(21)
    for name, array in mean.arrays.items():
        expected = sum(weight * arrays[name] for arrays, weight in map(change, EVERYONE)) / 21
        np.testing.assert_allclose(array, expected, atol=1e-4)
    assert given == [{"weights": (3, 4), "bias": (4,)}] * 6


def test_a_task_that_is_no_model_is_refused_before_anybody_trains():
    form = form_of(charter(6, bits=64, learning=LEARNING), None)
    hub = hub_of(form, pack_arrays(MODEL), rounds=1, learning=LEARNING)
    hub.payload_of = lambda number: b"no arrays"
    called = []
    players = [Played(hub, client, contribute=lambda *asked: called.append(asked)) for client in EVERYONE]
    play(hub, players)
    assert survivors(hub) == [None]
    assert called == []
    assert any("does not consist of arrays" in text for text in players[0].said("refused"))


def records(client: int) -> list[dict]:
    return [{"age": 10 * client + n, "ward": ("surgery", "births")[n % 2]} for n in range(client + 1)]


def test_the_same_table_is_the_same_task_whatever_a_hub_calls_it():
    form = form_of(charter(6, bits=64, statistics=SCHEMA), None)
    hub = hub_of(form, b"", rounds=4, statistics=SCHEMA)
    hub.payload_of = lambda number: b"another name %d" % number
    seen = []

    def contribute(client: int):
        def count(schema, number):
            seen.append((client, schema))
            return records(client)

        return count

    players = [Played(hub, client, contribute=contribute(client)) for client in EVERYONE]
    play(hub, players)
    assert survivors(hub) == [EVERYONE, EVERYONE, None, None]
    report = form.value(hub.ended[0].aggregate.vector, 6, b"", b"")
    assert sum(group.records for group in report.groups) == 21
    assert {schema for _, schema in seen} == {SCHEMA}
    assert len(seen) == 12  # nobody counts for nothing
    assert players[3].tasks(TASK) == {hub.charter.digest: 2}


# Noise

DEMAND = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=1.0)


@cache
def noise() -> Mechanism:
    return choose_mechanism(DEMAND, clients=6, honest=5, dimension=16)


def noisy_hub() -> PlayedHub:
    agreed = {"privacy": noise(), "min_survivors": 5}
    return hub_of(form_of(charter(6, bits=64, **agreed), None), pack_arrays(MODEL), rounds=2, **agreed)


def test_every_vector_is_charged_and_none_leaves_beyond_the_budget():
    hub = noisy_hub()
    ledgers = [Ledger.in_memory(epsilon=8.0, delta=1e-6) for _ in EVERYONE]
    ledgers[2] = Ledger.in_memory(epsilon=0.1, delta=1e-6)
    players = [
        Played(hub, client, contribute=lambda task, number: MODEL, ledger=ledgers[client]) for client in EVERYONE
    ]
    play(hub, players)
    assert survivors(hub) == [(0, 1, 3, 4, 5)] * 2
    assert [ledger.spent().vectors for ledger in ledgers] == [2, 2, 0, 2, 2, 2]
    assert not players[2].tasks()
    assert any("epsilon" in text for text in players[2].said("refused")), players[2].events


def test_noise_without_a_ledger_and_a_ledger_without_noise():
    hub = noisy_hub()
    with pytest.raises(ConfigError, match="take part with a ledger"):
        play(hub, [Played(hub, 0)])
    hub = PlayedHub("active")
    with pytest.raises(ConfigError, match="takes part only in rounds with noise"):
        play(hub, [Played(hub, 0, ledger=Ledger.in_memory(epsilon=1.0, delta=1e-6))])
