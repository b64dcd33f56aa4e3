"""Known bad points and signatures, in the manner of Wycheproof, at every door that a public key comes in by.

X25519: the points of order 1, 2, 4 and 8 on the curve and its twist, as they are published, and checked by
arithmetic of our own here; and encodings that are not the reduced one, with and without the unused top bit.
Ed25519: RFC 8032, sections 5.1.7 and 8.4.
"""

import base64
import hashlib

import numpy as np
import pytest

from attacks.hostile import HostileRound
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Admission, Identity
from ccesa.crypto import primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError, FaultyClient, FaultyServer
from ccesa.guards import guard_named
from ccesa.protocol import active_server, signed_texts
from ccesa.simulate import Enrolment, make_charter
from ccesa.simulate.enrolment import new_client, new_server
from rounds import changed, read

P = 2**255 - 19
TOP = 2**255
L = 2**252 + 27742317777372353535851937790883648493
A24 = 121665

#: As the lists of low-order points print them: of order 8, and on the twist.
EIGHT = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
OTHER_EIGHT = bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")
LOW_ORDER = {
    "0, of order 2, and the neutral one": 0,
    "1, of order 4": 1,
    "p - 1, of order 4 on the twist": P - 1,
    "of order 8": int.from_bytes(EIGHT, "little"),
    "the other of order 8": int.from_bytes(OTHER_EIGHT, "little"),
}
#: Everything that means the same as one of them, and everything else between p and 2^255.
NOT_REDUCED = {
    **{f"p + {u}" + (", of low order" if u < 2 else ""): P + u for u in range(19)},
    "2p - 1 in 256 bits": 2 * P - 1,
    "2p in 256 bits": 2 * P,
    "2p + 1 in 256 bits": 2 * P + 1,
    "all ones": 2**256 - 1,
    "the base point with the top bit": 9 + TOP,
    "the largest with the top bit": P - 2 + TOP,
}
BAD = {**LOW_ORDER, **{f"{name}, top bit set": value + TOP for name, value in LOW_ORDER.items()}, **NOT_REDUCED}
#: Reduced, of large order or with a large part, on the curve and on the twist: RFC 7748 lets them in.
EDGES = {
    "2, on the twist": 2,
    "3": 3,
    "the base point": 9,
    "p - 2": P - 2,
    "one bit": 2**254,
    "half": (P - 1) // 2,
    "beside the point of order 8": LOW_ORDER["of order 8"] + 1,
    "all bits but the lowest": 2**255 - 20 - 3,
}
bad_points = pytest.mark.parametrize("value", BAD.values(), ids=BAD)
edge_points = pytest.mark.parametrize("value", EDGES.values(), ids=EDGES)
guards = pytest.mark.parametrize("guard", ["curious", "active"])
fields = pytest.mark.parametrize("field", ["sealing_key", "mask_key"])

CLIENTS = 4
IDENTITIES = [Identity(bytes([place + 1]) * 32) for place in range(CLIENTS)]
CHARTER = make_charter(IDENTITIES, min_survivors=2)
LIAR, VICTIM = 2, 0


def ladder(scalar: int, u: int) -> tuple[int, int]:
    """RFC 7748's ladder, without its clamping: scalar · u as a fraction; the denominator 0 is infinity."""
    x2, z2, x3, z3 = 1, 0, u % P, 1
    for bit in reversed(range(scalar.bit_length())):
        swap = scalar >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, (aa - bb) * (aa + A24 * (aa - bb)) % P
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2, z2


@pytest.mark.parametrize("value", LOW_ORDER.values(), ids=LOW_ORDER)
def test_the_points_are_of_low_order(value):
    """Eight times each of them is nothing, which is why every clamped private key agrees on zero."""
    assert ladder(8, value)[1] == 0
    for private in (bytes(32), b"\xff" * 32, bytes(range(32))):
        loaded = primitives.load_public_key(value.to_bytes(32, "little"))
        with pytest.raises(primitives.LowOrderKey):
            primitives.agree(primitives.private_key(private), loaded)


def roots(a: int, b: int) -> set[int]:
    """Of x² + a x + b over the field."""
    square = (a * a - 4 * b) % P
    for factor in (1, pow(2, (P - 1) // 4, P)):
        root = factor * pow(square, (P + 3) // 8, P) % P
        if root * root % P == square:
            return {(sign * root - a) * pow(2, -1, P) % P for sign in (1, -1)}
    return set()


def test_there_are_no_others_of_low_order():
    """Doubling takes u to (u² - 1)² / 4u(u² + 486662u + 1); each step is undone for all u of the field."""
    big = 486662
    two = {0} | roots(big, 1)  # the denominator is zero
    four = roots(0, -1)  # u² = 1, doubled 0
    # Doubled ±1: divide by u² and solve for w = u + 1/u first.
    eight = set()
    for sign in (1, -1):
        for w in roots(-4 * sign, -4 - 4 * sign * big):
            eight |= roots(-w, 1)
    assert two | four | eight == set(LOW_ORDER.values())


@pytest.mark.parametrize("value", EDGES.values(), ids=EDGES)
def test_the_edges_are_not_of_low_order(value):
    assert ladder(8, value)[1] != 0


class Stand(HostileRound):
    """A round in its first step; one client lies about its keys and signs them properly."""

    def __init__(self, guard: str) -> None:
        agreed = {"clients": CLIENTS, "min_survivors": 2}
        config = CHARTER.config(length=2) if guard == "active" else RoundConfig(length=2, **agreed)
        members = Enrolment(identities=IDENTITIES, charter=CHARTER)
        vectors = {who: np.zeros(2, np.uint32) for who in range(CLIENTS)}
        clients = {who: new_client(config, who, vector, members) for who, vector in vectors.items()}
        super().__init__(new_server(config, members), clients, vectors)
        self.said = self.replies()

    def lie(self, field: str, key: bytes) -> bytes:
        both = AGREEMENTS["x25519"].public_keys(read(self.said[LIAR]).keys)
        reply = changed(self.said[LIAR], keys=key + both[1] if field == "sealing_key" else both[0] + key)
        if not guard_named(self.server.config.guard).chartered:
            return reply
        said = read(reply)
        text = signed_texts.bundle_text(self.server.context, LIAR, said.keys)
        return changed(reply, signature=IDENTITIES[LIAR].sign(text))

    def after(self, reply: bytes) -> dict[int, bytes]:
        """The requests of step 1, with this reply of the liar among the others."""
        self.step(to_server=lambda who, said: reply if who == LIAR else said)
        return self.requests


@bad_points
@guards
@fields
def test_the_server_refuses_it_and_the_others_go_on(value, guard, field):
    stand = Stand(guard)
    with pytest.raises(FaultyClient, match="low order or not in reduced form") as refusal:
        stand.server.receive(LIAR, stand.lie(field, value.to_bytes(32, "little")))
    assert refusal.value.client == LIAR
    assert LIAR in stand.server.waiting
    stand.after(stand.said[LIAR])


@bad_points
@guards
@fields
def test_a_client_refuses_it_from_a_server_that_does_not_look(value, guard, field, monkeypatch):
    """Also where the liar's signature and the committed roster are right."""
    stand = Stand(guard)
    lie = stand.lie(field, value.to_bytes(32, "little"))
    with monkeypatch.context() as blind:
        blind.setattr(primitives, "check_public_key", lambda public: None)
        requests = stand.after(lie)
    victim = stand.clients[VICTIM]
    with pytest.raises(FaultyServer, match="low order or not in reduced form"):
        victim.receive(requests[VICTIM])
    assert victim.done
    assert vars(victim._state) == {}


@edge_points
@guards
@fields
def test_valid_edge_cases_are_let_in_by_both(value, guard, field):
    stand = Stand(guard)
    requests = stand.after(stand.lie(field, value.to_bytes(32, "little")))
    assert read(stand.clients[VICTIM].receive(requests[VICTIM])).sealed


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
@guards
@fields
def test_keys_of_another_size(size, guard, field):
    stand = Stand(guard)
    with pytest.raises(FaultyClient, match=f"keys: expected 64 bytes, got {32 + size}|at most"):
        stand.server.receive(LIAR, stand.lie(field, b"\x09" * size))
    requests = stand.after(stand.said[LIAR])
    keys = read(requests[VICTIM]).keys
    with pytest.raises(FaultyServer, match=r"keys: expected|at most"):
        stand.clients[VICTIM].receive(changed(requests[VICTIM], keys=keys[:-32] + b"\x09" * (size % 32)))


# Ed25519


def bad_signatures(identity: Identity, text: bytes) -> dict[str, bytes]:
    good = identity.sign(text)
    r, s = good[:32], int.from_bytes(good[32:], "little")
    y = int.from_bytes(r, "little")
    neutral = (1).to_bytes(32, "little")
    return {
        "S + L": r + (s + L).to_bytes(32, "little"),
        "S + 8L": r + (s + 8 * L).to_bytes(32, "little"),
        "S = L": r + L.to_bytes(32, "little"),
        "S = 0": r + bytes(32),
        "-S": r + (L - s).to_bytes(32, "little"),
        "top bit of S": r + (s | TOP).to_bytes(32, "little"),
        "-R": (y ^ TOP).to_bytes(32, "little") + good[32:],
        "R neutral, S = 0": neutral + bytes(32),
        "R neutral, and it fits": fitting(identity, neutral, text),
        "R = p + 1, S = 0": (P + 1).to_bytes(32, "little") + bytes(32),
        "R not on the curve": (2).to_bytes(32, "little") + good[32:],
        "R and S swapped": good[32:] + r,
        "all zero": bytes(64),
        "all ones": b"\xff" * 64,
        "of another text": identity.sign(text + b"\0"),
        "of another key": Identity(b"\x55" * 32).sign(text),
        **{f"bit {bit}": _flipped(good, bit) for bit in (0, 7, 255, 256, 400, 511)},
    }


def fitting(identity: Identity, r: bytes, text: bytes) -> bytes:
    """S = h a, so that [S]B - [h]A is the neutral point: whoever has the private key can sign like this."""
    secret = int.from_bytes(hashlib.sha512(identity.seed).digest()[:32], "little") & (2**254 - 8) | 2**254
    h = int.from_bytes(hashlib.sha512(r + identity.public + text).digest(), "little")
    return r + (h * secret % L).to_bytes(32, "little")


def _flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(len(data), "little")


def test_the_library_takes_an_r_of_small_order_that_fits():
    """So it is the package that refuses it, and must."""
    signature = fitting(IDENTITIES[0], (1).to_bytes(32, "little"), b"text")
    primitives.verify_by_openssl(IDENTITIES[0].public, signature, b"text")


SIGNATURES = bad_signatures(IDENTITIES[0], b"")
bad_signature = pytest.mark.parametrize("name", SIGNATURES)


@bad_signature
def test_verification_raises(name):
    text = b"a text"
    key = IDENTITIES[0].public
    primitives.verify(key, IDENTITIES[0].sign(text), text)
    with pytest.raises(primitives.BadSignature):
        primitives.verify(key, bad_signatures(IDENTITIES[0], text)[name], text)


@bad_signature
def test_the_server_refuses_the_signature_and_the_right_one_still_counts(name):
    stand = Stand("active")
    said = read(stand.said[LIAR])
    text = signed_texts.bundle_text(stand.server.context, LIAR, said.keys)
    signature = bad_signatures(IDENTITIES[LIAR], text)[name]
    with pytest.raises(FaultyClient, match="signature that does not verify"):
        stand.server.receive(LIAR, changed(stand.said[LIAR], signature=signature))
    stand.after(stand.said[LIAR])


@bad_signature
def test_a_client_refuses_the_signature_and_names_whose_it_is(name, monkeypatch):
    stand = Stand("active")
    said = read(stand.said[LIAR])
    text = signed_texts.bundle_text(stand.server.context, LIAR, said.keys)
    signature = bad_signatures(IDENTITIES[LIAR], text)[name]
    with monkeypatch.context() as blind:
        blind.setattr(active_server, "check_signed", lambda *_: None)
        requests = stand.after(changed(stand.said[LIAR], signature=signature))
    with pytest.raises(FaultyServer, match=f"client {LIAR} did not sign its keys"):
        stand.clients[VICTIM].receive(requests[VICTIM])


@pytest.mark.parametrize("size", [0, 1, 32, 63, 65, 128])
def test_signatures_of_another_size(size):
    stand = Stand("active")
    with pytest.raises(FaultyClient, match=r"signature: expected|at most"):
        stand.server.receive(LIAR, changed(stand.said[LIAR], signature=bytes(size)))
    requests = stand.after(stand.said[LIAR])
    with pytest.raises(FaultyServer, match=r"signatures: expected|at most"):
        stand.clients[VICTIM].receive(changed(requests[VICTIM], signatures=bytes(size)))


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_identities_of_another_size(size):
    with pytest.raises(ConfigError, match="32 bytes"):
        Identity(bytes(size))
    with pytest.raises(ConfigError, match=r"32 bytes|base64"):
        Admission.parse(f"hospital-a {base64.b64encode(bytes([9]) * size).decode()}\n")


D = -121665 * pow(121666, -1, P) % P
#: Of order 8 is what doubles to y = 0: x² = -y², which on the curve is d y⁴ + 2y² - 1 = 0.
EIGHT_Y = sorted(y for square in roots(2 * pow(D, -1, P), -pow(D, -1, P)) for y in roots(0, -square))
#: y-coordinates of the points of order 1, 2, 4 and 8 on edwards25519.
LOW_Y = {
    "1, the neutral one": 1,
    "p - 1, of order 2": P - 1,
    "0, of order 4": 0,
    "of order 8": EIGHT_Y[0],
    "the other of order 8": EIGHT_Y[-1],
}
#: In every form: either sign of x, and where it fits, p more.
LOW_IDENTITIES = {
    f"{name}{more}{sign}": (y + shift + bit).to_bytes(32, "little")
    for name, y in LOW_Y.items()
    for more, shift in (("", 0), (" + p", P))
    for sign, bit in (("", 0), (", other sign", TOP))
    if y + shift < TOP
}


def doubled(x: int, y: int) -> tuple[int, int]:
    """On -x² + y² = 1 + d x² y²."""
    t = D * x * x * y * y
    return 2 * x * y * pow(1 + t, -1, P) % P, (y * y + x * x) * pow(1 - t, -1, P) % P


@pytest.mark.parametrize("y", LOW_Y.values(), ids=LOW_Y)
def test_the_identity_keys_are_of_low_order(y):
    point = (min(roots(0, -(y * y - 1) * pow(D * y * y + 1, -1, P))), y)
    for _ in range(3):
        point = doubled(*point)
    assert point == (0, 1)


@pytest.mark.parametrize("public", LOW_IDENTITIES.values(), ids=LOW_IDENTITIES)
def test_identity_keys_of_low_order_are_not_admitted(public):
    """Whoever sees the list could sign for such a member without a private key."""
    with pytest.raises(ConfigError, match="low order or not in reduced form"):
        Admission.parse(f"hospital-a {base64.b64encode(public).decode()}\n")


def test_there_are_two_y_of_order_eight():
    assert len(EIGHT_Y) == 2
    assert sum(EIGHT_Y) == P


def test_honest_identity_keys_are_admitted():
    assert len(Admission.parse(str(CHARTER.admission))) == CLIENTS
