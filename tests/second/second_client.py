"""The second implementation, a client with all its checks, from docs/protocol.md, sections 8, 9 and 13.6.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import second_hybrid as hybrid
from second import (
    LABELS,
    Party,
    Stream,
    associated_data,
    bytes_of,
    digest_of,
    graph_of,
    hashed,
    ids,
    le4,
    one_time_key,
    packed,
    sealed_by_hand,
    tag_of,
    threshold_of,
)
from second_active import (
    bitmap,
    bundle_text,
    confirmed_text,
    identity_of,
    leaf_of,
    masking_text,
    receipt_text,
    root_of,
    seed_of,
    signature_of,
)
from second_config import Refused, check_above, check_floor, configuration
from second_lists import chartered_configuration, check_signature
from second_messages import (
    SIZES,
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
ABORTS = {"FaultyServer", "MalformedMessage", "LowOrderKey", "BadKey", "BadSignature", "WrongProof"}


class Client:
    """Under the guard curious. Requests in, replies out."""

    first, last_ones = ("advertise-request", "share-request"), ("unmask-request",)
    #: Without and with accept.
    middle = (("mask-at-once-request",), ("accept-request", "mask-request"))

    def __init__(self, fields, encoding, client, vector, task, random, floor, memory, used=(), limits=(2, 1)):
        """``memory``: entries of 3.5, or None for a client that remembers nothing."""
        check_floor(fields, floor)
        if client < 0:
            raise Refused("ConfigError")
        if client >= fields["clients"]:
            raise Refused("ConfigError")
        if len(task) != 32:
            raise Refused("ConfigError")
        if memory is not None and not any(task):
            raise Refused("ConfigError")
        if fields["series_id"] + le4(fields["number"]) in used:
            raise Refused("ConfigError")
        if len(vector) != fields["length"] * fields["bits"] // 8:
            raise Refused("VectorError")
        self.fields, self.context = fields, hashed(LABELS["context"], encoding)
        self.client, self.vector, self.random, self.floor = client, vector, random, floor
        self.task, self.memory, (self.attempts, self.releases) = task, memory, limits
        self.hybrid = fields["agreement"] == hybrid.HYBRID
        self.bundle, self.text, _ = SIZES[fields["agreement"]]
        self.steps = (*self.first, *self.middle[fields["accept"]], *self.last_ones)
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
            self.aborted = refusal.error in (*ABORTS, "OrderError")
            if refusal.error not in ABORTS:
                raise
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

    def advertise_request(self, number):
        if number != le4(self.fields["number"]):
            raise Refused("FaultyServer")
        entry = {"client": self.client, "vector": self.vector.hex(), "seed": ""}
        kind = HybridDrawn if self.hybrid else Drawn
        self.party = kind({"context": self.context.hex(), "fields": self.fields}, entry, self.random)
        return "advertise-reply", b"".join(self.party.keys)

    def share_request(self, neighbours, keys, flags):
        near = ids_of(neighbours, self.fields["clients"])
        if self.client in near:
            raise Refused("FaultyServer")
        bundles = dict(zip(near, cut(keys, len(near), self.bundle), strict=True))
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
        every = [key for bundle in bundles.values() for key in parts_of(bundle)]
        every += self.party.keys
        if len(set(every)) != len(every):
            raise Refused("FaultyServer")
        for key in every:
            (check_public_key if len(key) == 32 else hybrid.check_kem_key)(key)
        self.check_degree(degree, len(masked))
        self.bundles, self.masked = bundles, masked
        check_split(self.threshold, degree + 1)
        self.party.deal(list(bundles))
        return "share-reply", self.party.commitment, b"".join(self.sealed(j) for j in bundles)

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
        own, flag = b"".join(self.party.keys), j in self.masked
        ends = self.client, j, own, self.bundles[j], flag, self.party.commitment
        row = self.party.share_for(j)
        if self.hybrid:
            return hybrid.sealed(self.party.sealing_private, self.context, ends, row, self.party.given_to(j))
        return sealed_by_hand(self.party.sealing_private, self.context, *ends, row)

    def opened(self, j, commitment, text):
        key = one_time_key(self.party.sealing_private, self.bundles[j][:32], self.context, j, self.client)
        own = b"".join(self.party.keys)
        ends = j, self.client, self.bundles[j], own, j in self.masked, commitment
        if self.hybrid:
            given = self.party.sealing_private, self.party.kem_seed, self.context, ends, text
            row, self.seeds[j] = hybrid.opened(*given)
            return elements(row)
        return elements(unsealed(key, text, associated_data(self.context, *ends)))

    def left(self, dropped, known):
        """Those of the known neighbours that are not listed as dropped; nobody else may be."""
        gone = ids_of(dropped, self.fields["clients"])
        if set(gone) - set(known):
            raise Refused("FaultyServer")
        return [j for j in known if j not in gone]

    def check_left(self, live):
        """Enough neighbours to share with, and one to mask with."""
        if len(live) + 1 < self.threshold:
            raise Refused("FaultyServer")
        if not any(j in self.masked for j in live):
            raise Refused("FaultyServer")

    def open_all(self, live, commitments, sealed):
        """Rows of those who have shared; the rest of them are accused."""
        self.check_left(live)
        self.shown, self.accused, self.seeds = live, [], {}
        self.rows = {self.client: self.party.share_for(self.client)}
        texts = zip(live, cut(commitments, len(live), 32), cut(sealed, len(live), self.text), strict=True)
        for j, commitment, text in texts:
            try:
                self.rows[j] = self.opened(j, commitment, text)
            except Refused:
                self.accused.append(j)

    def accept_request(self, dropped, commitments, sealed):
        self.open_all(self.left(dropped, self.bundles), commitments, sealed)
        return "accept-reply", ids(self.accused), b"".join(map(self.deposit, self.shown))

    def deposit(self, j):
        if not self.hybrid:
            return b""
        if j in self.accused:
            return bytes(48)
        return hybrid.deposit(self.party.secret, self.seeds[j], self.context, self.client, j)

    def mask_request(self, dropped, task):
        return self.mask_among(self.left(dropped, self.shown), task, "mask-reply")

    def mask_at_once_request(self, dropped, commitments, sealed, task):
        live = self.left(dropped, self.bundles)
        sized(task, 32)
        self.open_all(live, commitments, sealed)
        if self.accused:
            return "complaint", ids(self.accused)
        return self.mask_among(live, task, "mask-reply")

    def mask_among(self, live, task, name):
        """Points 2 to 7 of step 2, and what follows."""
        self.check_left(live)
        if set(live) & set(self.accused):
            raise Refused("FaultyServer")
        if task != self.task:
            raise Refused("FaultyServer")
        self.check_open()
        if self.memory is not None:
            self.memory |= {("sent", self.context), ("vector", self.task, *self.round)}
        self.rows = {j: row for j, row in self.rows.items() if j in (*live, self.client)}
        partners = [Other(j, self.bundles[j], self.seeds.get(j)) for j in live if j in self.masked]
        vector = self.party.masked_vector(partners)
        return name, self.known_by(vector), self.among(), task, vector

    @property
    def round(self):
        return self.fields["series_id"], self.fields["number"]

    def noted(self, about):
        """Series and numbers of the entries about the task."""
        return [tuple(rest) for kind, task, *rest in self.memory if (kind, task) == (about, self.task)]

    def check_open(self):
        """M1 of 3.5."""
        if self.memory is None:
            return
        if ("sent", self.context) in self.memory:
            raise Refused("OrderError")
        vectors, (series, number) = self.noted("vector"), self.round
        if len(vectors) >= self.attempts:
            raise Refused("TaskSpent")
        if len(self.noted("release")) >= self.releases:
            raise Refused("TaskSpent")
        if self.noted("counted"):
            raise Refused("TaskSpent")
        if any(one != series for one, _ in vectors):
            raise Refused("TaskSpent")
        if any(last >= number for _, last in vectors):
            raise Refused("TaskSpent")

    def check_latest(self):
        """M2 of 3.5."""
        if self.memory is None:
            return
        vectors, (series, number) = self.noted("vector"), self.round
        if self.round not in vectors:
            raise Refused("FaultyServer")
        if any(one != series for one, _ in vectors):
            raise Refused("FaultyServer")
        if any(last > number for _, last in vectors):
            raise Refused("FaultyServer")
        if len(self.noted("release")) >= self.releases:
            raise Refused("FaultyServer")

    def close_task(self):
        """M3 of 3.5."""
        if self.memory is None:
            return
        if self.round in self.noted("release"):
            raise Refused("OrderError")
        self.memory |= {("release", self.task, *self.round)}

    def known_by(self, vector):
        return tag_of(self.context, self.client, vector)

    def among(self):
        """V2 as this client knows it."""
        return hashed(LABELS["masked among"], self.context, le4(self.client), ids(sorted(self.rows)))

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
        self.check_latest()
        self.close_task()
        rows = sorted(self.rows.items())
        return "unmask-reply", b"".join(row[32:] if j in gone else row[:32] for j, row in rows)


def packed_reply(client, reply):
    name, *fields = reply
    return packed([name, client.context, client.client, *fields])


class Other:
    """A neighbour, as ``Party.masked_vector`` wants it."""

    def __init__(self, id, bundle, seed):
        self.id, self.keys, self.seed = id, parts_of(bundle), seed


def parts_of(bundle):
    """The single keys of a client, of two agreements."""
    return [key for key in (bundle[:32], bundle[32:64], bundle[64:]) if key]


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


class HybridDrawn(Drawn):
    """A party with a third key pair, and seeds for its masks."""

    def more_keys(self):
        self.kem_seed = self.random(64)
        return (hybrid.kem_public(self.kem_seed),)

    @property
    def secret(self):
        return bytes_of(self.mask_secret, 16)

    def given_to(self, other):
        return hybrid.pair_seed(self.secret, self.context, self.id, other)

    def pair_secret(self, other):
        ends = [(self.id, self.keys[1], self.given_to(other.id)), (other.id, other.keys[1], other.seed)]
        return hybrid.pair_secret(super().pair_secret(other), self.context, ends)


class ActiveClient(Client):
    """Under the guard active."""

    first = ("advertise-request", "roster-request")
    middle = (("mask-among-at-once-request",), ("accept-request", "mask-among-request"))
    last_ones = ("confirm-request", "signed-unmask-request")

    def __init__(self, text, encoding, identity, vector, task, random, memory, used=(), now=0):
        fields = chartered_configuration(encoding, text)
        if now >= fields["expires"]:
            raise Refused("ConfigError")
        self.identity, self.members = identity, [key for _, key in fields["members"]]
        if identity_of(identity) not in self.members:
            raise Refused("ConfigError")
        client = self.members.index(identity_of(identity))
        limits = fields["attempts"], fields.get("releases", 1)
        super().__init__(fields, encoding, client, vector, task, random, {}, memory, used, limits)

    def set_of(self, data):
        return set_of(data, self.fields["clients"])

    def sign(self, text):
        return signature_of(self.identity, text)

    def check_signed(self, j, signature, text):
        check_signature(self.members[j], signature, text)

    def advertise_request(self, number):
        _, keys = super().advertise_request(number)
        return "signed-advertise-reply", keys, self.sign(bundle_text(self.context, self.client, keys))

    def roster_request(self, v1, root, keys, signatures, proof):
        self.v1 = self.set_of(v1)
        if self.client not in self.v1:
            raise Refused("FaultyServer")
        for least in (self.fields["min_survivors"], self.fields["least_roster"]):
            if len(self.v1) < least:
                raise Refused("FaultyServer")
        self.root = sized(root, 32)
        near = graph_of(self.fields["graph"], seed_of(self.context, root), self.v1)[0][self.client]
        bundles = dict(zip(near, cut(keys, len(near), self.bundle), strict=True))
        for j, signature in zip(near, cut(signatures, len(near), 64), strict=True):
            self.check_signed(j, signature, bundle_text(self.context, j, bundles[j]))
        shown = sorted({**bundles, self.client: b"".join(self.party.keys)}.items())
        leaves = [leaf_of(self.context, j, bundle) for j, bundle in shown]
        places = [self.v1.index(j) for j, _ in shown]
        if root_of(self.context, v1, proven_top(len(self.v1), places, leaves, proof)) != root:
            raise Refused("FaultyServer")
        return self.deal(bundles, set(near))

    def mask_among_request(self, v2, task):
        self.v2 = self.part(v2, self.v1)
        live = [j for j in self.bundles if j in self.v2]
        if set(live) - set(self.shown):
            raise Refused("FaultyServer")
        return self.signed(self.mask_among(live, task, "signed-mask-reply"))

    def mask_among_at_once_request(self, v2, commitments, sealed, task):
        self.v2 = self.part(v2, self.v1)
        live = [j for j in self.bundles if j in self.v2]
        sized(task, 32)
        self.open_all(live, commitments, sealed)
        if self.accused:
            return "complaint", ids(self.accused)
        return self.signed(self.mask_among(live, task, "signed-mask-reply"))

    def among(self):
        packed_v2 = self.packed_set(self.v2)
        return hashed(LABELS["masked among"], self.context, le4(self.client), packed_v2)

    @property
    def worked_on(self):
        return self.context, self.root, self.packed_set(self.v2), self.task

    def signed(self, reply):
        *said, vector = reply
        receipt = receipt_text(*self.worked_on, said[1])
        return *said, self.sign(masking_text(*self.worked_on)), self.sign(receipt), vector

    def known_by(self, vector):
        return digest_of(self.context, self.client, vector)

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
        self.check_latest()
        return "confirm-reply", self.sign(self.confirmed())

    def confirmed(self):
        return confirmed_text(*self.worked_on, self.packed_set(self.v3))

    def signed_unmask_request(self, flags, signatures):
        near = [j for j in self.bundles if j in self.v3]
        sized(flags, len(near))
        shown = cut(signatures, len(near), 64)
        if any(flag > 1 for flag in flags):
            raise Refused("FaultyServer")
        masking = masking_text(*self.worked_on)
        for j, flag, signature in zip(near, flags, shown, strict=True):
            self.check_signed(j, signature, self.confirmed() if flag else masking)
        if sum(flags) < self.threshold:
            raise Refused("FaultyServer")
        return self.released([j for j in self.rows if j not in self.v3])


def joined(party):
    """A client from an entry of refused.json; whatever is missing there has its default."""
    raw = bytes.fromhex
    vector, random = raw(party["vector"]), Stream(raw(party["seed"]))
    task = raw(party["task"]) if "task" in party else bytes(32)
    used = [raw(each) for each in party.get("used_rounds", ())]
    if "charter" in party:
        now = party.get("now", 0)
        given = party["charter"], raw(party["config"]), raw(party["identity"]), vector, task, random
        return ActiveClient(*given, remembered(party.get("memory")), used, now)
    fields = configuration(raw(party["config"]))
    given = fields, raw(party["config"]), party["client"], vector, task, random
    return Client(*given, party.get("floor", {}), remembered(party.get("memory")), used)


def remembered(entries):
    """A memory of tasks as the files have it; None where there is none."""
    raw = bytes.fromhex
    if entries is None:
        return None
    return {
        (one["about"], *(raw(one[name]) for name in ("context", "task", "series_id") if name in one))
        + ((one["number"],) if "number" in one else ())
        for one in entries
    }
