"""The steps of a server under the guard ``assisted``: members answer one of them, helpers the others.

A vector is held until every helper has confirmed its box. Then it goes into the sum, or it is left out and costs
nobody else anything. A helper answers one question about a task, so nothing may be found wrong after that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.crypto import check_words, primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError, CorruptSum, HelpersMissing, MalformedMessage, TooFewClients
from ccesa.evidence import Accusation, WrongShare
from ccesa.protocol import messages as m
from ccesa.protocol.server_states import Requests, ServerRound, requests_for
from ccesa.protocol.submission import (
    Binding,
    Record,
    boxes_digest,
    ciphertext_digest,
    confirmed_text,
    keyring_of,
    keys_text,
    question_digest,
    sum_text,
)
from ccesa.words import Vector

#: The round of a server with a charter that names helpers.
Round: TypeAlias = ServerRound[Charter]


@dataclass(frozen=True, kw_only=True, eq=False)
class Summoning:
    """While step key is open, the helpers show their keys. The members are asked after them."""

    members: tuple[int, ...]
    #: All public keys that came.
    seen: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """A member's vector with its record, held until all helpers have confirmed its box."""

    record: bytes
    ciphertexts: list[bytes]
    vector: memoryview = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathering:
    """While step mask is open, vectors come in, and helpers confirm their boxes beside it."""

    keyring: bytes
    total: Vector = field(repr=False)
    #: Vectors whose boxes are not confirmed yet, by member.
    pending: dict[int, Submission] = field(default_factory=dict)
    #: V3: the members whose vectors are in the sum, with record and ciphertexts.
    summed: dict[int, tuple[bytes, list[bytes]]] = field(default_factory=dict)
    #: By member: the helpers that have confirmed it.
    confirmed: dict[int, set[int]] = field(default_factory=dict)
    #: By helper and digest: the boxes that it was asked to confirm.
    asked: dict[int, dict[bytes, tuple[int, ...]]] = field(default_factory=dict)
    #: By helper: the members that it was asked about, and the answers that came, by the digest of their boxes.
    shown: dict[int, set[int]] = field(default_factory=dict)
    answers: dict[tuple[int, bytes], bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Asking:
    """After V3 is settled, each helper is asked for the sum of its masks."""

    total: Vector = field(repr=False)
    survivors: tuple[int, ...]
    questions: dict[int, bytes]


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """After step unmask the total is the sum."""

    total: Vector = field(repr=False)
    survivors: tuple[int, ...]
    #: Nobody holds shares, and there is no graph.
    wrong_shares: ClassVar[frozenset[WrongShare]] = frozenset()
    evolution: ClassVar[None] = None


def check_helper_signed(round: Round, helper: int, signature: bytes, text: bytes) -> None:
    """Refuse what a helper did not sign."""
    try:
        primitives.verify(round.own.helper_admission.key(helper - round.config.clients), signature, text)
    except primitives.BadSignature as error:
        raise MalformedMessage(str(error)) from error


def take_helper_keys(round: Round, state: Summoning, helper: int, reply: m.HelperKeysReply) -> m.HelperKeysReply:
    """Step key: keep the keys of a helper with its signature."""
    m.check(reply, round.config)
    check_helper_signed(round, helper, reply.signature, keys_text(round.context, helper, reply.not_after, reply.keys))
    try:
        AGREEMENTS[round.config.agreement].check_helper_keys(reply.keys)
        if not round.from_log:
            not_after = int.from_bytes(reply.not_after, "little")
            round.own.check_key_time(helper - round.config.clients, not_after, round.now)
    except (primitives.BadKey, ConfigError) as error:
        raise MalformedMessage(str(error)) from error
    size = primitives.PUBLIC_KEY_BYTES
    public = {part for part in (reply.keys[:size], reply.keys[size:]) if part}
    if not state.seen.isdisjoint(public):
        raise MalformedMessage("a key that another helper has shown")
    state.seen.update(public)
    return reply


def close_key(round: Round, state: Summoning, kept: dict[int, m.HelperKeysReply]) -> tuple[Gathering, Requests]:
    """Show all helpers' keys to every member, and ask it for its vector. All helpers have to be there."""
    config = round.config
    check_helpers(round, kept)
    replies = [kept[helper] for helper in config.helper_ids]
    bundles = [reply.keys for reply in replies]
    shown = m.MaskForHelpersRequest(
        context=round.context,
        client=0,
        number=config.number.to_bytes(m.NUMBER_BYTES, "little"),
        keys=b"".join(bundles),
        not_after=b"".join(reply.not_after for reply in replies),
        signatures=b"".join(reply.signature for reply in replies),
        task=round.task,
    )
    gathering = Gathering(
        keyring=keyring_of(round.context, bundles), total=words.zeros(config.masked_length, config.bits)
    )
    return gathering, requests_for(state.members, shown)


def check_helpers(round: Round, kept: Iterable[int]) -> None:
    """Require that all helpers have answered."""
    missing = set(round.config.helper_ids).difference(kept)
    if missing:
        raise HelpersMissing(missing)


def take_vector(round: Round, state: Gathering, client: int, reply: m.BoxedMaskReply) -> None:
    """Step mask: check what a member has signed, and hold its vector. The tag was checked before."""
    record, ciphertexts = read_submission(round, state, client, reply)
    state.pending[client] = Submission(record=record, ciphertexts=ciphertexts, vector=hold(reply.vector))
    state.confirmed[client] = set()


def hold(vector: memoryview) -> memoryview:
    """Return a vector that stays as it is: the caller may use its buffer again, unless that is of bytes."""
    return vector if isinstance(vector.obj, bytes) else memoryview(bytes(vector))


def take_summed(round: Round, state: Gathering, client: int, reply: m.BoxedMaskReply) -> None:
    """Step mask: take over what all helpers have confirmed before; its vector is in a sum."""
    state.summed[client] = read_submission(round, state, client, reply)


def read_submission(round: Round, state: Gathering, client: int, reply: m.BoxedMaskReply) -> tuple[bytes, list[bytes]]:
    """Return the record of what a member has signed, and its ciphertexts."""
    ciphertexts = m.each_helper(reply, "ciphertexts", round.config)
    digests = b"".join(map(ciphertext_digest, ciphertexts))
    record = Record(key=reply.key, boxes=reply.boxes, digests=digests, tag=reply.tag, signature=reply.signature)
    text = binding_of(round, state).text(client, reply.key, reply.boxes, digests, reply.tag)
    try:
        primitives.verify(round.own.admission.key(client), reply.signature, text)
        primitives.check_public_key(reply.key)
    except (primitives.BadSignature, primitives.BadKey) as error:
        raise MalformedMessage(str(error)) from error
    return record.pack(), ciphertexts


def binding_of(round: Round, state: Gathering) -> Binding:
    return Binding(config=round.config, context=round.context, task=round.task, keyring=state.keyring)


def ask_boxes(round: Round, state: Gathering, again: bool) -> Requests:
    """Ask each helper about the boxes that it was not shown yet; with ``again`` about all that it is silent about."""
    requests = {}
    for helper in round.config.helper_ids:
        silent = {client for client in state.pending if helper not in state.confirmed[client]}
        new = sorted(silent if again else silent - state.shown.get(helper, set()))
        if new:
            state.shown.setdefault(helper, set()).update(new)
            requests[helper] = _ask_about(round, state, helper, new)
    return requests


def _ask_about(round: Round, state: Gathering, helper: int, members: list[int]) -> bytes:
    place = helper - round.config.clients
    parts = {client: (one.record, one.ciphertexts[place]) for client in members for one in [state.pending[client]]}
    request = _boxes_request(round, state, helper, parts, m.ConfirmBoxesRequest)
    state.asked.setdefault(helper, {})[boxes_digest(request, helper)] = tuple(members)
    return request.encode()


def _boxes_request(
    round: Round,
    state: Gathering,
    helper: int,
    parts: dict[int, tuple[bytes, bytes]],
    kind: type[m.ConfirmBoxesRequest] | type[m.UnmaskSumRequest],
) -> m.BoxesRequest:
    return kind(
        context=round.context,
        client=helper,
        number=round.config.number.to_bytes(m.NUMBER_BYTES, "little"),
        task=round.task,
        keyring=state.keyring,
        members=m.pack_ids(np.array(list(parts), np.int64)),
        records=b"".join(record for record, _ in parts.values()),
        ciphertexts=b"".join(ciphertext for _, ciphertext in parts.values()),
    )


def take_confirmation(
    round: Round, state: Gathering, helper: int, reply: m.ConfirmBoxesReply
) -> frozenset[Accusation] | None:
    """Beside step mask: take a helper's word about boxes. A vector goes into the sum with the last one for it.

    Returns its accusations, or None if this word was taken before.
    """
    m.check(reply, round.config)
    check_helper_signed(
        round, helper, reply.signature, confirmed_text(round.context, helper, reply.boxes, reply.refused)
    )
    known = state.answers.get((helper, reply.boxes))
    if known is not None:
        if known != reply.refused:
            raise MalformedMessage("a second, different answer about the same boxes")
        return None
    members = state.asked.get(helper, {}).get(reply.boxes)
    if members is None:
        raise MalformedMessage("an answer about boxes that were not asked about")
    refused = set(m.unpack_ids("refused", reply.refused, round.config.clients).tolist())
    if not refused.issubset(members):
        raise MalformedMessage("a refusal of boxes that were not asked about")
    del state.asked[helper][reply.boxes]
    state.answers[helper, reply.boxes] = reply.refused
    for client in members:
        _settle(round, state, helper, client, client in refused)
    return frozenset(Accusation(helper, client) for client in refused)


def _settle(round: Round, state: Gathering, helper: int, client: int, refused: bool) -> None:
    """Note one helper's word about one member; take the vector in, or leave it out."""
    if refused:
        state.pending.pop(client, None)
    if client not in state.pending:
        return
    state.confirmed[client].add(helper)
    if len(state.confirmed[client]) == len(round.config.helper_ids):
        done = state.pending.pop(client)
        words.add(state.total, done.vector)
        state.summed[client] = done.record, done.ciphertexts


def is_silent(state: Gathering, helper: int) -> bool:
    """Tell whether a helper was shown a box and has not said whether it fits."""
    shown = state.shown.get(helper, set())
    return any(client in shown and helper not in state.confirmed[client] for client in state.pending)


def close_mask(round: Round, state: Gathering, kept: Iterable[int]) -> tuple[Asking, Requests]:
    """Settle V3, the members that every helper has confirmed, and ask each helper for the sum of its masks."""
    left, least = len(state.summed), round.config.min_survivors
    if left < least:
        check_helpers(round, (one for one in round.config.helper_ids if not is_silent(state, one)))
        raise TooFewClients(f"step mask: {left} with boxes that fit every helper, the round needs {least}")
    survivors = tuple(sorted(state.summed))
    requests, questions = {}, {}
    for place, helper in enumerate(round.config.helper_ids):
        parts = {client: (state.summed[client][0], state.summed[client][1][place]) for client in survivors}
        request = _boxes_request(round, state, helper, parts, m.UnmaskSumRequest)
        questions[helper], requests[helper] = question_digest(request, helper), request.encode()
    state.pending.clear()
    return Asking(total=state.total, survivors=survivors, questions=questions), requests


def take_sum(round: Round, state: Asking, helper: int, reply: m.UnmaskSumReply) -> None:
    """Step unmask: take a helper's masks off the sum."""
    m.check(reply, round.config)
    text = sum_text(round.context, helper, state.questions[helper], reply.tag)
    check_helper_signed(round, helper, reply.signature, text)
    np.subtract(state.total, words.from_bytes(reply.vector, round.config.bits), out=state.total)


def close_unmask(round: Round, state: Asking, kept: Iterable[int]) -> tuple[Opened, Requests]:
    """Return the sum if its check words fit."""
    check_helpers(round, kept)
    length = round.config.length
    total, found = state.total[:length], state.total[length:]
    if not np.array_equal(check_words.make(total, round.context, round.config.generator), found):
        raise CorruptSum(
            "the check words of the sum do not fit: a helper or a member has sent something else than it signed for, "
            "or runs another version"
        )
    return Opened(total=total, survivors=state.survivors), {}
