"""What servers refuse of members and helpers."""

from dataclasses import replace
from typing import Any

from cases.assisted_parties import DAY, Scene
from cases.assisted_rounds import NOW, binding, plan_of, plans_with_sum, signed
from cases.common import Case, sample
from cases.parties import changed, flipped, packed
from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives
from ccesa.crypto.keys import vector_tag
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.protocol.server import Server
from ccesa.protocol.submission import Binding, confirmed_text, keys_text, question_digest, sum_text


def replies() -> list[Case]:
    """Give what a server refuses in the first round of assisted_round.json, in each of its three steps."""
    scene = Scene(plans_with_sum()[0])
    return [
        _refusal(scene, after, *wrong) for after, wrong in [*_for_keys(scene), *_for_vectors(scene), *_for_sums(scene)]
    ]


def fed(server: Server, case: Case, count: int) -> None:
    """Feed a server so many exchanges of a round, and all that it does before the next one."""
    server.open()
    for step in case["steps"]:
        for each in step["exchanges"]:
            if "ahead" in each:
                server.ask_helpers()  # has nothing more to ask if it was asked just before
            if not count:
                return
            server.receive(each["client"], each["reply"])
            count -= 1
        server.close()


Wrong = tuple[int, str, bytes]


def _refusal(scene: Scene, after: int, sender: int, reason: str, reply: bytes) -> Case:
    plan = scene.plan
    server = Server(plan.config, plan.agreed, task=plan.task, now=NOW)
    fed(server, scene.played, after)
    try:
        server.receive(sender, reply)
    except CcesaError as error:
        found = {"error": type(error).__name__, "waiting": sender in server.waiting}
    else:
        raise LookupError(f"the server takes: {reason}")
    return {"round": plan.name, "after": after, "sender": sender, "reason": reason, "reply": reply, **found}


def _place(scene: Scene, client: int, step: str, ahead: bool = False) -> int:
    """Return the number of exchanges before this one."""
    every = [(step["step"], each) for step in scene.played["steps"] for each in step["exchanges"]]
    return next(
        place
        for place, (name, each) in enumerate(every)
        if (name, each["client"], each.get("ahead", False)) == (step, client, ahead)
    )


def _reply(scene: Scene, place: int) -> Any:
    every = [each for step in scene.played["steps"] for each in step["exchanges"]]
    return _read(every[place]["reply"])


def _read(data: bytes) -> Any:
    return m.decode(data, len(data))


def _always(good: Any, sender: int, step: str, other: bytes, request: bytes) -> dict[str, bytes]:
    """Give what is refused in every step."""
    return {
        f"{step}: of another round": changed(good, context=flipped(good.context)),
        f"{step}: in the name of another": changed(good, client=sender + 1),
        f"{step}: a trailing byte": good.encode() + b"\x00",
        f"{step}: nothing": b"",
        f"{step}: a request": request,
        f"{step}: the reply of another step": other,
    }


def _for_keys(scene: Scene) -> list[tuple[int, Wrong]]:
    plan, sender = scene.plan, 6
    place = _place(scene, sender, "key")
    good, (request, _), later = _reply(scene, place), scene.history(sender)[0], scene.history(sender)[1][1]
    times = int.from_bytes(good.not_after, "little")

    def signed(
        identity: Identity, keys: bytes, helper: int = sender, context: bytes = plan.config.context, time: int = times
    ) -> bytes:
        not_after = time.to_bytes(8, "little")
        signature = identity.sign(keys_text(context, helper, not_after, keys))
        return changed(good, keys=keys, not_after=not_after, signature=signature)

    own = plan.identity(sender)
    wrong = {
        **_always(good, sender, "key", later, request),
        "key: keys a byte short": changed(good, keys=good.keys[:-1]),
        "key: keys of two agreements": changed(good, keys=good.keys + bytes(1184)),
        "key: a time of 7 bytes": changed(good, not_after=good.not_after[:-1]),
        "key: a signature of 63 bytes": changed(good, signature=good.signature[:-1]),
        "key: wrong signature: one wrong bit": changed(good, signature=flipped(good.signature)),
        "key: wrong signature: of another helper": signed(plan.identity(7), good.keys),
        "key: wrong signature: for another place": signed(own, good.keys, 7),
        "key: wrong signature: for another round": signed(own, good.keys, context=sample("another context")),
        "key: wrong signature: another time": changed(good, not_after=(times - 1).to_bytes(8, "little")),
        "key: wrong signature: another key": changed(good, keys=flipped(good.keys)),
        "key: a key of low order, signed": signed(own, bytes(32)),
        "key: a time that has come, signed": signed(own, good.keys, time=NOW),
        "key: a time that is too late by a second, signed": signed(own, good.keys, time=NOW + 7 * DAY + 1),
        "key: those of the helper before, signed": signed(own, _reply(scene, place - 1).keys),
        "key: a key that is not reduced, signed": signed(own, b"\xff" * 31 + b"\x7f"),
    }
    found = [(place, (sender, reason, reply)) for reason, reply in wrong.items()]
    member = changed(good, client=1)
    found += [(place, (1, "key: from a member", member)), (place, (8, "key: from nobody", changed(good, client=8)))]
    other = signed(own, primitives.public_key(primitives.private_key(sample("another key"))))
    return [*found, (place + 1, (sender, "key: another one than before", other))]


def _for_vectors(scene: Scene) -> list[tuple[int, Wrong]]:
    plan, sender = scene.plan, 3
    place = _place(scene, sender, "mask")
    (request, reply), keys = scene.history(sender)[0], scene.history(5)[0][1]
    good, asked = _read(reply), _read(request)
    about = binding(plan, asked)

    def by(about: Binding = about, client: int = sender, **changes: Any) -> bytes:
        return signed(plan, client, about, good, **changes).encode()

    other = plan_of("another identity", 5, length=9)
    vector = bytes(good.vector)
    wrong = {
        **_always(good, sender, "mask", keys, request),
        "mask: a key of 31 bytes": changed(good, key=good.key[:-1]),
        "mask: a box too few": changed(good, boxes=good.boxes[:-16]),
        "mask: a ciphertext": changed(good, ciphertexts=b"\x00"),
        "mask: a tag of 15 bytes": changed(good, tag=good.tag[:-1]),
        "mask: a signature of 63 bytes": changed(good, signature=good.signature[:-1]),
        "mask: no check words": changed(good, vector=memoryview(vector[:-8])),
        "mask: a word too many": changed(good, vector=memoryview(vector + bytes(4))),
        "mask: a tag with one wrong bit": changed(good, tag=flipped(good.tag)),
        "mask: a vector with one wrong bit": changed(good, vector=memoryview(flipped(vector))),
        "mask: the tag of another vector, signed": by(tag=flipped(good.tag)),
        "mask: wrong signature: one wrong bit": changed(good, signature=flipped(good.signature)),
        "mask: wrong signature: of another member": by(client=2),
        "mask: wrong signature: another box": changed(good, boxes=flipped(good.boxes)),
        "mask: wrong signature: another key": changed(good, key=sample("another key")),
        "mask: wrong signature: another task": by(replace(about, task=flipped(about.task))),
        "mask: wrong signature: other helpers' keys": by(replace(about, keyring=flipped(about.keyring))),
        "mask: wrong signature: another round": by(replace(about, context=other.config.context)),
        "mask: a one-time key of low order, signed": by(key=bytes(32)),
        "mask: a one-time key that is not reduced, signed": by(key=b"\xff" * 31 + b"\x7f"),
    }
    found = [(place, (sender, reason, reply)) for reason, reply in wrong.items()]
    found += [(place, (5, "mask: from a helper", changed(good, client=5)))]
    found += [
        (place + 1, (sender, "mask: another one than before", by(key=sample("a key"), boxes=flipped(good.boxes))))
    ]
    return [*found, *_for_boxes(scene)]


def _for_boxes(scene: Scene) -> list[tuple[int, Wrong]]:
    """Give what is refused of helpers beside step mask, once they were asked about two members."""
    plan, sender = scene.plan, 6
    place = _place(scene, sender, "mask", ahead=True)
    request, reply = scene.history(sender)[1]
    good, context = _read(reply), plan.config.context
    others = _read(scene.history(7)[1][1])

    def signed(refused: bytes, boxes: bytes = good.boxes, helper: int = sender, own: int = sender) -> bytes:
        signature = plan.identity(own).sign(confirmed_text(context, helper, boxes, refused))
        return changed(good, boxes=boxes, refused=refused, signature=signature)

    wrong = {
        **{
            name: one
            for name, one in _always(good, sender, "boxes", reply, request).items()
            if "another step" not in name
        },
        "boxes: a digest of 31 bytes": changed(good, boxes=good.boxes[:-1]),
        "boxes: a signature of 63 bytes": changed(good, signature=good.signature[:-1]),
        "boxes: half an id, signed": signed(b"\x00\x00"),
        "boxes: refused in another order, signed": signed(packed(1, 0)),
        "boxes: one refused twice, signed": signed(packed(1, 1)),
        "boxes: refused beyond the last, signed": signed(packed(5)),
        "boxes: a member that was not asked about, signed": signed(packed(3)),
        "boxes: other boxes, signed": signed(b"", boxes=sample("other boxes")),
        "boxes: those of another helper, signed": signed(b"", boxes=others.boxes),
        "boxes: wrong signature: one wrong bit": changed(good, signature=flipped(good.signature)),
        "boxes: wrong signature: of another helper": signed(b"", own=7),
        "boxes: wrong signature: in the name of another helper": signed(b"", helper=7),
        "boxes: wrong signature: a member that it did not refuse": changed(good, refused=packed(1)),
    }
    found = [(place, (sender, reason, one)) for reason, one in wrong.items()]
    found += [(place, (1, "boxes: from a member", changed(good, client=1)))]
    early = _place(scene, sender, "key")
    found += [(early, (sender, "boxes: before there are vectors", reply))]
    return [*found, (place + 1, (sender, "boxes: another answer than before", signed(packed(0))))]


def _for_sums(scene: Scene) -> list[tuple[int, Wrong]]:
    plan, sender = scene.plan, 6
    place = _place(scene, sender, "unmask")
    request, reply = scene.history(sender)[-1]
    good, asked, context = _read(reply), _read(request), plan.config.context
    question, vector = question_digest(asked, sender), bytes(good.vector)

    def signed(own: int = sender, helper: int = sender, question: bytes = question, vector: bytes = vector) -> bytes:
        tag = vector_tag(vector, context, helper)
        signature = plan.identity(own).sign(sum_text(context, helper, question, tag))
        return changed(good, tag=tag, signature=signature, vector=memoryview(vector))

    wrong = {
        **_always(good, sender, "sum", scene.history(sender)[0][1], request),
        "sum: a tag of 15 bytes": changed(good, tag=good.tag[:-1]),
        "sum: a signature of 63 bytes": changed(good, signature=good.signature[:-1]),
        "sum: no check words, signed": signed(vector=vector[:-8]),
        "sum: a word too many, signed": signed(vector=vector + bytes(4)),
        "sum: a tag with one wrong bit": changed(good, tag=flipped(good.tag)),
        "sum: a vector with one wrong bit": changed(good, vector=memoryview(flipped(vector))),
        "sum: wrong signature: one wrong bit": changed(good, signature=flipped(good.signature)),
        "sum: wrong signature: of another helper": signed(own=7),
        "sum: wrong signature: about another question": signed(question=sample("another question")),
        "sum: wrong signature: about the boxes": signed(
            question=_reply(scene, _place(scene, sender, "mask", True)).boxes
        ),
    }
    found = [(place, (sender, reason, one)) for reason, one in wrong.items()]
    found += [(place, (1, "sum: from a member", changed(good, client=1)))]
    found += [(place, (1, "sum: a vector, too late", scene.history(1)[0][1]))]
    return [*found, (place + 1, (sender, "sum: another one than before", signed(vector=flipped(vector))))]
