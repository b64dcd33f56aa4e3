"""Rounds of clients in Python, in Node and in a browser; all but encapsulations follows from a number."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from vectors.cases.common import Stream

import ccesa.errors
from attacks.hostile import HostileRound
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.protocol.client import Client
from ccesa.simulate.enrolment import new_client, new_server
from rounds import CONFIGURE, charter_of, federation_of, inputs, steps_under
from runners import Runner

#: By name, a graph of eight to twelve clients that survives two dropouts; with thin masks only under curious.
GRAPHS = {
    "complete": {"curious": Complete(mask_degree=4), "active": Complete()},
    "harary": {"curious": Harary(degree=6, mask_degree=4), "active": Harary(degree=6)},
    "erdos-renyi": {"curious": ErdosRenyi(p=0.9, mask_p=0.8), "active": ErdosRenyi(p=0.95)},
}
#: Every combination of what a round may be like, in an order in which neighbours differ in all of it.
KINDS = sorted(
    itertools.product(("curious", "active"), (False, True), GRAPHS, (8, 16, 32, 64)),
    key=lambda kind: Random(repr(kind)).random(),
)


@dataclass(frozen=True)
class Scene:
    """A round by its number: what it is like, who is where, and who drops out when."""

    number: int

    @cached_property
    def config(self) -> RoundConfig:
        guard, accept, graph, bits = KINDS[self.number % len(KINDS)]
        hybrid = accept and self.number % 5 == 0
        return CONFIGURE[guard](
            clients=8 + self.number % 5,
            graph=GRAPHS[graph][guard],
            bits=bits,
            length=1 + self.number * 7 % 50,
            accept=accept,
            generator=("aes128-ctr", "chacha20")[self.number % 3 == 0],
            agreement="x25519-mlkem768" if hybrid else "x25519",
            series_id=self.seed("series"),
            number=self.number,
        )

    @cached_property
    def gone(self) -> dict[str, set[int]]:
        """One client drops out in one step, and another one in the step after it, each step in its turn."""
        names = [step.name for step in steps_under(self.config.guard, self.config.accept)]
        first, second = Random(self.number).sample(range(self.config.clients), 2)
        place = self.number % len(names)
        return {names[place]: {first}, names[(place + 1) % len(names)]: {first, second}}

    def seed(self, what: object) -> bytes:
        return Random(f"{self.number} {what}").randbytes(32)

    @property
    def task(self) -> bytes:
        return self.seed("task")

    def here(self, client: int) -> Client:
        """Return a client in Python."""
        config, vector = self.config, inputs(self.config, self.number)[client]
        options = {"task": self.task, "random": Stream(self.seed(client))}
        return new_client(config, client, vector, federation_of(config), **options)

    def part(self, client: int) -> dict[str, Any]:
        """What a client elsewhere is told."""
        config = self.config
        part = {
            "config": config.encode().hex(),
            "client": client,
            "vector": inputs(config, self.number)[client].tobytes().hex(),
            "task": self.task.hex(),
            "seed": self.seed(client).hex(),
        }
        if config.guard == "active":
            part |= {"charter": str(charter_of(config)), "identity": identity_seed(client).hex()}
        return part


def identity_seed(client: int) -> bytes:
    """Return the private key of a member of these tests."""
    return client.to_bytes(32, "little")


class Remote:
    """A client elsewhere, with the method that a round calls."""

    def __init__(self, runner: Runner, name: str, op: str, part: Mapping[str, Any]) -> None:
        self._runner, self._name = runner, name
        given(runner.call(op, id=name, part=part))

    def receive(self, request: bytes) -> bytes:
        """Return the reply, or raise the refusal of that name."""
        return given(self._runner.call("receive", id=self._name, request=bytes(request).hex()))


def given(outcome: Mapping[str, str]) -> bytes:
    """Return the bytes of an outcome, or raise what it names."""
    if "error" in outcome:
        raise refusal(outcome["error"], outcome["text"])
    return bytes.fromhex(outcome["reply"])


def refusal(name: str, text: str) -> Exception:
    kind = getattr(ccesa.errors, name)
    error = kind.__new__(kind)
    error.args = (text,)
    return error


class MixedRound(HostileRound):
    """A server in Python; client i is in the i-th place, where None is here."""

    def __init__(self, scene: Scene, places: Sequence[Runner | None]) -> None:
        config, vectors = scene.config, dict(enumerate(inputs(scene.config, scene.number)))
        clients: dict[int, Any] = {}
        for i in range(config.clients):
            runner = places[i % len(places)]
            if runner is None:
                clients[i] = scene.here(i)
            else:
                clients[i] = Remote(runner, f"{scene.number}/{i}", "join", scene.part(i))
        super().__init__(new_server(config, federation_of(config), task=scene.task), clients, vectors)


def is_exact(played: MixedRound, gone: Mapping[str, set[int]]) -> bool:
    """Play to the end; tell whether the sum is the plain one, of those who sent a vector."""
    aggregate = played.finish(gone)
    silent = set().union(*(gone.get(step, ()) for step in ("advertise", "share", "accept", "mask")))
    return silent.isdisjoint(aggregate.survivors) and np.array_equal(
        aggregate.vector, played.expected(aggregate.survivors)
    )
