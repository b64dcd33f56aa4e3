"""sharing.json: splitting, joining and correcting over GF(65521)."""

import numpy as np

from cases.common import Case, Stream, configurations, secret
from ccesa.crypto import keys, shamir
from ccesa.crypto.shamir import FIELD, Elements

DESCRIPTION = (
    "Shamir sharing over GF(65521): a secret and its shares are rows of little-endian 16-bit words. Share x "
    "is the value at x = 1, 2, ... of secret + c1 x + c2 x^2 + ..., word by word; c1, c2, ... are read from "
    "randomness one after the other, words of 65521 and more skipped. Each list of x-coordinates under joins "
    "gives the secret back. Cases with an error must be refused by the operation they name."
)


class Tape:
    """Remembers what was drawn, so that the file can show it."""

    def __init__(self, random: shamir.Randomness) -> None:
        self._random, self.drawn = random, b""

    def __call__(self, count: int) -> bytes:
        taken = self._random(count)
        self.drawn += taken
        return taken


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "split": _splits(),
        "bad_split": [_bad_split(*shape) for shape in ((0, 3), (4, 3), (1, 0), (2, FIELD))],
        "bad_join": [_bad_join()],
        "correct": _corrections(),
        "words": [_words("zeros", bytes(32)), _words("largest", _element(FIELD - 1) * 16)],
        "bad_words": _bad_words(),
    }


def _element(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _splits() -> list[Case]:
    one, two = secret("split"), secret("split") + secret("another")
    return [
        _split("1 of 3: every share is the secret", one, 1, 3),
        _split("2 of 3", one, 2, 3),
        _split("3 of 3", one, 3, 3),
        _split("3 of 5, words outside the field", one, 3, 5, b"\xff\xff" * 3 + b"\xf1\xff" + b"\xf0\xff"),
        _split("5 of 9, two secrets at once", two, 5, 9),
        _split("20 of 39, as at degree 38", one, 20, 39),
        _split("2 of 1100: beyond the cached powers", one[:2], 2, 1100),
    ]


def _split(name: str, text: bytes, threshold: int, holders: int, first: bytes = b"") -> Case:
    """``first`` comes before the stream: for words that a stream hardly ever holds."""
    head, rest = [first], Stream(name.encode())

    def random(count: int) -> bytes:
        taken, head[0] = head[0][:count], head[0][count:]
        return taken + rest(count - len(taken))

    tape = Tape(random)
    shares = shamir.split(shamir.from_bytes(text), threshold, holders, tape)
    return {
        "name": name,
        "secret": text,
        "threshold": threshold,
        "holders": holders,
        "randomness": tape.drawn,
        "shares": _rows(shares),
        "joins": _subsets(threshold, holders),
    }


def _subsets(threshold: int, holders: int) -> list[list[int]]:
    """x-coordinates to join from: the first, the last, the last downwards, spread."""
    last = list(range(holders - threshold + 1, holders + 1))
    spread = [1 + k * (holders - 1) // max(threshold - 1, 1) for k in range(threshold)]
    found = [list(range(1, threshold + 1)), last, last[::-1], spread]
    return [subset for k, subset in enumerate(found) if subset not in found[:k]]


def _rows(shares: Elements) -> list[bytes]:
    return [shamir.to_bytes(row) for row in shares]


def _bad_split(threshold: int, holders: int) -> Case:
    return {"operation": "split", "threshold": threshold, "holders": holders, "error": "ValueError"}


def _bad_join() -> Case:
    """Joining cannot notice: what must fail is the comparison with the commitment."""
    config = configurations()["defaults"]
    text = secret("bad join")
    shares = shamir.split(shamir.from_bytes(text), 3, 5, Stream(b"bad join"))[:3].copy()
    shares[1, 0] = (int(shares[1, 0]) + 1) % FIELD
    xs = np.arange(1, 4)
    return {
        "operation": "comparison with the commitment",
        "reason": "the second share is wrong in its first word; join gives another secret without a sign",
        "xs": xs.tolist(),
        "shares": _rows(shares),
        "secret": text,
        "joined": shamir.to_bytes(shamir.join(xs, shares)),
        "context": config.context,
        "client": 4,
        "commitment": keys.commitment(text, config.context, 4),
    }


def _corrections() -> list[Case]:
    """4 of 9 shares rebuild; r of them are given, of which floor((r - 4) / 2) may be wrong."""
    every, odd = list(range(1, 10)), [2, 3, 5, 6, 7, 8, 9]
    return [
        _correction("none wrong", every, {}),
        _correction("one wrong in one word", every, {4: [0]}),
        _correction("two wrong in one word each, not the same", every, {0: [3], 8: [11]}),
        _correction("two wrong throughout", every, {2: list(range(16)), 3: list(range(16))}),
        _correction("three wrong in one word", every, {1: [5], 2: [5], 6: [5]}, bad=True),
        _correction("three wrong, each in another word", every, {1: [5], 2: [6], 6: [7]}, bad=True),
        _correction("three wrong throughout", every, {k: list(range(16)) for k in (0, 4, 8)}, bad=True),
        _correction("7 shares, one wrong", odd, {6: [15]}),
        _correction("7 shares, two wrong", odd, {0: [15], 6: [15]}, bad=True),
        _correction("5 shares: one wrong is seen, not found", odd[:5], {2: [0]}, bad=True),
        _correction("4 shares: nothing to spare", odd[:4], {}),
        _correction("3 shares: too few", odd[:3], {}, bad=True),
    ]


def _correction(name: str, xs: list[int], wrong: dict[int, list[int]], bad: bool = False) -> Case:
    """``wrong``: position in xs -> the words of that share that are changed."""
    text = secret("correction")
    shares = shamir.split(shamir.from_bytes(text), 4, 9, Stream(b"correction"))[np.array(xs) - 1].copy()
    for position, words in wrong.items():
        for word in words:
            shares[position, word] = (int(shares[position, word]) + 1 + 97 * position) % FIELD
    given = {"name": name, "operation": "correct", "threshold": 4, "xs": xs, "shares": _rows(shares)}
    outcome: Case = {"error": "TooManyWrong"} if bad else {"secret": text, "wrong": sorted(wrong)}
    return {**given, "changed": sorted(wrong), **outcome}


def _words(name: str, data: bytes) -> Case:
    return {"name": name, "data": data, "elements": shamir.from_bytes(data).tolist()}


def _bad_words() -> list[Case]:
    head = secret("bad words")[:30]
    bad = {
        "the field's size itself, last": head + _element(FIELD),
        "the largest word, last": head + _element(65535),
        "outside the field, first": _element(FIELD) + head,
        "half a word": head + b"\x00",
    }
    return [
        {"operation": "reading elements", "reason": reason, "data": data, "error": "OutsideField"}
        for reason, data in bad.items()
    ]
