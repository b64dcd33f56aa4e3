"""D2: with noise a site whose function fails looks like every other, and is told when its vector has left."""

import sys
import threading
import time
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from ccesa.errors import ConfigError, VectorError
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.privacy.ledger import Ledger
from ccesa.service.forms import form_of
from ccesa.service.participant import Participant
from ccesa.service.participant.driver import InTime
from ccesa.service.tasks import pack_arrays
from ccesa.statistics import Category, Number, Schema, read_csv
from played_hub import Played, PlayedHub, play
from rounds import charter

EVERYONE = tuple(range(6))
MODEL = {"weights": np.zeros((3, 4)), "bias": np.zeros(4)}
FAILING = 2
SCHEMA = Schema(
    name="beds",
    least_group=1,
    max_records=3,
    privacy_unit="record",
    numbers=(Number(name="age", lower=0, upper=120, measures=("count", "sum")),),
    categories=(Category(name="ward", values=("surgery", "births")),),
    group_by=("ward",),
)
BED = {"age": 50, "ward": "surgery"}


def noise(dimension: int, norm: float = 1.0, **others):
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=norm, **others)
    field_bits = {"field_bits": 64} if others else {}
    return choose_mechanism(demand, clients=6, honest=5, dimension=dimension, **field_bits)


def arrays_hub(guard: str = "active") -> PlayedHub:
    agreed = {"privacy": noise(16), "min_survivors": 5, "bits": 64}
    payload = pack_arrays(MODEL)
    form = form_of(charter(6, **agreed), None)
    if guard == "curious":
        agreed.pop("privacy")
    hub = PlayedHub(guard, rounds=1, length=form.length(payload), **agreed)
    hub.form, hub.payload_of = (msgspec.to_builtins(form) if guard == "curious" else form, lambda number: payload)
    return hub


def statistics_hub() -> PlayedHub:
    made = noise(SCHEMA.dimension, SCHEMA.norm, unit="record")
    hub = PlayedHub("active", rounds=1, length=SCHEMA.length, bits=64, min_survivors=5, privacy=made, statistics=SCHEMA)
    hub.form, hub.payload_of = form_of(hub.charter, None), lambda number: b"beds"
    return hub


def raising(error: BaseException) -> Callable:
    def function(task, number):
        raise error

    return function


def returning(value: object) -> Callable:
    return lambda task, number: value


def model(**changes) -> Callable:
    return returning({**MODEL, **changes})


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


ARRAYS = {
    "an exception": raising(KeyError("patient 7")),
    "an error of this package": raising(VectorError("patient 7")),
    "the end of the process": lambda task, number: sys.exit(0),
    "an end of a generator": raising(StopIteration()),
    "an error without a text": raising(Silent()),
    "no memory": raising(MemoryError()),
    "nothing": returning(None),
    "a list": returning([MODEL["weights"], MODEL["bias"]]),
    "three things": returning((MODEL, 1.0, 2)),
    "a text as the weight, which is not looked at": returning((MODEL, "heavy")),
    "an array too few": returning({"bias": MODEL["bias"]}),
    "an array too many": model(more=np.zeros(3)),
    "another shape": model(bias=np.zeros(5)),
    "NaN": model(bias=np.array([0, np.nan, 0, 0])),
    "infinity": model(bias=np.array([0, np.inf, 0, 0])),
    "texts": model(bias=np.array(list("abcd"))),
    "complex numbers": model(bias=np.zeros(4) + 1j),
    "objects": model(bias=np.array([None] * 4)),
}
TABLES = {
    "a record too many": returning([BED] * 4),
    "a word for a number": returning([{"age": "old", "ward": "surgery"}]),
    "infinity": returning([{"age": np.inf, "ward": "surgery"}]),
    "no column": returning([{"age": 7}]),
    "no record": returning([3]),
    "no table": lambda schema, number: read_csv("/nowhere/table.csv", schema),
    "nothing": returning(None),
    "a generator that fails": lambda schema, number: (BED if one else 1 / 0 for one in (1, 0)),
    "a table that never ends": lambda schema, number: iter(lambda: BED, None),
}


def outside(hub: PlayedHub) -> list[list]:
    """All that a hub sees of each client: which calls in which order, and how long every answer is."""
    return [[(exchange, len(reply)) for client, exchange, reply in hub.sent if client == one] for one in EVERYONE]


def played(hub: PlayedHub, failing: Callable, honest: object, **options) -> list[Played]:
    players = [
        Played(
            hub,
            client,
            contribute=failing if client == FAILING else returning(honest),
            **({"ledger": Ledger.in_memory(epsilon=8.0, delta=1e-6)} if hub.charter else {}),
            **(options if client == FAILING else {}),
        )
        for client in EVERYONE
    ]
    play(hub, players)
    return players


def check_alike(hub: PlayedHub, players: list[Played]) -> None:
    """Nothing tells the client that failed from others but what it says to its own site."""
    (ended,) = hub.ended
    assert ended.aggregate.survivors == EVERYONE
    assert len({str(one) for one in outside(hub)}) == 1
    assert not hub.faults
    for one in players:
        assert (len(one.said("nothing")) == 1) is (one.client == FAILING)
        assert not one.said("refused")
        calls = [(call.method, call.path.split("?")[0]) for call in one.calls]
        assert calls == [(call.method, call.path.split("?")[0]) for call in players[0].calls]
        if hub.charter:
            assert one.options["ledger"].spent().vectors == 1
            assert list(one.tasks().values()) == [1]
    kinds = [event.kind for event in players[FAILING].events]
    assert kinds.index("nothing") > kinds.index("working")


@pytest.mark.parametrize("way", ARRAYS)
def test_arrays_that_a_site_cannot_give(way):
    hub = arrays_hub()
    if way == "a text as the weight, which is not looked at":
        players = played(hub, ARRAYS[way], MODEL)
        assert not players[FAILING].said("nothing")
        return
    check_alike(hub, played(hub, ARRAYS[way], MODEL))


@pytest.mark.parametrize("way", TABLES)
def test_tables_that_a_site_cannot_give(way):
    hub = statistics_hub()
    check_alike(hub, played(hub, TABLES[way], [BED]))


def test_noise_that_a_hub_announces_is_kept_in_the_same_way():
    """Without a charter, and without a ledger, too."""
    hub = arrays_hub("curious")
    players = played(hub, ARRAYS["an exception"], MODEL)
    check_alike(hub, players)
    assert "KeyError: 'patient 7'" in players[FAILING].said("nothing")[0]


def test_a_strict_site_ends_with_the_failure_when_all_is_over():
    hub, seen = arrays_hub(), []
    with pytest.raises(VectorError, match="patient 7"):
        played(hub, ARRAYS["an exception"], MODEL, strict=True, tell=seen.append)
    assert hub.ended[0].aggregate.survivors == EVERYONE
    assert [event.kind for event in seen][-1] == "over"


def test_whoever_sits_at_the_site_can_end_it():
    hub = arrays_hub()
    with pytest.raises(KeyboardInterrupt):
        played(hub, raising(KeyboardInterrupt()), MODEL)


# Time


def test_a_vector_in_time_does_not_leave_before_its_time():
    begin = time.monotonic()
    assert InTime(0.05)(lambda: "a vector") == "a vector"
    assert time.monotonic() - begin >= 0.05


def test_what_a_function_raises_in_time_is_known_when_the_time_is_over():
    begin = time.monotonic()
    with pytest.raises(SystemExit):
        InTime(0.05)(lambda: sys.exit(3))
    assert time.monotonic() - begin >= 0.05


def test_a_function_that_never_ends_is_left_to_itself_and_no_other_is_called_beside_it():
    end, called, in_time = threading.Event(), [], InTime(0.02)
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"no vector was ready after 0\.02 seconds"):
            in_time(lambda: called.append(1) or end.wait())
    assert called == [1]
    end.set()
    in_time._thread.join()
    assert in_time(lambda: "a vector") == "a vector"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "3"])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(ConfigError, match="answer_after must be a positive number"):
        Participant("https://hub.example", token="ccesa_" + 43 * "a", answer_after=seconds)


def test_a_site_that_is_too_slow_looks_like_every_other():
    hub, end = arrays_hub(), threading.Event()
    try:
        check_alike(hub, played(hub, lambda task, number: end.wait() and MODEL, MODEL, make=InTime(0.05)))
    finally:
        end.set()


def test_a_site_in_time_is_in_the_sum_with_what_it_has():
    hub = arrays_hub()
    players = played(hub, returning(MODEL), MODEL, make=InTime(0.5))
    assert hub.ended[0].aggregate.survivors == EVERYONE
    assert not players[FAILING].said("nothing")
