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
from second_config import check_above, check_floor, configuration
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
from second_refusals import Refused, named, refuse

#: Replies that are sent once.
MASKED = ("mask-reply", "signed-mask-reply", "boxed-mask-reply")
#: What becomes of a refusal in a step (appendix B).
ABORTS = {"FaultyServer", "MalformedMessage", "LowOrderKey", "BadKey", "BadSignature", "WrongProof"}


class Client:
    """Under the guard curious. Requests in, replies out."""

    first, last_ones = ("advertise-request", "share-request"), ("unmask-request",)
    #: Without and with accept.
    middle = (("mask-at-once-request",), ("accept-request", "mask-request"))

    def __init__(self, fields, encoding, client, vector, task, random, floor, memory, used=(), limits=(2, 1)):
        """``memory``: entries of 3.5, or None for a client that remembers nothing."""
        self.check_floor(fields, floor)
        if client < 0:
            refuse("J1.4", "ConfigError")
        if client >= fields["clients"]:
            refuse("J1.4", "ConfigError")
        if len(task) != 32:
            refuse("J1.5", "ConfigError")
        if memory is not None and not any(task):
            refuse("M1.1", "ConfigError")
        if fields["series_id"] + le4(fields["number"]) in used:
            refuse("J1.6", "ConfigError")
        if len(vector) != fields["length"] * fields["bits"] // 8:
            refuse("J1.7", "VectorError")
        self.fields, self.context = fields, hashed(LABELS["context"], encoding)
        self.client, self.vector, self.random, self.floor = client, vector, random, floor
        self.task, self.memory, (self.attempts, self.releases) = task, memory, limits
        self.hybrid = fields["agreement"] == hybrid.HYBRID
        self.bundle, self.text, _ = SIZES[fields["agreement"]]
        self.steps = (*self.first, *self.middle[fields["accept"]], *self.last_ones)
        self.place, self.aborted, self.complained, self.last = 0, False, False, (None, None)

    def check_floor(self, fields, floor):
        check_floor(fields, floor)

    def receive(self, data):
        if self.aborted:
            refuse("E1.1", "OrderError")
        if data == self.last[0]:
            if self.last[1] is None:
                refuse("E1.2", "OrderError")
            return self.last[1]
        if self.complained:
            refuse("E1.3", "FaultyNeighbour")
        try:
            name, fields = self.read(data)
            reply = getattr(self, name.replace("-", "_"))(*fields)
        except Refused as refusal:
            self.aborted = refusal.error in (*ABORTS, "OrderError")
            if refusal.error not in ABORTS:
                raise
            raise Refused("FaultyServer", refusal.check) from None
        self.place += 1
        self.last = (data, None if reply[0] in MASKED else packed_reply(self, reply))
        self.complained = reply[0] == "complaint"
        return packed_reply(self, reply)

    def read(self, data):
        if self.place >= len(self.steps):
            refuse("E1.4", "FaultyServer")
        due = self.steps[self.place]
        name, context, client, fields = message(data, limit(due, self.fields))
        if name != due:
            refuse("E1.5", "FaultyServer")
        if context != self.context:
            refuse("E1.6", "FaultyServer")
        if client != self.client:
            refuse("E1.7", "FaultyServer")
        return name, fields

    def advertise_request(self, number):
        if number != le4(self.fields["number"]):
            refuse("C0.1", "FaultyServer")
        entry = {"client": self.client, "vector": self.vector.hex(), "seed": ""}
        kind = HybridDrawn if self.hybrid else Drawn
        self.party = kind({"context": self.context.hex(), "fields": self.fields}, entry, self.random)
        return "advertise-reply", b"".join(self.party.keys)

    def share_request(self, neighbours, keys, flags):
        with named("C1.1"):
            near = ids_of(neighbours, self.fields["clients"])
        if self.client in near:
            refuse("C1.2", "FaultyServer")
        bundles = dict(zip(near, cut(keys, len(near), self.bundle, "C1.3"), strict=True))
        sized(flags, len(near), "C1.4")
        if any(flag > 1 for flag in flags):
            refuse("C1.5", "FaultyServer")
        due = self.mask_edges(len(near))
        if due is not None and sum(flags) != due:
            refuse("C1.6", "FaultyServer")
        return self.deal(bundles, {j for j, flag in zip(near, flags, strict=True) if flag})

    def mask_edges(self, degree):
        """How many of so many edges carry masks; None where that varies."""
        graph = self.fields["graph"]
        return None if graph.get("mask_p") is not None else min(graph.get("mask_degree") or degree, degree)

    def deal(self, bundles, masked):
        """Checks C1.7 to C1.13, and what follows."""
        degree = len(bundles)
        if degree < 1:
            refuse("C1.7", "FaultyServer")
        every = [key for bundle in bundles.values() for key in parts_of(bundle)]
        every += self.party.keys
        if len(set(every)) != len(every):
            refuse("C1.8", "FaultyServer")
        with named("C1.9"):
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
            refuse("C1.10", "FaultyServer")
        if self.threshold > degree + 1 - (self.fields["guard"] == "active"):
            refuse("C1.11", "FaultyServer")
        if 2 * self.threshold <= degree + 1:
            refuse("C1.12", "FaultyServer")
        found = {"threshold_ratio": self.threshold / degree}
        if self.fields["graph"]["type"] != "erdos-renyi":
            found |= {"degree": degree, "threshold": self.threshold}
            if self.mask_edges(degree) is not None:
                found["mask_degree"] = mask_edges
        check_above(found, self.floor, "C1.13", "FaultyServer")

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

    def left(self, dropped, known, step):
        """Those of the known neighbours that are not listed as dropped; nobody else may be."""
        with named(f"{step}.1"):
            gone = ids_of(dropped, self.fields["clients"])
        if set(gone) - set(known):
            refuse(f"{step}.2", "FaultyServer")
        return [j for j in known if j not in gone]

    def check_left(self, live, step):
        """Enough neighbours to share with, and one to mask with."""
        if len(live) + 1 < self.threshold:
            refuse(f"{step}.3", "FaultyServer")
        if not any(j in self.masked for j in live):
            refuse(f"{step}.4", "FaultyServer")

    def open_all(self, live, commitments, sealed, step):
        """Rows of those who have shared; the rest of them are accused."""
        self.check_left(live, step)
        commitments = cut(commitments, len(live), 32, f"{step}.5")
        sealed = cut(sealed, len(live), self.text, f"{step}.6")
        self.shown, self.accused, self.seeds = live, [], {}
        self.rows = {self.client: self.party.share_for(self.client)}
        for j, commitment, text in zip(live, commitments, sealed, strict=True):
            try:
                self.rows[j] = self.opened(j, commitment, text)
            except Refused:
                self.accused.append(j)

    def accept_request(self, dropped, commitments, sealed):
        self.open_all(self.left(dropped, self.bundles, "C1a"), commitments, sealed, "C1a")
        return "accept-reply", ids(self.accused), b"".join(map(self.deposit, self.shown))

    def deposit(self, j):
        if not self.hybrid:
            return b""
        if j in self.accused:
            return bytes(48)
        return hybrid.deposit(self.party.secret, self.seeds[j], self.context, self.client, j)

    def mask_request(self, dropped, task):
        live = self.left(dropped, self.shown, "C2")
        self.check_live(live)
        return self.mask_among(live, task, "mask-reply", "C2.6")

    def check_live(self, live):
        """Checks C2.3 to C2.5: who is left after accept."""
        self.check_left(live, "C2")
        if set(live) & set(self.accused):
            refuse("C2.5", "FaultyServer")

    def mask_at_once_request(self, dropped, commitments, sealed, task):
        live = self.left(dropped, self.bundles, "C2o")
        if not self.usable(live, commitments, sealed, task):
            return "complaint", ids(self.accused)
        return self.mask_among(live, task, "mask-reply", "C2o.8")

    def usable(self, live, commitments, sealed, task):
        """Checks C2o.3 to C2o.7, and whether all texts open."""
        self.open_all(live, commitments, sealed, "C2o")
        sized(task, 32, "C2o.7")
        return not self.accused

    def mask_among(self, live, task, name, check):
        """The task, the memory of tasks, and what follows."""
        if task != self.task:
            refuse(check, "FaultyServer")
        self.check_open()
        self.remember_vector()
        self.rows = {j: row for j, row in self.rows.items() if j in (*live, self.client)}
        partners = [Other(j, self.bundles[j], self.seeds.get(j)) for j in live if j in self.masked]
        vector = self.party.masked_vector(partners)
        return name, self.known_by(vector), self.among(), task, vector

    def remember_vector(self):
        if self.memory is not None:
            self.memory |= {("sent", self.context), ("vector", self.task, *self.round)}

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
            refuse("M1.2", "OrderError")
        vectors, (series, number) = self.noted("vector"), self.round
        if len(vectors) >= self.attempts:
            refuse("M1.3", "TaskSpent")
        if len(self.noted("release")) >= self.releases:
            refuse("M1.4", "TaskSpent")
        if self.noted("counted"):
            refuse("M1.5", "TaskSpent")
        if any(one != series for one, _ in vectors):
            refuse("M1.6", "TaskSpent")
        if any(last >= number for _, last in vectors):
            refuse("M1.7", "TaskSpent")

    def check_latest(self):
        """M2 of 3.5."""
        if self.memory is None:
            return
        vectors, (series, number) = self.noted("vector"), self.round
        if self.round not in vectors:
            refuse("M2.1", "FaultyServer")
        if any(one != series for one, _ in vectors):
            refuse("M2.2", "FaultyServer")
        if any(last > number for _, last in vectors):
            refuse("M2.3", "FaultyServer")
        if len(self.noted("release")) >= self.releases:
            refuse("M2.4", "FaultyServer")

    def close_task(self):
        """M3 of 3.5."""
        if self.memory is None:
            return
        if self.round in self.noted("release"):
            refuse("M3.1", "OrderError")
        self.memory |= {("release", self.task, *self.round)}

    def known_by(self, vector):
        return tag_of(self.context, self.client, vector)

    def among(self):
        """V2 as this client knows it."""
        return hashed(LABELS["masked among"], self.context, le4(self.client), ids(sorted(self.rows)))

    def unmask_request(self, dropped):
        with named("C3.1"):
            gone = ids_of(dropped, self.fields["clients"])
        return self.released(gone)

    def released(self, gone):
        if set(gone) - set(self.rows):
            refuse("C3.2", "FaultyServer")
        if self.client in gone:
            refuse("C3.3", "FaultyServer")
        if len(self.rows) - len(gone) < self.threshold:
            refuse("C3.4", "FaultyServer")
        if not any(j in self.masked and j not in gone for j in self.rows):
            refuse("C3.5", "FaultyServer")
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
            refuse("J1.1", "ConfigError")
        self.identity, self.members = identity, [key for _, key in fields["members"]]
        if identity_of(identity) not in self.members:
            refuse("J1.2", "ConfigError")
        client = self.members.index(identity_of(identity))
        limits = fields["attempts"], fields.get("releases", 1)
        super().__init__(fields, encoding, client, vector, task, random, {}, memory, used, limits)

    def set_of(self, data, check):
        with named(check):
            return set_of(data, self.fields["clients"])

    def sign(self, text):
        return signature_of(self.identity, text)

    def check_signed(self, j, signature, text, check):
        with named(check):
            check_signature(self.members[j], signature, text)

    def advertise_request(self, number):
        _, keys = super().advertise_request(number)
        return "signed-advertise-reply", keys, self.sign(bundle_text(self.context, self.client, keys))

    def roster_request(self, v1, root, keys, signatures, proof):
        self.v1 = self.set_of(v1, "A1.1")
        if self.client not in self.v1:
            refuse("A1.2", "FaultyServer")
        for least, check in (("min_survivors", "A1.3"), ("least_roster", "A1.4")):
            if len(self.v1) < self.fields[least]:
                refuse(check, "FaultyServer")
        self.root = sized(root, 32, "A1.5")
        near = graph_of(self.fields["graph"], seed_of(self.context, root), self.v1)[0][self.client]
        bundles = dict(zip(near, cut(keys, len(near), self.bundle, "A1.6"), strict=True))
        for j, signature in zip(near, cut(signatures, len(near), 64, "A1.7"), strict=True):
            self.check_signed(j, signature, bundle_text(self.context, j, bundles[j]), "A1.8")
        shown = sorted({**bundles, self.client: b"".join(self.party.keys)}.items())
        leaves = [leaf_of(self.context, j, bundle) for j, bundle in shown]
        places = [self.v1.index(j) for j, _ in shown]
        with named("A1.9"):
            top = proven_top(len(self.v1), places, leaves, proof)
        if root_of(self.context, v1, top) != root:
            refuse("A1.10", "FaultyServer")
        return self.deal(bundles, set(near))

    def mask_among_request(self, v2, task):
        self.v2 = self.part(v2, self.v1, "A2")
        live = [j for j in self.bundles if j in self.v2]
        if set(live) - set(self.shown):
            refuse("A2.4", "FaultyServer")
        self.check_live(live)
        return self.signed(self.mask_among(live, task, "signed-mask-reply", "C2.6"))

    def mask_among_at_once_request(self, v2, commitments, sealed, task):
        self.v2 = self.part(v2, self.v1, "A2")
        live = [j for j in self.bundles if j in self.v2]
        if not self.usable(live, commitments, sealed, task):
            return "complaint", ids(self.accused)
        return self.signed(self.mask_among(live, task, "signed-mask-reply", "C2o.8"))

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

    def part(self, data, whole, step):
        """A set that only shrinks, with the client in it."""
        found = self.set_of(data, f"{step}.1")
        if set(found) - set(whole):
            refuse(f"{step}.2", "FaultyServer")
        if self.client not in found:
            refuse(f"{step}.3", "FaultyServer")
        return found

    def packed_set(self, members):
        return bitmap(members, self.fields["clients"])

    def confirm_request(self, v3):
        self.v3 = self.part(v3, self.v2, "A2c")
        if len({*self.rows} & {*self.v3}) < self.threshold:
            refuse("A2c.4", "FaultyServer")
        if len(self.v3) < self.fields["min_survivors"]:
            refuse("A2c.5", "FaultyServer")
        self.check_latest()
        return "confirm-reply", self.sign(self.confirmed())

    def confirmed(self):
        return confirmed_text(*self.worked_on, self.packed_set(self.v3))

    def signed_unmask_request(self, flags, signatures):
        near = [j for j in self.bundles if j in self.v3]
        sized(flags, len(near), "A3.1")
        shown = cut(signatures, len(near), 64, "A3.2")
        if any(flag > 1 for flag in flags):
            refuse("A3.3", "FaultyServer")
        masking = masking_text(*self.worked_on)
        for j, flag, signature in zip(near, flags, shown, strict=True):
            self.check_signed(j, signature, self.confirmed() if flag else masking, "A3.4")
        if sum(flags) < self.threshold:
            refuse("A3.5", "FaultyServer")
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
