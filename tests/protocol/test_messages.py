import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.agreement.config import AssistedConfig, RoundConfig
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import MalformedMessage, UsageError
from ccesa.graphs import Harary
from ccesa.protocol import messages as m
from ccesa.protocol.steps import steps_under
from rounds import CONFIGURE as GUARDS
from strategies import client_ids, configs, fuzzed, plain_values

PLENTY = 10**6
bodies = st.binary(max_size=200)


def field_names(kind: type[m.Message]) -> list[str]:
    return [name for name in kind.__struct_fields__ if name not in ("context", "client")]


def of_kind(kind: type[m.Message]) -> st.SearchStrategy[m.Message]:
    fields = dict.fromkeys(field_names(kind), bodies)
    return st.builds(kind, context=st.binary(min_size=32, max_size=32), client=client_ids, **fields)


any_message = st.one_of([of_kind(kind) for kind in m.MESSAGES])
every_kind = pytest.mark.parametrize("kind", m.MESSAGES, ids=lambda kind: kind.__name__)


def example(kind: type[m.Message], size: int = 5) -> m.Message:
    return kind(context=bytes(32), client=7, **dict.fromkeys(field_names(kind), bytes(size)))


#: The kinds of the guard with helpers.
HELPED = m.MESSAGES[m.MESSAGES.index(m.HelperKeysRequest) :]


def fitting(kind: type[m.Message], config: RoundConfig) -> RoundConfig:
    """A round in which messages of this kind occur: with three helpers, or the one that is given."""
    if kind not in HELPED:
        return config
    same = {name: getattr(config, name) for name in ("clients", "length", "bits", "generator", "agreement")}
    same["length"] = max(1, same["length"] - 8)  # check words follow
    return AssistedConfig(**same, min_survivors=2, charter=bytes(32), helpers=3)


def largest(kind: type[m.Message], config: RoundConfig) -> m.Message:
    """The fields of a client whose neighbourhood is as large as the graph allows, at their sizes."""
    degree, members = config.graph.max_degree(config.clients), -(-config.clients // 8)
    agreement = AGREEMENTS[config.agreement]
    hybrid = config.agreement == "x25519-mlkem768"
    bundle, ciphertext, digest = (32 + 1184, 1088, 32) if hybrid else (32, 0, 0)
    clients = config.clients if kind in HELPED else 0
    asked = {
        "number": 4,
        "task": 32,
        "keyring": 32,
        "members": 4 * clients,
        "records": (32 + 3 * (16 + digest) + 16 + 64) * clients,
        "ciphertexts": ciphertext * clients,
    }
    paths = min((degree + 1) * config.clients.bit_length(), 2 * config.clients)
    sizes = {
        m.AdvertiseRequest: {"number": 4},
        m.AdvertiseReply: {"keys": agreement.bundle_bytes},
        m.ShareRequest: {"neighbours": 4 * degree, "keys": agreement.bundle_bytes * degree, "masked": degree},
        m.ShareReply: {"commitment": 32, "sealed": agreement.text_bytes * degree},
        m.AcceptRequest: {"dropped": 4 * degree, "commitments": 32 * degree, "sealed": agreement.text_bytes * degree},
        m.AcceptReply: {"accused": 4 * degree, "deposits": agreement.deposit_bytes * degree},
        m.MaskRequest: {"dropped": 4 * degree, "task": 32},
        m.MaskAtOnceRequest: {
            "dropped": 4 * degree,
            "commitments": 32 * degree,
            "sealed": agreement.text_bytes * degree,
            "task": 32,
        },
        m.MaskReply: {"tag": 16, "among": 32, "task": 32, "vector": config.vector_bytes},
        m.Complaint: {"accused": 4 * degree},
        m.UnmaskRequest: {"dropped": 4 * degree},
        m.UnmaskReply: {"shares": 32 * (degree + 1)},
        m.SignedAdvertiseReply: {"keys": agreement.bundle_bytes, "signature": 64},
        m.RosterRequest: {
            "v1": members,
            "root": 32,
            "keys": agreement.bundle_bytes * degree,
            "signatures": 64 * degree,
            "proof": 32 * paths,
        },
        m.MaskAmongRequest: {"v2": members, "task": 32},
        m.MaskAmongAtOnceRequest: {
            "v2": members,
            "commitments": 32 * degree,
            "sealed": agreement.text_bytes * degree,
            "task": 32,
        },
        m.SignedMaskReply: {
            "digest": 32,
            "among": 32,
            "task": 32,
            "signature": 64,
            "receipt": 64,
            "vector": config.vector_bytes,
        },
        m.ConfirmRequest: {"v3": members},
        m.ConfirmReply: {"signature": 64},
        m.SignedUnmaskRequest: {"confirmed": degree, "signatures": 64 * degree},
        m.HelperKeysRequest: {"number": 4},
        m.HelperKeysReply: {"keys": bundle, "not_after": 8, "signature": 64},
        m.MaskForHelpersRequest: {"number": 4, "keys": 3 * bundle, "not_after": 24, "signatures": 3 * 64, "task": 32},
        m.BoxedMaskReply: {
            "key": 32,
            "boxes": 48,
            "ciphertexts": 3 * ciphertext,
            "tag": 16,
            "signature": 64,
            "vector": config.masked_bytes,
        },
        m.ConfirmBoxesRequest: asked,
        m.ConfirmBoxesReply: {"boxes": 32, "refused": 4 * clients, "signature": 64},
        m.UnmaskSumRequest: asked,
        m.UnmaskSumReply: {"tag": 16, "signature": 64, "vector": config.masked_bytes},
    }.get(kind, {})
    fields = {name: bytes(size) for name, size in sizes.items()}
    return kind(context=config.context, client=config.clients - 1, **fields)


def refused(data: bytes, text: str | None = None, most: int = PLENTY) -> None:
    with pytest.raises(MalformedMessage, match=text):
        m.decode(data, most)


# One encoding


@given(any_message)
def test_decoding_undoes_encoding(message):
    assert m.decode(message.encode(), PLENTY) == message


@given(any_message, any_message)
def test_encodings_agree_exactly_when_messages_do(one, other):
    assert (one.encode() == other.encode()) == (one == other)


@settings(max_examples=300)
@given(any_message.map(m.Message.encode).flatmap(fuzzed))
def test_fuzzed_bytes_are_malformed_or_canonical(data):
    try:
        message = m.decode(data, PLENTY)
    except MalformedMessage:
        return
    assert message.encode() == data


@given(st.binary(max_size=80) | plain_values.map(msgspec.msgpack.encode))
def test_random_bytes_are_malformed(data):
    refused(data, "not a message")


@every_kind
def test_a_name_that_is_no_text_is_refused(kind):
    encoded, name = example(kind).encode(), kind.__struct_config__.tag.encode()
    refused(encoded.replace(name, name[:-1] + b"\xff"), "utf-8")


@given(any_message, st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_refused(message, more):
    refused(message.encode() + more)


@given(any_message, st.data())
def test_every_proper_prefix_is_refused(message, data):
    encoded = message.encode()
    refused(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(any_message, plain_values)
def test_a_field_too_many_is_refused(message, value):
    tree = msgspec.msgpack.decode(message.encode())
    refused(msgspec.msgpack.encode([*tree, value]))


@given(any_message)
def test_a_field_too_few_is_refused(message):
    refused(msgspec.msgpack.encode(msgspec.msgpack.decode(message.encode())[:-1]))


@every_kind
@given(value=plain_values, data=st.data())
@settings(max_examples=40)
def test_a_field_of_another_type_is_refused(kind, value, data):
    tree = msgspec.msgpack.decode(example(kind).encode())
    place = data.draw(st.integers(0, len(tree) - 1))
    assume(type(value) is not type(tree[place]))
    tree[place] = value
    refused(msgspec.msgpack.encode(tree), "not a message")


@every_kind
def test_a_map_instead_of_an_array_is_refused(kind):
    names = ["type", *kind.__struct_fields__]
    tree = msgspec.msgpack.decode(example(kind).encode())
    refused(msgspec.msgpack.encode(dict(zip(names, tree, strict=True))))


@every_kind
@pytest.mark.parametrize(
    ("canonical", "other"),
    [
        (b"\xc4\x20" + bytes(32), b"\xc5\x00\x20" + bytes(32)),
        (b"\xc4\x20" + bytes(32) + b"\x07", b"\xc4\x20" + bytes(32) + b"\xcc\x07"),
        (b"\xc4\x20" + bytes(32) + b"\x07", b"\xc4\x20" + bytes(32) + b"\xd0\x07"),
    ],
    ids=["bin16", "uint8", "int8"],
)
def test_longer_forms_of_the_same_values_are_refused(kind, canonical, other):
    encoded = example(kind).encode()
    assert encoded.count(canonical) == 1
    refused(encoded.replace(canonical, other), "a form that encode")


@every_kind
def test_the_long_form_of_the_array_header_is_refused(kind):
    encoded = example(kind).encode()
    refused(b"\xdc\x00" + bytes([encoded[0] & 0x0F]) + encoded[1:], "a form that encode")


@every_kind
@pytest.mark.parametrize("opening", [b"\x91", b"\x81", b"\x81\xa0", b"\x93\xa0"])
def test_deep_nesting_is_refused_in_every_place(kind, opening):
    tree = msgspec.msgpack.decode(example(kind).encode())
    for place in range(len(tree) + 1):
        head = bytes([0x91 + len(tree)]) + b"".join(map(msgspec.msgpack.encode, tree[:place]))
        refused(head + opening * 100_000)
    refused(opening * 100_000)


# Sizes


@given(any_message)
def test_the_limit_is_exact(message):
    encoded = message.encode()
    assert m.decode(encoded, len(encoded)) == message
    refused(encoded, f"at most {len(encoded) - 1} bytes, got {len(encoded)}", len(encoded) - 1)


@every_kind
@settings(max_examples=30)
@given(config=configs(), length=st.integers(1, 3000))
def test_the_largest_honest_message_fits_and_little_more_does(kind, config, length):
    config = fitting(kind, msgspec.structs.replace(config, length=length))
    message, most = largest(kind, config), m.limit(kind, config)
    assert m.decode(message.encode(), most) == message
    assert most - len(message.encode()) < m.OVERHEAD_BYTES


@every_kind
def test_limits_hold_for_the_largest_headers(kind):
    few = kind in HELPED or m.body(kind).sets  # a set of all ids has half a gigabyte
    config = RoundConfig(clients=2**20 if few else 2**32 - 1, length=2**20, bits=8, graph=Harary(degree=2000))
    config = fitting(kind, config)
    message = largest(kind, config)
    assert m.decode(message.encode(), m.limit(kind, config)) == message


@given(configs(), st.integers(1, 2**29 - 1))
def test_only_masked_vectors_grow_with_the_length(config, length):
    longer = msgspec.structs.replace(config, length=length)
    for kind in m.MESSAGES:
        one, other = fitting(kind, longer), fitting(kind, config)
        more = m.limit(kind, one) - m.limit(kind, other)
        assert more == m.body(kind).per_vector_byte * (one.vector_bytes - other.vector_bytes)
    masked = [kind for kind in m.MESSAGES if m.is_masked_vector(kind)]
    assert masked == [m.MaskReply, m.SignedMaskReply, m.BoxedMaskReply]
    assert [kind for kind in m.MESSAGES if m.has_vector(kind)] == [*masked, m.UnmaskSumReply]


@every_kind
@settings(max_examples=30)
@given(config=configs(), neighbours=st.integers(0, 40), data=st.data())
def test_a_field_that_is_a_byte_longer_or_shorter_than_declared_is_refused(kind, config, neighbours, data):
    config = fitting(kind, config)
    known = {"vector_bytes": config.masked_bytes, "neighbours": neighbours, "helpers": len(config.helper_ids)}
    due = {
        name: size.of(agreement=config.agreement, clients=config.clients, **known)
        for name, size in m.sizes(kind).items()
    }
    right = kind(context=bytes(32), client=0, **{name: bytes(size) for name, size in due.items()})
    assert m.check(right, config, neighbours) is right
    for name, size in due.items():
        wrong = max(0, size + data.draw(st.sampled_from([-1, 1])))
        other = msgspec.structs.replace(right, **{name: bytes(wrong)})
        if wrong == size or not m.sizes(kind)[name].is_exact:
            assert m.check(other, config, neighbours) is other
            continue
        with pytest.raises(MalformedMessage, match=f"^{name}: expected {size} bytes, got {wrong}$"):
            m.check(other, config, neighbours)


def test_only_lists_of_named_clients_and_proofs_have_a_size_that_nobody_knows_before():
    varying = {name for kind in m.MESSAGES for name, size in m.sizes(kind).items() if not size.is_exact}
    assert varying == {"dropped", "accused", "proof", "members", "records", "ciphertexts", "refused"}


@every_kind
def test_every_field_declares_its_size(kind):
    assert list(m.sizes(kind)) == field_names(kind)


# Parts


def test_a_field_is_cut_into_one_item_per_neighbour():
    reply = m.ShareReply(context=bytes(32), client=0, commitment=bytes(32), sealed=bytes(80) + b"1" * 80)
    config = RoundConfig(clients=3, length=1)
    assert m.each(reply, "sealed", config) == [bytes(80), b"1" * 80]
    with pytest.raises(MalformedMessage, match="sealed: expected 80 bytes, got 81"):
        m.each(msgspec.structs.replace(reply, sealed=bytes(81)), "sealed", config)


@given(any_message, st.sampled_from(m.MESSAGES))
def test_expect_lets_the_due_kind_through_and_names_both_otherwise(message, kind):
    if type(message) is kind:
        assert m.expect(message, kind) is message
    else:
        found, due = type(message).__struct_config__.tag, kind.__struct_config__.tag
        with pytest.raises(MalformedMessage, match=f"expected {due}, got {found}$"):
            m.expect(message, kind)


@given(bodies, st.integers(0, 210))
def test_exactly_means_exactly(data, size):
    if len(data) == size:
        assert m.check_size("field", data, size) is data
    else:
        with pytest.raises(MalformedMessage, match=f"field: expected {size} bytes, got {len(data)}$"):
            m.check_size("field", data, size)


@given(bodies, st.integers(0, 20), st.integers(1, 20))
def test_items_cut_without_loss(data, count, size):
    if len(data) == count * size:
        assert b"".join(m.items("field", data, count, size)) == data
    else:
        with pytest.raises(MalformedMessage, match=f"field: expected {count * size} bytes, got {len(data)}$"):
            m.items("field", data, count, size)


@given(st.lists(st.binary(min_size=3, max_size=3)))
def test_items_come_back_one_by_one(parts):
    assert m.items("field", b"".join(parts), len(parts), 3) == parts


@given(st.lists(st.integers(0, 30)), st.integers(1, 30))
def test_ids_pass_exactly_when_strictly_ascending_and_enrolled(ids, clients):
    packed = m.pack_ids(np.array(ids, np.int64))
    if ids == sorted(set(ids)) and all(client < clients for client in ids):
        assert m.unpack_ids("ids", packed, clients).tolist() == ids
    else:
        with pytest.raises(MalformedMessage, match=r"ids (is not strictly ascending|contains \d+)"):
            m.unpack_ids("ids", packed, clients)


@given(st.sets(client_ids).map(sorted))
def test_large_ids_survive_packing(ids):
    packed = m.pack_ids(np.array(ids, np.int64))
    assert packed == b"".join(client.to_bytes(4, "little") for client in ids)
    assert m.unpack_ids("ids", packed, 2**32 - 1).tolist() == ids


@given(bodies.filter(lambda data: len(data) % 4))
def test_ids_come_in_whole_words(data):
    with pytest.raises(MalformedMessage, match=f"ids: expected a multiple of 4 bytes, got {len(data)}"):
        m.unpack_ids("ids", data, 2**32 - 1)


@given(st.integers(1, 40), st.binary(max_size=6))
def test_bytes_are_a_set_exactly_when_they_are_the_packing_of_one(clients, data):
    if len(data) == -(-clients // 8) and not int.from_bytes(data, "little") >> clients:
        members = m.unpack_set("V1", data, clients)
        assert members.size == clients
        assert m.pack_set(members) == data
    else:
        with pytest.raises(MalformedMessage, match=r"V1(: expected \d+ bytes, got \d+| contains a client)"):
            m.unpack_set("V1", data, clients)


@given(st.integers(1, 70).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_client_i_is_bit_i_of_the_little_endian_number(case):
    clients, ids = case
    packed = m.pack_set(np.isin(np.arange(clients), list(ids)))
    assert int.from_bytes(packed, "little") == sum(1 << i for i in ids)


def test_every_message_belongs_to_a_step_and_has_its_own_name():
    tables = [
        [kind for step in steps_under(guard, accept) for kind in (step.request, *step.replies)]
        for guard in (*GUARDS, "assisted")
        for accept in (False, True)
    ]
    assert set().union(*tables) == set(m.MESSAGES) - {m.ConfirmBoxesRequest, m.ConfirmBoxesReply}
    beside = steps_under("assisted")[1].beside
    assert (beside.request, beside.reply) == (m.ConfirmBoxesRequest, m.ConfirmBoxesReply)
    assert len({kind.__struct_config__.tag for kind in m.MESSAGES}) == len(m.MESSAGES)
    for kinds in tables:
        assert len(set(kinds)) == len(kinds)
        assert kinds == sorted(kinds, key=m.MESSAGES.index) or m.SignedAdvertiseReply in kinds


# Before anything is parsed


@given(any_message)
def test_a_message_is_known_by_its_name(message):
    data = message.encode()
    assert m.kind_of(memoryview(data)) is type(message)
    name = type(message).__struct_config__.tag
    assert m.kind_of(memoryview(data[: 2 + len(name)])) is type(message)
    assert m.kind_of(memoryview(data[: 1 + len(name)])) is None


@settings(max_examples=300)
@given(st.binary(max_size=60) | any_message.map(m.Message.encode).flatmap(fuzzed))
def test_whatever_can_be_decoded_is_named_rightly_and_all_else_does_no_harm(data):
    found = m.kind_of(memoryview(data))
    assert found is None or found in m.MESSAGES
    try:
        message = m.decode(data, PLENTY)
    except MalformedMessage:
        return
    assert found is type(message)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_seen_without_a_copy(kind):
    data = kind(b"some bytes")
    view = m.view_of(data, "reply")
    assert bytes(view) == b"some bytes"
    assert (view if kind is bytes else view.obj) is (data.obj if kind is memoryview else data)


def test_words_are_measured_in_bytes():
    assert len(m.view_of(memoryview(np.zeros(5, "<u4")), "reply")) == 20


@pytest.mark.parametrize("data", [None, "text", 5, [1], np.zeros(3, np.uint8)], ids=repr)
def test_what_is_no_bytes_is_the_callers_mistake(data):
    with pytest.raises(UsageError, match=f"a reply must be bytes, not {type(data).__name__}"):
        m.view_of(data, "reply")


def test_a_view_with_gaps_is_the_callers_mistake():
    with pytest.raises(UsageError, match="in one piece"):
        m.view_of(memoryview(b"some bytes")[::2], "reply")
