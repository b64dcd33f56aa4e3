"""A server that is after both secrets of one client. S1, S6, S16: ``curious`` has to hold."""

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import Stage, changed, curious, ids, names
from ccesa import words
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.crypto import keys, masks, shamir
from ccesa.crypto.keys import X25519, Content, Encapsulated
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.assignment import AssignmentGraph, Flags, Neighbourhood, Nodes, draw
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import curious_client, dealing, drawing, masking
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Accepted, ClientRound
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Drawn
from ccesa.wire import Draft

VICTIM = 3


# S1


def small_threshold(config: RoundConfig, degree: int) -> int:
    return config.threshold.of(degree)


class AnyThreshold(Weakened, Client):
    """Does not mind a threshold that two disjoint sets of its holders reach."""

    weaker = weaken(share=in_step(answer=without(threshold_of=small_threshold)))


def _everyone(kind: object, seed: bytes, ids: Nodes) -> AssignmentGraph:
    return draw(Complete(), seed, ids)


def _all_fit(config: RoundConfig, drawn: Drawn) -> Flags:
    return np.ones(drawn.graph.size, bool)


class WideServer(Weakened, Server):
    """Draws everyone as everyone's neighbour, whatever the configuration says, and leaves nobody out."""

    weaker = weaken(
        advertise=in_step(close=without(draw_graph=relaxed(drawing.draw_graph, draw=_everyone), fit=_all_fit))
    )


def disjoint_sets(defended: bool, tell: Tell) -> Outcome:
    """t = 5 fits the 8 neighbours of the configuration; with 15 there are two disjoint sets of 5."""
    clients, t = 16, Fixed(t=5)
    try:
        RoundConfig(clients=clients, length=8, threshold=t)
    except ConfigError as error:
        tell(f"server proposes t = 5 for {clients} clients in a complete graph; nobody takes it: {error}")
    config = RoundConfig(clients=clients, length=8, threshold=t, graph=ErdosRenyi(p=0.5))
    tell("server proposes t = 5 for a random graph with 8 neighbours each, then shows everyone 15 of them")
    stage = curious(config, tell, kind=Client if defended else AnyThreshold, server=WideServer).until("unmask")
    told_dropped = set(range(8, clients))
    if stage.requests:
        tell(f"server tells {names(told_dropped)} that client {VICTIM} dropped, the others that it survived")

    def lie(client: int, request: bytes) -> bytes:
        return changed(request, dropped=ids(VICTIM)) if client in told_dropped else request

    stage.replies(to_client=lie)
    return stage.steal({VICTIM})


# S6


def without_self_mask(
    round: ClientRound[Floor],
    state: Accepted,
    live: Neighbourhood,
    spent: tuple[bytes, bytes],
    kind: type[m.SummedVector],
) -> Draft:
    """The vector under its pair masks alone."""
    draft = masking.masked_vector(round, state, live, spent, kind)
    key = keys.self_mask_key(state.self_secret, round.context, round.client, round.config.generator)
    vector = words.from_bytes(draft.content, round.config.bits)
    masks.add_masks(vector, [masks.Mask(key, -1)], round.config.generator)
    return draft


_pair_masked = relaxed(curious_client.mask, mask_vector=relaxed(masking.mask_vector, masked_vector=without_self_mask))


class NoSelfMask(Weakened, Client):
    """Masks with its neighbours only, as if nobody were ever late."""

    weaker = weaken(mask=in_step(answer=without(mask=_pair_masked)))


def late_vector(defended: bool, tell: Tell) -> Outcome:
    """The server has the vector, says it never came, gets s_v for that, and keeps the vector."""
    stage = curious(RoundConfig(clients=9, length=8), tell, kind=Client if defended else NoSelfMask).until("mask")
    late = stage.ask(VICTIM, stage.requests[VICTIM]) or b""
    tell(f"server has the vector of client {VICTIM}, keeps it back, and tells the others that {VICTIM} dropped")
    stage.step(gone={VICTIM})
    tell("an honest server, given the vector now that the step has closed, does not take it:")
    stage.hand_over(VICTIM, late)
    stage.step(gone={VICTIM})
    survivors = [client for client in range(stage.config.clients) if client != VICTIM]
    if defended:
        same = np.array_equal(stage.server.result().vector, stage.expected(survivors))
        tell(f"  the sum over the others is {'unchanged' if same else 'CHANGED'}")
    tell(f"server rebuilds s_{VICTIM} and takes the pair masks off the late vector; nobody released b_{VICTIM}")
    return stage.steal({VICTIM}, self_masked=defended)


# S16


class Undirected(X25519):
    """Has one key for both directions, and binds the same data whoever of the two seals."""

    def sealing(self, agreed: bytes, context: bytes, client: int, other: int) -> bytes:
        both = super().sealing(agreed, context, min(client, other), max(client, other))
        return 2 * both[: keys.ONE_TIME_BYTES]

    def seal(
        self, sealing: bytes, encapsulated: Encapsulated, content: Content, context: bytes, ends: keys.Ends
    ) -> bytes:
        return super().seal(sealing, encapsulated, content, context, _sorted(ends))

    def unseal(self, sealing: bytes, decapsulated: bytes, sealed: bytes, context: bytes, ends: keys.Ends) -> Content:
        return super().unseal(sealing, decapsulated, sealed, context, _sorted(ends))


def _sorted(ends: keys.Ends) -> keys.Ends:
    """From the smaller id to the larger, whoever sends."""
    low, high = sorted([(ends.sender, ends.sender_keys), (ends.recipient, ends.recipient_keys)])
    return keys.Ends(low[0], high[0], low[1], high[1], ends.carries_masks, ends.commitment)


_UNDIRECTED = {"x25519": Undirected()}
_deal = relaxed(dealing.deal, seal=relaxed(dealing.seal, AGREEMENTS=_UNDIRECTED))
_open_shares = relaxed(masking.open_shares, unseal=relaxed(masking.unseal, AGREEMENTS=_UNDIRECTED))


class NoDirections(Weakened, Client):
    """Seals shares for a pair of clients without saying who is the sender."""

    weaker = weaken(share=in_step(answer=without(deal=_deal)), mask=in_step(answer=without(open_shares=_open_shares)))


def reflected_shares(defended: bool, tell: Tell) -> Outcome:
    """The victim takes its own shares for those of its neighbours, and releases them one by one."""
    stage = curious(RoundConfig(clients=9, length=8), tell, kind=Client if defended else NoDirections).until("mask")
    sealed = stage.overheard[VICTIM].sealed
    if defended:
        _move_a_share(stage)
    tell(f"server returns to client {VICTIM} what it sealed for the others, as if they had sealed it")
    reflected = {
        "sealed": b"".join(text for _, text in sorted(sealed.items())),
        "commitments": stage.overheard[VICTIM].commitment * len(sealed),
    }

    def reflect(client: int, request: bytes) -> bytes:
        return changed(request, **reflected) if client == VICTIM else request

    stage.step(to_client=reflect)
    if VICTIM in stage.aborted:
        return stage.steal({VICTIM})
    tell(f"server tells client {VICTIM} that all survived, and everyone else that {VICTIM} dropped")
    released = stage.ask(VICTIM, stage.requests[VICTIM])
    _take_reflected(stage, released or b"")
    for client in sealed:
        stage.ask(client, changed(stage.requests[client], dropped=ids(VICTIM)))
    return stage.steal({VICTIM})


def _move_a_share(stage: Stage) -> None:
    """The other half of the row: a text that was sealed for somebody else."""
    stage.tell("server gives client 0 what client 2 sealed for client 1")
    request = m.decode(stage.requests[0], len(stage.requests[0]))
    honest = m.each(request, "sealed", stage.config)
    texts = dict(zip(sorted(stage.overheard[0].sealed), honest, strict=True))
    texts[2] = stage.overheard[2].sealed[1]
    stage.ask(0, changed(stage.requests[0], sealed=b"".join(texts.values())))


def _take_reflected(stage: Stage, released: bytes) -> None:
    """What the victim holds in the name of its neighbour j is its own share for j."""
    reply = m.decode(released, len(released))
    shares = getattr(reply, "shares", b"")
    for place, holder in enumerate(stage.overheard.holding(VICTIM)):
        share = shares[place * shamir.SHARE_BYTES : (place + 1) * shamir.SHARE_BYTES]
        stage.overheard.gain(VICTIM, "b", holder, share)


SECRET_HUNTS = (
    Attack(
        number="S1",
        name="disjoint-sets",
        title="b_i and s_i from disjoint sets of neighbours",
        guard="curious",
        defence="2 t_i > d_i + 1, checked by every client for its own neighbourhood",
        run=disjoint_sets,
    ),
    Attack(
        number="S6",
        name="late-vector",
        title="a vector that arrives after its sender was declared dropped",
        guard="curious",
        defence="the self mask b_i: whoever is declared dropped keeps it",
        run=late_vector,
    ),
    Attack(
        number="S16",
        name="reflected-shares",
        title="sealed shares returned to their sender, or moved to another recipient",
        guard="curious",
        defence="sealed shares are bound to sender and recipient",
        run=reflected_shares,
    ),
)
