"""A server that tells everyone the same, and chooses who dropped after it has seen the graph. S18.

It looks at every V3 there is and takes the one that opens the smallest sum. With masks on every edge no sum
covers fewer than t_i - c_i honest clients around any of its members; with thin masks it covers one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from attacks import craft
from attacks.base import Attack, Outcome, Tell
from attacks.colluders import ActiveColluder
from attacks.eavesdropper import Eavesdropper
from attacks.relaxed import Weakened, Weaker, in_step, relaxed, weaken, without
from attacks.stage import Stage, active, names
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Harary
from ccesa.graphs.assignment import Flags, Neighbourhood, draw
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import signed_texts
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.client_states import ClientRound, Membership
from ccesa.simulate.enrolment import make_charter


class ThinMasks(RoundConfig, frozen=True, kw_only=True, tag="round"):
    """A configuration that lets masks run on some of the edges only, also under the active guard."""

    def _check_guard(self) -> None:
        pass


class ThinCharter(Charter, frozen=True, kw_only=True, dict=True):
    """A charter of such rounds."""

    _config = relaxed(Charter._config, RoundConfig=ThinMasks)  # noqa: SLF001


def thin_neighbourhood(round: ClientRound[Membership], v1: Flags, root: bytes) -> Neighbourhood:
    """Derive the neighbourhood as the original does, with masks on the edges of the mask subgraph only."""
    ids = np.flatnonzero(v1)
    graph = draw(round.config.graph, signed_texts.seed(round.context, root), ids)
    node = int(np.searchsorted(ids, round.client))
    flags = graph.carries_masks[graph.edges(node)]
    return Neighbourhood.around(round.client, ids[graph.neighbours(node)], flags)


class MasksThinly(Weakened, ActiveClient):
    """Masks on the subgraph, as the guard ``curious`` does."""

    weaker = weaken(share=in_step(answer=without(derive_neighbourhood=thin_neighbourhood)))


class ColludesThinly(ActiveColluder):
    """The server's own, in a round with thin masks."""

    weaker: ClassVar[Weaker] = {**ActiveColluder.weaker, **MasksThinly.weaker}


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Who is whose neighbour, as bits of a word; honest clients and colluders apart."""

    near: list[int]
    mask_near: list[int]
    thresholds: list[int]
    colluders: int

    def promised(self, client: int) -> int:
        """t_i - c_i."""
        return self.thresholds[client] - (self.near[client] & self.colluders).bit_count()

    def keeps_promise(self, group: int) -> bool:
        """At least t_i - c_i honest clients of the group are around each of its members i."""
        return all(((self.near[i] | 1 << i) & group).bit_count() >= self.promised(i) for i in _members(group))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A V3, who then releases shares, and a sum that can be opened with them."""

    v3: int
    releasing: int
    group: int

    @property
    def size(self) -> int:
        return self.group.bit_count()


def best_cut(graph: Drawn, least: int = 0) -> Cut:
    """The smallest sum of honest clients that any V3 of ``least`` or more opens, by trying all of them."""
    honest = [i for i in range(len(graph.near)) if not graph.colluders >> i & 1]
    everyone = (1 << len(graph.near)) - 1
    best = Cut(v3=everyone, releasing=everyone, group=everyone & ~graph.colluders)
    for chosen in range(1, 1 << len(honest)):
        v3 = graph.colluders | sum(1 << i for place, i in enumerate(honest) if chosen >> place & 1)
        for cut in _open_sums(graph, v3) if v3.bit_count() >= least else ():
            best = min(best, cut, key=lambda one: one.size)
    return best


def _open_sums(graph: Drawn, v3: int) -> Iterator[Cut]:
    """Every sum that can be opened if everyone is told this V3; all of V1 is in V2."""
    near, t, friends = graph.near, graph.thresholds, graph.colluders
    live = _members(v3 & ~friends)
    confirming = friends | _word(i for i in live if (near[i] & v3).bit_count() + 1 >= t[i])
    releasing = _word(
        i
        for i in _members(confirming & ~friends)
        if (near[i] & confirming).bit_count() >= t[i] and graph.mask_near[i] & v3
    )
    holders = releasing | friends
    known = _word(i for i in range(len(near)) if ((near[i] | 1 << i) & holders).bit_count() >= t[i])
    for group in _components(graph.mask_near, v3 & ~friends):
        around = _union(graph.mask_near, group) & ~friends & ~v3
        if group & ~known == 0 and around & ~known == 0:
            yield Cut(v3=v3, releasing=releasing, group=group)


def _components(near: list[int], members: int) -> Iterator[int]:
    while members:
        group, grown = 0, members & -members
        while grown != group:
            group, grown = grown, grown | _union(near, grown) & members
        yield group
        members &= ~group


def _union(near: list[int], members: int) -> int:
    found = 0
    for i in _members(members):
        found |= near[i]
    return found


def _members(word: int) -> list[int]:
    return [i for i in range(word.bit_length()) if word >> i & 1]


def _word(members: Iterator[int]) -> int:
    return sum(1 << i for i in members)


def chosen_dropouts(defended: bool, tell: Tell, clients: int = 14) -> Outcome:
    """One colluder; t = floor((d + 1 + c) / 2) + 1 = 5 for six neighbours, so a promise of 4 or 5."""
    stage = _stage(defended, tell, clients).until("mask")
    graph = seen_graph(stage.overheard, colluders=1 << (clients - 1))
    cut = best_cut(graph)
    tell(f"server tries all {2 ** (clients - 1):,} ways to choose V3 among {clients} clients, one its own")
    play(stage, cut)
    group = _members(cut.group)
    end = stage.steal(group)
    if graph.keeps_promise(cut.group) and end.succeeded:
        tell(f"  the server computed the sum of {names(group)}, which it may")
        least = max(graph.promised(i) for i in group)
        summary = f"no V3 opens a sum of fewer than {cut.size} honest clients; {least} were promised"
        return Outcome(succeeded=False, summary=summary)
    return end


def _stage(defended: bool, tell: Tell, clients: int) -> Stage:
    colluders, threshold = {clients - 1}, Fixed(t=5)
    if defended:
        return active(clients, tell, colluders=colluders, threshold=threshold, graph=Harary(degree=6))
    return active(
        clients,
        tell,
        kind=MasksThinly,
        colluder=ColludesThinly,
        make_charter=partial(make_charter, kind=ThinCharter),
        colluders=colluders,
        threshold=threshold,
        graph=Harary(degree=6, mask_degree=2),
    )


def seen_graph(seen: Eavesdropper, colluders: int) -> Drawn:
    """The graph that the server drew."""
    everyone = range(seen.config.clients)
    return Drawn(
        near=[_word(iter(seen[i].neighbours)) for i in everyone],
        mask_near=[_word(iter(seen[i].mask_neighbours)) for i in everyone],
        thresholds=[seen.threshold(i) for i in everyone],
        colluders=colluders,
    )


def play(stage: Stage, cut: Cut) -> None:
    """The real round with this V3."""
    v3 = _flags(stage, cut.v3)
    dropped = np.flatnonzero(~v3).tolist()
    stage.tell(f"server tells everyone that {names(dropped)} dropped, and nobody else")
    for client in _members(cut.v3):
        stage.ask(client, stage.requests[client])
    for client in _members(cut.v3):
        stage.ask(client, craft.confirm(stage.overheard, client, v3))
    for client in _members(cut.releasing):
        stage.ask(client, craft.unmask(stage.overheard, client))


def _flags(stage: Stage, word: int) -> Flags:
    return np.array([word >> i & 1 for i in range(stage.config.clients)], bool)


CHOSEN_DROPOUTS = (
    Attack(
        number="S18",
        name="chosen-dropouts",
        title="dropouts chosen after seeing the graph, the same V3 to everyone",
        guard="active",
        defence="masks run on every edge on which shares run",
        run=chosen_dropouts,
    ),
)
