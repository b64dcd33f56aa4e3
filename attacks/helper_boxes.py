"""Who makes boxes up, changes them, or gets rounds lost by them. ``assisted`` has to hold."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.helper_stage import MEMBERS, TASK, VICTIM, AssistedRound, answering, cast
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import names
from ccesa import labels
from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives
from ccesa.errors import FaultyClient, RoundFailed
from ccesa.protocol import assisted_client, assisted_helper, assisted_server
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Requests
from ccesa.protocol.steps import Step
from ccesa.protocol.submission import Binding, MaskKey
from ccesa.words import Vector
from ccesa.workers import add_masks_by

OTHER_TASK = labels.digest(b"another task")
#: A member that works with the hub, or against it.
LIAR = VICTIM + 1

# H4

_UNSIGNED = relaxed(assisted_helper.is_signed, primitives=SimpleNamespace(**{**vars(primitives), "verify": skip}))


class Unsigned(Helper):
    """Does not look at signatures of members."""

    _answer = answering(
        m.UnmaskSumRequest,
        relaxed(assisted_helper.unmask, open_boxes=relaxed(assisted_helper.open_boxes, is_signed=_UNSIGNED)),
    )


def made_up_member(defended: bool, tell: Tell) -> Outcome:
    """Seal in the names of all members but the victim, and ask for the sum of all."""
    stage = AssistedRound(cast(helper=Helper if defended else Unsigned), tell).ask_keys().ask_vectors([VICTIM])
    tell(f"hub makes up a vector of each member but client {VICTIM}, and knows its masks")
    for member in stage.others(VICTIM):
        stage.sent[member] = stage.keep(stage.make_up(member, Identity.new()))
    found = stage.open_sum(stage.others())
    if found is None:
        return stage.held(stage.first_refusal())
    return stage.stolen(found, "every other vector in the sum is zero")


# H5


class Taskless(Binding):
    """Binds a box to no task."""

    def mask_key(self, secret: bytes, client: int, place: int, key: bytes, ciphertext: bytes) -> MaskKey:
        return _without_task(self).mask_key(secret, client, place, key, ciphertext)

    def text(self, client: int, key: bytes, boxes: bytes, digests: bytes, tag: bytes) -> bytes:
        return _without_task(self).text(client, key, boxes, digests, tag)


def _without_task(binding: Binding) -> Binding:
    return Binding(config=binding.config, context=binding.context, task=m.NO_TASK, keyring=binding.keyring)


class TasklessMember(Weakened, ActiveClient):
    """Signs no task."""

    weaker = weaken(mask=in_step(answer=without(send=relaxed(assisted_client.send, Binding=Taskless))))


class TasklessHelper(Helper):
    """Takes boxes for any task."""

    _answer = answering(
        m.UnmaskSumRequest,
        relaxed(assisted_helper.unmask, open_boxes=relaxed(assisted_helper.open_boxes, Binding=Taskless)),
    )


def foreign_box(defended: bool, tell: Tell) -> Outcome:
    """Ask about vectors for one task in the name of another one, and then for the task itself, without the victim."""
    kinds: dict[str, Any] = {} if defended else {"member": TasklessMember, "helper": TasklessHelper}
    made = cast(**kinds)
    first = AssistedRound(made, tell).ask_keys().ask_vectors()
    tell("hub asks helpers about vectors for one task, in the name of another one")
    whole = first.open_sum(first.others(), task=OTHER_TASK)
    again = AssistedRound(made, tell, vectors=first.vectors, number=1).ask_keys().ask_vectors(first.others(VICTIM))
    if defended:
        tell(f"hub shows a helper what client {VICTIM} sent in the round before")
        again.sent[VICTIM] = first.sent[VICTIM]
        helper = again.config.helper_ids[0]
        tell(f"  {again.name(helper)} leaves out {names(again.misfits(helper, again.others()))}")
    tell(f"hub asks for the task itself in the next round, without client {VICTIM}")
    rest = again.open_sum(again.others(VICTIM))
    if whole is None or rest is None:
        return first.held(first.first_refusal())
    return first.stolen(whole - rest, "two sums of one task differ by it")


# H9


def _at_once(take: Callable[..., Any]) -> Callable[..., Any]:
    """Take a vector into the sum as it comes, as if all helpers had confirmed its box."""

    def taking(round: Any, state: Any, client: int, reply: m.BoxedMaskReply) -> None:
        take(round, state, client, reply)
        for helper in round.config.helper_ids:
            assisted_server._settle(round, state, helper, client, refused=False)  # noqa: SLF001

    return taking


class Hasty(Weakened, Server):
    """Asks no helper before it adds vectors up."""

    weaker = weaken(mask=in_step(take=_at_once))


def bad_box(defended: bool, tell: Tell) -> Outcome:
    """One member signs a box that one helper cannot open; another one signs nothing."""
    stage = AssistedRound(cast(), tell)
    tell(f"client {LIAR} signs a box that helper 1 cannot open; what client {MEMBERS - 1} sends has a false signature")
    server, refused = (Server if defended else Hasty)(stage.config, stage.charter, task=TASK), list[FaultyClient]()
    try:
        found = run_round(server, _with_liars(stage), refused.append)
    except RoundFailed as failure:
        return Outcome(succeeded=True, summary=f"one member has cost everybody the task: {failure}")
    for fault in refused:
        tell(f"  the hub refuses an answer: {fault}")
    right = np.array_equal(found.vector, stage.expected(found.survivors))
    blamed = sorted((one.accuser - stage.config.clients, one.dealer) for one in found.evidence.accusations)
    tell(f"  (helper, member) of whom one lied: {blamed}")
    return Outcome(succeeded=not right, summary=f"the sum of {names(found.survivors)} is right")


def _with_liars(stage: AssistedRound) -> Callable[[Step, Requests], Iterable[tuple[int, bytes]]]:
    def carry(step: Step, requests: Requests) -> Iterable[tuple[int, bytes]]:
        for party, request in requests.items():
            reply = stage.ask(party, m.decode(request, len(request)))
            if reply is not None:
                yield party, _lie(stage, party, reply).encode()

    return carry


def _lie(stage: AssistedRound, party: int, reply: Any) -> Any:
    if isinstance(reply, m.HelperKeysReply):
        stage.shown.append(reply)
    if party == LIAR:
        boxes = bytearray(reply.boxes)
        boxes[primitives.TAG_BYTES] ^= 1
        changed = msgspec.structs.replace(reply, boxes=bytes(boxes))
        return stage.submit(LIAR, stage.cast.federation.identities[LIAR], changed)
    if party == MEMBERS - 1:
        return stage.submit(party, Identity.new(), reply)
    return reply


# H10


def _counting(is_signed: Callable[..., bool]) -> type[Helper]:
    """A helper that counts how often it uses its key for others than those who signed."""

    class Counting(Helper):
        used = 0

        def _answer(self, request: Any) -> bytes:
            def agree(round: Any, key: Any, binding: Any, every: Any) -> Any:
                type(self).used += len(every)
                return assisted_helper.agree_each(round, key, binding, every)

            opening = relaxed(assisted_helper.open_boxes, agree_each=agree, is_signed=is_signed)
            asked = answering(m.ConfirmBoxesRequest, relaxed(assisted_helper.confirm, open_boxes=opening))
            reply: bytes = asked(self, request)
            return reply

    return Counting


def refusal_oracle(defended: bool, tell: Tell) -> Outcome:
    """Change every part of what the victim signed, and ask whether its box fits."""
    kind: Any = _counting(assisted_helper.is_signed if defended else _UNSIGNED)
    stage = AssistedRound(cast(helper=kind), tell).ask_keys().ask_vectors([VICTIM])
    sent, helper = stage.sent[VICTIM], stage.config.helper_ids[0]
    bits = len(sent.record)
    tell(f"hub asks helper 0 about client {VICTIM} {bits} times, each time with a bit of another byte changed")
    fitting = 0
    for place in range(bits):
        record = bytearray(sent.record)
        record[place] ^= 1 << place % 8
        stage.sent[VICTIM] = sent._replace(record=bytes(record))
        fitting += not stage.misfits(helper, [VICTIM])
    summary = f"the helper used its key for {kind.used} of {bits} texts that nobody signed, and {fitting} of them fit"
    return Outcome(succeeded=kind.used > 0, summary=summary)


# H13


class Careless(Helper):
    """Its machine forgets the last mask."""

    @staticmethod
    def _all_but_one(executor: Any, total: Vector, masks: list[Any], *rest: Any) -> None:
        add_masks_by(executor, total, masks[:-1], *rest)

    _answer = answering(m.UnmaskSumRequest, relaxed(assisted_helper.unmask, add_masks_by=_all_but_one))


class Credulous(Weakened, Server):
    """Does not compare check words."""

    weaker = weaken(unmask=in_step(close=without(np=SimpleNamespace(array_equal=lambda *_: True))))


def careless_helper(defended: bool, tell: Tell) -> Outcome:
    """One helper signs a wrong sum of masks, by accident."""
    stage = AssistedRound(cast(), tell)
    last = stage.config.helper_ids[-1]
    home, who = stage.cast.homes[-1], stage.cast.federation.helpers[-1]
    stage.helpers[last] = Careless(stage.config, who, stage.charter, keys=home.keys, memory=home.memory)
    tell(f"{stage.name(last)} leaves one mask out of its sum")
    server = (Server if defended else Credulous)(stage.config, stage.charter, task=TASK)
    try:
        found = run_round(server, in_memory(stage.members | stage.helpers))
    except RoundFailed as failure:
        return Outcome(succeeded=False, summary=f"there is no sum: {failure}")
    wrong = not np.array_equal(found.vector, stage.expected(found.survivors))
    return Outcome(succeeded=wrong, summary="the hub has a sum, and it is wrong" if wrong else "the sum is right")


HELPER_BOXES = (
    Attack(
        number="H4",
        name="made-up-member",
        title="members that the hub made up, so that the victim is the only honest one",
        guard="assisted",
        defence="a helper takes only what the charter's members signed",
        run=made_up_member,
    ),
    Attack(
        number="H5",
        name="foreign-box",
        title="boxes of another task, or of another round",
        guard="assisted",
        defence="round and task are in what members sign, and in every box",
        run=foreign_box,
    ),
    Attack(
        number="H9",
        name="bad-box",
        title="a box that one helper cannot open, and a false signature, to stop rounds",
        guard="assisted",
        defence="the hub adds a vector when all helpers have confirmed its box",
        run=bad_box,
    ),
    Attack(
        number="H10",
        name="refusal-oracle",
        title="what an honest member signed is changed bit by bit, to learn from refusals",
        guard="assisted",
        defence="a helper verifies the signature before it uses its key",
        run=refusal_oracle,
    ),
    Attack(
        number="H13",
        name="careless-helper",
        title="a helper that answers with a wrong sum by accident",
        guard="assisted",
        defence="the sum has to fit its check words",
        run=careless_helper,
    ),
)
