"""The steps of a client under the guard ``curious``: the server follows the protocol and looks at it all.

The work under both guards is in ``dealing`` (steps 0 and 1) and ``masking``; the order of the steps is in ``steps``.
"""

from typing import TypeAlias

import numpy as np

from ccesa.agreement.config import Floor, threshold_ratio
from ccesa.errors import FaultyServer
from ccesa.graphs.assignment import Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client_states import Accepted, Advertised, ClientRound, Done, Holding, Joined, Shared
from ccesa.protocol.dealing import check_keys, deal, make_keys, threshold_of
from ccesa.protocol.masking import acknowledge, complain, hold_among, mask_vector, open_shares, release, still_there

#: The round of a client that has a floor.
Round: TypeAlias = ClientRound[Floor]


def advertise(round: Round, state: Joined, request: m.AdvertiseRequest) -> tuple[Advertised, m.AdvertiseReply]:
    """Step 0: make all key pairs and show their public halves."""
    advertised = make_keys(round, request)
    return advertised, m.AdvertiseReply(**round.head, keys=advertised.public_keys)


def share(round: Round, state: Advertised, request: m.ShareRequest) -> tuple[Shared, m.ShareReply]:
    """Step 1: check the neighbours that the server names, then deal shares of both secrets to them."""
    near = read_neighbourhood(round, request)
    public_keys = check_keys(round, state, near, m.each(request, "keys", round.config))
    threshold = threshold_of(round.config, near.degree)
    check_floor(round, near, threshold)
    return deal(round, state, near, public_keys, threshold)


def read_neighbourhood(round: Round, request: m.ShareRequest) -> Neighbourhood:
    """Read the neighbours that the server names, and the edges on which masks run."""
    neighbours = m.unpack_ids("neighbours", request.neighbours, round.config.clients)
    if round.client in neighbours:
        raise FaultyServer("the server lists this client as its own neighbour")
    flags = np.frombuffer(m.check(request, round.config, neighbours.size).masked, np.uint8)
    if (flags > 1).any():
        raise FaultyServer("a mask flag that is neither 0 nor 1")
    expected, given = round.config.graph.mask_edges(neighbours.size), int(flags.sum())
    if expected is not None and given != expected:
        raise FaultyServer(f"expected {expected} neighbours to mask with, as configured, got {given}")
    return Neighbourhood.around(round.client, neighbours, flags.astype(bool))


def check_floor(round: Round, near: Neighbourhood, threshold: int) -> None:
    """Refuse a neighbourhood below the client's own floor; if degrees vary by a seed, the mean was compared before."""
    graph, degree = round.config.graph, near.degree
    offered: dict[str, float] = {"threshold_ratio": threshold_ratio(threshold, degree)}
    if not graph.varies:
        offered.update(degree=degree, threshold=threshold)
        if graph.mask_edges(degree) is not None:
            offered.update(mask_degree=int(near.carries_masks.sum()))
    lacking = round.own.lacking(**offered)
    if lacking:
        raise FaultyServer(f"the neighbourhood has {lacking}")


def accept(round: Round, state: Shared, request: m.AcceptRequest) -> tuple[Accepted, m.AcceptReply]:
    """Step accept: open the texts of all neighbours that have shared, and name those with unusable ones."""
    accepted = open_shares(round, state, still_there(round, request.dropped, state.near), request)
    return accepted, acknowledge(round, state, accepted)


def mask(round: Round, state: Accepted, request: m.MaskRequest) -> tuple[Holding, m.MaskReply]:
    """Step 2: mask the vector with the neighbours that the server does not list as dropped."""
    held = hold_among(state, still_there(round, request.dropped, state.near))
    among = signed_texts.among(round.context, round.client, m.pack_ids(held.near.members))
    holding, said = mask_vector(round, state, held, request.task, among, m.MaskReply)
    return holding, m.MaskReply(**round.head, **said)


def mask_at_once(
    round: Round, state: Shared, request: m.MaskAtOnceRequest
) -> tuple[Holding, m.MaskReply] | tuple[Done, m.Complaint]:
    """Step 2 without *accept*: open the shares first, and complain if some cannot be used."""
    accepted = open_shares(round, state, still_there(round, request.dropped, state.near), request)
    if accepted.accused:
        return Done(), complain(round, accepted)
    return mask(round, accepted, m.MaskRequest(**round.head, dropped=b"", task=request.task))


def unmask(round: Round, state: Holding, request: m.UnmaskRequest) -> tuple[Done, m.UnmaskReply]:
    """Step 3: release one share of each member, of a survivor's self mask or of a dropout's key."""
    return Done(), release(round, state, still_there(round, request.dropped, state.near))
