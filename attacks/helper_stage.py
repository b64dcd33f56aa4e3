"""Where attacks on rounds with helpers take place: real members and real helpers.

The hub is the attacker. It has no server: it says to each party what it likes, and notes what each refuses.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from attacks.base import Outcome, Tell
from attacks.relaxed import relaxed
from attacks.stage import LENGTH, inputs, names, opened
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import masks, primitives
from ccesa.crypto.keys import AGREEMENTS, vector_tag
from ccesa.errors import CcesaError
from ccesa.helper_keys import HelperKeys, ProcessKeys
from ccesa.memory import Memory, ProcessMemory
from ccesa.protocol import assisted_helper
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.submission import Binding, Record, ciphertext_digest, keyring_of
from ccesa.simulate.enrolment import Enrolment, federate, fresh_account
from ccesa.words import Vector

MEMBERS, HELPERS, VICTIM = 6, 3, 2
TASK = bytes(range(32))
_STEPS = assisted_helper._STEPS  # noqa: SLF001
_ANSWER: Any = Helper._answer  # noqa: SLF001

Asking = type[m.ConfirmBoxesRequest] | type[m.UnmaskSumRequest]


def answering(kind: type[m.Message], answer: Callable[..., m.Message]) -> Any:
    """Return what a helper does with a request, with another function for requests of this kind."""
    return relaxed(_ANSWER, _STEPS={**_STEPS, kind: answer})


class Home(NamedTuple):
    """What outlives a helper's process."""

    keys: HelperKeys
    memory: Memory


def new_home() -> Home:
    return Home(ProcessKeys(), ProcessMemory())


class Sent(NamedTuple):
    """What a member sent, as the hub keeps it."""

    record: bytes
    ciphertexts: list[bytes]
    vector: Vector

    def __repr__(self) -> str:
        return "Sent(...)"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Everyone, and what they keep from one round to the next."""

    federation: Enrolment
    member: type[ActiveClient] = ActiveClient
    helper: type[Helper] = Helper
    #: By member, and by place of a helper.
    memories: Mapping[int, Memory] = field(default_factory=dict)
    homes: Sequence[Home] = ()
    #: What members and helpers draw, if that repeats itself.
    random: Callable[[int], Callable[[int], bytes]] | None = None


def cast(
    *,
    members: int = MEMBERS,
    helpers: int = HELPERS,
    member: type[ActiveClient] = ActiveClient,
    helper: type[Helper] = Helper,
    federation: Enrolment | None = None,
    homes: Sequence[Home] | None = None,
    random: Callable[[int], Callable[[int], bytes]] | None = None,
    **agreed: Any,
) -> Cast:
    """Return a new federation with everything that its people keep."""
    return Cast(
        federation=federation or federate(members, helpers=helpers, **agreed),
        member=member,
        helper=helper,
        memories={i: ProcessMemory() for i in range(members)},
        homes=homes or [new_home() for _ in range(helpers)],
        random=random,
    )


class AssistedRound:
    """One round, message by message, in the hands of the hub."""

    def __init__(
        self,
        cast: Cast,
        tell: Tell,
        *,
        vectors: Mapping[int, Vector] | None = None,
        number: int = 0,
        task: bytes = TASK,
    ) -> None:
        self.cast, self.tell, self.task = cast, tell, task
        self.charter = cast.federation.charter
        self.config: RoundConfig = self.charter.config(length=LENGTH, series_id=bytes(32), number=number)
        self.context = self.config.context
        self.vectors = dict(vectors or inputs(self.config))
        self.members: dict[int, Client | Helper] = {
            i: cast.member(
                self.config,
                identity,
                self.charter,
                self.vectors[i],
                tasks=cast.memories[i],
                task=task,
                account=fresh_account(self.charter),
                random=self._drawn(i),
            )
            for i, identity in enumerate(cast.federation.identities)
        }
        self.helpers: dict[int, Client | Helper] = {
            helper: self.new_helper(place) for place, helper in enumerate(self.config.helper_ids)
        }
        self.shown: list[m.HelperKeysReply] = []
        #: What members have sent.
        self.replies: dict[int, m.BoxedMaskReply] = {}
        self.sent: dict[int, Sent] = {}
        self.refused: dict[int, str] = {}

    def _drawn(self, party: int) -> Callable[[int], bytes]:
        return os.urandom if self.cast.random is None else self.cast.random(party)

    def new_helper(self, place: int, home: Home | None = None) -> Helper:
        """Make a helper, as after a restart."""
        kept, identity = home or self.cast.homes[place], self.cast.federation.helpers[place]
        random = self._drawn(self.config.clients + place)
        made = self.cast.helper
        return made(self.config, identity, self.charter, keys=kept.keys, memory=kept.memory, random=random)

    def ask(self, party: int, request: m.Message) -> Any:
        """Return what a party answers; None if it refuses."""
        who = self.helpers[party] if party in self.helpers else self.members[party]
        try:
            reply = who.receive(request.encode())
        except CcesaError as error:
            self.refused[party] = str(error)
            self.tell(f"  {self.name(party)} refuses: {error}")
            return None
        return m.decode(reply, len(reply))

    def name(self, party: int) -> str:
        return f"helper {party - self.config.clients}" if party in self.helpers else f"client {party}"

    @property
    def _number(self) -> bytes:
        return self.config.number.to_bytes(m.NUMBER_BYTES, "little")

    def ask_keys(self) -> "AssistedRound":
        """Get the keys of all helpers."""
        for helper in self.helpers:
            reply = self.ask(helper, m.HelperKeysRequest(context=self.context, client=helper, number=self._number))
            self.shown.append(reply)
        return self

    def mask_request(self, member: int, shown: Sequence[m.HelperKeysReply]) -> m.MaskForHelpersRequest:
        """Return the request for a vector under these keys."""
        return m.MaskForHelpersRequest(
            context=self.context,
            client=member,
            number=self._number,
            keys=b"".join(one.keys for one in shown),
            not_after=b"".join(one.not_after for one in shown),
            signatures=b"".join(one.signature for one in shown),
            task=self.task,
        )

    def ask_vectors(self, members: Collection[int] | None = None) -> "AssistedRound":
        """Get the masked vectors of these members; of all by default."""
        for member in self.members if members is None else members:
            reply = self.ask(member, self.mask_request(member, self.shown))
            if reply is not None:
                self.replies[member], self.sent[member] = reply, self.keep(reply)
        return self

    def keep(self, reply: m.BoxedMaskReply) -> Sent:
        """Cut what a member sent into the parts that go to helpers, and the vector."""
        texts = m.each_helper(reply, "ciphertexts", self.config)
        digests = b"".join(map(ciphertext_digest, texts))
        record = Record(key=reply.key, boxes=reply.boxes, digests=digests, tag=reply.tag, signature=reply.signature)
        return Sent(record.pack(), texts, words.from_bytes(reply.vector, self.config.bits))

    @property
    def keyring(self) -> bytes:
        return keyring_of(self.context, [one.keys for one in self.shown])

    @property
    def binding(self) -> Binding:
        return Binding(config=self.config, context=self.context, task=self.task, keyring=self.keyring)

    def request(self, kind: Asking, helper: int, members: Sequence[int], **changed: Any) -> m.BoxesRequest:
        """Return a request about these members."""
        place, every = helper - self.config.clients, [self.sent[member] for member in members]
        fields: dict[str, Any] = {
            "context": self.context,
            "client": helper,
            "number": self._number,
            "task": self.task,
            "keyring": self.keyring,
            "members": m.pack_ids(np.array(members, np.int64)),
            "records": b"".join(one.record for one in every),
            "ciphertexts": b"".join(one.ciphertexts[place] for one in every),
        }
        return kind(**fields | changed)

    def misfits(self, helper: int, members: Sequence[int]) -> list[int]:
        """Return the members whose boxes do not fit, as a helper says."""
        reply = self.ask(helper, self.request(m.ConfirmBoxesRequest, helper, members))
        return m.unpack_ids("refused", reply.refused, self.config.clients).tolist()

    def sum_of_masks(self, helper: int, members: Sequence[int], **changed: Any) -> Vector | None:
        """Ask a helper for the sum of its masks of these members; None if it refuses."""
        reply = self.ask(helper, self.request(m.UnmaskSumRequest, helper, members, **changed))
        return None if reply is None else words.from_bytes(reply.vector, self.config.bits)

    def open_sum(self, members: Sequence[int], **changed: Any) -> Vector | None:
        """Ask all helpers about these members, and take their masks off; None if one refuses."""
        sums = [self.sum_of_masks(helper, members, **changed) for helper in self.helpers]
        every = [one for one in sums if one is not None]
        return self.without(members, every) if len(every) == len(sums) else None

    def without(self, members: Collection[int], sums: Sequence[Vector]) -> Vector:
        """Take sums of masks off the sum of what these members sent."""
        total = words.zeros(self.config.masked_length, self.config.bits)
        for member in members:
            total += self.sent[member].vector
        for one in sums:
            total -= one
        return total[: self.config.length]

    def stream(self, key: bytes) -> Vector:
        """Return the mask under a key."""
        mask = words.zeros(self.config.masked_length, self.config.bits)
        masks.add_masks(mask, [masks.Mask(key, 1)], self.config.generator)
        return mask

    def mask_by_secret(self, member: int, place: int, secret: bytes, *, kem: bool = True) -> Vector | None:
        """Return the mask of a member for a helper whose secret is known; None if its box does not fit.

        Without ``kem`` only the part of X25519 is known.
        """
        sent, agreement = self.sent[member], AGREEMENTS[self.config.agreement]
        record = Record.unpack(sent.record, self.config)
        (agreed,) = primitives.agree_each(primitives.private_key(secret[:32]), [record.key])
        (encapsulated,) = agreement.decapsulate_each(secret[32:], [sent.ciphertexts[place]]) if kem else (b"",)
        found = self.binding.mask_key(agreed + encapsulated, member, place, record.key, sent.ciphertexts[place])
        return self.stream(found.key) if found.box == record.box(place) else None

    def secret(self, place: int) -> bytes:
        """Return the secret of a helper that works with the hub, or whose disk was seized; empty if it is gone."""
        kept = self.cast.homes[place].keys.get(self.context)
        return b"" if kept is None else kept.secret

    def submit(self, member: int, identity: Identity, sent: m.BoxedMaskReply) -> m.BoxedMaskReply:
        """Return what a member sent, with the tag that belongs to its vector, signed by this identity."""
        tag = vector_tag(sent.vector, self.context, member)
        digests = self.binding.digests(m.each_helper(sent, "ciphertexts", self.config))
        text = self.binding.text(member, sent.key, sent.boxes, digests, tag)
        return msgspec.structs.replace(sent, tag=tag, signature=identity.sign(text))

    def make_up(self, member: int, identity: Identity) -> m.BoxedMaskReply:
        """Return a vector of zeros in the name of a member, signed by this identity."""
        private = primitives.private_key(os.urandom(32))
        key, bundles = primitives.public_key(private), [one.keys for one in self.shown]
        agreed = primitives.agree_each(private, [bundle[: primitives.PUBLIC_KEY_BYTES] for bundle in bundles])
        found = [self.binding.mask_key(one, member, place, key, b"") for place, one in enumerate(agreed)]
        masked = sum((self.stream(one.key) for one in found), words.zeros(self.config.masked_length, self.config.bits))
        sent = m.BoxedMaskReply(
            context=self.context,
            client=member,
            key=key,
            boxes=b"".join(one.box for one in found),
            ciphertexts=b"",
            tag=b"",
            signature=b"",
            vector=memoryview(masked.tobytes()),
        )
        return self.submit(member, identity, sent)

    def expected(self, group: Collection[int]) -> Vector:
        """Return the plain sum of what these members put in."""
        total = words.zeros(self.config.length, self.config.bits)
        for member in group:
            total += self.vectors[member]
        return total

    def others(self, *without: int) -> list[int]:
        return [member for member in self.members if member not in without]

    def held(self, why: str) -> Outcome:
        """The end of an attack that found nothing."""
        return Outcome(succeeded=False, summary=why, victim=self.vectors[VICTIM])

    def stolen(self, found: Vector, how: str) -> Outcome:
        """The end of an attack that found something: stolen only if it is exactly what the victim has."""
        return opened(found, self.vectors[VICTIM], f"{how}: the hub computed what {names([VICTIM])} sent")

    def first_refusal(self) -> str:
        party, why = next(iter(self.refused.items()))
        return f"{self.name(party)} refuses: {why}"
