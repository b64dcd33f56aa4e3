"""The step of a member under the guard ``assisted``: it masks with one keystream for each helper, and sends once.

The server may lie, and may work with all helpers but one. docs/security.md, "Helpers", has the rules. Everything
rests on the keys. With a key of its own in the place of one helper, the server learns nothing; in the place of all, it
learns the vector.
"""

from typing import Any, TypeAlias

from ccesa import words
from ccesa.crypto import check_words, masks, primitives
from ccesa.crypto.keys import AGREEMENTS, vector_tag
from ccesa.errors import ConfigError, FaultyServer
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import ClientRound, Done, Joined, Membership
from ccesa.protocol.masking import check_asked_task, make_vector
from ccesa.protocol.submission import Binding, MaskKey, keyring_of, keys_text
from ccesa.wire import Draft
from ccesa.words import Vector

#: The round of a client that is a member of a federation with helpers.
Round: TypeAlias = ClientRound[Membership]


def mask(round: Round, state: Joined, request: m.MaskForHelpersRequest) -> tuple[Done, m.BoxedMaskReply]:
    """Mask the vector for the helpers of the charter, whose keys are checked before anything else is done."""
    bundles = check_helper_keys(round, request)
    counted, task = check_asked_task(round, request.task)
    vector = make_vector(round)
    round.spend.send(counted, task)
    return Done(), send(round, task, bundles, vector)


def check_helper_keys(round: Round, request: m.MaskForHelpersRequest) -> list[bytes]:
    """Return the keys of the helpers of the charter: signed by each for this round, in time, different, and safe."""
    config, charter = round.config, round.own.charter
    m.check(request, config)
    if int.from_bytes(request.number, "little") != config.number:
        raise FaultyServer("the request has another number than the round")
    bundles, times, signatures = (m.each_helper(request, name, config) for name in ("keys", "not_after", "signatures"))
    for place, (bundle, not_after, signature) in enumerate(zip(bundles, times, signatures, strict=True)):
        text = keys_text(round.context, config.clients + place, not_after, bundle)
        try:
            primitives.verify(charter.helper_admission.key(place), signature, text)
        except primitives.BadSignature as error:
            raise FaultyServer(f"helper {charter.helper_seats[place].name} did not sign its keys as shown") from error
    try:
        for place, not_after in enumerate(times):
            charter.check_key_time(place, int.from_bytes(not_after, "little"), round.now)
    except ConfigError as error:
        raise FaultyServer(str(error)) from error
    for seat, bundle in zip(charter.helper_seats, bundles, strict=True):
        try:
            AGREEMENTS[config.agreement].check_helper_keys(bundle)
        except primitives.BadKey as error:
            raise FaultyServer(f"the key of helper {seat.name}: {error}") from error
    check_different(bundles)
    return bundles


def check_different(bundles: list[bytes]) -> None:
    """Refuse keys that occur twice."""
    for part in (slice(primitives.PUBLIC_KEY_BYTES), slice(primitives.PUBLIC_KEY_BYTES, None)):
        every = [bundle[part] for bundle in bundles]
        if any(every) and len(set(every)) < len(every):
            raise FaultyServer("two helpers have the same key")


def send(round: Round, task: bytes, bundles: list[bytes], vector: Vector) -> m.BoxedMaskReply:
    """Mask the vector and its check words under a fresh key; sign what helpers have to know."""
    config, agreement = round.config, AGREEMENTS[round.config.agreement]
    private = primitives.private_key(round.random(32))
    key = primitives.public_key(private)
    binding = Binding(config=config, context=round.context, task=task, keyring=keyring_of(round.context, bundles))
    encapsulated = agreement.encapsulate_each(bundles)
    agreed = primitives.agree_each(private, [bundle[: primitives.PUBLIC_KEY_BYTES] for bundle in bundles])
    mask_keys = [
        binding.mask_key(one + kem.secret, round.client, place, key, kem.ciphertext)
        for place, (one, kem) in enumerate(zip(agreed, encapsulated, strict=True))
    ]
    draft = masked_vector(round, vector, mask_keys)
    tag = vector_tag(draft.content, round.context, round.client)
    boxes = b"".join(one.box for one in mask_keys)
    ciphertexts = [kem.ciphertext for kem in encapsulated]
    text = binding.text(round.client, key, boxes, binding.digests(ciphertexts), tag)
    fields: dict[str, Any] = {
        "key": key,
        "boxes": boxes,
        "ciphertexts": b"".join(ciphertexts),
        "tag": tag,
        "vector": draft,
    }
    return m.BoxedMaskReply(**round.head, **fields, signature=round.own.identity.sign(text))


def masked_vector(round: Round, vector: Vector, mask_keys: list[MaskKey]) -> Draft:
    """Mask the vector and its check words into the message that will carry them."""
    config, every = round.config, [masks.Mask(one.key, 1) for one in mask_keys]
    draft = m.draft(m.BoxedMaskReply, config, round.head)
    target = words.from_bytes(draft.content, config.bits)
    step = primitives.ALIGNMENT // target.itemsize
    whole = config.length // step * step  # as much as is masked on its way; the rest is too short to matter
    if whole:
        masks.masked(vector[:whole], every, config.generator, round.threads, out=target[:whole])
    target[whole : config.length] = vector[whole:]
    target[config.length :] = check_words.make(vector, round.context, config.generator)
    masks.add_masks(target[whole:], every, config.generator, offset=whole * target.itemsize)
    return draft
