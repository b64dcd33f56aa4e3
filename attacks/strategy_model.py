"""The active guard without cryptography: sets, signatures as equality of sets, and what a server can open.

A strategy is what a lying server shows to each honest client: a V2 and a V3. Everything else it may as well
do at once, because it never loses by it: it asks everyone to mask, to confirm and to release, and it names
the colluders in every set, where they sign whatever is needed. So of the colluders only their number next
to each honest client counts. A server that lets a client "drop" tells the others so, which is again a V2 or
a V3.

Many strategies are judged at a time: a set is the bits of a word, ``v2[u]`` is what u is shown in each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Sets = NDArray[np.uint16]
Counts = NDArray[np.int8]
Flags = NDArray[np.bool_]

#: Bits in each word: the size of a set of at most 12 honest clients.
SIZES = np.array([word.bit_count() for word in range(1 << 12)], np.int8)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which rules of docs/security.md the honest clients follow. The protocol itself has no such switches."""

    #: R2: a client confirms one (V2, V3); without it, every one that it would accept.
    one_confirmation: bool = True
    #: R3: t neighbours must have confirmed before a share is released.
    count_confirmations: bool = True
    #: R3: every surviving neighbour must have signed the same V2.
    same_v2: bool = True


@dataclass(frozen=True, kw_only=True)
class World:
    """Honest clients 0, 1, …: whom each is joined to, how many colluders it has beside those, and its t."""

    near: tuple[int, ...]
    colluders: tuple[int, ...]
    thresholds: tuple[int, ...]

    @cached_property
    def honest(self) -> int:
        return len(self.near)

    @cached_property
    def minimum(self) -> tuple[int, ...]:
        """How many honest clients every sum with this one in it is promised to have."""
        return tuple(t - c for t, c in zip(self.thresholds, self.colluders, strict=True))

    def neighbours(self, client: int) -> tuple[int, ...]:
        return members(self.near[client])

    def accepts(self, client: int, shown: Sets) -> Flags:
        """R1 and R2: the client itself is in the set, and with it at least t of its neighbourhood."""
        live = SIZES[shown & self.near[client]] + self.colluders[client] + 1
        return (live >= self.thresholds[client]) & has(shown, client)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What came of each strategy; a row is a client, a column a strategy."""

    #: Signatures that each client misses; with none missing it has released its shares.
    lacking: Counts
    b_shares: Counts
    s_shares: Counts
    b: Flags
    s: Flags
    #: The smallest sum with this client in it that can be computed; zero if there is none.
    sums: Sets
    #: Where the server wins: both secrets of one client, or a sum of fewer than was promised.
    both: Flags
    short: Flags

    @property
    def released(self) -> Flags:
        return self.lacking == 0

    @property
    def won(self) -> Flags:
        return np.logical_or.reduce(self.both | self.short, axis=0)


def members(word: int) -> tuple[int, ...]:
    return tuple(place for place in range(word.bit_length()) if word >> place & 1)


def has(words: Sets, client: int) -> Flags:
    return np.asarray(words >> np.uint16(client) & np.uint16(1), bool)


def judge(world: World, rules: Rules, v2: Sets, v3: Sets) -> Opened:
    """What the server can open. Every V2 and V3 has to be one that its client accepts, V3 part of V2."""
    lacking = np.stack([_lacking(world, rules, v2, v3, u) for u in range(world.honest)])
    b_shares, s_shares = count_shares(world, lacking == 0, v2, v3)
    thresholds = np.array(world.thresholds, np.int8)[:, None]
    b, s = b_shares >= thresholds, s_shares >= thresholds
    sums = _open_sums(world, v2, b, s)
    short = (sums > 0) & (SIZES[sums] < np.array(world.minimum, np.int8)[:, None])
    return Opened(lacking=lacking, b_shares=b_shares, s_shares=s_shares, b=b, s=s, sums=sums, both=b & s, short=short)


def _lacking(world: World, rules: Rules, v2: Sets, v3: Sets, u: int) -> Counts:
    """R3, as ``active_client.check_confirmed`` has it: how many signatures u misses to release shares."""
    disagree = np.zeros(v2.shape[1], np.int8)
    confirmed = np.full(v2.shape[1], world.colluders[u], np.int8)
    for w in world.neighbours(u):
        survives = has(v3[u], w)
        confirms = v3[w] == v3[u]
        if not rules.one_confirmation:
            confirms = world.accepts(w, v3[u])
        same = v2[w] == v2[u]
        confirmed += survives & confirms & same
        disagree += survives & ~same
    lacking = np.zeros(v2.shape[1], np.int8)
    if rules.count_confirmations:
        lacking += np.maximum(world.thresholds[u] - confirmed, 0)
    if rules.same_v2:
        lacking += disagree
    return lacking


def count_shares(world: World, released: Flags, v2: Sets, v3: Sets) -> tuple[Counts, Counts]:
    """Count the server's shares of each client's two secrets: from colluders, and from who released."""
    b = np.empty(released.shape, np.int8)
    b[:] = np.array(world.colluders, np.int8)[:, None]
    s = b.copy()
    for i in range(world.honest):
        b[i] += released[i]  # its own; it is always in its own V3
        for u in world.neighbours(i):
            b[i] += released[u] & has(v3[u], i)
            s[i] += released[u] & has(v2[u] & ~v3[u], i)
    return b, s


def _open_sums(world: World, v2: Sets, b: Flags, s: Flags) -> Sets:
    """Whose vectors must be added so that every mask is known or cancels.

    A pair mask that nobody can compute is in both vectors, then both go in or neither; or in one of them only
    (the other client was shown a V2 without its neighbour), then that vector never opens.
    """
    blocked = ~b
    joined = np.zeros(b.shape, np.uint16)
    for i in range(world.honest):
        joined[i] |= np.uint16(1 << i)
        for w in world.neighbours(i):
            unknown = has(v2[i], w) & ~(s[i] | s[w])
            back = has(v2[w], i)
            blocked[i] |= unknown & ~back
            joined[i] |= (unknown & back).astype(np.uint16) << np.uint16(w)
    for k in range(world.honest):  # Warshall
        for i in range(world.honest):
            if i != k:
                joined[i] |= np.where(has(joined[i], k), joined[k], np.uint16(0))
    shut = np.zeros(b.shape[1], np.uint16)
    for i in range(world.honest):
        shut |= blocked[i].astype(np.uint16) << np.uint16(i)
    return np.where(joined & shut, np.uint16(0), joined)
