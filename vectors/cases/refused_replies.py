"""refused_replies.json: what a server of the guard curious refuses, and both in *accept*, and from whom."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cases import active_rounds, rounds
from cases.accept_rounds import active_plans
from cases.accept_rounds import plans as accept_plans
from cases.active_refused import Scene, derived
from cases.active_rounds import ActivePlan
from cases.common import Case, sample
from cases.parties import changed, flipped, packed
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.protocol.server import Server

DESCRIPTION = (
    "What faulty clients send, in the named round of round.json, accept_round.json or "
    "active_accept_round.json. Feed a server all replies of that round before the named step, then, if early "
    "says so, those of this step, then this reply as from the named sender: it must refuse it with the named "
    "error and name the sender. waiting: whether the sender's own reply is still taken after that."
)
CLIENT = 3
Wrong = tuple[int, bytes]


def make() -> Case:
    first, accepting, active = rounds.plans_with_sum()[0], accept_plans()[0], active_plans()[0]
    played = _played(rounds.play(first))
    found = [
        _refusal(first, played, step, reason, early, *wrong)
        for step in played
        for early, reason, wrong in _wrong(played, step)
    ]
    for plan, case in ((accepting, rounds.play(accepting)), (active, active_rounds.play(active))):
        told = _played(case)
        found += [
            _refusal(plan, told, "accept", reason, reason in _EARLY, *wrong)
            for reason, wrong in _accept(plan, told).items()
        ]
    return {"description": DESCRIPTION, "replies": found}


def _played(case: Case) -> Case:
    return {step["step"]: step["exchanges"] for step in case["steps"]}


_EARLY = ("another one than before",)


def _accept(plan: rounds.Plan, played: Case) -> dict[str, Wrong]:
    """Give what is wrong with an accept-reply, from somebody one of whose neighbours has not shared."""
    clients = plan.config.clients
    asked = {each["client"]: m.decode(each["request"], len(each["request"])) for each in played["accept"]}
    silent = {each["client"] for each in played["accept"] if each["reply"] is None}
    sender = next(i for i, one in asked.items() if i not in silent and m.expect(one, m.AcceptRequest).dropped)
    good = _reply(played, "accept", sender)
    gone = np.frombuffer(m.expect(asked[sender], m.AcceptRequest).dropped, "<u4").tolist()
    texts = len(m.expect(asked[sender], m.AcceptRequest).sealed) // 80
    near = _neighbours(plan, played, sender)
    if len(near) != texts + len(gone):
        raise LookupError("not the neighbours of this client")
    shared = [j for j in near if j not in gone]
    stranger = next(j for j in range(clients) if j not in (*near, sender))
    wrong = {
        "of itself": packed(sender),
        "of no neighbour": packed(stranger),
        "of a neighbour that never shared": packed(gone[0]),
        "in another order": packed(shared[1], shared[0]),
        "of one twice": packed(shared[0], shared[0]),
        "beyond the last client": packed(clients),
        "a byte too short": packed(shared[0])[:-1],
    }
    complaint = m.Complaint(context=good.context, client=sender, accused=packed(shared[0])).encode()
    return {
        **{f"accused {reason}": (sender, changed(good, accused=ids)) for reason, ids in wrong.items()},
        "deposits where there are none": (sender, changed(good, deposits=bytes(48 * len(shared)))),
        "another one than before": (sender, changed(good, accused=packed(shared[0]))),
        "a complaint": (sender, complaint),
        "of another round": (sender, changed(good, context=flipped(good.context))),
        "a trailing byte": (sender, good.encode() + b"\x00"),
    }


def _neighbours(plan: rounds.Plan, played: Case, client: int) -> list[int]:
    if isinstance(plan, ActivePlan):
        scene = Scene(plan)
        return derived(plan, scene.bundles, client)
    request = next(each["request"] for each in played["share"] if each["client"] == client)
    return np.frombuffer(m.expect(m.decode(request, len(request)), m.ShareRequest).neighbours, "<u4").tolist()


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
        "a reply of a round with accept": (
            CLIENT,
            m.AcceptReply(context=good.context, client=CLIENT, accused=b"", deposits=b"").encode(),
        ),
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
        "advertise": {"keys": _reply(played, "advertise").keys[:32] + sample("another key", 31) + b"\x00"},
        "share": {"commitment": bytes(32)},
        "mask": _with_vector(_reply(played, "mask"), bytes(36)),
        "unmask": {"shares": bytes(len(_reply(played, "unmask").shares)) if step == "unmask" else b""},
    }
    found = {"another one than before": (CLIENT, changed(_reply(played, step), **other[step]))}
    if step != "advertise":
        found["of a client that was not asked"] = (4, changed(_reply(played, step), client=4))
    return found


def _with_vector(reply: m.MaskedVector, vector: bytes) -> Case:
    name, make = reply.fingerprint
    return {"vector": vector, name: make(vector, reply.context, reply.client)}


def _advertise(played: Case) -> dict[str, Wrong]:
    good, other = _reply(played, "advertise"), _reply(played, "advertise", 0)
    mine, masks = good.keys[:32], good.keys[32:]
    keys = {
        "keys a byte too short": good.keys[:-1],
        "keys a byte too long": good.keys + b"\x00",
        "one key": mine,
        "a sealing key of low order": bytes(32) + masks,
        "a mask key of low order": mine + b"\x01" + bytes(31),
        "a mask key that is not reduced": mine + b"\xff" * 32,
        "one key in both places": mine + mine,
        "after others: a key of another client, in the other role": other.keys[32:] + masks,
    }
    return {reason: (CLIENT, changed(good, keys=both)) for reason, both in keys.items()}


def _share(played: Case) -> dict[str, Wrong]:
    good = _reply(played, "share")
    return {
        "a commitment of 31 bytes": (CLIENT, changed(good, commitment=good.commitment[:-1])),
        "texts a byte too short": (CLIENT, changed(good, sealed=good.sealed[:-1])),
        "texts for one neighbour too few": (CLIENT, changed(good, sealed=good.sealed[:-80])),
    }


def _mask(played: Case) -> dict[str, Wrong]:
    good = _reply(played, "mask")
    near = _neighbours(rounds.plans_with_sum()[0], played, CLIENT)
    stranger = next(j for j in range(10) if j not in (*near, CLIENT))

    def complaint(*accused: int) -> Wrong:
        return CLIENT, m.Complaint(context=good.context, client=CLIENT, accused=packed(*accused)).encode()

    vector = bytes(good.vector)
    wide = good.encode()[: -len(vector) - 2] + b"\xc5\x00" + good.encode()[-len(vector) - 1 :]
    return {
        "a word too few": (CLIENT, changed(good, **_with_vector(good, vector[:-4]))),
        "a word too many": (CLIENT, changed(good, **_with_vector(good, vector + bytes(4)))),
        "a byte too few": (CLIENT, changed(good, **_with_vector(good, vector[:-1]))),
        "no vector": (CLIENT, changed(good, **_with_vector(good, b""))),
        "a vector with a longer header than it needs": (CLIENT, wide),
        "a vector as text": (CLIENT, changed(good, vector="v" * len(vector))),
        "a byte after the vector": (CLIENT, good.encode() + b"\x00"),
        "a vector with one wrong bit": (CLIENT, changed(good, vector=flipped(good.vector))),
        "a tag with one wrong bit": (CLIENT, changed(good, tag=flipped(good.tag))),
        "a tag of 15 bytes": (CLIENT, changed(good, tag=good.tag[:-1])),
        "the tag of another client's vector": (CLIENT, changed(good, tag=_reply(played, "mask", 5).tag)),
        "a stale task": (CLIENT, changed(good, task=flipped(good.task))),
        "no task": (CLIENT, changed(good, task=bytes(32))),
        "a task of 31 bytes": (CLIENT, changed(good, task=good.task[:-1])),
        "masked among others": (CLIENT, changed(good, among=flipped(good.among))),
        "masked among what another client knows": (CLIENT, changed(good, among=_reply(played, "mask", 5).among)),
        "among of 33 bytes": (CLIENT, changed(good, among=good.among + b"\x00")),
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


def _refusal(plan: rounds.Plan, played: Case, step: str, reason: str, early: bool, sender: int, reply: bytes) -> Case:
    server = _server(plan)
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
    case: Case = {"round": plan.name, "step": step, "reason": f"{step}: {reason}"}
    case |= {"early": early, "sender": sender, "reply": reply}
    try:
        server.receive(sender, reply)
    except CcesaError as error:
        return {**case, "error": type(error).__name__, "waiting": sender in server.waiting}
    raise LookupError(f"{step}: {reason}: taken")


def _server(plan: rounds.Plan) -> Server:
    if isinstance(plan, ActivePlan):
        return Server(plan.config, plan.agreed, task=plan.task)
    return Server(plan.config, task=plan.task)
