"""A server that tells different clients different things about who is still there.

S2, S19: ``active`` has to hold. Both live on sparse graphs, where most neighbours of a victim's neighbour are
not the victim's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from attacks import craft
from attacks.base import Attack, Outcome, Tell
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.relaxed import Weakened, in_step, skip, weaken, without
from attacks.stage import Stage, active, names
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.graphs import ErdosRenyi
from ccesa.graphs.assignment import Flags, Neighbourhood
from ccesa.protocol import active_client
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import Confirmed
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.client_states import ClientRound, Membership

# S2


class NoConfirmations(Weakened, ActiveClient):
    """Releases shares without asking what its neighbours were told."""

    weaker = weaken(unmask=in_step(answer=without(check_confirmed=skip)))


def split_view(defended: bool, tell: Tell, clients: int = 1000, degree: float = 83.0) -> Outcome:
    """b_v from v's neighbours, told that all survived; their keys from all others, told that they dropped."""
    kind = ActiveClient if defended else NoConfirmations
    tell(f"{clients} clients, {degree:g} neighbours each on average, every one a real client")
    stage = active(clients, tell, kind=kind, graph=ErdosRenyi(p=degree / (clients - 1)))
    stage.until("confirm")
    seen = stage.overheard
    victim = _victim(seen, clients)
    near = set(seen[victim].neighbours) - seen[victim].absent
    everyone = seen.members("V2", seen[victim].v2)
    others = everyone.copy()
    others[list(near)] = False
    far = [k for k in np.flatnonzero(others).tolist() if k != victim and _enough(seen, k, others)]
    tell(f"server tells client {victim} and its {len(near)} neighbours that everyone survived")
    tell(f"server tells {names(far)} that those {len(near)} neighbours dropped out")
    _confirm(stage, {**dict.fromkeys([*near, victim], everyone), **dict.fromkeys(far, others)})
    tell(f"server asks client {victim} and its neighbours for their shares of b_{victim}")
    _release(stage, [*near, victim])
    if seen.shares(victim, "b") >= seen.threshold(victim):
        tell(f"server asks the {len(far)} others for their shares of the keys of those neighbours")
        _release(stage, far)
    return _end_of_split_view(stage, victim, near)


def _victim(seen: Eavesdropper, clients: int) -> int:
    """Somebody each of whose neighbours has enough neighbours that may be told it dropped."""
    for victim in range(clients):
        near = set(seen[victim].neighbours) - seen[victim].absent
        if not near or seen[victim].vector is None:
            continue
        others = seen.members("V2", seen[victim].v2)
        others[list(near)] = False
        helpers = [
            sum(1 for k in seen[j].neighbours if others[k] and k != victim and _enough(seen, k, others)) for j in near
        ]
        if all(count >= seen.threshold(j) for j, count in zip(near, helpers, strict=True)):
            return victim
    raise StillHidden("no client of this round can be cut off; run the attack again")


def _enough(seen: Eavesdropper, client: int, v3: Flags) -> bool:
    """Whether this client goes on when told this V3."""
    return int(v3[seen.holding(client)].sum()) >= seen.threshold(client)


def _confirm(stage: Stage, told: dict[int, Flags]) -> None:
    for client, v3 in told.items():
        stage.ask(client, craft.confirm(stage.overheard, client, v3))


def _release(stage: Stage, clients: Iterable[int]) -> None:
    for client in clients:
        stage.ask(client, craft.unmask(stage.overheard, client))


def _end_of_split_view(stage: Stage, victim: int, near: set[int]) -> Outcome:
    seen = stage.overheard
    end = stage.steal({victim})
    if end.succeeded:
        return end
    return Outcome(
        succeeded=False,
        summary=(
            f"{len(near & stage.aborted.keys())} of {len(near)} neighbours of client {victim} aborted; "
            f"the server holds {seen.shares(victim, 'b')} of {seen.threshold(victim)} shares of b_{victim}"
        ),
        victim=end.victim,
    )


# S19


def count_confirmations_only(
    round: ClientRound[Membership], state: Confirmed, live: Neighbourhood, request: m.SignedUnmaskRequest
) -> None:
    """The original, shown only those who confirmed: whoever masked among another V2 is not noticed."""
    kinds = np.frombuffer(request.confirmed, bool)
    signatures = m.items("signatures", request.signatures, live.degree, SIGNATURE_BYTES)
    shown = msgspec.structs.replace(
        request,
        confirmed=b"\x01" * int(kinds.sum()),
        signatures=b"".join(signatures[place] for place in np.flatnonzero(kinds)),
    )
    confirmed = live.among(np.insert(kinds, live.place, True))
    active_client.check_confirmed(round, state, confirmed, shown)


class AnyV2(Weakened, ActiveClient):
    """Releases b_i without asking among whom i masked."""

    weaker = weaken(unmask=in_step(answer=without(check_confirmed=count_confirmations_only)))


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two clients whose sum is to be opened, and those in between who will be said to have dropped."""

    victims: frozenset[int]
    #: With the victims, the only ones that the victims mask with.
    witnesses: frozenset[int]
    #: Neighbours of the victims that hold their shares and are not masked with.
    holders: frozenset[int]


def two_v2(defended: bool, tell: Tell, clients: int = 100, degree: float = 12.0) -> Outcome:
    """The victims mask with few, in a V2 of their own; all others, in the full V2, hold their shares."""
    kind = ActiveClient if defended else AnyV2
    stage = active(clients, tell, kind=kind, graph=ErdosRenyi(p=degree / (clients - 1)))
    stage.until("mask")
    seen = stage.overheard
    full = _full_v2(stage)
    pair = _find_pair(seen, full)
    inside = pair.victims | pair.witnesses
    small = _less(full, pair.holders)
    outside = [k for k in np.flatnonzero(full).tolist() if k not in inside]
    tell(f"server tells {names(inside)} that {names(pair.holders)} are not in V2")
    tell("server tells everyone else that all are in V2")
    for client in [*inside, *outside]:
        stage.ask(client, craft.mask_among(seen, client, small if client in inside else full))
    after = _less(full, pair.witnesses)
    ready = [k for k in outside if _enough(seen, k, after)]
    tell(f"server tells {names(inside)} that everyone survived")
    tell(f"server tells everyone else that {names(pair.witnesses)} dropped")
    _confirm(stage, {**dict.fromkeys(inside, small), **dict.fromkeys(ready, after)})
    tell(f"server asks {names(pair.victims)} and the others for shares, not those in between")
    _release(stage, [*ready, *pair.victims])
    return _end_of_two_v2(stage, pair)


def _full_v2(stage: Stage) -> Flags:
    return _only(np.zeros(stage.config.clients, bool), stage.requests)


def _less(members: Flags, gone: Iterable[int]) -> Flags:
    left = members.copy()
    left[list(gone)] = False
    return left


def _only(members: Flags, chosen: Iterable[int]) -> Flags:
    left = np.zeros_like(members)
    left[list(chosen)] = True
    return left


def _find_pair(seen: Eavesdropper, v2: Flags) -> Pair:
    for v in np.flatnonzero(v2).tolist():
        for w in seen[v].neighbours:
            if v < w and v2[w]:
                pair = _pair(seen, v2, v, w)
                if pair is not None and _works(seen, v2, pair):
                    return pair
    raise StillHidden("no two clients of this round can be cut off; run the attack again")


def _pair(seen: Eavesdropper, v2: Flags, v: int, w: int) -> Pair | None:
    """Each masks with the other, their common neighbours, and as many more as make t."""
    near = {one: {j for j in seen[one].neighbours if v2[j]} - {v, w} for one in (v, w)}
    common = near[v] & near[w]
    witnesses = set(common)
    for one in (v, w):
        missing = seen.threshold(one) - 1 - len(common)
        if missing < 0:
            return None
        # Who has the most neighbours has the most who can open its key.
        own = sorted(near[one] - common, key=lambda j: seen.threshold(j) - len(seen[j].neighbours))
        witnesses |= set(own[:missing])
    holders = (near[v] | near[w]) - witnesses
    return Pair(victims=frozenset({v, w}), witnesses=frozenset(witnesses), holders=frozenset(holders))


def _works(seen: Eavesdropper, v2: Flags, pair: Pair) -> bool:
    """Every client that has to answer will, as long as nobody compares V2."""
    inside = pair.victims | pair.witnesses
    small, after = _less(v2, pair.holders), _less(v2, pair.witnesses)
    outside = _less(v2, inside)

    def among(client: int, members: Flags) -> int:
        return int(members[seen[client].neighbours].sum())

    ready = {k for k in np.flatnonzero(outside).tolist() if among(k, after) + 1 >= seen.threshold(k)}
    confirming = _only(v2, ready)
    releasing = _only(v2, [k for k in ready if among(k, confirming) >= seen.threshold(k)])
    both = 2  # each victim releases its own share and the other's
    return (
        all(among(j, small) + 1 >= seen.threshold(j) for j in inside)
        and all(among(j, releasing) >= seen.threshold(j) for j in pair.witnesses)
        and all(among(i, releasing) + both >= seen.threshold(i) for i in pair.victims)
    )


def _end_of_two_v2(stage: Stage, pair: Pair) -> Outcome:
    end = stage.steal(pair.victims)
    if end.succeeded:
        return end
    noticed = len(pair.holders & stage.aborted.keys())
    counts = ", ".join(
        f"{stage.overheard.shares(i, 'b')} of {stage.overheard.threshold(i)} shares of b_{i}"
        for i in sorted(pair.victims)
    )
    summary = f"{noticed} of {len(pair.holders)} holders aborted; the server has {counts}"
    return Outcome(succeeded=False, summary=summary, victim=end.victim)


DIFFERENT_VIEWS = (
    Attack(
        number="S2",
        name="split-view",
        title="different V3 to different clients, to open one through its neighbours' keys",
        guard="active",
        defence="shares are released only when t neighbours confirmed the same V2 and V3",
        run=split_view,
    ),
    Attack(
        number="S19",
        name="two-v2",
        title="different V2 to different clients, to open the sum of two",
        guard="active",
        defence="b_i is released only by those who hold the V2 that i signed",
        run=two_v2,
    ),
)
