"""The second implementation, a client of a series, from docs/protocol.md, section 14.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import msgspec

from second import LABELS, hashed, le4, packed, words_of
from second_messages import COUNTS, HELPED, limit, message
from second_refusals import Refused, refuse

STEPS = {
    "curious": ("advertise-request", "share-request", "accept-request", "mask-request", "unmask-request"),
    "active": (
        *("advertise-request", "roster-request", "accept-request", "mask-among-request"),
        *("confirm-request", "signed-unmask-request"),
    ),
    "assisted": ("helper-keys-request", "mask-for-helpers-request", "unmask-sum-request"),
}
STRIDES = {"curious": 2, "active": 3, "assisted": 2}
#: The request with which a client enters a round; with helpers, the only one to members.
FIRST = {"curious": "advertise-request", "active": "advertise-request", "assisted": "mask-for-helpers-request"}


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
    return (name, data[4 + size : 36 + size]) if name in COUNTS else (None, None)


def number_in(data, fields, check):
    """The number of a round, the first field of a request."""
    try:
        _, _, _, (number, *_) = message(data, limit(front_of(data)[0], fields))
    except Refused:
        refuse(check, "FaultyServer")
    if len(number) != 4:
        refuse(check, "FaultyServer")
    return words_of(number, 32)[0]


class SeriesClient:
    """Envelopes in, envelopes out. ``make`` gives the client of a round from its encoded configuration."""

    def __init__(self, config, guard, make, fields):
        self.config, self.make, self.fields = msgspec.msgpack.decode(config), make, fields
        self.steps, self.stride, self.first = STEPS[guard], STRIDES[guard], FIRST[guard]
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
        if name != self.first:
            return None
        number = number_in(data, self.fields, "X2.2")
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


class SeriesHelper:
    """Envelopes in, envelopes out; each message is answered by the helper of its round."""

    def __init__(self, config, make, fields):
        self.config, self.make, self.fields, self.helpers = msgspec.msgpack.decode(config), make, fields, {}

    def receive(self, data):
        messages = unpacked(data)
        if not messages:
            self.helpers = {}
        numbers = [self.number_of(one) for one in messages]
        replies = [self.answer(number, one) for number, one in zip(numbers, messages, strict=True)]
        return enclosed(reply for reply in replies if reply is not None)

    def number_of(self, data):
        name, context = front_of(data)
        if name not in (*HELPED, "advertise-request"):
            refuse("X3.1", "FaultyServer")
        number = number_in(data, self.fields, "X3.1")
        if hashed(LABELS["context"], packed({**self.config, "number": number})) != context:
            refuse("X3.2", "FaultyServer")
        return number

    def answer(self, number, data):
        if number not in self.helpers:
            encoding = packed({**self.config, "number": number})
            self.helpers[number] = self.make(encoding, number - self.config["number"])
        if front_of(data)[0] == "helper-keys-request":  # rounds that are over
            self.helpers = {old: one for old, one in self.helpers.items() if old >= number - 1}
        try:
            return self.helpers[number].receive(data)
        except Refused:
            return None


def joined(case, who, party):
    """A client or helper of series.json; ``party`` makes one of a round, in the form of refused.json."""
    entry = next(one for one in [*case["clients"], *case.get("helpers", ())] if one["client"] == who)
    shared = {name: value for name, value in entry.items() if name in ("client", "identity")}
    shared |= {name: case[name] for name in ("charter", "now") if name in case}

    def make(config, place):
        of_round = {"seed": entry["seeds"][place], "config": config.hex()}
        if "vectors" not in entry:
            return party({**shared, **of_round, "helps": True})
        return party({**shared, **of_round, "vector": entry["vectors"][place], "task": case["tasks"][place]})

    first = bytes.fromhex(case["config"])
    fields = make(first, 0).fields
    return (
        SeriesClient(first, fields["guard"], make, fields) if "vectors" in entry else SeriesHelper(first, make, fields)
    )
