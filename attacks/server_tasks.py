"""A server that lies about what a round is about. S15, S26: ``active`` has to hold.

What is worked on is known only when step 2 opens, so it is no part of the context. A client computes the
digest of what it was given, refuses a request for another one, and signs it along with V2 and V3.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import Stage, changed, inputs, names, opened
from ccesa import labels
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.protocol import active_client, signed_texts
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.client_states import ClientRound, Membership
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import enrol, make_charter
from ccesa.words import Vector

CLIENTS, VICTIM = 9, 3
MODEL, DEAD = (labels.digest(what) for what in (b"the model", b"a model that cannot learn"))


def _at_work(kind: type[ActiveClient], server: type[Server], tell: Tell, given: Mapping[int, bytes]) -> Stage:
    """A round of clients that were given models; whoever has the dead one can learn nothing from its data."""
    identities = enrol(CLIENTS)
    charter = make_charter(identities)
    config = charter.config(length=8)
    vectors = {i: vector if given[i] == MODEL else np.zeros_like(vector) for i, vector in inputs(config).items()}
    made = {i: _client(kind, config, identities[i], charter, vectors[i], given[i]) for i in range(CLIENTS)}
    tell(f"server gives client {VICTIM} the model, and all others one on which every update is zero")
    return Stage(server(config, charter, task=DEAD), made, vectors, tell)


def _client(
    kind: type[ActiveClient], config: Any, identity: Identity, charter: Charter, vector: Vector, task: bytes
) -> ActiveClient:
    return kind(config, identity, charter, vector, tasks=None, task=task)


def _end(stage: Stage) -> Outcome:
    """Stolen if the sum is the victim's: the others put nothing in."""
    stage.tell_aborts()
    wanted = stage.vectors[VICTIM]
    if stage.failure is not None:
        summary = f"{names(stage.aborted)} aborted, there is no sum: {stage.failure}"
        return Outcome(succeeded=False, summary=summary, victim=wanted)
    found = stage.server.result()
    if VICTIM not in found.survivors:
        summary = f"client {VICTIM} sent no vector ({stage.aborted[VICTIM]}), and is not in the sum"
        return Outcome(succeeded=False, summary=summary, victim=wanted)
    return opened(found.vector, wanted, "the sum is the victim's update alone")


# S15


def _as_asked(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same answer, by a client that takes the server's word for what it was given."""

    def believing(round: ClientRound[Membership], state: Any, request: m.MaskAmongAtOnceRequest) -> Any:
        return answer(replace(round, task=request.task), state, request)

    return believing


class BlindToTask(Weakened, ActiveClient):
    """Does not look at what it was given to work on."""

    weaker = weaken(mask=in_step(answer=_as_asked))


def different_models(defended: bool, tell: Tell) -> Outcome:
    """The victim gets the real model, everyone else a dead one, and all are asked for the dead one's task."""
    given = {i: MODEL if i == VICTIM else DEAD for i in range(CLIENTS)}
    stage = _at_work(ActiveClient if defended else BlindToTask, Server, tell, given)
    tell("server asks everyone for a vector for the same task")
    return _end(stage.to_the_end())


# S26


def _taskless(text: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda context, root, v2, task, *rest: text(context, root, v2, m.NO_TASK, *rest)


#: The signed texts without the task.
_TASKLESS = SimpleNamespace(
    **{
        **vars(signed_texts),
        "masking_text": _taskless(signed_texts.masking_text),
        "confirmed_text": _taskless(signed_texts.confirmed_text),
    }
)


class TasklessSignatures(Weakened, ActiveClient):
    """Signs V2 and V3 without saying what the vector is for."""

    weaker = weaken(
        mask=in_step(answer=without(mask=relaxed(active_client.mask, signed_texts=_TASKLESS))),
        confirm=in_step(answer=without(signed_texts=_TASKLESS)),
        unmask=in_step(answer=without(check_confirmed=relaxed(active_client.check_confirmed, signed_texts=_TASKLESS))),
    )


class TwoFacedServer(Weakened, Server):
    """Takes vectors for every task, and checks no signature."""

    weaker = weaken(
        mask=in_step(take=without(check_asked_for=skip, check_signed=skip)),
        confirm=in_step(take=without(check_signed=skip)),
    )


def two_tasks(defended: bool, tell: Tell) -> Outcome:
    """The victim gets the real model, everyone else a dead one, and each is asked for its own task."""
    given = {i: MODEL if i == VICTIM else DEAD for i in range(CLIENTS)}
    stage = _at_work(ActiveClient if defended else TasklessSignatures, TwoFacedServer, tell, given)
    stage.until("mask")
    tell(f"server asks client {VICTIM} for a vector for one task, and everyone else for another")
    stage.step(to_client=lambda client, request: changed(request, task=given[client]))
    return _end(stage.to_the_end())


TASK_LIES = (
    Attack(
        number="S15",
        name="different-models",
        title="different models to different clients, under the name of one",
        guard="active",
        defence="a client computes the digest of what it was given, and refuses a request for another one",
        run=different_models,
    ),
    Attack(
        number="S26",
        name="two-tasks",
        title="two tasks in one round: each client is asked for what it was given",
        guard="active",
        defence="the task is signed along with V2 and V3, and b_i is released for the task that i signed",
        run=two_tasks,
    ),
)
