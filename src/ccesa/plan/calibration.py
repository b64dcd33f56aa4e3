"""The speed of this machine: seconds for each kind of work in a round, measured with the real primitives.

Some work is always the same, such as an agreement. Other work grows with a size and is measured at two sizes, or at
three for vectors that are taken in, because bytes beyond the caches cost more.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from ccesa import words
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS, DEFAULT, POST_QUANTUM, Content, Encapsulated
from ccesa.graphs import Complete
from ccesa.graphs.assignment import draw
from ccesa.plan.price import Rates, Timing
from ccesa.protocol import messages as m

#: How often everything is measured. All kinds take turns, so that a busy moment of the machine spoils no kind, and each
#: finds the caches as cold as in a round.
_TURNS = 9
#: Units of the same work in a row, and secrets that are joined at once.
_ROW, _SECRETS = 16, 64
_MASKED_BYTES = (1 << 8, 1 << 19)
_TAKEN_BYTES = (1 << 8, 1 << 19, 1 << 22)
#: Neighbours and threshold.
_SHARED = ((32, 17), (256, 129))
_NODES = 64
_CONTEXT = bytes(32)
#: Processor time, so that other programs do not count. Windows measures it only to 16 milliseconds.
_CLOCK = time.perf_counter if sys.platform == "win32" else time.thread_time


class _Work(NamedTuple):
    units: int
    run: Callable[[], object]

    def seconds(self) -> float:
        """Return the time of one unit."""
        start = _CLOCK()
        self.run()
        return (_CLOCK() - start) / self.units


def calibrate() -> Rates:
    """Return the speed of this machine, measured in about a fifth of a second."""
    both = shamir.random_elements(os.urandom, 2 * shamir.SECRET_ELEMENTS)
    every = [masks.Mask(os.urandom(16), 1) for _ in range(_ROW)]
    works: dict[str, dict[int, _Work]] = {
        "key_pair": {1: _row(lambda: primitives.public_key(primitives.private_key(os.urandom(32))))},
        "agreement": {1: _agreements()},
        "verification": {1: _verifications()},
        "sealing": {1: _sealings(DEFAULT)},
        "splitting": {(d + 1) * t: _Work(1, partial(shamir.split, both, t, d + 1, os.urandom)) for d, t in _SHARED},
        "joining": {t * (1 + _absent(t)): _joining(t) for _, t in _SHARED},
        "masking": {
            size: _Work(_ROW, partial(masks.masked, words.zeros(size // 4, 32), every, "aes128-ctr"))
            for size in _MASKED_BYTES
        },
        "taking": {size: _taking(size, m.MaskReply) for size in _TAKEN_BYTES},
        "signed_taking": {size: _taking(size, m.SignedMaskReply) for size in _TAKEN_BYTES},
        "edge": {1: _edges()},
    }
    if primitives.has_kem():
        works["hybrid_sealing"] = {1: _sealings(POST_QUANTUM)}
    kinds = [work for sizes in works.values() for work in sizes.values()]
    for work in kinds:
        work.run()  # tables are made on first use
    turns = [[work.seconds() for work in kinds] for _ in range(_TURNS)]
    seconds = map(median, zip(*turns, strict=True))
    curves = {name: Timing(tuple(sizes), tuple(next(seconds) for _ in sizes)) for name, sizes in works.items()}
    return Rates(**{name: one if len(one.sizes) > 1 else one.seconds[0] for name, one in curves.items()})  # type: ignore[arg-type]


def _row(one: Callable[[], object]) -> _Work:
    return _Work(_ROW, lambda: [one() for _ in range(_ROW)])


def _agreements() -> _Work:
    """Agree with many peers in one row, as a client does."""
    private = primitives.private_key(os.urandom(32))
    public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(_ROW)]

    def run() -> list[bytes]:
        agreed, sealing = primitives.agree_each(private, public), AGREEMENTS[DEFAULT].sealing
        return [sealing(secret, _CONTEXT, 0, number) for number, secret in enumerate(agreed, 1)]

    return _Work(_ROW, run)


def _verifications() -> _Work:
    private, text = primitives.signing_key(os.urandom(32)), os.urandom(32)
    public = primitives.public_key(private)
    signature = primitives.sign(private, text)
    return _row(lambda: primitives.verify(public, signature, text))


def _sealings(name: str) -> _Work:
    """Do all work of an agreement for one neighbour, except to agree by X25519."""
    agreement, secret, shares = AGREEMENTS[name], os.urandom(32), os.urandom(2 * shamir.SHARE_BYTES)
    kem_seed, public = os.urandom(agreement.kem_seed_bytes), bytes(31) + b"\x09"
    bundle = agreement.bundle(public, public, kem_seed)
    ends, row = keys.Ends(0, 1, bundle, bundle, True, bytes(32)), [bundle] * _ROW
    ours, theirs = (agreement.sealing(secret, _CONTEXT, *pair) for pair in ((0, 1), (1, 0)))

    def one(encapsulated: Encapsulated) -> bytes:
        agreement.check_keys(*agreement.public_keys(bundle))
        seed = agreement.pair_seed(secret, _CONTEXT, 0, 1)
        return agreement.seal(ours, encapsulated, Content(shares, seed), _CONTEXT, ends)

    def other(decapsulated: bytes, sealed: bytes) -> bytes:
        opened = agreement.unseal(theirs, decapsulated, sealed, _CONTEXT, ends)
        agreement.deposit(secret, opened.seed, _CONTEXT, 1, 0)
        half = keys.Half(0, public, opened.seed)
        return agreement.pair_secret(secret, _CONTEXT, half, half)

    def run() -> list[bytes]:
        sealed = [one(made) for made in agreement.encapsulate_each(row)]
        return list(map(other, agreement.decapsulate_each(kem_seed, sealed), sealed))

    return _Work(_ROW, run)


def _absent(threshold: int) -> int:
    """Return the number of absent holders if about a tenth of the clients has dropped out."""
    return threshold // 8


def _joining(threshold: int) -> _Work:
    """Join many secrets at once. Each lacks a few holders."""
    absent = np.arange(1, 1 + _absent(threshold)) * 8
    xs = np.setdiff1d(np.arange(1, 1 + threshold + absent.size), absent)
    shares = np.ones((_SECRETS, threshold, shamir.SECRET_ELEMENTS), np.uint16)
    return _Work(_SECRETS, partial(shamir.join_each, np.tile(xs, (_SECRETS, 1)), shares))


def _taking(size: int, kind: type[m.SummedVector]) -> _Work:
    blank = m.blank(kind, context=_CONTEXT, client=1000)
    message = msgspec.structs.replace(blank, vector=os.urandom(size)).encode()
    total = words.zeros(size // 4, 32)

    def run() -> None:
        vector = m.expect(m.decode(message, len(message)), kind).vector
        kind.fingerprint.make(vector, _CONTEXT, 1000)
        np.add(total, words.from_bytes(vector, 32), out=total)

    return _Work(1, run)


def _edges() -> _Work:
    """Draw a complete graph, then pass on both keys and the sealed shares of each edge."""
    nodes, edges = np.arange(_NODES), _NODES * (_NODES - 1)
    sealed = np.zeros((edges, AGREEMENTS[DEFAULT].text_bytes), np.uint8)
    public = np.zeros((_NODES, 2 * primitives.PUBLIC_KEY_BYTES), np.uint8)

    def run() -> None:
        graph = draw(Complete(), bytes(32), nodes)
        for items in np.take(public, graph.columns, axis=0), np.take(sealed, graph.reverse, axis=0):
            for content in items.reshape(_NODES, -1):  # any message will do: the time depends on its size alone
                message = m.Complaint(context=_CONTEXT, client=1000, accused=content.tobytes()).encode()
                m.decode(message, len(message))

    return _Work(edges, run)
