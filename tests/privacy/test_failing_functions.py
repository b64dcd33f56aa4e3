"""D2, D3: with an account, whatever the caller's function does, the server sees a vector like all others."""

import asyncio

import numpy as np
import pytest

from ccesa.errors import ConfigError, FaultyServer, OrderError, TaskSpent, VectorError
from ccesa.memory import VECTOR
from ccesa.privacy import DifferentialPrivacy, NoisyQuantizer, choose_mechanism
from ccesa.privacy.ledger import Ledger
from ccesa.protocol.client import ActiveClient, Client
from rounds import Play, charter_of, configure, identity
from test_ledger_client import CLIENTS, NOISE, TASK, NoisySeries, Site, guards

MODEL = [np.zeros(NOISE.dimension)]
QUANTIZER = NoisyQuantizer.for_model(MODEL, NOISE)
WORDS = np.ones(NOISE.length, np.uint64)


class Silent(Exception):
    """An error that fails to say what it is."""

    def __str__(self) -> str:
        raise SystemExit(3)


def raises(error: BaseException):
    def function():
        raise error

    return function


def encodes(*arrays):
    return lambda: QUANTIZER.encode(list(arrays), bytes(32)).vector


def forever():
    return forever()


WAYS = {
    "an exception": raises(ValueError("patient 7 is 200 years old")),
    "an error of this package": raises(VectorError("patient 7")),
    "a refusal that is not this client's": raises(TaskSpent("patient 7")),
    "what a client says of a server": raises(FaultyServer("patient 7")),
    "a wrong configuration": raises(ConfigError("patient 7")),
    "a call out of order": raises(OrderError("patient 7")),
    "no memory": raises(MemoryError()),
    "too deep": forever,
    "an end of a generator": raises(StopIteration("patient 7")),
    "the end of the process": raises(SystemExit(0)),
    "a task that was cancelled": raises(asyncio.CancelledError()),
    "a closed generator": raises(GeneratorExit()),
    "an error without a text": raises(Silent()),
    "nothing": lambda: None,
    "a list": WORDS.tolist,
    "floats": lambda: WORDS.astype(float),
    "signed numbers": lambda: WORDS.astype(np.int64),
    "a word too few": lambda: WORDS[1:],
    "a word too many": lambda: np.ones(NOISE.length + 1, np.uint64),
    "two dimensions": lambda: WORDS.reshape(1, -1),
    "a masked array": lambda: np.ma.array(WORDS, mask=True),
    "a coroutine": lambda: asyncio.sleep(0),
    "NaN in a model": encodes(MODEL[0] * np.nan),
    "infinity in a model": encodes(MODEL[0] + np.inf),
    "a model of another shape": encodes(MODEL[0][1:]),
    "a model with an array too many": encodes(*MODEL, *MODEL),
    "words in a model": encodes(np.array(["x"] * NOISE.dimension)),
    "complex numbers in a model": encodes(MODEL[0] + 1j),
}
ways = pytest.mark.parametrize("way", WAYS)


@guards
@ways
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a coroutine that nobody waits for
def test_d2_a_function_that_fails_is_not_to_be_told_from_others(guard, way):
    """The sum has noise around zeros of this client, which is charged, counted, and told why."""
    site = Site(guard)
    play = site.round(vector=WAYS[way]).until("mask")
    replies = play.replies()
    assert len({len(reply) for reply in replies.values()}) == 1
    assert site.charged == len(list(site.tasks.entries(VECTOR, TASK))) == 1
    for client, reply in replies.items():
        play.hand_over(client, reply)
    play.close()
    found = play.finish()
    assert found.survivors == tuple(range(CLIENTS))
    drawn, _ = NOISE.fields.split(found.vector - play.expected(range(1, CLIENTS)))
    drawn = drawn[: NOISE.dimension]
    assert drawn.any()
    assert abs(drawn).max() < 12 * NOISE.deviation
    assert isinstance(play.clients[0].failure, VectorError)
    assert play.clients[0].failure.__traceback__ is None
    assert str(play.clients[0].failure)


@ways
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_without_an_account_it_is_the_callers_to_know(way):
    """The twin: without noise nothing leaves, and everybody sees that."""
    site = Site("curious")
    play = site.round(vector=WAYS[way], account=None).until("mask")
    with pytest.raises(BaseException):  # noqa: B017, PT011 - each of these is another
        play.clients[0].receive(play.requests[0])
    assert not list(site.tasks.entries(VECTOR))


@guards
def test_the_failure_says_what_was_raised_and_where(guard):
    site = Site(guard)
    play = site.round(vector=WAYS["an exception"]).until("mask")
    assert play.clients[0].failure is None
    play.clients[0].receive(play.requests[0])
    told = str(play.clients[0].failure)
    assert "ValueError: patient 7 is 200 years old" in told
    assert f"{__file__}, line" in told


@guards
def test_whoever_sits_at_the_client_can_end_it(guard):
    site = Site(guard)
    play = site.round(vector=raises(KeyboardInterrupt())).until("mask")
    with pytest.raises(KeyboardInterrupt):
        play.clients[0].receive(play.requests[0])
    assert site.charged == 0


@guards
def test_a_series_goes_on_and_says_in_which_round_there_was_nothing(guard):
    class Failing(NoisySeries):
        def vector(self, i, number):
            return super().vector(i, number)[i == number == 1 :]

        def check(self, ended):
            """Noise is not what the others' plain sum is."""

    play, failures = Failing(guard, rounds=3), []
    ended = []
    while not play.series.finished:
        ended += play.exchange()
        failures += [sorted(client.failures) for client in play.clients.values() if client.failures]
        assert not any(client.faults for client in play.clients.values())
    assert [one.aggregate.survivors for one in ended] == [tuple(range(CLIENTS))] * 3
    assert failures == [[1]]


# D3: a vector has its noise once


def test_d3_a_vector_that_is_ready_is_refused_before_a_key_exists():
    drawn = []
    for guard, make in (
        ("curious", lambda config, **options: Client(config, 0, WORDS, **options)),
        (
            "active",
            lambda config, **options: ActiveClient(
                config, identity(0), charter_of(config), WORDS, tasks=None, **options
            ),
        ),
    ):
        site = Site(guard)
        config = site.config()
        with pytest.raises(ConfigError, match="with an account, give a function that calls encode"):
            make(config, account=site.account(config), random=drawn.append)
    assert not drawn


#: Noise of so many numbers that no vector comes twice by chance.
WIDE = choose_mechanism(
    DifferentialPrivacy(epsilon=3.0, delta=1e-6, rounds=3, norm=1.0), clients=CLIENTS, honest=2, dimension=64
)


def sent(ledger: Ledger, function) -> tuple[np.ndarray, VectorError | None]:
    """What a client with this function adds to the sum of a fresh round, and what it is told."""
    config = configure(CLIENTS, bits=64, length=WIDE.length)
    play = Play(config)
    play.clients[0] = Client(config, 0, function, account=ledger.account(WIDE))
    return play.finish().vector - play.expected(range(1, CLIENTS)), play.clients[0].failure


def test_d3_a_vector_that_was_made_for_another_round_does_not_leave_again():
    """Whether the function gives the same object or a copy: other noise leaves, around zeros."""
    ledger, made = Ledger.in_memory(epsilon=50.0, delta=0.5), np.arange(WIDE.length, dtype=np.uint64)
    first, failure = sent(ledger, lambda: made)
    assert np.array_equal(first, made)
    assert failure is None
    for again in (lambda: made, made.copy):
        found, failure = sent(ledger, again)
        assert not np.array_equal(found, made)
        assert "the vector of another round again, with the same noise" in str(failure)
    assert ledger.spent().vectors == 3
    somebody_else = Ledger.in_memory(epsilon=50.0, delta=0.5)
    assert np.array_equal(sent(somebody_else, lambda: made)[0], made)


def test_few_numbers_are_not_compared_because_they_can_be_alike_by_chance():
    ledger = Ledger.in_memory(epsilon=50.0, delta=0.5)
    for noise, is_compared in ((WIDE, True), (NOISE, False)):
        account = ledger.account(noise)
        vector = np.zeros(noise.length, np.uint64)
        account.check_fresh(vector)
        if is_compared:
            with pytest.raises(VectorError):
                account.check_fresh(vector)
        else:
            account.check_fresh(vector)
