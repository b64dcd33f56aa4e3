"""The second implementation, configurations: their limits, their encodings, and a client's own limits.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import msgspec

from second import packed, threshold_of
from second_active import GRAPHS, THRESHOLDS


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
    *("type", "version", "series_id", "number", "clients", "length", "bits", "graph", "threshold"),
    *("generator", "agreement", "accept", "min_survivors", "guard"),
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
    if fields["agreement"] not in ("x25519", "x25519-mlkem768"):
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
    if not isinstance(fields["series_id"], bytes):
        raise Refused("ConfigError")
    if len(fields["series_id"]) != 32:
        raise Refused("ConfigError")
    if whole(fields["number"]) < 0:
        raise Refused("ConfigError")
    if fields["number"] > 2**32 - 1:
        raise Refused("ConfigError")
    if type(fields["accept"]) is not bool:
        raise Refused("ConfigError")
    if fields["agreement"] == "x25519-mlkem768" and not fields["accept"]:
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
