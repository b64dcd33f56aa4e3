"""A second implementation, for the vectors: it shares nothing with the package but the libraries.

The guard ``active`` is in ``second_active.py``.
"""

import hashlib
import hmac
import math
import struct
from fractions import Fraction
from functools import cache

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FIELD = 65521
raw = bytes.fromhex

LABELS = {
    "context": b"ccesa/2/0 context",
    "roster": b"ccesa/2/1 roster",
    "graph seed": b"ccesa/2/2 graph seed",
    "mask key pair": b"ccesa/2/3 mask key pair",
    "sealing": b"ccesa/2/4 sealing",
    "pair mask": b"ccesa/2/5 pair mask",
    "self mask": b"ccesa/2/6 self mask",
    "commitment": b"ccesa/2/7 commitment",
    "sealed shares": b"ccesa/2/8 sealed shares",
    "charter": b"ccesa/2/9 charter",
    "bundle": b"ccesa/2/10 bundle",
    "roster leaf": b"ccesa/2/11 roster leaf",
    "roster node": b"ccesa/2/12 roster node",
    "committed roster": b"ccesa/2/13 committed roster",
    "masking among V2": b"ccesa/2/14 masking among V2",
    "confirmed V2 and V3": b"ccesa/2/15 confirmed V2 and V3",
    "masked vector": b"ccesa/2/16 masked vector",
    "masked among": b"ccesa/2/17 masked among",
    "handed over": b"ccesa/2/18 handed over",
    "hybrid sealing": b"ccesa/2/19 hybrid sealing",
    "pair seed": b"ccesa/2/20 pair seed",
    "seed commitment": b"ccesa/2/21 seed commitment",
    "deposit": b"ccesa/2/22 deposit",
    "pair secret": b"ccesa/2/23 pair secret",
    "rotation": b"ccesa/2/24 rotation",
    "mechanism": b"ccesa/2/25 mechanism",
    "helper keys": b"ccesa/2/26 helper keys",
    "helpers": b"ccesa/2/27 helpers",
    "helped mask": b"ccesa/2/28 helped mask",
    "ciphertext": b"ccesa/2/29 ciphertext",
    "submission": b"ccesa/2/30 submission",
    "check words": b"ccesa/2/31 check words",
    "boxes": b"ccesa/2/32 boxes",
    "confirmed boxes": b"ccesa/2/33 confirmed boxes",
    "question": b"ccesa/2/34 question",
    "mask sum": b"ccesa/2/35 mask sum",
}


def le4(number):
    return number.to_bytes(4, "little")


def framed(*parts):
    return b"".join(le4(len(part)) + part for part in parts)


def hashed(*parts):
    return hashlib.sha256(framed(*parts)).digest()


def gmac(key, data):
    """SP 800-38D: GHASH of data and its length, then the first block of the stream, for a nonce of zeros."""
    cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305 - as GCM is made
    key_of_hash = int.from_bytes(cipher.update(bytes(16)), "big")
    padded = data + bytes(-len(data) % 16) + (8 * len(data)).to_bytes(8, "big") + bytes(8)
    state = 0
    for place in range(0, len(padded), 16):
        state = gf_product(state ^ int.from_bytes(padded[place : place + 16], "big"), key_of_hash)
    first = int.from_bytes(cipher.update(bytes(15) + b"\x01"), "big")
    return (state ^ first).to_bytes(16, "big")


def gf_product(one, other):
    """In GF(2^128), the highest bit first."""
    product = 0
    for place in range(127, -1, -1):
        if one >> place & 1:
            product ^= other
        other = other >> 1 ^ (other & 1) * (0xE1 << 120)
    return product


def tag_of(context, client, vector):
    """Section 9: what a vector is known by under the guard curious."""
    return gmac(hashed(LABELS["masked vector"], context, le4(client))[:16], vector)


def digest_of(context, client, vector):
    """13.6: what a vector is known by under the guard active."""
    return hashed(LABELS["masked vector"], context, le4(client), vector)


def hkdf(secret, info, length):
    """RFC 5869 with SHA-256 and no salt."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    block = output = b""
    for k in range(1, -(-length // 32) + 1):
        block = hmac.digest(extracted, block + info + bytes([k]), "sha256")
        output += block
    return output[:length]


@cache  # vectors have few keys, and mutants replay them often
def public_of(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


@cache
def agreed(private, public):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


KEY_BYTES = {"aes128-ctr": 16, "chacha20": 32}


def keystream(generator, key, first, count):
    """Bytes [first, first + count) of a keystream."""
    size = {"aes128-ctr": 16, "chacha20": 64}[generator]
    block, skipped = divmod(first, size)
    if generator == "aes128-ctr":
        cipher = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big")))
    else:
        cipher = Cipher(algorithms.ChaCha20(key, le4(block) + bytes(12)), None)
    return cipher.encryptor().update(bytes(skipped + count))[skipped:]


def words_of(data, bits):
    size = bits // 8
    return [int.from_bytes(data[k : k + size], "little") for k in range(0, len(data), size)]


def bytes_of(words, bits):
    return b"".join(word.to_bytes(bits // 8, "little") for word in words)


def field_words(data):
    return [word for word in words_of(data, 16) if word < FIELD]


def value_at(polynomial, x):
    total = 0
    for coefficient in reversed(polynomial):
        total = (total * x + coefficient) % FIELD
    return total


def lagrange(xs, ys, at=0):
    total = 0
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        above = below = 1
        for other in xs[:i] + xs[i + 1 :]:
            above = above * (at - other) % FIELD
            below = below * (x - other) % FIELD
        total += y * above * pow(below, -1, FIELD)
    return total % FIELD


def rows_at(xs, rows, at=0):
    return [lagrange(xs, list(column), at) for column in zip(*rows, strict=True)]


def draw_of(key, one, other):
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a function of one block
    return int.from_bytes(cipher.update(struct.pack("<QQ", one, other))[:8], "little")


def graph_of(kind, seed, ids):
    """Neighbours of each id, and those among them with whom it has masks."""
    around = sorted(range(len(ids)), key=lambda node: (draw_of(seed[16:], node, node), node))
    place = {ids[node]: position for position, node in enumerate(around)}

    def apart(one, other):
        distance = abs(place[one] - place[other])
        return min(distance, len(ids) - distance)

    def drawn(one, other, p):
        return draw_of(seed[:16], min(one, other), max(one, other)) < int(Fraction(p) * 2**64)

    def shares(one, other):
        if kind["type"] == "erdos-renyi":
            return drawn(one, other, kind["p"])
        return kind["type"] == "complete" or apart(one, other) <= kind["degree"] // 2

    def masked(one, other):
        if kind.get("mask_p") is not None:
            return drawn(one, other, kind["mask_p"])
        return kind.get("mask_degree") is None or apart(one, other) <= kind["mask_degree"] // 2

    near = {one: [other for other in ids if other != one and shares(one, other)] for one in ids}
    return near, {one: [other for other in near[one] if masked(one, other)] for one in ids}


def threshold_of(rule, degree):
    if rule["type"] == "fixed":
        return rule["t"]
    least = next(t for t in range(degree + 2) if 2 * t > degree + 1)
    if rule["type"] == "linear":
        return max(least, int(Fraction(rule["slope"], 1024) * degree) + rule["base"])
    return least


def packed(value):
    """msgpack in its shortest form."""
    if isinstance(value, dict):
        body = b"".join(packed(key) + packed(item) for key, item in value.items())
        count = len(value)
        return (bytes([0x80 | count]) if count < 16 else headed(count, 0xDE, 16)) + body
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, list):
        count = len(value)
        head = bytes([0x90 | count]) if count < 16 else headed(count, 0xDC, 16)
        return head + b"".join(map(packed, value))
    if isinstance(value, str):
        text = value.encode()
        return (bytes([0xA0 | len(text)]) if len(text) < 32 else headed(len(text), 0xD9, 8)) + text
    if isinstance(value, bytes):
        return headed(len(value), 0xC4, 8) + value
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if value is None:
        return b"\xc0"
    return bytes([value]) if value < 128 else headed(value, 0xCC, 8)


def headed(number, opcode, bits):
    """The first of the three or four widths that is wide enough."""
    while number >= 1 << bits:
        opcode, bits = opcode + 1, 2 * bits
    return bytes([opcode]) + number.to_bytes(bits // 8, "big")


def one_time_key(private, public, context, sender, recipient):
    """Key and nonce for the text from sender to recipient."""
    info = framed(LABELS["sealing"], context, le4(min(sender, recipient)), le4(max(sender, recipient)))
    both = hkdf(agreed(private, public), info, 56)
    return both[:28] if sender < recipient else both[28:]


def associated_data(context, sender, recipient, sender_keys, recipient_keys, masked, commitment):
    ends = le4(sender), le4(recipient), sender_keys, recipient_keys, bytes([masked]), commitment
    return framed(LABELS["sealed shares"], context, *ends)


def sealed_by_hand(private, context, *ends_and_text):
    *ends, text = ends_and_text
    sender, recipient, _, recipient_keys, *_ = ends
    key = one_time_key(private, recipient_keys[:32], context, sender, recipient)
    return AESGCM(key[:16]).encrypt(key[16:], text, associated_data(context, *ends))


# round.json, from the seeds alone


class Stream:
    """SHA-256(seed || k) for k = 0, 1, …, as the file describes it."""

    def __init__(self, seed):
        self.seed, self.blocks, self.left = seed, 0, b""

    def __call__(self, count):
        while len(self.left) < count:
            self.left += hashlib.sha256(self.seed + self.blocks.to_bytes(8, "little")).digest()
            self.blocks += 1
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def words(self, count):
        found = []
        while len(found) < count:
            found += field_words(self(2))
        return found


def replies_of(step):
    return [exchange for exchange in step["exchanges"] if exchange["reply"] is not None]


def complains(exchange):
    """Whether this reply is a complaint: an array of four that begins with its name."""
    return raw(exchange["reply"]).startswith(b"\x94\xa9complaint")


def members_after(step):
    """Who is still in the round when the step closes."""
    return [exchange["client"] for exchange in replies_of(step) if not complains(exchange)]


class Party:
    """A client's secrets in the order in which it draws them."""

    def __init__(self, case, entry):
        self.id, self.context, self.fields = entry["client"], raw(case["context"]), case["fields"]
        self.vector, self.random = raw(entry["vector"]), Stream(raw(entry["seed"]))
        self.mask_secret = self.random.words(16)
        self.sealing_private = self.random(32)
        info = framed(LABELS["mask key pair"], self.context, le4(self.id))
        self.mask_private = hkdf(bytes_of(self.mask_secret, 16), info, 32)
        self.keys = public_of(self.sealing_private), public_of(self.mask_private), *self.more_keys()

    def more_keys(self):
        """What else an agreement has."""
        return ()

    def pair_secret(self, other):
        """What the masks of a pair rest on."""
        return agreed(self.mask_private, other.keys[1])

    def deal(self, near):
        self.circle = sorted([*near, self.id])
        threshold = threshold_of(self.fields["threshold"], len(near))
        self.self_secret = self.random.words(16)
        noise = [self.random.words(32) for _ in range(threshold - 1)]
        self.columns = list(zip(self.self_secret + self.mask_secret, *noise, strict=True))

    def share_for(self, holder):
        """The share of b_i, then the share of s_i."""
        x = 1 + self.circle.index(holder)
        return bytes_of([value_at(column, x) for column in self.columns], 16)

    def mask(self, key):
        return words_of(keystream(self.fields["generator"], key, 0, len(self.vector)), self.fields["bits"])

    def derived(self, secret, label, *ids):
        info = framed(label, self.context, *map(le4, ids))
        return self.mask(hkdf(secret, info, KEY_BYTES[self.fields["generator"]]))

    @property
    def commitment(self):
        secret = bytes_of(self.self_secret, 16)
        return hashed(LABELS["commitment"], self.context, le4(self.id), secret)

    def masked_vector(self, partners):
        """``partners``: live mask neighbours."""
        bits = self.fields["bits"]
        terms = [words_of(self.vector, bits)]
        terms.append(self.derived(bytes_of(self.self_secret, 16), LABELS["self mask"], self.id))
        for other in partners:
            pair = sorted((self.id, other.id))
            words = self.derived(self.pair_secret(other), LABELS["pair mask"], *pair)
            terms.append(words if self.id < other.id else [-word for word in words])
        return bytes_of([sum(column) % 2**bits for column in zip(*terms, strict=True)], bits)


def ids(clients):
    return b"".join(map(le4, clients))


class Reference:
    """All messages of a round, from who replied in which step and what the server received instead."""

    def __init__(self, case):
        self.context, self.task = raw(case["context"]), raw(case["task"])
        self.accept = msgspec.msgpack.decode(raw(case["config"]))["accept"]
        self.number = msgspec.msgpack.decode(raw(case["config"]))["number"]
        self.parties = {entry["client"]: Party(case, entry) for entry in case["clients"]}
        self.sets = {step["step"]: members_after(step) for step in case["steps"]}
        self.delivered = {
            (step["step"], exchange["client"]): msgspec.msgpack.decode(raw(exchange["delivered"]))
            for step in case["steps"]
            for exchange in step["exchanges"]
            if "delivered" in exchange
        }
        v1 = self.sets["advertise"]
        self.root = self.committed(v1)
        seed = hashed(LABELS["graph seed"], self.context, self.root)
        self.near, self.mask_near = graph_of(case["fields"]["graph"], seed, v1)
        self.needed = {i: threshold_of(case["fields"]["threshold"], len(self.near[i])) for i in v1}
        for i in self.sets.get("share", ()):
            self.parties[i].deal(self.near[i])
        self.settle(case)

    def settle(self, case):
        """Who has shared, which edges are cut, and V2 (section 10)."""
        self.cut = set()
        self.shared = self.v2 = self.one_part(self.sets.get("share", []), self.needed)
        if "accept" in self.sets:
            pairs = {frozenset((i, j)) for i in self.sets["accept"] for j in self.said(i)}
            self.v2 = self.left(pairs, self.sets["accept"], case)

    def left(self, pairs, answered, case):
        """Accusations cost edges; who is in one needs holders to spare."""
        self.cut = pairs
        spare = {i: math.ceil(case["dropout"] * len(self.near[i])) for pair in pairs for i in pair}
        return self.one_part(answered, {i: t + spare.get(i, 0) for i, t in self.needed.items()})

    def one_part(self, alive, needed):
        """Pruned, and of what has fallen apart the largest part, that with the lowest id of several."""
        while True:
            alive, parts = self.pruned(alive, needed), []
            for i in sorted(alive):
                if not any(i in part for part in parts):
                    part, ends = {i}, {i}
                    while ends:
                        beside = {j for k in ends for j in self.live(k, alive) if j in self.mask_near[k]}
                        ends = beside - part
                        part |= ends
                    parts.append(part)
            if len(parts) < 2:
                return alive
            alive = sorted(max(parts, key=len))

    def pruned(self, alive, needed):
        while True:
            holding = self.releasing(alive)
            kept = [
                i
                for i in alive
                if len(set(holding) & {i, *self.live(i, holding)}) >= needed[i]
                and any(j in self.mask_near[i] for j in self.live(i, alive))
            ]
            if kept == alive:
                return kept
            alive = kept

    def releasing(self, alive):
        return alive

    def live(self, i, among):
        """Its neighbours among these, over edges that are not cut."""
        return [j for j in self.near[i] if j in among and {i, j} not in self.cut]

    def committed(self, v1):
        roster = b"".join(le4(i) + b"".join(self.parties[i].keys) for i in v1)
        return hashed(LABELS["roster"], self.context, roster)

    def message(self, type, client, *fields):
        return packed([type, self.context, client, *fields])

    def sealed(self, sender, recipient):
        one, other = self.parties[sender], self.parties[recipient]
        bundles = b"".join(one.keys), b"".join(other.keys)
        ends = sender, recipient, *bundles, recipient in self.mask_near[sender], one.commitment
        return sealed_by_hand(one.sealing_private, self.context, *ends, one.share_for(recipient))

    def arrived(self, sender, recipient):
        """What the server passes on: the sender's commitment, and its text for this neighbour."""
        if ("share", sender) not in self.delivered:
            return self.parties[sender].commitment, self.sealed(sender, recipient)
        _, _, _, commitment, texts = self.delivered["share", sender]
        return commitment, texts[80 * self.near[sender].index(recipient) :][:80]

    def texts(self, i):
        """Commitments and texts of those neighbours that have shared."""
        pairs = [self.arrived(j, i) for j in self.near[i] if j in self.shared]
        return b"".join(one for one, _ in pairs), b"".join(text for _, text in pairs)

    def accused(self, i):
        """Neighbours whose text or commitment is not the one that they sent."""
        shared = [j for j in self.near[i] if j in self.shared]
        sent = {j: (self.parties[j].commitment, self.sealed(j, i)) for j in shared}
        return [j for j in shared if self.arrived(j, i) != sent[j]]

    def said(self, i):
        """Whom a client accuses by what the server received."""
        if ("accept", i) in self.delivered:
            return words_of(self.delivered["accept", i][3], 32)
        return self.accused(i)

    def among(self, i):
        """V2 as this client knows it."""
        return ids(sorted([i, *self.live(i, self.v2)]))

    def masked(self, name, i, *signatures):
        """The reply of step 2: a vector with what is said of it, or a complaint."""
        if self.accused(i) and not self.accept:
            return self.message("complaint", i, ids(self.accused(i)))
        partners = [self.parties[j] for j in self.live(i, self.v2) if j in self.mask_near[i]]
        vector = self.parties[i].masked_vector(partners)
        known_by = self.known_by(i, vector)
        among = hashed(LABELS["masked among"], self.context, le4(i), self.among(i))
        more = [sign(i, known_by) for sign in signatures]
        return self.message(name, i, known_by, among, self.task, *more, vector)

    def known_by(self, i, vector):
        return tag_of(self.context, i, vector)

    def advertise(self, i):
        request = self.message("advertise-request", i, le4(self.number))
        return request, self.message("advertise-reply", i, b"".join(self.parties[i].keys))

    def share(self, i):
        near, party = self.near[i], self.parties[i]
        public = b"".join(b"".join(self.parties[j].keys) for j in near)
        flags = bytes(j in self.mask_near[i] for j in near)
        request = self.message("share-request", i, ids(near), public, flags)
        if i not in self.sets["share"]:
            return request, None
        sealed = b"".join(self.sealed(i, j) for j in near)
        return request, self.message("share-reply", i, party.commitment, sealed)

    def unshared(self, i):
        return ids(j for j in self.near[i] if j not in self.shared)

    def accept_step(self, i):
        request = self.message("accept-request", i, self.unshared(i), *self.texts(i))
        return request, self.message("accept-reply", i, ids(self.accused(i)), b"")

    def mask(self, i):
        reply = self.masked("mask-reply", i)
        if self.accept:
            gone = [j for j in self.near[i] if j in self.shared and j not in self.live(i, self.v2)]
            return self.message("mask-request", i, ids(gone), self.task), reply
        return self.message("mask-at-once-request", i, self.unshared(i), *self.texts(i), self.task), reply

    def unmask(self, i):
        v3 = self.sets["mask"]
        live = sorted([i, *self.live(i, self.v2)])
        dropped = ids(j for j in live if j not in v3)
        shares = [self.parties[j].share_for(i) for j in live]
        released = [share[:32] if j in v3 else share[32:] for j, share in zip(live, shares, strict=True)]
        return self.message("unmask-request", i, dropped), self.message("unmask-reply", i, b"".join(released))

    def exchange(self, step, i):
        """Request and reply of a client in a step."""
        return getattr(self, "accept_step" if step == "accept" else step)(i)

    def asked(self, step):
        """Who gets a request in this step."""
        found = {"advertise": list(self.parties), "share": self.fit(), "accept": self.shared}
        return {**found, "mask": self.v2, "unmask": self.sets.get("mask")}[step]

    def fit(self):
        return [
            i
            for i, near in self.near.items()
            if self.mask_near[i] and self.needed[i] <= self.most(len(near)) and len(near) + 1 < 2 * self.needed[i]
        ]

    def most(self, degree):
        return degree + 1
