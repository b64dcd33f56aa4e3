"""The second implementation, what a client reads before a round: configurations, lists, charters, identities.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import base64
import math
import re
import tomllib

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from second import LABELS, hashed, packed, threshold_of
from second_active import CERTIFICATE, GRAPHS, LEARNING, THRESHOLDS, charter_of


class Refused(Exception):
    """A refusal, by the name that appendix B of docs/protocol.md gives it."""

    def __init__(self, error):
        super().__init__(error)
        self.error = error


def whole(value, error="ConfigError"):
    if type(value) is not int:
        raise Refused(error)
    return value


# 3.1: the limits of a configuration

ORDER = (
    *("type", "version", "round_id", "clients", "length", "bits", "graph", "threshold", "generator"),
    *("min_survivors", "guard", "task"),
)


def check_configuration(fields):
    """All limits of 3.1, for fields as they stand in the encoding; ``charter`` beside them under active."""
    if whole(fields["version"]) != 2:
        raise Refused("ConfigError")
    check_round(fields)
    clients = whole(fields["clients"])
    if clients < 3:
        raise Refused("ConfigError")
    if clients > 2**32 - 1:
        raise Refused("ConfigError")
    if whole(fields["min_survivors"]) < 2:
        raise Refused("ConfigError")
    if fields["min_survivors"] > clients:
        raise Refused("ConfigError")
    if fields["generator"] not in ("aes128-ctr", "chacha20"):
        raise Refused("ConfigError")
    check_guard(fields)
    check_graph(fields["graph"], clients, fields["guard"])
    check_threshold(fields["threshold"], fields["graph"], clients, fields["guard"])


def check_round(fields):
    """What also a configuration under a charter has."""
    if whole(fields["bits"]) not in (8, 16, 32, 64):
        raise Refused("ConfigError")
    if whole(fields["length"]) < 1:
        raise Refused("ConfigError")
    if fields["length"] * fields["bits"] // 8 > 2**32 - 1:
        raise Refused("ConfigError")
    for name in ("round_id", "task"):
        if not isinstance(fields[name], bytes):
            raise Refused("ConfigError")
    if len(fields["round_id"]) != 32:
        raise Refused("ConfigError")
    if len(fields["task"]) > 64:
        raise Refused("ConfigError")


def check_guard(fields):
    if fields["guard"] not in ("curious", "active"):
        raise Refused("ConfigError")
    if fields["guard"] == "curious" and "charter" in fields:
        raise Refused("ConfigError")
    if fields["guard"] == "active" and len(fields.get("charter") or b"") != 32:
        raise Refused("ConfigError")


def check_graph(graph, clients, guard):
    check_kind(graph, GRAPHS)
    p, mask_p = graph.get("p"), graph.get("mask_p")
    degree, mask_degree = graph.get("degree"), graph.get("mask_degree")
    if graph["type"] == "erdos-renyi":
        check_probability(p)
    if mask_p is not None:
        check_probability(mask_p)
        if mask_p > (1 if p is None else p):
            raise Refused("ConfigError")
    if graph["type"] == "harary":
        check_degree(degree, clients)
    if mask_degree is not None:
        check_degree(mask_degree, clients)
        if mask_degree > (clients if degree is None else degree):
            raise Refused("ConfigError")
    if mask_p is not None and mask_degree is not None:
        raise Refused("ConfigError")
    if guard == "active" and (mask_p, mask_degree) != (None, None):
        raise Refused("ConfigError")
    if mean_degree(graph, clients) + 1 > 65520:
        raise Refused("ConfigError")


def check_kind(part, kinds):
    """One of the kinds, with its fields in their order."""
    if not isinstance(part, dict) or part.get("type") not in kinds:
        raise Refused("ConfigError")
    if list(part) != ["type", *kinds[part["type"]]]:
        raise Refused("ConfigError")


def check_probability(p):
    if not isinstance(p, float):
        raise Refused("ConfigError")
    if not p > 0:
        raise Refused("ConfigError")
    if p > 1:
        raise Refused("ConfigError")


def check_degree(degree, clients):
    if whole(degree) < 2:
        raise Refused("ConfigError")
    if degree % 2:
        raise Refused("ConfigError")
    if degree >= clients:
        raise Refused("ConfigError")


def mean_degree(graph, clients):
    kind = graph["type"]
    return graph["p"] * (clients - 1) if kind == "erdos-renyi" else graph.get("degree") or clients - 1


def most_degree(graph, clients):
    return graph.get("degree") or clients - 1


def mean_mask_edges(graph, clients):
    if graph.get("mask_p") is not None:
        return graph["mask_p"] * (clients - 1)
    return graph.get("mask_degree") or mean_degree(graph, clients)


def check_threshold(rule, graph, clients, guard):
    check_kind(rule, THRESHOLDS)
    mean, alone = mean_degree(graph, clients), guard == "active"
    if rule["type"] == "linear":
        for name, most in (("slope", 1024), ("base", 65520)):
            if whole(rule[name]) < 0:
                raise Refused("ConfigError")
            if rule[name] > most:
                raise Refused("ConfigError")
        if threshold_of(rule, int(mean)) > int(mean) + 1 - alone:
            raise Refused("ConfigError")
    if rule["type"] == "fixed":
        if whole(rule["t"]) < 2:
            raise Refused("ConfigError")
        if rule["t"] > most_degree(graph, clients) + 1 - alone:
            raise Refused("ConfigError")
        if 2 * rule["t"] <= mean + 1:
            raise Refused("ConfigError")


# 3.2: their encodings


def decoded(data, most):
    """Any value in its shortest form, of at most so many bytes."""
    if len(data) > most:
        raise Refused("MalformedMessage")
    try:
        value = msgspec.msgpack.decode(data)
        if packed(value) != data:
            raise Refused("MalformedMessage")
    except (
        msgspec.DecodeError,
        ValueError,
        OverflowError,
        TypeError,
    ):  # not msgpack, or what only longer forms have
        raise Refused("MalformedMessage") from None
    return value


def configuration(data):
    """Under curious; whatever is wrong with the bytes has one name."""
    values = decoded(data, 1024)
    if not isinstance(values, dict) or tuple(values) != ORDER or values["type"] != "round":
        raise Refused("MalformedMessage")
    try:
        check_configuration(values)
    except Refused:
        raise Refused("MalformedMessage") from None
    return values


CHARTERED = {"type": str, "version": int, "charter": bytes, "round_id": bytes, "length": int, "task": bytes}


def chartered_configuration(data, text):
    """Under active, with the charter whose text this is."""
    values = decoded(data, 1024)
    if not isinstance(values, dict) or list(values) != list(CHARTERED):
        raise Refused("MalformedMessage")
    if [type(value) for value in values.values()] != list(CHARTERED.values()):
        raise Refused("MalformedMessage")
    if values["type"] != "chartered-round":
        raise Refused("MalformedMessage")
    if values["version"] != 2:
        raise Refused("MalformedMessage")
    agreed = charter(text)
    if values["charter"] != charter_digest_of(agreed):
        raise Refused("ConfigError")
    check_round({**agreed, **values})
    return {**agreed, **values, "clients": len(agreed["members"]), "guard": "active"}


# 13.1: keys, signatures, lists

P = 2**255 - 19
Y8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
SMALL = (0, 1, P - 1, Y8, P - Y8)


def height(point):
    return int.from_bytes(point, "little") % 2**255


def check_identity_key(key):
    if len(key) != 32:
        raise Refused("ConfigError")
    if height(key) >= P:
        raise Refused("ConfigError")
    if height(key) in SMALL:
        raise Refused("ConfigError")


def check_signature(key, signature, text):
    """The library refuses another size, and an S that is not reduced."""
    if height(signature[:32]) in (*SMALL, P, P + 1):
        raise Refused("BadSignature")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        raise Refused("BadSignature") from None


#: The characters of 13.1, in the notation of regular expressions.
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
            raise Refused("ConfigError")
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
        raise Refused("ConfigError") from None
    if base64.b64encode(key).decode() != text:
        raise Refused("ConfigError")
    return key


def check_members(members):
    for name, key in members:
        check_name(name)
        check_identity_key(key)
    for column in zip(*members, strict=True):
        if len(set(column)) != len(column):
            raise Refused("ConfigError")


def check_name(name):
    if not name:
        raise Refused("ConfigError")
    if " " in name:
        raise Refused("ConfigError")
    if ODD.search(name):
        raise Refused("ConfigError")
    if name.startswith("#"):
        raise Refused("ConfigError")
    if name.startswith("ccesa-identity-"):
        raise Refused("ConfigError")


def identity_file(text):
    """Seed and name."""
    words = [word for line in lines_of(text) for word in line.split(" ") if word]
    if len(words) not in (2, 3):
        raise Refused("ConfigError")
    if words[0] != "ccesa-identity-1":
        raise Refused("ConfigError")
    if len(key_of(words[1])) != 32:
        raise Refused("ConfigError")
    for name in words[2:]:
        check_name(name)
        if len(name.encode()) > 128:
            raise Refused("ConfigError")
    return key_of(words[1]), "".join(words[2:])


# 13.1: charters

KEYS = {
    *("version", "serial", "expires", "members", "graph", "threshold", "generator", "bits", "least_roster"),
    *("min_survivors", "attempts", "certificate", "learning"),
}
NEEDED = KEYS - {"version", "generator", "bits", "attempts", "learning"}
#: The largest of each number of a certificate; all are at least 0. The others are logarithms, at most 0.
STATED = {
    **{"dropout": 1, "collusion": 1, "colluders": 2**32 - 1, "around": 2**32 - 1},
    **{"least_honest": 2**32 - 1, "privacy_bits": 1024, "reliability_bits": 1024},
}
COUNTED = ("colluders", "around", "least_honest")


def charter(text):
    """All that it says, as it is encoded."""
    try:
        given = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError:
        raise Refused("ConfigError") from None
    check_keys(given, NEEDED, KEYS)
    check_tables(given)
    for member in given["members"]:
        if [type(part) for part in member] != [str, str]:
            raise Refused("ConfigError")
    check_members([(name, key_of(key)) for name, key in given["members"]])
    for name in ("serial", "version", "least_roster", "min_survivors", "attempts", "bits"):
        whole(given.get(name, 2))
    check_moment(given["expires"])
    found = charter_of(text)
    check_charter(found)
    return found


def check_keys(table, needed, known):
    if not isinstance(table, dict):
        raise Refused("ConfigError")
    if needed - set(table):
        raise Refused("ConfigError")
    if set(table) - set(known):
        raise Refused("ConfigError")


def check_tables(given):
    for name, kinds in (("graph", GRAPHS), ("threshold", THRESHOLDS)):
        check_keys(given[name], {"type"}, given[name])
        if given[name]["type"] not in kinds:
            raise Refused("ConfigError")
        check_keys(given[name], set(), {"type", *kinds[given[name]["type"]]})
        if any(type(value) not in (int, float) for key, value in given[name].items() if key != "type"):
            raise Refused("ConfigError")
    check_keys(given["certificate"], {*CERTIFICATE} - {"exact_dropout"}, CERTIFICATE)
    for name, value in given["certificate"].items():
        if type(value) not in ((bool,) if name == "exact_dropout" else (int, float)):
            raise Refused("ConfigError")
    for name in COUNTED:
        whole(given["certificate"][name])
    learning = given.get("learning", {})
    check_keys(learning, set(), LEARNING)
    for name, value in learning.items():
        if type(value) is not type(LEARNING[name]) and not (
            type(value) is int and type(LEARNING[name]) is float
        ):
            raise Refused("ConfigError")


def check_moment(moment):
    """Seconds, a date, or a date and time with an offset."""
    if isinstance(moment, bool) or not (isinstance(moment, int) or hasattr(moment, "year")):
        raise Refused("ConfigError")
    if getattr(moment, "tzinfo", moment) is None:
        raise Refused("ConfigError")


def check_charter(found):
    for name, least, most in (
        ("serial", 1, 2**53 - 1),
        ("expires", 1, 2**53 - 1),
        ("attempts", 1, 1000),
        ("least_roster", 3, len(found["members"])),
    ):
        if found[name] < least:
            raise Refused("ConfigError")
        if found[name] > most:
            raise Refused("ConfigError")
    for name in CERTIFICATE:
        value, most = found["certificate"][name], STATED.get(name, 0)
        if name != "exact_dropout" and not value <= most:
            raise Refused("ConfigError")
        if name in STATED and not value >= 0:
            raise Refused("ConfigError")
    if found["learning"] is not None:
        check_learning(found["learning"])
    fields = {**found, "clients": len(found["members"]), "guard": "active", "charter": bytes(32)}
    check_configuration({**fields, "length": 1, "round_id": bytes(32), "task": b""})
    check_floor(fields, {})


def check_learning(learning):
    for name in ("clip", "metric_clip", "max_weight"):
        if not learning[name] > 0:
            raise Refused("ConfigError")
        if not learning[name] < math.inf:
            raise Refused("ConfigError")
    if not learning["message_types"]:
        raise Refused("ConfigError")
    named = [learning["weighted_by"]]
    for name in ("message_types", "metrics", "counters"):
        if len(set(learning[name])) != len(learning[name]):
            raise Refused("ConfigError")
        named += learning[name]
    for name in named:
        if not isinstance(name, str) or not name:
            raise Refused("ConfigError")
        if len(name) > 100:
            raise Refused("ConfigError")
        if ODD.search(name):
            raise Refused("ConfigError")


def charter_digest_of(found):
    return hashed(LABELS["charter"], packed(found))


# 3.3: a client's own limits

FLOOR = {"clients": 3, "degree": 1, "mask_degree": 1, "threshold": 2, "threshold_ratio": 0, "survivors": 2}


def check_floor(fields, floor):
    """Of a configuration."""
    graph, clients = fields["graph"], fields["clients"]
    degree = mean_degree(graph, clients)
    threshold = threshold_of(fields["threshold"], int(degree))
    found = {
        "clients": clients,
        "degree": degree,
        "mask_degree": mean_mask_edges(graph, clients),
        "threshold": threshold,
        "threshold_ratio": threshold / max(int(degree), 1),
        "survivors": fields["min_survivors"],
    }
    check_above(found, floor, "ConfigError")


def check_above(found, floor, error):
    for name, value in found.items():
        if value < {**FLOOR, **floor}[name]:
            raise Refused(error)
