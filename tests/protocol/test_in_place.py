"""A masked vector is never copied: made in its message, read in its message, and gone with it."""

import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa import wire
from ccesa.errors import FaultyClient, MalformedMessage, VectorError
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.series import Series
from ccesa.simulate.enrolment import new_client, new_server
from rounds import CONFIGURE, Play, changed, federation_of, inputs, read, revectored, total_of

VECTORS = (m.MaskReply, m.SignedMaskReply)
#: Around the sizes at which a header grows.
sizes = st.integers(0, 40) | st.sampled_from([254, 255, 256, 257, 65534, 65535, 65536, 65537])
each_kind = pytest.mark.parametrize("kind", VECTORS)
each_guard = pytest.mark.parametrize("guard", CONFIGURE)
#: What a transport may hand over.
KINDS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "a view into more": lambda data: memoryview(b"head" + data + b"tail")[4:-4],
    "a view that can be written": lambda data: memoryview(bytearray(data)),
}
any_bytes = pytest.mark.parametrize("given_as", KINDS.values(), ids=KINDS)


def message(kind, vector, client=7):
    return msgspec.structs.replace(m.blank(kind, context=bytes(32), client=client), vector=vector)


def header(size, width):
    return bytes([{1: 0xC4, 2: 0xC5, 4: 0xC6}[width]]) + size.to_bytes(width, "big")


def peak(work):
    """The most memory that this takes at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def address(data):
    return np.frombuffer(data, np.uint8).ctypes.data


# Reading


@each_kind
@any_bytes
@given(size=sizes)
@settings(max_examples=30)
def test_a_vector_is_a_view_of_the_message(kind, given_as, size):
    vector = bytes(range(256)) * (size // 256 + 1)
    data = given_as(message(kind, vector[:size]).encode())
    found = m.decode(m.view_of(data, "reply"), len(data))
    assert type(found.vector) is memoryview
    assert bytes(found.vector) == vector[:size]
    lies_in = np.shares_memory(np.frombuffer(found.vector, np.uint8), np.frombuffer(data, np.uint8))
    assert lies_in or not size
    assert all(type(getattr(found, name)) is bytes for name in m.sizes(kind) if name != "vector")


@each_kind
@given(size=sizes, width=st.sampled_from([1, 2, 4]))
def test_only_the_shortest_header_of_a_vector_is_taken(kind, size, width):
    encoded = message(kind, bytes(size)).encode()
    shortest = 1 if size < 256 else 2 if size < 65536 else 4
    front = encoded[: len(encoded) - size - len(header(size, shortest))]
    assert encoded == front + header(size, shortest) + bytes(size)
    if width > shortest:
        with pytest.raises(MalformedMessage, match="a form that encode"):
            m.decode(front + header(size, width) + bytes(size), 10**6)


@each_kind
@given(size=sizes, claimed=sizes)
def test_a_vector_ends_where_its_message_ends(kind, size, claimed):
    encoded = message(kind, b"").encode()[:-2]
    width = 1 if claimed < 256 else 2 if claimed < 65536 else 4
    data = encoded + header(claimed, width) + bytes(size)
    if size == claimed:
        assert m.decode(data, 10**6).vector.nbytes == size
    else:
        with pytest.raises(MalformedMessage, match=r"truncated|trailing"):
            m.decode(data, 10**6)


@each_kind
@pytest.mark.parametrize("vector", ["text", None, 5, 0.5, [b""], {}, True], ids=repr)
def test_what_is_no_byte_string_is_no_vector(kind, vector):
    with pytest.raises(MalformedMessage, match="not a message: Expected `bytes`"):
        m.decode(message(kind, vector).encode(), 10**6)


@each_kind
@given(data=st.data())
@settings(max_examples=200)
def test_every_byte_before_the_vector_counts(kind, data):
    """Whatever is read from changed bytes, it is what was sent, in its only form."""
    encoded = bytearray(message(kind, bytes(300), client=data.draw(st.sampled_from([7, 300, 2**20]))).encode())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = m.decode(memoryview(encoded), 10**6)
    except MalformedMessage:
        return
    assert found.encode() == encoded


@pytest.mark.parametrize("kind", m.MESSAGES)
@pytest.mark.parametrize(("client", "code"), [(300, 0xD1), (2**16, 0xD2)])
def test_another_form_of_the_same_length_is_refused(kind, client, code):
    """Signed numbers have as many bytes as unsigned ones."""
    encoded = m.blank(kind, context=bytes(32), client=client).encode()
    place = encoded.index(bytes(32)) + 32
    assert encoded[place] == code - 4
    with pytest.raises(MalformedMessage, match="a form that encode"):
        m.decode(encoded[:place] + bytes([code]) + encoded[place + 1 :], 10**6)


@each_kind
@pytest.mark.parametrize("more", [b"\0", b"\xc4\x00"])
def test_what_a_decoder_lets_pass_behind_the_vector_is_refused(kind, more):
    """The library refuses it first; nothing rests on that."""
    encoded = message(kind, bytes(5)).encode()

    class Lenient:
        def decode(self, data):
            return m.decode(data[: len(encoded)], 10**6)

    with pytest.raises(MalformedMessage, match="a form that encode"):
        wire.decode(Lenient(), encoded + more, 10**6, "message")


@each_guard
@any_bytes
def test_a_server_takes_any_kind_of_bytes_and_keeps_none(guard, given_as):
    play = Play(CONFIGURE[guard](6))
    while play.requests:
        for client, reply in play.replies().items():
            data = given_as(reply)
            play.server.receive(client, data)
            play.server.receive(client, data)
            if isinstance(data, bytearray):
                data.clear()  # refused where anybody still looks at it
            elif isinstance(data, memoryview) and not data.readonly:
                data[:] = bytes(len(data))
                data.release()
        play.close()
    assert np.array_equal(play.server.result().vector, play.expected(range(6)))


@each_guard
def test_a_refused_vector_leaves_no_trace_whatever_it_came_in(guard):
    play = Play(CONFIGURE[guard](6)).until("mask")
    reply = play.clients[0].receive(play.requests[0])
    vector = bytes(read(reply).vector)
    wrong = [
        revectored(play.config, reply, vector[:-1]),
        revectored(play.config, reply, vector + bytes(2)),
        revectored(play.config, reply, b""),
        changed(reply, vector="v" * len(vector)),
        changed(reply, vector=vector[::-1]),
        reply + b"\0",
        reply[: -len(vector) - 2] + header(len(vector), 2) + vector,
    ]
    for one in wrong:
        for kind in (bytes, bytearray, memoryview):
            with pytest.raises(FaultyClient):
                play.server.receive(0, kind(one))
            assert not total_of(play.server).any()
            assert 0 in play.server.waiting
    play.server.receive(0, bytearray(reply))
    assert total_of(play.server).tobytes() == vector


@each_guard
def test_who_keeps_a_fault_keeps_no_message(guard):
    """Clients could fill the memory of a server that lists their faults."""
    play = Play(CONFIGURE[guard](6)).until("mask")
    reply = play.clients[0].receive(play.requests[0])
    kept = []
    for wrong in (reply[:-1] + bytes([reply[-1] ^ 1]), reply + b"\0", reply[:-3], b"", b"\x90"):
        data = bytearray(wrong)
        with pytest.raises(FaultyClient) as error:
            play.server.receive(0, data)
        kept.append(error.value)
        data.clear()  # refused where anybody still looks at it
    assert all(fault.client == 0 and str(fault) for fault in kept)


@each_guard
def test_who_keeps_a_fault_keeps_no_envelope(guard):
    config = CONFIGURE[guard](6, accept=True)
    series = Series(config, server=lambda config: new_server(config, federation_of(config)), rounds=2)
    request = series.open()[0]
    reply = new_client(config, 0, inputs(config)[0], federation_of(config)).receive(bytes(envelope.unpack(request)[0]))
    kept = []
    for wrong in (envelope.pack([reply[:-1]]), envelope.pack([reply])[:-1], envelope.pack([reply, reply[:-1]])):
        data = bytearray(wrong)
        with pytest.raises(FaultyClient) as error:
            series.receive(0, data)
        kept.append(error.value)
        data.clear()
    assert all(fault.client == 0 and str(fault) for fault in kept)


LARGE = 2**20


@any_bytes
def test_taking_in_a_vector_needs_no_room_for_another(given_as):
    play = Play(CONFIGURE["curious"](4, length=LARGE // 4, bits=32)).until("mask")
    replies = {client: given_as(reply) for client, reply in play.replies().items()}
    for client, reply in replies.items():
        assert peak(lambda client=client, reply=reply: play.server.receive(client, reply)) < LARGE // 4


# Writing


@each_kind
@given(vector=st.binary(min_size=1, max_size=300), client=st.sampled_from([0, 127, 128, 255, 256, 65536, 2**32 - 2]))
def test_a_message_made_in_place_is_the_one_that_encoding_gives(kind, vector, client):
    config = CONFIGURE["curious"](8, length=len(vector), bits=8)
    draft = m.draft(kind, config, {"context": bytes(32), "client": client})
    draft.content[:] = vector
    assert message(kind, draft, client).encode() == message(kind, vector, client).encode()


def test_what_was_made_in_place_is_handed_out_without_a_copy():
    draft = wire.Draft(100, LARGE)
    place = address(draft.content)
    assert address(draft.finish(bytes(100))) + 100 == place


def test_who_holds_on_to_the_place_cannot_change_what_was_handed_out():
    draft = wire.Draft(2, 3)
    held = draft.content
    held[:] = b"abc"
    made = draft.finish(b"12")
    held[:] = b"xyz"
    assert made == b"12abc"


@pytest.mark.parametrize("ahead", [False, True])
def test_a_client_needs_room_for_one_vector_beside_its_own(ahead):
    config = CONFIGURE["curious"](4, length=LARGE, bits=32, accept=True)
    play = Play(config).until("mask")
    client, request = play.clients[0], play.requests[0]

    def masks():
        if ahead:
            client.prepare()
        client.receive(request)

    assert peak(masks) < config.vector_bytes * 1.3  # the message, and slices for keystreams


@each_guard
def test_masks_made_ahead_are_used_once_also_where_the_first_use_fails(guard, monkeypatch):
    """A vector that was added to them and did not leave is not added a second time."""
    play = Play(CONFIGURE[guard](5, accept=True)).until("mask")
    play.clients[0].prepare()
    kind = play.server.step.reply
    with monkeypatch.context() as patched:
        patched.setattr(kind, "fingerprint", m.Fingerprint("tag", fails))
        with pytest.raises(MemoryError):
            play.clients[0].receive(play.requests[0])
    play.clients[0].prepare()
    assert np.array_equal(play.finish().vector, play.expected(range(5)))


def fails(*given):
    raise MemoryError


@each_guard
@pytest.mark.parametrize("ahead", [False, True])
def test_a_vector_that_fails_leaves_the_masks_as_they_were(guard, ahead):
    """Asked again, the client masks as if nothing had happened, and the sum is right."""
    tries = []

    def vector():
        tries.append(1)
        if len(tries) == 1:
            raise VectorError("not yet")
        return play.vectors[0]

    play = Play(CONFIGURE[guard](5, accept=True))
    play.clients[0] = new_client(play.config, 0, vector, federation_of(play.config))
    play.until("mask")
    if ahead:
        play.clients[0].prepare()
    with pytest.raises(VectorError, match="not yet"):
        play.clients[0].receive(play.requests[0])
    assert np.array_equal(play.finish().vector, play.expected(range(5)))
