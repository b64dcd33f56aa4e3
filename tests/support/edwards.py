"""Ed25519 in plain numbers (RFC 8032, section 5.1), and signatures on which verifiers are known to differ.

A verifier has freedoms: whether S and the encodings of R and A have to be reduced, whether R and A may be of
small order, and whether the equation has to hold as it stands or only eight times over. Points with a part of
small order tell the last two apart: whoever knows the scalars can add one to R, to A, or to both.
"""

import hashlib
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def with_height(y: int) -> Point | None:
    """Return the point of this y whose x is even; None where there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    for x in (root, root * pow(2, (P - 1) // 4, P) % P):
        if x * x % P == square:
            return (x if x % 2 == 0 else P - x), y
    return None


def add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    t = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def times(scalar: int, point: Point) -> Point:
    total = NEUTRAL
    for bit in bin(scalar)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def number(value: int) -> bytes:
    return value.to_bytes(32, "little")


def encoded(point: Point) -> bytes:
    x, y = point
    return number(y | (x & 1) << 255)


def decoded(data: bytes) -> Point:
    """Return the point that 32 bytes mean, also where they are not reduced; some y mean none."""
    value = int.from_bytes(data, "little")
    point = with_height(value % 2**255 % P)
    if point is None:
        raise ValueError("no point of the curve has this y")
    return point if value >> 255 == 0 else (-point[0] % P, point[1])


BASE = with_height(4 * pow(5, -1, P) % P) or NEUTRAL
#: L times any point is of small order; here of order 8.
EIGHTH = times(L, with_height(3) or NEUTRAL)
#: Place k has k times that point: orders 1, 8, 4, 8, 2, 8, 4, 8.
SMALL = [times(place, EIGHTH) for place in range(8)]


class Case(NamedTuple):
    """What a verifier is given, and whether it has to accept that."""

    public: bytes
    signature: bytes
    text: bytes
    fits: bool


def challenge(r: bytes, public: bytes, text: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + public + text).digest(), "little") % L


def holds_eight_times(public: bytes, signature: bytes, text: bytes) -> bool:
    """Tell whether 8 S B = 8 R + 8 h A."""
    s, h = int.from_bytes(signature[32:], "little"), challenge(signature[:32], public, text)
    x, y = add(decoded(signature[:32]), times(h, decoded(public)))
    return times(8, add(times(s, BASE), (-x % P, y))) == NEUTRAL


def mixed(random: Random, r_part: int, a_part: int, count: int) -> Iterator[Case]:
    """Yield signatures with ``SMALL[r_part]`` added to R and ``SMALL[a_part]`` to A.

    S = r + h a, so the equation always holds eight times over. As it stands, S B = R + h A, it holds where
    the parts cancel.
    """
    scalar, nonce = random.randrange(1, L), random.randrange(1, L - count)
    public = encoded(add(times(scalar, BASE), SMALL[a_part]))
    point = add(times(nonce, BASE), SMALL[r_part])
    for more in range(count):
        r, text = encoded(point), random.randbytes(random.randrange(80))
        h = challenge(r, public, text)
        s = (nonce + more + h * scalar) % L
        yield Case(public, r + number(s), text, (r_part + h * a_part) % 8 == 0)
        point = add(point, BASE)


def disputed() -> tuple[bytes, list[bytes]]:
    """Return a key with a part of order 8, and signatures with it on the empty text.

    The first fits; the second fits only eight times over; the third is the first, S not reduced.
    """
    scalar, nonce = (challenge(b"", b"", name) for name in (b"key of order 8 L", b"nonce"))
    public = encoded(add(times(scalar, BASE), EIGHTH))
    found: dict[bool, bytes] = {}
    while len(found) < 2:
        nonce += 1
        r = encoded(times(nonce, BASE))
        h = challenge(r, public, b"")
        found.setdefault(h % 8 == 0, r + number((nonce + h * scalar) % L))
    fitting = found[True]
    unreduced = number(int.from_bytes(fitting[32:], "little") + L)
    return public, [fitting, found[False], fitting[:32] + unreduced]
