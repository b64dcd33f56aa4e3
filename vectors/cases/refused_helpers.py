"""refused_helpers.json: what helpers refuse, and which members they name."""

from dataclasses import dataclass, replace
from typing import Any

from cases.assisted_charters import NOISY
from cases.assisted_parties import DAY, HelperParty, Scene
from cases.assisted_rounds import NOW, AssistedPlan, plan_of
from cases.common import Case, sample
from cases.parties import Party, changed, flipped, packed
from cases.refused import tried
from cases.signatures import neutral_signature
from ccesa.agreement.identity import Identity
from ccesa.protocol import messages as m
from ccesa.protocol.submission import Binding, Record, ciphertext_digest, question_digest

DESCRIPTION = (
    "Helpers, in the form of refused_assisted.json. memory: the questions that a helper answered in a round "
    "(question, with context and question), and the rounds in which it answered about a task (answer, with "
    "the charter's digest, task and context). now beside a request is the time from then on. A helper that "
    "refuses goes on, and nothing has changed."
)


def make() -> Case:
    return tried(DESCRIPTION, helper_parties())


def helper_parties() -> list[Party]:
    plan = plan_of("helping", 5, length=3, bits=8, also=1, number=7, key_days=2)
    party = HelperParty.of("helper", Scene(plan), 6)
    for place in range(3):
        _anything(party, place)
    _keys(party)
    _sizes(party)
    _boxes(party)
    _questions(party)
    _times(party)
    return [party, _noisy()]


def hybrid_boxes(party: HelperParty) -> None:
    """Try what is different with the hybrid agreement, in *confirm* and *unmask*."""
    for place in (1, 2):
        good = party.request(place)
        shown = Shown(party.plan, good)
        record, texts = shown.record(2), shown.cut("ciphertexts")
        cases = {
            "a ciphertext with one wrong bit": shown.with_record(2, record, flipped(texts[2])),
            "another ciphertext and its digest, signed": _other_ciphertext(shown, 2),
            "no ciphertexts": changed(good, ciphertexts=b""),
        }
        if place == 1:
            cases |= {
                "ciphertexts a byte too short": changed(good, ciphertexts=good.ciphertexts[:-1]),
                "records without digests": changed(good, records=bytes(3 * 144)),
                "the ciphertext of another member": shown.with_record(2, record, texts[0]),
                "a wrong digest, signed": shown.signed(2, digests=flipped(record.digests, 32)),
                "a wrong digest for another helper, signed": shown.signed(2, digests=flipped(record.digests)),
                "a box with one wrong bit, signed": shown.signed(2, boxes=flipped(record.boxes, 16)),
                "a wrong signature": shown.with_record(2, replace(record, signature=flipped(record.signature))),
            }
        party.tries(place, {f"step {place}: {reason}": request for reason, request in cases.items()})


def _anything(party: HelperParty, place: int) -> None:
    """Try what must be refused in every step."""
    good, right = party.request(place), party.history[place][0]
    number = {"another number": packed(8), "a number of 3 bytes": bytes(3), "a number of 5 bytes": packed(7) + b"\x00"}
    cases: dict[str, Any] = {
        "of another round": changed(good, context=flipped(good.context)),
        "a context of 31 bytes": changed(good, context=good.context[:-1]),
        "for another helper": changed(good, client=good.client + 1),
        "for a member": changed(good, client=1),
        "a trailing byte": right + b"\x00",
        "truncated": right[:-1],
        "nothing": b"",
        "a reply": party.history[place][1],
        "a request to members": changed(_to_members(party), client=good.client),
        "a request to clients": m.AdvertiseRequest(context=good.context, client=good.client, number=packed(7)).encode(),
        **{reason: changed(good, number=one) for reason, one in number.items()},
        "refused, then the right one": [b"", right],
        "once more": [right, right],
    }
    party.tries(place, {f"step {place}: {reason}": steps for reason, steps in cases.items()})


def _to_members(party: HelperParty) -> Any:
    if party.scene is None:
        raise LookupError("a helper needs a scene")
    request = party.scene.history(1)[0][0]
    return m.decode(request, len(request))


def _keys(party: HelperParty) -> None:
    first, boxes, question = (request for request, _ in party.history)
    party.tries(
        0,
        {
            "boxes before it has a key": boxes,
            "a question before it has a key": question,
            "keys a day later are the same": [first, (first, {"now": NOW + DAY})],
        },
    )
    asked = {"about": "question", "context": party.context, "question": sample("a question")}
    answered = {**asked, "context": sample("another round")}
    party.tries(
        0,
        {
            "keys, where a question was answered before the key was lost": (first, {"memory": [asked]}),
            "keys, where a question was answered in another round": (first, {"memory": [answered]}),
        },
    )
    party.tries(1, {"a question without boxes before": question})
    party.tries(3, {"keys after the answer": first, "boxes after the answer": boxes})


def _sizes(party: HelperParty) -> None:
    for place in (1, 2):
        good = party.request(place)
        each = len(good.records) // 5
        ids = good.members
        cases = {
            "a task of 31 bytes": changed(good, task=good.task[:-1]),
            "a task of 33 bytes": changed(good, task=good.task + b"\x00"),
            "a keyring of 31 bytes": changed(good, keyring=good.keyring[:-1]),
            "a keyring of 33 bytes": changed(good, keyring=good.keyring + b"\x00"),
            "half an id": changed(good, members=ids[:-2]),
            "a member twice": changed(good, members=ids[:16] + ids[12:16]),
            "members in another order": changed(good, members=ids[4:8] + ids[:4] + ids[8:]),
            "a member beyond the last": changed(good, members=ids[:16] + packed(5)),
            "a record a byte short": changed(good, records=good.records[:-1]),
            "a record too few": changed(good, records=good.records[:-each]),
            "a record too many": changed(good, records=good.records + bytes(each)),
            "records of two helpers": changed(good, records=bytes(5 * (each - 16))),
            "ciphertexts a byte too long": changed(good, ciphertexts=good.ciphertexts + b"\x00"),
        }
        party.tries(place, {f"step {place}: {reason}": request for reason, request in cases.items()})
    good = party.request(1)
    nobody = changed(good, members=b"", records=b"", ciphertexts=b"")
    party.tries(1, {"boxes of nobody": nobody})


@dataclass(frozen=True)
class Shown:
    """What a helper is shown of members, with one of them in another form."""

    plan: AssistedPlan
    request: Any

    @property
    def about(self) -> Binding:
        found = self.request
        return Binding(config=self.plan.config, context=found.context, task=found.task, keyring=found.keyring)

    def cut(self, name: str) -> list[bytes]:
        data = getattr(self.request, name)
        size = len(data) // len(self.members)
        return [data[place * size : (place + 1) * size] for place in range(len(self.members))]

    @property
    def members(self) -> list[int]:
        return m.unpack_ids("members", self.request.members, self.plan.config.clients).tolist()

    def record(self, member: int) -> Record:
        return Record.unpack(self.cut("records")[self.members.index(member)], self.plan.config)

    def of(self, *members: int) -> bytes:
        """Show these members only."""
        places = [self.members.index(one) for one in members]
        found = {name: b"".join(self.cut(name)[place] for place in places) for name in ("records", "ciphertexts")}
        return changed(self.request, members=packed(*members), **found)

    def with_record(self, member: int, record: Record, ciphertext: bytes | None = None) -> bytes:
        records, texts, place = self.cut("records"), self.cut("ciphertexts"), self.members.index(member)
        records[place], texts[place] = record.pack(), texts[place] if ciphertext is None else ciphertext
        return changed(self.request, records=b"".join(records), ciphertexts=b"".join(texts))

    def signed(
        self, member: int, identity: Identity | None = None, as_member: int | None = None, **changes: Any
    ) -> bytes:
        """Show a record with these changes that its member has signed."""
        record = replace(self.record(member), **changes)
        own = member if as_member is None else as_member
        text = self.about.text(own, record.key, record.boxes, record.digests, record.tag)
        signature = (identity or self.plan.identity(member)).sign(text)
        return self.with_record(member, replace(record, signature=signature))


def _boxes(party: HelperParty) -> None:
    """Give a helper boxes of which some do not fit; it names them in *confirm*, and refuses the question."""
    for place in (1, 2):
        shown = Shown(party.plan, party.request(place))
        party.tries(place, {f"step {place}: {reason}": request for reason, request in _unfit(shown, place).items()})


def _unfit(shown: Shown, place: int) -> dict[str, bytes]:
    plan, good, first, third = shown.plan, shown.request, shown.record(0), shown.record(3)
    own, text = 16, shown.about.text(3, third.key, third.boxes, third.digests, third.tag)
    neutral = neutral_signature(plan.identity(3).seed, text)
    records, texts = shown.cut("records"), shown.cut("ciphertexts")
    two = records[1], records[4]
    crossed = [records[1], records[0], *records[2:]], [texts[1], texts[0], *texts[2:]]
    found = {
        "a box with one wrong bit, signed": shown.signed(3, boxes=flipped(third.boxes, own)),
        "the last bit of a box, signed": shown.signed(3, boxes=flipped(third.boxes, own + 15)),
        "the box of another helper, signed": shown.signed(
            3, boxes=third.boxes[:own] + third.boxes[:own] + third.boxes[2 * own :]
        ),
        "the box of another member, signed": shown.signed(3, boxes=first.boxes),
        "all of another member, signed": shown.signed(
            3, key=first.key, boxes=first.boxes, digests=first.digests, tag=first.tag
        ),
        "a key of low order, signed": shown.signed(3, key=bytes(32)),
        "another key of low order, signed": shown.signed(3, key=b"\x01" + bytes(31)),
        "a key that is not reduced, signed": shown.signed(3, key=b"\xff" * 31 + b"\x7f"),
        "the highest bit of a key, signed": shown.signed(3, key=third.key[:31] + bytes([third.key[31] | 0x80])),
        "another key, signed": shown.signed(3, key=first.key),
        "a box for another helper with one wrong bit, not signed": shown.with_record(
            3, replace(third, boxes=flipped(third.boxes))
        ),
        "a tag with one wrong bit, not signed": shown.with_record(3, replace(third, tag=flipped(third.tag))),
        "a signature with one wrong bit": shown.with_record(3, replace(third, signature=flipped(third.signature))),
        "an R of small order": shown.with_record(3, replace(third, signature=neutral)),
        "made up by the hub": shown.signed(3, Identity(sample("a hub"))),
        "signed by another member": shown.signed(3, plan.identity(1)),
        "signed in the name of another member": shown.signed(3, as_member=2),
        "two members in each other's place": changed(
            good, records=b"".join(crossed[0]), ciphertexts=b"".join(crossed[1])
        ),
        "another task": changed(good, task=flipped(good.task)),
        "another keyring": changed(good, keyring=flipped(good.keyring)),
        "two that do not fit": changed(good, records=b"".join(flipped(one) if one in two else one for one in records)),
    }
    if place == 1:
        found |= {"of one member": shown.of(3), "of two members": shown.of(0, 4)}
    return found


def _other_ciphertext(shown: Shown, member: int) -> bytes:
    record, text = shown.record(member), flipped(shown.cut("ciphertexts")[member])
    digests = record.digests[:32] + ciphertext_digest(text)
    said = replace(record, digests=digests)
    text_of = shown.about.text(member, said.key, said.boxes, said.digests, said.tag)
    signature = shown.plan.identity(member).sign(text_of)
    return shown.with_record(member, replace(said, signature=signature), text)


def _questions(party: HelperParty) -> None:
    plan, shown = party.plan, Shown(party.plan, party.request(2))
    right, context, task = party.history[2][0], party.context, plan.task
    question = question_digest(shown.request, party.client)
    asked = {"about": "question", "context": context, "question": question}
    other = {**asked, "question": sample("another question")}

    def answer(context: bytes, task: bytes = task, charter: bytes = plan.agreed.digest) -> Case:
        return {"about": "answer", "charter": charter, "task": task, "context": context}

    elsewhere = sample("another round")
    party.tries(
        2,
        {
            "three members, the fewest": shown.of(0, 2, 4),
            "two members": shown.of(0, 3),
            "one member": shown.of(3),
            "nobody": changed(shown.request, members=b"", records=b"", ciphertexts=b""),
            "too few, then the right question": [shown.of(0, 3), right],
            "a question, the same again, another one, and the first again": [right, right, shown.of(0, 1, 2, 4), right],
            "all members after a question about fewer": [shown.of(0, 1, 2, 4), right],
            "another task after a question": [right, changed(shown.request, task=flipped(task))],
            "another keyring after a question": [right, changed(shown.request, keyring=flipped(shown.request.keyring))],
            "a question that another process answered": [(right, {"memory": [other]})],
            "this question, noted before a crash": [(right, {"memory": [asked, answer(context)]})],
            "a task that was answered in another round": [(right, {"memory": [answer(elsewhere)]})],
            "a task that was answered in another round, which is forgotten": [
                (right, {"memory": [answer(elsewhere)]}),
                (right, {"memory": []}),
            ],
            "another task that was answered in another round": [
                (right, {"memory": [answer(elsewhere, sample("another task"))]})
            ],
            "the task was answered under another charter": [
                (right, {"memory": [answer(elsewhere, charter=sample("another charter"))]})
            ],
        },
    )


def _times(party: HelperParty) -> None:
    first, boxes, question = (request for request, _ in party.history)
    time = int.from_bytes(party.reply(0).not_after, "little")
    end, last = {"now": time}, {"now": time - 1}
    party.tries(
        1,
        {
            "keys once more, in the last second": (first, last),
            "boxes in the last second": (boxes, last),
            "a question in the last second, once more, and after it": [(question, last), question, (question, end)],
            "keys once more, when their time is up": (first, end),
            "boxes when the time of the keys is up": (boxes, end),
            "a question when the time of the keys is up": (question, end),
            "other keys, once those whose time is up are gone": [(first, end), first, first],
            "no other keys after an answer whose time is up": [question, (first, end), first],
            "a question after time was up, with an earlier clock": [(question, end), (question, {"now": NOW})],
        },
    )


def _noisy() -> Party:
    """Make a helper under a charter with noise: each vector is charged for, so a task may come again."""
    plan = plan_of("helping with noise", 5, length=0, **NOISY)
    party = HelperParty.of("helper, noise", Scene(plan), 5)
    right, context = party.history[2][0], party.context
    answered = {"about": "answer", "charter": plan.agreed.digest, "task": plan.task, "context": sample("another round")}
    asked = {"about": "question", "context": context, "question": sample("another question")}
    party.tries(
        2,
        {
            "a task that was answered in another round": (right, {"memory": [answered]}),
            "another question about this round": (right, {"memory": [asked]}),
        },
    )
    return party
