"""Real clients in processes of their own; only the words of their vectors are left to the device.

A process has the same clients through all steps of a round, of two rounds at a time: one is set up while the
other is at work.
"""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, NamedTuple
from unittest.mock import patch

from ccesa.agreement.config import RoundConfig
from ccesa.compiled import VARIABLE
from ccesa.crypto.masks import Mask
from ccesa.protocol import curious_client
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Accepted, ClientRound, Holding
from ccesa.protocol.masking import all_masks
from ccesa.protocol.steps import Requests
from ccesa.words import Vector
from experiments.rounds import seeded

#: By context, the clients of this process; and the masks that they have noted.
_CLIENTS: dict[bytes, dict[int, Client]] = {}
_NOTED: dict[int, list[Mask]] = {}


class Answer(NamedTuple):
    """A reply; in the mask step it has no vector, and the masks are those that the vector gets."""

    reply: bytes
    masks: list[Mask]


def note_masks(
    round: ClientRound[Any], state: Accepted, held: Holding, asked: bytes, among: bytes, kind: type[m.MaskedVector]
) -> tuple[Holding, dict[str, Any]]:
    """Take the place of ``masking.mask_vector``: note the masks, by the same function, and send no vector."""
    _NOTED[round.client] = all_masks(round, state, held.near.mask_neighbours)
    name, make = kind.fingerprint
    return held, {"among": among, "task": asked, "vector": b"", name: make(b"", round.context, round.client)}


def join(config: RoundConfig, ids: list[int], seed: list[int]) -> None:
    """Make the clients of a round that this process has."""
    _CLIENTS[config.context] = {
        client: Client(config, client, _on_the_device, random=seeded([*seed, client])) for client in ids
    }


def answer(context: bytes, requests: Requests) -> dict[int, Answer]:
    """Let these clients answer. Those of a round are forgotten once it has gone through its last step."""
    clients = _CLIENTS[context]
    with patch.object(curious_client, "mask_vector", note_masks):
        replies = {client: clients[client].receive(request) for client, request in requests.items()}
    found = {client: Answer(reply, _NOTED.pop(client, [])) for client, reply in replies.items()}
    if all(clients[client].done for client in requests):
        del _CLIENTS[context]
    return found


def _on_the_device() -> Vector:
    raise AssertionError("the vector is on the device; nobody asks for it here")


class Parties:
    """All clients of a round, dealt out to processes."""

    def __init__(self, processes: int) -> None:
        self._executors = [single(processes > 0) for _ in range(max(1, processes))]

    def join(self, config: RoundConfig, seed: list[int]) -> None:
        running = [
            executor.submit(join, config, list(range(place, config.clients, len(self._executors))), seed)
            for place, executor in enumerate(self._executors)
        ]
        for one in running:
            one.result()

    def answer(self, context: bytes, requests: Requests) -> Iterator[tuple[int, Answer]]:
        """Hand requests to their clients, and replies back."""
        parts: list[dict[int, bytes]] = [{} for _ in self._executors]
        for client, request in requests.items():
            parts[client % len(parts)][client] = request
        running = [
            executor.submit(answer, context, part)
            for executor, part in zip(self._executors, parts, strict=True)
            if part
        ]
        for one in running:
            yield from one.result().items()

    def close(self) -> None:
        for executor in self._executors:
            executor.shutdown()


class Inline(Executor):
    """Runs everything at once, in this process."""

    def submit(self, fn: Any, /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*given, **named))
        except Exception as error:  # raised where the result is asked for
            future.set_exception(error)
        return future


def single(apart: bool, kernel: str | None = None) -> Executor:
    """One process that keeps its memory from call to call, or none ``apart``."""
    if not apart:
        return Inline()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=_choose, initargs=(kernel,))


def _choose(kernel: str | None) -> None:
    if kernel is not None:
        os.environ[VARIABLE] = kernel
