"""The steps of a client, as functions ``(round, state, request) -> (next state, reply)`` on frozen states.

One type a state, so that a wrong order is a type error. Everything an honest server would not send raises
``FaultyServer``; ``Client`` then drops its secrets and is done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import FaultyServer
from ccesa.floor import Floor, threshold_ratio
from ccesa.protocol import messages as m
from ccesa.protocol.spending import Spending
from ccesa.words import Vector

Ids = NDArray[np.int64]
VectorSource = Vector | Callable[[], Vector]


@dataclass(frozen=True, kw_only=True)
class Round:
    """What stays the same through the steps."""

    config: RoundConfig
    context: bytes
    client: int
    floor: Floor
    random: shamir.Randomness = field(repr=False)
    vector: VectorSource = field(repr=False)
    #: Called when a vector is about to leave.
    spend: Spending
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Before step 0: no secret exists yet."""


@dataclass(frozen=True, kw_only=True)
class Advertised:
    """After step 0: two fresh key pairs."""

    sealing_private: primitives.PrivateKey = field(repr=False)
    mask_secret: shamir.Elements = field(repr=False)
    mask_private: primitives.PrivateKey = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """After step 1: the neighbourhood is known, both secrets are dealt."""

    neighbours: Ids
    #: Both public keys of each neighbour, and the client's own.
    bundles: list[bytes]
    own_bundle: bytes
    masked: NDArray[np.bool_]
    threshold: int
    mask_private: primitives.PrivateKey = field(repr=False)
    self_secret: bytes = field(repr=False)
    sealings: list[keys.Sealing] = field(repr=False)
    own_share: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Masked:
    """After step 2: nothing but shares is left, of every live neighbour and the client itself."""

    holding: Ids
    masked: NDArray[np.bool_]
    shares: list[bytes] = field(repr=False)
    threshold: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """After the last step, or after an abort: no secret is left."""


State = Joined | Advertised | Shared | Masked | Done


def advertise(
    round: Round, state: Joined, request: m.AdvertiseRequest
) -> tuple[Advertised, m.AdvertiseReply]:
    """Step 0: fresh key pairs, every round."""
    mask_secret = shamir.random_elements(round.random, shamir.SECRET_ELEMENTS)
    advertised = Advertised(
        sealing_private=primitives.private_key(round.random(32)),
        mask_secret=mask_secret,
        mask_private=keys.mask_private_key(shamir.to_bytes(mask_secret), round.context, round.client),
    )
    return advertised, m.AdvertiseReply(
        context=round.context,
        client=round.client,
        sealing_key=primitives.public_key(advertised.sealing_private),
        mask_key=primitives.public_key(advertised.mask_private),
    )


def share(round: Round, state: Advertised, request: m.ShareRequest) -> tuple[Shared, m.ShareReply]:
    """Step 1: split both secrets among the neighbourhood, seal one pair of shares for each neighbour."""
    own_bundle = bundle(state)
    neighbours, bundles, masked = _neighbourhood(round, own_bundle, request)
    threshold = _threshold(round, neighbours.size)
    _check_floor(round, neighbours.size, int(masked.sum()), threshold)
    self_secret = shamir.random_elements(round.random, shamir.SECRET_ELEMENTS)
    both = np.concatenate([self_secret, state.mask_secret])
    holders = neighbours.size + 1
    rows = shamir.to_bytes(shamir.split(both, threshold, holders, round.random))
    shares = m.items("shares", rows, holders, 2 * shamir.SHARE_BYTES)
    own_share = shares.pop(int(np.searchsorted(neighbours, round.client)))

    numbers = neighbours.tolist()
    agreed = _agree(state.sealing_private, [public[:PUBLIC_KEY_BYTES] for public in bundles])
    sealings = [
        keys.sealing(secret, round.context, round.client, number)
        for secret, number in zip(agreed, numbers, strict=True)
    ]
    sealed = [
        keys.seal_shares(
            sealing, text, round.context, keys.Ends(round.client, number, own_bundle, public, flag)
        )
        for sealing, text, number, public, flag in zip(
            sealings, shares, numbers, bundles, masked.tolist(), strict=True
        )
    ]
    secret = shamir.to_bytes(self_secret)
    shared = Shared(
        neighbours=neighbours,
        bundles=bundles,
        own_bundle=own_bundle,
        masked=masked,
        threshold=threshold,
        mask_private=state.mask_private,
        self_secret=secret,
        sealings=sealings,
        own_share=own_share,
    )
    return shared, m.ShareReply(
        context=round.context,
        client=round.client,
        commitment=keys.commitment(secret, round.context, round.client),
        sealed=b"".join(sealed),
    )


def mask(
    round: Round, state: Shared, request: m.MaskRequest
) -> tuple[Masked, m.MaskReply] | tuple[Done, m.Complaint]:
    """Step 2: open the neighbours' shares, then send the vector under the self mask and the pair masks.

    Where a neighbour's shares cannot be used, a complaint that names it is sent instead, and no vector.
    """
    live = ~_dropped(round, request.dropped, state.neighbours)
    check_enough(int(live.sum()), state.threshold)
    check_hidden(live & state.masked)
    masked = take_hold(round, state, live, request.sealed)
    if isinstance(masked, m.Complaint):
        return Done(), masked
    vector = masked_vector(round, state, np.flatnonzero(live & state.masked))
    content = cast(bytes, vector.data)  # it is encoded at once, which is the only copy
    digest = keys.vector_digest(content, round.context, round.client)
    return masked, m.MaskReply(context=round.context, client=round.client, vector=content, digest=digest)


def take_hold(round: Round, state: Shared, live: NDArray[np.bool_], sealed: bytes) -> Masked | m.Complaint:
    """Open what the live neighbours sealed.

    A function of its own: should the caller's vector fail, no opened share is a local of the failing frames.
    """
    neighbours = state.neighbours[live]
    texts = m.items("sealed", sealed, neighbours.size, keys.SEALED_BYTES)
    opened = [
        _open(round, state, place, text)
        for place, text in zip(np.flatnonzero(live).tolist(), texts, strict=True)
    ]
    accused = [number for number, text in zip(neighbours.tolist(), opened, strict=True) if text is None]
    if accused:
        packed = m.pack_ids(np.array(accused, np.int64))
        return m.Complaint(context=round.context, client=round.client, accused=packed)
    shares = [text for text in opened if text is not None]
    place = int(np.searchsorted(neighbours, round.client))
    return Masked(
        holding=np.insert(neighbours, place, round.client),
        masked=np.insert(state.masked[live], place, False),
        shares=[*shares[:place], state.own_share, *shares[place:]],
        threshold=state.threshold,
    )


def unmask(round: Round, state: Masked, request: m.UnmaskRequest) -> tuple[Done, m.UnmaskReply]:
    """Step 3: release the b share of every survivor, the client itself included, the s share of the rest."""
    dropped = _dropped(round, request.dropped, state.holding)
    if dropped[int(np.searchsorted(state.holding, round.client))]:
        raise FaultyServer("the server lists this client itself as dropped")
    check_enough(int((~dropped).sum()) - 1, state.threshold)
    check_hidden(state.masked & ~dropped)
    half = shamir.SHARE_BYTES
    released = [
        shares[half:] if gone else shares[:half] for shares, gone in zip(state.shares, dropped, strict=True)
    ]
    return Done(), m.UnmaskReply(context=round.context, client=round.client, shares=b"".join(released))


StepFunction = Callable[[Any, Any, Any], tuple[Any, m.Message]]
STEP_FUNCTIONS: dict[str, StepFunction] = {
    "advertise": advertise,
    "share": share,
    "mask": mask,
    "unmask": unmask,
}
#: In which state each step finds a client.
STATES: dict[str, type] = {"advertise": Joined, "share": Advertised, "mask": Shared, "unmask": Masked}


def bundle(state: Advertised) -> bytes:
    """Both public keys of the client itself."""
    return primitives.public_key(state.sealing_private) + primitives.public_key(state.mask_private)


def _neighbourhood(
    round: Round, own_bundle: bytes, request: m.ShareRequest
) -> tuple[Ids, list[bytes], NDArray[np.bool_]]:
    """The neighbours with their two keys and mask flags, all checked."""
    neighbours = m.unpack_ids("neighbours", request.neighbours, round.config.clients)
    if round.client in neighbours:
        raise FaultyServer("the server lists this client as its own neighbour")
    bundles = m.items("keys", request.keys, neighbours.size, 2 * PUBLIC_KEY_BYTES)
    masked = np.frombuffer(m.exactly("masked", request.masked, neighbours.size), np.uint8)
    if np.any(masked > 1):
        raise FaultyServer("a mask flag that is neither 0 nor 1")
    if not neighbours.size:
        raise FaultyServer("no neighbour to share with")
    _check_mask_edges(round, neighbours.size, int(masked.sum()))
    public = m.items("keys", request.keys + own_bundle, 2 * neighbours.size + 2, PUBLIC_KEY_BYTES)
    if len(set(public)) != len(public):
        raise FaultyServer("the same public key twice in one neighbourhood")
    try:
        for key in public:
            primitives.check_public_key(key)
    except primitives.LowOrderKey as error:
        raise FaultyServer(str(error)) from error
    return neighbours, bundles, masked.astype(bool)


def _check_mask_edges(round: Round, degree: int, mask_edges: int) -> None:
    due = round.config.graph.mask_edges(degree)
    if due is not None and mask_edges != due:
        raise FaultyServer(f"{mask_edges} neighbours to mask with where the configuration gives {due}")


def _check_floor(round: Round, degree: int, mask_edges: int, threshold: int) -> None:
    """Against the client's own floor, exactly: a roster that is too small for it is too small.

    Degrees that vary do so by a seed; there the mean was compared, with the configuration.
    """
    graph = round.config.graph
    found: dict[str, float] = {"threshold_ratio": threshold_ratio(threshold, degree)}
    if not graph.varies:
        found.update(degree=degree, threshold=threshold)
        if graph.mask_edges(degree) is not None:
            found.update(mask_degree=mask_edges)
    lacking = round.floor.lacking(**found)
    if lacking:
        raise FaultyServer(f"the neighbourhood has {lacking}")


def _threshold(round: Round, degree: int) -> int:
    threshold = round.config.threshold.of(degree)
    if degree + 1 > MAX_HOLDERS:
        raise FaultyServer(f"{degree} neighbours; at most {MAX_HOLDERS} clients can hold shares of a secret")
    if threshold > round.config.largest_threshold(degree):
        raise FaultyServer(
            f"threshold {threshold} with {degree} neighbours: nobody could rebuild the secrets"
        )
    if 2 * threshold <= degree + 1:
        raise FaultyServer(
            f"threshold {threshold} with {degree} neighbours: two disjoint sets of holders exist"
        )
    return threshold


def _dropped(round: Round, packed: bytes, known: Ids) -> NDArray[np.bool_]:
    """Which of the known clients the server lists as dropped; it may list no one else."""
    dropped = m.unpack_ids("dropped", packed, round.config.clients)
    strangers = np.setdiff1d(dropped, known)
    if strangers.size:
        raise FaultyServer(f"client {strangers[0]} is listed as dropped and is no live neighbour")
    return np.isin(known, dropped)


def check_enough(neighbours: int, threshold: int) -> None:
    if neighbours + 1 < threshold:
        raise FaultyServer(
            f"{neighbours} live neighbours and this client are fewer than its threshold {threshold}"
        )


def check_hidden(mask_neighbours: NDArray[np.bool_]) -> None:
    if not mask_neighbours.any():
        raise FaultyServer("no neighbour is left to mask with: this vector would be a sum of its own")


def _open(round: Round, state: Shared, place: int, text: bytes) -> bytes | None:
    """The row of shares that a neighbour sealed; None where it does not open or holds what is no share."""
    neighbour, masked = int(state.neighbours[place]), bool(state.masked[place])
    ends = keys.Ends(neighbour, round.client, state.bundles[place], state.own_bundle, masked)
    try:
        shares = keys.unseal_shares(state.sealings[place], text, round.context, ends)
        shamir.from_bytes(shares)
    except (primitives.SealBroken, shamir.OutsideField):
        return None
    return shares


def _agree(private: primitives.PrivateKey, public: list[bytes]) -> list[bytes]:
    """All agreements in one row, with nothing else in between: measurably faster than one by one."""
    loaded = [primitives.load_public_key(key) for key in public]
    return [primitives.agree(private, key) for key in loaded]


def masked_vector(round: Round, state: Shared, places: NDArray[np.intp]) -> Vector:
    config, client = round.config, round.client
    vector = round.vector() if callable(round.vector) else round.vector
    vector = words.check(vector, config.length, config.bits)
    round.spend()
    agreed = _agree(
        state.mask_private, [state.bundles[place][PUBLIC_KEY_BYTES:] for place in places.tolist()]
    )
    pair_masks = [
        masks.Mask(
            keys.pair_mask_key(secret, round.context, client, number, config.generator),
            keys.pair_sign(client, number),
        )
        for secret, number in zip(agreed, state.neighbours[places].tolist(), strict=True)
    ]
    self_key = keys.self_mask_key(state.self_secret, round.context, client, config.generator)
    every = [masks.Mask(self_key, 1), *pair_masks]
    return masks.masked(vector, every, config.generator, round.threads)
