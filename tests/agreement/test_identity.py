import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.agreement.identity import Admission, Identity, Member
from ccesa.crypto import primitives
from ccesa.errors import ConfigError
from ccesa.parts import UNPRINTABLE, is_printable

seeds = st.binary(min_size=32, max_size=32)
words = st.text(st.characters(), min_size=1, max_size=12).filter(
    lambda text: is_printable(text) and not set(text) & {"#", " "}
)
publics = seeds.map(lambda seed: Identity(seed).public)
comments = st.lists(words, max_size=3).map(" ".join)


@st.composite
def lists(draw: st.DrawFn) -> Admission:
    count = draw(st.integers(0, 6))
    names = draw(st.lists(words, min_size=count, max_size=count, unique=True))
    keys = draw(st.lists(publics, min_size=count, max_size=count, unique=True))
    return Admission(Member(n, k, draw(comments)) for n, k in zip(names, keys, strict=True))


# Identities


@given(seeds, st.binary(max_size=100))
def test_what_an_identity_signs_verifies_with_its_public_key(seed, text):
    identity = Identity(seed)
    signature = identity.sign(text)
    assert len(signature) == primitives.SIGNATURE_BYTES
    primitives.verify(identity.public, signature, text)
    assert identity.sign(text) == signature


@given(seeds, st.binary(max_size=40), st.integers(0, 511))
def test_any_changed_bit_of_a_signature_is_refused(seed, text, bit):
    identity = Identity(seed)
    flipped = int.from_bytes(identity.sign(text), "little") ^ (1 << bit)
    with pytest.raises(primitives.BadSignature):
        primitives.verify(identity.public, flipped.to_bytes(64, "little"), text)


@given(seeds, st.binary(max_size=40), st.binary(max_size=40))
def test_a_signature_on_one_text_is_none_on_another(seed, one, other):
    if one != other:
        with pytest.raises(primitives.BadSignature):
            primitives.verify(Identity(seed).public, Identity(seed).sign(one), other)


def test_new_identities_differ():
    assert Identity.new() != Identity.new()
    assert Identity.new().public != Identity.new().public


def test_the_seed_is_not_in_its_repr():
    identity = Identity(bytes(range(32)))
    assert identity.public  # what is cached must not show either
    for text in (repr(identity), str(identity), f"{[identity]}"):
        assert repr(identity.seed) not in text
        assert identity.seed.hex() not in text


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytearray(32), "s" * 32, None])
def test_a_seed_has_32_bytes(seed):
    with pytest.raises(ConfigError, match="32 bytes"):
        Identity(seed)


@given(seed=seeds, name=words | st.just(""))
def test_a_saved_identity_comes_back_with_its_name(seed, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("identity") / "key"
    Identity(seed, name).save(path)
    found = Identity.load(path)
    assert found == Identity(seed)
    assert found.name == name
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("name", ["two words", "#hidden", " ", "a\nb", "a\x1bb", "ü" * 65, None, 5])
def test_a_name_that_no_list_can_hold_is_none_of_an_identity(name):
    with pytest.raises(ConfigError, match="name"):
        Identity.new(name)


def test_the_longest_name_fits_into_the_file(tmp_path):
    Identity.new("ü" * 64).save(tmp_path / "key")
    assert Identity.load(tmp_path / "key").name == "ü" * 64


@pytest.mark.parametrize("name", [b"hopital\xf4", b"two words", b"#hidden", b"a\x1bb", b"x" * 200])
def test_a_file_with_a_name_that_is_none_is_refused(tmp_path, name):
    path = tmp_path / "key"
    Identity.new("name").save(path)
    path.write_bytes(path.read_bytes().replace(b"name", name))
    with pytest.raises(ConfigError):
        Identity.load(path)


def test_a_saved_identity_is_private_and_stays_as_it_is(tmp_path):
    path, identity = tmp_path / "key", Identity.new()
    identity.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="will not be overwritten"):
        Identity.new().save(path)
    assert Identity.load(path) == identity


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "key"
    Identity.new().save(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Identity.load(path)


FULL_DISK = """
import os, resource, sys
from ccesa.agreement.identity import Identity

os.chdir(sys.argv[1])
one = Identity.new()
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    one.save("key")
except OSError:
    assert os.listdir() == [], os.listdir()
else:
    raise SystemExit("it was saved")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
one.save("key")
assert Identity.load("key") == one
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of files")
def test_an_identity_that_did_not_fit_on_the_disk_can_be_saved_again(tmp_path):
    """The system takes twenty bytes and refuses the rest, as a full disk does."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_file_is_not_called_an_identity(tmp_path):
    with pytest.raises(FileNotFoundError):
        Identity.load(tmp_path / "key")


# The admission list


@given(lists(), st.binary(max_size=20))
def test_keys_verify_what_their_owners_signed(admission, text):
    for place, one in enumerate(admission.members):
        signature = bytes(64)
        with pytest.raises(primitives.BadSignature):
            primitives.verify(admission.key(place), signature, text)
        assert admission.key(place) == one.public


@given(lists())
def test_a_list_survives_its_text(admission):
    again = Admission.parse(str(admission))
    assert again.members == admission.members
    assert len(again) == len(admission) == len(admission.members)


@given(lists())
def test_the_id_of_a_client_is_its_place(admission):
    for place, member in enumerate(admission.members):
        assert admission.id_of(member.public) == place


@given(lists(), publics)
def test_who_is_not_in_the_list_has_no_id(admission, public):
    if all(member.public != public for member in admission.members):
        with pytest.raises(ConfigError, match="not among the members"):
            admission.id_of(public)


def member(name: str, k: int) -> Member:
    return Member(name, Identity(bytes([k]) * 32).public)


@pytest.mark.parametrize(
    "members", [[member("a", 0), member("a", 1)], [member("a", 0), member("b", 0)]], ids=["name", "key"]
)
def test_nobody_is_in_the_list_twice(members):
    with pytest.raises(ConfigError, match="twice"):
        Admission(members)


def test_a_list_in_a_file(tmp_path):
    path = tmp_path / "admission.txt"
    path.write_text(f"# who is in\n\n{member('a', 0)} since March\r\n  {member('hôpital', 1)}\n", "utf-8")
    admission = Admission.load(path)
    assert [(one.name, one.comment) for one in admission.members] == [("a", "since March"), ("hôpital", "")]
    path.write_text("a AAAA\n")
    with pytest.raises(ConfigError, match=r"admission\.txt.*'a'.*32 bytes, got 3"):
        Admission.load(path)
    path.write_bytes(b"a \xff\n")
    with pytest.raises(ConfigError, match="not text"):
        Admission.load(path)


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_list_that_others_can_write_to_is_refused(mode, tmp_path):
    path = tmp_path / "admission.txt"
    path.write_text(f"{member('a', 0)}\n")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"admission\.txt can be changed by others"):
        Admission.load(path)
    path.chmod(0o644)
    assert len(Admission.load(path)) == 1


#: What some editors, languages or versions of Unicode take for the end of a line, a space, or nothing.
ODD = {
    "CR without LF": "\r\r",
    "VT": "\v",
    "FF": "\f",
    "FS": "\x1c",
    "U+0085": "\x85",
    "U+2028": "\u2028",
    "U+2029": "\u2029",
    "NUL": "\0",
    "NBSP": "\xa0",
    "ideographic space": "\u3000",
    "BOM": "\ufeff",
    "zero width space": "\u200b",
    "right-to-left override": "\u202e",
    "soft hyphen": "\xad",
    "DEL": "\x7f",
    "private use": "\ue000",
    "tag": "\U000e0041",
}
KEY = str(Member("x", Identity(bytes(32)).public)).split()[1]
PLACES = {
    "in a name": f"ho{{}}me {KEY} note\nb {KEY}x",
    "as a name": f"{{}} {KEY}\n",
    "after a name": f"home{{}} {KEY}\n",
    "in a comment": f"home {KEY} no{{}}te\n",
    "at the end of a comment": f"home {KEY} note{{}}\n",
    "in a line that is skipped": f"# no{{}}te\nhome {KEY}\n",
    "between the fields": f"home{{}}{KEY}\n",
    "between key and comment": f"home {KEY}{{}}note\n",
    "in the key": f"home {KEY[:20]}{{}}{KEY[20:]}\n",
    "at the end of a line": f"home {KEY}{{}}\n",
    "at the end of an empty line": f"{{}}\nhome {KEY}\n",
    "at the very end": f"home {KEY}\n{{}}",
    "in place of a line end": f"home {KEY}{{}}# note\n",
}


def outcome(read, *arguments):
    """The members, or that it was refused."""
    try:
        return [str(member) for member in read(*arguments).members]
    except (ConfigError, UnicodeDecodeError):
        return ConfigError


def same_outcome(data, folder):
    """Of the bytes as text, and of a file that has them."""
    path = folder / "list"
    path.write_bytes(data)
    parsed = outcome(lambda: Admission.parse(data.decode()))
    assert outcome(Admission.load, path) == parsed
    return parsed


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("odd", ODD)
def test_characters_that_cannot_be_printed_are_refused_in_every_place(place, odd, tmp_path):
    text = PLACES[place].format(ODD[odd])
    first = odd == "BOM" and text.startswith("\ufeff") and place == "at the end of an empty line"
    assert same_outcome(text.encode(), tmp_path) == ([f"home {KEY}"] if first else ConfigError)


@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\r\n", "\n\r\n\n"])
@pytest.mark.parametrize("gap", [" ", "\t", " \t  "])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_end_with_lf_or_cr_lf_and_tabs_count_as_spaces(end, gap, mark, tmp_path):
    other = Member("b", Identity(b"\x01" * 32).public)
    text = f"{mark}{gap}home{gap}{KEY}{gap}a{gap}note{end}# skipped{end}{other}"
    note = gap.replace("\t", " ")
    assert same_outcome(text.encode(), tmp_path) == [f"home {KEY} a{note}note", str(other)]


def test_no_other_character_ends_a_line_or_separates_words(tmp_path):
    for code in range(0x110000):
        if not is_printable(chr(code)) or chr(code) in " #":
            continue
        if chr(code).isspace() or len(chr(code).splitlines()) == 0 or len(f"a{chr(code)}b".splitlines()) > 1:
            raise AssertionError(f"U+{code:04X} is white space")


@given(
    data=st.binary(max_size=60)
    | st.lists(st.sampled_from([*ODD.values(), "home", KEY, " ", "\t", "\n", "\r\n", "#", "é", "a"]), max_size=12).map(
        lambda parts: "".join(parts).encode()
    )
)
def test_a_file_and_its_text_give_the_same(data, tmp_path_factory):
    same_outcome(data, tmp_path_factory.getbasetemp())


def test_the_specification_lists_what_cannot_be_printed():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    block = page.split("```text\n", 1)[1].split("```", 1)[0]
    found = [line.split()[0] for line in block.splitlines()]
    ends = [(pair.split("-") * 2)[:2] for pair in found]
    assert [(int(first, 16), int(last, 16)) for first, last in ends] == list(UNPRINTABLE)


@given(st.text(max_size=80))
def test_any_text_is_a_list_or_a_mistake_of_the_caller(text):
    try:
        admission = Admission.parse(text)
    except ConfigError:
        return
    assert len({one.public for one in admission.members}) == len(admission)


def test_a_member_travels_between_processes():
    one = member("a", 0)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize(
    "y",
    [
        "00" * 32,
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ed" + "ff" * 30 + "7f",  # p itself: 0 in another form
        "ff" * 31 + "7f",
    ],
)
def test_keys_that_anyone_could_sign_for_are_not_admitted(y, sign):
    key = bytearray.fromhex(y)
    key[-1] |= sign
    with pytest.raises(ConfigError, match="low order"):
        Member("mallory", bytes(key))


@pytest.mark.parametrize("name", ["", "#a", "two words", "tab\there", "a\nb", "bell\a"])
def test_names_that_would_change_the_list_are_refused(name):
    with pytest.raises(ConfigError):
        Member(name, Identity.new().public)


@pytest.mark.parametrize("comment", ["x\nmallory key", "x\ty", " x", "x ", "x\xa0y"])
def test_a_comment_reads_back_as_it_is(comment):
    with pytest.raises(ConfigError, match="comment"):
        Member("a", Identity.new().public, comment)


@pytest.mark.parametrize("public", [b"k" * 31, b"k" * 33, b"", "k" * 32, None, bytearray(32)], ids=repr)
def test_a_member_has_a_key_of_32_bytes(public):
    with pytest.raises(ConfigError, match="must be 32 bytes"):
        Member("a", public)


@pytest.mark.parametrize(("name", "comment"), [(None, ""), (b"a", ""), ("a", None), ("a", 5)])
def test_a_member_has_text_for_people(name, comment):
    with pytest.raises(ConfigError, match="must be text"):
        Member(name, Identity.new().public, comment)


@pytest.mark.parametrize("name", [" a", "a ", "\ta", "a\n"])
def test_a_name_with_space_around_it_would_not_read_back(name):
    with pytest.raises(ConfigError, match="is not a name"):
        Member(name, Identity.new().public)


def test_the_file_of_a_private_key_is_no_line_of_a_list(tmp_path):
    """A site that sends the file instead of the line must not find its key in everybody's charter."""
    Identity.new("hospital-a").save(tmp_path / "site.key")
    text = (tmp_path / "site.key").read_text()
    with pytest.raises(ConfigError, match="begins the file of a private key") as error:
        Admission.parse(text)
    assert text.split()[1] not in str(error.value)
