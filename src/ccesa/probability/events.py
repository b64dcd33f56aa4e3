"""What colluding neighbours can do to an honest client, by how many of them it takes.

An event is given as a function of t_i and d_i; it happens to client i if its colluding neighbours are so many
or more. One more neighbour raises what it takes by one at most, because a threshold rises by one at most: the
sums over neighbourhoods rest on that.
"""

from collections.abc import Callable

import numpy as np

from ccesa.probability.tails import Counts

#: Thresholds and degrees give the numbers of colluding neighbours that it takes.
Event = Callable[[Counts, Counts], Counts]


def exposed(t: Counts, degrees: Counts) -> Counts:
    """They and the client itself hold t shares: with all its honest neighbours gone, it is opened.

    Without a neighbour nobody takes part.
    """
    return np.maximum(t - 1, 1)


def unmaskable(t: Counts, degrees: Counts) -> Counts:
    """Two sets of t holders exist, the colluders in both and all others in one: h + 2 c + 1 >= 2 t."""
    return 2 * t - degrees - 1


#: Those that a guard may have to keep rare.
BY_NAME: dict[str, Event] = {"exposed": exposed, "unmaskable": unmaskable}


def fewer_honest(than: int) -> Event:
    """Fewer honest clients than this, itself included, are enough to open it: t - c < than."""
    return lambda t, degrees: t - than + 1


def more_colluders(than: int) -> Event:
    """More of its neighbours collude than this."""
    return lambda t, degrees: np.full_like(t, than + 1)


def either(one: Event, other: Event) -> Event:
    """What is enough for one of the two."""
    return lambda t, degrees: np.minimum(one(t, degrees), other(t, degrees))
