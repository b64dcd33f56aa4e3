"""The server of each round, the project's own, with a front end on the device.

A server can take over the sum that another one took in. Here the other one is the device: it adds the
masked vectors up, and their sum and the replies they came with are taken over as a front end's are.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ccesa.crypto.masks import Mask
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests
from ccesa.words import Vector
from experiments.cifar_masked.parties import Answer, Parties
from experiments.cifar_masked.setup import Task
from experiments.rounds import seeded


@dataclass(frozen=True, kw_only=True)
class Witness:
    """One client and all that it was asked, so that its masked vector can be made again without a GPU."""

    client: int
    requests: list[bytes] = field(repr=False)

    def masked(self, task: Task, vector: Vector) -> bytes:
        """What a whole client of the same keys sends."""
        twin = Client(task.config, self.client, vector, random=seeded([*task.seed, self.client]))
        reply = [twin.receive(request) for request in self.requests][-1]
        return bytes(m.expect(m.decode(reply, len(reply)), m.MaskReply).vector)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A round in which vectors are due: for each client that will send one its masks."""

    masks: dict[int, list[Mask]] = field(repr=False)
    witness: Witness
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The sum, who is in it, and how many masks were taken off it."""

    vector: bytes = field(repr=False)
    survivors: list[int]
    taken_off: int
    #: How many were left after each step.
    left: list[int]
    seconds: float


class Protocol:
    """Runs rounds: each up to the masked vectors, and from their sum on."""

    def __init__(self, processes: int) -> None:
        self._parties = Parties(processes)
        self._open: dict[bytes, tuple[Task, Server, dict[int, bytes]]] = {}

    def prepare(self, task: Task) -> Prepared:
        """Make keys, draw the graph, deal shares, agree on masks."""
        started = time.perf_counter()
        server = Server(task.config)
        witness = Witness(client=_steadfast(task), requests=[])
        self._parties.join(task.config, task.seed)
        requests = server.open()
        while not m.has_vector(server.step.reply):
            witness.requests.append(requests[witness.client])
            for client, answer in self._answers(task, server, requests):
                server.receive(client, answer.reply)
            requests = server.close()
        witness.requests.append(requests[witness.client])
        answers = dict(self._answers(task, server, requests))
        replies = {client: answer.reply for client, answer in answers.items()}
        self._open[server.context] = task, server, replies
        return Prepared(
            masks={client: answer.masks for client, answer in answers.items()},
            witness=witness,
            seconds=time.perf_counter() - started,
        )

    def finish(self, context: bytes, total: bytes) -> Finished:
        """Take over the sum of the masked vectors, rebuild the secrets, take the masks off."""
        started = time.perf_counter()
        task, server, replies = self._open.pop(context)
        server.take_over(replies, total)
        requests = server.close()
        while requests:
            for client, answer in self._answers(task, server, requests):
                server.receive(client, answer.reply)
            requests = server.close()
        return _finished(server.result(), started)

    def close(self) -> None:
        self._parties.close()

    def _answers(self, task: Task, server: Server, requests: Requests) -> Iterator[tuple[int, Answer]]:
        gone = task.gone[server.step.name]
        here = {client: requests[client] for client in requests if client not in gone}
        return self._parties.answer(server.context, here)


def _steadfast(task: Task) -> int:
    """The first client that never drops out."""
    everyone = set(range(task.config.clients))
    return min(everyone.difference(*task.gone.values()))


def _finished(found: Aggregate, started: float) -> Finished:
    way = found.evolution
    dropped = way.v2 & ~way.v3
    pairs = int(way.graph.live_mask_neighbours(way.v3)[dropped].sum())
    return Finished(
        vector=found.vector.tobytes(),
        survivors=list(found.survivors),
        taken_off=len(found.survivors) + pairs,
        left=[way.graph.size, *(int(np.count_nonzero(step)) for step in (way.v2, way.v3, way.v4))],
        seconds=time.perf_counter() - started,
    )


_PROTOCOL: dict[str, Any] = {}


def begin(processes: int) -> None:
    """Start in this process, which ``prepare`` and ``finish`` are then called in."""
    _PROTOCOL["here"] = Protocol(processes)


def prepare(task: Task) -> Prepared:
    found: Prepared = _PROTOCOL["here"].prepare(task)
    return found


def finish(context: bytes, total: bytes) -> Finished:
    found: Finished = _PROTOCOL["here"].finish(context, total)
    return found


def end() -> None:
    _PROTOCOL.pop("here").close()
