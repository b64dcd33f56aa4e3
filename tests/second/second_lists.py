"""The second implementation, docs/formats.md: identities, member lists, charters, configurations under them.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import base64
import math
import re
import tomllib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from second import LABELS, hashed, packed
from second_active import CERTIFICATE, GRAPHS, LEARNING, THRESHOLDS, charter_of
from second_config import check_configuration, check_floor, check_parties, check_round, decoded, whole
from second_refusals import named, refuse

# Keys and signatures

P = 2**255 - 19
Y8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
SMALL = (0, 1, P - 1, Y8, P - Y8)


def height(point):
    return int.from_bytes(point, "little") % 2**255


def check_identity_key(key):
    if len(key) != 32:
        refuse("K3.1", "ConfigError")
    if height(key) >= P:
        refuse("K3.2", "ConfigError")
    if height(key) in SMALL:
        refuse("K3.3", "ConfigError")


def check_signature(key, signature, text):
    """The library refuses another size, and an S that is not reduced."""
    if height(signature[:32]) in (*SMALL, P, P + 1):
        refuse("K4.1", "BadSignature")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        refuse("K4.2", "BadSignature")


# Admission lists, and files of identities

#: The characters of docs/formats.md, 1, in the notation of regular expressions.
ODD = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U0010ffff]"
)


def lines_of(text):
    if text.startswith("\ufeff"):
        text = text[1:]
    for line in re.split("\r?\n", text):
        line = line.replace("\t", " ")
        if ODD.search(line):
            refuse("N1.1", "ConfigError")
        yield line.strip(" ")


def admitted(text):
    """Name, key and comment of each member."""
    members = []
    for line in lines_of(text):
        if line and not line.startswith("#"):
            name, key, comment = [*re.split(" +", line, maxsplit=2), "", ""][:3]
            members.append((name, key_of(key), comment))
    check_members([(name, key) for name, key, _ in members])
    return members


def key_of(text):
    """Base64 with padding, in its one spelling."""
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        refuse("N1.2", "ConfigError")
    if base64.b64encode(key).decode() != text:
        refuse("N1.2", "ConfigError")
    return key


def check_members(members):
    for name, key in members:
        check_name(name)
        check_identity_key(key)
    for column in zip(*members, strict=True):
        if len(set(column)) != len(column):
            refuse("N1.3", "ConfigError")


def check_name(name):
    if not name:
        refuse("N2.1", "ConfigError")
    if " " in name:
        refuse("N2.1", "ConfigError")
    if ODD.search(name):
        refuse("N2.2", "ConfigError")
    if name.startswith("#"):
        refuse("N2.3", "ConfigError")
    if name.startswith("ccesa-identity-"):
        refuse("N2.4", "ConfigError")


def identity_file(text):
    """Seed and name."""
    words = [word for line in lines_of(text) for word in line.split(" ") if word]
    if len(words) not in (2, 3):
        refuse("I1.1", "ConfigError")
    if words[0] != "ccesa-identity-1":
        refuse("I1.2", "ConfigError")
    if len(key_of(words[1])) != 32:
        refuse("I1.3", "ConfigError")
    for name in words[2:]:
        check_name(name)
        if len(name.encode()) > 128:
            refuse("I1.4", "ConfigError")
    return key_of(words[1]), "".join(words[2:])


# Charters

KEYS = {
    *("version", "serial", "expires", "members", "graph", "threshold", "generator", "agreement", "bits"),
    *("least_roster", "min_survivors", "attempts", "releases", "certificate", "learning"),
}
#: The tables of 15.1 and 16.1 are taken as they are: other files have what is refused of them.
FURTHER = {"privacy", "statistics"}
NEEDED = KEYS - {"version", "generator", "agreement", "bits", "attempts", "releases", "learning"}
#: With helpers these stand in place of those.
IN_PLACE, REPLACED = {"helpers", "key_days", "colluders"}, {"graph", "threshold", "least_roster", "certificate"}
NEEDED_HELPED = NEEDED - REPLACED | IN_PLACE - {"key_days"}
KEYS_HELPED = KEYS - REPLACED - {"releases"} | IN_PLACE
#: The largest of each number of a certificate; all are at least 0. The others are logarithms, at most 0.
STATED = {
    "dropout": 1,
    "collusion": 1,
    "colluders": 2**32 - 1,
    "around": 2**32 - 1,
    "least_honest": 2**32 - 1,
    "privacy_bits": 1024,
    "reliability_bits": 1024,
}
#: Integers of a charter, and the checks that want them to be such.
WHOLE = {
    "serial": "H2.4",
    "version": "F1.1",
    "least_roster": "H2.8",
    "min_survivors": "F1.10",
    "attempts": "H2.6",
    "releases": "H2.7",
    "bits": "F1.2",
    "key_days": "H5.3",
    "colluders": "H5.4",
}
COUNTED = ("colluders", "around", "least_honest")


def charter(text):
    """All that it says, as it is encoded."""
    try:
        given = tomllib.loads(text.removeprefix("\ufeff"), parse_float=finite)
    except ValueError:
        refuse("H1.1", "ConfigError")
    check_plain(text, given)
    helped = "helpers" in given
    needed, known = (NEEDED_HELPED, KEYS_HELPED) if helped else (NEEDED, KEYS)
    check_keys(given, needed, known | FURTHER, "H2.1")
    if not helped:
        check_tables(given)
    check_learning_table(given.get("learning", {}))
    check_seats(given["members"])
    check_seats(given.get("helpers", []))
    for name, check in WHOLE.items():
        whole(given.get(name, 2), check)
    check_moment(given["expires"])
    found = charter_of(text)
    (check_assisted if helped else check_charter)(found)
    return found


def check_seats(given):
    """Members, or helpers: pairs of name and key."""
    for member in given:
        if [type(part) for part in member] != [str, str]:
            refuse("H2.2", "ConfigError")
    check_members([(name, key_of(key)) for name, key in given])


def finite(text):
    if float(text) in (math.inf, -math.inf) and "inf" not in text:
        refuse("H1.3", "ConfigError")
    return float(text)


def check_plain(text, given):
    """Integers have 64 bits, and no fraction of a second has more than nine digits."""
    inside = [given]
    for value in inside:
        inside += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            refuse("H1.2", "ConfigError")
    # Of a charter only expires is a time, and it stands alone in its line.
    if any(re.match(r"""['" ]*expires\b.*?:\d\d\.\d{10}""", line.partition("#")[0]) for line in text.splitlines()):
        refuse("H1.4", "ConfigError")


def check_keys(table, needed, known, check):
    if not isinstance(table, dict):
        refuse(check, "ConfigError")
    if needed - set(table):
        refuse(check, "ConfigError")
    if set(table) - set(known):
        refuse(check, "ConfigError")


def check_tables(given):
    for name, kinds in (("graph", GRAPHS), ("threshold", THRESHOLDS)):
        check_keys(given[name], {"type"}, given[name], "H2.3")
        if given[name]["type"] not in kinds:
            refuse("H2.3", "ConfigError")
        check_keys(given[name], set(), {"type", *kinds[given[name]["type"]]}, "H2.3")
        if any(type(value) not in (int, float) for key, value in given[name].items() if key != "type"):
            refuse("H2.3", "ConfigError")
    known = {*CERTIFICATE, "dropout_per_step"}
    check_keys(given["certificate"], {*CERTIFICATE} - {"exact_dropout"}, known, "H3.1")
    figures = dict(given["certificate"])
    check_each_step(figures.pop("dropout_per_step", [0.0] * 6))
    for name, value in figures.items():
        if type(value) not in ((bool,) if name == "exact_dropout" else (int, float)):
            refuse("H3.2", "ConfigError")
    for name in COUNTED:
        whole(given["certificate"][name], "H3.2")


def check_learning_table(learning):
    check_keys(learning, set(), LEARNING, "H4.1")
    for name, value in learning.items():
        if type(value) is not type(LEARNING[name]) and not (type(value) is int and type(LEARNING[name]) is float):
            refuse("H4.2", "ConfigError")


def check_each_step(each):
    if type(each) is not list or len(each) != 6 or any(type(q) not in (int, float) for q in each):
        refuse("H3.3", "ConfigError")
    if not all(0 <= q < 1 for q in each):
        refuse("H3.3", "ConfigError")


def check_moment(moment):
    """Seconds, a date, or a date and time with an offset."""
    if isinstance(moment, bool) or not (isinstance(moment, int) or hasattr(moment, "year")):
        refuse("H2.5", "ConfigError")
    if getattr(moment, "tzinfo", moment) is None:
        refuse("H2.5", "ConfigError")


LIMITS = (("serial", "H2.4", 1, 2**53 - 1), ("expires", "H2.5", 1, 2**53 - 1), ("attempts", "H2.6", 1, 1000))


def check_ranges(found, limits):
    for name, check, least, most in limits:
        if found.get(name, 1) < least:
            refuse(check, "ConfigError")
        if found.get(name, 1) > most:
            refuse(check, "ConfigError")


def check_assisted(found):
    """A charter with helpers."""
    check_ranges(found, (*LIMITS, ("key_days", "H5.3", 1, 365)))
    members, helpers = found["members"], found["helpers"]
    if len(helpers) < 2:
        refuse("H5.1", "ConfigError")
    if len(helpers) > 16:
        refuse("H5.1", "ConfigError")
    keys = dict(members)
    for name, key in helpers:
        if (name in keys or key in keys.values()) and keys.get(name) != key:
            refuse("H5.2", "ConfigError")
    if found["colluders"] < 0:
        refuse("H5.4", "ConfigError")
    if found["version"] != 2:
        refuse("F1.1", "ConfigError")
    fields = {**found, "clients": len(members)}
    check_round({**fields, "length": 1, "series_id": bytes(32), "number": 0, "accept": False})
    check_parties(fields)
    if found["min_survivors"] - found["colluders"] < 2:
        refuse("H5.5", "ConfigError")
    check_contents(found)


def check_contents(found):
    """What is averaged."""
    if found["learning"] is not None:
        check_learning(found["learning"])
        check_fields(found["learning"]["field_bits"], found["bits"], len(found["members"]))


def check_charter(found):
    roster, releases = ("H2.8", 3, len(found["members"])), ("H2.7", 1, found["attempts"])
    check_ranges(found, (*LIMITS, ("least_roster", *roster), ("releases", *releases)))
    for name in CERTIFICATE:
        value, most = found["certificate"][name], STATED.get(name, 0)
        if name != "exact_dropout" and not value <= most:
            refuse("H3.4", "ConfigError")
        if name in STATED and not value >= 0:
            refuse("H3.4", "ConfigError")
    check_contents(found)
    fields = {**found, "clients": len(found["members"]), "guard": "active", "charter": bytes(32)}
    check_configuration({**fields, "length": 1, "series_id": bytes(32), "number": 0, "accept": True})
    with named("H2.9"):
        check_floor(fields, {})


def check_learning(learning):
    for name in ("clip", "metric_clip", "max_weight"):
        if not learning[name] > 0:
            refuse("H4.3", "ConfigError")
        if not learning[name] < math.inf:
            refuse("H4.3", "ConfigError")
    if not learning["message_types"]:
        refuse("H4.4", "ConfigError")
    named = [learning["weighted_by"]]
    for name in ("message_types", "metrics", "counters"):
        if len(set(learning[name])) != len(learning[name]):
            refuse("H4.5", "ConfigError")
        named += learning[name]
    check_names(named)


def check_fields(field_bits, bits, clients):
    if bits != 64:
        refuse("H4.7", "ConfigError")
    if field_bits > 64:
        refuse("H4.8", "ConfigError")
    if clients >= 2 ** (field_bits - 1):
        refuse("H4.8", "ConfigError")


def check_names(named):
    for name in named:
        if not isinstance(name, str) or not name:
            refuse("H4.6", "ConfigError")
        if len(name) > 100:
            refuse("H4.6", "ConfigError")
        if ODD.search(name):
            refuse("H4.6", "ConfigError")


def charter_digest_of(found):
    return hashed(LABELS["charter"], packed(found))


# Configurations under a charter

CHARTERED = {
    "type": str,
    "version": int,
    "charter": bytes,
    "series_id": bytes,
    "number": int,
    "length": int,
    "accept": bool,
}


def chartered_configuration(data, text):
    """Under active, with the charter whose text this is."""
    values = decoded(data, 1024, ("F2.1", "F2.2"))
    if not isinstance(values, dict) or list(values) != list(CHARTERED):
        refuse("F3.1", "MalformedMessage")
    if [type(value) for value in values.values()] != list(CHARTERED.values()):
        refuse("F3.2", "MalformedMessage")
    if values["type"] != "chartered-round":
        refuse("F3.3", "MalformedMessage")
    if values["version"] != 2:
        refuse("F3.4", "MalformedMessage")
    agreed = charter(text)
    if values["charter"] != charter_digest_of(agreed):
        refuse("F3.5", "ConfigError")
    check_round({**agreed, **values})
    guard = "assisted" if "helpers" in agreed else "active"
    return {**agreed, **values, "clients": len(agreed["members"]), "guard": guard}
