"""Step 1, client side: take the neighbours from the server, deal shares to them."""

import numpy as np

from ccesa.agreement.config import Floor, threshold_ratio
from ccesa.errors import FaultyServer
from ccesa.graphs.neighbourhood import Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Round, Shared
from ccesa.protocol.dealing import deal, keys_of_members, threshold_of


def answer(round: Round[Floor], state: Advertised, request: m.ShareRequest) -> tuple[Shared, m.ShareReply]:
    """Check the neighbourhood, then split both secrets among it."""
    near = told_neighbourhood(round, request)
    public_keys = keys_of_members(round, state, near, m.each(request, "keys", round.config))
    threshold = threshold_of(round.config, near.degree)
    check_floor(round, near, threshold)
    return deal(round, state, near, public_keys, threshold)


def told_neighbourhood(round: Round[Floor], request: m.ShareRequest) -> Neighbourhood:
    """Read the neighbours that the server names, and with whom of them masks run."""
    neighbours = m.unpack_ids("neighbours", request.neighbours, round.config.clients)
    if round.client in neighbours:
        raise FaultyServer("the server lists this client as its own neighbour")
    flags = np.frombuffer(m.checked(request, round.config, neighbours.size).masked, np.uint8)
    if (flags > 1).any():
        raise FaultyServer("a mask flag that is neither 0 nor 1")
    expected, found = round.config.graph.mask_edges(neighbours.size), int(flags.sum())
    if expected is not None and found != expected:
        raise FaultyServer(f"expected {expected} neighbours to mask with, as configured, got {found}")
    return Neighbourhood.around(round.client, neighbours, flags.astype(bool))


def check_floor(round: Round[Floor], near: Neighbourhood, threshold: int) -> None:
    """Hold the neighbourhood to the client's own floor, exactly: one that is too small for it is too small.

    Degrees that vary do so by a seed; there the mean was compared, with the configuration.
    """
    graph, degree = round.config.graph, near.degree
    found: dict[str, float] = {"threshold_ratio": threshold_ratio(threshold, degree)}
    if not graph.varies:
        found.update(degree=degree, threshold=threshold)
        if graph.mask_edges(degree) is not None:
            found.update(mask_degree=int(near.carries_masks.sum()))
    lacking = round.own.lacking(**found)
    if lacking:
        raise FaultyServer(f"the neighbourhood has {lacking}")
