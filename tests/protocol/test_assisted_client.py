"""A member under ``assisted`` checks everything before it seals: each lie about helpers' keys is refused by itself."""

import os

import pytest

from assisted_rounds import DAY, NOW, STEPS, TASK, AssistedPlay, changed, federation, fields, flipped, read, transcript
from ccesa import labels
from ccesa.crypto import primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError, FaultyServer, OrderError, TaskSpent
from ccesa.memory import MASK, RELEASE, VECTOR, Entry, FolderMemory, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.submission import Binding, Record, keyring_of, keys_text
from ccesa.simulate.enrolment import make_charter
from rounds import CONFIGURE, Play, charter, federation_of, identity
from strategies import randomness

HYBRID = "x25519-mlkem768"
LOW_ORDER = bytes(32)
#: Not reduced: the prime itself, which stands for 0, with one more.
TOO_LARGE = (2**255 - 18).to_bytes(32, "little")
each_agreement = pytest.mark.parametrize(
    "agreement", ["x25519", pytest.param(HYBRID, marks=pytest.mark.needs("ml-kem"))]
)


def at_mask(**options) -> tuple[AssistedPlay, bytes]:
    """A round before its vectors, and the request to member 0."""
    play = AssistedPlay(**options).until("mask")
    return play, play.requests[0]


def cut(request: bytes, name: str, helpers: int = 2) -> list[bytes]:
    data = getattr(read(request), name)
    size = len(data) // helpers
    return [data[place * size : (place + 1) * size] for place in range(helpers)]


def signed_again(play: AssistedPlay, request: bytes, **items: list[bytes]) -> bytes:
    """The request with other keys or times, which the right helpers have signed for this round."""
    message = changed(request, **{name: b"".join(each) for name, each in items.items()})
    bundles, times = cut(message, "keys", len(play.helpers)), cut(message, "not_after", len(play.helpers))
    signatures = [
        play.federation.helpers[place].sign(
            keys_text(play.config.context, play.config.clients + place, times[place], one)
        )
        for place, one in enumerate(bundles)
    ]
    return changed(message, signatures=b"".join(signatures))


def refuses(play: AssistedPlay, request: bytes, match: str, member: int = 0) -> None:
    """Refused before anything is counted, and the member is out of the round."""
    with pytest.raises(FaultyServer, match=match):
        play.members[member].receive(request)
    assert play.members[member].done


def lasting(seconds: float) -> bytes:
    return int(seconds).to_bytes(8, "little")


# Its answer


@each_agreement
def test_the_reply_is_what_the_specification_says(agreement):
    """The words under the masks, keys, boxes and tags, computed here once more."""
    play, request = at_mask(agreement=agreement)
    reply = read(play.members[0].receive(request))
    config, context = play.config, play.config.context
    private = primitives.private_key(randomness(0)(32))
    assert reply.key == primitives.public_key(private)
    bundles = cut(request, "keys")
    keyring = labels.digest(labels.HELPERS, context, *bundles)
    assert keyring == keyring_of(context, bundles)
    for place, helper in enumerate(config.helper_ids):
        key = play.homes[helper].keys.get(context)
        agreed = primitives.agree(primitives.private_key(key.secret[:32]), primitives.load_public_key(reply.key))
        size = AGREEMENTS[agreement].ciphertext_bytes
        ciphertext = reply.ciphertexts[place * size : (place + 1) * size]
        if ciphertext:
            agreed += primitives.kem_private_key(key.secret[32:]).decapsulate(ciphertext)
        info = labels.frame(
            *(labels.HELPED_MASK, context, labels.client_bytes(0), labels.client_bytes(helper)),
            *(TASK, keyring, reply.key, ciphertext),
        )
        out = primitives.derive(agreed, info, 16 + 16)
        assert out[16:] == reply.boxes[16 * place :][:16]
    digests = b"".join(
        labels.digest(labels.CIPHERTEXT, reply.ciphertexts[place * size : (place + 1) * size])
        for place in range(2)
        if size
    )
    text = labels.digest(
        *(labels.SUBMISSION, context, labels.client_bytes(0), TASK, keyring),
        *(reply.key, reply.boxes, digests, reply.tag),
    )
    primitives.verify(play.federation.identities[0].public, reply.signature, text)


def test_a_record_comes_back_from_its_bytes():
    for agreement, size in (("x25519", 32 + 32 + 16 + 64), (HYBRID, 32 + 32 + 64 + 16 + 64)):
        config = federation(agreement=agreement).charter.config(length=1)
        data = os.urandom(size)
        assert m.record_bytes(agreement, 2) == size
        record = Record.unpack(data, config)
        assert record.pack() == data
        assert (record.box(0), record.box(1)) == (data[32:48], data[48:64])
        assert repr(record.signature) not in repr(record)


def test_one_time_keys_and_masks_are_fresh_in_each_round():
    """Without a source of its own a member draws from the system: no two rounds have a key in common."""
    replies = []
    for number in range(2):
        play = AssistedPlay(number=number).until("mask")
        replies.append(read(play.new_member(0, random=os.urandom).receive(play.requests[0])))
    one, other = replies
    assert one.key != other.key
    assert bytes(one.vector) != bytes(other.vector)


def test_a_cloned_machine_masks_otherwise_in_another_round():
    """The same one-time key in two rounds: context and the helpers' keys are in every mask key."""
    vectors = []
    for number in range(2):
        play, request = at_mask(number=number)
        reply = read(play.members[0].receive(request))
        vectors.append((reply.key, bytes(reply.vector)))
    (key, one), (again, other) = vectors
    assert key == again
    assert one != other


@pytest.mark.parametrize("name", ["context", "task", "keyring", "client", "place", "key", "ciphertext"])
def test_a_mask_key_and_its_box_depend_on(name):
    config = federation().charter.config(length=1, series_id=bytes(32))
    bound = {"config": config, "context": config.context, "task": TASK, "keyring": bytes(32)}
    said = {"secret": bytes(32), "client": 0, "place": 0, "key": bytes(32), "ciphertext": b""}
    first = Binding(**bound).mask_key(**said)
    other = 1 if isinstance((bound | said)[name], int) else b"\1" * 32
    (bound if name in bound else said)[name] = other
    second = Binding(**bound).mask_key(**said)
    assert first.key != second.key
    assert first.box != second.box
    assert repr(first) == "MaskKey(...)"


# Checks before it seals, one by one


@pytest.mark.parametrize("name", ["number", "keys", "not_after", "signatures", "task"])
def test_every_field_has_its_size(name):
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda data: b""):
        play, request = at_mask()
        refuses(play, changed(request, **{name: change(getattr(read(request), name))}), f"{name}: expected")


@pytest.mark.parametrize("name", ["number", "keys", "not_after", "signatures", "task"])
@each_agreement
def test_no_field_can_be_changed(name, agreement):
    """Whichever byte it is: the hub's own key in a helper's place is one of these changes."""
    play, request = at_mask(agreement=agreement)
    data = getattr(read(request), name)
    for place in range(0, len(data), max(1, len(data) // 5)):
        play.members[0] = play.new_member(0)
        refuses(play, changed(request, **{name: flipped(data, place)}), "number|did not sign|another task")


def test_keys_that_the_hub_has_signed_itself():
    play, request = at_mask()
    hub, bundle = identity(77), primitives.public_key(primitives.private_key(bytes(range(32))))
    times = cut(request, "not_after")
    signature = hub.sign(keys_text(play.config.context, 4, times[0], bundle))
    message = changed(
        request, keys=bundle + cut(request, "keys")[1], signatures=signature + cut(request, "signatures")[1]
    )
    refuses(play, message, "helper helper-0 did not sign its keys as shown")


def test_helpers_in_another_order():
    play, request = at_mask()
    turned = {name: b"".join(reversed(cut(request, name))) for name in ("keys", "not_after", "signatures")}
    refuses(play, changed(request, **turned), "helper helper-0 did not sign")


def test_one_helper_in_all_places():
    """Its own signature for its own place does not fit the other one."""
    play, request = at_mask()
    twice = {name: 2 * cut(request, name)[0] for name in ("keys", "not_after", "signatures")}
    refuses(play, changed(request, **twice), "helper helper-1 did not sign")


def test_a_helper_too_few_and_one_too_many():
    for parts in (1, 3):
        play, request = at_mask()
        some = {name: b"".join((2 * cut(request, name))[:parts]) for name in ("keys", "not_after", "signatures")}
        refuses(play, changed(request, **some), "expected")


@pytest.mark.parametrize("other", ["number", "series", "length", "charter"])
def test_keys_of_another_round(other):
    play, _ = at_mask()
    there = {
        "number": lambda: AssistedPlay(number=1),
        "series": lambda: AssistedPlay(config=play.charter.config(length=5, series_id=bytes([1]) * 32)),
        "length": lambda: AssistedPlay(length=6),
        "charter": lambda: AssistedPlay(serial=2),
    }[other]().until("mask")
    assert {seat.key for seat in there.charter.helper_seats} == {seat.key for seat in play.charter.helper_seats}
    moved = changed(there.requests[0], context=play.config.context, number=read(play.requests[0]).number)
    refuses(play, moved, "helper helper-0 did not sign")


def test_a_round_of_another_number():
    play, request = at_mask()
    refuses(play, changed(request, number=(1).to_bytes(4, "little")), "another number")


@pytest.mark.parametrize(
    ("left", "match"),
    [(0, "has expired"), (-1, "has expired"), (1, None), (7 * DAY, None), (7 * DAY + 1, "for longer than key_days")],
)
def test_a_key_is_in_time(left, match):
    play, request = at_mask()
    request = signed_again(play, request, not_after=[lasting(NOW + 60), lasting(NOW + left)])
    if match is None:
        assert play.members[0].receive(request)
    else:
        refuses(play, request, f"helper helper-1 {match}|helper-1 would stay {match}")


def test_key_days_are_those_of_the_charter():
    play, request = at_mask(key_days=1)
    refuses(play, signed_again(play, request, not_after=[lasting(NOW + DAY), lasting(NOW + DAY + 1)]), "key_days")


def test_a_key_that_expires_while_the_request_is_under_way():
    play, request = at_mask()
    late = play.new_member(0, now=NOW + 7 * DAY)
    with pytest.raises(FaultyServer, match="has expired"):
        late.receive(request)


@pytest.mark.parametrize("bad", [LOW_ORDER, TOO_LARGE])
@each_agreement
def test_a_key_that_no_honest_helper_has(bad, agreement):
    play, request = at_mask(agreement=agreement)
    bundles = cut(request, "keys")
    bundles[1] = bad + bundles[1][32:]
    refuses(play, signed_again(play, request, keys=bundles), "low order or not in reduced form")


@pytest.mark.needs("ml-kem")
def test_a_key_of_ml_kem_above_the_modulus():
    play, request = at_mask(agreement=HYBRID)
    bundles = cut(request, "keys")
    bundles[0] = bundles[0][:32] + b"\xff" * 1184
    refuses(play, signed_again(play, request, keys=bundles), "not a valid ML-KEM-768 public key")


@each_agreement
def test_two_helpers_with_one_key(agreement):
    play, request = at_mask(agreement=agreement)
    one, other = cut(request, "keys")
    refuses(play, signed_again(play, request, keys=[one, one[:32] + other[32:]]), "two helpers have the same key")


@pytest.mark.needs("ml-kem")
def test_two_helpers_with_one_key_of_ml_kem():
    play, request = at_mask(agreement=HYBRID)
    one, other = cut(request, "keys")
    refuses(play, signed_again(play, request, keys=[one, other[:32] + one[32:]]), "two helpers have the same key")


def test_another_task():
    play, request = at_mask()
    refuses(play, changed(request, task=bytes(32)), "another task than the one this client works on")


def test_a_request_for_someone_else_and_of_another_round():
    for change, match in (
        ({"client": 1}, "expected a message for client 0"),
        ({"context": bytes(32)}, "another round"),
    ):
        play, request = at_mask()
        refuses(play, changed(request, **change), match)


# States and inputs


MESSAGES = transcript()
OF_GRAPHS = {guard: Play(CONFIGURE[guard](4)).requests[0] for guard in CONFIGURE}


def test_the_transcript_has_every_message_of_the_guard():
    assert len(MESSAGES) == 8
    assert STEPS == ["key", "mask", "unmask"]


@pytest.mark.parametrize("kind", [kind for kind in MESSAGES if kind is not m.MaskForHelpersRequest])
@pytest.mark.parametrize("sent", [False, True])
def test_a_member_takes_no_other_message(kind, sent):
    """Neither before its vector nor after it, not even one that is addressed to it."""
    play, request = at_mask()
    if sent:
        play.members[0].receive(request)
    for data in (MESSAGES[kind], changed(MESSAGES[kind], client=0)):
        with pytest.raises(FaultyServer if data is MESSAGES[kind] else (FaultyServer, OrderError)):
            play.members[0].receive(data)
        assert play.members[0].done


@pytest.mark.parametrize("guard", OF_GRAPHS)
def test_a_member_takes_no_message_of_another_guard(guard):
    play, _ = at_mask()
    with pytest.raises(FaultyServer):
        play.members[0].receive(changed(OF_GRAPHS[guard], context=play.config.context))


def test_a_vector_leaves_once():
    play, request = at_mask()
    play.members[0].receive(request)
    assert play.members[0].done
    with pytest.raises(OrderError, match="already returned"):
        play.members[0].receive(request)
    refuses(play, signed_again(play, request, not_after=[lasting(NOW + 60)] * 2), "the round is over")


def test_a_suspended_member_goes_on():
    play, request = at_mask()
    saved = play.members[0].suspend()
    with pytest.raises(OrderError, match="was suspended"):
        play.members[0].receive(request)
    again = play.new_member(0)
    again.resume(saved)
    play.server.receive(0, again.receive(request))
    assert 0 not in play.server.waiting


def test_masks_ahead_of_helpers_do_nothing():
    play, request = at_mask()
    play.members[0].prepare()
    play.members[0].receive(request)


# The memory


def test_a_member_sends_one_vector_a_round():
    play, request = at_mask()
    memory = ProcessMemory()
    play.new_member(0, tasks=memory).receive(request)
    assert Entry(MASK, play.config.context) in memory
    assert not list(memory.entries(RELEASE))
    clone = play.new_member(0, tasks=memory)
    with pytest.raises((OrderError, TaskSpent), match="another process"):
        clone.receive(request)
    assert clone.done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_of_a_member_sends_nothing(tmp_path):
    """Its keys are dropped there, and the parent goes on. With its memory in a folder a copy is refused, too."""
    play, request = at_mask()
    member = play.new_member(0, tasks=FolderMemory(tmp_path / "memory"))
    child = os.fork()
    if not child:
        try:
            member.receive(request)
        except OrderError:
            os._exit(0 if member.done else 3)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    play.server.receive(0, member.receive(request))


def test_a_task_goes_to_one_series_under_one_charter():
    """The name of a series has the charter in it, because helpers answer by charter and task."""
    memory = ProcessMemory()

    def sends(play: AssistedPlay) -> None:
        play.until("mask")
        play.new_member(0, tasks=memory).receive(play.requests[0])

    sends(AssistedPlay(attempts=3))
    (entry,) = memory.entries(VECTOR)
    assert len(entry.key) == 32 + 64
    with pytest.raises(TaskSpent, match="another series"):
        sends(AssistedPlay(attempts=3, serial=2, number=1))
    with pytest.raises(TaskSpent, match="another series"):
        sends(
            AssistedPlay(config=federation(attempts=3).charter.config(length=5, series_id=bytes([1]) * 32), attempts=3)
        )
    with pytest.raises(TaskSpent, match="needs a higher number"):
        sends(AssistedPlay(attempts=3, length=6))
    sends(AssistedPlay(attempts=3, number=1))
    sends(AssistedPlay(attempts=3, number=2))
    with pytest.raises(TaskSpent, match="its limit"):
        sends(AssistedPlay(attempts=3, number=3))


def test_a_server_of_another_guard_cannot_name_the_series():
    """Otherwise it would choose a series id that reads like a charter and a series, and ask once more."""
    memory = ProcessMemory()
    play = AssistedPlay().until("mask")
    play.new_member(0, tasks=memory).receive(play.requests[0])
    (entry,) = memory.entries(VECTOR)
    name = entry.key[32:]
    for series in (name[:32], name[32:], labels.digest(name)):
        config = charter(4).config(length=5, series_id=series, number=1)
        there = Play(config, task=TASK, tasks=memory)
        assert federation_of(config) is not None
        with pytest.raises(TaskSpent, match="another series"):
            there.finish()


# Who takes part


def test_a_helper_alone_is_no_member():
    play, _ = at_mask()
    with pytest.raises(ConfigError, match="not among"):
        ActiveClient(play.config, play.federation.helpers[0], play.charter, play.vectors[0], tasks=None)


def test_an_expired_charter_masks_nothing():
    people = [identity(place) for place in range(3)]
    expired = make_charter(people, helpers=[identity(1000), identity(1001)], expires=int(NOW))
    config = expired.config(length=5)
    with pytest.raises(ConfigError, match="expired"):
        ActiveClient(config, people[0], expired, AssistedPlay().vectors[0], tasks=None, now=NOW)


def test_fields_of_the_request_are_all_checked_above():
    assert fields(MESSAGES[m.MaskForHelpersRequest]) == ["number", "keys", "not_after", "signatures", "task"]
