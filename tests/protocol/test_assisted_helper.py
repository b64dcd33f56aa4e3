"""A helper gives each round one key, answers one question, and refuses everything else without a trace."""

import copy
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from assisted_rounds import (
    DAY,
    NOW,
    TASK,
    AssistedPlay,
    Clock,
    Home,
    changed,
    federation,
    fields,
    flipped,
    read,
    transcript,
)
from ccesa import words
from ccesa.crypto import masks, primitives
from ccesa.errors import CcesaError, ConfigError, FaultyServer, OrderError, TaskSpent, UsageError
from ccesa.helper_keys import HelperKey, ProcessKeys
from ccesa.memory import ANSWER, QUESTION, Entry, FolderMemory, ProcessMemory
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.protocol import assisted_helper, assisted_server
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import KEY_MARGIN, Helper
from ccesa.protocol.submission import Binding, Record, boxes_digest, confirmed_text, question_digest, sum_text
from ccesa.simulate.enrolment import Enrolment, make_charter
from rounds import CONFIGURE, Play, identity

HYBRID = "x25519-mlkem768"
each_agreement = pytest.mark.parametrize(
    "agreement", ["x25519", pytest.param(HYBRID, marks=pytest.mark.needs("ml-kem"))]
)
MESSAGES = transcript()
HELPER = 4
#: When the keys of these rounds are gone.
END = NOW + 7 * DAY - KEY_MARGIN
#: A helper's requests, by the step that they belong to.
OWN = (m.HelperKeysRequest, m.ConfirmBoxesRequest, m.UnmaskSumRequest)
STATES = ("fresh", "keyed", "confirmed", "answered", "over")


def asked(state: str, **options) -> tuple[AssistedPlay, dict[type[m.Message], bytes]]:
    """A round of four whose helper 4 is in this state, and every request to it, which are all honest ones."""
    play, requests = AssistedPlay(**options), {}
    requests[m.HelperKeysRequest] = play.requests[HELPER]
    ahead = AssistedPlay(**options)  # the same keys and bytes: it shows what will be asked
    ahead.until("confirm")
    requests[m.ConfirmBoxesRequest] = ahead.requests[HELPER]
    for helper, request in ahead.requests.items():
        ahead.server.receive(helper, ahead.ask(helper, request))
    ahead.close()
    requests[m.UnmaskSumRequest] = ahead.requests[HELPER]
    order = {"fresh": 0, "keyed": 1, "confirmed": 2, "answered": 3, "over": 3}[state]
    for kind in OWN[:order]:
        play.helpers[HELPER].receive(requests[kind])
    if state == "over":
        play.helpers[HELPER].leave()
    return play, requests


def kept(play: AssistedPlay, helper: int = HELPER) -> tuple[list[Entry], HelperKey | None]:
    """Everything that a helper has written."""
    home = play.homes[helper]
    entries = [one for about in (QUESTION, ANSWER) for one in home.memory.entries(about)]
    return sorted(entries), home.keys.get(play.config.context)


def refuses(play: AssistedPlay, request: bytes, match: str, kind: type[CcesaError] = FaultyServer) -> None:
    """Refused, and nothing has changed: neither on the disk nor in what the helper answers next."""
    before = kept(play)
    with pytest.raises(kind, match=match):
        play.helpers[HELPER].receive(request)
    assert kept(play) == before


# Its answers


def test_its_key_is_signed_for_this_round_and_lasts_for_key_days():
    play, requests = asked("fresh", key_days=3)
    reply = read(play.helpers[HELPER].receive(requests[m.HelperKeysRequest]))
    key = kept(play)[1]
    assert int.from_bytes(reply.not_after, "little") == key.not_after == int(NOW) + 3 * DAY - KEY_MARGIN
    assert reply.keys == primitives.public_key(primitives.private_key(key.secret))
    assert key.answer == key.question == b""


@pytest.mark.needs("ml-kem")
def test_a_hybrid_key_has_both_halves():
    play, requests = asked("fresh", agreement=HYBRID)
    reply = read(play.helpers[HELPER].receive(requests[m.HelperKeysRequest]))
    secret = kept(play)[1].secret
    assert len(secret) == 32 + 64
    assert reply.keys[32:] == primitives.public_key(primitives.kem_private_key(secret[32:]))


def test_keys_of_two_rounds_and_two_helpers_are_different():
    secrets = set()
    for number in range(2):
        play = AssistedPlay(number=number)
        for helper in play.config.helper_ids:
            play.new_helper(helper, random=os.urandom).receive(play.requests[helper])
            secrets.add(kept(play, helper)[1].secret)
    assert len(secrets) == 4


@each_agreement
def test_the_answer_is_the_sum_of_its_masks_with_tag_and_signature(agreement):
    play, requests = asked("confirmed", agreement=agreement)
    config, request = play.config, requests[m.UnmaskSumRequest]
    message, secret = read(request), kept(play)[1].secret
    total = words.zeros(config.masked_length, config.bits)
    binding = Binding(config=config, context=config.context, task=message.task, keyring=message.keyring)
    size, wide = len(message.records) // 4, len(message.ciphertexts) // 4
    for member in range(4):
        record = Record.unpack(message.records[member * size : (member + 1) * size], config)
        agreed = primitives.agree(primitives.private_key(secret[:32]), primitives.load_public_key(record.key))
        ciphertext = message.ciphertexts[member * wide : (member + 1) * wide]
        if ciphertext:
            agreed += primitives.kem_private_key(secret[32:]).decapsulate(ciphertext)
        key = binding.mask_key(agreed, member, 0, record.key, ciphertext).key
        masks.add_masks(total, [masks.Mask(key, 1)], config.generator)
    reply = read(play.helpers[HELPER].receive(request))
    assert bytes(reply.vector) == total.tobytes()
    text = sum_text(config.context, HELPER, question_digest(message, HELPER), reply.tag)
    primitives.verify(play.federation.helpers[0].public, reply.signature, text)


def test_confirming_uses_nothing_up():
    play, requests = asked("keyed")
    before = kept(play)
    replies = [play.helpers[HELPER].receive(requests[m.ConfirmBoxesRequest]) for _ in range(3)]
    assert len(set(replies)) == 1
    assert kept(play) == before
    assert read(replies[0]).refused == b""
    boxes = boxes_digest(read(requests[m.ConfirmBoxesRequest]), HELPER)
    text = confirmed_text(play.config.context, HELPER, boxes, b"")
    primitives.verify(play.federation.helpers[0].public, read(replies[0]).signature, text)


def test_an_answer_needs_no_confirmation_before_it():
    """Boxes are checked with the question itself: a helper that was restarted remembers none."""
    play, requests = asked("keyed")
    first = play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])
    assert first == asked("confirmed")[0].helpers[HELPER].receive(requests[m.UnmaskSumRequest])


def test_workers_may_sum_the_masks(monkeypatch):
    monkeypatch.setattr("ccesa.workers.PART_BYTES", 64)
    monkeypatch.setattr("ccesa.workers.PART_STREAM_BYTES", 64)
    play, requests = asked("confirmed", length=500)
    with ThreadPoolExecutor(2) as executor:
        by_workers = play.new_helper(HELPER, executor=executor).receive(requests[m.UnmaskSumRequest])
    assert by_workers == asked("confirmed", length=500)[0].helpers[HELPER].receive(requests[m.UnmaskSumRequest])


# Every state and every input


#: What becomes of each request in each state: an answer, or the words of the refusal.
FOLLOWS = {
    ("fresh", m.HelperKeysRequest): None,
    ("fresh", m.ConfirmBoxesRequest): "has no key for this round",
    ("fresh", m.UnmaskSumRequest): "has no key for this round",
    ("keyed", m.HelperKeysRequest): None,
    ("keyed", m.ConfirmBoxesRequest): None,
    ("keyed", m.UnmaskSumRequest): None,
    ("confirmed", m.HelperKeysRequest): None,
    ("confirmed", m.ConfirmBoxesRequest): None,
    ("confirmed", m.UnmaskSumRequest): None,
    ("answered", m.HelperKeysRequest): "its key is gone",
    ("answered", m.ConfirmBoxesRequest): "its key is gone",
    ("answered", m.UnmaskSumRequest): None,
    ("over", m.HelperKeysRequest): "its key is gone",
    ("over", m.ConfirmBoxesRequest): "has no key for this round",
    ("over", m.UnmaskSumRequest): "has no key for this round",
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("state", "kind"), FOLLOWS)
def test_every_state_and_every_request(state, kind, restarted):
    """Also right after a restart; and the same request again gets the same bytes."""
    play, requests = asked(state)
    if restarted:
        play.helpers[HELPER] = play.new_helper(HELPER)
    if FOLLOWS[state, kind]:
        refuses(play, requests[kind], FOLLOWS[state, kind])
        return
    first = play.helpers[HELPER].receive(requests[kind])
    assert read(first).client == HELPER
    assert play.helpers[HELPER].receive(requests[kind]) == first
    assert play.new_helper(HELPER).receive(requests[kind]) == first


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", [kind for kind in MESSAGES if kind not in OWN])
def test_no_state_takes_another_message(state, kind):
    play, _ = asked(state)
    refuses(play, changed(MESSAGES[kind], client=HELPER), "a message that no helper answers")


@pytest.mark.parametrize("guard", CONFIGURE)
def test_no_message_of_another_guard(guard):
    play, _ = asked("keyed")
    foreign = Play(CONFIGURE[guard](4)).requests[0]
    refuses(play, changed(foreign, context=play.config.context, client=HELPER), "a message that no helper answers")


@pytest.mark.parametrize("state", ["keyed", "confirmed"])
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in OWN for name in fields(MESSAGES[kind])])
def test_every_field_has_its_size(state, kind, name):
    for agreement in ("x25519", HYBRID):
        play, requests = asked(state, agreement=agreement)
        data = getattr(read(requests[kind]), name)
        for spoilt in (data[:-1], data + b"\0", b"\0") if data else (b"\0",):
            refuses(play, changed(requests[kind], **{name: spoilt}), "expected|another number|which was never enrolled")


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"context": bytes(32)}, "another round"),
        ({"client": 0}, "expected a message for helper 4"),
        ({"client": 5}, "expected a message for helper 4"),
        ({"number": (1).to_bytes(4, "little")}, "another number"),
    ],
)
def test_every_request_is_for_this_helper_and_this_round(kind, change, match):
    play, requests = asked("confirmed")
    refuses(play, changed(requests[kind], **change), match)


def test_bytes_that_are_no_request():
    play, requests = asked("keyed")
    for data in (b"", b"\x90", requests[m.ConfirmBoxesRequest][:-1], requests[m.HelperKeysRequest] + b"\0"):
        refuses(play, data, "no helper answers|not a message|in a form")
    refuses(play, requests[m.UnmaskSumRequest] + bytes(10**5), "expected at most")
    with pytest.raises(UsageError, match="must be bytes"):
        play.helpers[HELPER].receive("text")


def test_calls_do_not_overlap():
    play, requests = asked("keyed")
    helper = play.helpers[HELPER]
    with helper._exclusive, pytest.raises(OrderError, match="still at work"):
        helper.receive(requests[m.HelperKeysRequest])


# Who fits: confirm


def of_members(request: bytes, *members: int) -> dict[str, bytes]:
    """The fields of a request about these members only."""
    message = read(request)
    every = m.unpack_ids("members", message.members, 100).tolist()
    chosen = [every.index(one) for one in members]
    parts = {"members": message.members, "records": message.records, "ciphertexts": message.ciphertexts}
    sizes = {name: len(data) // len(every) for name, data in parts.items()}
    return {
        name: b"".join(data[place * sizes[name] : (place + 1) * sizes[name]] for place in chosen)
        for name, data in parts.items()
    }


def spoilt(request: bytes, member: int, place: int, name: str = "records") -> bytes:
    """One bit of one member's part is another one."""
    data = getattr(read(request), name)
    return changed(request, **{name: flipped(data, member * (len(data) // 4) + place)})


def refused(play: AssistedPlay, request: bytes) -> list[int]:
    reply = read(play.helpers[HELPER].receive(request))
    return m.unpack_ids("refused", reply.refused, 4).tolist()


@each_agreement
def test_whatever_a_member_did_not_sign_is_named(agreement):
    """Key, each box, each digest, tag and signature: one bit anywhere in a record, or in the ciphertext."""
    play, requests = asked("keyed", agreement=agreement)
    request = requests[m.ConfirmBoxesRequest]
    size = m.record_bytes(agreement, 2)
    for place in range(0, size, 7):
        assert refused(play, spoilt(request, 2, place)) == [2]
    if agreement == HYBRID:
        for place in (0, 500, 1087):
            assert refused(play, spoilt(request, 1, place, "ciphertexts")) == [1]
    assert refused(play, request) == []


def test_records_in_the_name_of_others():
    play, requests = asked("keyed")
    data = read(requests[m.ConfirmBoxesRequest]).records
    size = len(data) // 4
    turned = data[size : 2 * size] + data[:size] + data[2 * size :]
    assert refused(play, changed(requests[m.ConfirmBoxesRequest], records=turned)) == [0, 1]


@pytest.mark.parametrize("name", ["task", "keyring"])
def test_boxes_of_another_task_and_other_keys(name):
    play, requests = asked("keyed")
    assert refused(play, changed(requests[m.ConfirmBoxesRequest], **{name: bytes(32)})) == [0, 1, 2, 3]


def resigned(play: AssistedPlay, request: bytes, member: int, **parts: bytes) -> bytes:
    """A record with other parts, which the member itself has signed: only the helper can see that it does not fit."""
    message = read(request)
    size = len(message.records) // 4
    start = member * size
    record = Record.unpack(message.records[start : start + size], play.config)
    said = {name: parts.get(name, getattr(record, name)) for name in ("key", "boxes", "digests", "tag")}
    binding = Binding(config=play.config, context=play.config.context, task=message.task, keyring=message.keyring)
    text = binding.text(member, said["key"], said["boxes"], said["digests"], said["tag"])
    again = Record(**said, signature=play.federation.identities[member].sign(text)).pack()
    return changed(request, records=message.records[:start] + again + message.records[start + size :])


@pytest.mark.parametrize("part", ["box", "other box", "key", "low order", "not reduced", "digest", "signature"])
def test_a_member_that_signs_what_does_not_fit(part):
    play, requests = asked("keyed", agreement=HYBRID if part == "digest" else "x25519")
    request = requests[m.ConfirmBoxesRequest]
    record = Record.unpack(read(request).records[: len(read(request).records) // 4], play.config)
    made = {
        "box": lambda: {"boxes": flipped(record.boxes)},
        "other box": lambda: {"boxes": flipped(record.boxes, 16)},
        "key": lambda: {"key": primitives.public_key(primitives.private_key(bytes(32)))},
        "low order": lambda: {"key": bytes(32)},
        "not reduced": lambda: {"key": (2**255 - 18).to_bytes(32, "little")},
        "digest": lambda: {"digests": flipped(record.digests)},
        "signature": lambda: {"tag": record.tag},
    }[part]()
    expected = [] if part in ("other box", "signature") else [0]
    assert refused(play, resigned(play, request, 0, **made)) == expected


def test_nothing_is_computed_about_what_nobody_signed(monkeypatch):
    """Refusals are no oracle: agreements and decapsulations come after the signature."""
    play, requests = asked("keyed")
    asked_about = []
    agree_each = assisted_helper.agree_each
    monkeypatch.setattr(
        assisted_helper, "agree_each", lambda *a: asked_about.extend(one.member for one in a[3]) or agree_each(*a)
    )
    assert refused(play, spoilt(requests[m.ConfirmBoxesRequest], 3, 0)) == [3]
    assert asked_about == [0, 1, 2]


def test_what_was_confirmed_is_not_computed_again(monkeypatch):
    play, requests = asked("confirmed")
    monkeypatch.setattr(primitives, "verify", lambda *_: pytest.fail("verified once more"))
    play.helpers[HELPER].receive(requests[m.ConfirmBoxesRequest])
    play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])


@pytest.mark.parametrize("change", ["record", "task", "keyring"])
def test_what_was_confirmed_stands_for_nothing_else(change):
    """Another record of the same member, or the same one under another task, is looked at anew."""
    play, requests = asked("confirmed")
    request = requests[m.ConfirmBoxesRequest]
    if change == "record":
        assert refused(play, spoilt(request, 0, 0)) == [0]
    else:
        assert refused(play, changed(request, **{change: bytes(32)})) == [0, 1, 2, 3]
    assert refused(play, request) == []


def test_a_member_that_was_confirmed_may_sign_another_vector():
    """A server that lost the first one asks about the second: its box is opened anew, and fits as well."""
    play, requests = asked("confirmed")
    again = resigned(play, requests[m.ConfirmBoxesRequest], 0, tag=bytes(16))
    assert refused(play, again) == []


@pytest.mark.parametrize("kind", [m.ConfirmBoxesRequest, m.UnmaskSumRequest])
def test_members_come_once_in_order_and_from_the_charter(kind):
    play, requests = asked("keyed")
    request = requests[kind]
    pair = of_members(request, 1, 0)
    refuses(play, changed(request, **pair), "not strictly ascending")
    refuses(play, changed(request, **of_members(request, 1, 1)), "not strictly ascending")
    strange = of_members(request, 0, 1) | {"members": m.pack_ids(np.array([0, HELPER]))}
    refuses(play, changed(request, **strange), "never enrolled")


# The question


def test_fewer_than_the_minimum():
    play, requests = asked("confirmed", min_survivors=3)
    request = requests[m.UnmaskSumRequest]
    refuses(play, changed(request, **of_members(request, 0, 1)), "2 clients in V3, the charter demands 3")
    refuses(play, changed(request, members=b"", records=b"", ciphertexts=b""), "0 clients in V3")
    assert play.helpers[HELPER].receive(changed(request, **of_members(request, 0, 1, 3)))


def test_one_box_that_does_not_fit():
    play, requests = asked("confirmed")
    for member, place in ((0, 0), (3, 40), (1, 120)):
        refuses(play, spoilt(requests[m.UnmaskSumRequest], member, place), f"client {member} is in V3, and its box")
    assert play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])


@pytest.mark.parametrize("restarted", [False, True])
def test_one_question_a_round(restarted):
    """Without the rule the difference of two answers is one member's mask."""
    play, requests = asked("answered")
    if restarted:
        play.helpers[HELPER] = play.new_helper(HELPER)
    request = requests[m.UnmaskSumRequest]
    refuses(play, changed(request, **of_members(request, 0, 1, 2)), "answered another question")


def test_one_question_a_round_also_if_the_answer_was_lost():
    """The question is in the memory before the answer is made: a crash in between lets nothing else through."""
    play, requests = asked("confirmed")
    request = requests[m.UnmaskSumRequest]
    play.homes[HELPER].memory.add(Entry(QUESTION, play.config.context + question_digest(read(request), HELPER)))
    refuses(play, changed(request, **of_members(request, 0, 1, 2)), "answered another question")
    assert play.helpers[HELPER].receive(request)


def with_memory_of(play: AssistedPlay, **options) -> AssistedPlay:
    """Another round with the same helpers."""
    return AssistedPlay(federated=play.federation, homes=play.homes, clock=play.clock, **options)


def test_one_round_a_task():
    """The same task in the next round, with one member fewer, would open that member's vector."""
    play = AssistedPlay()
    play.finish()
    again = with_memory_of(play, number=1).until("unmask", {3})
    refuses(again, again.requests[HELPER], "answered about this task in another round", TaskSpent)
    other = with_memory_of(play, number=2, task=bytes(32)).until("unmask")
    assert other.helpers[HELPER].receive(other.requests[HELPER])


def test_a_round_without_an_answer_leaves_its_task_free():
    play = AssistedPlay().until("unmask")
    again = with_memory_of(play, number=1)
    again.finish()
    again.check_sum()
    refuses(play, play.requests[HELPER], "in another round", TaskSpent)


def test_another_charter_has_tasks_of_its_own():
    """The members' memories keep one task to one charter, so helpers need not."""
    play = AssistedPlay()
    play.finish()
    other = AssistedPlay(serial=2, homes=play.homes)
    other.finish()
    other.check_sum()


def noisy() -> Enrolment:
    demand = DifferentialPrivacy(epsilon=3, delta=1e-6, rounds=10, norm=1.0)
    noise = choose_mechanism(demand, clients=4, honest=3, dimension=5)
    people, others = [identity(place) for place in range(4)], [identity(1000), identity(1001)]
    made = make_charter(people, helpers=others, bits=64, min_survivors=3, privacy=noise)
    return Enrolment(identities=people, helpers=others, charter=made)


def test_with_noise_a_task_may_come_again():
    """Every vector is charged. One question a round stays the rule."""
    federated = noisy()
    homes = {helper: Home() for helper in (4, 5)}
    for number in range(3):
        play = AssistedPlay(federated=federated, length=federated.charter.length, number=number, homes=homes)
        play.until("unmask", {number})
        question = play.requests[HELPER]
        play.finish()
        play.check_sum(sorted({0, 1, 2, 3} - {number}))
        other = spoilt(question, 0, 0)
        refuses(play, other, "answered another question")


# Expiry


@pytest.mark.parametrize("state", ["keyed", "confirmed", "answered"])
@pytest.mark.parametrize("kind", OWN)
def test_at_its_time_the_key_is_gone_used_or_not(state, kind):
    play, requests = asked(state)
    play.clock.now = END - 1
    play.new_helper(HELPER).receive(requests[m.UnmaskSumRequest])
    assert kept(play)[1] is not None
    play.clock.now = END
    with pytest.raises(FaultyServer, match="has expired"):
        play.helpers[HELPER].receive(requests[kind])
    assert kept(play)[1] is None
    for later in (m.ConfirmBoxesRequest, m.UnmaskSumRequest):
        refuses(play, requests[later], "has no key for this round")


def test_after_an_unused_key_has_expired_the_round_can_get_another():
    play, requests = asked("keyed")
    before = kept(play)[1]
    play.clock.now = END
    with pytest.raises(FaultyServer, match="has expired"):
        play.helpers[HELPER].receive(requests[m.HelperKeysRequest])
    play.helpers[HELPER] = play.new_helper(HELPER, random=os.urandom)
    assert play.helpers[HELPER].receive(requests[m.HelperKeysRequest])
    assert kept(play)[1].secret != before.secret
    assert refused(play, requests[m.ConfirmBoxesRequest]) == [0, 1, 2, 3]


def test_after_an_answer_no_other_key_is_made():
    play, requests = asked("answered")
    play.clock.now = END
    with pytest.raises(FaultyServer, match="has expired"):
        play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])
    refuses(play, requests[m.HelperKeysRequest], "answered in this round; its key is gone")


def test_an_expired_charter():
    people = [identity(place) for place in range(4)]
    helpers = [identity(1000), identity(1001)]
    made = make_charter(people, helpers=helpers, bits=16, expires=int(NOW) + 60)
    play = AssistedPlay(federated=Enrolment(identities=people, helpers=helpers, charter=made))
    request = play.requests[HELPER]
    play.clock.now += 60
    refuses(play, request, "expired", ConfigError)
    with pytest.raises(ConfigError, match="expired"):
        play.new_helper(HELPER)


def test_the_answer_takes_the_place_of_the_key():
    play, requests = asked("confirmed")
    secret, not_after = kept(play)[1].secret, kept(play)[1].not_after
    reply = play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])
    key = kept(play)[1]
    assert (key.secret, key.answer, key.not_after) == (b"", reply, not_after)
    assert not play.helpers[HELPER]._round.confirmed
    assert secret not in repr(vars(play.helpers[HELPER])).encode()


def test_who_leaves_destroys_key_and_answer():
    for state in STATES:
        play, _ = asked(state)
        play.helpers[HELPER].leave()
        assert kept(play)[1] is None
        assert not play.helpers[HELPER]._round.confirmed


# Crashes


class Crash(BaseException):
    """The process is gone."""


class Crashing:
    """A home that stops after so many writes, before or after the last of them is done."""

    def __init__(self, home: Home, writes: int, done: bool) -> None:
        self.left, self.done = writes, done
        self.memory, self.keys = home.memory, home.keys
        self.written: list[str] = []
        self.memory.add = self._counted("memory", self.memory.add)
        self.keys.put = self._counted("keys", self.keys.put)

    def _counted(self, name, write):
        def counted(*arguments):
            self.left -= 1
            if not self.left and not self.done:
                raise Crash
            result = write(*arguments)
            self.written.append(name)
            if not self.left:
                raise Crash
            return result

        return counted


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("writes", range(1, 5))
def test_a_crash_between_any_two_writes(tmp_path, writes, done):
    """Key, question, answer's task, answer. Afterwards the same question has the same bytes, and no other has any."""
    play, requests = asked("fresh")
    right = {}
    there, _ = asked("fresh")
    for kind in OWN:
        right[kind] = there.helpers[HELPER].receive(requests[kind])
    play.homes[HELPER] = Home(tmp_path)
    crashing = Crashing(play.homes[HELPER], writes, done)
    helper = play.new_helper(HELPER, crashing)
    gone = None
    for kind in OWN:
        try:
            assert helper.receive(requests[kind]) == right[kind]
        except Crash:
            gone = kind
            break
    assert gone is (m.HelperKeysRequest if writes == 1 else m.UnmaskSumRequest)
    for data in (requests[gone],):
        with pytest.raises(OrderError, match="interrupted"):
            helper.receive(data)
    again = play.new_helper(HELPER)
    question = requests[m.UnmaskSumRequest]
    smaller = changed(question, **of_members(question, 0, 1, 2))
    if gone is m.HelperKeysRequest:
        assert again.receive(requests[gone]) == right[gone]
        return
    asked_for = (QUESTION, play.config.context + question_digest(read(question), HELPER))
    if Entry(*asked_for) in play.homes[HELPER].memory:
        with pytest.raises(FaultyServer, match="another question"):
            again.receive(smaller)
        assert again.receive(question) == right[m.UnmaskSumRequest]
    else:  # nothing was written, nothing has left: it may still be asked for less
        assert again.receive(smaller) != right[m.UnmaskSumRequest]
        with pytest.raises(FaultyServer, match="another question"):
            again.receive(question)


@pytest.mark.parametrize("writes", range(1, 3))
def test_a_disk_that_is_full_lets_no_answer_leave(writes, tmp_path):
    """The error is the system's; afterwards the same helper goes on."""
    play, requests = asked("confirmed")
    memory = play.homes[HELPER].memory
    add, left = memory.add, [writes]

    def full(entry):
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")
        return add(entry)

    memory.add = full
    with pytest.raises(OSError, match="No space"):
        play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])
    assert kept(play)[1].answer == b""
    assert play.helpers[HELPER].receive(requests[m.UnmaskSumRequest])


# Races


def test_two_processes_with_one_question_give_the_same_bytes(tmp_path):
    """Each has read the key before the other writes."""
    play, requests = asked("keyed")
    home = Home(tmp_path)
    home.keys.put(play.config.context, kept(play)[1])
    one, other = (play.new_helper(HELPER, home) for _ in range(2))
    question = requests[m.UnmaskSumRequest]
    said = []
    memory = one._round.memory
    add = memory.add
    memory.add = lambda entry: ((said or said.append(other.receive(question))) and None) or add(entry)
    assert one.receive(question) == said[0]


def test_two_processes_with_two_questions_answer_one_at_most(tmp_path):
    """Both have looked before either has written: each sees the other's entry when it looks again."""
    play, requests = asked("keyed")
    home = Home(tmp_path)
    home.keys.put(play.config.context, kept(play)[1])
    question = requests[m.UnmaskSumRequest]
    smaller = changed(question, **of_members(question, 0, 1, 2))
    one, other = (play.new_helper(HELPER, home) for _ in range(2))
    memory, late = one._round.memory, []
    add = memory.add

    def add_late(entry):
        if entry.about == QUESTION and not late:
            late.append(None)
            other.receive(smaller)  # it looks, writes and answers, after this one has looked
        return add(entry)

    memory.add = add_late
    with pytest.raises(FaultyServer, match="another process of this helper has answered"):
        one.receive(question)
    with pytest.raises(FaultyServer, match="another question"):
        play.new_helper(HELPER, home).receive(question)


def test_two_processes_with_one_task_in_two_rounds_answer_one_at_most(tmp_path):
    play = AssistedPlay().until("unmask")
    there = AssistedPlay(number=1).until("unmask")
    home = Home(tmp_path)
    for one in (play, there):
        home.keys.put(one.config.context, kept(one)[1])
    helper, other = play.new_helper(HELPER, home), there.new_helper(HELPER, home)
    memory, late = helper._round.memory, []
    add = memory.add

    def add_late(entry):
        if not late:
            late.append(None)
            other.receive(there.requests[HELPER])
        return add(entry)

    memory.add = add_late
    with pytest.raises(TaskSpent, match="in another round"):
        helper.receive(play.requests[HELPER])


def _answer(folder, question, barrier, replies):
    play, _ = asked("fresh")
    helper = play.new_helper(HELPER, Home(folder))
    barrier.wait()
    try:
        replies.put((question, helper.receive(question)))
    except FaultyServer as fault:
        replies.put((question, str(fault)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_real_processes_with_the_same_folder(tmp_path):
    """Four processes, two questions at the same moment: all answers that leave are to one of them."""
    play, requests = asked("keyed")
    Home(tmp_path).keys.put(play.config.context, kept(play)[1])
    question = requests[m.UnmaskSumRequest]
    smaller = changed(question, **of_members(question, 0, 1, 2))
    forking = multiprocessing.get_context("fork")
    barrier, replies = forking.Barrier(4), forking.Queue()
    work = [
        forking.Process(target=_answer, args=(tmp_path, one, barrier, replies))
        for one in (question, smaller, question, smaller)
    ]
    for one in work:
        one.start()
    found = [replies.get(timeout=60) for _ in work]
    for one in work:
        one.join()
    answers = {(asked_for, said) for asked_for, said in found if isinstance(said, bytes)}
    assert len(answers) <= 1
    refusals = {said for _, said in found if isinstance(said, str)}
    assert all("another question" in said or "another process" in said for said in refusals)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_of_a_helper_answers_the_same_and_nothing_else(tmp_path):
    """A helper has no one-time secret in its process that a fork could use twice: the folder decides."""
    play, requests = asked("keyed")
    home = Home(tmp_path)
    home.keys.put(play.config.context, kept(play)[1])
    helper, question = play.new_helper(HELPER, home), requests[m.UnmaskSumRequest]
    reply = helper.receive(question)
    child = os.fork()
    if not child:
        try:
            same = helper.receive(question) == reply
            helper.receive(changed(question, **of_members(question, 0, 1, 2)))
        except FaultyServer:
            os._exit(0 if same else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# How it is made


def test_what_a_helper_is_made_of():
    play = AssistedPlay()
    good = {"memory": ProcessMemory(), "keys": ProcessKeys(), "clock": Clock()}
    make = partial(Helper, play.config, play.federation.helpers[0], play.charter)
    assert make(**good).helper == HELPER
    assert make(**good).context == play.config.context
    for name, bad, match in (
        ("memory", None, "memory: expected a FolderMemory"),
        ("memory", set(), "memory: expected a FolderMemory"),
        ("keys", None, "keys: expected a FolderKeys"),
        ("keys", {}, "keys: expected a FolderKeys"),
        ("threads", -1, "threads"),
        ("executor", 3, "executor"),
    ):
        with pytest.raises(ConfigError, match=match):
            make(**good | {name: bad})
    with pytest.raises(ConfigError, match="not among the charter's helpers"):
        Helper(play.config, play.federation.identities[0], play.charter, **good)
    with pytest.raises(ConfigError):
        Helper(federation(serial=2).charter.config(length=5), play.federation.helpers[0], play.charter, **good)
    with pytest.raises(ConfigError, match="identity"):
        Helper(play.config, "identity", play.charter, **good)


def test_a_helper_is_not_copied():

    helper = AssistedPlay().helpers[HELPER]
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(helper)


def test_a_member_that_helps_has_two_ids():
    people = [identity(place) for place in range(4)]
    helpers = [people[2], identity(1000)]
    made = make_charter(people, helpers=helpers, bits=16)
    play = AssistedPlay(federated=Enrolment(identities=people, helpers=helpers, charter=made))
    assert play.charter.party_names[4] == "client-2 (helper)"
    play.finish()
    play.check_sum()


def test_the_folder_has_nothing_but_names_of_what_was_done(tmp_path):
    play, requests = asked("keyed")
    home = Home(tmp_path)
    home.keys.put(play.config.context, kept(play)[1])
    play.new_helper(HELPER, home).receive(requests[m.UnmaskSumRequest])
    names = sorted(path.name for path in (tmp_path / "memory").iterdir())
    assert [name.partition("-")[0] for name in names] == ["answer", "question"]
    assert all(not path.stat().st_size for path in (tmp_path / "memory").iterdir())
    memory = FolderMemory(tmp_path / "memory")
    memory.sweep(NOW + 400 * DAY)
    assert len(list((tmp_path / "memory").iterdir())) == 2


def test_helpers_and_servers_agree_on_ids():
    play = AssistedPlay().until("mask")
    assert list(play.config.helper_ids) == [4, 5]
    assert isinstance(play.server._state, assisted_server.Gathering)
    assert read(play.requests[0]).task == TASK
