"""Charters: one text, one encoding, one digest, for all that they say and nothing else."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.agreement.charter import MAX_FILE_BYTES, Charter, Learning, Seat, Stated
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, MalformedMessage
from ccesa.graphs import ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.simulate.enrolment import NOTHING, make_charter
from ccesa.statistics import Schema
from rounds import charter, configure, identity
from strategies import assisted_charters, charters

NOISE = choose_mechanism(
    DifferentialPrivacy(epsilon=1, delta=1e-6, rounds=3, norm=1.5), clients=8, honest=1, dimension=10
)
LEARNING = Learning(metrics=("loss",), counters=("steps",))
AGREED = charter(8, bits=64, learning=LEARNING)
HELPED = make_charter(
    [identity(place) for place in range(8)],
    helpers=[identity(place) for place in (2, 50, 51)],
    bits=64,
    learning=LEARNING,
    min_survivors=5,
    colluders=2,
)


def with_(agreed: Charter = AGREED, **fields) -> Charter:
    return msgspec.structs.replace(agreed, **fields)


# The text


@given(charters() | assisted_charters())
def test_the_text_of_a_charter_gives_it_back(agreed):
    again = Charter.parse(str(agreed))
    assert again == agreed
    assert again.digest == agreed.digest
    assert str(again) == str(agreed)


@settings(max_examples=200)
@given(charters() | assisted_charters(), charters() | assisted_charters(), st.sampled_from(Charter.__struct_fields__))
def test_digests_are_the_same_exactly_when_charters_are(one, other, name):
    try:
        other = with_(one, **{name: getattr(other, name)})
    except ConfigError:
        assume(False)
    assert (one.digest == other.digest) == (one == other) == (str(one) == str(other))


#: Another value for every field, in every part.
OTHERS = {
    Charter: {
        "serial": 2,
        "expires": 10**10,
        "members": AGREED.members[::-1],
        "helpers": HELPED.helpers[::-1],
        "key_days": 8,
        "colluders": 1,
        "graph": Harary(degree=6),
        "threshold": Linear(slope=600, base=1),
        "generator": "chacha20",
        "agreement": "x25519-mlkem768",
        "bits": 32,
        "least_roster": 4,
        "min_survivors": 4,
        "attempts": 1,
        "releases": 2,
        "certificate": msgspec.structs.replace(NOTHING, around=1),
        "learning": None,
        "privacy": NOISE,
        "statistics": Schema(name="one"),
    },
    Stated: dict.fromkeys(Stated.__struct_fields__, -3.5)
    | dict.fromkeys(["dropout", "collusion", "privacy_bits", "reliability_bits"], 0.5)
    | {"exact_dropout": True, "colluders": 3, "around": 3, "least_honest": 3}
    | {"dropout_per_step": (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)},
    Learning: {
        "message_types": ("train",),
        "weighted_by": "weight",
        "metrics": ("loss", "accuracy"),
        "counters": (),
        "clip": 3.0,
        "metric_clip": 3.0,
        "max_weight": 3.0,
        "field_bits": 18,
    },
    Seat: {"name": "another", "key": identity(77).public},
}
OF_HELPERS = ("helpers", "key_days", "colluders")
CHANGES = [(kind, name) for kind, changes in OTHERS.items() for name in changes]


def test_these_are_all_fields():
    for kind, changes in OTHERS.items():
        assert changes.keys() | ({"version"} if kind is Charter else set()) == set(kind.__struct_fields__)


@pytest.mark.parametrize(("kind", "name"), CHANGES, ids=lambda value: getattr(value, "__name__", value))
def test_the_digest_is_over_every_field(kind, name):
    def changed(part):
        return msgspec.structs.replace(part, **{name: OTHERS[kind][name]})

    alone = (kind, name) in ((Charter, "bits"), (Charter, "statistics"))  # they do not go with learning
    agreed = with_(learning=None) if alone else HELPED if name in OF_HELPERS else AGREED
    made = {
        Charter: lambda: changed(agreed),
        Stated: lambda: with_(certificate=changed(AGREED.certificate)),
        Learning: lambda: with_(learning=changed(AGREED.learning)),
        Seat: lambda: with_(members=(changed(AGREED.members[0]), *AGREED.members[1:])),
    }[kind]()
    assert made.digest != agreed.digest
    assert made.fingerprint != agreed.fingerprint
    assert Charter.parse(str(made)) == made


def test_one_release_is_what_older_charters_mean():
    """Their text and their digest stay as they are."""
    assert "releases" not in str(AGREED)
    assert b"releases" not in AGREED.encode()
    said = str(AGREED).replace("attempts = 2", "attempts = 2\nreleases = 1")
    assert Charter.parse(said).digest == AGREED.digest
    assert "\nattempts = 2\nreleases = 2\n" in str(with_(releases=2))


def test_noise_travels_in_words_of_64_bits():
    with pytest.raises(ConfigError, match="a charter with privacy has words of 64 bits, not 32"):
        with_(learning=None, bits=32, privacy=NOISE)


def test_comments_layout_and_order_are_not_in_the_digest():
    lines = str(AGREED).splitlines()
    text = "\n".join(["# ours", *(f"  {line}   # so it is" if " = " in line else line for line in lines)])
    assert Charter.parse(text.replace("\n", "\r\n")).digest == AGREED.digest


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8], ids=lambda kind: kind.__name__)
def test_numbers_of_every_kind_are_the_same_number(kind):
    """A planner counts with numpy; a certificate may say 20 bits or 20.0."""
    counts = {"colluders": kind(3), "around": kind(2), "least_honest": kind(1)}
    stated = msgspec.structs.replace(NOTHING, **counts, privacy_bits=kind(20), dropout=kind(0))
    learning = Learning(clip=kind(2))
    made = with_(serial=kind(3), attempts=kind(1), least_roster=kind(5), certificate=stated, learning=learning)
    plain = msgspec.structs.replace(NOTHING, colluders=3, around=2, least_honest=1, privacy_bits=20.0, dropout=0.0)
    same = with_(serial=3, attempts=1, least_roster=5, certificate=plain, learning=Learning(clip=2.0))
    assert made.digest == same.digest == Charter.parse(str(made)).digest


def test_a_text_in_the_place_of_a_number_is_refused():
    for make in (
        lambda: Learning(clip="2.0"),
        lambda: msgspec.structs.replace(NOTHING, dropout="0"),
        lambda: msgspec.structs.replace(NOTHING, colluders="0"),
        lambda: msgspec.structs.replace(NOTHING, colluders=0.5),
    ):
        with pytest.raises(ConfigError, match="number, not"):
            make()


def test_there_is_one_zero():
    assert with_(certificate=msgspec.structs.replace(NOTHING, dropout=-0.0)).digest == AGREED.digest


def test_from_its_file(tmp_path):
    path = tmp_path / "charter.toml"
    path.write_text(str(AGREED), encoding="utf-8")
    path.chmod(0o644)
    assert Charter.load(path) == AGREED
    path.write_text("serial = ", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"charter\.toml: this is not a charter, because it is not TOML"):
        Charter.load(path)
    assert len(str(AGREED)) < MAX_FILE_BYTES


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("serial = 1", "serial = 1\nmore = 1", "unknown field `more`"),
        ("serial = 1\n", "", "missing required field `serial`"),
        ("serial = 1", "serial = 1.0", "Expected `int`"),
        ("serial = 1", "serial = true", "Expected `int`"),
        ("serial = 1", 'serial = "1"', "Expected `int`"),
        ("serial = 1", "serial = 0", r"serial of a charter must lie in 1\.\."),
        ("version = 2", "version = 1", "Invalid enum value 1"),
        ("\nbits = 64", "\nbits = 12", "Invalid enum value 12"),
        ("\nbits = 64", "\nbits = 32", "a charter with learning has words of 64 bits, not 32"),
        ("field_bits = 32", "field_bits = 4", "4 bits overflow with 8 clients; at most 7 clients fit"),
        ("field_bits = 32", "field_bits = 65", "a field has 2 to 64 bits, not 65"),
        ("least_roster = 3", "least_roster = 9", r"least_roster of a charter must lie in 3\.\.8, not 9"),
        ("least_roster = 3", "least_roster = 2", r"least_roster of a charter must lie in 3\.\.8, not 2"),
        ("min_survivors = 2", "min_survivors = 9", r"min_survivors must lie in 2\.\.clients = 8"),
        ("attempts = 2", "attempts = 0", r"attempts of a charter must lie in 1\.\.1000, not 0"),
        ("expires = 9007199254740991", "expires = 0", r"expires of a charter must lie in 1\.\."),
        ("expires = 9007199254740991", "expires = 2030-01-31T12:00:00", "expires needs an offset"),
        ("expires = 9007199254740991", "expires = 12:00:00", "this is not a charter"),
        ("client-1", "client-0", "appears twice in the admission list"),
        ("client-1", "client 1", "is not a name"),
        ("dropout = 0.0", "dropout = nan", "dropout = nan in the charter's certificate is out of range"),
        ("clip = 2.0", "clip = 0.0", "clip in the charter must be a positive number"),
        ("clip = 2.0", "clip = inf", "clip in the charter must be a positive number"),
        ('metrics = ["loss"]', 'metrics = ["loss", "loss"]', "metrics in the charter must not have an entry twice"),
        ('metrics = ["loss"]', 'metrics = [""]', "must have 1 to 100 printable"),
        ('["train", "evaluate"]', "[]", "must name at least one type"),
    ],
)
def test_a_text_that_is_no_charter_says_why(old, new, match):
    assert str(AGREED).count(old) >= 1
    with pytest.raises(ConfigError, match=match):
        Charter.parse(str(AGREED).replace(old, new, 1))


@pytest.mark.parametrize("moment", ["2030-01-31", "2030-01-31T00:00:00Z", "2030-01-31T02:00:00+02:00"])
def test_a_date_begins_at_midnight_utc(moment):
    text = str(AGREED).replace("expires = 9007199254740991", f"expires = {moment}")
    assert Charter.parse(text).expires == 1896048000
    assert Charter.parse(text).expiry == "2030-01-31 00:00 UTC"


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"members": AGREED.members[:2]}, r"least_roster of a charter must lie in 3\.\.2"),
        ({"members": (*AGREED.members, AGREED.members[0])}, "twice"),
        ({"members": (*AGREED.members[:-1], Seat("x", bytes(32)))}, "low order"),
        ({"members": (*AGREED.members[:-1], Seat("x", bytes(31)))}, "must be 32 bytes"),
        ({"graph": Harary(degree=6, mask_degree=4)}, "masks run on every edge"),
        ({"threshold": Fixed(t=4)}, "t = 4 is unsafe"),
        ({"threshold": Fixed(t=8)}, "t = 8 exceeds the neighbourhood: at most 7 clients count"),
        ({"threshold": Linear(slope=1024, base=1)}, "t = 8 exceeds the neighbourhood"),
        ({"graph": Harary(degree=8)}, "degree = 8 needs more than 8 clients"),
        ({"generator": "rc4"}, "generator must be one of"),
        ({"serial": "1"}, "serial must be a whole number"),
        ({"expires": 2**53}, "expires of a charter"),
        ({"attempts": 1001}, "attempts of a charter"),
        ({"releases": 0}, r"releases of a charter must lie in 1\.\.2"),
        ({"releases": 3}, r"releases of a charter must lie in 1\.\.2"),
    ],
)
def test_an_agreement_that_cannot_work_is_refused_when_it_is_made(fields, match):
    with pytest.raises(ConfigError, match=match):
        with_(**fields)


# Configurations


@given(charters() | assisted_charters(), st.integers(1, 2**20), st.integers(0, 2**32 - 1), st.booleans())
def test_a_configuration_says_the_charters_digest_and_what_is_left(agreed, length, number, accept):
    accept = accept and agreed.guard.has_graph
    length = agreed.privacy.length if agreed.privacy else length
    config = agreed.config(length=length, number=number, accept=accept)
    assert set(msgspec.msgpack.decode(config.encode())) == {
        "type",
        "version",
        "charter",
        "series_id",
        "number",
        "length",
        "accept",
    }
    assert agreed.decode(config.encode()) == config
    agreed.check(config)


@settings(max_examples=50)
@given(charters(), charters())
def test_no_charter_takes_a_round_of_another(one, other):
    config = one.config(length=one.privacy.length if one.privacy else 4)
    if one == other:
        return
    with pytest.raises(ConfigError, match="another charter"):
        other.decode(config.encode())
    with pytest.raises(ConfigError, match="another charter"):
        other.check(config)


def test_one_more_in_the_circle_is_another_context():
    first, second = AGREED, with_(serial=2)
    same = {"length": 4, "series_id": bytes(32)}
    assert first.config(**same).context != second.config(**same).context
    assert first.config(**same).context == first.config(**same).context
    assert first.config(length=4).series_id != first.config(length=4).series_id


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_other_bytes_are_no_configuration(cut):
    data = AGREED.config(length=4).encode()
    with pytest.raises(MalformedMessage, match="configuration under a charter"):
        AGREED.decode(data[:cut])
    with pytest.raises(MalformedMessage):
        AGREED.decode(configure(8).encode())
    with pytest.raises(MalformedMessage):
        RoundConfig.decode(data)


def test_a_round_that_cannot_be_is_refused_by_the_charter_that_it_is_under():
    data = msgspec.msgpack.decode(AGREED.config(length=4).encode())
    for name, value, match in (
        ("length", 0, "length must lie"),
        ("series_id", bytes(31), "series_id must have 32 bytes"),
        ("number", -1, "number must lie in"),
        ("number", 2**32, "number must lie in"),
    ):
        with pytest.raises(ConfigError, match=match):
            AGREED.decode(msgspec.msgpack.encode({**data, name: value}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dropout", [math.nan, -0.1, 1.5]),
        ("exposed", [math.nan, 0.5, math.inf]),
        ("privacy_bits", [math.nan, -1.0, math.inf]),
        ("colluders", [-1, 2**32]),
        ("least_honest", [-7]),
        ("exact_dropout", [0, 1, 2]),
    ],
)
def test_a_certificate_states_what_can_be(name, values):
    for value in values:
        with pytest.raises(ConfigError, match=f"{name}.* in the charter's certificate"):
            msgspec.structs.replace(NOTHING, **{name: value})


def test_the_members_of_a_charter_cannot_be_exchanged_behind_its_digest():
    seats = list(AGREED.members)
    made = with_(members=seats)
    seats.reverse()
    assert made.digest == AGREED.digest
    assert made.members == AGREED.members


def test_numbers_and_nesting_that_python_does_not_read_are_no_charter():
    for text in ("serial = " + "9" * 5000, "a = " + "[" * 5000, "\u001b[2J = 1"):
        with pytest.raises(ConfigError, match="this is not a charter") as error:
            Charter.parse(text)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 400


def test_graphs_of_every_kind_and_rules_of_every_kind():
    for graph in (ErdosRenyi(p=0.9), Harary(degree=6)):
        for threshold in (Majority(), Linear(slope=600, base=1), Fixed(t=5)):
            made = with_(graph=graph, threshold=threshold)
            assert Charter.parse(str(made)) == made
