"""The client under the guard ``active``: the same steps, behind what a lying server cannot get past.

Each function checks what the server says against signatures and the committed roster, says the same in the
words of ``client_steps``, and lets those go on. Rules R1 to R3 are those of docs/security.md.
"""

import os
from collections.abc import MutableSet
from dataclasses import dataclass

import numpy as np

from ccesa.charter import Charter
from ccesa.config import RoundConfig
from ccesa.crypto import merkle, primitives, shamir
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from ccesa.errors import FaultyServer
from ccesa.graphs.assignment import neighbourhood
from ccesa.identity import Identity
from ccesa.protocol import client_steps as steps
from ccesa.protocol import messages as m
from ccesa.protocol import roster
from ccesa.protocol.client import Client
from ccesa.protocol.client_steps import Ids, VectorSource
from ccesa.protocol.roster import Flags
from ccesa.protocol.spending import Tasks


@dataclass(frozen=True, kw_only=True)
class ActiveRound(steps.Round):
    """What stays the same, with who this client is and what it has agreed to."""

    identity: Identity
    charter: Charter


@dataclass(frozen=True, kw_only=True)
class Rostered:
    """After step 1: neighbours that were derived, not told."""

    shared: steps.Shared
    v1: Flags
    root: bytes


@dataclass(frozen=True, kw_only=True)
class SignedV2:
    """After step 2: the vector is out, masked among this V2."""

    held: steps.Masked
    root: bytes
    v2: bytes


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """After step 2c: one V3 is confirmed, no other ever will be."""

    held: steps.Masked
    root: bytes
    v2: bytes
    v3: bytes


def advertise(
    round: ActiveRound, state: steps.Joined, request: m.AdvertiseRequest
) -> tuple[steps.Advertised, m.SignedAdvertiseReply]:
    """Step 0: fresh keys, signed for this round and this client."""
    advertised, reply = steps.advertise(round, state, request)
    text = roster.bundle_text(round.context, round.client, reply.sealing_key + reply.mask_key)
    return advertised, m.SignedAdvertiseReply(
        context=round.context,
        client=round.client,
        sealing_key=reply.sealing_key,
        mask_key=reply.mask_key,
        signature=round.identity.sign(text),
    )


def share(
    round: ActiveRound, state: steps.Advertised, request: m.RosterRequest
) -> tuple[Rostered, m.ShareReply]:
    """Step 1: derive the neighbourhood from the root; take keys only with signature and proof."""
    v1 = roster_members(round, request.v1)
    root = m.exactly("root", request.root, merkle.HASH_BYTES)
    neighbours = derive_neighbours(round, v1, root)
    bundles = m.items("keys", request.keys, neighbours.size, 2 * PUBLIC_KEY_BYTES)
    check_signed_bundles(round, neighbours, bundles, request.signatures)
    check_inclusion(round, state, v1, neighbours, bundles, request)
    told = m.ShareRequest(
        context=round.context,
        client=round.client,
        neighbours=m.pack_ids(neighbours),
        keys=request.keys,
        masked=b"\x01" * neighbours.size,
    )
    shared, reply = steps.share(round, state, told)
    return Rostered(shared=shared, v1=v1, root=root), reply


def mask(
    round: ActiveRound, state: Rostered, request: m.MaskAmongRequest
) -> tuple[SignedV2, m.SignedMaskReply] | tuple[steps.Done, m.Complaint]:
    """Step 2, rule R1: mask with all neighbours in V2, and sign that V2."""
    v2 = _part_of("V2", request.v2, "V1", state.v1, round)
    neighbours = state.shared.neighbours
    told = m.MaskRequest(
        context=round.context,
        client=round.client,
        dropped=m.pack_ids(neighbours[~v2[neighbours]]),
        sealed=request.sealed,
    )
    held, reply = steps.mask(round, state.shared, told)
    if isinstance(held, steps.Done) or isinstance(reply, m.Complaint):
        return steps.Done(), m.expect(reply, m.Complaint)
    text = roster.masking_text(round.context, state.root, request.v2)
    signed = SignedV2(held=held, root=state.root, v2=request.v2)
    return signed, m.SignedMaskReply(
        context=round.context,
        client=round.client,
        vector=reply.vector,
        digest=reply.digest,
        signature=round.identity.sign(text),
    )


def confirm(
    round: ActiveRound, state: SignedV2, request: m.ConfirmRequest
) -> tuple[Confirmed, m.ConfirmReply]:
    """Step 2c, rule R2: sign one V3, if enough of the neighbourhood is in it."""
    v2 = m.unpack_set("V2", state.v2, round.config.clients)
    v3 = _part_of("V3", request.v3, "V2", v2, round)
    steps.check_enough(int(v3[state.held.holding].sum()) - 1, state.held.threshold)
    check_size("V3", v3, round.config.min_survivors)
    text = roster.confirmed_text(round.context, state.root, state.v2, request.v3)
    confirmed = Confirmed(held=state.held, root=state.root, v2=state.v2, v3=request.v3)
    return confirmed, m.ConfirmReply(
        context=round.context, client=round.client, signature=round.identity.sign(text)
    )


def unmask(
    round: ActiveRound, state: Confirmed, request: m.SignedUnmaskRequest
) -> tuple[steps.Done, m.UnmaskReply]:
    """Step 3, rule R3: release shares only with enough signatures on the very same V2 and V3."""
    v3 = m.unpack_set("V3", state.v3, round.config.clients)
    holding = state.held.holding
    check_confirmed(round, state, holding[v3[holding] & (holding != round.client)], request)
    told = m.UnmaskRequest(
        context=round.context, client=round.client, dropped=m.pack_ids(holding[~v3[holding]])
    )
    return steps.unmask(round, state.held, told)


STEP_FUNCTIONS: dict[str, steps.StepFunction] = {
    "advertise": advertise,
    "share": share,
    "mask": mask,
    "confirm": confirm,
    "unmask": unmask,
}
STATES: dict[str, type] = {
    "advertise": steps.Joined,
    "share": steps.Advertised,
    "mask": Rostered,
    "confirm": SignedV2,
    "unmask": Confirmed,
}


class ActiveClient(Client):
    """One client in one round with a server that may lie.

    ``charter`` is this client's own copy of what the federation has agreed on; a round that differs from it
    in anything is refused before a key exists. ``now`` is in seconds since 1970, by default the system's.
    """

    guard = "active"
    functions = STEP_FUNCTIONS
    states = STATES

    def __init__(
        self,
        config: RoundConfig,
        identity: Identity,
        charter: Charter,
        vector: VectorSource,
        *,
        used_rounds: MutableSet[bytes] | None = None,
        tasks: Tasks | None = None,
        threads: int = 1,
        random: shamir.Randomness = os.urandom,
        now: float | None = None,
    ) -> None:
        charter.check_current(now)
        charter.check(config)
        super().__init__(
            config,
            charter.admission.id_of(identity.public),
            vector,
            used_rounds=used_rounds,
            tasks=tasks,
            attempts=charter.attempts,
            threads=threads,
            random=random,
        )
        self._round = ActiveRound(**vars(self._round), identity=identity, charter=charter)


def derive_neighbours(round: ActiveRound, v1: Flags, root: bytes) -> Ids:
    """Who the neighbours are, from the committed roster alone."""
    ids = np.flatnonzero(v1)
    node = int(np.searchsorted(ids, round.client))
    return ids[neighbourhood(round.config.graph, roster.seed(round.context, root), ids, node)]


def check_signed_bundles(round: ActiveRound, neighbours: Ids, bundles: list[bytes], packed: bytes) -> None:
    """Every neighbour's keys carry the signature of the identity that the list has in its place."""
    signatures = m.items("signatures", packed, neighbours.size, SIGNATURE_BYTES)
    for client, keys, signature in zip(neighbours.tolist(), bundles, signatures, strict=True):
        text = roster.bundle_text(round.context, client, keys)
        _verify(round, client, signature, text, "its keys")


def check_inclusion(
    round: ActiveRound,
    state: steps.Advertised,
    v1: Flags,
    neighbours: Ids,
    bundles: list[bytes],
    request: m.RosterRequest,
) -> None:
    """The client's own keys and those of its neighbours are the ones that the root commits to."""
    own = steps.bundle(state)
    place = int(np.searchsorted(neighbours, round.client))
    members = np.insert(neighbours, place, round.client)
    leaves = [
        roster.leaf(round.context, client, keys)
        for client, keys in zip(members.tolist(), [*bundles[:place], own, *bundles[place:]], strict=True)
    ]
    places = np.searchsorted(np.flatnonzero(v1), members).tolist()
    try:
        found = roster.proven_root(round.context, request.v1, places, leaves, request.proof)
    except merkle.WrongProof as error:
        raise FaultyServer(str(error)) from error
    if found != request.root:
        raise FaultyServer("the roster that the server committed to has other keys or members than it shows")


def check_confirmed(
    round: ActiveRound, state: Confirmed, neighbours: Ids, request: m.SignedUnmaskRequest
) -> None:
    """Every surviving neighbour signed this client's V2, and at least t of them also its V3."""
    kinds = m.exactly("confirmed", request.confirmed, neighbours.size)
    signatures = m.items("signatures", request.signatures, neighbours.size, SIGNATURE_BYTES)
    if kinds.translate(None, b"\x00\x01"):
        raise FaultyServer("a flag that is neither 0 nor 1")
    masked = roster.masking_text(round.context, state.root, state.v2)
    confirmed = roster.confirmed_text(round.context, state.root, state.v2, state.v3)
    for client, kind, signature in zip(neighbours.tolist(), kinds, signatures, strict=True):
        # Whoever confirmed this V2 and V3 has masked among this V2: an honest client signs no other.
        _verify(round, client, signature, confirmed if kind else masked, "the survivors")
    if sum(kinds) < state.held.threshold:
        raise FaultyServer(
            f"{sum(kinds)} neighbours confirmed the survivors, {state.held.threshold} have to before any "
            "share is released"
        )


def roster_members(round: ActiveRound, packed: bytes) -> Flags:
    v1 = m.unpack_set("V1", packed, round.config.clients)
    if not v1[round.client]:
        raise FaultyServer("the roster does not contain this client")
    check_size("the roster", v1, max(round.charter.least_roster, round.config.min_survivors))
    return v1


def check_size(name: str, members: Flags, least: int) -> None:
    """As large as the charter demands."""
    if members.sum() < least:
        raise FaultyServer(f"{members.sum()} clients in {name}, the charter demands {least}")


def _part_of(name: str, packed: bytes, whole: str, members: Flags, round: ActiveRound) -> Flags:
    """A set that may only shrink, and contains this client."""
    found = m.unpack_set(name, packed, round.config.clients)
    if np.any(found & ~members):
        raise FaultyServer(f"client {np.flatnonzero(found & ~members)[0]} is in {name} and not in {whole}")
    if not found[round.client]:
        raise FaultyServer(f"the server leaves this client itself out of {name} and asks it to go on")
    return found


def _verify(round: ActiveRound, client: int, signature: bytes, text: bytes, what: str) -> None:
    try:
        primitives.verify(round.charter.admission.key(client), signature, text)
    except primitives.BadSignature as error:
        raise FaultyServer(f"client {client} did not sign {what} as the server shows them") from error
