"""The second implementation, configurations: their limits, their encodings, and a client's own limits.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import msgspec

from second import packed, threshold_of
from second_active import GRAPHS, THRESHOLDS
from second_refusals import Refused, refuse


def whole(value, check, error="ConfigError"):
    if type(value) is not int:
        refuse(check, error)
    return value


# 3.1: the limits of a configuration

ORDER = (
    *("type", "version", "series_id", "number", "clients", "length", "bits", "graph", "threshold"),
    *("generator", "agreement", "accept", "min_survivors", "guard"),
)


def check_configuration(fields):
    """All limits of 3.1, for fields as they stand in the encoding; ``charter`` beside them under active."""
    if whole(fields["version"], "F1.1") != 2:
        refuse("F1.1", "ConfigError")
    check_round(fields)
    check_parties(fields)
    check_guard(fields)
    clients = fields["clients"]
    check_graph(fields["graph"], clients, fields["guard"])
    check_threshold(fields["threshold"], fields["graph"], clients, fields["guard"])


def check_parties(fields):
    """What also a charter with helpers has."""
    clients = whole(fields["clients"], "F1.9")
    if clients < 3:
        refuse("F1.9", "ConfigError")
    if clients > 2**32 - 1:
        refuse("F1.9", "ConfigError")
    if whole(fields["min_survivors"], "F1.10") < 2:
        refuse("F1.10", "ConfigError")
    if fields["min_survivors"] > clients:
        refuse("F1.10", "ConfigError")
    if fields["generator"] not in ("aes128-ctr", "chacha20"):
        refuse("F1.11", "ConfigError")
    if fields["agreement"] not in ("x25519", "x25519-mlkem768"):
        refuse("F1.12", "ConfigError")


def check_round(fields):
    """What also a configuration under a charter has."""
    if whole(fields["bits"], "F1.2") not in (8, 16, 32, 64):
        refuse("F1.2", "ConfigError")
    if whole(fields["length"], "F1.3") < 1:
        refuse("F1.3", "ConfigError")
    if vector_bytes(fields) > 2**32 - 1:
        refuse("F1.4", "ConfigError")
    if not isinstance(fields["series_id"], bytes):
        refuse("F1.5", "ConfigError")
    if len(fields["series_id"]) != 32:
        refuse("F1.5", "ConfigError")
    if whole(fields["number"], "F1.6") < 0:
        refuse("F1.6", "ConfigError")
    if fields["number"] > 2**32 - 1:
        refuse("F1.6", "ConfigError")
    check_accept(fields)


def check_accept(fields):
    if type(fields["accept"]) is not bool:
        refuse("F1.7", "ConfigError")
    if "helpers" in fields:
        if fields["accept"]:
            refuse("F1.30", "ConfigError")
    elif fields["agreement"] == "x25519-mlkem768" and not fields["accept"]:
        refuse("F1.8", "ConfigError")


def vector_bytes(fields):
    """Of a masked vector; with helpers it has check words."""
    return (fields["length"] + (check_words(fields["bits"]) if "helpers" in fields else 0)) * fields["bits"] // 8


def check_words(bits):
    """How many a vector has behind it."""
    return max(2, 64 // bits)


def check_guard(fields):
    if fields["guard"] not in ("curious", "active"):
        refuse("F1.13", "ConfigError")
    if fields["guard"] == "curious" and "charter" in fields:
        refuse("F1.14", "ConfigError")
    if fields["guard"] == "active" and len(fields.get("charter") or b"") != 32:
        refuse("F1.14", "ConfigError")


def check_graph(graph, clients, guard):
    check_kind(graph, GRAPHS, "F1.15")
    p, mask_p = graph.get("p"), graph.get("mask_p")
    degree, mask_degree = graph.get("degree"), graph.get("mask_degree")
    if graph["type"] == "erdos-renyi":
        check_probability(p)
    if mask_p is not None:
        check_probability(mask_p)
        if mask_p > (1 if p is None else p):
            refuse("F1.17", "ConfigError")
    if graph["type"] == "harary":
        check_degree(degree, clients)
    if mask_degree is not None:
        check_degree(mask_degree, clients)
        if mask_degree > (clients if degree is None else degree):
            refuse("F1.19", "ConfigError")
    if mask_p is not None and mask_degree is not None:
        refuse("F1.20", "ConfigError")
    if guard == "active" and (mask_p, mask_degree) != (None, None):
        refuse("F1.21", "ConfigError")
    if mean_degree(graph, clients) + 1 > 65520:
        refuse("F1.22", "ConfigError")


def check_kind(part, kinds, check):
    """One of the kinds, with its fields in their order."""
    if not isinstance(part, dict) or part.get("type") not in kinds:
        refuse(check, "ConfigError")
    if list(part) != ["type", *kinds[part["type"]]]:
        refuse(check, "ConfigError")


def check_probability(p):
    if not isinstance(p, float):
        refuse("F1.16", "ConfigError")
    if not p > 0:
        refuse("F1.16", "ConfigError")
    if p > 1:
        refuse("F1.16", "ConfigError")


def check_degree(degree, clients):
    if whole(degree, "F1.18") < 2:
        refuse("F1.18", "ConfigError")
    if degree % 2:
        refuse("F1.18", "ConfigError")
    if degree >= clients:
        refuse("F1.18", "ConfigError")


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
    check_kind(rule, THRESHOLDS, "F1.23")
    mean, alone = mean_degree(graph, clients), guard == "active"
    if rule["type"] == "linear":
        for name, most, check in (("slope", 1024, "F1.24"), ("base", 65520, "F1.25")):
            if whole(rule[name], check) < 0:
                refuse(check, "ConfigError")
            if rule[name] > most:
                refuse(check, "ConfigError")
        if threshold_of(rule, int(mean)) > int(mean) + 1 - alone:
            refuse("F1.26", "ConfigError")
    if rule["type"] == "fixed":
        if whole(rule["t"], "F1.27") < 2:
            refuse("F1.27", "ConfigError")
        if rule["t"] > most_degree(graph, clients) + 1 - alone:
            refuse("F1.28", "ConfigError")
        if 2 * rule["t"] <= mean + 1:
            refuse("F1.29", "ConfigError")


# 3.2: their encodings


def decoded(data, most, checks):
    """Any value in its shortest form, of at most so many bytes; the checks are those of both."""
    if len(data) > most:
        refuse(checks[0], "MalformedMessage")
    try:
        value = msgspec.msgpack.decode(data)
        if packed(value) != data:
            refuse(checks[1], "MalformedMessage")
    except (msgspec.DecodeError, ValueError, OverflowError, TypeError):  # not msgpack, or what only longer forms have
        refuse(checks[1], "MalformedMessage")
    return value


def configuration(data):
    """Under curious; whatever is wrong with the bytes has one name."""
    values = decoded(data, 1024, ("F2.1", "F2.2"))
    if not isinstance(values, dict) or tuple(values) != ORDER or values["type"] != "round":
        refuse("F2.3", "MalformedMessage")
    try:
        check_configuration(values)
    except Refused as refusal:
        raise Refused("MalformedMessage", refusal.check) from None
    return values


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
    check_above(found, floor, "J1.3", "ConfigError")


def check_above(found, floor, check, error):
    for name, value in found.items():
        if value < {**FLOOR, **floor}[name]:
            refuse(check, error)
