"""Colluding clients and dropouts, with a server that follows the protocol. S34, S41, S42.

S34: they seal garbage for just the honest clients that share a mask with a victim. These cannot open it,
complain and are out, like anyone who drops. Where masks run on a few edges only, nothing hides the victim any
more: its masks with the dropped ones are opened because they dropped, and the colluders know theirs.

S41: they stay when others leave. The fewer clients there are in V1, the more of a victim's holders collude.

S42: they withhold what *share* asks for. Honest clients whose neighbours they are have too few holders then
and are left out, in two stretches of the circle: what is left falls into two parts.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from attacks.base import Attack, Outcome, Tell
from attacks.colluders import Colluder
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import Stage, curious, inputs, names
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Harary
from ccesa.plan import plan
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Shared
from ccesa.protocol.drawing import deliver, prune
from ccesa.protocol.server import Server
from ccesa.wire import Data

CLIENTS, DEGREE, MASK_DEGREE = 60, 24, 4
COLLUDERS = frozenset(range(50, 60))
#: Of S42: neighbours of a client, and where on the circle it is left out.
NEAR, CENTRES = 8, (10, 34)


class Garbler(Colluder):
    """Seals garbage for the clients it is told."""

    targets: Collection[int] = ()

    def _answer(self, request: Data) -> tuple[Any, m.Message]:
        state, reply = super()._answer(request)
        if isinstance(reply, m.ShareReply) and isinstance(state, Shared):
            texts = m.each(reply, "sealed", self._round.config)
            sealed = [
                bytes(len(text)) if neighbour in self.targets else text
                for neighbour, text in zip(state.near.neighbours, texts, strict=True)
            ]
            reply = msgspec.structs.replace(reply, sealed=b"".join(sealed))
        return state, reply


class Piecewise(Weakened, Server):
    """Leaves out who has too few holders, and asks all others for vectors, in how many parts they may be."""

    weaker = weaken(share=in_step(close=without(deliver=relaxed(deliver, hold_together=prune))))


def chosen_complaints(defended: bool, tell: Tell) -> Outcome:
    """Ten of sixty collude; masks on every edge, or with four neighbours only."""
    graph = Harary(degree=DEGREE, mask_degree=None if defended else MASK_DEGREE)
    config = RoundConfig(clients=CLIENTS, length=8, graph=graph)
    vectors = inputs(config)
    garblers = {i: Garbler(config, i, vectors[i]) for i in COLLUDERS}
    honest = {i: Client(config, i, vectors[i]) for i in range(CLIENTS) if i not in COLLUDERS}
    stage = Stage(Server(config), {**honest, **garblers}, vectors, tell)
    stage.step()
    stage.look_ahead()  # the server tells its friends the graph
    victim, targets = _who_can_be_cut_off(stage.overheard)
    tell(f"{names(COLLUDERS)} seal garbage for {names(targets)}: all honest ones that mask with {victim}")
    for garbler in garblers.values():
        garbler.targets = targets
    stage.to_the_end()
    return _end(stage, victim)


def _who_can_be_cut_off(seen: Eavesdropper) -> tuple[int, set[int]]:
    """A client all of whose honest mask neighbours a colluder can reach, with the fewest of them.

    One colluder must share a mask with it: else the survivors' masks fall apart, and the server notices.
    """
    honest = [client for client in sorted(seen.seen) if client not in COLLUDERS]
    found = []
    for client in honest:
        beside = seen[client].mask_neighbours
        targets = beside - COLLUDERS
        if beside & COLLUDERS and all(COLLUDERS & set(seen[j].neighbours) for j in targets):
            found.append((len(targets), client, targets))
    if not found:
        raise StillHidden("no client of this round can be cut off; run the attack again")
    _, victim, targets = min(found, key=lambda one: one[:2])
    return victim, targets


def _end(stage: Stage, victim: int) -> Outcome:
    end = stage.steal({victim})
    if stage.failure is not None and not end.succeeded:
        return Outcome(succeeded=False, summary=f"there is no sum: {stage.failure}", victim=end.victim)
    if stage.server.aggregate is not None:
        pairs = len(stage.server.aggregate.evidence.accusations)
        stage.tell(f"  the sum is right, and the server reports {pairs} complaints")
    return end


# S41

#: With the fifteen that collude they are neighbours of everyone.
HONEST_LEFT = 4


def staying_colluders(defended: bool, tell: Tell) -> Outcome:
    """Fifteen of a hundred collude. They all stay, and so many others leave that they are everyone's holders.

    The plan's rounds insist on the roster that its certificate is about, or open whatever has three clients.
    """
    made = plan(100, 0.02, 0.15, length=8, privacy_bits=20, reliability_bits=8)
    config = made.config() if defended else made.config(min_survivors=3)
    friends, vectors = range(made.colluders), inputs(config)
    victim = made.colluders
    clients = {i: (Colluder if i in friends else Client)(config, i, vectors[i]) for i in range(made.clients)}
    stage = Stage(Server(config), clients, vectors, tell)
    tell(f"{made.t} of {made.graph.max_degree(100)} neighbours open a secret; {made.colluders} collude")
    tell(f"{names(friends)} stay, of {made.clients - made.colluders} honest clients {HONEST_LEFT} do")
    stage.step(gone=set(range(made.colluders + HONEST_LEFT, made.clients)))
    stage.to_the_end()
    if stage.failure is not None:
        return Outcome(succeeded=False, summary=f"there is no sum: {stage.failure}", victim=vectors[victim])
    return stage.steal({victim})


# S42


def withheld_shares(defended: bool, tell: Tell) -> Outcome:
    """Ten of sixty collude, five around each of two clients; masks run on every edge."""
    config = RoundConfig(clients=CLIENTS, length=8, graph=Harary(degree=NEAR))
    stage = curious(config, tell, server=Server if defended else Piecewise)
    stage.step()
    stage.look_ahead()  # the server tells its friends the graph
    around = _circle(stage.overheard)
    victims = [around[place] for place in CENTRES]
    withheld = {around[place + step] for place in CENTRES for step in (-2, -1, 1, 2, 3)}
    cut_off = {*around[CENTRES[0] + 4 : CENTRES[1] - 2]}
    tell(f"{names(withheld)} withhold what they should share: {names(victims)} have too few holders")
    stage.step(gone=withheld)
    tell(f"  {names(cut_off & set(stage.requests) or cut_off)} are between the two stretches")
    asked = cut_off & set(stage.requests)
    stage.to_the_end()
    if stage.failure is not None:
        lost = f"vectors left, and there is no sum: {type(stage.failure).__name__}"
        return Outcome(succeeded=bool(asked), summary=f"{len(asked)} {lost}")
    survivors = stage.server.result().survivors
    return Outcome(
        succeeded=bool(asked) or not stage.is_right,
        summary=f"nobody in the part that was cut off was asked; the sum of {len(survivors)} is right",
    )


def _circle(seen: Eavesdropper) -> list[int]:
    """Return the clients in their order on the circle: the next one has the most neighbours in common."""
    near = {client: set(one.neighbours) for client, one in seen.seen.items()}
    around = [min(near)]
    while len(around) < len(near):
        last = near[around[-1]]
        around.append(max(last.difference(around), key=lambda client: len(near[client] & last)))
    return around


CUTS = (
    Attack(
        number="S34",
        name="chosen-complaints",
        title="colluding clients make chosen honest clients drop out, and cut thin masks around one",
        guard="curious",
        defence="masks run on every edge wherever clients may collude",
        run=chosen_complaints,
    ),
    Attack(
        number="S41",
        name="staying-colluders",
        title="colluding clients all stay while honest ones leave, and are most of a small roster",
        guard="curious",
        defence="a round insists on as many clients as its certificate is about",
        run=staying_colluders,
    ),
    Attack(
        number="S42",
        name="withheld-shares",
        title="colluding clients withhold shares, so that others are left out and the rest falls into parts",
        guard="curious",
        defence="before anyone is asked for a vector, the server keeps the largest part",
        run=withheld_shares,
    ),
)
