import contextlib
import math
import struct
from fractions import Fraction

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.agreement.config import MAX_BYTES, MAX_VECTOR_BYTES, CharteredRound, Floor, RoundConfig
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError, MalformedMessage
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.parts import MAX_CLIENTS
from strategies import active_graphs, bits, configs, fuzzed, graphs, plain_values, probabilities

ID = bytes(range(32))
BASE = RoundConfig(series_id=ID, clients=9, length=4, graph=ErdosRenyi(p=1.0), threshold=Fixed(t=6))
TREE = msgspec.msgpack.decode(BASE.encode())
ACTIVE = {"guard": "active", "charter": bytes(32)}
plain = configs(("curious",))
chartered = configs(("active",))


def build(**changes) -> RoundConfig:
    return RoundConfig(**{"series_id": ID, "clients": 9, "length": 4, **changes})


def packed(tree: object) -> bytes:
    return msgspec.msgpack.encode(tree)


def refused(data: bytes, text: str | None = None) -> None:
    with pytest.raises(MalformedMessage, match=text):
        RoundConfig.decode(data)


# Building


def test_another_wire_format_is_refused_by_name():
    refused(packed({**TREE, "version": 1}), "a configuration of another wire format than this version of ccesa reads")


@given(plain)
def test_valid_configurations_survive_encoding(config):
    assert RoundConfig.decode(config.encode()) == config
    assert RoundConfig.decode(config.encode()).context == config.context


@given(chartered)
def test_under_active_a_configuration_is_a_charters_digest_and_what_is_left(config):
    found = CharteredRound.decode(config.encode())
    assert all(getattr(found, name) == getattr(config, name) for name in found.__struct_fields__)
    assert {"charter", "series_id", "number", "length", "accept"} <= set(found.__struct_fields__)
    refused(config.encode())


@pytest.mark.parametrize("charter", [{}, {"charter": bytes(32)}], ids=["without", "with"])
def test_a_configuration_that_says_active_and_everything_else_is_refused(charter):
    """There is one way to say it, and it leaves nothing to differ from the charter in."""
    refused(packed({**TREE, "guard": "active", **charter}))


def test_the_charter_is_in_the_encoding_under_active_only():
    assert b"charter" not in build().encode()
    assert build(guard="active", charter=bytes(31) + b"\1").context != build(**ACTIVE).context


def test_series_ids_are_fresh():
    assert RoundConfig(clients=3, length=1).series_id != RoundConfig(clients=3, length=1).series_id


@given(configs(), configs())
def test_a_round_id_is_that_of_one_number_in_one_series(one, other):
    assert len(one.round_id) == 36
    same = (one.series_id, one.number) == (other.series_id, other.number)
    assert (one.round_id == other.round_id) == same
    for number in {0, 1, 255, 2**32 - 1} - {one.number}:
        assert msgspec.structs.replace(one, number=number).round_id != one.round_id


@given(configs())
def test_vector_bytes_are_length_times_word(config):
    assert config.vector_bytes * 8 == config.length * config.bits


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 1}, "version must be one of 2, not 1"),
        ({"version": True}, "version must be one of 2, not True"),
        ({"bits": 24}, "bits must be one of 8, 16, 32, 64, not 24"),
        ({"bits": 32.0}, "not 32.0"),
        ({"bits": "32"}, "not '32'"),
        ({"generator": "rc4"}, "generator must be one of aes128-ctr, chacha20, not 'rc4'"),
        ({"guard": "none"}, "guard must be one of curious, active, assisted, not 'none'"),
        ({"guard": "active"}, "needs the 32-byte digest of a charter"),
        ({"guard": "active", "charter": bytes(31)}, "needs the 32-byte digest"),
        ({"guard": "active", "charter": "a" * 32}, "needs the 32-byte digest"),
        ({"guard": "active", "charter": None}, "needs the 32-byte digest"),
        ({"charter": bytes(32)}, "guard = curious has no charter"),
        ({"charter": None}, "guard = curious has no charter"),
        ({**ACTIVE, "graph": ErdosRenyi(p=0.9, mask_p=0.9)}, "leave out mask_p.*masks run on every edge"),
        ({**ACTIVE, "graph": Harary(degree=4, mask_degree=2)}, "masks run on every edge"),
        ({**ACTIVE, "graph": Harary(degree=4, mask_degree=4)}, "masks run on every edge"),
        ({**ACTIVE, "graph": Complete(mask_degree=4)}, "masks run on every edge"),
        ({**ACTIVE, "graph": Complete(mask_p=0.5)}, "masks run on every edge"),
        ({"series_id": "x" * 32}, "series_id cannot be 'xxx"),
        ({"series_id": bytearray(32)}, "series_id cannot be bytearray"),
        ({"accept": 1}, "accept must be one of False, True, not 1"),
        ({"accept": None}, "accept must be one of False, True, not None"),
        ({"agreement": "rsa"}, "agreement must be one of x25519.*, not 'rsa'"),
        ({"number": "1"}, "number must be a whole number"),
        ({"number": True}, "number must be a whole number"),
        ({"graph": "complete"}, r"graph cannot be 'complete': give one of ccesa\.Harary\("),
        ({"graph": Complete}, r"graph cannot be .*: give .*ccesa\.Complete\("),
        ({"graph": Majority()}, "graph cannot be Majority"),
        ({"threshold": 5}, r"threshold cannot be 5: give .*ccesa\.Fixed\(\.\.\.\)"),
        ({"series_id": bytes(31)}, "32 bytes, not 31"),
        ({"series_id": bytes(33)}, "32 bytes, not 33"),
        ({"number": -1}, "number must lie in 0..4294967295, not -1"),
        ({"number": 2**32}, "number must lie in 0..4294967295, not 4294967296"),
        ({"clients": 2, "min_survivors": 2}, "at least 3 clients, not 2"),
        ({"clients": MAX_CLIENTS + 1}, "not 4294967296"),
        ({"length": 0}, "length must lie in 1..1073741823 for 32 bits, not 0"),
        ({"min_survivors": 1}, r"2..clients = 9, not 1"),
        ({"min_survivors": 10}, r"2..clients = 9, not 10"),
        ({"graph": Harary(degree=10)}, "degree = 10 needs more than 10 clients, but there are 9"),
        ({"graph": Harary(degree=10), "clients": 10}, "degree = 10 needs more than 10 clients, but there are 10"),
        (
            {"graph": Complete(mask_degree=10), "clients": 10},
            "mask_degree = 10 needs more than 10 clients, but there are 10",
        ),
        ({"graph": Complete(mask_degree=10)}, "mask_degree = 10 needs more than 10 clients, but there are 9"),
        ({"clients": MAX_HOLDERS + 1}, "at most 65520 holders: choose a sparser graph"),
        ({"clients": 10**6, "graph": ErdosRenyi(p=0.5)}, "about 500000 neighbours"),
        ({"clients": 10**6, "graph": Harary(degree=MAX_HOLDERS)}, "about 65520 neighbours"),
        ({"threshold": Fixed(t=10)}, "t = 10 exceeds the neighbourhood: at most 9"),
        ({"threshold": Fixed(t=8), "graph": Harary(degree=6)}, "at most 7 clients count, including the dealer"),
        ({"threshold": Fixed(t=4)}, "t = 4 is unsafe: 9 clients hold a share.*use at least 5"),
        ({"threshold": Fixed(t=3), "graph": ErdosRenyi(p=0.75)}, "7 clients hold a share.*use at least 6"),
        (
            {"threshold": Linear(slope=0, base=10)},
            "t = 10 exceeds the neighbourhood: at the mean degree only 9 clients.*lower slope or base",
        ),
        ({"threshold": Linear(slope=1024, base=2)}, "t = 10 exceeds the neighbourhood"),
        ({"threshold": Linear(slope=0, base=8), "graph": Harary(degree=6)}, "t = 8 exceeds.*only 7 clients"),
        ({"threshold": Linear(slope=0, base=6), "graph": ErdosRenyi(p=0.6)}, "t = 6 exceeds.*only 5 clients"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(changes, text):
    with pytest.raises(ConfigError, match=text):
        build(**changes)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ErdosRenyi(p=0.5, mask_p=0.6), "mask_p = 0.6 exceeds p = 0.5: masks run on share"),
        (lambda: Harary(degree=4, mask_degree=6), "mask_degree = 6 exceeds degree = 4: masks run on share"),
        (lambda: Complete(mask_p=0.5, mask_degree=4), "mask_p or mask_degree, not both"),
        (lambda: Fixed(t=1), "at least 2, not 1: one holder alone would know"),
        (lambda: Fixed(t=0), "at least 2, not 0"),
        (lambda: Linear(slope=-1, base=0), r"slope of a linear threshold must lie in 0..1024, not -1"),
        (lambda: Linear(slope=1025, base=0), r"slope of a linear threshold must lie in 0..1024, not 1025"),
        (lambda: Linear(slope=0, base=-1), r"base of a linear threshold must lie in 0..65520, not -1"),
        (lambda: Linear(slope=0, base=65521), r"base of a linear threshold must lie in 0..65520, not 65521"),
    ],
)
def test_parts_that_cannot_work_are_refused(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


@given(
    st.floats(allow_nan=True).filter(lambda p: not 0 < p <= 1)
    | st.sampled_from([0, 2, -1, True, False, "0.5", b"", [0.5]])
)
def test_what_is_no_probability_is_refused_everywhere(p):
    for make in (lambda: ErdosRenyi(p=p), lambda: ErdosRenyi(p=1.0, mask_p=p), lambda: Complete(mask_p=p)):
        with pytest.raises(ConfigError, match=r"must lie in \(0, 1\], not"):
            make()


@given(st.integers(-5, 400).filter(lambda degree: degree < 2 or degree % 2))
def test_circle_degrees_are_even_and_positive(degree):
    for make in (
        lambda: Harary(degree=degree),
        lambda: Harary(degree=400, mask_degree=degree),
        lambda: Complete(mask_degree=degree),
    ):
        with pytest.raises(ConfigError, match=f"even number of at least 2, not {degree}, half on each side"):
            make()


def test_a_configuration_that_is_changed_is_checked_again():
    """msgspec below 0.21 copied it unchecked, and nothing else would notice."""
    for field, value in (("clients", 1), ("bits", 12), ("threshold", Fixed(t=2)), ("series_id", b"")):
        with pytest.raises(ConfigError):
            msgspec.structs.replace(build(), **{field: value})
    with pytest.raises(ConfigError):
        msgspec.structs.replace(Harary(degree=4), degree=3)


@given(st.sampled_from([True, 4.0, "4", b"4", (4,), math.nan]))
def test_whole_numbers_are_of_type_int(value):
    for name, make in {
        "degree": lambda: Harary(degree=value),
        "mask_degree": lambda: Complete(mask_degree=value),
        "t": lambda: Fixed(t=value),
        "slope": lambda: Linear(slope=value, base=1),
        "base": lambda: Linear(slope=512, base=value),
        "clients": lambda: build(clients=value),
        "length": lambda: build(length=value),
        "min_survivors": lambda: build(min_survivors=value),
    }.items():
        with pytest.raises(ConfigError, match=f"^{name} must be a whole number, not"):
            make()


@given(bits)
def test_a_vector_fits_into_one_byte_string_and_one_element_more_does_not(width):
    most = MAX_VECTOR_BYTES * 8 // width
    assert 0 <= MAX_VECTOR_BYTES - build(length=most, bits=width).vector_bytes < width // 8
    with pytest.raises(ConfigError, match=f"1..{most} for {width} bits, not {most + 1}"):
        build(length=most + 1, bits=width)


@given(st.integers(0, 70000))
def test_majority_leaves_no_two_disjoint_sets_and_is_the_smallest_that_does(degree):
    t = Majority().of(degree)
    assert 2 * t > degree + 1 >= 2 * (t - 1)


linears = st.builds(Linear, slope=st.integers(0, 1024), base=st.integers(0, 60) | st.integers(0, MAX_HOLDERS))
degrees = st.integers(0, 100) | st.integers(0, 70000)


@given(linears, degrees)
def test_a_linear_threshold_is_the_line_or_the_majority_whichever_is_higher(rule, degree):
    line = math.floor(Fraction(rule.slope, 1024) * degree) + rule.base
    assert rule.of(degree) == max(line, Majority().of(degree))


@given(linears, degrees)
def test_a_linear_threshold_leaves_no_two_disjoint_sets(rule, degree):
    assert 2 * rule.of(degree) > degree + 1


@given(linears, degrees)
def test_a_linear_threshold_rises_by_none_or_one_with_each_neighbour(rule, degree):
    """So it is monotone, and whoever has more neighbours than a client who can share can share too."""
    assert 0 <= rule.of(degree + 1) - rule.of(degree) <= 1


@given(st.data())
def test_a_linear_threshold_is_accepted_exactly_if_the_mean_neighbourhood_can_hold_it(data):
    clients = data.draw(st.integers(3, 200))
    graph = data.draw(graphs(clients))
    rule = Linear(slope=data.draw(st.integers(0, 1024)), base=data.draw(st.integers(0, clients + 1)))
    mean = math.floor(graph.mean_degree(clients))
    if rule.of(mean) <= mean + 1:
        assert build(clients=clients, graph=graph, threshold=rule).threshold == rule
    else:
        with pytest.raises(ConfigError, match=f"t = {rule.of(mean)} exceeds .* only {mean + 1} clients"):
            build(clients=clients, graph=graph, threshold=rule)


@given(st.data())
def test_under_active_the_neighbours_alone_have_to_reach_a_linear_threshold(data):
    """With t = d + 1 a client would wait for one confirmation more than it has neighbours."""
    clients = data.draw(st.integers(3, 200))
    graph = data.draw(active_graphs(clients))
    rule = Linear(slope=data.draw(st.integers(0, 1024)), base=data.draw(st.integers(0, clients + 1)))
    mean = math.floor(graph.mean_degree(clients))
    if rule.of(mean) <= mean:
        assert build(**ACTIVE, clients=clients, graph=graph, threshold=rule).threshold == rule
    else:
        text = f"t = {rule.of(mean)} exceeds .* only {mean} clients count, the neighbours that confirm"
        with pytest.raises(ConfigError, match=text):
            build(**ACTIVE, clients=clients, graph=graph, threshold=rule)


@pytest.mark.parametrize("rule", [Linear(slope=0, base=0), Linear(slope=1024, base=1)], ids=["flat", "steep"])
def test_the_gentlest_and_the_steepest_line_fit_every_graph(rule):
    for graph in (Complete(), Harary(degree=2), ErdosRenyi(p=1e-9), ErdosRenyi(p=0.5), ErdosRenyi(p=1.0)):
        assert build(graph=graph, threshold=rule).threshold == rule


def test_a_linear_threshold_has_the_encoding_of_the_specification():
    config = build(clients=100, threshold=Linear(slope=640, base=3))
    part = bytes.fromhex("83a474797065a66c696e656172a5736c6f7065cd0280a46261736503")
    assert config.encode().count(b"\xa9threshold" + part) == 1
    assert RoundConfig.decode(config.encode()) == config


@given(st.integers(3, 200), st.integers(-3, 3), st.sampled_from([1, 2]))
def test_a_fixed_threshold_is_accepted_exactly_between_majority_and_everyone(clients, near, part):
    t = max(2, clients // part + near)
    config = {"series_id": ID, "clients": clients, "length": 1, "threshold": Fixed(t=t)}
    for guard, most in (({}, clients), (ACTIVE, clients - 1)):
        if clients < 2 * t and t <= most:
            assert RoundConfig(**config, **guard).threshold.of(clients - 1) == t
        else:
            with pytest.raises(ConfigError, match=f"t = {t} "):
                RoundConfig(**config, **guard)


@given(st.integers(2, 300), probabilities)
def test_degrees_that_a_graph_announces(clients, p):
    assert Complete().mean_degree(clients) == Complete().max_degree(clients) == clients - 1
    assert ErdosRenyi(p=p).mean_degree(clients) == p * (clients - 1)
    assert ErdosRenyi(p=p).max_degree(clients) == clients - 1
    assert Harary(degree=10).mean_degree(clients) == Harary(degree=10).max_degree(clients)
    assert Harary(degree=10).max_degree(clients) == min(10, clients - 1)


# The floor


@pytest.mark.parametrize(
    ("floor", "text"),
    [
        (Floor(clients=10), "offers clients = 9, this client's floor is 10"),
        (Floor(mask_degree=7), "offers mask_degree = 6, this client's floor is 7"),
        (Floor(degree=7), "offers degree = 6, this client's floor is 7"),
        (Floor(threshold=5), "offers threshold = 4, this client's floor is 5"),
        (Floor(survivors=4), "offers survivors = 3, this client's floor is 4"),
    ],
)
def test_a_weaker_configuration_is_refused_by_the_floor(floor, text):
    with pytest.raises(ConfigError, match=text):
        floor.check(build(graph=Harary(degree=6)))


def test_the_floor_compares_a_linear_threshold_at_the_mean_degree():
    config = build(graph=ErdosRenyi(p=0.8), threshold=Linear(slope=512, base=3))  # 6.4 neighbours
    Floor(threshold=6).check(config)
    with pytest.raises(ConfigError, match="offers threshold = 6, this client's floor is 7"):
        Floor(threshold=7).check(config)


@given(configs())
def test_a_floor_at_exactly_what_is_offered_holds_and_one_higher_does_not(config):
    degree = int(config.graph.mean_degree(config.clients))
    offered = {
        "clients": config.clients,
        "degree": degree,
        "mask_degree": int(config.graph.mean_mask_degree(config.clients)),
        "threshold": config.threshold.of(degree),
        "survivors": config.min_survivors,
    }
    loose = dict.fromkeys(offered, 0)
    Floor(**offered).check(config)
    for name, value in offered.items():
        with pytest.raises(ConfigError, match=f"offers {name} ="):
            Floor(**{**loose, name: value + 1}).check(config)


# A floor at Harary(degree=106) and t = 73, of which a server might think that more degree is always stricter.
PLANNED = Floor(degree=106, threshold=73, threshold_ratio=73 / 106)


@pytest.mark.parametrize(
    ("degree", "rule"), [(140, Fixed(t=73)), (400, Majority()), (400, Linear(slope=600, base=0))], ids=str
)
def test_a_higher_degree_does_not_make_up_for_a_lower_share(degree, rule):
    config = build(clients=1000, graph=Harary(degree=degree), threshold=rule)
    with pytest.raises(ConfigError, match=r"offers threshold_ratio = 0\.\d+, this client's floor is 0\.6887"):
        PLANNED.check(config)


@pytest.mark.parametrize(("degree", "rule"), [(106, Fixed(t=73)), (140, Fixed(t=97)), (106, Fixed(t=80))], ids=str)
def test_what_is_stricter_in_degree_and_share_passes(degree, rule):
    PLANNED.check(build(clients=1000, graph=Harary(degree=degree), threshold=rule))


@pytest.mark.parametrize(("p", "passes"), [(0.1, True), (0.004, False)])
def test_where_degrees_vary_the_floor_is_about_the_mean(p, passes):
    config = build(clients=1000, graph=ErdosRenyi(p=p))
    with contextlib.nullcontext() if passes else pytest.raises(ConfigError, match=r"degree = 3\.996"):
        Floor(degree=90, threshold=45, threshold_ratio=0.5).check(config)


def test_the_floor_compares_mask_edges_that_are_drawn_at_their_mean():
    config = build(clients=101, graph=ErdosRenyi(p=0.5, mask_p=0.1))  # 10 of 50 neighbours
    Floor(mask_degree=10).check(config)
    with pytest.raises(ConfigError, match="mask_degree = 10, this client's floor is 11"):
        Floor(mask_degree=11).check(config)


def test_what_a_floor_does_not_mention_stays_at_the_default():
    default = Floor(clients=13, degree=10, threshold=2, survivors=2)
    assert Floor(threshold=3).over(default) == Floor(clients=13, degree=10, threshold=3, survivors=2)
    assert Floor(degree=0).over(default).degree == 0
    assert Floor().over(default) == default


@pytest.mark.parametrize("share", [-0.1, 2.1, math.nan, math.inf, True, "0.5"])
def test_a_threshold_ratio_is_a_share(share):
    with pytest.raises(ConfigError, match="floor threshold_ratio"):
        Floor(threshold_ratio=share)


# The context


def test_every_field_changes_the_context():
    variants = [
        build(),
        build(series_id=bytes(32)),
        build(clients=10),
        build(length=5),
        build(bits=16),
        build(bits=64),
        build(graph=Complete(mask_p=0.5)),
        build(graph=Complete(mask_degree=8)),
        build(graph=ErdosRenyi(p=1.0)),
        build(graph=ErdosRenyi(p=0.5)),
        build(graph=ErdosRenyi(p=0.5, mask_p=0.5)),
        build(graph=ErdosRenyi(p=0.5, mask_p=math.nextafter(0.5, 0))),
        build(graph=Harary(degree=8)),
        build(graph=Harary(degree=8, mask_degree=8)),
        build(graph=Harary(degree=8, mask_degree=6)),
        build(threshold=Fixed(t=5)),
        build(threshold=Fixed(t=6)),
        build(threshold=Linear(slope=0, base=5)),
        build(threshold=Linear(slope=0, base=6)),
        build(threshold=Linear(slope=1, base=5)),
        build(generator="chacha20"),
        build(min_survivors=4),
        build(number=1),
        build(number=2**32 - 1),
        build(accept=True),
    ]
    assert len({config.context for config in variants}) == len(variants)


@given(plain, plain)
def test_contexts_agree_exactly_when_configurations_do(one, other):
    assert (one.context == other.context) == (one == other)


@given(plain, chartered)
def test_the_guards_have_no_context_in_common(one, other):
    assert one.context != other.context


@given(chartered, st.binary(min_size=32, max_size=32), st.integers(1, 2**20), st.booleans())
def test_under_active_charter_series_number_length_and_accept_change_the_context(config, data, size, accept):
    fields = {"charter": data, "series_id": data, "number": size, "length": size, "accept": accept}
    for name, value in fields.items():
        other = msgspec.structs.replace(config, **{name: value})
        assert (other.context == config.context) == (getattr(config, name) == value)


@given(st.sampled_from([1, 1.0]))
def test_one_as_integer_and_as_float_is_the_same_probability(p):
    assert build(graph=ErdosRenyi(p=p, mask_p=p)).encode() == build(graph=ErdosRenyi(p=1, mask_p=1.0)).encode()
    assert build(graph=Complete(mask_p=p)).context == build(graph=Complete(mask_p=1.0)).context


# Strict decoding


@given(configs(), st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_refused(config, more):
    refused(config.encode() + more)
    with pytest.raises(MalformedMessage):
        CharteredRound.decode(config.encode() + more)


@settings(max_examples=20)
@given(configs(), st.data())
def test_every_proper_prefix_is_refused(config, data):
    encoded = config.encode()
    refused(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(MalformedMessage, match="not a configuration under a charter"):
        CharteredRound.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.permutations(list(TREE)))
def test_fields_in_another_order_are_refused(names):
    assume(names != list(TREE))
    refused(packed({name: TREE[name] for name in names}))


@pytest.mark.parametrize("name", [*TREE])
def test_a_field_left_out_is_refused_even_if_it_has_a_default(name):
    refused(packed({key: value for key, value in TREE.items() if key != name}))


def test_a_default_left_out_of_a_part_is_refused():
    refused(packed({**TREE, "graph": {"type": "erdos-renyi", "p": 1.0}}), "a form that encode")


@pytest.mark.parametrize("part", [None, "graph", "threshold"])
@settings(max_examples=40)
@given(name=st.text(max_size=12), value=plain_values)
def test_unknown_fields_are_refused(part, name, value):
    inner = TREE if part is None else TREE[part]
    assume(name not in inner)
    more = {**inner, name: value}
    refused(packed(more if part is None else {**TREE, part: more}))


@pytest.mark.parametrize("name", [*TREE])
def test_a_field_given_twice_is_refused(name):
    encoded = BASE.encode()
    again = packed(name) + packed(TREE[name])
    refused(bytes([encoded[0] + 1]) + encoded[1:] + again)


@pytest.mark.parametrize(
    ("canonical", "other"),
    [
        (b"\x8e", b"\xde\x00\x0e"),
        (b"\xa7clients\x09", b"\xa7clients\xcc\x09"),
        (b"\xa7clients\x09", b"\xa7clients\xd3" + struct.pack(">q", 9)),
        (b"\xa6length\x04", b"\xd9\x06length\x04"),
        (b"\xc4\x20" + ID, b"\xc5\x00\x20" + ID),
        (b"\xcb" + struct.pack(">d", 1.0), b"\xca" + struct.pack(">f", 1.0)),
        (b"\xcb" + struct.pack(">d", 1.0), b"\x01"),
    ],
)
def test_longer_or_looser_forms_of_the_same_values_are_refused(canonical, other):
    encoded = BASE.encode()
    assert encoded.count(canonical) == 1
    loose = encoded.replace(canonical, other)
    assert msgspec.msgpack.decode(loose) == TREE
    refused(loose, "a form that encode")


@pytest.mark.parametrize("name", [*TREE])
@settings(max_examples=30)
@given(value=plain_values)
def test_wrong_types_are_refused(name, value):
    assume(type(value) is not type(TREE[name]))
    refused(packed({**TREE, name: value}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clients": 2}, "at least 3 clients"),
        ({"min_survivors": 10}, "min_survivors must lie in"),
        ({"series_id": bytes(31)}, "32 bytes, not 31"),
        ({"threshold": {"type": "fixed", "t": 4}}, "is unsafe"),
        ({"threshold": {"type": "fixed", "t": 1}}, "one holder alone"),
        ({"threshold": {"type": "linear", "slope": 1025, "base": 0}}, "slope of a linear threshold"),
        ({"threshold": {"type": "linear", "slope": 0, "base": 10}}, "lower slope or base"),
        ({"graph": {"type": "erdos-renyi", "p": 2.0, "mask_p": None}}, "must lie in"),
        ({"graph": {"type": "harary", "degree": 3, "mask_degree": None}}, "even number"),
        ({"graph": {"type": "star"}}, "star"),
    ],
)
def test_what_cannot_be_built_cannot_be_decoded_and_says_why(changes, text):
    refused(packed({**TREE, **changes}), text)


@given(st.integers(1, 1000))
def test_oversize_is_refused_by_its_size(excess):
    refused(BASE.encode().ljust(MAX_BYTES + excess, b"\0"), f"got {MAX_BYTES + excess}")


@pytest.mark.parametrize("head", [b"", b"\x81\xa4type", b"\x81\xa5graph", b"\x82\xa4type\xa5round\xa5graph"])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81", b"\x81\xa0", b"\x81\xa5graph"])
def test_deep_nesting_is_refused(head, opening):
    refused(head + opening * (MAX_BYTES // 10))


@pytest.mark.parametrize("name", [*TREE])
def test_names_that_are_no_text_are_refused(name):
    encoded = BASE.encode()
    assert encoded.count(packed(name)) >= 1
    refused(encoded.replace(packed(name), packed(name)[:-1] + b"\xff", 1), "utf-8")


@settings(max_examples=300)
@given(configs().map(RoundConfig.encode).flatmap(fuzzed))
def test_fuzzed_bytes_are_malformed_or_canonical(data):
    for kind in (RoundConfig, CharteredRound):
        try:
            found = kind.decode(data)
        except MalformedMessage:
            continue
        assert (found.encode() if kind is RoundConfig else packed(found)) == data


@given(st.binary(max_size=80) | plain_values.map(packed))
def test_random_bytes_are_malformed(data):
    refused(data, None if b"chartered-round" in data else "not a configuration")


def test_a_probability_too_large_for_a_float_is_refused_by_name():
    with pytest.raises(ConfigError, match="p must lie"):
        ErdosRenyi(p=10**400)


def test_too_many_clients_are_called_too_many():
    with pytest.raises(ConfigError, match="at most"):
        RoundConfig(clients=2**32, length=1, graph=Harary(degree=4))


def test_a_floor_of_words_is_refused():
    with pytest.raises(ConfigError, match="floor clients"):
        Floor(clients="3")
