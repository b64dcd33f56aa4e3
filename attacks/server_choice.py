"""A server that uses every freedom it is left, within limits that look the same. S21 to S23.

Limits bind means. Another kind of graph with the same mean degree, or another threshold rule with the same
ratio, lies within them, and has a tail in which a client stands with 2 t <= d + c. Rosters cost the server
nothing, so it tries them until one has such a client, and tells half of its neighbours that it dropped out.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from attacks import craft
from attacks.base import Attack, Outcome, Tell
from attacks.colluders import ActiveColluder
from attacks.stage import Stage, inputs, names
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import BARE_FLOOR, Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import merkle
from ccesa.errors import ConfigError
from ccesa.graphs import ErdosRenyi, Graph, Harary
from ccesa.graphs.assignment import AssignmentGraph, draw
from ccesa.graphs.thresholds import Linear, Majority, Threshold
from ccesa.plan import Plan, charters, plan
from ccesa.protocol import active_server, signed_texts
from ccesa.protocol import messages as m
from ccesa.protocol.active_server import Committed
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.client_states import Membership, VectorSource
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Advertising, ServerRound
from ccesa.protocol.steps import Requests
from ccesa.simulate.enrolment import enrol, make_charter

Flags = NDArray[np.bool_]
Heard = dict[int, m.SignedAdvertiseReply]
LENGTH = 8
CLIENTS = 30


# Clients that leave the server a choice


@cache
def limits(floor: Floor) -> type[Charter]:
    """Make a charter that lets any round pass above this floor."""

    class Limits(Charter, frozen=True, kw_only=True, dict=True):
        def check(self, config: RoundConfig) -> None:
            floor.over(BARE_FLOOR).check(config)

    return Limits


class FloorsOnly(ActiveClient):
    """Takes any round that is above limits of its own."""

    floor: ClassVar[Floor] = Floor()

    def __init__(
        self, config: RoundConfig, identity: Identity, charter: Charter, vector: VectorSource, **_: Any
    ) -> None:
        lenient = limits(self.floor)(**msgspec.structs.asdict(charter))
        member = Membership(identity=identity, charter=lenient)
        Client.__init__(self, config, charter.admission.id_of(identity.public), vector, member=member)


def with_floor(floor: Floor) -> type[FloorsOnly]:
    return type("FloorsOnly", (FloorsOnly,), {"floor": floor})


class EasyColluder(ActiveColluder, FloorsOnly):
    """Takes any round at all."""


# Whom to tell what


@dataclass(frozen=True)
class Split:
    """A victim, and who is told that it dropped out; everyone else is told that it survived."""

    victim: int
    told_dropped: frozenset[int]
    #: Who is asked for shares of b, and of s, of the victim.
    ask_b: tuple[int, ...]
    ask_s: tuple[int, ...]


@dataclass(frozen=True)
class Field:
    """A drawn graph, as the server looks at it: who stands beside whom, with which threshold."""

    graph: AssignmentGraph
    thresholds: NDArray[np.int64]
    colluding: Flags

    @classmethod
    def of(cls, graph: AssignmentGraph, rule: Threshold, colluders: Iterable[int]) -> "Field":
        thresholds = np.array([rule.of(degree) for degree in graph.degrees.tolist()])
        return cls(graph, thresholds, np.isin(graph.ids, list(colluders)))

    @cached_property
    def near(self) -> Flags:
        found = np.zeros((self.graph.size, self.graph.size), bool)
        found[self.graph.rows, self.graph.columns] = True
        return found

    @property
    def colluders_around(self) -> NDArray[np.int64]:
        return self.near[:, self.colluding].sum(axis=1)

    @property
    def open_to_two(self) -> list[int]:
        """Honest clients around whom two disjoint sets of t shares exist: 2 t <= d + c."""
        weak = 2 * self.thresholds <= self.graph.degrees + self.colluders_around
        return np.flatnonzero(weak & ~self.colluding).tolist()

    @property
    def everyone_fits(self) -> bool:
        return bool((self.thresholds <= self.graph.degrees).all())

    def split(self, random: np.random.Generator, tries: int = 4, flips: int = 400) -> Split | None:
        """Two views between which enough neighbours of a victim are confirmed, each in its own."""
        for victim in self.open_to_two if self.everyone_fits else ():
            for _ in range(tries):
                found = self._split_around(victim, random, flips)
                if found is not None:
                    return found
        return None

    def _split_around(self, victim: int, random: np.random.Generator, flips: int) -> Split | None:
        """Halves the victim's honest neighbours, then moves the others to where they are missing."""
        share = int(self.thresholds[victim] - self.colluders_around[victim])
        halves = random.permutation(np.flatnonzero(self.near[victim] & ~self.colluding))
        asked, side = halves[: 2 * share], random.integers(0, 2, self.graph.size).astype(bool)
        side[asked[:share]], side[asked[share:]], side[victim] = False, True, False
        movable = np.setdiff1d(np.flatnonzero(~self.colluding), [*asked, victim])
        missing = self._missing(asked, side)
        for place in random.choice(movable, flips) if movable.size else ():
            if missing == 0:
                break
            side[place] ^= True
            after = self._missing(asked, side)
            side[place] ^= after > missing
            missing = min(missing, after)
        if missing:
            return None
        ids = self.graph.ids
        return Split(
            victim=int(ids[victim]),
            told_dropped=frozenset(ids[side & ~self.colluding].tolist()),
            ask_b=tuple(ids[asked[:share]].tolist()),
            ask_s=tuple(ids[asked[share:]].tolist()),
        )

    def _missing(self, asked: NDArray[np.intp], side: Flags) -> int:
        """Confirmations that those who are asked lack. Colluders confirm everything."""
        same = (side[asked, None] == side[None, :]) | self.colluding
        confirmed = (self.near[asked] & same).sum(axis=1)
        return int(np.maximum(self.thresholds[asked] - confirmed, 0).sum())


class RosterServer(Server):
    """Has heard everyone, and tries whom to name in the roster until a client can be opened."""

    most: ClassVar[int] = 20_000

    def __init__(self, config: RoundConfig, charter: Charter, colluders: frozenset[int]) -> None:
        super().__init__(charter.config(length=config.length, series_id=config.series_id), charter)
        self.config, self.colluders = config, colluders  # its own check is no obstacle to a liar
        self._round = replace(self._round, config=config)
        self._limits = {kind: m.limit(kind, config) for kind in self._limits}
        self._steps = (self._steps[0]._replace(close=self._grind), *self._steps[1:])
        self.tries = 0
        self.split: Split | None = None

    def _grind(self, round: ServerRound[Charter], state: Advertising, heard: Heard) -> tuple[Committed, Requests]:
        named, random = heard, np.random.default_rng()
        while self.split is None and self.tries < self.most:
            self.tries += 1
            named = self._some(heard, random)
            graph = self._drawn(list(named.values()))
            self.split = Field.of(graph, self.config.threshold, self.colluders).split(random)
        return active_server.close_advertise(round, state, named)

    def _some(self, heard: Heard, random: np.random.Generator) -> Heard:
        """Choose as few as clients accept: in a small roster degrees are low, and all colluders are in it."""
        honest = [client for client in heard if client not in self.colluders]
        count = self._round.own.least_roster - len(self.colluders)
        chosen = {*random.choice(honest, count, replace=False).tolist(), *self.colluders}
        return {client: heard[client] for client in sorted(chosen)}

    def _drawn(self, pairs: list[m.SignedAdvertiseReply]) -> AssignmentGraph:
        ids = np.array([pair.client for pair in pairs])
        leaves = [signed_texts.leaf(self.context, pair.client, pair.keys) for pair in pairs]
        root = signed_texts.root(
            self.context, m.pack_members(ids, self.config.clients), merkle.levels(leaves)[-1].tobytes()
        )
        return draw(self.config.graph, signed_texts.seed(self.context, root), ids)


# The attack itself


@dataclass(frozen=True)
class Choice:
    """What the members have agreed on, and what the server announces in its place."""

    charter: Charter
    identities: list[Identity]
    graph: Graph
    threshold: Threshold
    floor: Floor
    colluders: frozenset[int]

    @property
    def config(self) -> RoundConfig:
        return RoundConfig(
            clients=len(self.identities),
            length=LENGTH,
            graph=self.graph,
            threshold=self.threshold,
            min_survivors=self.charter.min_survivors,
            guard="active",
            charter=self.charter.digest,
        )

    def stage(self, kind: type[ActiveClient], tell: Tell) -> Stage:
        config = self.config
        vectors = inputs(config)
        made = {
            i: (EasyColluder if i in self.colluders else kind)(config, one, self.charter, vectors[i], tasks=None)
            for i, one in enumerate(self.identities)
        }
        return Stage(RosterServer(config, self.charter, self.colluders), made, vectors, tell)


def play(choice: Choice, defended: bool, tell: Tell) -> Outcome:
    """Grind rosters, tell two views, ask for both secrets of one client."""
    tell(f"agreed on: {choice.charter.graph}, {choice.charter.threshold}")
    tell(f"the server announces: {choice.graph}, {choice.threshold}; {names(choice.colluders)} collude")
    kind = ActiveClient if defended else with_floor(choice.floor)
    try:
        stage = choice.stage(kind, tell)
    except ConfigError as error:
        return Outcome(succeeded=False, summary=f"every honest client refused before it made keys: {error}")
    stage.step()
    server = stage.server
    split = server.split if isinstance(server, RosterServer) else None
    if split is None:
        return Outcome(succeeded=False, summary="no roster had a client that could be opened")
    tell(f"  after {getattr(server, 'tries', 0):,} rosters client {split.victim} has two sets of t holders")
    stage.until("confirm")
    _two_views(stage, split, choice)
    return stage.steal({split.victim})


def _two_views(stage: Stage, split: Split, choice: Choice) -> None:
    seen = stage.overheard
    survived = seen.members("V2", seen[split.victim].v2)
    dropped = survived.copy()
    dropped[split.victim] = False
    honest = [k for k in np.flatnonzero(survived).tolist() if k not in choice.colluders]
    stage.tell(f"server tells {names(split.told_dropped)} that client {split.victim} dropped out")
    for client in honest:
        view = dropped if client in split.told_dropped else survived
        stage.ask(client, craft.confirm(seen, client, view))
    for client in (*split.ask_b, *split.ask_s):
        stage.ask(client, _unmask(stage, client, choice))


def _unmask(stage: Stage, client: int, choice: Choice) -> bytes:
    """The best signatures that there are; colluders sign whatever this client was told."""
    seen = stage.overheard
    honest = m.decode(craft.unmask(seen, client), 1 << 20)
    request = m.expect(honest, m.SignedUnmaskRequest)
    own = seen[client]
    text = signed_texts.confirmed_text(seen.context, own.root, own.v2, m.NO_TASK, own.v3)
    live = [j for j in seen.holding(client) if j != client and j not in own.dropped]
    flags, signatures = bytearray(request.confirmed), m.items("signatures", request.signatures, len(live), 64)
    for place, neighbour in enumerate(live):
        if neighbour in choice.colluders:
            flags[place], signatures[place] = 1, choice.identities[neighbour].sign(text)
    return msgspec.structs.replace(request, confirmed=bytes(flags), signatures=b"".join(signatures)).encode()


def _agreed(made: Plan) -> tuple[Charter, list[Identity], frozenset[int]]:
    identities = enrol(made.clients)
    charter = make_charter(
        identities,
        graph=made.graph,
        threshold=made.threshold,
        least_roster=made.least_roster,
        min_survivors=made.min_survivors,
        certificate=charters.state(made),
    )
    return charter, identities, frozenset(range(made.clients - made.colluders, made.clients))


def another_graph(defended: bool, tell: Tell) -> Outcome:
    """Ask for the same mean degree and the same ratio of t to d, on a graph whose degrees vary."""
    made = plan(CLIENTS, 0.05, 0.2, guard="active", privacy_bits=40.0, reliability_bits=5.0)
    tell(f"certified: nobody can be opened, except with 2^{made.certificate.privacy('active'):.0f} per roster")
    charter, identities, colluders = _agreed(made)
    graph = ErdosRenyi(p=made.degree / (made.clients - 1) + 1e-9)
    rule = Linear(slope=int(1024 * (made.floor.threshold_ratio or 0.0)), base=1)
    choice = Choice(charter, identities, graph, rule, made.floor, colluders)
    return play(choice, defended, tell)


def another_rule(defended: bool, tell: Tell) -> Outcome:
    """The graph that was agreed on, with a rule that gives the same t at the mean degree, and less below."""
    made = plan(40, 0.05, 0.1, guard="active", graph="erdos-renyi", privacy_bits=20.0, reliability_bits=5.0)
    tell(f"certified: nobody can be opened, except with 2^{made.certificate.privacy('active'):.0f} per roster")
    charter, identities, colluders = _agreed(made)
    rule = Linear(slope=math.ceil(1024 * made.t / int(made.degree)), base=0)
    choice = Choice(charter, identities, made.graph, rule, made.floor, colluders)
    return play(choice, defended, tell)


def no_plan(defended: bool, tell: Tell) -> Outcome:
    """A client that was given nothing but a list, and limits that sounded sensible.

    More than half of the list in the roster, and so many neighbours that more than log2(n) have to agree.
    """
    identities = enrol(CLIENTS)
    charter = make_charter(identities, least_roster=CLIENTS // 2 + 1)
    floor = Floor(clients=CLIENTS // 2 + 1, degree=10)
    colluders = frozenset({CLIENTS - 2, CLIENTS - 1})
    choice = Choice(charter, identities, Harary(degree=10), Majority(), floor, colluders)
    return play(choice, defended, tell)


CHOICES = (
    Attack(
        number="S21",
        name="another-graph",
        title="another kind of graph with the same mean degree, and rosters until it suits",
        guard="active",
        defence="the charter names graph and rule exactly; a configuration has no place for others",
        run=another_graph,
    ),
    Attack(
        number="S22",
        name="another-rule",
        title="another threshold rule with the same ratio, and rosters until it suits",
        guard="active",
        defence="the charter names graph and rule exactly; a configuration has no place for others",
        run=another_rule,
    ),
    Attack(
        number="S23",
        name="no-plan",
        title="rosters tried against a client that was given limits and no plan",
        guard="active",
        defence="there is no active client without a charter",
        run=no_plan,
    ),
)
