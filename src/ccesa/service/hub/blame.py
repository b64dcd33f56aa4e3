"""Whom to blame for pairs of clients of whom one lied: so that k liars cost at most k honest clients.

Nothing tells which of two lied. Whoever is in more pairs than there can be liars around anyone lied itself.
Of the others both ends of a maximal matching are blamed: each pair in it has a liar, and no client is in two.
Blaming everyone in any pair would let one liar have all its neighbours set aside.
"""

from collections import Counter
from collections.abc import Iterable


def blamed(pairs: Iterable[Iterable[int]], around: int | None) -> set[int]:
    """Return the clients to blame.

    Args:
        pairs: Of clients of whom one lied.
        around: The most liars that can be around anyone; None where nobody knows.
    """
    every = sorted({tuple(sorted(pair)) for pair in pairs})
    degrees = Counter(client for pair in every for client in set(pair))
    found = {client for client, degree in degrees.items() if around is not None and degree > around}
    alone = set(found)
    for pair in every:
        if not alone & set(pair) and not found & set(pair):
            found |= set(pair)
    return found
