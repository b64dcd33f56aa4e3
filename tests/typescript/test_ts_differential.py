"""The same requests, right and mutated, get the same answers from Python's client and TypeScript's."""

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from vectors.cases.common import Stream

from adversary import foreign_messages
from adversary_tampering import TAMPERINGS
from attacks.hostile import HostileRound
from ccesa.errors import CcesaError
from ccesa.simulate.enrolment import new_client, new_server
from mixed import KINDS, Scene
from rounds import federation_of, inputs
from runners import Runner

#: Requests per scene, and scenes in the default tests and in the long one.
EACH, FEW, MANY = 20, 10, 280


class Recorded(HostileRound):
    """A round in which the requests of every client are noted, in their order."""

    def __init__(self, scene: Scene) -> None:
        config, vectors = scene.config, dict(enumerate(inputs(scene.config, scene.number)))
        clients = {i: here(scene, i) for i in vectors}
        super().__init__(new_server(config, federation_of(config), task=scene.task), clients, vectors)
        self.asked: dict[int, list[bytes]] = {i: [] for i in vectors}

    def ask(self, client: int, request: bytes) -> bytes | None:
        self.asked[client].append(bytes(request))
        return super().ask(client, request)


def here(scene: Scene, client: int) -> Any:
    """Return the client of a scene in Python."""
    config, vector = scene.config, inputs(scene.config, scene.number)[client]
    options = {"task": scene.task, "random": Stream(scene.seed(client))}
    return new_client(config, client, vector, federation_of(config), **options)


def replayed(scene: Scene, client: int, requests: list[bytes]) -> list[str]:
    """Return what the client in Python answers, or by which name it refuses."""
    one, outcomes = here(scene, client), []
    for request in requests:
        try:
            outcomes.append(one.receive(request).hex())
        except CcesaError as error:
            outcomes.append(type(error).__name__)
    return outcomes


def mutated(scene: Scene, asked: dict[int, list[bytes]], log: list[bytes], random: Random) -> tuple[int, list]:
    """Return requests to one client: right ones, one that was meddled with, and the right ones again."""
    client = random.choice([i for i, requests in asked.items() if requests])
    place = random.randrange(len(asked[client]))
    world = SimpleNamespace(config=scene.config, setup=SimpleNamespace(clients=scene.config.clients), log=log)
    right = asked[client][place]
    wrong = random.choice(TAMPERINGS)(right, random.getrandbits(30), random.getrandbits(30), world)
    return client, [*asked[client][:place], wrong, *asked[client][place:]]


def differences(number: int, runner: Runner) -> Counter[str]:
    """Compare so many sequences of one scene; return how often each outcome was the same on both sides."""
    scene, random = Scene(number), Random(number)
    played = Recorded(scene).to_the_end(scene.gone)
    config, counts = scene.config, Counter[str]()
    log = [request for requests in played.asked.values() for request in requests]
    log += foreign_messages(config.guard, config.clients, config.accept)
    for _ in range(EACH):
        client, requests = mutated(scene, played.asked, log, random)
        sent = [request.hex() for request in requests]
        answers = runner.call("replay", part=scene.part(client), requests=sent)
        theirs = [answer.get("error") or answer["reply"] for answer in answers]
        ours = replayed(scene, client, requests)
        assert list(map(comparable, theirs)) == list(map(comparable, ours)), (KINDS[number % len(KINDS)], sent)
        counts.update(outcome if outcome.isalpha() else "reply" for outcome in ours)
    return counts


def comparable(outcome: str) -> str:
    """Leave out the texts of a share reply under the hybrid agreement: each has a fresh encapsulation."""
    name = b"share-reply".hex()
    hybrid = outcome[4:26] == name and len(outcome) > 2 * 1232
    return outcome[:164] + str(len(outcome)) if hybrid else outcome


@pytest.mark.parametrize("number", range(FEW))
def test_both_clients_answer_alike(number: int, runner: Runner):
    counts = differences(number, runner)
    assert counts["reply"] > 0
    assert counts["FaultyServer"] > 0


@pytest.mark.typescript
@pytest.mark.parametrize("number", range(FEW, MANY))
def test_ten_thousand_times(number: int, runner: Runner):
    assert sum(differences(number, runner).values()) >= EACH
