"""In steps 2 and 3, under every guard, a client opens shares, masks its vector and releases shares."""

from typing import Any, cast

import numpy as np

from ccesa import words
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.errors import FaultyServer
from ccesa.graphs.neighbourhood import Flags, Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Holding, Round, Shared
from ccesa.protocol.dealing import agree_each
from ccesa.words import Vector


def check_enough(live: Neighbourhood, threshold: int) -> None:
    """Refuse to go on with fewer live members than have to agree."""
    if live.degree + 1 < threshold:
        raise FaultyServer(
            f"{live.degree} live neighbours and this client are fewer than its threshold {threshold}"
        )


def check_hidden(live: Neighbourhood) -> None:
    """Refuse to go on where no live neighbour shares a mask with this client."""
    if not live.carries_masks.any():
        raise FaultyServer("no neighbour is left to mask with: this vector would be a sum of its own")


def take_hold(
    round: Round[Any], state: Shared, live: Neighbourhood, request: m.MaskRequest | m.MaskAmongRequest
) -> Holding | m.Complaint:
    """Open what the live neighbours sealed; name those whose shares cannot be used instead, if any.

    A function of its own: should the caller's vector fail, no opened share is a local of the failing frames.
    """
    texts = m.each(m.checked(request, round.config, live.degree), "sealed")
    partners = set(live.mask_neighbours)
    opened = {
        other: unseal(round, state, other, other in partners, text)
        for other, text in zip(live.neighbours, texts, strict=True)
    }
    accused = [other for other, shares in opened.items() if shares is None]
    if accused:
        return m.Complaint(**round.head, accused=m.pack_ids(np.array(accused)))
    held = {**opened, round.client: state.own_share}
    shares = [cast(bytes, held[member]) for member in live.members.tolist()]
    return Holding(near=live, threshold=state.threshold, shares=shares)


def unseal(round: Round[Any], state: Shared, other: int, with_masks: bool, text: bytes) -> bytes | None:
    """Open the row of shares that a neighbour sealed; None where it does not open or is not such a row."""
    theirs, own = state.public_keys[other], state.public_keys[round.client]
    ends = keys.Ends(other, round.client, theirs, own, with_masks)
    try:
        shares = keys.unseal_shares(state.sealings[other], text, round.context, ends)
        shamir.from_bytes(shares)
    except (primitives.SealBroken, shamir.OutsideField):
        return None
    return shares


def mask_vector(round: Round[Any], state: Shared, live: Neighbourhood) -> dict[str, Any]:
    """Mask the vector; return it with its digest, as a reply has them."""
    vector = masked_vector(round, state, live)
    content = cast(bytes, vector.data)  # it is encoded at once, which is the only copy
    return {"vector": content, "digest": keys.vector_digest(content, round.context, round.client)}


def masked_vector(round: Round[Any], state: Shared, live: Neighbourhood) -> Vector:
    """Mask the vector with all its masks. It counts as sent from here on."""
    config, client, others = round.config, round.client, live.mask_neighbours
    vector = round.vector() if callable(round.vector) else round.vector
    vector = words.check(vector, config.length, config.bits)
    round.spend()
    agreed = agree_each(state.mask_private, [state.public_keys[other][PUBLIC_KEY_BYTES:] for other in others])
    self_key = keys.self_mask_key(state.self_secret, round.context, client, config.generator)
    every = [masks.Mask(self_key, 1)]
    for secret, other in zip(agreed, others, strict=True):
        key = keys.pair_mask_key(secret, round.context, client, other, config.generator)
        every.append(masks.Mask(key, keys.pair_sign(client, other)))
    return masks.masked(vector, every, config.generator, round.threads)


def release(round: Round[Any], state: Holding, live: Flags) -> m.UnmaskReply:
    """Release the b share of every survivor, the client itself included, and the s share of the rest."""
    half = shamir.SHARE_BYTES
    released = [
        shares[:half] if alive else shares[half:] for shares, alive in zip(state.shares, live, strict=True)
    ]
    return m.UnmaskReply(**round.head, shares=b"".join(released))
