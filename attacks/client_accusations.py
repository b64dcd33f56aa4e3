"""Clients that seal garbage, and clients that accuse others falsely. S35 and row C9.

Of accuser and dealer one lies, and nobody can tell which. The step *accept* makes an accusation cost the edge
between the two (``curious``), or a liar for each honest client that is left out (``active``).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from attacks.base import Attack, Outcome, Tell
from attacks.client_cut import Garbler
from attacks.relaxed import Weakened, in_step, weaken
from attacks.stage import Stage, changed, ids, names, under
from ccesa.evidence import Accusation
from ccesa.guards import guard_named
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import NOTHING

CLIENTS = 9
GARBLER, ACCUSER, VICTIM = 4, 6, 2
GANG = frozenset({0, 5, 7})


class GarblesAll(Garbler):
    """Seals garbage for all its neighbours."""

    targets = range(CLIENTS)


def _stage(guard: str, tell: Tell, liars: int, **options: Any) -> Stage:
    if guard_named(guard).chartered:
        options["certificate"] = msgspec.structs.replace(NOTHING, around=liars)
    return under(guard, tell, clients=CLIENTS, **options)


def _accuse(stage: Stage, whom: dict[int, tuple[int, ...]]) -> None:
    """Play the open step, in which some name these in place of whom they would."""
    stage.step(to_server=lambda client, reply: changed(reply, accused=ids(*whom[client])) if client in whom else reply)


# C9


def garbage(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    """One seals garbage for everyone, another calls everyone's texts garbage."""
    stage = _stage(guard, tell, liars=2, accept=defence, crooked={GARBLER: GarblesAll})
    tell(f"client {GARBLER} seals garbage for all its neighbours")
    if defence:
        stage.until("accept")
        everyone = tuple(i for i in range(CLIENTS) if i != ACCUSER)
        tell(f"client {ACCUSER} says that it could open nothing of what all the others sealed for it")
        _accuse(stage, {ACCUSER: everyone})
    stage.to_the_end()
    if not stage.is_right or stage.server.aggregate is None:
        return Outcome(succeeded=True, summary=f"one liar costs everyone the round: {stage.failure}")
    found = stage.server.aggregate
    suspects = sorted(found.evidence.suspects(liars=2))
    summary = f"{len(found.survivors)} others go on, the sum is right, and the accusations point to {suspects}"
    return Outcome(succeeded=False, summary=summary)


# S35


def _believing(close: Callable[..., Any]) -> Callable[..., Any]:
    """The same step, in which every accused client is out and no accuser is."""

    def close_and_believe(round: Any, state: Any, kept: dict[int, frozenset[Accusation]]) -> Any:
        accused = {one.dealer for said in kept.values() for one in said}
        return close(round, state, {client: frozenset() for client in kept if client not in accused})

    return close_and_believe


class BelievesAccusers(Weakened, Server):
    """Leaves out whoever is accused."""

    weaker = weaken(accept=in_step(close=_believing))


def gang(defence: bool, tell: Tell, guard: str = "active") -> Outcome:
    """Three of nine say that they cannot open what the victim sealed for them."""
    server = Server if defence else BelievesAccusers
    stage = _stage(guard, tell, liars=len(GANG), accept=True, server=server).until("accept")
    tell(f"{names(GANG)} say that they could not open what client {VICTIM} sealed for them")
    _accuse(stage, dict.fromkeys(GANG, (VICTIM,)))
    stage.to_the_end()
    out = set(range(CLIENTS)) - set(stage.server.result().survivors)
    honest, liars = len(out - GANG), len(out & GANG)
    return Outcome(
        succeeded=honest > liars or not stage.is_right,
        summary=f"{honest} honest left out, and with them {liars} of the {len(GANG)} liars",
    )


GANGS = (
    Attack(
        number="S35",
        name="ganging-up",
        title="several clients accuse the same honest one, to have it left out",
        guard="curious",
        defence="an accusation costs the edge, or a liar for each honest client that is left out",
        run=gang,
    ),
)

ACCUSATION_ATTACKS = (
    Attack(
        number="C9",
        name="garbage",
        title="A client seals garbage for all its neighbours, another one calls everything garbage",
        guard="curious",
        defence="the step accept: an accusation costs the edge, or both ends, and the round goes on",
        run=garbage,
    ),
)
