"""Series of Python's and TypeScript's clients: plain sums, and the same answers to envelopes of any kind."""

from random import Random

import pytest

from ccesa.errors import CcesaError
from ccesa.protocol import envelope
from ccesa.protocol.series_client import SeriesClient
from mixed_assisted import MixedAssistedSeries
from mixed_series import MixedSeries
from runners import Runner
from series_rounds import GUARDS, opened
from test_ts_differential import comparable

#: Envelopes that are meddled with, in the default tests and in the long one.
FEW, MANY = 15, 250


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("agreement", ["x25519", "x25519-mlkem768"])
def test_a_mixed_series_gives_plain_sums(guard: str, agreement: str, node: Runner, chromium: Runner):
    played = MixedSeries(guard, [None, node, chromium], agreement=agreement)
    ended = played.play()
    assert [one.number for one in ended if one.aggregate is not None] == [0, 1, 2]


@pytest.mark.parametrize("agreement", ["x25519", "x25519-mlkem768"])
def test_a_mixed_series_with_helpers_gives_plain_sums(agreement: str, node: Runner, chromium: Runner):
    ended = MixedAssistedSeries([None, node, chromium], agreement=agreement).play()
    assert [one.aggregate and one.aggregate.survivors for one in ended] == [(0, 2, 3, 4), (0, 1, 3, 4), (0, 1, 2, 4)]


def meddled(random: Random, right: bytes, others: list[bytes]) -> bytes:
    """Return an envelope that differs from the right one, or not."""
    messages, foreign = opened(right), [one for other in others for one in opened(other)]
    place = random.randrange(8 * len(right)) if right else 0
    flipped = bytearray(right or b"\0")
    flipped[place // 8] ^= 1 << place % 8
    return random.choice(
        [
            bytes(flipped),
            right[: random.randrange(len(right) + 1)],
            right + bytes(random.randrange(9)),
            envelope.pack(reversed(messages)),
            envelope.pack(messages[1:]),
            envelope.pack(messages[:-1]),
            envelope.pack([*messages, random.choice(foreign)]),
            envelope.pack([random.choice(foreign)]),
            envelope.pack([*messages, *messages]),
            random.choice(others),
            right,
        ]
    )


def answers(one: SeriesClient, requests: list[bytes]) -> list[str]:
    outcomes = []
    for request in requests:
        try:
            outcomes.append(one.receive(request).hex())
        except CcesaError as error:
            outcomes.append(type(error).__name__)
    return outcomes


def alike(guard: str, runner: Runner, count: int, seed: int) -> None:
    random, played = Random(seed), MixedAssistedSeries() if guard == "assisted" else MixedSeries(guard, [None])
    played.play()
    everything = [envelope for asked in played.asked.values() for envelope in asked]
    for _ in range(count):
        client = random.randrange(played.config.clients)
        asked = played.asked[client]
        place = random.randrange(len(asked))
        requests = [*asked[:place], meddled(random, asked[place], everything), *asked[place:]]
        sent = [request.hex() for request in requests]
        got = runner.call("replay-series", part=played.part(client), requests=sent)
        theirs = [answer["reply"] if "reply" in answer else answer["error"] for answer in got]
        one = played.here(client) if isinstance(played, MixedAssistedSeries) else played.client(client)
        assert list(map(comparable, theirs)) == list(map(comparable, answers(one, requests)))


@pytest.mark.parametrize("guard", [*GUARDS, "assisted"])
def test_both_clients_answer_envelopes_alike(guard: str, runner: Runner):
    alike(guard, runner, FEW, seed=0)


@pytest.mark.typescript
@pytest.mark.parametrize("guard", [*GUARDS, "assisted"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_thousands_of_envelopes(guard: str, runner: Runner, seed: int):
    alike(guard, runner, MANY, seed)
