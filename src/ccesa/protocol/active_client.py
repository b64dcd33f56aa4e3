"""The steps of a client under the guard ``active``: the server may lie. docs/security.md has rules R1 to R4.

Clients check every statement of the server against signatures and the committed roster. The work under both guards is
in ``dealing`` (steps 0 and 1) and ``masking``; the order of the steps is in ``steps``.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ccesa.crypto import merkle, primitives
from ccesa.errors import FaultyServer
from ccesa.graphs.assignment import Flags, Neighbourhood, Nodes
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client_states import Accepted, Advertised, ClientRound, Done, Holding, Joined, Membership, Shared
from ccesa.protocol.dealing import check_keys, deal, make_keys, threshold_of
from ccesa.protocol.masking import (
    acknowledge,
    check_enough,
    complain,
    hold_among,
    mask_vector,
    open_shares,
    release,
    still_there,
)

#: The round of a client that is a member of a federation.
Round: TypeAlias = ClientRound[Membership]


@dataclass(frozen=True, kw_only=True)
class Rostered(Shared):
    """After step 1 the neighbours were derived, not taken from the server."""

    v1: Flags
    root: bytes


@dataclass(frozen=True, kw_only=True)
class AcceptedAmong(Accepted):
    """After *accept* the roster is still what V2 is held against."""

    v1: Flags
    root: bytes
    #: The whole neighbourhood, whether they have shared or not.
    members: Nodes


@dataclass(frozen=True, kw_only=True)
class SignedV2(Holding):
    """After step 2 the vector is out, masked among this V2, for this task."""

    root: bytes
    v2: bytes
    task: bytes


@dataclass(frozen=True, kw_only=True)
class Confirmed(SignedV2):
    """After step 2c one V3 is confirmed, and no other ever will be."""

    v3: bytes


def check_size(name: str, members: Flags, least: int) -> None:
    size = np.count_nonzero(members)
    if size < least:
        raise FaultyServer(f"{size} clients in {name}, the charter demands {least}")


def read_part(round: Round, name: str, packed: bytes, whole: str, members: Flags) -> Flags:
    """Read a set that may only shrink, and must contain this client."""
    part = m.unpack_set(name, packed, round.config.clients)
    added = part > members
    if added.any():
        raise FaultyServer(f"client {added.argmax()} is in {name} and not in {whole}")
    if not part[round.client]:
        raise FaultyServer(f"the server leaves this client itself out of {name} and asks it to go on")
    return part


def check_signature(round: Round, client: int, signature: bytes, text: bytes, what: str) -> None:
    """Refuse a text without the signature of the identity in this client's place on the list."""
    try:
        primitives.verify(round.own.charter.admission.key(client), signature, text)
    except primitives.BadSignature as error:
        raise FaultyServer(f"client {client} did not sign {what} as the server shows them") from error


def advertise(round: Round, state: Joined, request: m.AdvertiseRequest) -> tuple[Advertised, m.SignedAdvertiseReply]:
    """Step 0: make all key pairs, and sign their public halves for this round and this client."""
    advertised = make_keys(round, request)
    keys = advertised.public_keys
    signature = round.own.identity.sign(signed_texts.bundle_text(round.context, round.client, keys))
    return advertised, m.SignedAdvertiseReply(**round.head, keys=keys, signature=signature)


def share(round: Round, state: Advertised, request: m.RosterRequest) -> tuple[Rostered, m.ShareReply]:
    """Step 1: derive the neighbourhood from the root, take keys only with signature and proof, deal shares."""
    v1 = m.unpack_set("V1", request.v1, round.config.clients)
    if not v1[round.client]:
        raise FaultyServer("the roster does not contain this client")
    check_size("the roster", v1, max(round.own.charter.least_roster, round.config.min_survivors))
    near = derive_neighbourhood(round, v1, request.root)
    m.check(request, round.config, near.degree)
    public_keys = check_keys(round, state, near, m.each(request, "keys", round.config))
    check_signed_keys(round, near, public_keys, request)
    check_inclusion(round, v1, near, public_keys, request)
    shared, reply = deal(round, state, near, public_keys, threshold_of(round.config, near.degree))
    return Rostered(**vars(shared), v1=v1, root=request.root), reply


def derive_neighbourhood(round: Round, v1: Flags, root: bytes) -> Neighbourhood:
    """Derive the neighbours from the committed roster alone. Masks run on every edge."""
    ids = np.flatnonzero(v1)
    node = int(np.searchsorted(ids, round.client))
    near = ids[round.config.graph.neighbours(signed_texts.seed(round.context, root), ids, node)]
    return Neighbourhood.around(round.client, near, np.ones(near.size, bool))


def check_signed_keys(
    round: Round, near: Neighbourhood, public_keys: dict[int, bytes], request: m.RosterRequest
) -> None:
    """Require that the identity in each neighbour's place on the list signed that neighbour's keys."""
    for client, signature in zip(near.neighbours, m.each(request, "signatures", round.config), strict=True):
        text = signed_texts.bundle_text(round.context, client, public_keys[client])
        check_signature(round, client, signature, text, "its keys")


def check_inclusion(
    round: Round, v1: Flags, near: Neighbourhood, public_keys: dict[int, bytes], request: m.RosterRequest
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


def accept(round: Round, state: Rostered, request: m.AcceptRequest) -> tuple[AcceptedAmong, m.AcceptReply]:
    """Step accept: open the texts of all neighbours that have shared, and name those with unusable ones."""
    accepted = accept_among(round, state, still_there(round, request.dropped, state.near), request)
    return accepted, acknowledge(round, state, accepted)


def accept_among(round: Round, state: Rostered, shared: Flags, request: m.Texts) -> AcceptedAmong:
    opened = open_shares(round, state, shared, request)
    return AcceptedAmong(**vars(opened), v1=state.v1, root=state.root, members=state.near.members)


def mask(round: Round, state: AcceptedAmong, request: m.MaskAmongRequest) -> tuple[SignedV2, m.SignedMaskReply]:
    """Step 2, rule R1: mask with all neighbours in V2, whose shares were accepted; sign that V2 and the task."""
    v2 = read_part(round, "V2", request.v2, "V1", state.v1)
    live = v2[state.near.members]
    if v2[state.members].sum() != live.sum():
        raise FaultyServer("a neighbour is in V2 whose shares this client was not shown")
    among = signed_texts.among(round.context, round.client, request.v2)
    held = hold_among(state, live)
    holding, said = mask_vector(round, state, held, request.task, among, m.SignedMaskReply)
    what = (round.context, state.root, request.v2, request.task)
    signed = SignedV2(**vars(holding), root=state.root, v2=request.v2, task=request.task)
    sign = round.own.identity.sign
    return signed, m.SignedMaskReply(
        **round.head,
        **said,
        signature=sign(signed_texts.masking_text(*what)),
        receipt=sign(signed_texts.receipt_text(*what, said["digest"])),
    )


def mask_at_once(
    round: Round, state: Rostered, request: m.MaskAmongAtOnceRequest
) -> tuple[SignedV2, m.SignedMaskReply] | tuple[Done, m.Complaint]:
    """Step 2 without *accept*: open the shares of those in V2 first, and complain if some cannot be used."""
    v2 = read_part(round, "V2", request.v2, "V1", state.v1)
    accepted = accept_among(round, state, v2[state.near.members], request)
    if accepted.accused:
        return Done(), complain(round, accepted)
    return mask(round, accepted, m.MaskAmongRequest(**round.head, v2=request.v2, task=request.task))


def confirm(round: Round, state: SignedV2, request: m.ConfirmRequest) -> tuple[Confirmed, m.ConfirmReply]:
    """Step 2c, rules R2 and R4: sign V2, the task and one V3, if enough of the neighbourhood is in it."""
    v2 = m.unpack_set("V2", state.v2, round.config.clients)
    v3 = read_part(round, "V3", request.v3, "V2", v2)
    check_enough(state.near.among(v3[state.near.members]), state.threshold)
    check_size("V3", v3, round.config.min_survivors)
    round.spend.check_latest(state.counted)
    text = signed_texts.confirmed_text(round.context, state.root, state.v2, state.task, request.v3)
    signature = round.own.identity.sign(text)
    return Confirmed(**vars(state), v3=request.v3), m.ConfirmReply(**round.head, signature=signature)


def unmask(round: Round, state: Confirmed, request: m.SignedUnmaskRequest) -> tuple[Done, m.UnmaskReply]:
    """Step 3, rule R3: release one share of each member, with enough signatures on the very same V2 and V3."""
    survived = m.unpack_set("V3", state.v3, round.config.clients)[state.near.members]
    check_confirmed(round, state, state.near.among(survived), request)
    return Done(), release(round, state, survived)


def check_confirmed(round: Round, state: Confirmed, live: Neighbourhood, request: m.SignedUnmaskRequest) -> None:
    """Require that every surviving neighbour signed this V2 and task, and at least t of them this V3."""
    kinds = m.check(request, round.config, live.degree).confirmed
    if kinds.translate(None, b"\x00\x01"):
        raise FaultyServer("a flag that is neither 0 nor 1")
    what = (round.context, state.root, state.v2, state.task)
    masking, confirmed = signed_texts.masking_text(*what), signed_texts.confirmed_text(*what, state.v3)
    signatures = m.each(request, "signatures", round.config)
    for client, kind, signature in zip(live.neighbours, kinds, signatures, strict=True):
        # A client that confirmed this V2 and V3 has masked among this V2: an honest client signs no other.
        check_signature(round, client, signature, confirmed if kind else masking, "the survivors")
    if sum(kinds) < state.threshold:
        raise FaultyServer(
            f"expected {state.threshold} neighbours to confirm the survivors before any share is released, got "
            f"{sum(kinds)}"
        )
