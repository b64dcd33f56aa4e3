"""refused_assisted.json, and assisted_hybrid.json: what members, helpers and servers refuse with helpers."""

from dataclasses import dataclass
from typing import Any

import msgspec

from cases import assisted_rounds
from cases.assisted_parties import DAY, HelperParty, Scene
from cases.assisted_rounds import HYBRID_DESCRIPTION, NOW, RANDOMNESS, AssistedPlan, plan_of
from cases.common import Case, sample
from cases.hybrid import repeated
from cases.parties import Party, Steps, changed, everywhere, flipped, outcome, packed
from cases.refused import joined, tried
from cases.refused_assisted_replies import replies
from cases.refused_helpers import hybrid_boxes
from cases.signatures import neutral_signature
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.submission import keys_text

DESCRIPTION = (
    "Members and servers under the guard assisted. parties, exchanges and joining: in the form of "
    "refused.json; a party that helps is a helper. replies: what a server refuses in the named round of "
    "assisted_round.json: feed it so many exchanges of the round (after), ask for what it asks of helpers beside "
    "the next one, then feed it this reply as from the named sender. waiting: whether the server still waits "
    "for the sender's own reply."
)


def make() -> Case:
    return {**tried(DESCRIPTION, member_parties()), "joining": joining(), "replies": replies()}


@repeated
def make_hybrid() -> Case:
    """Give the rounds with the hybrid agreement, and what its members and helpers refuse."""
    parties = hybrid_parties()
    return {**assisted_rounds.make_hybrid(), **tried(HYBRID_DESCRIPTION, parties), "randomness": RANDOMNESS}


# Members


def member_parties() -> list[Party]:
    plan = plan_of("asked", 5, length=3, bits=8, also=1, number=7, key_days=2)
    party = Scene(plan).party("member", 1)
    everywhere(party)
    good = party.request(0)
    number = {"the next one": packed(8), "of 3 bytes": bytes(3), "of 5 bytes": packed(7) + b"\x00", "empty": b""}
    party.tries(0, {f"number {reason}": changed(good, number=one) for reason, one in number.items()})
    tasks = {"another": flipped(good.task), "none": bytes(32), "of 31 bytes": good.task[:-1], "empty": b""}
    party.tries(0, {f"task: {reason}": changed(good, task=one) for reason, one in tasks.items()})
    party.tries(0, _wrong_sizes(good))
    party.tries(0, _wrong_keys(Bundles(plan, good)))
    return [party, _remembering()]


def hybrid_parties() -> list[Party]:
    """Try what is different with the hybrid agreement."""
    plan = plan_of("asked", 3, 2, length=3, bits=8, key_days=2, agreement="x25519-mlkem768")
    scene = Scene(plan)
    party, helper = scene.party("member, hybrid", 1), HelperParty.of("helper, hybrid", scene, 4)
    good = party.request(0)
    bundles, keys = Bundles(plan, good), Bundles(plan, good).keys
    party.tries(
        0,
        {
            "the key of another helper": bundles.signed(1, key=keys[0]),
            "the X25519 key of another helper": bundles.signed(0, key=keys[1][:32] + keys[0][32:]),
            "the ML-KEM key of another helper": bundles.signed(0, key=keys[0][:32] + keys[1][32:]),
            "a key that is none of ML-KEM": bundles.signed(1, key=keys[1][:32] + b"\xff\xff" + keys[1][34:]),
            "a key of low order": bundles.signed(1, key=bytes(32) + keys[1][32:]),
            "keys without those of ML-KEM": changed(good, keys=b"".join(key[:32] for key in keys)),
            "a key with one wrong bit": bundles.shown(1, key=flipped(keys[1], 40)),
            "answered, and the same again": [party.history[0][0], party.history[0][0]],
        },
    )
    hybrid_boxes(helper)
    return [party, helper]


def _wrong_sizes(good: Any) -> dict[str, Steps]:
    size = len(good.keys) // 3
    return {
        "a key a byte short": changed(good, keys=good.keys[:-1]),
        "a key a byte long": changed(good, keys=good.keys + b"\x00"),
        "keys of two helpers": changed(good, keys=good.keys[:-size]),
        "keys of four helpers": changed(good, keys=good.keys + good.keys[:size]),
        "no keys": changed(good, keys=b""),
        "times of two helpers": changed(good, not_after=good.not_after[:-8]),
        "a time a byte long": changed(good, not_after=good.not_after + b"\x00"),
        "signatures of two helpers": changed(good, signatures=good.signatures[:-64]),
        "a signature a byte long": changed(good, signatures=good.signatures + b"\x00"),
        "everything of two helpers": changed(
            good, keys=good.keys[:-size], not_after=good.not_after[:-8], signatures=good.signatures[:-64]
        ),
    }


@dataclass(frozen=True)
class Bundles:
    """What a member is shown of its helpers, with one of them in another form."""

    plan: AssistedPlan
    good: m.MaskForHelpersRequest

    @property
    def keys(self) -> list[bytes]:
        return self._cut(self.good.keys)

    @property
    def times(self) -> list[int]:
        return [int.from_bytes(one, "little") for one in self._cut(self.good.not_after)]

    @property
    def signatures(self) -> list[bytes]:
        return self._cut(self.good.signatures)

    def _cut(self, data: bytes) -> list[bytes]:
        size = len(data) // len(self.plan.agreed.helper_seats)
        return [data[place : place + size] for place in range(0, len(data), size)]

    def text(self, place: int, key: bytes, time: int, context: bytes | None = None) -> bytes:
        given = context or self.plan.config.context, self.plan.config.clients + place
        return keys_text(*given, time.to_bytes(8, "little"), key)

    def with_text(self, place: int, text: bytes, identity: Identity | None = None, **shown: Any) -> bytes:
        """Show the signature of this text for a helper."""
        signature = (identity or self.plan.identity(self.plan.config.clients + place)).sign(text)
        return self.shown(place, signature=signature, **shown)

    def shown(
        self, place: int, key: bytes | None = None, time: int | None = None, signature: bytes | None = None
    ) -> bytes:
        keys, times, signatures = self.keys, self.times, self.signatures
        keys[place], times[place] = key or keys[place], times[place] if time is None else time
        signatures[place] = signature or signatures[place]
        return changed(
            self.good,
            keys=b"".join(keys),
            not_after=b"".join(one.to_bytes(8, "little") for one in times),
            signatures=b"".join(signatures),
        )

    def signed(self, place: int, key: bytes | None = None, time: int | None = None) -> bytes:
        """Show another key or time, which the helper itself has signed."""
        key, time = key or self.keys[place], self.times[place] if time is None else time
        return self.with_text(place, self.text(place, key, time), key=key, time=time)

    def swapped(self) -> bytes:
        return changed(
            self.good,
            keys=b"".join(reversed(self.keys)),
            not_after=b"".join(one.to_bytes(8, "little") for one in reversed(self.times)),
            signatures=b"".join(reversed(self.signatures)),
        )


def _wrong_keys(bundles: Bundles) -> dict[str, Steps]:
    plan, keys, times = bundles.plan, bundles.keys, bundles.times
    hub = Identity(sample("a hub"))
    own = primitives.public_key(primitives.private_key(sample("a key of the hub"))) + keys[1][32:]
    text, last = bundles.text(1, keys[1], times[1]), NOW + 2 * DAY
    return {
        "a key of the hub in a helper's place": bundles.shown(1, key=own),
        "a key of the hub in a helper's place, signed by the hub": bundles.with_text(
            1, bundles.text(1, own, times[1]), hub, key=own
        ),
        "a key of the hub, signed by the helper in another place": bundles.with_text(
            1, bundles.text(1, own, times[1]), plan.identity(plan.config.clients + 2), key=own
        ),
        "a key of the hub, signed by a member": bundles.with_text(
            1, bundles.text(1, own, times[1]), plan.identity(3), key=own
        ),
        "a key signed for another place": bundles.with_text(1, bundles.text(2, keys[1], times[1])),
        "a key signed for another round": bundles.with_text(
            1, bundles.text(1, keys[1], times[1], sample("another context"))
        ),
        "a key signed for another time": bundles.with_text(1, bundles.text(1, keys[1], times[1] - 1)),
        "another time than the signed one": bundles.shown(1, time=times[1] - 1),
        "a signature with one wrong bit": bundles.shown(1, signature=flipped(bundles.signatures[1])),
        "the last signature with one wrong bit": bundles.shown(2, signature=flipped(bundles.signatures[2])),
        "an R of small order": bundles.shown(
            1, signature=neutral_signature(plan.identity(plan.config.clients + 1).seed, text)
        ),
        "all helpers in another order": bundles.swapped(),
        "gone now": bundles.signed(1, time=NOW),
        "gone a second ago": bundles.signed(2, time=NOW - 1),
        "gone in 1970": bundles.signed(0, time=0),
        "gone in a second, as late as it may be": bundles.signed(1, time=NOW + 1),
        "the longest time": bundles.signed(1, time=last),
        "a second more than the longest time": bundles.signed(1, time=last + 1),
        "a second more than the longest time, the last helper": bundles.signed(2, time=last + 1),
        "for ever": bundles.signed(0, time=2**64 - 1),
        "the key of another helper": bundles.signed(1, key=keys[2]),
        "the X25519 key of another helper": bundles.signed(0, key=keys[2][:32] + keys[0][32:]),
        "a key of low order": bundles.signed(1, key=bytes(32) + keys[1][32:]),
        "another key of low order, of the last helper": bundles.signed(2, key=b"\x01" + bytes(31) + keys[1][32:]),
        "a key that is not reduced": bundles.signed(1, key=b"\xff" * 31 + b"\x7f" + keys[1][32:]),
        "the highest bit of a key": bundles.signed(1, key=keys[1][:31] + bytes([keys[1][31] | 0x80]) + keys[1][32:]),
    }


def _remembering() -> Party:
    """Make a member that remembers tasks under the charter's name of the series."""
    plan = plan_of("remembering helpers", 4, 2, length=2, bits=8, number=7, attempts=3)
    config, task = plan.config, plan.task
    party = Scene(plan).party("member, remembering", 0, memory=[])
    request = party.history[0][0]
    series = plan.agreed.digest + config.series_id

    def of(number: int, series: bytes = series, task: bytes = task, about: str = "vector") -> Case:
        return {"about": about, "task": task, "series_id": series, "number": number}

    spent = [of(number) for number in (4, 5, 6)]
    sent = {"about": "sent", "context": config.context}
    other = bytes([7] * 32)
    party.tries(
        0,
        {
            "spent, and given back": [(request, spent), request, (request, [])],
            "one attempt is left": [(request, spent[1:])],
            "a vector in another series of this charter": (request, [of(0, plan.agreed.digest + other)]),
            "a vector in the series of this id, under another charter": (request, [of(0, other + config.series_id)]),
            "a vector in the series of this id, under another guard": (request, [of(0, config.series_id)]),
            "a vector in a higher round": (request, [of(8)]),
            "a vector in a round of the same number": (request, [of(7)]),
            "a vector in a lower round, and another task": [(request, [of(6), of(9, other, other)])],
            "a vector that was counted in no series": (request, [{"about": "counted", "task": task}]),
            "a vector has left in this context": [(request, [sent]), (request, [])],
            "another task comes before one that is spent": (changed(party.request(0), task=bytes(32)), spent),
            "keys that are gone come before a task that is spent": (_gone(plan, party.request(0)), spent),
        },
    )
    return party


def _gone(plan: AssistedPlan, good: m.MaskForHelpersRequest) -> bytes:
    keys, times = good.keys[:32], NOW.to_bytes(8, "little")
    text = keys_text(plan.config.context, plan.config.clients, times, keys)
    signature = plan.identity(plan.config.clients).sign(text)
    return changed(good, not_after=times + good.not_after[8:], signatures=signature + good.signatures[64:])


# Before the first request


def joining() -> list[Case]:
    scene = Scene(plan_of("joining helpers", 4, 2, length=3, bits=8, also=1))
    plan, expires = scene.plan, scene.plan.agreed.expires
    member, helper = scene.entry(1), scene.entry(5)
    other = plan_of("another federation", 4, 2, length=3, bits=8).config.encode()
    values = msgspec.msgpack.decode(plan.config.encode())
    accepting = msgspec.msgpack.encode({**values, "accept": True})
    cases: dict[str, Case] = {"member": member, "helper": helper, "a member as helper": scene.entry(4)}
    for name, party in (("member", member), ("helper", helper)):
        cases |= {
            f"{name}, the second before the charter expires": {**party, "now": expires - 1},
            f"{name}, the second in which the charter expires": {**party, "now": expires},
            f"{name}, nobody of the charter": {**party, "identity": sample("a stranger")},
            f"{name}, another charter": {**party, "config": other},
            f"{name}, a round with accept": {**party, "config": accepting},
            f"{name}, not a configuration": {**party, "config": b"\x80"},
        }
    cases |= {
        "member, whose identity helps only": {**member, "identity": plan.identity(5).seed},
        "helper, whose identity is a member's only": {**helper, "identity": plan.identity(1).seed},
        "member, a vector of one word too few": {**member, "vector": bytes(2)},
        "member, a vector with room for check words": {**member, "vector": bytes(11)},
        "member, a task of 31 bytes": {**member, "task": bytes(31)},
        "member, a round that was used": {**member, "used_rounds": [plan.config.round_id]},
        "member, a memory of tasks": {**member, "memory": []},
        "member, a memory of tasks, and no task": {**member, "task": bytes(32), "memory": []},
    }
    return [_joined(reason, case) for reason, case in cases.items()]


def _joined(reason: str, entry: Case) -> Case:
    if not entry.get("helps"):
        return joined(reason, entry)

    def attempt() -> bytes:
        charter = Charter.parse(entry["charter"])
        config, now = charter.decode(entry["config"]), entry["now"]
        identity, memory = Identity(entry["identity"]), ProcessMemory()
        Helper(config, identity, charter, memory=memory, keys=ProcessKeys(), clock=lambda: now)
        return b""

    found = outcome(attempt)
    return {"reason": reason, **entry, **({"error": found["error"]} if "error" in found else {})}
