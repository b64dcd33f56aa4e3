"""The second implementation, what is in a message: encodings, sizes, ids, sets, keys, sealed texts, proofs.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from second import LABELS, framed, words_of
from second_active import height_of
from second_config import decoded, most_degree
from second_refusals import refuse

#: 6.3: keys of a client, a sealed text, a deposit.
SIZES = {"x25519": (64, 80, 0), "x25519-mlkem768": (1248, 1232, 48)}
# Section 7 and 13.5: constant, per neighbour, sets, proofs; then how many fields there are. Keys and texts
# for each neighbour, as large as 6.3 has them, are counted apart.
KEYS = ("share-request", "roster-request")
TEXTS = ("accept-request", "mask-at-once-request", "mask-among-at-once-request")
REQUESTS = {
    "advertise-request": (4, 0, 0, 0, 1),
    "share-request": (0, 5, 0, 0, 3),
    "accept-request": (0, 36, 0, 0, 3),
    "mask-request": (32, 4, 0, 0, 2),
    "mask-at-once-request": (32, 36, 0, 0, 4),
    "unmask-request": (0, 4, 0, 0, 1),
    "roster-request": (32, 64, 1, 1, 5),
    "mask-among-request": (32, 0, 1, 0, 2),
    "mask-among-at-once-request": (32, 32, 1, 0, 4),
    "confirm-request": (0, 0, 1, 0, 1),
    "signed-unmask-request": (0, 65, 0, 0, 2),
}
#: How many fields there are in requests with helpers.
HELPED = {"helper-keys-request": 1, "mask-for-helpers-request": 5, "confirm-boxes-request": 6, "unmask-sum-request": 6}
REPLIES = {
    "advertise-reply": 1,
    "share-reply": 2,
    "accept-reply": 2,
    "mask-reply": 4,
    "complaint": 1,
    "unmask-reply": 1,
    "signed-advertise-reply": 2,
    "signed-mask-reply": 6,
    "confirm-reply": 1,
    "helper-keys-reply": 3,
    "boxed-mask-reply": 6,
    "confirm-boxes-reply": 3,
    "unmask-sum-reply": 3,
}
COUNTS = {**{name: row[4] for name, row in REQUESTS.items()}, **HELPED, **REPLIES}


def message(data, most):
    """Name, context, client and fields of any message."""
    values = decoded(data, most, ("W1.1", "W1.2"))
    if not isinstance(values, list) or len(values) < 3 or not isinstance(values[0], str):
        refuse("W1.3", "MalformedMessage")
    name, context, client, *fields = values
    if name not in COUNTS:
        refuse("W1.4", "MalformedMessage")
    if len(fields) != COUNTS[name]:
        refuse("W1.5", "MalformedMessage")
    if type(client) is not int:
        refuse("W1.6", "MalformedMessage")
    if any(not isinstance(field, bytes) for field in (context, *fields)):
        refuse("W1.7", "MalformedMessage")
    return name, context, client, fields


def limit(name, fields):
    if "helpers" in fields:
        return 96 + assisted_bytes(name, fields)
    constant, each, sets, proofs, _ = REQUESTS[name]
    clients, degree = fields["clients"], most_degree(fields["graph"], fields["clients"])
    proof = 32 * min((degree + 1) * clients.bit_length(), 2 * clients)
    bundle, text, _ = SIZES[fields["agreement"]]
    each += bundle * (name in KEYS) + text * (name in TEXTS)
    return 96 + constant + each * degree + sets * (-(-clients // 8)) + proofs * proof


def assisted_bytes(name, fields):
    """The most that all fields of a request have in a round with helpers."""
    helpers, agreement = len(fields["helpers"]), fields["agreement"]
    if name in ("helper-keys-request", "advertise-request"):
        return 4
    if name == "mask-for-helpers-request":
        return 36 + helpers * (bundle_bytes(agreement) + 8 + 64)
    return 68 + fields["clients"] * (4 + record_bytes(agreement, helpers) + ciphertext_bytes(agreement))


def bundle_bytes(agreement):
    """Keys of a helper."""
    return {"x25519": 32, "x25519-mlkem768": 32 + 1184}[agreement]


def ciphertext_bytes(agreement):
    return {"x25519": 0, "x25519-mlkem768": 1088}[agreement]


def record_bytes(agreement, helpers):
    """Key, boxes, hashes of ciphertexts, tag and signature."""
    return 32 + 16 * helpers + 32 * helpers * (ciphertext_bytes(agreement) > 0) + 16 + 64


def sized(data, size, check):
    if len(data) != size:
        refuse(check, "MalformedMessage")
    return data


def cut(data, count, size, check):
    sized(data, count * size, check)
    return [data[place * size :][:size] for place in range(count)]


def ids_of(data, clients):
    if len(data) % 4:
        refuse("W2.1", "MalformedMessage")
    ids = words_of(data, 32)
    if sorted(set(ids)) != ids:
        refuse("W2.2", "MalformedMessage")
    if any(i >= clients for i in ids):
        refuse("W2.3", "MalformedMessage")
    return ids


def set_of(data, clients):
    whole = int.from_bytes(sized(data, -(-clients // 8), "W3.1"), "little")
    if whole >> clients:
        refuse("W3.2", "MalformedMessage")
    return [i for i in range(clients) if whole >> i & 1]


def check_public_key(key):
    """Section 6."""
    number = int.from_bytes(key, "little")
    if number >= 2**255 - 19:
        refuse("K1.1", "LowOrderKey")
    if number in LOW:
        refuse("K1.2", "LowOrderKey")


LOW = {
    *(0, 1, 2**255 - 20),
    *(
        int.from_bytes(bytes.fromhex(text), "little")
        for text in (
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        )
    ),
}


def elements(data):
    """5.1: nothing outside the field."""
    if len(data) % 2:
        refuse("D1.1", "OutsideField")
    if any(word >= 65521 for word in words_of(data, 16)):
        refuse("D1.2", "OutsideField")
    return data


def unsealed(key, sealed, associated):
    try:
        return AESGCM(key[:16]).decrypt(key[16:], sealed, associated)
    except InvalidTag:
        refuse("T1.1", "SealBroken")
        return bytes(len(sealed) - 16)


def check_split(threshold, holders):
    if threshold < 1:
        refuse("D2.1", "ValueError")
    if threshold > holders:
        refuse("D2.2", "ValueError")
    if holders > 65520:
        refuse("D2.3", "ValueError")


def proven_top(size, places, leaves, proof):
    """13.3: from the leaves at these places up, with the siblings in the order in which they are sent."""
    if len(proof) != 32 * proof_hashes(size, places):
        refuse("W4.1", "WrongProof")
    known = dict(zip(places, leaves, strict=True))
    while size > 1:
        above = {}
        for place in sorted(known):
            other = place ^ 1
            if other < size and other not in known:
                known[other], proof = proof[:32], proof[32:]
            both = [known[each] for each in sorted((place, other)) if each < size]
            above[place >> 1] = hashed_node(b"".join(both)) if len(both) == 2 else both[0]
        known, size = above, (size + 1) // 2
    return known[0]


def proof_hashes(size, places):
    count, known = 0, set(places)
    for _ in range(height_of(size)):
        count += sum(place ^ 1 < size and place ^ 1 not in known for place in known)
        known, size = {place >> 1 for place in known}, (size + 1) // 2
    return count


def hashed_node(both):
    return hashlib.sha256(framed(LABELS["roster node"]) + both).digest()
