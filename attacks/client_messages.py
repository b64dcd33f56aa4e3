"""Rows C6 to C8, C14 and C15: clients that send too much, too often, too late, or not at all any more."""

import sys
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import Stage, changed, under
from ccesa import labels
from ccesa.errors import OverlappingSums
from ccesa.graphs import Harary
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import settle
from ccesa.wire import Data
from ccesa.words import Vector

LIAR, VICTIM = 4, 2
OVERSIZE = 1 << 24


class UnlimitedServer(Server):
    """Without the bound that the configuration gives for a message."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = dict.fromkeys(self._limits, sys.maxsize)


class ForgetfulServer(Server):
    """Without a memory of who has answered."""

    def receive(self, client: int, reply: Data) -> None:
        self._answered.pop(client, None)
        super().receive(client, reply)


class PartialServer(Weakened, Server):
    """Without the check whether the survivors' masks hold together."""

    weaker = weaken(mask=in_step(close=without(settle=relaxed(settle, check_connected=skip))))


def oversize(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else UnlimitedServer).until("mask")
    tell(f"client {LIAR} sends a task of {OVERSIZE} bytes, {m.TASK_BYTES} are expected")
    reply = stage.ask(LIAR, stage.requests[LIAR]) or b""
    peak = _peak(stage, changed(reply, task=bytes(OVERSIZE)))
    stage.step(gone={LIAR})
    stage.to_the_end()
    summary = f"{stage.refused[LIAR]}; the server needed {peak} bytes of memory to say so"
    return Outcome(succeeded=peak >= OVERSIZE or not stage.is_right, summary=summary)


def _peak(stage: Stage, reply: bytes) -> int:
    """The most memory that the server took at a time for this reply."""
    tracemalloc.start()
    try:
        stage.hand_over(LIAR, reply)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def send_twice(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else ForgetfulServer).until("mask")
    tell(f"client {LIAR} sends its masked vector three times, the third time another one")
    reply, other = stage.ask(LIAR, stage.requests[LIAR]) or b"", bytes(stage.config.vector_bytes)
    sent: Any = m.decode(reply, len(reply))
    name, make = sent.fingerprint
    another = changed(reply, **{"vector": other, name: make(other, stage.config.context, LIAR)})
    for each in (reply, reply, another):
        stage.hand_over(LIAR, each)
    stage.step(gone={LIAR})
    stage.to_the_end()
    if stage.is_right:
        return Outcome(succeeded=False, summary=f"counted once, the sum is right ({stage.refused[LIAR]})")
    return Outcome(succeeded=stage.server.aggregate is not None, summary="all three are added: the sum is wrong")


def leave_together(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    """On a circle, those on both sides of the victim and an accomplice leave; the network is overheard."""
    server = Server if defence else PartialServer
    stage = under(guard, tell, server=server, graph=Harary(degree=2)).until("share")
    stage.look_ahead()
    left, accomplice = stage.overheard[VICTIM].neighbours
    right = next(i for i in stage.overheard[accomplice].neighbours if i != VICTIM)
    tell(f"clients {left} and {right} leave: only client {accomplice} stays beside client {VICTIM}")
    stage.to_the_end({"mask": {left, right}})
    if stage.failure is not None:
        return Outcome(succeeded=False, summary=f"no share is asked for: {stage.failure}")
    found = stage.overheard.partial_sums().get(frozenset({VICTIM, accomplice}))
    stolen = None if found is None else found - stage.vectors[accomplice]
    return Outcome(
        succeeded=stolen is not None and bool(np.array_equal(stolen, stage.vectors[VICTIM])),
        summary=f"the sum of two opens; client {accomplice} takes its own vector away and has the other",
        stolen=stolen,
        victim=stage.vectors[VICTIM],
    )


_OLD = labels.digest(b"the model before")


def _late(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same answer, as if it had been asked for the model before."""

    def answer_late(round: Any, state: Any, request: Any) -> Any:
        return answer(replace(round, task=_OLD), state, msgspec.structs.replace(request, task=_OLD))

    return answer_late


class Stale(Weakened, Client):
    """Works on the model before."""

    weaker = weaken(mask=in_step(answer=_late))


def _of_any_task(take: Callable[..., Any]) -> Callable[..., Any]:
    return relaxed(take, check_asked_for=skip)


class AnyTaskServer(Weakened, Server):
    """Without a look at what a vector was masked for, and among whom."""

    weaker = weaken(mask=in_step(take=_of_any_task))


def stale_task(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else AnyTaskServer, crooked={LIAR: Stale})
    tell(f"client {LIAR} sends a vector that it made for the model before")
    stage.to_the_end()
    others = sorted(stage.server.result().survivors)
    if LIAR in others:
        return Outcome(succeeded=True, summary="the sum has a vector in it that was made for another model")
    return Outcome(succeeded=not stage.is_right, summary=f"refused ({stage.refused[LIAR]}), {len(others)} others go on")


class FrontEnd(Server):
    """One of several servers of a round that each take some of the vectors."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._made_of = arguments, options
        self._closed: list[dict[int, bytes]] = []
        super().__init__(*arguments, **options)

    def close(self) -> Requests:
        """Close the step, and know what led to that."""
        self._closed.append({client: self.recall(client) for client in self.answered})
        return super().close()

    def beside(self) -> "FrontEnd":
        """Return another server of this round, in the same step."""
        arguments, options = self._made_of
        other = type(self)(*arguments, **options)
        other.open()
        for answers in self._closed:
            other.take_over(answers)
            other.close()
        return other


class PassingOver(FrontEnd):
    """Without the check whether both have taken a vector of the same client."""

    def take_over(self, answers: Mapping[int, bytes], total: Data = b"") -> None:
        new = {client: answer for client, answer in answers.items() if client not in self.answered}
        super().take_over(new, total)


def answer_at_two(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=FrontEnd if defence else PassingOver).until("mask")
    first, second = stage.server, cast(FrontEnd, stage.server).beside()
    tell(f"client {LIAR} sends its vector to two front ends of one round; client 0 reaches the second only")
    for client, reply in stage.replies().items():
        if client:
            stage.hand_over(client, reply)
        if client in (0, LIAR):
            second.receive(client, reply)
    answers, total = {i: second.recall(i) for i in second.answered}, cast(Vector, second.total)
    try:
        first.take_over(answers, total.tobytes())
    except OverlappingSums as error:
        return Outcome(succeeded=False, summary=f"nothing is added: {error}")
    stage.close()
    stage.to_the_end()
    return Outcome(succeeded=not stage.is_right, summary="its vector counts twice: the sum is wrong")


MESSAGE_ATTACKS = (
    Attack(
        number="C6",
        name="oversize",
        title="A client sends a message that is far too large",
        guard="curious",
        defence="a bound on every message, from the configuration, before it is parsed",
        run=oversize,
    ),
    Attack(
        number="C7",
        name="send-twice",
        title="A client sends its vector again and again",
        guard="curious",
        defence="the first answer of each client counts, and no other",
        run=send_twice,
    ),
    Attack(
        number="C8",
        name="leave-together",
        title="Clients leave at the same time so that one is left among few",
        guard="curious",
        defence="no share is asked for unless the survivors' masks hold together",
        run=leave_together,
    ),
    Attack(
        number="C14",
        name="stale-task",
        title="A client sends a vector for another task than it was asked for",
        guard="curious",
        defence="every mask reply says what it is for and among whom, and the server refuses any other",
        run=stale_task,
    ),
    Attack(
        number="C15",
        name="answer-at-two",
        title="A client sends its vector to two front ends of one round",
        guard="curious",
        defence="sums are added up only where no client has answered at both",
        run=answer_at_two,
    ),
)
