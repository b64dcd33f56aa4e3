"""A server that has several sums of one task opened. S38, S39, S40: rule R4 has to hold, under both guards.

The sums of one round are the affair of R1 to R3. Two sums of one task that differ by one client give that
client's vector away, and a difference of two clients is no sum over many either. So a client works on a task
in one series, goes forward in it, and releases shares once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from attacks.base import Attack, Outcome, Tell
from attacks.client_shares import CrookedDealer
from attacks.colluders import ActiveColluder
from attacks.stage import LENGTH, Stage, Vectors, inputs, names, opened
from ccesa import labels
from ccesa.agreement.agreement import TRUST
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import CorruptShares, RoundFailed
from ccesa.memory import RELEASE, Memory, ProcessMemory
from ccesa.plan import charters, plan
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import Server
from ccesa.protocol.spending import Spending
from ccesa.simulate.enrolment import enrol, make_charter

CLIENTS, VICTIM = 9, 3
TASK, NEXT = (labels.digest(what) for what in (b"the model", b"the model after it"))
SERIES = bytes(32)


class AnyRelease(Spending):
    """Forgets for what it has released shares."""

    def _places(self, memory: Memory, about: str, name: bytes) -> set[tuple[bytes, int]]:
        return set() if about == RELEASE else super()._places(memory, about, name)


class AnyOrder(Spending):
    """Releases shares once, and looks at no vector but that of this round."""

    def _places(self, memory: Memory, about: str, name: bytes) -> set[tuple[bytes, int]]:
        found = super()._places(memory, about, name)
        return found if about == RELEASE else found & {(self.config.series_id, self.config.number)}


class Crooked(CrookedDealer, ActiveClient):
    """Deals shares of another secret than the one that it commits to."""


@dataclass(kw_only=True)
class Members:
    """Clients that remember across rounds; under ``active`` with identities and a charter."""

    tell: Tell
    clients: int = CLIENTS
    identities: Sequence[Identity] = ()
    charter: Charter | None = None
    #: What each of them lets leave; the colluders answer anything.
    spending: type[Spending] = Spending
    colluders: frozenset[int] = frozenset()
    crooked: frozenset[int] = frozenset()
    memories: dict[int, ProcessMemory] = field(default_factory=dict)

    @cached_property
    def vectors(self) -> Vectors:
        return inputs(self.config(SERIES, 0))

    def config(self, series: bytes, number: int) -> RoundConfig:
        if self.charter is None:
            return RoundConfig(clients=self.clients, length=LENGTH, series_id=series, number=number)
        return self.charter.config(length=LENGTH, series_id=series, number=number)

    def round(self, number: int, series: bytes = SERIES, task: bytes = TASK, roster: Collection[int] = ()) -> Stage:
        """Open a round for these clients, by default for all, and let them advertise."""
        config = self.config(series, number)
        server = Server(config, self.charter or TRUST)
        server.work_on(task)
        made = {i: self._client(i, config, task) for i in range(self.clients)}
        stage = Stage(server, made, self.vectors, self.tell)
        stage.step(gone=set(made) - set(roster or made))
        return stage

    def _client(self, i: int, config: RoundConfig, task: bytes) -> Client:
        vector = self.vectors[i]
        if self.charter is None:
            return self._minding(Client(config, i, vector, **self._options(i, task)))
        kind = ActiveColluder if i in self.colluders else Crooked if i in self.crooked else ActiveClient
        return self._minding(kind(config, self.identities[i], self.charter, vector, **self._options(i, task)))

    def _options(self, i: int, task: bytes) -> dict[str, Any]:
        memory = None if i in self.colluders else self.memories.setdefault(i, ProcessMemory())
        return {"task": task, "tasks": memory}

    def _minding(self, client: Client) -> Client:
        before = client._round  # noqa: SLF001
        client._round = replace(before, spend=self.spending(**vars(before.spend)))  # noqa: SLF001
        return client


def under(guard: str, tell: Tell, **options: Any) -> Members:
    """Return members of rounds under a guard."""
    if guard == "curious":
        return Members(tell=tell, **options)
    identities = enrol(CLIENTS)
    return Members(tell=tell, identities=identities, charter=make_charter(identities), **options)


# S38


def sum_twice(defended: bool, tell: Tell, guard: str = "active") -> Outcome:
    """Two ordinary rounds of one task, the second without the victim."""
    members = under(guard, tell, spending=Spending if defended else AnyRelease)
    wanted = members.vectors[VICTIM]
    first = members.round(0).finish()
    tell(f"server has the sum of round 0, calls it lost, and asks everyone but client {VICTIM} again")
    second = members.round(1, roster=set(range(CLIENTS)) - {VICTIM}).to_the_end()
    if second.failure is not None:
        return _refused(second, wanted)
    difference = first.vector - second.server.result().vector
    return opened(difference, wanted, "two sums of one task differ by it")


def _refused(stage: Stage, wanted: Any) -> Outcome:
    client, reason = next(iter(stage.aborted.items()))
    summary = f"client {client} sent nothing ({reason}): {stage.failure}"
    return Outcome(succeeded=False, summary=summary, victim=wanted)


# S39


def two_series(defended: bool, tell: Tell) -> Outcome:
    """Sums over nearly the same clients, each released by another half of them, under a planned charter."""
    found = plan(60, dropout=0.1, collusion=0.1, guard="active", length=LENGTH)
    identities = enrol(found.clients)
    charter = make_charter(
        identities,
        graph=found.graph,
        threshold=found.threshold,
        least_roster=found.least_roster,
        min_survivors=found.min_survivors,
        certificate=charters.state(found),
    )
    colluders = frozenset(range(found.clients - found.colluders, found.clients))
    members = Members(
        tell=tell,
        clients=found.clients,
        identities=identities,
        charter=charter,
        spending=Spending if defended else AnyOrder,
        colluders=colluders,
    )
    half = found.t - found.colluders
    halves = [frozenset(range(half)), frozenset(range(half, 2 * half))]
    a, b = 0, half
    wanted = members.vectors[a] - members.vectors[b]
    places = [(SERIES, 0), (bytes([1] * 32), 0)]
    tell(f"server opens two series for one task; clients {a} and {b} are in one of them each")
    sums = _in_parallel(members, places, halves, a, b)
    if len(sums) < 2:
        members.memories.clear()
        tell("server tries it in one series, with two numbers")
        sums = _in_parallel(members, [(SERIES, 2), (SERIES, 3)], halves, a, b)
    if len(sums) < 2:
        return Outcome(succeeded=False, summary="there are no two sums of one task", victim=wanted)
    return opened(
        sums[0] - sums[1],
        wanted,
        f"two sums differ by clients {a} and {b}, and sums were to cover {found.least_honest} honest ones",
    )


def _in_parallel(
    members: Members, places: Sequence[tuple[bytes, int]], halves: Sequence[frozenset[int]], a: int, b: int
) -> list[Any]:
    """Play two rounds side by side, each without one client; return the sums that there are."""
    everyone = halves[0] | halves[1] | members.colluders
    stages = [
        members.round(number, series, roster=everyone - {left_out})
        for (series, number), left_out in zip(places, (b, a), strict=True)
    ]
    for stage in stages:
        stage.until("unmask")
        stage.tell_aborts()
    for stage, releasing in zip(stages, halves, strict=True):
        if stage.requests:
            members.tell(f"server asks {names(releasing | members.colluders)} for shares")
            stage.step(gone=everyone - releasing - members.colluders)
            stage.tell_aborts()
    return [stage.server.aggregate.vector for stage in stages if stage.server.aggregate is not None]


# S40


def used_up(defended: bool, tell: Tell) -> Outcome:
    """One client deals shares of another secret, so that the sum cannot be opened once they are released."""
    liar = CLIENTS - 1
    members = under("active", tell, crooked=frozenset({liar}))
    first = members.round(0).to_the_end()
    tell(f"round 0 is lost in its last step: {first.failure}")
    if not isinstance(first.failure, CorruptShares):
        raise first.failure or RoundFailed("the lie had no effect")
    honest = set(range(CLIENTS)) - ({first.failure.client} if defended else set())
    task = NEXT if defended else TASK
    tell(f"server goes on with {'the next task, without whom it can name' if defended else 'the same task'}")
    sums = 0
    for number in (1, 2, 3):
        stage = members.round(number, task=task, roster=honest).to_the_end()
        sums += stage.server.aggregate is not None
        task = labels.digest(task) if defended else task
    if sums:
        return Outcome(succeeded=False, summary=f"it cost one task, and {sums} of 3 that follow have sums")
    return Outcome(succeeded=True, summary=f"no sum any more: {next(iter(stage.aborted.values()))}")


ATTEMPT_LIES = (
    Attack(
        number="S38",
        name="sum-twice",
        title="two rounds of one task, both opened, the second without one client",
        guard="curious",
        defence="whoever has released shares for a task sends no vector for it any more",
        run=sum_twice,
    ),
    Attack(
        number="S39",
        name="two-series",
        title="two series for one task at once, released by disjoint halves, whose rosters differ by two",
        guard="active",
        defence="vectors for a task go to one series, and a later vector ends the earlier round",
        run=two_series,
    ),
    Attack(
        number="S40",
        name="used-up",
        title="one client deals wrong shares, so that a task is used up without a sum",
        guard="active",
        defence="the server goes on with the next task, and without the client that it can name",
        run=used_up,
    ),
)
