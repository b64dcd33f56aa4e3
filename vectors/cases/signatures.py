"""signatures.json: identity keys and signatures that fit, or nearly fit, and must be refused all the same."""

import hashlib
from collections.abc import Callable
from functools import partial

from cases.common import Case, sample
from cases.identities import identity
from ccesa.crypto import primitives

DESCRIPTION = (
    "Ed25519 where verifiers disagree. keys: public keys of identities; those with an error must be refused "
    "wherever one is read. signatures: to be verified on the text with the public key; those with an error "
    "must be refused, also where the equation of RFC 8032 holds. fits says whether it does, without and with "
    "the multiplication by the cofactor."
)
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of minus one
_Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def make() -> Case:
    return {"description": DESCRIPTION, "keys": _keys(), "signatures": _signatures()}


# edwards25519, in whole numbers


def add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    t = _D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def times(scalar: int, point: Point) -> Point:
    total = NEUTRAL
    for bit in bin(scalar)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def on_curve(y: int) -> Point:
    """Return the point of this height whose x is even."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * _ROOT % P
    if x * x % P != square:
        raise ValueError("no point of the curve has this height")
    return (x if x % 2 == 0 else P - x), y


def encoded(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = on_curve(4 * pow(5, -1, P) % P)
EIGHTH = on_curve(_Y8)
#: A key whose y, which is 2, belongs to no point: (y^2 - 1) / (d y^2 + 1) has no root.
NO_POINT = (2).to_bytes(32, "little")
#: All eight points of small order.
SMALL = [times(k, EIGHTH) for k in range(8)]


def small_encodings() -> dict[str, bytes]:
    """Every form of the points of small order: either sign, and where it fits, p more."""
    heights = sorted({y for _, y in SMALL})
    forms = {f"y = {_name(y)}": y for y in heights} | {"y = p": P, "y = p + 1": P + 1}
    return {
        f"{name}{said}": (y | bit << 255).to_bytes(32, "little")
        for name, y in forms.items()
        for bit, said in ((0, ""), (1, ", the other sign"))
    }


def _name(y: int) -> str:
    return {0: "0", 1: "1", P - 1: "p - 1", _Y8: "the one of order 8", P - _Y8: "the other of order 8"}[y]


# Signatures, with whatever R


def _scalar(seed: bytes) -> int:
    head = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    return head & (2**254 - 8) | 2**254


def _hash(r: bytes, public: bytes, text: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + public + text).digest(), "little") % ORDER


def signed_with(r: int, point: bytes, seed: bytes, public: bytes, text: bytes) -> bytes:
    """Return R = ``point`` and S = r + h a, whether they fit or not."""
    s = (r + _hash(point, public, text) * _scalar(seed)) % ORDER
    return point + s.to_bytes(32, "little")


def neutral_signature(seed: bytes, text: bytes) -> bytes:
    """Return a signature by this identity that fits, and whose R is the neutral point."""
    return signed_with(0, encoded(NEUTRAL), seed, identity_public(seed), text)


def identity_public(seed: bytes) -> bytes:
    return primitives.public_key(primitives.signing_key(seed))


def _fits(public: Point, signature: bytes, text: bytes) -> dict[str, bool]:
    """Check the equation of RFC 8032 as written out here, for R as it is encoded."""
    s = int.from_bytes(signature[32:], "little")
    h = _hash(signature[:32], encoded(public), text)
    x, y = times(h, public)
    found = add(times(s, BASE), (P - x, y))
    height = int.from_bytes(signature[:32], "little")
    told = on_curve(height % 2**255 % P)
    told = told if told[0] % 2 == height >> 255 or told[0] == 0 else (P - told[0], told[1])
    return {"plain": encoded(found) == signature[:32], "cofactor": times(8, found) == times(8, told)}


def _keys() -> list[Case]:
    bad = {
        **small_encodings(),
        **{f"y = p + {k}, not reduced": (P + k).to_bytes(32, "little") for k in (2, 18)},
        "y = p + 3, not reduced, the other sign": (P + 3 + 2**255).to_bytes(32, "little"),
    }
    good = {
        "an honest key": identity("0").public,
        "a key with a part of order 8": encoded(_mixed()[1]),
        "no point of the curve has this y": NO_POINT,
    }
    return [
        *({"name": name, "public": key} for name, key in good.items()),
        *({"name": name, "public": key, "error": "ConfigError"} for name, key in bad.items()),
    ]


def _mixed() -> tuple[bytes, Point]:
    """Return a seed, and its public key with a point of order 8 added to it."""
    seed = sample("identity mixed")
    return seed, add(times(_scalar(seed), BASE), EIGHTH)


def _signatures() -> list[Case]:
    seed = identity("0").seed
    honest, text = times(_scalar(seed), BASE), b"what is signed"
    found = {
        "an honest one": (honest, text, identity("0").sign(text)),
        "R is the neutral point, and fits": (honest, text, neutral_signature(seed, text)),
    }
    for name, form in small_encodings().items():
        found[f"R: {name}"] = (honest, text, signed_with(0, form, seed, encoded(honest), text))
    mixed_seed, mixed = _mixed()
    for place, point in enumerate(SMALL):
        found[f"R is small point {place} and fits, the key has a part of order 8"] = (
            mixed,
            *_searched(partial(signed_with, 0, encoded(point), mixed_seed, encoded(mixed)), mixed),
        )
    r = int.from_bytes(sample("nonce", 64), "little") % ORDER
    large = encoded(times(r, BASE))

    def ordinary(text: bytes) -> bytes:
        return signed_with(r, large, mixed_seed, encoded(mixed), text)

    found["the key has a part of order 8, and it fits"] = (mixed, *_searched(ordinary, mixed))
    found["the key has a part of order 8, and it fits only with the cofactor"] = (
        mixed,
        *_searched(ordinary, mixed, plain=False),
    )
    return [*(_case(name, *case) for name, case in found.items()), _under_no_point(text)]


def _under_no_point(text: bytes) -> Case:
    """Return a signature by an honest key that is shown with a key that is no point."""
    name = "an honest one, under a key whose y belongs to no point"
    case: Case = {"name": name, "public": NO_POINT, "text": text, "signature": identity("0").sign(text)}
    return {**case, "fits": {"plain": False, "cofactor": False}, "error": _refusal(case)}


def _searched(sign: Callable[[bytes], bytes], public: Point, plain: bool = True) -> tuple[bytes, bytes]:
    """Return the first of a row of texts whose signature fits, or fits only with the cofactor."""
    for number in range(1000):
        text = f"text {number}".encode()
        if _fits(public, sign(text), text)["plain"] is plain:
            return text, sign(text)
    raise LookupError("no text fits")


def _case(name: str, public: Point, text: bytes, signature: bytes) -> Case:
    case: Case = {"name": name, "public": encoded(public), "text": text, "signature": signature}
    case["fits"] = _fits(public, signature, text)
    error = _refusal(case)
    return {**case, "error": error} if error else case


def _refusal(case: Case) -> str:
    """Return the name of the refusal of a signature; nothing if it verifies."""
    try:
        primitives.verify(case["public"], case["signature"], case["text"])
    except primitives.BadSignature as error:
        return type(error).__name__
    return ""
