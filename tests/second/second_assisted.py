"""The second implementation, guard ``assisted``: a member, a helper, and as much of a server as makes the sum.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import second_client as client
import second_hybrid as hybrid
from second import (
    KEY_BYTES,
    LABELS,
    Stream,
    agreed,
    bytes_of,
    framed,
    hashed,
    hkdf,
    ids,
    keystream,
    le4,
    packed,
    public_of,
    raw,
    tag_of,
    words_of,
)
from second_active import identity_of, signature_of
from second_client import ActiveClient
from second_config import check_words
from second_lists import chartered_configuration, check_signature
from second_messages import (
    HELPED,
    bundle_bytes,
    check_public_key,
    ciphertext_bytes,
    cut,
    ids_of,
    limit,
    message,
    record_bytes,
    sized,
)
from second_refusals import Refused, named, refuse

DAY = 86400
#: A key ends so many seconds early: clocks of members may be behind.
MARGIN = 3600
ROW = 16384


def le8(number):
    return number.to_bytes(8, "little")


def sum_of(vectors, bits):
    return [sum(column) % 2**bits for column in zip(*vectors, strict=True)]


# Check words


def check_words_of(context, fields, vector):
    """Linear in the vector, whose words these are."""
    bits, generator, count = fields["bits"], fields["generator"], check_words(fields["bits"])
    rows, width = -(-len(vector) // ROW), min(ROW, len(vector))
    key = hashed(LABELS["check words"], context)[: KEY_BYTES[generator]]
    stream = words_of(keystream(generator, key, 0, (rows + count * width) * bits // 8), bits)
    down = [word | 1 for word in stream[:rows]]
    columns = [0] * width
    for place, word in enumerate(vector):
        columns[place % ROW] += down[place // ROW] * word
    found = []
    for k in range(count):
        across = stream[rows + k * width :][:width]
        if k == 0:
            across = [word | 1 for word in across]
        found.append(sum(one * other for one, other in zip(across, columns, strict=True)) % 2**bits)
    return found


def with_check_words(context, fields, vector):
    words = words_of(vector, fields["bits"])
    return words + check_words_of(context, fields, words)


# What is derived and signed


def keys_text(context, h, not_after, bundle):
    return framed(LABELS["helper keys"], context, le4(h), le8(not_after), bundle)


def keyring_of(context, bundles):
    return hashed(LABELS["helpers"], context, *bundles)


def submission_text(context, i, task, keyring, said):
    """``said``: key, boxes, hashes of ciphertexts, tag."""
    return hashed(LABELS["submission"], context, le4(i), task, keyring, *said)


def secrets_of(fields, context, i, h, told, common, ciphertext):
    """Key of the mask and box; ``told``: task, keyring and the member's key."""
    size = KEY_BYTES[fields["generator"]]
    info = framed(LABELS["helped mask"], context, le4(i), le4(h), *told, ciphertext)
    found = hkdf(common, info, size + 16)
    return found[:size], found[size:]


def masked_words(fields):
    return fields["length"] + check_words(fields["bits"])


def mask_of(fields, key):
    bits = fields["bits"]
    return words_of(keystream(fields["generator"], key, 0, masked_words(fields) * bits // 8), bits)


def series_name(fields):
    """What a member's memory calls the series: longer than a series id, so that none is equal to it."""
    return fields["charter"] + fields["series_id"]


def parts_of(bundle):
    """X25519's key, and that of ML-KEM if there is one."""
    return bundle[:32], bundle[32:]


class Member(ActiveClient):
    """A client under a charter with helpers: one request, one reply."""

    first, middle, last_ones = ("mask-for-helpers-request",), ((), ()), ()

    def __init__(self, *given, now=0):
        super().__init__(*given, now=now)
        self.now = now

    def check_floor(self, fields, floor):
        """There is no graph."""

    @property
    def round(self):
        return series_name(self.fields), self.fields["number"]

    def mask_for_helpers_request(self, number, keys, not_after, signatures, task):
        self.bundles = self.checked(number, keys, not_after, signatures)
        if task != self.task:
            refuse("B1.10", "FaultyServer")
        self.check_open()
        self.remember_vector()
        return "boxed-mask-reply", *self.submission()

    def checked(self, number, keys, not_after, signatures):
        if number != le4(self.fields["number"]):
            refuse("B1.1", "FaultyServer")
        helpers = self.fields["helpers"]
        bundles = cut(keys, len(helpers), bundle_bytes(self.fields["agreement"]), "B1.2")
        ends = words_of(sized(not_after, 8 * len(helpers), "B1.3"), 64)
        shown = cut(signatures, len(helpers), 64, "B1.4")
        for place, (_, identity) in enumerate(helpers):
            text = keys_text(self.context, self.fields["clients"] + place, ends[place], bundles[place])
            with named("B1.5"):
                check_signature(identity, shown[place], text)
        if any(self.now >= end for end in ends):
            refuse("B1.6", "FaultyServer")
        if any(end > self.now + DAY * self.fields["key_days"] for end in ends):
            refuse("B1.7", "FaultyServer")
        with named("B1.8"):
            check_bundles(bundles)
        for column in zip(*map(parts_of, bundles), strict=True):
            if column[0] and len(set(column)) < len(column):
                refuse("B1.9", "FaultyServer")
        return bundles

    def submission(self):
        """Key, boxes, ciphertexts, tag, signature and vector."""
        fields, private = self.fields, self.random(32)
        key, keyring = public_of(private), keyring_of(self.context, self.bundles)
        told = self.task, keyring, key
        boxes, ciphertexts, terms = [], [], [with_check_words(self.context, fields, self.vector)]
        for place, bundle in enumerate(self.bundles):
            public, kem = parts_of(bundle)
            secret, ciphertext = hybrid.encapsulated(kem) if kem else (b"", b"")
            common = agreed(private, public) + secret
            h = fields["clients"] + place
            mask_key, box = secrets_of(fields, self.context, self.client, h, told, common, ciphertext)
            boxes.append(box)
            ciphertexts.append(ciphertext)
            terms.append(mask_of(fields, mask_key))
        vector = bytes_of(sum_of(terms, fields["bits"]), fields["bits"])
        said = key, b"".join(boxes), hashes_of(ciphertexts), tag_of(self.context, self.client, vector)
        signature = self.sign(submission_text(self.context, self.client, self.task, keyring, said))
        return key, said[1], b"".join(ciphertexts), said[3], signature, vector


def check_bundles(bundles):
    for bundle in bundles:
        public, kem = parts_of(bundle)
        check_public_key(public)
        if kem:
            hybrid.check_kem_key(kem)


def hashes_of(ciphertexts):
    return b"".join(hashed(LABELS["ciphertext"], one) for one in ciphertexts if one)


class Record:
    """What a member signed: ``said`` is key, boxes, hashes of ciphertexts and tag."""

    def __init__(self, data, helpers):
        ends = 32, 32 + 16 * helpers, len(data) - 80, len(data) - 64
        starts = 0, *ends
        self.said = [data[start:end] for start, end in zip(starts[:-1], ends, strict=True)]
        self.key, self.boxes, self.hashes, self.tag = self.said
        self.signature = data[-64:]


class Helper:
    """One of a charter's helpers in one round. Requests in, replies out; what it refuses changes nothing."""

    def __init__(self, text, encoding, identity, random, memory=None, now=0):
        """``memory``: what it must not do twice, of all its rounds, as a dict."""
        self.fields = chartered_configuration(encoding, text)
        if now >= self.fields["expires"]:
            refuse("J1.1", "ConfigError")
        keys = [key for _, key in self.fields["helpers"]]
        if identity_of(identity) not in keys:
            refuse("J1.2", "ConfigError")
        self.place, self.identity, self.random, self.now = keys.index(identity_of(identity)), identity, random, now
        self.id = self.fields["clients"] + self.place
        self.context = hashed(LABELS["context"], encoding)
        self.members = [key for _, key in self.fields["members"]]
        self.memory = {} if memory is None else memory
        #: The key as long as it is not used, then the answer.
        self.secret = self.answer = None

    def receive(self, data):
        try:
            return self.reply(data)
        except Refused as refusal:
            error = "TaskSpent" if refusal.error == "TaskSpent" else "FaultyServer"
            raise Refused(error, refusal.check) from None

    def reply(self, data):
        name, fields = self.read(data)
        if fields[0] != le4(self.fields["number"]):
            refuse("U0.4", "FaultyServer")
        answers = {"helper-keys-request": self.keys, "confirm-boxes-request": self.confirm}
        return answers.get(name, self.unmask)(*fields[1:])

    def read(self, data):
        most = max(limit(name, self.fields) for name in ANSWERED)
        name, context, client, fields = message(data, most)
        if name not in ANSWERED:
            refuse("U0.1", "FaultyServer")
        if context != self.context:
            refuse("U0.2", "FaultyServer")
        if client != self.id:
            refuse("U0.3", "FaultyServer")
        return name, fields

    def message(self, name, *fields):
        return packed([name, self.context, self.id, *fields])

    def sign(self, text):
        return signature_of(self.identity, text)

    def check_time(self, check):
        """A key and an answer are gone at not_after."""
        if self.kept is not None and self.now >= self.not_after:
            self.secret = self.answer = None
            refuse(check, "FaultyServer")

    @property
    def kept(self):
        return self.secret or self.answer

    # Keys

    def keys(self):
        self.check_time("U1.1")
        if ("question", self.context) in self.memory:
            refuse("U1.1", "FaultyServer")
        if self.secret is None:
            self.not_after = self.now + DAY * self.fields["key_days"] - MARGIN
            self.secret = self.random(32), self.random(64) if self.is_hybrid else b""
        signature = self.sign(keys_text(self.context, self.id, self.not_after, self.bundle))
        return self.message("helper-keys-reply", self.bundle, le8(self.not_after), signature)

    @property
    def is_hybrid(self):
        return self.fields["agreement"] == hybrid.HYBRID

    @property
    def bundle(self):
        private, seed = self.secret
        return public_of(private) + (hybrid.kem_public(seed) if seed else b"")

    # Boxes

    def asked(self, task, keyring, members, records, ciphertexts):
        """Checks U2.1 to U2.6; records and ciphertexts by member."""
        agreement, helpers = self.fields["agreement"], len(self.fields["helpers"])
        sized(task, 32, "U2.1")
        sized(keyring, 32, "U2.2")
        with named("U2.3"):
            found = ids_of(members, self.fields["clients"])
        records = cut(records, len(found), record_bytes(agreement, helpers), "U2.4")
        ciphertexts = cut(ciphertexts, len(found), ciphertext_bytes(agreement), "U2.5")
        self.check_time("U2.6")
        if self.kept is None:
            refuse("U2.6", "FaultyServer")
        return {i: (Record(record, helpers), one) for i, record, one in zip(found, records, ciphertexts, strict=True)}

    def confirm(self, *fields):
        task, keyring, members, records, _ = fields
        shown = self.asked(*fields)
        if self.answer is not None:
            refuse("U2.7", "FaultyServer")
        refused = ids(i for i, one in shown.items() if self.mask_key(i, *one, task, keyring) is None)
        boxes = hashed(LABELS["boxes"], self.context, le4(self.id), task, keyring, members, records)
        text = hashed(LABELS["confirmed boxes"], self.context, le4(self.id), boxes, refused)
        return self.message("confirm-boxes-reply", boxes, refused, self.sign(text))

    def mask_key(self, i, record, ciphertext, task, keyring):
        """The key of the mask of a member's vector; None if something does not fit."""
        text = submission_text(self.context, i, task, keyring, record.said)
        try:
            check_signature(self.members[i], record.signature, text)
            check_public_key(record.key)
        except Refused:
            return None
        if hashes_of([ciphertext]) != record.hashes[32 * self.place :][:32]:
            return None
        private, seed = self.secret
        common = agreed(private, record.key) + (hybrid.decapsulated(seed, ciphertext) if seed else b"")
        told = task, keyring, record.key
        key, box = secrets_of(self.fields, self.context, i, self.id, told, common, ciphertext)
        return key if box == record.boxes[16 * self.place :][:16] else None

    # The sum of masks

    def unmask(self, *fields):
        task, keyring, members, records, _ = fields
        shown = self.asked(*fields)
        question = hashed(LABELS["question"], self.context, le4(self.id), task, keyring, members, records)
        if self.memory.get(("question", self.context), question) != question:
            refuse("U3.1", "FaultyServer")
        if self.answer is not None:
            return self.answer
        if len(shown) < self.fields["min_survivors"]:
            refuse("U3.2", "FaultyServer")
        keys = [self.mask_key(i, *one, task, keyring) for i, one in shown.items()]
        if None in keys:
            refuse("U3.3", "FaultyServer")
        self.close_task(task)
        self.memory["question", self.context] = question
        bits = self.fields["bits"]
        vector = bytes_of(sum_of([mask_of(self.fields, key) for key in keys], bits), bits)
        tag = tag_of(self.context, self.id, vector)
        text = hashed(LABELS["mask sum"], self.context, le4(self.id), question, tag)
        self.secret, self.answer = None, self.message("unmask-sum-reply", tag, self.sign(text), vector)
        return self.answer

    def close_task(self, task):
        """One round has the sum of a task. Noise pays for each."""
        if "privacy" in self.fields:
            return
        about = "task", self.fields["charter"], task
        if self.memory.get(about, self.context) != self.context:
            refuse("U3.4", "TaskSpent")
        self.memory[about] = self.context


ANSWERED = tuple(name for name in HELPED if name != "mask-for-helpers-request")


class Hub:
    """As much of a server as asks everyone and makes the sum. It checks nothing that it is told."""

    def __init__(self, fields, context, task):
        self.fields, self.context, self.task = fields, context, task
        self.helpers = [fields["clients"] + place for place in range(len(fields["helpers"]))]
        self.keys, self.sent, self.sums, self.accusations = {}, {}, {}, []
        #: Members by helper: those that it was asked about, lately and ever, and those that it confirmed.
        self.asked, self.shown, self.confirmed = ({h: set() for h in self.helpers} for _ in range(3))

    def request(self, step, client):
        """What a party is asked in a step; a helper in step mask about all that is new."""
        if step == "key":
            return self.message("helper-keys-request", client)
        if step == "mask" and client not in self.helpers:
            columns = [b"".join(column) for column in zip(*(self.keys[h] for h in self.helpers), strict=True)]
            return self.message("mask-for-helpers-request", client, *columns, self.task)
        if step == "mask":
            self.asked[client] = {*self.sent} - self.shown[client]
            self.shown[client] |= self.asked[client]
            return self.message("confirm-boxes-request", client, *self.about(client, sorted(self.asked[client])))
        return self.message("unmask-sum-request", client, *self.about(client, self.survivors))

    def message(self, name, client, *fields):
        return packed([name, self.context, client, le4(self.fields["number"]), *fields])

    def about(self, h, members):
        """What a helper is shown of members: the last five fields."""
        keyring = keyring_of(self.context, [self.keys[h][0] for h in self.helpers])
        records = b"".join(map(self.record, members))
        ciphertexts = b"".join(self.ciphertexts(i)[self.helpers.index(h)] for i in members)
        return self.task, keyring, ids(members), records, ciphertexts

    def ciphertexts(self, i):
        return cut(self.sent[i][2], len(self.helpers), ciphertext_bytes(self.fields["agreement"]), "")

    def record(self, i):
        key, boxes, _, tag, signature, _ = self.sent[i]
        return key + boxes + hashes_of(self.ciphertexts(i)) + tag + signature

    def receive(self, client, reply):
        name, _, _, fields = message(reply, len(reply))
        if name == "helper-keys-reply":
            self.keys[client] = fields
        elif name == "boxed-mask-reply":
            self.sent[client] = fields
        elif name == "confirm-boxes-reply":
            refused = words_of(fields[1], 32)
            self.accusations += [(client, i) for i in refused]
            self.confirmed[client] |= self.asked[client] - {*refused}
            self.asked[client] = set()
        else:
            self.sums[client] = fields[2]

    @property
    def survivors(self):
        """V3."""
        return sorted({*self.sent}.intersection(*self.confirmed.values()))

    def outcome(self):
        """Sum, survivors and accusations, or the name of the failure and the helpers that are missing."""
        if len(self.keys) < len(self.helpers):
            return "HelpersMissing", self.missing(self.keys)
        if len(self.survivors) < self.fields["min_survivors"]:
            silent = [h for h in self.helpers if self.asked[h]]
            return ("HelpersMissing", silent) if silent else ("TooFewClients", [])
        if len(self.sums) < len(self.helpers):
            return "HelpersMissing", self.missing(self.sums)
        bits, length = self.fields["bits"], self.fields["length"]
        vectors = [words_of(self.sent[i][5], bits) for i in self.survivors]
        vectors += [[-word for word in words_of(one, bits)] for one in self.sums.values()]
        found = sum_of(vectors, bits)
        if check_words_of(self.context, self.fields, found[:length]) != found[length:]:
            return "CorruptSum", []
        return bytes_of(found[:length], bits), self.survivors, sorted(self.accusations)

    def missing(self, answered):
        return [h for h in self.helpers if h not in answered]


# Parties as the files have them


def joined(party):
    """A client of either guard, a member or a helper, from an entry of a file."""
    if "helpers = [" not in party.get("charter", ""):
        return client.joined(party)
    given = party["charter"], raw(party["config"]), raw(party["identity"])
    random, now = Stream(raw(party["seed"])), party.get("now", 0)
    if party.get("helps"):
        return Helper(*given, random, answered(party.get("memory", ())), now)
    task = raw(party["task"]) if "task" in party else bytes(32)
    used = [raw(each) for each in party.get("used_rounds", ())]
    return Member(*given, raw(party["vector"]), task, random, client.remembered(party.get("memory")), used, now=now)


def answered(entries):
    """The memory of a helper: questions by context, and the contexts of tasks."""
    found = {}
    for one in entries:
        if one["about"] == "question":
            found["question", raw(one["context"])] = raw(one["question"])
        else:
            found["task", raw(one["charter"]), raw(one["task"])] = raw(one["context"])
    return found


def told(party, step):
    """Set the clock and the memory of a party, before it is asked something."""
    party.now = step.get("now", getattr(party, "now", 0))
    if "memory" in step:
        party.memory = (answered if isinstance(party, Helper) else client.remembered)(step["memory"])
