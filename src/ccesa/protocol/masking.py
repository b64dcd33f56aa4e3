"""Steps *accept*, 2 and 3 of a client, under every guard: open shares, mask the vector, release shares."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ccesa import words
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS, Content
from ccesa.errors import ConfigError, FaultyServer, own_failure
from ccesa.graphs.assignment import Flags, Neighbourhood
from ccesa.privacy.ledger import Account
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted, ClientRound, Holding, MasksAhead, Shared, VectorSource
from ccesa.protocol.dealing import agree_each
from ccesa.protocol.parties import check_task
from ccesa.wire import Draft
from ccesa.words import Vector

#: The round of a client under any guard.
Round: TypeAlias = ClientRound[object]


@dataclass(frozen=True)
class Careful:
    """A function of this package: it hides failures by itself, and its errors depend on no data."""

    make: Callable[[], Vector]

    def __call__(self) -> Vector:
        return self.make()


def check_source(vector: VectorSource, length: int, bits: int, account: Account | None) -> VectorSource:
    """Return the vector, or the function that makes it; with an account it has to be a function."""
    if callable(vector):
        return vector
    if account is not None:
        raise ConfigError(
            "with an account, give a function that calls encode, not a vector: a vector used in two rounds would have "
            "the same noise twice"
        )
    return words.check(vector, length, bits)


def make_vector(round: Round) -> Vector:
    """Return the vector of this round. It has not left, and nothing is charged yet.

    Without a ledger errors of its function are raised. With one, silence would say something about the data: zeros
    leave in its place, with the same noise, and are charged like all others.
    """
    account, source, config = round.spend.account, round.vector, round.config

    def make() -> Vector:
        return words.check(source() if callable(source) else source, config.length, config.bits)

    if account is None or isinstance(source, Careful):
        return make()
    try:
        vector = make()
        account.check_fresh(vector)
    except KeyboardInterrupt:  # the person at the client ends it
        raise
    except BaseException as error:  # also SystemExit, which would be silence for the server
        from ccesa.privacy.quantizer import around_zero  # loaded only by clients that draw noise

        round.failures.append(own_failure(error))
        return around_zero(account.mechanism, round.random)
    return vector


def check_enough(live: Neighbourhood, threshold: int) -> None:
    """Refuse to go on with fewer live members than have to agree."""
    if live.degree + 1 < threshold:
        raise FaultyServer(f"{live.degree} live neighbours and this client are fewer than its threshold {threshold}")


def check_left(live: Neighbourhood, threshold: int) -> None:
    """Refuse to go on with too few live members, or if none shares a mask with this client."""
    check_enough(live, threshold)
    if not live.carries_masks.any():
        raise FaultyServer("no neighbour is left to mask with; the server would see this vector alone")


def still_there(round: Round, packed: bytes, near: Neighbourhood) -> Flags:
    """Flag the members that the server does not list as dropped; it may list only neighbours."""
    dropped = m.unpack_ids("dropped", packed, round.config.clients)
    places = np.searchsorted(near.members, dropped)
    strangers = near.members.take(places, mode="clip") != dropped
    if strangers.any():
        raise FaultyServer(f"client {dropped[strangers][0]} is listed as dropped and is not a live neighbour")
    live = np.ones(near.members.size, bool)
    live[places] = False
    if not live[near.place]:
        raise FaultyServer("the server lists this client itself as dropped")
    return live


def open_shares(round: Round, state: Shared, shared: Flags, request: m.Texts) -> Accepted:
    """Open the texts of the members that have shared.

    This is a function of its own so that no opened share is a local of the frames of a failing vector.
    """
    live = state.near.among(shared)
    check_left(live, state.threshold)
    m.check(request, round.config, live.degree)
    texts, promised = (m.each(request, name, round.config) for name in ("sealed", "commitments"))
    partners, public, client = set(live.mask_neighbours), state.public_keys, round.client
    secrets = AGREEMENTS[round.config.agreement].decapsulate_each(state.kem_seed, texts)
    opened = {}
    for other, one, secret, text in zip(live.neighbours, promised, secrets, texts, strict=True):
        ends = keys.Ends(other, client, public[other], public[client], other in partners, one)
        opened[other] = unseal(round, state, secret, ends, text)
    shares = {client: state.own_share, **{other: content.shares for other, content in opened.items()}}
    return Accepted(
        near=live,
        threshold=state.threshold,
        public_keys=public,
        mask_private=state.mask_private,
        self_secret=state.self_secret,
        shares=[shares[member] for member in live.members.tolist()],
        seeds={other: (state.given[other], content.seed) for other, content in opened.items()},
    )


def unseal(round: Round, state: Shared, decapsulated: bytes, ends: keys.Ends, text: bytes) -> Content:
    """Open the text of a neighbour; empty if it does not open, or is not a row of shares."""
    agreement, sealing = AGREEMENTS[round.config.agreement], state.sealings[ends.sender]
    try:
        opened = agreement.unseal(sealing, decapsulated, text, round.context, ends)
        shamir.check(opened.shares)
    except (primitives.SealBroken, shamir.OutsideField):
        return Content(b"", b"")
    return opened


def acknowledge(round: Round, state: Shared, accepted: Accepted) -> m.AcceptReply:
    """Name the neighbours whose texts could not be used, and deposit the seeds of all others."""
    agreement, accused, deposits = AGREEMENTS[round.config.agreement], accepted.accused, []
    for other, (_, received) in accepted.seeds.items():
        known = state.mask_secret, received, round.context, round.client, other
        deposits.append(bytes(agreement.deposit_bytes) if other in accused else agreement.deposit(*known))
    return m.AcceptReply(**round.head, accused=m.pack_ids(np.array(accused, np.int64)), deposits=b"".join(deposits))


def complain(round: Round, accepted: Accepted) -> m.Complaint:
    return m.Complaint(**round.head, accused=m.pack_ids(np.array(accepted.accused)))


def hold_among(state: Accepted, live: Flags) -> Holding:
    """Step 2: keep the shares of the members that are left; each must have dealt usable ones."""
    near = state.near.among(live)
    check_left(near, state.threshold)
    shares = [shares for shares, alive in zip(state.shares, live, strict=True) if alive]
    if not all(shares):
        accused = near.members[shares.index(b"")]
        raise FaultyServer(f"client {accused} is in V2, and this client accused it")
    return Holding(near=near, threshold=state.threshold, shares=shares)


def mask_vector(
    round: Round, state: Accepted, held: Holding, asked: bytes, among: bytes, kind: type[m.SummedVector]
) -> tuple[Holding, dict[str, Any]]:
    """Mask the vector in place, for a reply of this kind; return the fields of the reply, too.

    ``asked`` is the task that the server names. It must be the task of this client.
    """
    counted, task = check_asked_task(round, asked)
    draft, (name, make) = masked_vector(round, state, held.near, (counted, task), kind), kind.fingerprint
    fields = {"among": among, "task": task, "vector": draft, name: make(draft.content, round.context, round.client)}
    return replace(held, counted=counted), fields


def check_asked_task(round: Round, asked: bytes) -> tuple[bytes, bytes]:
    """Return the name of the task in the memory, and the task, if it is that of this client and may be worked on."""
    task = check_task(round.task() if callable(round.task) else round.task)
    if task != asked:
        raise FaultyServer("the server asks for a vector for another task than the one this client works on")
    counted = round.spend.name(task)
    round.spend.check(counted)
    return counted, task


def masked_vector(
    round: Round, state: Accepted, live: Neighbourhood, task: tuple[bytes, bytes], kind: type[m.SummedVector]
) -> Draft:
    """Mask the vector with all its masks. It counts as sent from here, for a task by its name in the memory."""
    config, partners = round.config, live.mask_neighbours
    vector = make_vector(round)
    round.spend.send(*task)
    if round.ahead is not None and round.ahead.drafts:
        gone = pair_masks(round, state, sorted(round.ahead.neighbours.difference(partners)))
        off = [masks.Mask(key, -sign) for key, sign in gone]
        draft = round.ahead.drafts.pop()
        target = words.from_bytes(draft.content, config.bits)
        np.add(vector, target, out=target)
        masks.add_masks(target, off, config.generator, round.threads)
        return draft
    draft = m.draft(kind, config, round.head)
    target, every = words.from_bytes(draft.content, config.bits), all_masks(round, state, partners)
    masks.masked(vector, every, config.generator, round.threads, out=target)
    return draft


def masks_ahead(round: Round, state: Accepted, kind: type[m.Message]) -> MasksAhead:
    """Sum the masks of a later vector; those of neighbours that leave are taken off then."""
    partners = [other for other in state.near.mask_neighbours if other not in set(state.accused)]
    draft = m.draft(kind, round.config, round.head)
    total = words.from_bytes(draft.content, round.config.bits)
    masks.add_masks(total, all_masks(round, state, partners), round.config.generator, round.threads)
    return MasksAhead(frozenset(partners), [draft])


def all_masks(round: Round, state: Accepted, others: list[int]) -> list[masks.Mask]:
    """Return the self mask, and the mask that each of these neighbours has in common with this client."""
    key = keys.self_mask_key(state.self_secret, round.context, round.client, round.config.generator)
    return [masks.Mask(key, 1), *pair_masks(round, state, others)]


def pair_masks(round: Round, state: Accepted, others: list[int]) -> list[masks.Mask]:
    agreement, context, client = AGREEMENTS[round.config.agreement], round.context, round.client
    own, *mask_keys = [agreement.public_keys(state.public_keys[one])[1] for one in (client, *others)]
    every, pairs = agree_each(state.mask_private, mask_keys, round.threads), []
    for other, mask_key, agreed in zip(others, mask_keys, every, strict=True):
        given, received = state.seeds[other]
        here, there = keys.Half(client, own, given), keys.Half(other, mask_key, received)
        secret = agreement.pair_secret(agreed, context, here, there)
        key = keys.pair_mask_key(secret, context, client, other, round.config.generator)
        pairs.append(masks.Mask(key, keys.pair_sign(client, other)))
    return pairs


def release(round: Round, state: Holding, live: Flags) -> m.UnmaskReply:
    """Step 3: close the task; release the b share of every survivor, the client's own too, else the s share."""
    check_left(state.near.among(live), state.threshold)
    round.spend.release(state.counted)
    half, held = shamir.SHARE_BYTES, zip(state.shares, live, strict=True)
    released = b"".join(shares[:half] if alive else shares[half:] for shares, alive in held)
    return m.UnmaskReply(**round.head, shares=released)
