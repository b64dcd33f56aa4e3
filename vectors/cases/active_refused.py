"""active_refused.json: requests that make a client abort, and replies that a server refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from cases.active_rounds import ActivePlan, client, plans_with_sum, play
from cases.common import Case, sample
from cases.roster import pack
from ccesa.crypto import merkle
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.server import Server
from ccesa.wire import Data

DESCRIPTION = (
    "What a lying server and faulty clients send, in the first round of active_round.json. requests: feed "
    "the client all its requests of that round before the named step, then this one: it must abort with "
    "the named error. Step done is after the last one. complaints: the same in step mask, which it answers "
    "with the given complaint instead of a vector. replies: feed the server all replies of that round before "
    "the named step, then this one in place of the client's own: it must refuse it with the named error, "
    "name the client, and still take the right one. Where somebody must have signed a lie, a colluder did."
)
#: The one that is lied to: it stays to the end.
VICTIM = 0
_Keys = dict[int, tuple[bytes, bytes]]


def make() -> Case:
    scene = Scene(plans_with_sum()[0])
    return {
        "description": DESCRIPTION,
        "round": scene.plan.name,
        "client": VICTIM,
        "requests": [
            _bad_request(scene, step, reason, request)
            for step, wrong in (
                ("share", {**_wrong_sets(scene), **_wrong_keys(scene), **_wrong_rosters(scene)}),
                ("mask", _wrong_v2(scene)),
                ("confirm", _wrong_v3(scene)),
                ("unmask", {**_wrong_signatures(scene), **_second_requests(scene)}),
                ("done", _after_the_end(scene)),
            )
            for reason, request in wrong.items()
        ],
        "complaints": [_complaint(scene, *case) for case in _garbled(scene).items()],
        "replies": [
            _bad_reply(scene, step, reason, reply)
            for step, wrong in _wrong_replies(scene).items()
            for reason, reply in wrong.items()
        ],
    }


@dataclass(frozen=True)
class Scene:
    """A round that went well, and what its parties know of it."""

    plan: ActivePlan

    @cached_property
    def played(self) -> Case:
        return play(self.plan)

    @property
    def context(self) -> bytes:
        return self.plan.config.context

    def exchanges(self, step: str) -> dict[int, Case]:
        (found,) = [part for part in self.played["steps"] if part["step"] == step]
        return {exchange["client"]: exchange for exchange in found["exchanges"]}

    def request(self, step: str, number: int = VICTIM) -> Any:
        return _read(self.exchanges(step)[number]["request"])

    def reply(self, step: str, number: int = VICTIM) -> Any:
        return _read(self.exchanges(step)[number]["reply"])

    def answered(self, step: str) -> list[int]:
        return [number for number, each in self.exchanges(step).items() if each["reply"] is not None]

    @cached_property
    def bundles(self) -> _Keys:
        replies = {number: self.reply("advertise", number) for number in self.answered("advertise")}
        return {i: (reply.keys, reply.signature) for i, reply in replies.items()}

    @cached_property
    def neighbours(self) -> list[int]:
        """Of the victim."""
        return derived(self.plan, self.bundles, VICTIM)

    def pack(self, members: list[int]) -> bytes:
        return pack(self.plan.config.clients, tuple(members))

    def signed(self, number: int, keys: bytes) -> tuple[bytes, bytes]:
        return keys, self.plan.identity(number).sign(signed_texts.bundle_text(self.context, number, keys))


def _read(data: bytes) -> m.Message:
    return m.decode(data, len(data))


def _changed(message: m.Message, **changes: Any) -> bytes:
    return msgspec.structs.replace(message, **changes).encode()


def _flipped(data: Data, place: int = 0) -> bytes:
    return bytes([*data[:place], data[place] ^ 1, *data[place + 1 :]])


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[first : first + size] for first in range(0, len(data), size)]


def _swapped(data: bytes, size: int, one: int = 0, other: int = 1) -> bytes:
    items = _cut(data, size)
    items[one], items[other] = items[other], items[one]
    return b"".join(items)


# What is committed to, for any keys


def _committed(plan: ActivePlan, bundles: _Keys) -> tuple[list[merkle.Hashes], bytes, bytes]:
    leaves = [signed_texts.leaf(plan.config.context, i, keys) for i, (keys, _) in sorted(bundles.items())]
    tree, v1 = merkle.levels(leaves), pack(plan.config.clients, tuple(sorted(bundles)))
    return tree, v1, signed_texts.root(plan.config.context, v1, tree[-1].tobytes())


def derived(plan: ActivePlan, bundles: _Keys, number: int) -> list[int]:
    """The neighbours that a committed roster gives to a client."""
    ids = sorted(bundles)
    seed = signed_texts.seed(plan.config.context, _committed(plan, bundles)[2])
    nodes = plan.config.graph.neighbours(seed, np.array(ids), ids.index(number))
    return [ids[node] for node in nodes.tolist()]


def introduction(plan: ActivePlan, bundles: _Keys, number: int) -> bytes:
    """The request of step 1 that fits these bundles."""
    tree, v1, root = _committed(plan, bundles)
    near = derived(plan, bundles, number)
    places = np.searchsorted(sorted(bundles), sorted([*near, number]))
    return m.RosterRequest(
        context=plan.config.context,
        client=number,
        v1=v1,
        root=root,
        keys=b"".join(bundles[j][0] for j in near),
        signatures=b"".join(bundles[j][1] for j in near),
        proof=merkle.prove(tree, places),
    ).encode()


# Step 1


def _wrong_sets(scene: Scene) -> dict[str, bytes]:
    good = scene.request("share")
    v1, clients = sorted(scene.bundles), scene.plan.config.clients
    absent = next(i for i in range(clients) if i not in v1)
    few = {i: scene.bundles[i] for i in v1[:6]}
    fewer = {i: scene.bundles[i] for i in v1[:4]}
    return {
        "V1 a byte too short": _changed(good, v1=good.v1[:-1]),
        "V1 a byte too long": _changed(good, v1=good.v1 + b"\x00"),
        "V1 with a client that was never enrolled": _changed(good, v1=good.v1[:-1] + b"\x80"),
        "V1 without the client itself": _changed(good, v1=scene.pack([i for i in v1 if i != VICTIM])),
        "V1 with one member more than the root has": _changed(good, v1=scene.pack(sorted([*v1, absent]))),
        "V1 with one member fewer than the root has": _changed(good, v1=scene.pack(v1[:-1])),
        "V1 empty": _changed(good, v1=scene.pack([])),
        "a roster below the floor of seven, right in itself": introduction(scene.plan, few, VICTIM),
        "a roster below min_survivors, right in itself": introduction(scene.plan, fewer, VICTIM),
    }


def _wrong_keys(scene: Scene) -> dict[str, bytes]:
    good, near = scene.request("share"), scene.neighbours
    other = next(i for i in sorted(scene.bundles) if i not in (*near, VICTIM))
    keys, signatures = _cut(good.keys, 64), _cut(good.signatures, 64)
    resigned = scene.signed(near[0], sample("another bundle", 64))
    elsewhere = scene.plan.identity(near[0]).sign(signed_texts.bundle_text(bytes(32), near[0], keys[0]))
    by_another = scene.plan.identity(near[1]).sign(signed_texts.bundle_text(scene.context, near[0], keys[0]))
    switched = keys[0][32:] + keys[0][:32]
    stranger, signed = scene.bundles[other]
    return {
        "keys a byte too short": _changed(good, keys=good.keys[:-1]),
        "keys of one neighbour too few": _changed(good, keys=good.keys[:-64]),
        "signatures a byte too short": _changed(good, signatures=good.signatures[:-1]),
        "signatures of one neighbour too many": _changed(good, signatures=good.signatures + bytes(64)),
        "wrong signature: one bit": _changed(good, signatures=_flipped(good.signatures)),
        "wrong signature: the last one": _changed(
            good, signatures=_flipped(good.signatures, len(good.signatures) - 64)
        ),
        "wrong signature: two are swapped": _changed(good, signatures=_swapped(good.signatures, 64)),
        "wrong signature: for another round": _changed(good, signatures=b"".join([elsewhere, *signatures[1:]])),
        "wrong signature: by another identity": _changed(good, signatures=b"".join([by_another, *signatures[1:]])),
        "one bit of a key": _changed(good, keys=_flipped(good.keys)),
        "the two keys of a neighbour swapped": _changed(good, keys=b"".join([switched, *keys[1:]])),
        "two neighbours' keys swapped": _changed(good, keys=_swapped(good.keys, 64)),
        "two neighbours' keys and signatures swapped": _changed(
            good, keys=_swapped(good.keys, 64), signatures=_swapped(good.signatures, 64)
        ),
        "a neighbour that the root does not give": _changed(
            good, keys=b"".join([stranger, *keys[1:]]), signatures=b"".join([signed, *signatures[1:]])
        ),
        "other keys than the root has, signed": _changed(
            good, keys=b"".join([resigned[0], *keys[1:]]), signatures=b"".join([resigned[1], *signatures[1:]])
        ),
    }


def _wrong_rosters(scene: Scene) -> dict[str, bytes]:
    good = scene.request("share")
    own = scene.bundles[VICTIM][0]
    other_keys = {**scene.bundles, VICTIM: (sample("not its keys", 64), b"")}
    return {
        "wrong root: one bit": _changed(good, root=_flipped(good.root)),
        "root a byte too short": _changed(good, root=good.root[:-1]),
        "wrong root: of a roster with other keys of the client itself": introduction(scene.plan, other_keys, VICTIM),
        "wrong proof: one bit": _changed(good, proof=_flipped(good.proof)),
        "wrong proof: two hashes swapped": _changed(good, proof=_swapped(good.proof, 32)),
        "wrong proof: a hash too few": _changed(good, proof=good.proof[:-32]),
        "wrong proof: a hash too many": _changed(good, proof=good.proof + bytes(32)),
        "wrong proof: a byte too few": _changed(good, proof=good.proof[:-1]),
        "wrong proof: empty": _changed(good, proof=b""),
        "a colluder with the client's own key, right in itself": _colluding(scene, lambda keys: own[:32] + keys[32:]),
        "a colluder with one key in both places, right in itself": _colluding(
            scene, lambda keys: keys[:32] + keys[:32]
        ),
        "a colluder with a key of low order, right in itself": _colluding(scene, lambda keys: bytes(32) + keys[32:]),
    }


def _colluding(scene: Scene, change: Callable[[bytes], bytes]) -> bytes:
    """Somebody signs these keys and is a neighbour also under the root that has them."""
    for number in sorted(scene.bundles):
        bundles = {**scene.bundles, number: scene.signed(number, change(scene.bundles[number][0]))}
        if number != VICTIM and number in derived(scene.plan, bundles, VICTIM):
            return introduction(scene.plan, bundles, VICTIM)
    raise LookupError("no neighbour left")


# Step 2


def _wrong_v2(scene: Scene) -> dict[str, bytes]:
    good, v2, near = scene.request("mask"), scene.answered("share"), scene.neighbours
    absent = next(i for i in range(scene.plan.config.clients) if i not in scene.bundles)
    live = [j for j in near if j in v2]
    texts = dict(zip(live, _cut(good.sealed, 80), strict=True))
    promised = dict(zip(live, _cut(good.commitments, 32), strict=True))
    few = [i for i in v2 if i not in live[2:]]
    out = scene.pack([i for i in v2 if i != live[0]])
    return {
        "V2 not in V1": _changed(good, v2=scene.pack(sorted([*v2, absent]))),
        "V2 without the client itself": _changed(good, v2=scene.pack([i for i in v2 if i != VICTIM])),
        "V2 a byte too short": _changed(good, v2=good.v2[:-1]),
        "V2 with a client that was never enrolled": _changed(good, v2=good.v2[:-1] + b"\x80"),
        "V2 with fewer neighbours than the threshold needs": _changed(
            good,
            v2=scene.pack(few),
            commitments=b"".join(promised[j] for j in live[:2]),
            sealed=b"".join(texts[j] for j in live[:2]),
        ),
        "V2 without a neighbour whose text is there": _changed(good, v2=out),
        "V2 with a neighbour whose text is missing": _changed(good, sealed=good.sealed[:-80]),
        "V2 with a neighbour whose commitment is missing": _changed(good, commitments=good.commitments[:-32]),
        "the request of the guard curious": m.MaskAtOnceRequest(
            context=scene.context,
            client=VICTIM,
            dropped=b"",
            commitments=good.commitments,
            sealed=good.sealed,
            task=good.task,
        ).encode(),
        "the request of a round with accept": m.MaskAmongRequest(
            context=scene.context, client=VICTIM, v2=good.v2, task=good.task
        ).encode(),
    }


def _garbled(scene: Scene) -> dict[str, bytes]:
    """Texts that do not open: the client says whose, and sends no vector."""
    good, moved = scene.request("mask"), scene.request("mask", scene.neighbours[1])
    return {
        "a sealed text with one wrong bit": _changed(good, sealed=_flipped(good.sealed)),
        "two sealed texts swapped": _changed(good, sealed=_swapped(good.sealed, 80)),
        "a commitment with one wrong bit": _changed(good, commitments=_flipped(good.commitments)),
        "the sealed texts of somebody else": _changed(
            good, sealed=(moved.sealed + bytes(len(good.sealed)))[: len(good.sealed)]
        ),
    }


def _complaint(scene: Scene, reason: str, request: bytes) -> Case:
    party = client(scene.plan, VICTIM)
    for step in ("advertise", "share"):
        party.receive(scene.exchanges(step)[VICTIM]["request"])
    return {"reason": reason, "request": request, "reply": party.receive(request)}


# Step 2c


def _wrong_v3(scene: Scene) -> dict[str, bytes]:
    good, v2, v3 = scene.request("confirm"), scene.answered("share"), scene.answered("mask")
    near = [j for j in scene.neighbours if j in v3]
    absent = next(i for i in sorted(scene.bundles) if i not in v2)
    threshold = (len(scene.neighbours) + 1) // 2 + 1
    kept = sorted([VICTIM, *near[: threshold - 2], *(i for i in v3 if i not in (*near, VICTIM))])
    few = sorted([VICTIM, *near[: threshold - 1]])
    return {
        "V3 not in V2": _changed(good, v3=scene.pack(sorted([*v3, absent]))),
        "V3 without the client itself": _changed(good, v3=scene.pack([i for i in v3 if i != VICTIM])),
        "V3 a byte too long": _changed(good, v3=good.v3 + b"\x00"),
        "V3 with a client that was never enrolled": _changed(good, v3=good.v3[:-1] + b"\x80"),
        "V3 with fewer neighbours than the threshold needs": _changed(good, v3=scene.pack(kept)),
        "V3 of fewer than min_survivors": _changed(good, v3=scene.pack(few)),
        "shares asked for without a confirmation": m.UnmaskRequest(
            context=scene.context, client=VICTIM, dropped=b""
        ).encode(),
        "the request of step 3 before its time": scene.exchanges("unmask")[VICTIM]["request"],
    }


# Step 3


def _wrong_signatures(scene: Scene) -> dict[str, bytes]:
    good = scene.request("unmask")
    v2, v3 = scene.pack(scene.answered("share")), scene.answered("mask")
    near = [j for j in scene.neighbours if j in v3]
    root = _committed(scene.plan, scene.bundles)[2]
    task, other_task = scene.plan.task, sample("another task")
    masking = signed_texts.masking_text(scene.context, root, v2, task)
    threshold = (len(scene.neighbours) + 1) // 2 + 1
    fewer = [i for i in v3 if i != near[-1]]

    def signed(text: bytes) -> list[bytes]:
        return [scene.plan.identity(j).sign(text) for j in near]

    def shown(signatures: list[bytes], flags: list[bool]) -> bytes:
        return _changed(good, signatures=b"".join(signatures), confirmed=bytes(flags))

    all_masked, everyone = signed(masking), [True] * len(near)
    other_v3 = signed(signed_texts.confirmed_text(scene.context, root, v2, task, scene.pack(fewer)))
    other_v2 = signed(signed_texts.confirmed_text(scene.context, root, scene.pack(v3), task, scene.pack(v3)))
    other_root = signed(signed_texts.confirmed_text(scene.context, bytes(32), v2, task, scene.pack(v3)))
    right = signed(signed_texts.confirmed_text(scene.context, root, v2, task, scene.pack(v3)))
    worked_on = signed(signed_texts.confirmed_text(scene.context, root, v2, other_task, scene.pack(v3)))
    enough = [place < threshold - 1 for place in range(len(near))]
    mixed = [one if flag else other for one, other, flag in zip(right, all_masked, enough, strict=True)]
    elsewhere = signed_texts.masking_text(scene.context, root, scene.pack(v3), task)
    unsigned = [*right[:-1], signed(elsewhere)[-1]]
    for_other = [*right[:-1], signed(signed_texts.masking_text(scene.context, root, v2, other_task))[-1]]
    receipts = [*right[:-1], scene.reply("mask", near[-1]).receipt]
    return {
        "wrong signature: one bit": _changed(good, signatures=_flipped(good.signatures)),
        "wrong signature: two are swapped": _changed(good, signatures=_swapped(good.signatures, 64)),
        "signatures a byte too short": _changed(good, signatures=good.signatures[:-1]),
        "one signature too few": _changed(good, signatures=good.signatures[:-64], confirmed=good.confirmed[:-1]),
        "a flag too many": _changed(good, confirmed=good.confirmed + b"\x01"),
        "a flag that is neither 0 nor 1": _changed(good, confirmed=good.confirmed[:-1] + b"\x02"),
        "signatures on V2 shown as confirmations": shown(all_masked, everyone),
        "confirmations shown as signatures on V2": shown(right, [False] * len(near)),
        "too few confirmations: none": shown(all_masked, [False] * len(near)),
        "too few confirmations: one fewer than the threshold": shown(mixed, enough),
        "confirmations of another V3": shown(other_v3, everyone),
        "confirmations of another V2": shown(other_v2, everyone),
        "confirmations of another root": shown(other_root, everyone),
        "confirmations of another task": shown(worked_on, everyone),
        "a neighbour that masked among another V2": shown(unsigned, [*everyone[:-1], False]),
        "a neighbour that worked on another task": shown(for_other, [*everyone[:-1], False]),
        "a receipt shown as a signature on V2": shown(receipts, [*everyone[:-1], False]),
        "a receipt shown as a confirmation": shown(receipts, everyone),
    }


def _second_requests(scene: Scene) -> dict[str, bytes]:
    good, v3 = scene.request("confirm"), scene.answered("mask")
    out = next(j for j in scene.neighbours if j in v3)
    return {
        "a second V3": _changed(good, v3=scene.pack([i for i in v3 if i != out])),
        "the request of step 2 once more": scene.exchanges("mask")[VICTIM]["request"],
        "the request of the guard curious": m.UnmaskRequest(context=scene.context, client=VICTIM, dropped=b"").encode(),
    }


def _after_the_end(scene: Scene) -> dict[str, bytes]:
    good = scene.request("unmask")
    return {
        "another request of step 3": _changed(good, signatures=_flipped(good.signatures)),
        "the request of step 2c once more": scene.exchanges("confirm")[VICTIM]["request"],
    }


def _bad_request(scene: Scene, step: str, reason: str, request: bytes) -> Case:
    party = client(scene.plan, VICTIM)
    for part in scene.played["steps"]:
        if part["step"] == step:
            break
        party.receive(scene.exchanges(part["step"])[VICTIM]["request"])
    try:
        party.receive(request)
    except CcesaError as error:
        return {"reason": f"{step}: {reason}", "step": step, "request": request, "error": type(error).__name__}
    raise LookupError(f"{step}: {reason}: answered")


# Replies


def _wrong_replies(scene: Scene) -> dict[str, dict[str, bytes]]:
    advertised, masked, confirmed = (scene.reply(step) for step in ("advertise", "mask", "confirm"))
    me, other = scene.plan.identity(VICTIM), scene.plan.identity(2)
    keys = scene.bundles[VICTIM][0]
    v3 = scene.pack(scene.answered("mask"))  # shown as V2, which is larger
    root = _committed(scene.plan, scene.bundles)[2]
    task, v2 = scene.plan.task, scene.pack(scene.answered("share"))
    masking = signed_texts.masking_text(scene.context, root, v3, task)
    confirming = signed_texts.confirmed_text(scene.context, root, v3, task, v3)
    other_task = signed_texts.masking_text(scene.context, root, v2, sample("another task"))
    receipt = signed_texts.receipt_text(scene.context, root, v2, task, _flipped(masked.digest))
    for_another = signed_texts.bundle_text(scene.context, 2, keys)
    elsewhere = signed_texts.bundle_text(bytes(32), VICTIM, keys)
    return {
        "advertise": {
            "wrong signature: one bit": _changed(advertised, signature=_flipped(advertised.signature)),
            "wrong signature: 63 bytes": _changed(advertised, signature=advertised.signature[:-1]),
            "wrong signature: for another client": _changed(advertised, signature=me.sign(for_another)),
            "wrong signature: for another round": _changed(advertised, signature=me.sign(elsewhere)),
            "wrong signature: by another identity": _changed(
                advertised, signature=other.sign(signed_texts.bundle_text(scene.context, VICTIM, keys))
            ),
            "somebody else's keys and signature": _changed(scene.reply("advertise", 2), client=VICTIM),
            "a key of low order, signed": _low_order(scene, me.sign),
            "the reply of the guard curious": m.AdvertiseReply(
                context=scene.context, client=VICTIM, keys=keys
            ).encode(),
        },
        "mask": {
            "wrong signature: one bit": _changed(masked, signature=_flipped(masked.signature)),
            "wrong signature: on another V2": _changed(masked, signature=me.sign(masking)),
            "wrong signature: the one of step 0": _changed(masked, signature=advertised.signature),
            "wrong signature: on another task": _changed(masked, signature=me.sign(other_task)),
            "wrong signature: the receipt": _changed(masked, signature=masked.receipt),
            "wrong receipt: one bit": _changed(masked, receipt=_flipped(masked.receipt)),
            "wrong receipt: the signature": _changed(masked, receipt=masked.signature),
            "wrong receipt: of another vector": _changed(masked, receipt=me.sign(receipt)),
            "a receipt of 63 bytes": _changed(masked, receipt=masked.receipt[:-1]),
            "a stale task": _changed(masked, task=_flipped(masked.task)),
            "masked among others": _changed(masked, among=_flipped(masked.among)),
            "a signature without a vector": _changed(masked, vector=b""),
            "a vector with one wrong bit": _changed(masked, vector=_flipped(masked.vector)),
            "a digest with one wrong bit": _changed(masked, digest=_flipped(masked.digest)),
            "a digest of 31 bytes": _changed(masked, digest=masked.digest[:-1]),
            "a complaint of nobody": _complaint_of(scene, []),
            "a complaint of itself": _complaint_of(scene, [VICTIM]),
            "a complaint of no neighbour": _complaint_of(
                scene, [i for i in scene.answered("share") if i not in (*scene.neighbours, VICTIM)][:1]
            ),
            "a complaint of a neighbour that never shared": _complaint_of(
                scene, [i for i in scene.neighbours if i not in scene.answered("share")][:1]
            ),
        },
        "confirm": {
            "wrong signature: one bit": _changed(confirmed, signature=_flipped(confirmed.signature)),
            "wrong signature: 65 bytes": _changed(confirmed, signature=confirmed.signature + b"\x00"),
            "wrong signature: the one of step 2": _changed(confirmed, signature=masked.signature),
            "wrong signature: on another V2": _changed(confirmed, signature=me.sign(confirming)),
        },
    }


def _complaint_of(scene: Scene, accused: list[int]) -> bytes:
    packed = m.pack_ids(np.array(accused, np.int64))
    return m.Complaint(context=scene.context, client=VICTIM, accused=packed).encode()


def _low_order(scene: Scene, sign: Callable[[bytes], bytes]) -> bytes:
    keys = bytes(32) + scene.bundles[VICTIM][0][32:]
    return m.SignedAdvertiseReply(
        context=scene.context,
        client=VICTIM,
        keys=keys,
        signature=sign(signed_texts.bundle_text(scene.context, VICTIM, keys)),
    ).encode()


def _bad_reply(scene: Scene, step: str, reason: str, reply: bytes) -> Case:
    server = Server(scene.plan.config, scene.plan.agreed, task=scene.plan.task)
    server.open()
    for part in scene.played["steps"]:
        if part["step"] == step:
            break
        for number in scene.answered(part["step"]):
            server.receive(number, scene.exchanges(part["step"])[number]["reply"])
        server.close()
    try:
        server.receive(VICTIM, reply)
    except CcesaError as error:
        return {"reason": f"{step}: {reason}", "step": step, "reply": reply, "error": type(error).__name__}
    raise LookupError(f"{step}: {reason}: taken")
