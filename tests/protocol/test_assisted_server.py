"""A server under ``assisted``: every state and every input, what is refused by name, and who is left out."""

import numpy as np
import pytest

from assisted_rounds import DAY, NOW, STEPS, AssistedPlay, changed, fields, flipped, read, transcript
from ccesa import labels, words
from ccesa.crypto import check_words, masks, primitives
from ccesa.crypto.keys import vector_tag
from ccesa.errors import (
    ConflictingMessage,
    CorruptSum,
    FaultyClient,
    HelpersMissing,
    LateMessage,
    OrderError,
    TooFewClients,
)
from ccesa.evidence import Accusation
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_server import Asking, Gathering, Opened, Summoning, binding_of
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.submission import boxes_digest, confirmed_text, keys_text, question_digest, sum_text

HYBRID = "x25519-mlkem768"
each_agreement = pytest.mark.parametrize(
    "agreement", ["x25519", pytest.param(HYBRID, marks=pytest.mark.needs("ml-kem"))]
)
MESSAGES = transcript()
#: The reply of each step, and that of helpers beside mask; the sender.
REPLIES = {
    "key": (m.HelperKeysReply, 4),
    "mask": (m.BoxedMaskReply, 0),
    "confirm": (m.ConfirmBoxesReply, 4),
    "unmask": (m.UnmaskSumReply, 4),
}


def state_of(play: AssistedPlay) -> tuple[object, ...]:
    """Everything about a round that a refused message must not change."""
    server, state = play.server, play.server._state
    total = getattr(state, "total", np.zeros(0)).tobytes()
    kept = [getattr(state, name, None) for name in ("pending", "summed", "confirmed", "asked", "shown", "answers")]
    return server.waiting, set(server.answered), server.taken, server.held, total, repr(kept)


def refuses(
    play: AssistedPlay, party: int, reply: bytes, match: str | None, kind: type[FaultyClient] = FaultyClient
) -> None:
    """Refused, the sender named, and nothing else has changed."""
    before = state_of(play)
    with pytest.raises(kind, match=match) as fault:
        play.server.receive(party, reply)
    assert fault.value.client == party
    assert state_of(play) == before


def answered(name: str, **options) -> tuple[AssistedPlay, int, bytes]:
    """A round in this step, and an honest reply in it that the server has not heard."""
    play, party = AssistedPlay(**options).until(name), REPLIES[name][1]
    return play, party, play.ask(party, play.requests[party])


def finishes(play: AssistedPlay, party: int, reply: bytes) -> None:
    """The honest reply is still taken, the others are, and the sum is the plain one."""
    play.server.receive(party, reply)
    for other in play.requests.keys() - {party}:
        play.server.receive(other, play.ask(other, play.requests[other]))
    play.confirm()
    play.close()
    play.finish()
    play.check_sum()


# Every state and every input


def test_the_states_are_those_of_the_table():
    play, found = AssistedPlay(), []
    while play.requests:
        found.append((play.server.step.name, type(play.server._state)))
        play.step()
    assert found == list(zip(STEPS, (Summoning, Gathering, Asking), strict=True))
    assert isinstance(play.server._state, Opened)


@pytest.mark.parametrize("state", STEPS)
@pytest.mark.parametrize("kind", MESSAGES)
def test_every_state_takes_its_own_replies_only(state, kind):
    play = AssistedPlay().until(state)
    due = [one for name, (one, _) in REPLIES.items() if name == state or (state, name) == ("mask", "confirm")]
    party = read(MESSAGES[kind]).client
    if kind in due and kind is not m.ConfirmBoxesReply:
        play.server.receive(party, MESSAGES[kind])  # all rounds of the transcript have the same bytes
        return
    early = LateMessage if _place(kind) < STEPS.index(state) else FaultyClient
    refuses(play, party, MESSAGES[kind], None, early)
    refuses(play, 4 if party == 0 else 0, changed(MESSAGES[kind], client=4 if party == 0 else 0), None)


def _place(kind: type[m.Message]) -> int:
    places = {m.HelperKeysReply: 0, m.BoxedMaskReply: 1, m.ConfirmBoxesReply: 1, m.UnmaskSumReply: 2}
    return places.get(kind, len(STEPS))


@pytest.mark.parametrize("kind", MESSAGES)
def test_nothing_is_taken_when_the_round_is_over(kind):
    play = AssistedPlay()
    play.finish()
    with pytest.raises((FaultyClient, OrderError)):
        play.server.receive(read(MESSAGES[kind]).client, MESSAGES[kind])
    play.check_sum()


@pytest.mark.parametrize("name", REPLIES)
@each_agreement
def test_no_byte_of_a_reply_can_be_changed(name, agreement):
    """Whatever field it is in; the vector by its tag, and everything else by a signature."""
    play, party, reply = answered(name, agreement=agreement)
    for field in fields(reply):
        data = bytes(getattr(read(reply), field))
        for place in range(0, len(data), max(1, len(data) // 7)):
            refuses(play, party, changed(reply, **{field: flipped(data, place)}), None)
        for spoilt in {data[:-1], data + b"\0"} - {data}:
            refuses(play, party, changed(reply, **{field: spoilt}), None)
    finishes(play, party, reply)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_of_this_round_and_its_sender(name):
    play, party, reply = answered(name)
    refuses(play, party, changed(reply, context=bytes(32)), "another round")
    refuses(play, party, changed(reply, client=party + 1), "in the name of")
    refuses(play, 99, reply, "never enrolled")
    refuses(play, -1, reply, "never enrolled")
    refuses(play, party, reply[:-1], None)
    refuses(play, party, reply + bytes(10**5), "expected at most")
    finishes(play, party, reply)


@pytest.mark.parametrize("name", REPLIES)
def test_the_same_reply_again_changes_nothing(name):
    play, party, reply = answered(name)
    play.server.receive(party, reply)
    before = state_of(play)
    for _ in range(2):
        play.server.receive(party, reply)
        assert state_of(play) == before
    finishes(play, party, reply)


def resigned(play: AssistedPlay, name: str, reply: bytes, **changes: bytes) -> bytes:
    """Another answer, as only its sender can give it: with the right tag and the right signature."""
    message = read(changed(reply, **changes))
    context, client = play.config.context, message.client
    if "vector" in changes:
        message = read(changed(message.encode(), tag=vector_tag(message.vector, context, client)))
    if name == "key":
        text = keys_text(context, client, message.not_after, message.keys)
    elif name == "confirm":
        text = confirmed_text(context, client, message.boxes, message.refused)
    else:
        question = question_digest(read(play.requests[client]), client)
        text = sum_text(context, client, question, message.tag)
    signature = play.federation.helpers[client - play.config.clients].sign(text)
    return changed(message.encode(), signature=signature)


@pytest.mark.parametrize("name", REPLIES)
def test_a_second_different_answer_is_a_conflict(name):
    play, party, reply = answered(name)
    play.server.receive(party, reply)
    if name == "mask":
        other = play.new_member(0, random=bytes).receive(play.requests[0])
    else:
        more = {
            "key": {"not_after": int(NOW + DAY).to_bytes(8, "little")},
            "confirm": {"refused": m.pack_ids(np.array([1]))},
            "unmask": {"vector": bytes(play.config.masked_bytes)},
        }[name]
        other = resigned(play, name, reply, **more)
    refuses(play, party, other, "different answer", FaultyClient if name == "confirm" else ConflictingMessage)
    finishes(play, party, reply)


@pytest.mark.parametrize("name", ["key", "mask"])
def test_a_late_reply_blames_nobody(name):
    play, party, reply = answered(name)
    if name == "key":
        play.server.receive(party, reply)
    play.step({party})
    refuses(play, party, reply, f"step {name} has closed", LateMessage)
    play.finish()
    play.check_sum((0, 1, 2, 3) if name == "key" else (1, 2, 3))


def test_a_late_confirmation_blames_nobody():
    play = AssistedPlay().until("mask")
    for member in (0, 1, 2):
        play.server.receive(member, play.ask(member, play.requests[member]))
    play.confirm()
    play.server.receive(3, play.ask(3, play.requests[3]))
    late = {helper: play.ask(helper, request) for helper, request in play.server.ask_helpers().items()}
    play.close()
    for helper, reply in late.items():
        refuses(play, helper, reply, "step mask has closed", LateMessage)
    play.finish()
    play.check_sum((0, 1, 2))


# Step key


@pytest.mark.parametrize(
    ("not_after", "match"),
    [(NOW, "has expired"), (NOW + 7 * DAY + 1, "longer than key_days"), (NOW + 7 * DAY, None), (NOW + 1, None)],
)
def test_keys_are_in_time(not_after, match):
    """Members would refuse them all, and nobody would be named."""
    play, party, reply = answered("key")
    reply = resigned(play, "key", reply, not_after=int(not_after).to_bytes(8, "little"))
    if match:
        refuses(play, party, reply, match)
    else:
        play.server.receive(party, reply)


@each_agreement
def test_keys_that_no_member_would_take(agreement):
    play, party, reply = answered("key", agreement=agreement)
    keys = read(reply).keys
    bad = [bytes(32) + keys[32:], (2**255 - 18).to_bytes(32, "little") + keys[32:]]
    bad += [keys[:32] + b"\xff" * 1184] if keys[32:] else []
    for one in (*bad, keys[:-1], keys + b"\0"):
        refuses(play, party, resigned(play, "key", reply, keys=one), "low order|not a valid ML-KEM|keys: expected")
    other = play.ask(5, play.requests[5])
    play.server.receive(party, reply)
    shown = read(other).keys
    for one in {keys[:32] + shown[32:], shown[:32] + keys[32:]} - {shown}:
        refuses(play, 5, resigned(play, "key", other, keys=one), "another helper has shown")
    play.server.receive(5, other)


@pytest.mark.parametrize("gone", [{4}, {5}, {4, 5}])
def test_without_all_helpers_no_vector_is_asked_for(gone):
    play = AssistedPlay()
    with pytest.raises(HelpersMissing) as missing:
        play.step(gone)
    assert missing.value.helpers == tuple(sorted(gone))
    assert play.server.failure is missing.value


# Step mask, and what goes beside it


def test_each_helper_is_asked_once_about_what_has_come():
    play = AssistedPlay().until("mask")
    assert play.server.ask_helpers() == {}
    asked = []
    for member in range(4):
        play.server.receive(member, play.ask(member, play.requests[member]))
        if member != 1:  # two at once
            found = play.server.ask_helpers()
            assert set(found) == {4, 5}
            asked.append(m.unpack_ids("members", read(found[4]).members, 4).tolist())
            for helper, request in found.items():
                play.server.receive(helper, play.ask(helper, request))
            assert play.server.held == 0
    assert asked == [[0], [1, 2], [3]]
    assert play.server.ask_helpers() == {}
    play.close()
    play.finish()
    play.check_sum()


@pytest.mark.needs("ml-kem")
def test_each_helper_gets_its_own_ciphertexts():
    play = AssistedPlay(agreement=HYBRID).until("confirm")
    one, other = (read(play.requests[helper]) for helper in (4, 5))
    assert one.records == other.records
    assert one.ciphertexts != other.ciphertexts
    assert len(one.ciphertexts) == 4 * 1088


def test_a_vector_waits_for_the_last_helper():
    play = AssistedPlay().until("confirm")
    zero = play.server._state.total.tobytes()
    for helper in (4, 5):
        assert play.server.held == 4
        assert play.server._state.total.tobytes() == zero
        play.server.receive(helper, play.ask(helper, play.requests[helper]))
    assert play.server.held == 0
    assert play.server._state.total.tobytes() != zero


@pytest.mark.parametrize("order", [(4, 5), (5, 4)])
@pytest.mark.parametrize("who", [{4}, {5}, {4, 5}])
def test_a_member_that_a_helper_refuses_is_left_out_and_named(order, who):
    """By a pair: one of the two lies. It costs nobody else anything."""
    play = AssistedPlay().until("confirm")
    for helper in order:
        reply = play.ask(helper, play.requests[helper])
        if helper in who:
            reply = resigned(play, "confirm", reply, refused=m.pack_ids(np.array([1])))
        play.server.receive(helper, reply)
    assert play.server.held == 0
    play.close()
    play.finish()
    play.check_sum((0, 2, 3))
    assert play.server.result().evidence.accusations == {Accusation(helper, 1) for helper in who}


def signed_otherwise(play: AssistedPlay, reply: bytes, **changes: bytes) -> bytes:
    """A member's reply with other fields, which it has signed itself."""
    message = read(changed(reply, **changes))
    tag = vector_tag(message.vector, play.config.context, message.client)
    sending = binding_of(play.server._round, play.server._state)
    text = sending.text(message.client, message.key, message.boxes, b"", tag)
    return changed(message.encode(), tag=tag, signature=play.federation.identities[message.client].sign(text))


@pytest.mark.parametrize("key", [bytes(32), (2**255 - 18).to_bytes(32, "little")])
def test_a_one_time_key_that_no_honest_member_has(key):
    play, party, reply = answered("mask")
    refuses(play, party, signed_otherwise(play, reply, key=key), "low order or not in reduced form")
    finishes(play, party, signed_otherwise(play, reply))


def test_a_box_that_fits_one_helper_only():
    """The member has signed it, so only the other helper sees it: found before the question, not after it."""
    play = AssistedPlay().until("mask")
    reply = play.ask(2, play.requests[2])
    lied = signed_otherwise(play, reply, boxes=flipped(read(reply).boxes, 16))
    for member in (0, 1, 3):
        play.server.receive(member, play.ask(member, play.requests[member]))
    play.server.receive(2, lied)
    play.confirm()
    play.close()
    play.finish()
    play.check_sum((0, 1, 3))
    assert play.server.result().evidence.accusations == {Accusation(5, 2)}


@pytest.mark.parametrize("what", ["boxes", "refused", "order", "strange", "not asked"])
def test_a_confirmation_is_about_what_was_asked(what):
    play = AssistedPlay().until("mask")
    for member in (0, 1):
        play.server.receive(member, play.ask(member, play.requests[member]))
    requests = play.server.ask_helpers()
    reply = play.ask(4, requests[4])
    said = {
        "boxes": {"boxes": bytes(32)},
        "refused": {"refused": b"\0"},
        "order": {"refused": m.pack_ids(np.array([1, 0]))},
        "strange": {"refused": m.pack_ids(np.array([4]))},
        "not asked": {"refused": m.pack_ids(np.array([2]))},
    }[what]
    refuses(play, 4, resigned(play, "confirm", reply, **said), "not asked about|multiple of 4|ascending|never enrolled")
    play.server.receive(4, reply)


def test_a_confirmation_of_the_other_helper_counts_for_nothing():
    """Its digest has the helper's own id in it."""
    play = AssistedPlay().until("confirm")
    stolen = changed(play.ask(4, play.requests[4]), client=5)
    refuses(play, 5, resigned(play, "confirm", stolen), "not asked about")


@pytest.mark.parametrize("silent", [{4}, {5}, {4, 5}])
def test_a_helper_that_confirms_nothing_is_named(silent):
    play = AssistedPlay().until("mask")
    for party, reply in play.replies().items():
        play.server.receive(party, reply)
    play.confirm(silent)
    with pytest.raises(HelpersMissing) as missing:
        play.close()
    assert missing.value.helpers == tuple(sorted(silent))


def test_what_is_not_confirmed_when_mask_closes_is_left_out():
    play = AssistedPlay().until("mask")
    for member in (0, 1, 3):
        play.server.receive(member, play.ask(member, play.requests[member]))
    play.confirm()
    play.server.receive(2, play.ask(2, play.requests[2]))
    play.confirm({5})
    play.close()
    assert m.unpack_ids("members", read(play.requests[4]).members, 4).tolist() == [0, 1, 3]
    play.finish()
    play.check_sum((0, 1, 3))


@pytest.mark.parametrize("refused", [0, 2])
def test_too_few_fit(refused):
    play = AssistedPlay(min_survivors=3).until("confirm", set() if refused else {0, 1})
    for helper, request in play.requests.items():
        reply = play.ask(helper, request)
        play.server.receive(helper, resigned(play, "confirm", reply, refused=m.pack_ids(np.arange(refused))))
    with pytest.raises(TooFewClients, match="the round needs 3"):
        play.close()


def test_the_caller_may_change_its_buffer():
    """Vectors wait for helpers, and the buffer of a reply belongs to who handed it in."""
    play = AssistedPlay().until("mask")
    for member, request in play.requests.items():
        buffer = bytearray(play.ask(member, request))
        play.server.receive(member, memoryview(buffer))
        buffer[:] = bytes(len(buffer))
    play.confirm()
    play.close()
    play.finish()
    play.check_sum()


def test_bytes_are_held_without_a_copy():
    play = AssistedPlay().until("mask")
    reply = play.ask(0, play.requests[0])
    play.server.receive(0, reply)
    assert play.server._state.pending[0].vector.obj is reply
    for other in (bytearray, memoryview, lambda data: memoryview(np.frombuffer(data, np.uint8).copy())):
        reply = other(play.ask(1, play.requests[1]))
        play.server.receive(1, reply)
        held = play.server._state.pending[1].vector
        assert isinstance(held.obj, bytes)
        play = AssistedPlay().until("mask")


# Step unmask


def test_every_helper_gets_one_question_about_the_same_members():
    play = AssistedPlay().until("unmask", {2})
    one, other = (read(play.requests[helper]) for helper in (4, 5))
    assert (one.members, one.records) == (other.members, other.records)
    assert m.unpack_ids("members", one.members, 4).tolist() == [0, 1, 3]
    assert question_digest(one, 4) != question_digest(one, 5)
    assert boxes_digest(one, 4) != question_digest(one, 4)


@pytest.mark.parametrize("gone", [{4}, {5}, {4, 5}])
def test_without_all_answers_there_is_no_sum(gone):
    play = AssistedPlay().until("unmask")
    with pytest.raises(HelpersMissing) as missing:
        play.step(gone)
    assert missing.value.helpers == tuple(sorted(gone))
    with pytest.raises(HelpersMissing):
        play.server.result()


@pytest.mark.parametrize("bits", words.BITS)
@pytest.mark.parametrize("what", ["one word", "one check word", "zeros", "noise"])
def test_a_sum_that_is_wrong_is_refused_and_blamed_on_nobody(what, bits):
    """A helper that signs for it, by accident or not."""
    play, party, reply = answered("unmask", bits=bits, length=40)
    data = bytes(read(reply).vector)
    wrong = {
        "one word": lambda: flipped(data, 17),
        "one check word": lambda: flipped(data, len(data) - 1),
        "zeros": lambda: bytes(len(data)),
        "noise": lambda: np.random.default_rng(0).bytes(len(data)),
    }[what]()
    play.server.receive(party, resigned(play, "unmask", reply, vector=wrong))
    play.server.receive(5, play.ask(5, play.requests[5]))
    with pytest.raises(CorruptSum) as corrupt:
        play.close()
    assert not corrupt.value.evidence
    assert play.server.aggregate is None


def test_a_member_that_signs_another_vector_than_it_boxes_spoils_the_check_words():
    play = AssistedPlay().until("mask")
    for member in (0, 1, 3):
        play.server.receive(member, play.ask(member, play.requests[member]))
    reply = play.ask(2, play.requests[2])
    play.server.receive(2, signed_otherwise(play, reply, vector=flipped(bytes(read(reply).vector), 3)))
    play.confirm()
    play.close()
    with pytest.raises(CorruptSum):
        play.finish()


# The whole


def test_a_server_adds_no_keystream(monkeypatch):
    """Masks come off as words. The only keystream of a server is public: the weights of check words."""
    play, drawn = AssistedPlay(length=300), []
    mask_words = check_words.mask_words
    monkeypatch.setattr(check_words, "mask_words", lambda *sizes: drawn.append(sizes[1]) or mask_words(*sizes))
    check_words._weights.cache_clear()
    play.until("unmask")
    replies = play.replies()
    monkeypatch.setattr(masks, "_add_each", lambda *_: pytest.fail("a mask"))
    for helper, reply in replies.items():
        play.server.receive(helper, reply)
    play.close()
    play.check_sum()
    assert set(drawn) == {labels.digest(labels.CHECK_WORDS, play.config.context)[:16]}


@pytest.mark.parametrize("state", ["key", "unmask"])
def test_one_server_takes_all_replies_of_helpers(state):
    play = AssistedPlay().until(state)
    with pytest.raises(OrderError, match="one server takes all replies"):
        play.server.take_over({})


def test_a_result_has_no_graph():
    play = AssistedPlay()
    aggregate = play.finish()
    assert aggregate.graph_evolution is None
    with pytest.raises(OrderError, match="no assignment graph"):
        _ = aggregate.evolution


def test_some_members_are_not_asked():
    play = AssistedPlay()
    play.server = play.new_server()
    play.requests = dict(play.server.open([0, 2, 3]))
    play.step()
    assert sorted(play.requests) == [0, 2, 3]
    refuses(play, 1, changed(MESSAGES[m.BoxedMaskReply], client=1), "left the round before", LateMessage)
    play.finish()
    play.check_sum((0, 2, 3))


@pytest.mark.parametrize("held", [0, 10**9])
def test_a_driver_asks_helpers_as_vectors_come_and_before_it_closes(held, monkeypatch):
    monkeypatch.setattr("ccesa.protocol.round.HELD_BYTES", held)
    play, asked = AssistedPlay(), []
    play.server = play.new_server()
    carry = in_memory(play.members | play.helpers)

    def counted(step, requests):
        asked.append((step.name, len(requests)))
        return carry(step, requests)

    run_round(play.server, counted)
    play.check_sum()
    assert len([one for one in asked if one == ("mask", 2)]) == (1 if held else 4)


def test_a_driver_goes_on_without_a_faulty_reply():
    play, faults = AssistedPlay(), []
    play.server = play.new_server()
    carry = in_memory(play.members | play.helpers)

    def lying(step, requests):
        for party, reply in carry(step, requests):
            yield party, (reply[:-1] if (step.name, party) == ("mask", 2) else reply)

    run_round(play.server, lying, faults.append)
    assert [fault.client for fault in faults] == [2]
    play.check_sum((0, 1, 3))


def test_what_waits_is_never_in_a_repr():
    state = AssistedPlay().until("confirm").server._state
    assert str(state.pending[0].vector) not in repr(state)
    assert str(state.total) not in repr(state)


def test_public_keys_of_helpers_are_their_own():
    play = AssistedPlay()
    shown = [read(play.ask(helper, request)).keys for helper, request in play.requests.items()]
    assert len(set(shown)) == 2
    assert all(len(one) == primitives.PUBLIC_KEY_BYTES for one in shown)
