"""The second implementation, guard ``active``: identities, the roster's tree, and who signs what."""

import base64
import datetime
import hashlib
import tomllib
import unicodedata

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from second import LABELS, Reference, digest_of, framed, hashed, le4, packed, raw


def signature_of(seed, text):
    return Ed25519PrivateKey.from_private_bytes(seed).sign(text)


def identity_of(seed):
    """The public key."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def admitted_keys(text):
    """Of an admission list, line by line."""
    words = [line.split() for line in text.replace("\r", "").split("\n")]
    return [base64.b64decode(each[1]) for each in words if each and not each[0].startswith("#")]


# Charters

GRAPHS = {"erdos-renyi": ("p", "mask_p"), "harary": ("degree", "mask_degree"), "complete": ("mask_p", "mask_degree")}
THRESHOLDS = {"majority": (), "linear": ("slope", "base"), "fixed": ("t",)}
CERTIFICATE = (
    *("dropout", "exact_dropout", "collusion", "colluders", "around", "least_honest", "privacy_bits"),
    *("reliability_bits", "unreliable", "disconnected", "exposed", "unmaskable"),
)
COUNTS = {"colluders", "around", "least_honest", "exact_dropout"}
LEARNING = {
    "message_types": ["train", "evaluate"],
    "weighted_by": "num-examples",
    "metrics": [],
    "counters": [],
    "clip": 2.0,
    "metric_clip": 1e6,
    "max_weight": 65536.0,
    "field_bits": 32,
}
#: What is encoded of 15.1 and 16.1, in this order; a value of its type is the default, a type has none.
PRIVACY = {
    "epsilon": float,
    "delta": float,
    "rounds": int,
    "norm": float,
    "against": "follows",
    **dict.fromkeys(("honest", "dimension", "variance", "grid_bits", "bound", "field_bits"), int),
    "fails": float,
}
NUMBER = {
    "name": str,
    "lower": float,
    "upper": float,
    "places": 0,
    "measures": ["count", "mean"],
    "edges": [],
    "quantiles": [0.25, 0.5, 0.75],
}
STATISTICS = {
    "name": str,
    "max_records": 10**6,
    "least_group": 5,
    "privacy_unit": "none",
    **dict.fromkeys(("group_by", "missing", "numbers", "categories"), ()),
}


def charter_of(text):
    """All that a charter says, in the order in which it is encoded."""
    given = tomllib.loads(text.removeprefix("\ufeff"))
    helped = "helpers" in given
    return {
        "version": given.get("version", 2),
        "serial": given["serial"],
        "expires": seconds_of(given["expires"]),
        "members": seats_of(given["members"]),
        **(helpers_part(given) if helped else graph_part(given)),
        "generator": given.get("generator", "aes128-ctr"),
        "agreement": given.get("agreement", "x25519"),
        "bits": given.get("bits", 32),
        **({} if helped else {"least_roster": given["least_roster"]}),
        "min_survivors": given["min_survivors"],
        "attempts": given.get("attempts", 2),
        **({"releases": given["releases"]} if given.get("releases", 1) != 1 else {}),
        **({} if helped else {"certificate": certificate_of(given["certificate"])}),
        "learning": learning_of(given["learning"]) if "learning" in given else None,
        **{name: FURTHER[name](given[name]) for name in FURTHER if name in given},
    }


def seats_of(given):
    return [[name, base64.b64decode(key)] for name, key in given]


def helpers_part(given):
    """What a charter has in place of a graph."""
    days, colluders = given.get("key_days", 7), given["colluders"]
    return {"helpers": seats_of(given["helpers"]), "key_days": days, "colluders": colluders}


def graph_part(given):
    return {
        "graph": tagged(GRAPHS, given["graph"], {"p", "mask_p"}),
        "threshold": tagged(THRESHOLDS, given["threshold"]),
    }


def filled(kinds, given):
    """All keys in their order, numbers as floats where the kind is one."""
    found = {}
    for name, kind in kinds.items():
        value = given[name] if isinstance(kind, type) else given.get(name, kind)
        found[name] = float(value) + 0.0 if kind is float else value  # a zero has no sign
    return found


def privacy_of(given):
    return filled(PRIVACY, given) | ({"unit": given["unit"]} if "unit" in given else {})


def statistics_of(given):
    given = in_form_c(given)
    found = filled(STATISTICS, given)
    found |= {name: list(found[name]) for name in ("group_by", "missing")}
    found["numbers"] = [number_of(one) for one in found["numbers"]]
    found["categories"] = [filled({"name": str, "values": list}, one) for one in found["categories"]]
    return found


def in_form_c(value):
    """The same with every text in Normalization Form C."""
    if isinstance(value, dict):
        return {name: in_form_c(one) for name, one in value.items()}
    if isinstance(value, list):
        return [in_form_c(one) for one in value]
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def number_of(given):
    found = filled(NUMBER, given)
    return found | {name: [float(one) for one in found[name]] for name in ("edges", "quantiles")}


FURTHER = {"privacy": privacy_of, "statistics": statistics_of}


def certificate_of(given):
    found = {
        name: value if name in COUNTS else float(value)
        for name, value in ((name, given.get(name, False)) for name in CERTIFICATE)
    }
    each = given.get("dropout_per_step")
    return found if each is None else found | {"dropout_per_step": [float(q) for q in each]}


def learning_of(given):
    found = {**LEARNING, **given}
    return {name: float(value) if isinstance(LEARNING[name], float) else value for name, value in found.items()}


def seconds_of(moment):
    if isinstance(moment, int):
        return moment
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)
    return int(moment.timestamp())


def tagged(kinds, given, fractions=()):
    values = {name: given.get(name) for name in kinds[given["type"]]}
    return {"type": given["type"]} | {
        name: float(value) if name in fractions and value is not None else value for name, value in values.items()
    }


def charter_encoding(text):
    return packed(charter_of(text))


def charter_digest(text):
    return hashed(LABELS["charter"], charter_encoding(text))


def config_encoding(text, series_id, number, length, accept):
    values = {"type": "chartered-round", "version": 2, "charter": charter_digest(text)}
    return packed(values | {"series_id": series_id, "number": number, "length": length, "accept": accept})


def bitmap(members, clients):
    """Bit i of the whole, read as one little-endian number, is client i."""
    return sum(1 << i for i in members).to_bytes((clients + 7) // 8, "little")


# The tree, from its definition: node k of level h stands over the leaves k 2^h to (k + 1) 2^h - 1.


def node_of(leaves, level, place):
    if level == 0:
        return leaves[place]
    left, right = 2 * place, 2 * place + 1
    if right << (level - 1) >= len(leaves):
        return node_of(leaves, level - 1, left)
    both = node_of(leaves, level - 1, left) + node_of(leaves, level - 1, right)
    return hashlib.sha256(framed(LABELS["roster node"]) + both).digest()


def height_of(size):
    return (size - 1).bit_length()


def top_of(leaves):
    return node_of(leaves, height_of(len(leaves)), 0)


def proof_of(leaves, places):
    """Every node that stands over no proven leaf while its sibling does, by level, then by place."""
    found = []
    for level in range(height_of(len(leaves))):
        over = {place >> level for place in places}
        found += [(level, node ^ 1) for node in over if node ^ 1 not in over]
    there = [(level, node) for level, node in found if node << level < len(leaves)]
    return b"".join(node_of(leaves, level, node) for level, node in sorted(there))


# What is committed to and signed


def bundle_text(context, client, keys):
    return framed(LABELS["bundle"], context, le4(client), keys)


def leaf_of(context, client, keys):
    return hashed(LABELS["roster leaf"], context, le4(client), keys)


def root_of(context, v1, top):
    return hashed(LABELS["committed roster"], context, v1, top)


def seed_of(context, root):
    return hashed(LABELS["graph seed"], context, root)


def masking_text(context, root, v2, task):
    return hashed(LABELS["masking among V2"], context, root, v2, task)


def confirmed_text(context, root, v2, task, v3):
    return hashed(LABELS["confirmed V2 and V3"], context, root, v2, task, v3)


def receipt_text(context, root, v2, task, vector):
    return hashed(LABELS["handed over"], context, root, v2, task, vector)


class ActiveReference(Reference):
    """All messages of a round under the guard ``active``, from who replied in which step."""

    def __init__(self, case):
        agreed = charter_of(case["charter"])
        self.clients, self.around = len(agreed["members"]), agreed["certificate"]["around"]
        case = {**case, "fields": agreed}
        self.identities = {entry["client"]: raw(entry["identity"]) for entry in case["clients"]}
        super().__init__(case)

    def left(self, pairs, answered, case):
        """Who is in too many accusations, then both ends of each pair of which none is out yet."""
        ends = [i for pair in pairs for i in pair]
        out = {i for i in ends if ends.count(i) > max(1, self.around)}
        for pair in sorted(map(sorted, pairs)):
            if not out & {*pair}:
                out |= {*pair}
        return self.one_part([i for i in answered if i not in out], self.needed)

    def releasing(self, alive):
        """Those who would be shown enough confirmations."""
        return [i for i in alive if len(self.live(i, alive)) >= self.needed[i]]

    def most(self, degree):
        return degree

    def packed(self, members):
        return bitmap(members, self.clients)

    def among(self, i):
        return self.packed(self.v2)

    def keys_of(self, i):
        return b"".join(self.parties[i].keys)

    def committed(self, v1):
        self.leaves = [leaf_of(self.context, i, self.keys_of(i)) for i in v1]
        return root_of(self.context, self.packed(v1), top_of(self.leaves))

    def sign(self, i, text):
        return signature_of(self.identities[i], text)

    def bundle_signature(self, i):
        return self.sign(i, bundle_text(self.context, i, self.keys_of(i)))

    @property
    def worked_on(self):
        return self.context, self.root, self.packed(self.v2), self.task

    def masking_signature(self, i, digest=None):
        return self.sign(i, masking_text(*self.worked_on))

    def known_by(self, i, vector):
        return digest_of(self.context, i, vector)

    def receipt(self, i, digest):
        return self.sign(i, receipt_text(*self.worked_on, digest))

    def confirmed_signature(self, i):
        return self.sign(i, confirmed_text(*self.worked_on, self.packed(self.sets["mask"])))

    def advertise(self, i):
        request, _ = super().advertise(i)
        reply = self.message("signed-advertise-reply", i, self.keys_of(i), self.bundle_signature(i))
        return request, reply

    def share(self, i):
        near, v1 = self.near[i], self.sets["advertise"]
        keys = b"".join(map(self.keys_of, near))
        signatures = b"".join(map(self.bundle_signature, near))
        proof = proof_of(self.leaves, [v1.index(j) for j in [*near, i]])
        fields = self.packed(v1), self.root, keys, signatures, proof
        return self.message("roster-request", i, *fields), super().share(i)[1]

    def mask(self, i):
        v2 = self.packed(self.v2)
        reply = self.masked("signed-mask-reply", i, self.masking_signature, self.receipt)
        if self.accept:
            return self.message("mask-among-request", i, v2, self.task), reply
        return self.message("mask-among-at-once-request", i, v2, *self.texts(i), self.task), reply

    def confirm(self, i):
        request = self.message("confirm-request", i, self.packed(self.sets["mask"]))
        return request, self.message("confirm-reply", i, self.confirmed_signature(i))

    def unmask(self, i):
        live = [j for j in self.near[i] if j in self.sets["mask"]]
        flags = [j in self.sets["confirm"] for j in live]
        signatures = [
            self.confirmed_signature(j) if flag else self.masking_signature(j)
            for j, flag in zip(live, flags, strict=True)
        ]
        request = self.message("signed-unmask-request", i, bytes(flags), b"".join(signatures))
        return request, super().unmask(i)[1]

    def asked(self, step):
        if step == "confirm":
            return self.sets["mask"]
        return self.releasing(self.sets["confirm"]) if step == "unmask" else super().asked(step)
