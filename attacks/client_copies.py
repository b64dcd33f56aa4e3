"""Row C16: a client whose function forks has its keys twice, and both processes would send a vector."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.stage import LENGTH, under
from ccesa import words
from ccesa.errors import CcesaError
from ccesa.memory import ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.parties import OwnProcess
from ccesa.words import Vector

FORKED = 4
TASK = bytes(range(32))


class _Anywhere(OwnProcess):
    """Takes every process for its own."""

    def check(self, drop: Callable[[], None] | None = None) -> None:
        """Pass."""


class Copied(Client):
    """Sends one vector in the process that it was made in, and another one in a fork."""

    defended = True

    def split(self, plain: dict[bool, Vector], pipe: int) -> None:
        """Fork where the vector is made; the fork writes what it answers into the pipe."""
        spend = replace(self._round.spend, memory=ProcessMemory() if self.defended else None)
        if not self.defended:
            spend = replace(spend, process=_Anywhere())

        def vector() -> Vector:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # other threads are idle here
                child = os.fork()
            self.child, self.pipe = child, pipe
            return plain[bool(child)]

        self._round = replace(self._round, vector=vector, spend=spend)


class Uncounted(Copied):
    """Without an entry for the round, and without a look at the process."""

    defended = False


def forked(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    kind = Copied if defence else Uncounted
    stage = under(guard, tell, crooked={FORKED: kind})
    stage.server.work_on(TASK)
    for client in stage.clients.values():
        client._round = replace(client._round, task=TASK)  # noqa: SLF001
    stage.until("mask")
    plain = {True: stage.vectors[FORKED], False: stage.vectors[FORKED - 1]}
    client, (reading, writing) = stage.clients[FORKED], os.pipe()
    if not isinstance(client, Copied):
        raise TypeError("expected the client whose function forks")
    client.split(plain, writing)
    tell(f"the function of client {FORKED} forks, and returns another vector in the fork")
    said = _answer(client, stage.requests[FORKED])
    if not client.child:  # the fork
        try:
            os.write(writing, said)
        finally:
            os._exit(0)
    os.waitpid(client.child, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        other = pipe.read()
    wanted = plain[True] - plain[False]
    if not other.startswith(said[:4]):
        return Outcome(succeeded=False, summary=f"the fork sent nothing: {other.decode()}", victim=wanted)
    difference = _masked(said) - _masked(other)
    same = bool(np.array_equal(difference, wanted))
    summary = "two vectors under the same masks, whose difference is plain"
    return Outcome(succeeded=same, summary=summary, stolen=difference, victim=wanted)


def _answer(client: Client, request: bytes) -> bytes:
    """Return what a process sends; where it sends nothing, why."""
    try:
        return client.receive(request)
    except CcesaError as error:
        return str(error).encode()


def _masked(reply: bytes) -> Vector:
    return words.from_bytes(m.decode(reply, len(reply)).vector, 32)[:LENGTH]  # type: ignore[attr-defined]


COPIES = (
    Attack(
        number="C16",
        name="forked",
        title="a client's function forks: two vectors of one round",
        guard="curious",
        defence="one entry for each round is made before a vector leaves, and a fork drops its keys",
        run=forked,
    ),
)
