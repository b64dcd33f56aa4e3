"""Steps 0 and 1 of a client, under every guard: it makes keys, and deals shares of both of its secrets."""

from functools import partial
from typing import TypeAlias

import numpy as np

from ccesa import labels
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS, Content
from ccesa.crypto.masks import helpful, side_by_side
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import FaultyServer
from ccesa.graphs.assignment import Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, ClientRound, Shared

#: The round of a client under any guard.
Round: TypeAlias = ClientRound[object]

#: Agreements that a thread takes at a time, and the minimum for a thread, about half a millisecond.
ROW, THREAD_AGREEMENTS = 6, 12


def make_keys(round: Round, request: m.AdvertiseRequest) -> Advertised:
    """Make all key pairs, new ones in every round; refuse a request with another number than the round's."""
    if request.number != labels.client_bytes(round.config.number):
        raise FaultyServer("the request has another number than the round")
    agreement = AGREEMENTS[round.config.agreement]
    mask_secret = shamir.random_elements(round.random, shamir.SECRET_ELEMENTS)
    mask_private = keys.mask_private_key(shamir.to_bytes(mask_secret), round.context, round.client)
    sealing_private = primitives.private_key(round.random(32))
    kem_seed = round.random(agreement.kem_seed_bytes)
    public = primitives.public_key(sealing_private), primitives.public_key(mask_private)
    return Advertised(
        sealing_private=sealing_private,
        mask_secret=mask_secret,
        mask_private=mask_private,
        kem_seed=kem_seed,
        public_keys=agreement.bundle(*public, kem_seed),
    )


def check_keys(round: Round, state: Advertised, near: Neighbourhood, bundles: list[bytes]) -> dict[int, bytes]:
    """Return all public keys of each member; refuse keys that occur twice or that nobody can have."""
    agreement = AGREEMENTS[round.config.agreement]
    public_keys = {round.client: state.public_keys, **dict(zip(near.neighbours, bundles, strict=True))}
    split = [agreement.public_keys(bundle) for bundle in public_keys.values()]
    public = [key for one in split for key in one]
    if len(set(public)) != len(public):
        raise FaultyServer("a public key occurs twice in one neighbourhood")
    try:
        for one in split:
            agreement.check_keys(*one)
    except primitives.BadKey as error:
        raise FaultyServer(str(error)) from error
    return public_keys


def threshold_of(config: RoundConfig, degree: int) -> int:
    """Return the threshold of a client with this number of neighbours; refuse a degree that is not safe."""
    threshold = config.threshold.of(degree)
    if not degree:
        raise FaultyServer("no neighbour to share with")
    if degree + 1 > MAX_HOLDERS:
        raise FaultyServer(f"{degree} neighbours; at most {MAX_HOLDERS} clients can hold shares of a secret")
    if threshold > config.largest_threshold(degree):
        raise FaultyServer(f"threshold {threshold} with {degree} neighbours: nobody could rebuild the secrets")
    if 2 * threshold <= degree + 1:
        raise FaultyServer(f"threshold {threshold} with {degree} neighbours: two disjoint sets of holders exist")
    return threshold


def deal(
    round: Round, state: Advertised, near: Neighbourhood, public_keys: dict[int, bytes], threshold: int
) -> tuple[Shared, m.ShareReply]:
    """Split both secrets among the neighbourhood, seal one pair of shares for each neighbour."""
    self_secret = shamir.random_elements(round.random, shamir.SECRET_ELEMENTS)
    both = np.concatenate([self_secret, state.mask_secret])
    rows = shamir.to_bytes(shamir.split(both, threshold, near.members.size, round.random))
    shares = m.items("shares", rows, near.members.size, 2 * shamir.SHARE_BYTES)
    own_share = shares.pop(near.place)
    secret, mask_secret = shamir.to_bytes(self_secret), shamir.to_bytes(state.mask_secret)
    commitment = keys.commitment(secret, round.context, round.client)
    pair_seed = AGREEMENTS[round.config.agreement].pair_seed
    dealt = zip(near.neighbours, shares, strict=True)
    contents = {other: Content(row, pair_seed(mask_secret, round.context, round.client, other)) for other, row in dealt}
    sealings, sealed = seal(round, state, near, public_keys, contents, commitment)
    shared = Shared(
        near=near,
        threshold=threshold,
        public_keys=public_keys,
        mask_secret=mask_secret,
        mask_private=state.mask_private,
        self_secret=secret,
        sealings=sealings,
        kem_seed=state.kem_seed,
        given={other: content.seed for other, content in contents.items()},
        own_share=own_share,
    )
    return shared, m.ShareReply(**round.head, commitment=commitment, sealed=sealed)


def seal(
    round: Round,
    state: Advertised,
    near: Neighbourhood,
    public_keys: dict[int, bytes],
    contents: dict[int, Content],
    commitment: bytes,
) -> tuple[dict[int, bytes], bytes]:
    """Agree with every neighbour, and seal its shares and its seed."""
    agreement, context, client = AGREEMENTS[round.config.agreement], round.context, round.client
    neighbours, partners, own = near.neighbours, set(near.mask_neighbours), public_keys[client]
    bundles = [public_keys[other] for other in neighbours]
    sealing_keys = [agreement.public_keys(bundle)[0] for bundle in bundles]
    every = agree_each(state.sealing_private, sealing_keys, round.threads)
    both = zip(neighbours, every, strict=True)
    sealings = {other: agreement.sealing(agreed, context, client, other) for other, agreed in both}
    sealed = []
    for other, bundle, given in zip(neighbours, bundles, agreement.encapsulate_each(bundles), strict=True):
        ends = keys.Ends(client, other, own, bundle, other in partners, commitment)
        sealed.append(agreement.seal(sealings[other], given, contents[other], context, ends))
    return sealings, b"".join(sealed)


def agree_each(private: primitives.PrivateKey, public: list[bytes], threads: int) -> list[bytes]:
    """Agree with each, side by side where the library frees the interpreter's lock."""
    worth = len(public) // THREAD_AGREEMENTS if primitives.agrees_without_lock() else 1
    threads = helpful(threads, worth)
    step = ROW if threads > 1 else len(public) or 1
    rows = [public[first : first + step] for first in range(0, len(public), step)]
    agreed = side_by_side(partial(primitives.agree_each, private), rows, threads)
    return [secret for row in agreed for secret in row]
