"""How fast this machine is: seconds for each kind of work in a round, measured with the real primitives.

A piece of work is either always the same (an agreement), or it grows with a size and is measured at two or
three of them; between and beyond these the time is taken to be a straight line, so everything is linear:

- splitting both secrets of a client, by holders times threshold: the matrix product;
- joining one secret among many, by threshold times (1 + absent holders): the Lagrange weights;
- one mask, by the bytes of the vector, once its stream is set up;
- one message taken in, by its bytes: they are parsed, compared, hashed and added up. Beyond the size of the
  caches a byte costs more, hence three sizes.

What Python does around the primitives is counted in messages without content. How many of these a step is
worth hardly depends on the machine; it is a constant of ``cost.py``.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from ccesa import wire, words
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.graphs import Complete
from ccesa.graphs.assignment import draw

#: How often everything is measured. All kinds take turns: a busy moment of the machine spoils none of them,
#: and each finds the caches as cold as in a round.
_TURNS = 9
#: As many units of the same work in a row, and as many secrets joined at once.
_ROW, _SECRETS = 16, 64
_MASKED_BYTES = (1 << 8, 1 << 19)
_TAKEN_BYTES = (1 << 8, 1 << 19, 1 << 22)
#: Neighbours and threshold.
_SHARED = ((32, 17), (256, 129))
_NODES = 64
_CONTEXT = bytes(32)
#: Processor time, so that other programs do not count; Windows knows it only to 16 milliseconds.
_CLOCK = time.perf_counter if sys.platform == "win32" else time.thread_time


class Curve(NamedTuple):
    """Seconds for work of any size, from ascending sizes at which it was measured."""

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Straight between the measurements and beyond the last; below the first as at the first."""
        if size <= self.sizes[-1]:
            return float(np.interp(size, self.sizes, self.seconds))
        slope = (self.seconds[-1] - self.seconds[-2]) / (self.sizes[-1] - self.sizes[-2])
        return self.seconds[-1] + max(slope, 0.0) * (size - self.sizes[-1])


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Seconds for one unit of each kind of work, on one core."""

    #: A private key from its seed, and its public key.
    key_pair: float
    #: From the 32 bytes of a peer's public key to the keys derived from the common secret.
    agreement: float
    #: Of one signature.
    verification: float
    #: For one neighbour: its two keys checked, one pair of shares sealed and another opened.
    sealing: float
    #: Both secrets of a client, by holders times threshold.
    splitting: Curve
    #: One secret, by threshold times (1 + absent holders).
    joining: Curve
    #: One keystream made and added, by bytes.
    masking: Curve
    #: One message taken in and added up, by bytes.
    taking: Curve
    #: One direction of an edge at the server: drawn, its keys and its sealed shares passed on.
    edge: float


class _Work(NamedTuple):
    units: int
    run: Callable[[], object]


class _Letter(msgspec.Struct, frozen=True, array_like=True, tag="letter"):
    """Stands for any message."""

    context: bytes
    client: int
    content: bytes


_DECODER = msgspec.msgpack.Decoder(_Letter)


@lru_cache(maxsize=1)
def calibrate() -> Rates:
    """Measure this machine, in about a fifth of a second; once in a process."""
    return measure()


def measure() -> Rates:
    """Measure this machine anew."""
    curves = _curves(
        {
            "key pair": {1: _key_pairs()},
            "agreement": {1: _agreements()},
            "verification": {1: _verifications()},
            "sealing": {1: _sealings()},
            "splitting": {(d + 1) * t: _splitting(d + 1, t) for d, t in _SHARED},
            "joining": {t * (1 + _absent(t)): _joining(t) for _, t in _SHARED},
            "masking": {size: _masking(size) for size in _MASKED_BYTES},
            "taking": {size: _taking(size) for size in _TAKEN_BYTES},
            "edge": {1: _edges()},
        }
    )
    return Rates(
        key_pair=curves["key pair"].at(1),
        agreement=curves["agreement"].at(1),
        verification=curves["verification"].at(1),
        sealing=curves["sealing"].at(1),
        splitting=curves["splitting"],
        joining=curves["joining"],
        masking=curves["masking"],
        taking=curves["taking"],
        edge=curves["edge"].at(1),
    )


def _curves(kinds: dict[str, dict[int, _Work]]) -> dict[str, Curve]:
    """For each kind of work, the median seconds of one unit at each of its sizes."""
    works = [(name, size, work) for name, sizes in kinds.items() for size, work in sizes.items()]
    times: dict[tuple[str, int], list[float]] = {(name, size): [] for name, size, _ in works}
    for _, _, work in works:
        work.run()  # tables are made on first use
    for _ in range(_TURNS):
        for name, size, work in works:
            start = _CLOCK()
            work.run()
            times[name, size].append((_CLOCK() - start) / work.units)
    return {
        name: Curve(tuple(sizes), tuple(median(times[name, size]) for size in sizes))
        for name, sizes in kinds.items()
    }


def _key_pairs() -> _Work:
    seeds = [os.urandom(32) for _ in range(_ROW)]
    return _Work(_ROW, lambda: [primitives.public_key(primitives.private_key(seed)) for seed in seeds])


def _agreements() -> _Work:
    """In one row, as a client does it."""
    private = primitives.private_key(os.urandom(32))
    public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(_ROW)]

    def run() -> list[keys.Sealing]:
        loaded = [primitives.load_public_key(key) for key in public]
        agreed = [primitives.agree(private, key) for key in loaded]
        return [keys.sealing(secret, _CONTEXT, 0, number) for number, secret in enumerate(agreed, 1)]

    return _Work(_ROW, run)


def _verifications() -> _Work:
    private = primitives.signing_key(os.urandom(32))
    public = primitives.load_verifying_key(primitives.verifying_bytes(private))
    text = os.urandom(32)
    signature = primitives.sign(private, text)

    def run() -> None:
        for _ in range(_ROW):
            primitives.verify(public, signature, text)

    return _Work(_ROW, run)


def _sealings() -> _Work:
    secret, shares, public = os.urandom(32), os.urandom(2 * shamir.SHARE_BYTES), bytes(31) + b"\x01"
    ends = keys.Ends(0, 1, 2 * public, 2 * public, True)
    ours, theirs = keys.sealing(secret, _CONTEXT, 0, 1), keys.sealing(secret, _CONTEXT, 1, 0)

    def one() -> bytes:
        primitives.check_public_key(public)
        primitives.check_public_key(public)
        sealed = keys.seal_shares(ours, shares, _CONTEXT, ends)
        return keys.unseal_shares(theirs, sealed, _CONTEXT, ends)

    return _Work(_ROW, lambda: [one() for _ in range(_ROW)])


def _splitting(holders: int, threshold: int) -> _Work:
    both = shamir.random_elements(os.urandom, 2 * shamir.SECRET_ELEMENTS)
    return _Work(1, partial(shamir.split, both, threshold, holders, os.urandom))


def _absent(threshold: int) -> int:
    """So many holders are absent: about as many as with a tenth of the clients gone."""
    return threshold // 8


def _joining(threshold: int) -> _Work:
    """Many secrets at once. Each lacks a few holders; which ones makes no difference."""
    absent = np.arange(1, 1 + _absent(threshold)) * 8
    xs = np.setdiff1d(np.arange(1, 1 + threshold + absent.size), absent)
    shares = np.ones((_SECRETS, threshold, shamir.SECRET_ELEMENTS), np.uint16)
    return _Work(_SECRETS, partial(shamir.join_each, np.tile(xs, (_SECRETS, 1)), shares))


def _masking(size: int) -> _Work:
    every = [masks.Mask(os.urandom(16), 1) for _ in range(_ROW)]
    return _Work(_ROW, partial(masks.masked, words.zeros(size // 4, 32), every, "aes128-ctr"))


def _taking(size: int) -> _Work:
    message, total = wire.encode(_Letter(_CONTEXT, 1000, os.urandom(size))), words.zeros(size // 4, 32)

    def run() -> None:
        content = wire.decode(_DECODER, message, 2 * size, "letter").content
        hashlib.sha256(message).digest()
        np.add(total, words.from_bytes(content, 32), out=total)

    return _Work(1, run)


def _edges() -> _Work:
    """Of a complete graph: drawing it, then passing on both keys and the sealed shares of each edge."""
    nodes, edges = np.arange(_NODES), _NODES * (_NODES - 1)
    sealed = np.zeros((edges, keys.SEALED_BYTES), np.uint8)
    public = np.zeros((_NODES, 2 * primitives.PUBLIC_KEY_BYTES), np.uint8)

    def run() -> None:
        graph = draw(Complete(), bytes(32), nodes)
        for items in np.take(public, graph.columns, axis=0), np.take(sealed, graph.reverse, axis=0):
            for content in items.reshape(_NODES, -1):
                message = wire.encode(_Letter(_CONTEXT, 1000, content.tobytes()))
                wire.decode(_DECODER, message, len(message), "letter")

    return _Work(edges, run)
