"""refused_replies.json: what a server of the guard curious refuses, and from whom."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cases import rounds
from cases.common import Case, sample
from cases.parties import changed, flipped, packed
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.protocol.server import Server

DESCRIPTION = (
    "What faulty clients send, in the first round of round.json. Feed a server all replies of that round "
    "before the named step, then, if early says so, those of this step, then this reply as from the named "
    "sender: it must refuse it with the named error and name the sender. waiting: whether the sender's "
    "own reply is still taken after that."
)
CLIENT = 3
Wrong = tuple[int, bytes]


def make() -> Case:
    plan = rounds.plans_with_sum()[0]
    played = {step["step"]: step["exchanges"] for step in rounds.play(plan)["steps"]}
    return {
        "description": DESCRIPTION,
        "round": plan.name,
        "replies": [
            _refusal(plan, played, step, reason, early, *wrong)
            for step in played
            for early, reason, wrong in _wrong(played, step)
        ],
    }


def _reply(played: Case, step: str, client: int = CLIENT) -> Any:
    data = next(each["reply"] for each in played[step] if each["client"] == client)
    return m.decode(data, len(data))


def _wrong(played: Case, step: str) -> Iterator[tuple[bool, str, Wrong]]:
    """Give what is wrong in this step, and whether the step's own replies come first."""
    good = _reply(played, step)
    names = list(played)
    own: dict[str, Wrong] = {
        "of another round": (CLIENT, changed(good, context=flipped(good.context))),
        "for another client": (CLIENT, changed(good, client=5)),
        "from another client": (5, good.encode()),
        "from nobody": (10, good.encode()),
        "a trailing byte": (CLIENT, good.encode() + b"\x00"),
        "nothing": (CLIENT, b""),
        "a request": (CLIENT, next(each["request"] for each in played[step] if each["client"] == CLIENT)),
        "a reply of the guard active": (
            CLIENT,
            m.ConfirmReply(context=good.context, client=CLIENT, signature=bytes(64)).encode(),
        ),
        **{f"the reply of {name}": (CLIENT, _reply(played, name).encode()) for name in names if name != step},
    }
    for reason, wrong in {**own, **_CONTENT[step](played)}.items():
        yield False, reason, wrong
    for reason, wrong in _late(played, step).items():
        yield True, reason, wrong


def _late(played: Case, step: str) -> dict[str, Wrong]:
    """Another answer than the first, and one of somebody who was not asked."""
    other = {
        "advertise": {"mask_key": sample("another key", 31) + b"\x00"},
        "share": {"commitment": bytes(32)},
        "mask": {"vector": bytes(36), "digest": _digest(_reply(played, "mask"), bytes(36))},
        "unmask": {"shares": bytes(len(_reply(played, "unmask").shares)) if step == "unmask" else b""},
    }
    found = {"another one than before": (CLIENT, changed(_reply(played, step), **other[step]))}
    if step != "advertise":
        found["of a client that was not asked"] = (4, changed(_reply(played, step), client=4))
    return found


def _digest(reply: m.Message, vector: bytes) -> bytes:
    from ccesa.crypto import keys

    return keys.vector_digest(vector, reply.context, reply.client)


def _advertise(played: Case) -> dict[str, Wrong]:
    good, other = _reply(played, "advertise"), _reply(played, "advertise", 0)
    keys = {
        "a sealing key of 31 bytes": {"sealing_key": good.sealing_key[:-1]},
        "a mask key of 33 bytes": {"mask_key": good.mask_key + b"\x00"},
        "a sealing key of low order": {"sealing_key": bytes(32)},
        "a mask key of low order": {"mask_key": b"\x01" + bytes(31)},
        "a mask key that is not reduced": {"mask_key": b"\xff" * 32},
        "one key in both places": {"mask_key": good.sealing_key},
    }
    found = {reason: (CLIENT, changed(good, **fields)) for reason, fields in keys.items()}
    theirs = {"sealing_key": other.mask_key, "mask_key": good.mask_key}
    return {
        **found,
        "after others: a key of another client, in the other role": (CLIENT, changed(good, **theirs)),
    }


def _share(played: Case) -> dict[str, Wrong]:
    good = _reply(played, "share")
    return {
        "a commitment of 31 bytes": (CLIENT, changed(good, commitment=good.commitment[:-1])),
        "texts a byte too short": (CLIENT, changed(good, sealed=good.sealed[:-1])),
        "texts for one neighbour too few": (CLIENT, changed(good, sealed=good.sealed[:-80])),
    }


def _mask(played: Case) -> dict[str, Wrong]:
    good = _reply(played, "mask")
    request = next(each["request"] for each in played["share"] if each["client"] == CLIENT)
    near = np.frombuffer(m.expect(m.decode(request, len(request)), m.ShareRequest).neighbours, "<u4").tolist()
    stranger = next(j for j in range(10) if j not in (*near, CLIENT))

    def complaint(*accused: int) -> Wrong:
        return CLIENT, m.Complaint(context=good.context, client=CLIENT, accused=packed(*accused)).encode()

    short = good.vector[:-4]
    return {
        "a word too few": (CLIENT, changed(good, vector=short, digest=_digest(good, short))),
        "a vector with one wrong bit": (CLIENT, changed(good, vector=flipped(good.vector))),
        "a digest of 31 bytes": (CLIENT, changed(good, digest=good.digest[:-1])),
        "a complaint of nobody": complaint(),
        "a complaint of itself": complaint(CLIENT),
        "a complaint of no neighbour": complaint(stranger),
        "a complaint of a neighbour that never shared": complaint(1),
        "a complaint in another order": complaint(near[-1], near[-2]),
        "a complaint a byte too short": (
            CLIENT,
            m.Complaint(context=good.context, client=CLIENT, accused=bytes(3)).encode(),
        ),
    }


def _unmask(played: Case) -> dict[str, Wrong]:
    good = _reply(played, "unmask")
    return {
        "shares a byte too short": (CLIENT, changed(good, shares=good.shares[:-1])),
        "a share too few": (CLIENT, changed(good, shares=good.shares[:-32])),
        "an element outside the field": (CLIENT, changed(good, shares=good.shares[:-2] + b"\xf1\xff")),
    }


_CONTENT = {"advertise": _advertise, "share": _share, "mask": _mask, "unmask": _unmask}


def _refusal(
    plan: rounds.Plan, played: Case, step: str, reason: str, early: bool, sender: int, reply: bytes
) -> Case:
    server = Server(plan.config)
    server.open()
    early = early or reason.startswith("after others")
    for name, exchanges in played.items():
        if name == step and not early:
            break
        for each in exchanges:
            skipped = name == step and reason.startswith("after others") and each["client"] == sender
            if each["reply"] is not None and not skipped:
                server.receive(each["client"], each["reply"])
        if name == step:
            break
        server.close()
    case = {"step": step, "reason": f"{step}: {reason}", "early": early, "sender": sender, "reply": reply}
    try:
        server.receive(sender, reply)
    except CcesaError as error:
        return {**case, "error": type(error).__name__, "waiting": sender in server.waiting}
    raise LookupError(f"{step}: {reason}: taken")
