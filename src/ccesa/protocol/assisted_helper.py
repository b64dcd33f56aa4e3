"""A helper of the guard ``assisted``: it gives each round a key, and answers one question about it.

The server may lie. docs/security.md, "Helpers", has the rules. A request that breaks one is refused and changes
nothing. Before an answer leaves, the helper's memory has an entry for it, so that nothing is answered twice.
"""

import hmac
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ccesa import labels, words
from ccesa.agreement.charter import Charter, current_time
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS, vector_tag
from ccesa.errors import ConfigError, FaultyServer, MalformedMessage, TaskSpent
from ccesa.helper_keys import HelperKey, HelperKeys
from ccesa.memory import ANSWER, QUESTION, Entry, Memory
from ccesa.parts import check_type
from ccesa.protocol import messages as m
from ccesa.protocol.parties import OneCallAtATime, check_executor, check_round, check_threads
from ccesa.protocol.submission import (
    Binding,
    MaskKey,
    Record,
    boxes_digest,
    ciphertext_digest,
    confirmed_text,
    keys_text,
    question_digest,
    sum_text,
)
from ccesa.wire import Data
from ccesa.workers import add_masks_by

#: Of an X25519 private key.
_PRIVATE_BYTES = 32
#: A key ends so many seconds before members would refuse it: their clocks may be behind the helper's.
KEY_MARGIN = 3600


@dataclass(frozen=True, kw_only=True)
class HelperRound:
    """The things that stay the same through the steps of a helper."""

    config: RoundConfig
    context: bytes
    helper: int
    identity: Identity
    charter: Charter
    memory: Memory
    threads: int
    executor: Executor | None
    #: The keys of masks that were confirmed, by member: what they were confirmed for, and the key.
    confirmed: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> int:
        return self.helper - self.config.clients

    @property
    def head(self) -> dict[str, Any]:
        """Return the first fields of each of its messages."""
        return {"context": self.context, "client": self.helper}


@dataclass(frozen=True)
class Submitted:
    """A member's part of a request: its id, its record, and the ciphertext for this helper."""

    member: int
    record: bytes
    ciphertext: bytes

    @cached_property
    def content(self) -> bytes:
        """Return everything that a confirmation is about, but for the task and the keyring."""
        return labels.digest(self.record, self.ciphertext)


Round: TypeAlias = HelperRound


def new_key(round: Round, now: float, random: shamir.Randomness) -> HelperKey:
    """Return a fresh secret, which is gone an hour before ``key_days`` are over."""
    size = _PRIVATE_BYTES + AGREEMENTS[round.config.agreement].kem_seed_bytes
    return HelperKey(not_after=int(now) + round.charter.key_seconds - KEY_MARGIN, secret=random(size))


def show_keys(round: Round, key: HelperKey, request: m.HelperKeysRequest) -> m.HelperKeysReply:
    """Step key: show the public keys of this round, signed for it."""
    private, kem_seed = key.secret[:_PRIVATE_BYTES], key.secret[_PRIVATE_BYTES:]
    public = primitives.public_key(primitives.private_key(private))
    bundle = AGREEMENTS[round.config.agreement].bundle(public, b"", kem_seed)
    not_after = key.not_after.to_bytes(m.TIME_BYTES, "little")
    signature = round.identity.sign(keys_text(round.context, round.helper, not_after, bundle))
    return m.HelperKeysReply(**round.head, keys=bundle, not_after=not_after, signature=signature)


def confirm(round: Round, key: HelperKey, request: m.ConfirmBoxesRequest) -> m.ConfirmBoxesReply:
    """Step confirm: name the members whose boxes do not fit. It uses nothing up."""
    submitted = read_members(round, request)
    fitting = open_boxes(round, key, request, submitted)
    misfits = np.array([one.member for one in submitted if one.member not in fitting], np.int64)
    refused, boxes = m.pack_ids(misfits), boxes_digest(request, round.helper)
    signature = round.identity.sign(confirmed_text(round.context, round.helper, boxes, refused))
    return m.ConfirmBoxesReply(**round.head, boxes=boxes, refused=refused, signature=signature)


def unmask(round: Round, key: HelperKey, request: m.UnmaskSumRequest) -> m.UnmaskSumReply:
    """Step unmask: sum the masks over V3, once all of V3 fits and the memory has the question."""
    submitted = read_members(round, request)
    if len(submitted) < round.config.min_survivors:
        raise FaultyServer(f"{len(submitted)} clients in V3, the charter demands {round.config.min_survivors}")
    fitting = open_boxes(round, key, request, submitted)
    strangers = [one.member for one in submitted if one.member not in fitting]
    if strangers:
        raise FaultyServer(f"client {strangers[0]} is in V3, and its box does not fit")
    question = question_digest(request, round.helper)
    note_question(round, question, request.task)
    draft = m.draft(m.UnmaskSumReply, round.config, round.head)
    total = words.from_bytes(draft.content, round.config.bits)
    every = [masks.Mask(fitting[one.member], 1) for one in submitted]
    add_masks_by(round.executor, total, every, round.config.generator, round.threads)
    tag = vector_tag(draft.content, round.context, round.helper)
    signature = round.identity.sign(sum_text(round.context, round.helper, question, tag))
    fields: dict[str, Any] = {"tag": tag, "signature": signature, "vector": draft}
    return m.UnmaskSumReply(**round.head, **fields)


def read_members(round: Round, request: m.BoxesRequest) -> list[Submitted]:
    """Read the members of a request, each once, in ascending order."""
    config = round.config
    ids = m.unpack_ids("members", request.members, config.clients).tolist()
    size = m.record_bytes(config.agreement, len(config.helper_ids))
    records = m.items("records", request.records, len(ids), size)
    ciphertexts = m.items("ciphertexts", request.ciphertexts, len(ids), AGREEMENTS[config.agreement].ciphertext_bytes)
    return [Submitted(*one) for one in zip(ids, records, ciphertexts, strict=True)]


def open_boxes(round: Round, key: HelperKey, request: m.BoxesRequest, every: list[Submitted]) -> dict[int, bytes]:
    """Return the keys of the masks of these members, by id, without the members whose boxes do not fit."""
    about = request.task + request.keyring
    new = [one for one in every if round.confirmed.get(one.member, (b"",))[0] != about + one.content]
    binding = Binding(config=round.config, context=round.context, task=request.task, keyring=request.keyring)
    signed = [one for one in new if is_signed(round, binding, one)]
    for one, mask_key in zip(signed, agree_each(round, key, binding, signed), strict=True):
        record = Record.unpack(one.record, round.config)
        if hmac.compare_digest(mask_key.box, record.box(round.place)):
            round.confirmed[one.member] = about + one.content, mask_key.key
    fitting = {}
    for one in every:
        what, mask = round.confirmed.get(one.member, (b"", b""))
        if what == about + one.content:
            fitting[one.member] = mask
    return fitting


def is_signed(round: Round, binding: Binding, one: Submitted) -> bool:
    """Tell whether the member signed this. Nothing else is computed before, so a refusal reveals nothing about keys."""
    record = Record.unpack(one.record, round.config)
    text = binding.text(one.member, record.key, record.boxes, record.digests, record.tag)
    try:
        primitives.verify(round.charter.admission.key(one.member), record.signature, text)
        primitives.check_public_key(record.key)
    except (primitives.BadSignature, primitives.BadKey):
        return False
    return ciphertext_digest(one.ciphertext) == record.digest(round.place, round.config)


def agree_each(round: Round, key: HelperKey, binding: Binding, every: Sequence[Submitted]) -> list[MaskKey]:
    """Derive the keys of the masks of members that signed."""
    private = primitives.private_key(key.secret[:_PRIVATE_BYTES])
    one_time = [one.record[: primitives.PUBLIC_KEY_BYTES] for one in every]
    agreed = primitives.agree_each(private, one_time)
    texts = [one.ciphertext for one in every]
    secrets = AGREEMENTS[round.config.agreement].decapsulate_each(key.secret[_PRIVATE_BYTES:], texts) if every else []
    return [
        binding.mask_key(secret + kem, one.member, round.place, public, one.ciphertext)
        for one, public, secret, kem in zip(every, one_time, agreed, secrets, strict=True)
    ]


def note_question(round: Round, question: bytes, task: bytes) -> None:
    """Note that this question is answered in this round, and in no other round about its task; then it may be.

    With noise a task may come again, because every vector is charged for.
    """
    if any(one.key != round.context + question for one in round.memory.entries(QUESTION, round.context)):
        raise FaultyServer("this helper has answered another question about this round")
    name = round.charter.digest + task
    if round.charter.mechanism is None:
        _check_task(round, name)
    round.memory.add(Entry(QUESTION, round.context + question))
    round.memory.add(Entry(ANSWER, name + round.context))
    # Another process of this helper may have been at it.
    if sum(1 for _ in round.memory.entries(QUESTION, round.context)) != 1:
        raise FaultyServer("another process of this helper has answered another question about this round")
    if round.charter.mechanism is None:
        _check_task(round, name)


def _check_task(round: Round, name: bytes) -> None:
    if any(one.key != name + round.context for one in round.memory.entries(ANSWER, name)):
        raise TaskSpent(
            "this helper has answered about this task in another round: two sums over one task that differ by one "
            "client would give that client's vector away"
        )


class Helper:
    """One helper in one round with a server that may lie.

    It survives the loss of its process: another one that is made in the same way, with the same keys and memory,
    goes on. Calls must not overlap.

    Args:
        config: The round, as ``Charter.decode`` reads it.
        identity: This helper's own, whose key is among the charter's helpers.
        charter: This helper's own copy of the charter.
        memory: Remembers the questions that it answered: a ``FolderMemory``, which outlives processes.
        keys: Has the secrets of rounds until they are answered: ``FolderKeys``, without backups.
        threads: The most threads that sum masks; 0 stands for as many as help.
        executor: Its workers sum masks, too. They get mask keys, so they must be trusted like this helper.
        random: Returns n random bytes. Give another source than the system's only in tests.
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The charter has expired, the round differs from it, the identity is not among its helpers, or
            an argument is out of range.
    """

    def __init__(
        self,
        config: RoundConfig,
        identity: Identity,
        charter: Charter,
        *,
        memory: Memory,
        keys: HelperKeys,
        threads: int = 0,
        executor: Executor | None = None,
        random: shamir.Randomness = os.urandom,
        clock: Callable[[], float] = current_time,
    ) -> None:
        check_type("identity", identity, Identity, "; Identity.load(path) reads one")
        check_round(config, charter, clock())
        check_executor(executor)
        for name, value, kind, hint in (
            ("memory", memory, Memory, "FolderMemory"),
            ("keys", keys, HelperKeys, "FolderKeys"),
        ):
            if not isinstance(value, kind):
                raise ConfigError(f"{name}: expected a {hint}, got {type(value).__name__}")
        self._round = HelperRound(
            config=config,
            context=config.context,
            helper=charter.helper_id(identity.public),
            identity=identity,
            charter=charter,
            memory=memory,
            threads=check_threads(threads),
            executor=executor,
        )
        self._keys, self._random, self._clock = keys, random, clock
        self._exclusive = OneCallAtATime("helper")

    @property
    def helper(self) -> int:
        """The id of this helper in the round; it follows those of the members."""
        return self._round.helper

    @property
    def context(self) -> bytes:
        """The 32-byte hash of the configuration, which is in every message."""
        return self._round.context

    def receive(self, request: Data) -> bytes:
        """Return the reply to the server's request. The same question again gets the same reply.

        Args:
            request: Its size is in docs/protocol.md, section 19.

        Raises:
            FaultyServer: An honest server would not send this, or the key of this round has expired; nothing
                has changed.
            TaskSpent: This helper has answered about the task in another round; nothing has changed.
            ConfigError: The charter has expired, or the keys cannot be read.
            OrderError: Calls overlap.
            UsageError: The request is not bytes.
        """
        view = m.view_of(request, "request")
        with self._exclusive:
            try:
                return self._answer(view)
            except MalformedMessage as error:
                raise FaultyServer(str(error)) from error

    def leave(self) -> None:
        """Destroy the key of the round, or its answer: the round is over."""
        with self._exclusive.to_end():
            self._drop()

    def __reduce__(self) -> NoReturn:
        """Refuse pickles and copies, which would hold secrets."""
        raise TypeError("a Helper cannot be copied or pickled: make another one with the same keys and memory")

    def _answer(self, request: Data) -> bytes:
        round, kind = self._round, m.kind_of(request)
        if kind not in _STEPS:
            raise FaultyServer("a message that no helper answers")
        message: Any = m.check(m.decode(request, m.limit(kind, round.config)), round.config)
        if message.context != round.context:
            raise FaultyServer("a message of another round, or of another configuration")
        if message.client != round.helper:
            raise FaultyServer(f"expected a message for helper {round.helper}, got one for {message.client}")
        if int.from_bytes(message.number, "little") != round.config.number:
            raise FaultyServer("the request has another number than the round")
        key = self._key(message)
        if isinstance(message, m.UnmaskSumRequest) and key.answer:
            if key.question != question_digest(message, round.helper):
                raise FaultyServer("this helper has answered another question about this round")
            return key.answer
        if not key.secret:
            raise FaultyServer("this helper has answered in this round; its key is gone")
        reply = _STEPS[kind](round, key, message).encode()
        if isinstance(message, m.UnmaskSumRequest):
            question = question_digest(message, round.helper)
            self._keys.put(round.context, HelperKey(not_after=key.not_after, question=question, answer=reply))
            round.confirmed.clear()
        return reply

    def _key(self, message: m.Message) -> HelperKey:
        """Return the key of this round, while there is one; the request for keys makes it."""
        now, key = self._clock(), self._keys.get(self.context)
        self._round.charter.check_current(now)
        if key is not None and key.not_after <= now:
            self._drop()
            raise FaultyServer("the key of this helper for this round has expired")
        if key is None:
            if not isinstance(message, m.HelperKeysRequest):
                raise FaultyServer(
                    "this helper has no key for this round: it was never asked for one, or the round is over"
                )
            if any(True for _ in self._round.memory.entries(QUESTION, self.context)):
                raise FaultyServer("this helper has answered in this round; its key is gone")
            self._round.confirmed.clear()  # another process may have dropped the key that they belong to
            self._keys.sweep(now)
            key = new_key(self._round, now, self._random)
            self._keys.put(self.context, key)
        return key

    def _drop(self) -> None:
        self._keys.drop(self.context)
        self._round.confirmed.clear()


#: Requests that a helper answers, at any time: its memory prevents second answers.
_STEPS: dict[type[m.Message], Callable[..., m.Message]] = {
    m.HelperKeysRequest: show_keys,
    m.ConfirmBoxesRequest: confirm,
    m.UnmaskSumRequest: unmask,
}
