"""The second implementation, a client with all its checks, from docs/protocol.md, sections 8, 9 and 13.6.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

from second import (
    LABELS,
    Party,
    Stream,
    bytes_of,
    framed,
    graph_of,
    hashed,
    le4,
    one_time_key,
    packed,
    sealed_by_hand,
    threshold_of,
)
from second_active import (
    bitmap,
    bundle_text,
    confirmed_text,
    identity_of,
    leaf_of,
    masking_text,
    root_of,
    seed_of,
    signature_of,
)
from second_config import Refused, check_above, check_floor, configuration
from second_lists import chartered_configuration, check_signature
from second_messages import (
    check_public_key,
    check_split,
    cut,
    elements,
    ids_of,
    limit,
    message,
    proven_top,
    set_of,
    sized,
    unsealed,
)

#: What becomes of a refusal in a step (appendix B).
ABORTS = {"FaultyServer", "MalformedMessage", "LowOrderKey", "BadSignature", "WrongProof"}


class Client:
    """Under the guard curious. Requests in, replies out."""

    steps = ("advertise-request", "share-request", "mask-request", "unmask-request")

    def __init__(self, fields, encoding, client, vector, random, floor, spent, used=(), attempts=2):
        """``spent``: vectors that have left for this task, or None for a client that counts nothing."""
        check_floor(fields, floor)
        if client < 0:
            raise Refused("ConfigError")
        if client >= fields["clients"]:
            raise Refused("ConfigError")
        if spent is not None and not fields["task"]:
            raise Refused("ConfigError")
        if fields["round_id"] in used:
            raise Refused("ConfigError")
        if len(vector) != fields["length"] * fields["bits"] // 8:
            raise Refused("VectorError")
        self.fields, self.context = fields, hashed(LABELS["context"], encoding)
        self.client, self.vector, self.random, self.floor = client, vector, random, floor
        self.spent, self.attempts = spent, attempts
        self.place, self.aborted, self.complained, self.last = 0, False, False, (None, None)

    def receive(self, data):
        if self.aborted:
            raise Refused("OrderError")
        if data == self.last[0]:
            if self.last[1] is None:
                raise Refused("OrderError")
            return self.last[1]
        if self.complained:
            raise Refused("FaultyNeighbour")
        try:
            name, fields = self.read(data)
            reply = getattr(self, name.replace("-", "_"))(*fields)
        except Refused as refusal:
            if refusal.error not in ABORTS:
                raise
            self.aborted = True
            raise Refused("FaultyServer") from None
        self.place += 1
        self.last = (
            data,
            None if reply[0] in ("mask-reply", "signed-mask-reply") else packed_reply(self, reply),
        )
        self.complained = reply[0] == "complaint"
        return packed_reply(self, reply)

    def read(self, data):
        if self.place >= len(self.steps):
            raise Refused("FaultyServer")
        due = self.steps[self.place]
        name, context, client, fields = message(data, limit(due, self.fields))
        if name != due:
            raise Refused("FaultyServer")
        if context != self.context:
            raise Refused("FaultyServer")
        if client != self.client:
            raise Refused("FaultyServer")
        return name, fields

    def check_task(self):
        if self.spent is not None and self.spent >= self.attempts:
            raise Refused("TaskSpent")

    def advertise_request(self):
        self.check_task()
        entry = {"client": self.client, "vector": self.vector.hex(), "seed": ""}
        self.party = Drawn({"context": self.context.hex(), "fields": self.fields}, entry, self.random)
        return "advertise-reply", *self.party.keys

    def share_request(self, neighbours, keys, flags):
        near = ids_of(neighbours, self.fields["clients"])
        if self.client in near:
            raise Refused("FaultyServer")
        bundles = dict(zip(near, cut(keys, len(near), 64), strict=True))
        sized(flags, len(near))
        if any(flag > 1 for flag in flags):
            raise Refused("FaultyServer")
        due = self.mask_edges(len(near))
        if due is not None and sum(flags) != due:
            raise Refused("FaultyServer")
        return self.deal(bundles, {j for j, flag in zip(near, flags, strict=True) if flag})

    def mask_edges(self, degree):
        """How many of so many edges carry masks; None where that varies."""
        graph = self.fields["graph"]
        return None if graph.get("mask_p") is not None else min(graph.get("mask_degree") or degree, degree)

    def deal(self, bundles, masked):
        """Points 3 to 7 of step 1, and what follows."""
        degree = len(bundles)
        if degree < 1:
            raise Refused("FaultyServer")
        every = [key for bundle in bundles.values() for key in (bundle[:32], bundle[32:])]
        every += self.party.keys
        if len(set(every)) != len(every):
            raise Refused("FaultyServer")
        for key in every:
            check_public_key(key)
        self.check_degree(degree, len(masked))
        self.bundles, self.masked = bundles, masked
        check_split(self.threshold, degree + 1)
        self.party.deal(list(bundles))
        secret = bytes_of(self.party.self_secret, 16)
        commitment = hashed(LABELS["commitment"], self.context, le4(self.client), secret)
        return "share-reply", commitment, b"".join(self.sealed(j) for j in bundles)

    def check_degree(self, degree, mask_edges):
        self.threshold = threshold_of(self.fields["threshold"], degree)
        if degree + 1 > 65520:
            raise Refused("FaultyServer")
        if self.threshold > degree + 1 - (self.fields["guard"] == "active"):
            raise Refused("FaultyServer")
        if 2 * self.threshold <= degree + 1:
            raise Refused("FaultyServer")
        found = {"threshold_ratio": self.threshold / degree}
        if self.fields["graph"]["type"] != "erdos-renyi":
            found |= {"degree": degree, "threshold": self.threshold}
            if self.mask_edges(degree) is not None:
                found["mask_degree"] = mask_edges
        check_above(found, self.floor, "FaultyServer")

    def sealed(self, j):
        ends = self.client, j, b"".join(self.party.keys), self.bundles[j], j in self.masked
        return sealed_by_hand(self.party.sealing_private, self.context, *ends, self.party.share_for(j))

    def opened(self, j, text):
        key = one_time_key(self.party.sealing_private, self.bundles[j][:32], self.context, j, self.client)
        own, flag = b"".join(self.party.keys), bytes([j in self.masked])
        ends = le4(j), le4(self.client), self.bundles[j], own, flag
        return elements(unsealed(key, text, framed(LABELS["sealed shares"], self.context, *ends)))

    def mask_request(self, dropped, sealed):
        gone = ids_of(dropped, self.fields["clients"])
        if set(gone) - set(self.bundles):
            raise Refused("FaultyServer")
        return self.mask_among([j for j in self.bundles if j not in gone], sealed, "mask-reply")

    def mask_among(self, live, sealed, name):
        """Points 2 to 6 of step 2, and what follows."""
        if len(live) + 1 < self.threshold:
            raise Refused("FaultyServer")
        partners = [j for j in live if j in self.masked]
        if not partners:
            raise Refused("FaultyServer")
        accused, self.rows = [], {self.client: self.party.share_for(self.client)}
        for j, text in zip(live, cut(sealed, len(live), 80), strict=True):
            try:
                self.rows[j] = self.opened(j, text)
            except Refused:
                accused.append(j)
        if accused:
            return "complaint", b"".join(map(le4, accused))
        self.check_task()
        if self.spent is not None:
            self.spent += 1
        vector = self.party.masked_vector([Other(j, self.bundles[j]) for j in partners])
        return name, vector, hashed(LABELS["masked vector"], self.context, le4(self.client), vector)

    def unmask_request(self, dropped):
        return self.released(ids_of(dropped, self.fields["clients"]))

    def released(self, gone):
        if set(gone) - set(self.rows):
            raise Refused("FaultyServer")
        if self.client in gone:
            raise Refused("FaultyServer")
        if len(self.rows) - len(gone) < self.threshold:
            raise Refused("FaultyServer")
        if not any(j in self.masked and j not in gone for j in self.rows):
            raise Refused("FaultyServer")
        rows = sorted(self.rows.items())
        return "unmask-reply", b"".join(row[32:] if j in gone else row[:32] for j, row in rows)


def packed_reply(client, reply):
    name, *fields = reply
    return packed([name, client.context, client.client, *fields])


class Other:
    """A neighbour, as ``Party.masked_vector`` wants it."""

    def __init__(self, id, bundle):
        self.id, self.keys = id, (bundle[:32], bundle[32:])


class Drawn(Party):
    """A party with a source of randomness that is given."""

    def __init__(self, case, entry, random):
        self.given = random
        super().__init__(case, entry)

    @property
    def random(self):
        return self.given

    @random.setter
    def random(self, value):
        """What ``Party`` makes of a seed is not wanted."""


class ActiveClient(Client):
    """Under the guard active."""

    steps = (
        *("advertise-request", "roster-request", "mask-among-request", "confirm-request"),
        "signed-unmask-request",
    )

    def __init__(self, text, encoding, identity, vector, random, spent, used=(), now=0):
        fields = chartered_configuration(encoding, text)
        if now >= fields["expires"]:
            raise Refused("ConfigError")
        self.identity, self.members = identity, [key for _, key in fields["members"]]
        if identity_of(identity) not in self.members:
            raise Refused("ConfigError")
        client = self.members.index(identity_of(identity))
        super().__init__(fields, encoding, client, vector, random, {}, spent, used, fields["attempts"])

    def set_of(self, data):
        return set_of(data, self.fields["clients"])

    def sign(self, text):
        return signature_of(self.identity, text)

    def check_signed(self, j, signature, text):
        check_signature(self.members[j], signature, text)

    def advertise_request(self):
        _, *keys = super().advertise_request()
        text = bundle_text(self.context, self.client, b"".join(keys))
        return "signed-advertise-reply", *keys, self.sign(text)

    def roster_request(self, v1, root, keys, signatures, proof):
        self.v1 = self.set_of(v1)
        if self.client not in self.v1:
            raise Refused("FaultyServer")
        for least in (self.fields["min_survivors"], self.fields["least_roster"]):
            if len(self.v1) < least:
                raise Refused("FaultyServer")
        self.root = sized(root, 32)
        near = graph_of(self.fields["graph"], seed_of(self.context, root), self.v1)[0][self.client]
        bundles = dict(zip(near, cut(keys, len(near), 64), strict=True))
        for j, signature in zip(near, cut(signatures, len(near), 64), strict=True):
            self.check_signed(j, signature, bundle_text(self.context, j, bundles[j]))
        shown = sorted({**bundles, self.client: b"".join(self.party.keys)}.items())
        leaves = [leaf_of(self.context, j, bundle) for j, bundle in shown]
        places = [self.v1.index(j) for j, _ in shown]
        if root_of(self.context, v1, proven_top(len(self.v1), places, leaves, proof)) != root:
            raise Refused("FaultyServer")
        return self.deal(bundles, set(near))

    def mask_among_request(self, v2, sealed):
        self.v2 = self.part(v2, self.v1)
        reply = self.mask_among([j for j in self.bundles if j in self.v2], sealed, "signed-mask-reply")
        if reply[0] == "complaint":
            return reply
        return *reply, self.sign(masking_text(self.context, self.root, v2))

    def part(self, data, whole):
        """A set that only shrinks, with the client in it."""
        found = self.set_of(data)
        if set(found) - set(whole):
            raise Refused("FaultyServer")
        if self.client not in found:
            raise Refused("FaultyServer")
        return found

    def packed_set(self, members):
        return bitmap(members, self.fields["clients"])

    def confirm_request(self, v3):
        self.v3 = self.part(v3, self.v2)
        if len({*self.rows} & {*self.v3}) < self.threshold:
            raise Refused("FaultyServer")
        if len(self.v3) < self.fields["min_survivors"]:
            raise Refused("FaultyServer")
        return "confirm-reply", self.sign(self.confirmed())

    def confirmed(self):
        return confirmed_text(self.context, self.root, self.packed_set(self.v2), self.packed_set(self.v3))

    def signed_unmask_request(self, flags, signatures):
        near = [j for j in self.bundles if j in self.v3]
        sized(flags, len(near))
        shown = cut(signatures, len(near), 64)
        if any(flag > 1 for flag in flags):
            raise Refused("FaultyServer")
        masking = masking_text(self.context, self.root, self.packed_set(self.v2))
        for j, flag, signature in zip(near, flags, shown, strict=True):
            self.check_signed(j, signature, self.confirmed() if flag else masking)
        if sum(flags) < self.threshold:
            raise Refused("FaultyServer")
        return self.released([j for j in self.rows if j not in self.v3])


def joined(party):
    """A client from an entry of refused.json; whatever is missing there has its default."""
    raw = bytes.fromhex
    random, vector = Stream(raw(party["seed"])), raw(party["vector"])
    used = [raw(each) for each in party.get("used_rounds", ())]
    if "charter" in party:
        now = party.get("now", 0)
        given = party["charter"], raw(party["config"]), raw(party["identity"]), vector, random
        return ActiveClient(*given, party.get("spent"), used, now)
    fields = configuration(raw(party["config"]))
    given = fields, raw(party["config"]), party["client"], vector, random
    return Client(*given, party.get("floor", {}), party.get("spent"), used)
