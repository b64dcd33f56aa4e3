"""The second implementation, a client of a series, from docs/protocol.md, section 14.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import msgspec

from second import LABELS, hashed, le4, packed, words_of
from second_messages import REPLIES, REQUESTS, limit, message
from second_refusals import Refused, refuse

STEPS = {
    "curious": ("advertise-request", "share-request", "accept-request", "mask-request", "unmask-request"),
    "active": (
        *("advertise-request", "roster-request", "accept-request", "mask-among-request"),
        *("confirm-request", "signed-unmask-request"),
    ),
}
STRIDES = {"curious": 2, "active": 3}


def unpacked(data):
    """14.2: the messages of an envelope."""
    found = []
    while data:
        if len(found) == 3:
            refuse("X1.1", "FaultyServer")
        (length,) = words_of(data[:4], 32)  # fewer than four bytes leave none for a message
        data = data[4:]
        if length < 1:
            refuse("X1.2", "FaultyServer")
        if length > len(data):
            refuse("X1.3", "FaultyServer")
        found.append(data[:length])
        data = data[length:]
    return found


def enclosed(messages):
    return b"".join(le4(len(one)) + one for one in messages)


def front_of(data):
    """Name and context, as they stand at the front; None and None if this is no message."""
    if len(data) < 2 or data[0] >> 4 != 0x9 or data[1] >> 5 != 0x5:
        return None, None
    size = data[1] & 0x1F
    name = data[2 : 2 + size].decode(errors="replace")
    return (name, data[4 + size : 36 + size]) if name in {**REQUESTS, **REPLIES} else (None, None)


class SeriesClient:
    """Envelopes in, envelopes out. ``make`` gives the client of a round from its encoded configuration."""

    def __init__(self, config, guard, make, fields):
        self.config, self.make, self.fields = msgspec.msgpack.decode(config), make, fields
        self.steps, self.stride = STEPS[guard], STRIDES[guard]
        self.exchange, self.highest, self.over, self.states = -1, self.config["number"] - 1, False, {}

    def encoding(self, number):
        return packed({**self.config, "number": number})

    def context(self, number):
        return hashed(LABELS["context"], self.encoding(number))

    def receive(self, data):
        messages = unpacked(data)
        if not messages:
            self.over, self.states = True, {}
            return b""
        if self.over:
            refuse("X2.1", "OrderError")
        placed = self.placed(messages)
        self.enter(self.exchange_of(placed), placed)
        replies = [self.answer(number, one) for number, (_, one) in placed.items()]
        return enclosed(reply for reply in replies if reply is not None)

    def placed(self, messages):
        """Exchange and message by number."""
        found = {}
        for one in messages:
            number, (name, _) = self.number_of(one), front_of(one)
            if number is None:
                continue
            if name not in self.steps:
                refuse("X2.5", "FaultyServer")
            if number in found:
                refuse("X2.6", "FaultyServer")
            place = number - self.config["number"]
            found[number] = place * self.stride + self.steps.index(name), one
        return found

    def number_of(self, data):
        name, context = front_of(data)
        for number in self.states:
            if self.context(number) == context:
                return number
        if name != "advertise-request":
            return None
        try:
            _, _, _, (number,) = message(data, limit(name, self.fields))
        except Refused:
            refuse("X2.2", "FaultyServer")
        if len(number) != 4:
            refuse("X2.2", "FaultyServer")
        (number,) = words_of(number, 32)
        if self.context(number) != context:
            refuse("X2.3", "FaultyServer")
        return number

    def exchange_of(self, placed):
        exchanges = {exchange for exchange, _ in placed.values()}
        if not exchanges:
            refuse("X2.4", "FaultyServer")
        if len(exchanges) > 1:
            refuse("X2.7", "FaultyServer")
        if min(exchanges) < self.exchange:
            refuse("X2.8", "FaultyServer")
        return min(exchanges)

    def enter(self, exchange, placed):
        self.exchange = exchange
        joining = [number for number in placed if number not in self.states and number > self.highest]
        self.states = {number: state for number, state in self.states.items() if number in placed}
        for number in joining:
            self.highest = number
            self.states[number] = self.make(self.encoding(number), number - self.config["number"])

    def answer(self, number, data):
        if number not in self.states:
            return None
        try:
            return self.states[number].receive(data)
        except Refused as refusal:
            if refusal.error != "OrderError":
                del self.states[number]
            return None


def joined(case, who, client):
    """A client of series.json; ``client`` makes one of a round, in the form of refused.json."""
    entry = next(one for one in case["clients"] if one["client"] == who)
    shared = {name: value for name, value in entry.items() if name in ("client", "identity")}
    if "charter" in case:
        shared["charter"] = case["charter"]

    def make(config, place):
        of_round = {"seed": entry["seeds"][place], "vector": entry["vectors"][place]}
        return client({**shared, **of_round, "config": config.hex(), "task": case["tasks"][place]})

    first = bytes.fromhex(case["config"])
    guard = "active" if "charter" in case else "curious"
    return SeriesClient(first, guard, make, make(first, 0).fields)
