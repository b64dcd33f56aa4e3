"""Text from others in errors: whatever they send, an error stays short, one line, and printable."""

import traceback

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Admission, Identity, Member
from ccesa.errors import CcesaError, MalformedMessage, quoted, shown
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear
from ccesa.protocol import messages
from ccesa.values.fields import Layout
from ccesa.values.quantize import Quantizer

#: Line ends of several kinds, a terminal's escapes, and a character that turns the direction of writing.
NASTY = "name\nFATAL: all is well\r\x1b[2J\x1b]0;title\x07\u202e\u2028\x85\x00\ud800é😀'\"\\"
any_text = st.text(max_size=200) | st.text("\n\r\x1b\u202eA", max_size=200) | st.sampled_from([NASTY, NASTY * 10_000])
LONGEST = 400


def harmless(text: str) -> bool:
    return len(text) <= LONGEST and text.isascii() and text.isprintable()


def check(act, *arguments, **named) -> bool:
    """Acting goes well, or ends in an error of ours whose text, and whose traceback, shows nothing raw."""
    try:
        act(*arguments, **named)
        return False
    except CcesaError as caught:
        error = caught
    assert harmless(str(error)), str(error)[:1000]
    trace = "".join(traceback.format_exception(error))
    assert len(trace) < 10_000
    assert not set(trace) & set("\x1b\r\u202e\u2028\x85\x00")
    return True


# The functions


@given(any_text, st.integers(1, 300))
def test_what_is_shown_is_one_line_of_ascii_and_says_what_was_cut(text, most):
    found = shown(text, most)
    assert found.isascii()
    assert found.isprintable()
    pieces = [c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text]
    kept = max(k for k in range(min(len(text), most) + 1) if len("".join(pieces[:k])) <= most)
    end = "" if kept == len(text) else f"... and {len(text) - kept} more characters"
    assert found == "".join(pieces[:kept]) + end


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=80))
def test_plain_text_is_shown_as_it_is(text):
    assert shown(text) == text
    assert shown(text, len(text)) == text


@pytest.mark.parametrize(
    ("text", "most", "found"),
    [
        ("a\nb", 80, r"a\nb"),
        ("hôpital", 80, r"h\xf4pital"),
        ("abcdef", 3, "abc... and 3 more characters"),
        ("ab\x1bdef", 4, "ab... and 4 more characters"),
        ("😀😀", 10, r"\U0001f600... and 1 more characters"),
        ("x" * 4_000_000, 80, "x" * 80 + "... and 3999920 more characters"),
    ],
)
def test_escapes_are_never_cut_in_half(text, most, found):
    assert shown(text, most) == found


@given(any_text | st.integers() | st.binary() | st.floats() | st.none() | st.lists(st.text()))
def test_any_value_can_be_quoted(value):
    assert harmless(quoted(value))


def test_quoted_values_are_told_apart_from_each_other():
    assert (quoted("5"), quoted(5), quoted("it's"), quoted(b"\n")) == ("'5'", "5", '"it\'s"', r"b'\n'")
    assert quoted(10**5000) == "a number of 16610 bits"


# Where text from others comes in


@given(any_text, st.lists(any_text, max_size=3))
def test_the_tag_of_a_message(tag, rest):
    fields = [text.encode("utf-8", "replace").decode() for text in (tag, *rest)]
    assert check(messages.decode, msgspec.msgpack.encode(fields), 10**9)


def test_a_tag_of_megabytes_is_cut_from_the_error_and_from_its_traceback():
    tag = "A\n\x1b[2J" * 700_000
    with pytest.raises(MalformedMessage) as caught:
        messages.decode(msgspec.msgpack.encode([tag]), 10**9)
    assert harmless(str(caught.value))
    assert r"A\n\x1b[2JA\n" in str(caught.value)
    assert len("".join(traceback.format_exception(caught.value))) < 3_000


@given(st.binary(max_size=300))
def test_any_bytes_as_a_message_or_a_configuration(data):
    check(messages.decode, data, 10**6)
    check(RoundConfig.decode, data)


@given(st.sampled_from(["type", "generator", "guard", "series_id", "graph", "bits", "version", "more"]), any_text)
def test_any_text_in_a_configuration_that_comes_as_bytes(field, text):
    text = text[:900].encode("utf-8", "replace").decode()
    tree = {"type": "round", "clients": 5, "length": 3, field: text}
    assert check(RoundConfig.decode, msgspec.msgpack.encode(tree))
    graph = {"type": "round", "clients": 5, "length": 3, "graph": {"type": "complete", text: text}}
    assert check(RoundConfig.decode, msgspec.msgpack.encode(graph))


wrong = any_text | st.integers(2**64) | st.integers(max_value=-(2**64)) | st.just(10**5000)


@given(wrong, st.sampled_from(["version", "bits", "generator", "guard", "series_id", "clients", "length", "graph"]))
def test_any_value_in_a_configuration_that_is_built(value, field):
    assert check(RoundConfig, **{"clients": 5, "length": 3, field: value})


@given(wrong)
def test_any_value_in_the_parts_of_a_configuration(value):
    for build in (
        lambda: ErdosRenyi(p=value),
        lambda: Harary(degree=value),
        lambda: Complete(mask_degree=value),
        lambda: Linear(slope=value, base=1),
        lambda: Fixed(t=value),
        lambda: Floor(degree=value),
        lambda: Floor(threshold_ratio=value),
    ):
        check(build)


@given(any_text)
def test_any_text_as_an_admission_list(text):
    check(Admission.parse, text)
    check(Admission.parse, f"{text} AAAA")


@given(any_text, any_text)
def test_any_name_and_comment_of_a_member(name, comment):
    key = Identity(bytes(32)).public
    check(Member, name, key, comment)
    check(Member, name, b"", comment)
    check(Member, name, bytes(32), comment)


def test_a_long_name_that_is_in_the_list_twice():
    members = [Member("é" * 100_000, Identity(bytes([k]) * 32).public) for k in range(2)]
    assert check(Admission, members)


@given(data=st.binary(max_size=300))
def test_any_bytes_as_the_file_of_an_identity_or_a_list(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    path.chmod(0o600)
    check(Identity.load, path)
    check(Admission.load, path)


@given(any_text)
def test_any_names_of_arrays(name):
    good, bad = {name: np.zeros(2)}, {name: np.array([np.nan, 0])}
    layout = Layout.of(good)
    assert check(layout.flatten, bad)
    assert check(layout.flatten, {f"{name}.": np.zeros(2)})
    assert check(Layout.of, {name: np.array(["a"])})
    assert check(Quantizer, layout=layout, clients=3, clip={f"{name}.": 1.0})
    assert check(Quantizer, layout=layout, clients=3, clip=1.0, rounding=name)


def test_names_and_shapes_of_a_large_model():
    layout = Layout.of({f"layer {k}": np.zeros((k, 3)) for k in range(500)})
    assert check(layout.flatten, {f"array {k}": np.zeros((k, 3)) for k in range(500)})
    assert check(layout.flatten, {f"layer {k}": np.zeros((k, 4)) for k in range(500)})
