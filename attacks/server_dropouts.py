"""A server that lies about who dropped out, or asks twice. S3, S4, S5, S17: ``curious`` has to hold."""

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import Stage, changed, curious, ids, names
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.crypto import shamir
from ccesa.graphs import Harary
from ccesa.graphs.assignment import Flags, Neighbourhood
from ccesa.protocol import curious_client
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import ClientRound, Done, Holding
from ccesa.protocol.masking import check_left, hold_among, open_shares

VICTIM = 3


# S3


def read_as_a_set(round: ClientRound[Floor], packed: bytes, near: Neighbourhood) -> Flags:
    return ~np.isin(near.members, np.frombuffer(packed, "<u4"))


class AnyList(Weakened, Client):
    """Reads the list of the dropped as a set, and passes over whom it does not know."""

    weaker = weaken(unmask=in_step(answer=without(still_there=read_as_a_set)))


def impossible_ids(defended: bool, tell: Tell) -> Outcome:
    """Each impossible list goes to one client. It is read as a set, so no vector is lost by it."""
    config = RoundConfig(clients=9, length=8)
    stage = curious(config, tell, kind=Client if defended else AnyList).until("unmask", {"advertise": {8}})
    lists = {0: ids(2, 2), 1: ids(5, 2), 2: ids(8), 4: ids(99)}
    words = ("2 twice", "5 before 2", "8, which never was a neighbour", "99, which was never enrolled")
    for (client, packed), what in zip(lists.items(), words, strict=True):
        tell(f"server tells client {client} that these dropped: {what}")
        stage.ask(client, changed(stage.requests[client], dropped=packed))
    stage.tell_aborts()
    answered = sorted(lists.keys() - stage.aborted.keys())
    if not answered:
        return Outcome(succeeded=False, summary="all four aborted, not one share was released")
    return Outcome(
        succeeded=len(answered) == len(lists),
        summary=f"{names(answered)} went on and released shares to a server that had shown itself false",
    )


# S4


def unmask_oneself(round: ClientRound[Floor], state: Holding, request: m.UnmaskRequest) -> tuple[Done, m.UnmaskReply]:
    """Release shares as the original does, of its own key too, if the client is told that it dropped out."""
    dropped = m.unpack_ids("dropped", request.dropped, round.config.clients)
    others = m.pack_ids(dropped[dropped != round.client])
    told = m.UnmaskRequest(context=request.context, client=request.client, dropped=others)
    done, reply = curious_client.unmask(round, state, told)
    if round.client not in dropped:
        return done, reply
    shares = m.items("shares", reply.shares, state.near.members.size, shamir.SHARE_BYTES)
    shares[state.near.place] = state.shares[state.near.place][shamir.SHARE_BYTES :]
    return done, m.UnmaskReply(context=reply.context, client=reply.client, shares=b"".join(shares))


class Selfless(Weakened, Client):
    """Believes that it dropped out itself."""

    weaker = weaken(unmask=in_step(answer=lambda _: unmask_oneself))


def self_dropped(defended: bool, tell: Tell) -> Outcome:
    """On a circle, t = 2 of 3: the neighbours a and b of the victim give up their keys, those behind help.

    Without this lie it cannot be done: s_a and s_b would both need the victim, which may call one dropped.
    """
    config = RoundConfig(clients=7, length=8, graph=Harary(degree=2))
    stage = curious(config, tell, kind=Client if defended else Selfless).until("unmask")
    near = stage.overheard[VICTIM].neighbours
    told = {a: a for a in near}
    told |= {_behind(stage, a): a for a in near}
    for client, dropped in told.items():
        whom = "it dropped itself" if client == dropped else f"{dropped} dropped"
        tell(f"server tells client {client} that {whom}, and that {VICTIM} survived")
        stage.ask(client, changed(stage.requests[client], dropped=ids(dropped)))
    return stage.steal({VICTIM})


def _behind(stage: Stage, neighbour: int) -> int:
    return next(j for j in stage.overheard[neighbour].neighbours if j != VICTIM)


# S5


def keep_shares(round: ClientRound[Floor], state: Holding, request: m.UnmaskRequest) -> tuple[Holding, m.UnmaskReply]:
    return state, curious_client.unmask(round, state, request)[1]


class AnswersTwice(Weakened, Client):
    """Keeps its shares after it released some."""

    weaker = weaken(unmask=in_step(answer=lambda _: keep_shares))


def second_request(defended: bool, tell: Tell) -> Outcome:
    """First everyone survived, which gives b_v; then v dropped, which gives s_v."""
    stage = curious(RoundConfig(clients=9, length=8), tell, kind=Client if defended else AnswersTwice).until("unmask")
    tell("server asks everyone for the shares of b: nobody dropped")
    stage.replies()
    tell(f"server asks again: client {VICTIM} dropped")
    others = [client for client in stage.requests if client != VICTIM]
    for client in others:
        stage.ask(client, changed(stage.requests[client], dropped=ids(VICTIM)))
    return stage.steal({VICTIM})


# S17


_any_left = relaxed(check_left, check_enough=skip)
_open_few = relaxed(open_shares, check_left=_any_left)
_mask_among_few = relaxed(curious_client.mask, hold_among=relaxed(hold_among, check_left=_any_left))


class MasksWithAnyone(Weakened, Client):
    """Masks with whoever is left, however few."""

    weaker = weaken(mask=in_step(answer=without(open_shares=_open_few, mask=_mask_among_few)))


def cut_v2(defended: bool, tell: Tell) -> Outcome:
    """The victim masks with one neighbour, which then drops; the others still hold its shares."""
    stage = curious(RoundConfig(clients=9, length=8), tell, kind=Client if defended else MasksWithAnyone).until("mask")
    kept = 0
    gone = [j for j in stage.overheard[VICTIM].neighbours if j != kept]
    tell(f"server tells client {VICTIM} that only client {kept} is left of its {len(gone) + 1} neighbours")
    for client, request in stage.requests.items():
        dealer = stage.overheard[kept]
        lied = changed(request, dropped=ids(*gone), commitments=dealer.commitment, sealed=dealer.sealed[VICTIM])
        stage.ask(client, lied if client == VICTIM else request)
    tell(f"server tells everyone else that client {kept} dropped and client {VICTIM} survived")
    for client in gone:
        told = m.UnmaskRequest(context=stage.config.context, client=client, dropped=ids(kept))
        stage.ask(client, told.encode())
    return stage.steal({VICTIM})


DROPOUT_LIES = (
    Attack(
        number="S3",
        name="impossible-ids",
        title="a duplicate, unknown or never-enrolled id among the dropped",
        guard="curious",
        defence="a list of the dropped that no honest server writes is refused",
        run=impossible_ids,
    ),
    Attack(
        number="S4",
        name="self-dropped",
        title="a client is told that it dropped out itself",
        guard="curious",
        defence="a client that is listed as dropped aborts",
        run=self_dropped,
    ),
    Attack(
        number="S5",
        name="second-request",
        title="a second, different request for shares",
        guard="curious",
        defence="shares are released once, then they are gone",
        run=second_request,
    ),
    Attack(
        number="S17",
        name="cut-v2",
        title="V2 cut down for one victim, which masks with one neighbour",
        guard="curious",
        defence="no vector is sent with fewer than t live neighbours, the client included",
        run=cut_v2,
    ),
)
