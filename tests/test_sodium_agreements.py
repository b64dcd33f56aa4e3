"""X25519 by libsodium beside the package's: the same secrets and the same refusals.

The package does not use it (docs/decisions/0022-libsodium.md): it is no faster in one thread, and two threads
gain little. Should that change, these tests have to hold.
"""

from random import Random

import pytest

from ccesa.crypto import primitives
from test_bad_points import BAD, EDGES, LOW_ORDER, P

sodium = pytest.importorskip("nacl.bindings", reason="PyNaCl is not installed")
NINE = (9).to_bytes(32, "little")


def ours(private: bytes, public: bytes) -> bytes | None:
    try:
        return primitives.agree(primitives.private_key(private), primitives.load_public_key(public))
    except primitives.LowOrderKey:
        return None


def theirs(private: bytes, public: bytes) -> bytes | None:
    try:
        return sodium.crypto_scalarmult(private, public)
    except RuntimeError:
        return None


def test_the_iterated_vector_of_the_rfc():
    """RFC 7748, section 5.2: after one iteration and after a thousand."""
    for agree in (ours, theirs):
        k = u = NINE
        for times in range(1000):
            k, u = agree(k, u), k
            if times == 0:
                assert k.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
        assert k.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


@pytest.mark.parametrize(
    "private", [bytes(32), b"\xff" * 32, bytes(range(32)), (2**254).to_bytes(32, "little")]
)
def test_odd_points_give_the_same_secret_or_the_same_refusal(private):
    found = {}
    for name, u in {**BAD, **EDGES, "the base point": 9, "p - 3": P - 3}.items():
        public = u.to_bytes(32, "little")
        assert ours(private, public) == theirs(private, public), name
        found[name] = ours(private, public)
    assert all(found[name] is None for name in LOW_ORDER)
    assert all(found[name] is not None for name in EDGES)


def test_random_points_of_the_curve_and_of_its_twist():
    """Half of all 32 bytes are of the twist, half have the top bit set; and public keys are the same."""
    random = Random("points")
    for _ in range(3_000):
        private, public = random.randbytes(32), random.randbytes(32)
        assert ours(private, public) == theirs(private, public)
        mine = primitives.public_key(primitives.private_key(private))
        assert mine == theirs(private, NINE) == sodium.crypto_scalarmult_base(private)
