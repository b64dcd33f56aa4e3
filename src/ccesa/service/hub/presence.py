"""Who is here: members that were heard from lately, at this hub or at another one, and are not set aside."""

import time
from collections.abc import Callable

from ccesa.service.federation import Federation
from ccesa.service.store import Store
from ccesa.service.store.rows import MemberRow

#: Seconds for which a member that never answers is not asked, at most.
_LONGEST_REST = 3600.0
#: Members that are named where there may be many.
_NAMED = 3


def elapsed(since: float, now: float) -> float:
    """Return the seconds since then. Where the clock was set back, what waited has waited for so long.

    Otherwise it would wait for as long again, and an hour is longer than any deadline.
    """
    return abs(now - since)


class Presence:
    """Knows when each member was heard from. ``heard`` is called from any thread, the rest by the engine."""

    def __init__(self, federation: Federation, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._federation, self._store, self.now = federation, store, clock
        self._heard: dict[int, float] = {}
        #: Series and exchange that members have said they know, and that this hub did not.
        self._known: dict[int, tuple[int, int]] = {}
        #: What of it the store knows.
        self._shared: dict[int, float] = {}
        self.rows: dict[int, MemberRow] = {}
        #: In how many rounds in a row a member left a request unanswered, and when it last did.
        self._silent: dict[int, tuple[int, float]] = {}
        self.reload()

    def heard(self, client: int) -> None:
        """Note that a member was heard from."""
        self._heard[client] = self.now()

    def knows(self, client: int, series: int, exchange: int) -> None:
        """Note that a member says it knows an exchange that this hub does not."""
        self._known[client] = max((series, exchange), self._known.get(client, (0, -1)))

    def share_known(self) -> None:
        """Let other hubs know what members say they know, at once: it may stop all of them."""
        if known := dict(self._known):
            self._store.knows(known)
            self._known = {client: told for client, told in self._known.items() if told != known.get(client)}
            self.reload()

    def ahead_of(self, place: tuple[int, int]) -> str:
        """Return, in words, that members know an exchange after the last one; empty if they may all lie.

        More members than may work with a liar do not: one of them is honest, and was really asked.
        """
        known = {client: row.known for client, row in self.rows.items() if row.known > place}
        told = sorted(known.keys() & self.eligible)
        if len(told) <= self._federation.agreement.colluders:
            return ""
        series, exchange = min(known[client] for client in told)
        who = ", ".join(self._federation.agreement.names[client] for client in told[:_NAMED])
        return (
            f"{len(told)} members, such as {who}, know exchange {exchange} of series {series} or a later one"
        )

    def fell_silent(self, clients: set[int], now: float) -> None:
        """Note that members were asked in a round, and did not answer in time."""
        for client in clients:
            times, _ = self._silent.get(client, (0, now))
            self._silent[client] = times + 1, now

    def came_through(self, clients: set[int]) -> None:
        """Note that members answered up to the end of a round."""
        for client in clients:
            self._silent.pop(client, None)

    def _rests(self, client: int, now: float) -> bool:
        """Tell whether a member was silent too often to be asked now.

        Each round would wait for it. It is tried again, after twice as long each time.
        """
        times, when = self._silent.get(client, (0, now))
        over = times - self._federation.policy.faults
        if over < 0:
            return False
        return elapsed(when, now) < min(self._federation.policy.absent * 2.0 ** min(over, 20), _LONGEST_REST)

    def share(self) -> None:
        """Let other hubs know, and learn from them."""
        heard = dict(self._heard)
        if news := dict(heard.items() - self._shared.items()):
            self._store.seen(news)
            self._shared = heard
        self.reload()

    def reload(self) -> None:
        """Read what the store has about all members."""
        self.rows = self._store.members()

    def seen(self, client: int) -> float:
        """Return when a member was last heard from; 0 for never."""
        now, row = self.now(), self.rows.get(client)
        times = (self._heard.get(client, 0.0), 0.0 if row is None else row.seen)
        return min(times, key=lambda one: elapsed(one, now))

    def row(self, client: int) -> MemberRow:
        """Return what the store has about a member."""
        return self.rows.get(client) or MemberRow(client=client)

    @property
    def eligible(self) -> set[int]:
        """Members that are not set aside."""
        aside = {client for client, row in self.rows.items() if row.set_aside}
        return set(range(self._federation.clients)) - aside

    def is_here(self, client: int, now: float) -> bool:
        """Tell whether a member was heard from lately."""
        return elapsed(self.seen(client), now) < self._federation.policy.absent

    def present(self, now: float) -> set[int]:
        """Return the members that can be asked to take part; silent ones if there are too few others."""
        here = {client for client in self.eligible if self.is_here(client, now)}
        awake = {client for client in here if not self._rests(client, now)}
        return awake if len(awake) >= self._federation.agreement.needed else here

    def lacking(self, now: float) -> str:
        """Return how many are here and how many are needed; empty where these are enough."""
        here, needed = len(self.present(now)), self._federation.agreement.needed
        return "" if here >= needed else f"{here} of {self._federation.clients} are here, {needed} are needed"
