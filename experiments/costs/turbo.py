"""Turbo-aggregate (So, Güler and Avestimehr, 2020), small and for real: a sum that goes from group to group.

The server gives client i a random mask u_i. The clients stand in L groups, and those of group l send to those
of group l + 1, everyone to everyone, four vectors:

- x_i + u_i + r_ij, where the r_ij add up to zero over the receivers j;
- the same *coded*: through the vectors for all receivers goes one polynomial, which has them as its values at
  the points alpha_j; this is its value at beta_j. So fewer than half of the receivers see noise, and half of
  them together x_i + u_i, of which only the server can take u_i off;
- the client's own share of the partial sum of all groups before, and its coded one.

Polynomials add up like the vectors on them. So a receiver, who hears of 2 points for everyone who is left,
knows the partial sum if at least half of the group are left. The first group has no partial sum to pass on,
and may lose anybody. The last group sends to a final one, clients that are drawn from the other groups, whose
shares go to the server. It takes the mean, and the masks u_i of those who are in the sum off it.

Faithful: groups, polynomials, every vector that is sent, who sends it to whom and when, and the messages'
bytes. Left out:

- encryption between clients. With direct links, which are assumed here, it takes 16 bytes per message and
  two public keys for a link, beside vectors of megabytes. Where clients only reach the server, their bytes
  are the same and all of them pass it: ``relayed`` says how many.
- a cryptographic generator: numpy's draws all masks, because bytes are counted here and no secret is kept.
- u_i as a vector: the server sends its seed, which is cheaper.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ccesa.errors import ConfigError, RoundFailed
from experiments.costs.field import Vector, Vectors, add, combined, drawn, lagrange, mean, subtract, total

SERVER = -1
SEED_BYTES = 32
#: Sender, receiver, number of vectors, their length; a seed is sent as its bytes.
HEAD = struct.Struct("<iiII")


class GroupLost(RoundFailed):
    """Raised when more than half of a group are gone: its partial sum cannot be interpolated."""


@dataclass(frozen=True)
class Message:
    """What is on the wire."""

    raw: bytes

    @classmethod
    def of(cls, sender: int, receiver: int, vectors: Vectors) -> "Message":
        count, length = vectors.shape
        return cls(HEAD.pack(sender, receiver, count, length) + vectors.astype("<u4", copy=False).tobytes())

    @property
    def sender(self) -> int:
        return int(HEAD.unpack_from(self.raw)[0])

    @property
    def receiver(self) -> int:
        return int(HEAD.unpack_from(self.raw)[1])

    @property
    def vectors(self) -> Vectors:
        _, _, count, length = HEAD.unpack_from(self.raw)
        return np.frombuffer(self.raw, "<u4", offset=HEAD.size).reshape(count, length)


@dataclass
class Wire:
    """Carries messages, and counts what each party sends and receives."""

    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    relayed: int = 0

    def carry(self, message: Message) -> Message:
        size = len(message.raw)
        self.sent[message.sender] = self.sent.get(message.sender, 0) + size
        self.received[message.receiver] = self.received.get(message.receiver, 0) + size
        self.relayed += size if SERVER not in (message.sender, message.receiver) else 0
        return message


class Seat:
    """A client's place in a group: it adds up what the group before sends."""

    def __init__(self, before: Sequence[int], length: int) -> None:
        self._before = before
        self._shares = np.zeros((2, length), np.uint32)
        self._points: dict[int, Vector] = {}

    def take_shares(self, message: Message) -> None:
        self._shares = add(self._shares, message.vectors)

    def take_partial(self, message: Message) -> None:
        self._points |= points_of(message, self._before)

    def partial(self, stage: int) -> Vectors:
        """The client's share of the sum of all groups before, plain and coded."""
        if stage == 1:  # the first group has nobody before it
            return self._shares
        return add(self._shares, recovered(self._points, len(self._before), stage))


def points_of(message: Message, group: Sequence[int]) -> dict[int, Vector]:
    """A partial sum's values at alpha and beta of the sender."""
    place = group.index(message.sender) + 1
    return dict(zip((place, len(group) + place), message.vectors, strict=True))


def recovered(points: dict[int, Vector], size: int, stage: int) -> Vector:
    """The mean of the shares of a whole group, also of those who are gone: the sum so far."""
    if len(points) < size:
        raise GroupLost(
            f"group {stage} has {len(points) // 2} of {size} clients left: less than half, so the "
            "sum of the groups before is lost"
        )
    known = tuple(sorted(points)[:size])
    weights = mean(lagrange(known, tuple(range(1, size + 1))))
    return combined(weights, np.stack([points[point] for point in known]))[0]


@dataclass
class Client:
    number: int
    vector: Callable[[], Vector]
    rng: np.random.Generator
    seed: bytes = b""

    def shares(self, receivers: Sequence[int]) -> Iterator[Message]:
        """The masked vector, cut so that it takes half of the receivers to have it; plain and coded."""
        size, masked = len(receivers), self.vector()
        masked = add(masked, mask(self.seed, masked.size))
        noise = drawn(self.rng, size, masked.size)
        noise[-1] = subtract(np.zeros_like(masked), total(noise[:-1]))
        plain = add(noise, masked)
        alphas, betas = tuple(range(1, size + 1)), tuple(range(size + 1, 2 * size + 1))
        coded = combined(lagrange(alphas, betas), plain)
        for place, receiver in enumerate(receivers):
            yield Message.of(self.number, receiver, np.stack([plain[place], coded[place]]))


def mask(seed: bytes, length: int) -> Vector:
    return drawn(np.random.default_rng(int.from_bytes(seed, "little")), length)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The sum, who is in it, and bytes: of every client, of the server, and from client to client."""

    vector: Vector
    included: frozenset[int]
    sent: list[int]
    received: list[int]
    server: int
    relayed: int
    #: Messages that wait for one another: from group to group, and to the server.
    exchanges: int


class Round:
    """One round. ``gone`` says by stage who drops out before sending; stage L + 1 is the final group's."""

    def __init__(
        self,
        clients: int,
        groups: int,
        vector: Callable[[int], Vector],
        length: int,
        seed: int,
        gone: Mapping[int, frozenset[int]] | None = None,
    ) -> None:
        if not 2 <= groups <= clients:
            raise ConfigError(f"groups must be 2 to {clients}, the number of clients, not {groups}")
        self._rng = np.random.default_rng([seed, clients, groups])
        order = self._rng.permutation(clients)
        self._groups = [part.tolist() for part in np.array_split(order, groups)]
        self._length, self._gone, self._wire = length, gone or {}, Wire()
        self._clients = [
            Client(number, partial(vector, number), np.random.default_rng([seed, number])) for number in range(clients)
        ]

    def ran(self) -> Ran:
        """Raises GroupLost where more than half of a group are gone that had a partial sum to pass on."""
        self._give_masks()
        included: set[int] = set()
        seats: dict[int, Seat] = {}
        for stage in range(1, len(self._groups) + 1):
            if stage == len(self._groups):
                self._groups.append(self._final(included))
            included |= set(self._left(stage))
            seats = self._pass_on(stage, seats)
        masked = self._to_server(seats)
        masks = [mask(self._clients[number].seed, self._length) for number in sorted(included)]
        numbers = range(len(self._clients))
        return Ran(
            vector=subtract(masked, total(np.array(masks, np.uint32).reshape(-1, self._length))),
            included=frozenset(included),
            sent=[self._wire.sent.get(number, 0) for number in numbers],
            received=[self._wire.received.get(number, 0) for number in numbers],
            server=self._wire.sent[SERVER] + self._wire.received[SERVER],
            relayed=self._wire.relayed,
            exchanges=len(self._groups),
        )

    def _give_masks(self) -> None:
        for client in self._clients:
            seed = np.frombuffer(self._rng.bytes(SEED_BYTES), "<u4")[np.newaxis]
            message = self._wire.carry(Message.of(SERVER, client.number, seed))
            client.seed = message.vectors.tobytes()

    def _final(self, included: set[int]) -> list[int]:
        """As many as the last group has, if there are so many, of those who have taken part so far."""
        size = min(len(self._groups[-1]), len(included))
        if size == 0:
            raise GroupLost("nobody is left for the final group")
        return self._rng.choice(sorted(included), size, replace=False).tolist()

    def _left(self, stage: int) -> list[int]:
        return [number for number in self._groups[stage - 1] if number not in self._gone.get(stage, ())]

    def _pass_on(self, stage: int, seats: dict[int, Seat]) -> dict[int, Seat]:
        """Everybody in a group who is left sends to everybody in the next one."""
        before, receivers = self._groups[stage - 1], self._groups[stage]
        after = {number: Seat(before, self._length) for number in receivers}
        for number in self._left(stage):
            for message in self._clients[number].shares(receivers):
                after[message.receiver].take_shares(self._wire.carry(message))
            if stage > 1:
                own = seats.pop(number).partial(stage - 1)
                for receiver in receivers:
                    message = self._wire.carry(Message.of(number, receiver, own))
                    after[receiver].take_partial(message)
        return after

    def _to_server(self, seats: dict[int, Seat]) -> Vector:
        stage = len(self._groups)
        points: dict[int, Vector] = {}
        for number in self._left(stage):
            message = Message.of(number, SERVER, seats[number].partial(stage - 1))
            points |= points_of(self._wire.carry(message), self._groups[-1])
        return recovered(points, len(self._groups[-1]), stage)
