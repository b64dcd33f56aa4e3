"""The same requests, right and mutated, get the same answers from Python's client and TypeScript's."""

from collections import Counter
from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import TypeAlias

import pytest

from adversary import foreign_messages
from adversary_tampering import TAMPERINGS
from assisted_rounds import transcript
from attacks.hostile import HostileRound
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.simulate.enrolment import new_server
from mixed import Scene
from mixed_assisted import AssistedScene, MixedAssistedRound
from rounds import federation_of, inputs
from runners import Runner

#: A round of any guard.
AnyScene: TypeAlias = Scene | AssistedScene

#: Requests per scene, and scenes in the default tests and in the long one.
EACH, FEW, MANY, HELPED = 20, 10, 280, 100


class Recorded(HostileRound):
    """A round in which the requests of every client are noted, in their order."""

    def __init__(self, scene: Scene) -> None:
        config, vectors = scene.config, dict(enumerate(inputs(scene.config, scene.number)))
        clients = {i: scene.here(i) for i in vectors}
        super().__init__(new_server(config, federation_of(config), task=scene.task), clients, vectors)
        self.asked: dict[int, list[bytes]] = {i: [] for i in vectors}

    def ask(self, client: int, request: bytes) -> bytes | None:
        self.asked[client].append(bytes(request))
        return super().ask(client, request)


def replayed(scene: AnyScene, client: int, requests: list[bytes]) -> list[str]:
    """Return what the client in Python answers, or by which name it refuses."""
    one, outcomes = scene.here(client), []
    for request in requests:
        try:
            outcomes.append(one.receive(request).hex())
        except CcesaError as error:
            outcomes.append(type(error).__name__)
    return outcomes


def mutated(scene: AnyScene, asked: dict[int, list[bytes]], log: list[bytes], random: Random) -> tuple[int, list]:
    """Return requests to one client: right ones, one that was meddled with, and the right ones again."""
    client = random.choice([i for i, requests in asked.items() if requests])
    place = random.randrange(len(asked[client]))
    world = SimpleNamespace(config=scene.config, setup=SimpleNamespace(clients=scene.config.clients), log=log)
    right = asked[client][place]
    wrong = random.choice(TAMPERINGS)(right, random.getrandbits(30), random.getrandbits(30), world)
    return client, [*asked[client][:place], wrong, *asked[client][place:]]


def differences(number: int, runner: Runner) -> Counter[str]:
    """Compare so many sequences of one scene; return how often each outcome was the same on both sides."""
    scene = Scene(number)
    config, played = scene.config, Recorded(scene).to_the_end(scene.gone)
    foreign = foreign_messages(config.guard, config.clients, config.accept)
    return compared(scene, played.asked, foreign, runner)


def assisted_differences(number: int, runner: Runner) -> Counter[str]:
    """Compare members of a round with helpers in the same way."""
    scene = AssistedScene(number)
    played = MixedAssistedRound(scene)
    played.play(scene.gone)
    members = {i: requests for i, requests in played.asked.items() if i < scene.config.clients}
    return compared(scene, members, transcript().values(), runner)


def compared(scene: AnyScene, asked: dict[int, list[bytes]], foreign: Iterable[bytes], runner: Runner) -> Counter[str]:
    random, counts = Random(scene.number), Counter[str]()
    log = [*(request for requests in asked.values() for request in requests), *foreign]
    for _ in range(EACH):
        client, requests = mutated(scene, asked, log, random)
        sent = [request.hex() for request in requests]
        answers = runner.call("replay", part=scene.part(client), requests=sent)
        theirs = [answer.get("error") or answer["reply"] for answer in answers]
        ours = replayed(scene, client, requests)
        assert list(map(comparable, theirs)) == list(map(comparable, ours)), (scene, sent)
        counts.update(outcome if outcome.isalpha() else "reply" for outcome in ours)
    return counts


def comparable(outcome: str) -> str:
    """Leave out what follows from a fresh encapsulation: texts of a share reply, and of a member all but its key."""
    if outcome.startswith(b"\x99\xb0boxed-mask-reply".hex()):
        reply = m.decode(bytes.fromhex(outcome), len(outcome))
        return reply.key.hex() + str(len(outcome)) if reply.ciphertexts else outcome
    name = b"share-reply".hex()
    hybrid = outcome[4:26] == name and len(outcome) > 2 * 1232
    return outcome[:164] + str(len(outcome)) if hybrid else outcome


@pytest.mark.parametrize("number", range(FEW))
def test_both_clients_answer_alike(number: int, runner: Runner):
    counts = differences(number, runner)
    assert counts["reply"] > 0
    assert counts["FaultyServer"] > 0


@pytest.mark.parametrize("number", range(FEW))
def test_both_members_of_rounds_with_helpers_answer_alike(number: int, runner: Runner):
    counts = assisted_differences(number, runner)
    assert counts["reply"] > 0
    assert counts["FaultyServer"] > 0


@pytest.mark.typescript
@pytest.mark.parametrize("number", range(FEW, HELPED))
def test_thousands_of_times_with_helpers(number: int, runner: Runner):
    assert sum(assisted_differences(number, runner).values()) >= EACH


@pytest.mark.typescript
@pytest.mark.parametrize("number", range(FEW, MANY))
def test_ten_thousand_times(number: int, runner: Runner):
    assert sum(differences(number, runner).values()) >= EACH
