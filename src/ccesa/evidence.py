"""A round shows who misbehaved as pairs of clients: one of the two lied, or the network between them did.

A share that does not fit was changed by its sender or dealt wrong by its dealer. A text that does not open was sealed
wrong by one client, or another falsely claims it. Both look alike, so no client is named alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

#: Returns words for some clients: their ids in the round, or the names that the transport knows.
Naming = Callable[[Iterable[int]], str]
#: The most ids and pairs in a text; the fields of an error or the evidence have all of them.
_IDS, _PAIRS = 16, 4


def counted(noun: str, ids: Iterable[int]) -> str:
    """Return ``client 17``, or how many clients there are and their ids."""
    every = sorted(int(one) for one in ids)
    if len(every) == 1:
        return f"{noun} {every[0]}"
    rest = f", and {len(every) - _IDS} more" if len(every) > _IDS else ""
    return f"{len(every)} {noun}s ({', '.join(map(str, every[:_IDS]))}{rest})"


def by_id(clients: Iterable[int]) -> str:
    return counted("client", clients)


class WrongShare(NamedTuple):
    """A share that does not fit the others of the same secret: its sender lied, or its dealer did.

    This holds if at most ``sure`` of the dealer's share holders lied: half of the shares beyond the threshold.
    More liars can agree on other shares of the same secret, beside which honest shares look wrong.
    """

    sender: int
    dealer: int
    sure: int

    def described(self, naming: Naming) -> str:
        return f"{naming([self.sender])} sent a wrong share that {naming([self.dealer])} dealt"

    def __str__(self) -> str:
        return self.described(by_id)


class Accusation(NamedTuple):
    """A client could not use what another had sealed for it: one of the two lied."""

    accuser: int
    dealer: int

    def described(self, naming: Naming) -> str:
        return f"{naming([self.accuser])} could not open what {naming([self.dealer])} sealed for it"

    def __str__(self) -> str:
        return self.described(by_id)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Pairs of clients of one round of whom one lied, or the network between them did.

    It is true if it has any pair. Iterating gives all pairs in order.

    Attributes:
        wrong_shares: Shares that do not fit the others: (sender, dealer, the most liars for which this is sure).
        accusations: Clients that could not use what another had sealed for them: (accuser, dealer).
    """

    wrong_shares: frozenset[WrongShare] = frozenset()
    accusations: frozenset[Accusation] = frozenset()

    def pairs(self, liars: int = 0) -> frozenset[frozenset[int]]:
        """Return all pairs of ids, whatever the two did; a client that accuses itself stands alone.

        In each pair one lied, or the network did, if no client has more than ``liars`` lying neighbours.

        Args:
            liars: The most lying neighbours that a client is expected to have; less sure pairs are left out.
        """
        shares = [(one.sender, one.dealer) for one in self.wrong_shares if one.sure >= liars]
        return frozenset(frozenset(pair) for pair in (*shares, *self.accusations))

    def suspects(self, liars: int) -> frozenset[int]:
        """Return the ids of clients in more pairs than this many liars can make for an honest client.

        If no client has more than ``liars`` lying neighbours, each of them lied: an honest client is in pairs with
        lying neighbours only. A client that sent a wrong share of its own secret lied, too. A network that changes
        messages looks like a liar.

        Args:
            liars: The most lying neighbours that a client has; ``Plan.around`` is certified by a plan.
        """
        pairs, beside = self.pairs(liars), defaultdict[int, set[int]](set)
        for pair in pairs:
            for client in pair:
                beside[client] |= pair - {client}
        alone = {client for pair in pairs if len(pair) == 1 for client in pair}
        return frozenset(alone | {client for client, others in beside.items() if len(others) > liars})

    def __bool__(self) -> bool:
        return bool(self.wrong_shares or self.accusations)

    def __iter__(self) -> Iterator[WrongShare | Accusation]:
        yield from sorted(self.wrong_shares)
        yield from sorted(self.accusations)

    def described(self, naming: Naming) -> str:
        """Return the first pairs in one line, and the number of the others; empty without evidence.

        Args:
            naming: A function from client ids to the words that stand for them.
        """
        every = [pair.described(naming) for pair in self]
        rest = f"; and {len(every) - _PAIRS} more such pairs" if len(every) > _PAIRS else ""
        return "; ".join(every[:_PAIRS]) + rest

    def __str__(self) -> str:
        return self.described(by_id)
