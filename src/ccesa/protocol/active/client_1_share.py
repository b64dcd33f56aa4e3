"""Step 1, client side: derive the neighbourhood from the committed roster, deal shares to it."""

from dataclasses import dataclass

import numpy as np

from ccesa.crypto import merkle
from ccesa.errors import FaultyServer
from ccesa.graphs.assignment import neighbourhood
from ccesa.graphs.neighbourhood import Flags, Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.checks import check_signature, check_size
from ccesa.protocol.client_states import Advertised, Membership, Round, Shared
from ccesa.protocol.dealing import deal, keys_of_members, threshold_of


@dataclass(frozen=True, kw_only=True)
class Rostered(Shared):
    """After step 1 the neighbours were derived, not told."""

    v1: Flags
    root: bytes


def answer(
    round: Round[Membership], state: Advertised, request: m.RosterRequest
) -> tuple[Rostered, m.ShareReply]:
    """Derive the neighbourhood from the root; take keys only with signature and proof."""
    v1 = roster_members(round, request.v1)
    near = derived_neighbourhood(round, v1, request.root)
    m.checked(request, round.config, near.degree)
    public_keys = keys_of_members(round, state, near, m.each(request, "keys", round.config))
    check_signed_keys(round, near, public_keys, request)
    check_inclusion(round, v1, near, public_keys, request)
    shared, reply = deal(round, state, near, public_keys, threshold_of(round.config, near.degree))
    return Rostered(**vars(shared), v1=v1, root=request.root), reply


def roster_members(round: Round[Membership], packed: bytes) -> Flags:
    """Read V1, which must contain this client and be as large as the charter demands."""
    v1 = m.unpack_set("V1", packed, round.config.clients)
    if not v1[round.client]:
        raise FaultyServer("the roster does not contain this client")
    check_size("the roster", v1, max(round.own.charter.least_roster, round.config.min_survivors))
    return v1


def derived_neighbourhood(round: Round[Membership], v1: Flags, root: bytes) -> Neighbourhood:
    """Derive the neighbours from the committed roster alone. Masks run on every edge."""
    ids = np.flatnonzero(v1)
    node = int(np.searchsorted(ids, round.client))
    near = ids[neighbourhood(round.config.graph, signed_texts.seed(round.context, root), ids, node)]
    return Neighbourhood.around(round.client, near, np.ones(near.size, bool))


def check_signed_keys(
    round: Round[Membership], near: Neighbourhood, public_keys: dict[int, bytes], request: m.RosterRequest
) -> None:
    """Require that the identity in each neighbour's place on the list signed that neighbour's keys."""
    for client, signature in zip(near.neighbours, m.each(request, "signatures", round.config), strict=True):
        text = signed_texts.bundle_text(round.context, client, public_keys[client])
        check_signature(round, client, signature, text, "its keys")


def check_inclusion(
    round: Round[Membership],
    v1: Flags,
    near: Neighbourhood,
    public_keys: dict[int, bytes],
    request: m.RosterRequest,
) -> None:
    """Require that the root commits to the client's own keys and those of its neighbours."""
    leaves = [signed_texts.leaf(round.context, one, public_keys[one]) for one in near.members.tolist()]
    places = np.searchsorted(np.flatnonzero(v1), near.members).tolist()
    try:
        found = signed_texts.proven_root(round.context, request.v1, places, leaves, request.proof)
    except merkle.WrongProof as error:
        raise FaultyServer(str(error)) from error
    if found != request.root:
        raise FaultyServer("the roster that the server committed to has other keys or members than it shows")
