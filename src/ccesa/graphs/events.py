"""What colluding neighbours can do to an honest client, by how many of them it takes.

An event is given as a function of t_i and d_i; it happens to client i if its colluding neighbours are so many
or more. One more neighbour raises what it takes by one at most, because a threshold rises by one at most: the
sums over neighbourhoods rest on that.
"""

from collections.abc import Callable

import numpy as np

from ccesa.graphs.tails import Counts

#: Thresholds and degrees give the numbers of colluding neighbours that it takes.
Event = Callable[[Counts, Counts], Counts]


def exposed(t: Counts, degrees: Counts) -> Counts:
    """Return how many hold t shares with the client itself: its honest neighbours gone, it is opened.

    Without a neighbour nobody takes part.
    """
    return np.maximum(t - 1, 1)


def unmaskable(t: Counts, degrees: Counts) -> Counts:
    """Return how many make two sets of t holders, themselves in both: h + 2 c + 1 >= 2 t."""
    return 2 * t - degrees - 1


#: Those that a guard may have to keep rare.
BY_NAME: dict[str, Event] = {"exposed": exposed, "unmaskable": unmaskable}


def fewer_honest(than: int) -> Event:
    """Make the event that fewer honest clients than this, itself included, can open it: t - c < than."""
    return lambda t, degrees: t - than + 1


def more_colluders(than: int) -> Event:
    """Make the event that more of its neighbours collude than this."""
    return lambda t, degrees: np.full_like(t, than + 1)


def either(one: Event, other: Event) -> Event:
    """Make the event that one of the two happens."""
    return lambda t, degrees: np.minimum(one(t, degrees), other(t, degrees))
