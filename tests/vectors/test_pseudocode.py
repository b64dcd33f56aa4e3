"""docs/pseudocode.md, run as it stands against the vectors, with the second implementation's primitives."""

import re
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import second
import second_assisted
import second_assisted_replay
import second_client
import second_lists
import second_messages
from second import KEY_BYTES, Stream, bytes_of, field_words, le4, raw, words_of
from second_active import signature_of
from second_config import FLOOR, check_words
from second_refusals import Refused, named, refuse
from vector_files import load

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "vectors"))

import probes as vectors  # noqa: E402 - not a package

PAGE = (ROOT / "docs" / "pseudocode.md").read_text(encoding="utf-8")
SECTIONS = [part.split("```")[0] for part in PAGE.split("```python\n")[1:]]
PROBES = [
    probe
    for probe in vectors.probes(vectors.load())
    if probe.question["kind"] == "client" and "hybrid" not in probe.file
]
#: Files of the guard with helpers, without those of the other agreement.
TRIED = ("refused_assisted", "refused_helpers")


# The words of the page


def parts_in(parts):
    return [part.encode() if isinstance(part, str) else part for part in parts]


def check(name, condition, error="FaultyServer"):
    if not condition:
        refuse(name, error)


def refused_by(action, *arguments):
    try:
        action(*arguments)
    except Refused:
        return True
    return False


def read(name, action, *arguments):
    with named(name):
        return action(*arguments)


def split(row, t, holders, draw):
    rows = [words_of(row, 16), *(draw(32) for _ in range(t - 1))]
    columns = list(zip(*rows, strict=True))
    found = {}
    for place, holder in enumerate(holders):
        found[holder] = bytes_of([second.value_at(column, 1 + place) for column in columns], 16)
    return found


def decrypt(text, key, bound):
    try:
        return AESGCM(key[:16]).decrypt(key[16:], text, bound)
    except InvalidTag:
        return None


def plus(me, y, z, sign):
    pairs = zip(words_of(y, me.bits), words_of(z, me.bits), strict=True)
    return bytes_of([(a + sign * b) % 2**me.bits for a, b in pairs], me.bits)


def mask_edges(me, d):
    """How many of so many edges carry masks; None where that varies."""
    return None if me.graph.get("mask_p") is not None else min(me.graph.get("mask_degree") or d, d)


def above_own_limits(me, d, masks):
    found = {"threshold_ratio": me.t / d}
    if me.graph["type"] != "erdos-renyi":
        found |= {"degree": d, "threshold": me.t}
        found |= {"mask_degree": masks} if mask_edges(me, d) is not None else {}
    return all(value >= {**FLOOR, **me.floor}[name] for name, value in found.items())


def vocabulary(random):
    """All words, with this source of randomness; the page's own functions beside them."""

    def drawn(count):
        found = []
        while len(found) < count:
            found += field_words(random(2))
        return found

    space = {
        "check": check,
        "frame": lambda *parts: second.framed(*parts_in(parts)),
        "H": lambda *parts: second.hashed(*parts_in(parts)),
        "KDF": lambda secret, size, *parts: second.hkdf(secret, second.framed(*parts_in(parts)), size),
        "LE32": le4,
        "X25519": second.agreed,
        "random": random,
        "elements": lambda count: bytes_of(drawn(count), 16),
        "public": second.public_of,
        "valid_key": lambda key: not refused_by(second_messages.check_public_key, key),
        "threshold": lambda me, d: second.threshold_of(me.threshold, d),
        "above_own_limits": above_own_limits,
        "mask_edges": mask_edges,
        "split": lambda row, t, holders: split(row, t, holders, drawn),
        "encrypt": lambda row, key, bound: AESGCM(key[:16]).encrypt(key[16:], row, bound),
        "decrypt": decrypt,
        "in_field": lambda row: not refused_by(second_messages.elements, row),
        "PRG": lambda me, key, size=None: second.keystream(me.generator, key, 0, len(me.x) if size is None else size),
        "LE64": lambda number: number.to_bytes(8, "little"),
        "number_of": lambda data: int.from_bytes(data, "little"),
        "words": lambda me, data: words_of(data, me.bits),
        "data_of": lambda me, words: bytes_of([word % 2**me.bits for word in words], me.bits),
        "plus": plus,
        "tag": lambda me, y: second.tag_of(me.context, me.i, y),
        "ids": lambda name, data, n: read(name, second_messages.ids_of, data, n),
        "pack": second.ids,
        "members": lambda name, data, n: read(name, second_messages.set_of, data, n),
        "pieces": second_messages_cut,
        "sign": lambda me, text: signature_of(me.identity, text),
        "verifies": lambda key, *signed: not refused_by(second_lists.check_signature, key, *signed),
        "neighbourhood": lambda me, ids, seed: second.graph_of(me.graph, seed, ids)[0][me.i],
        "hashes_of_proof": second_messages.proof_hashes,
        "top": lambda size, leaves, proof: second_messages.proven_top(size, list(leaves), list(leaves.values()), proof),
        "noted": lambda me, kind: [tuple(rest) for about, task, *rest in me.memory if (about, task) == (kind, me.task)],
    }
    for section in SECTIONS:
        exec(section, space)  # noqa: S102 - our own page
    return space


def second_messages_cut(name, data, count, size):
    return second_messages.cut(data, count, size, name)


# The page's clients, in the place of the second implementation's

AGREED = "number series_id bits generator accept min_survivors graph threshold guard least_roster"


def of_page(guard, kind):
    """A client whose steps are those of the page; order, repeats and messages are the second's."""

    class OfPage(kind):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.seed, self.taken = self.random, []
            self.start()

        def start(self):
            fields = self.fields
            self.me = SimpleNamespace(
                **{name: fields.get(name) for name in AGREED.split()},
                i=self.client,
                n=fields["clients"],
                x=self.vector,
                context=self.context,
                task=self.task,
                attempts=self.attempts,
                releases=self.releases,
                floor=self.floor,
                key_size=KEY_BYTES[fields["generator"]],
                members=getattr(self, "members", None),
                identity=getattr(self, "identity", None),
                memory=self.memory,
                **of_charter(fields),
            )
            self.run = vocabulary(Stream(self.seed))[guard](self.me)
            next(self.run)

        def answered(self, *fields):
            self.me.memory, self.me.now = self.memory, getattr(self, "now", None)
            try:
                reply = self.run.send(fields)
            except StopIteration as end:
                reply = end.value
            except Refused as refusal:
                if refusal.error == "TaskSpent":
                    self.again()
                raise
            self.taken.append(fields)
            return reply

        def again(self):
            """A generator that has raised is over: bring another one to where this one was."""
            self.start()
            for fields in self.taken:
                self.run.send(fields)

    for name in (*kind.first, *kind.middle[0], *kind.middle[1], *kind.last_ones):
        setattr(OfPage, name.replace("-", "_"), OfPage.answered)
    return OfPage


def of_charter(fields):
    """What a round with helpers has beside."""
    if "helpers" not in fields:
        return {}
    helpers = [key for _, key in fields["helpers"]]
    return {"helpers": helpers, "key_days": fields["key_days"], "charter": fields["charter"]}


class HelperOfPage(second_assisted.Helper):
    """A helper that answers as the page does; U0.1 to U0.3 and the form of its memory are the second's."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        fields = self.fields
        self.me = SimpleNamespace(
            **{name: fields[name] for name in ("number", "bits", "generator", "min_survivors")},
            **of_charter(fields),
            i=self.id,
            n=fields["clients"],
            place=self.place,
            members=self.members,
            identity=self.identity,
            context=self.context,
            has_noise="privacy" in fields,
            key_size=KEY_BYTES[fields["generator"]],
            masked_size=(fields["length"] + check_words(fields["bits"])) * fields["bits"] // 8,
            secret=None,
            not_after=None,
            answer=None,
        )
        self.run = vocabulary(Stream(self.random))["helper"]

    def reply(self, data):
        name, fields = self.read(data)
        self.me.now, self.me.memory = self.now, {entry_of(*one) for one in self.memory.items()}
        reply = self.run(self.me, name, *fields)
        self.memory = dict(map(kept_as, self.me.memory))
        return self.message(*reply)


def entry_of(about, value):
    """The entry of 19.10; the second implementation calls an *answer* a task."""
    kind, *rest = about
    return ("answer" if kind == "task" else kind), *rest, value


def kept_as(entry):
    kind, *about, value = entry
    return ("task" if kind == "answer" else kind, *about), value


CLIENTS = {
    (second_client, "Client"): of_page("curious", second_client.Client),
    (second_client, "ActiveClient"): of_page("active", second_client.ActiveClient),
    (second_assisted, "Member"): of_page("assisted", second_assisted.Member),
    (second_assisted, "Helper"): HelperOfPage,
}


@pytest.fixture(autouse=True)
def page_in_place(monkeypatch):
    for (module, name), kind in CLIENTS.items():
        monkeypatch.setattr(module, name, kind)
        monkeypatch.setattr(module, "Stream", lambda seed: seed)


def test_each_listing_fits_on_a_page():
    assert all(len(section.splitlines()) < 100 for section in SECTIONS)
    assert all(any(f"def {name}(me" in one for one in SECTIONS) for name in ("curious", "active", "assisted", "helper"))
    assert all(len(line) <= 120 for line in PAGE.splitlines())


@pytest.mark.parametrize("file", ["round", "accept_round", "active_round", "active_accept_round"])
def test_the_page_gives_every_reply_of_the_rounds(file):
    for case in load(file, "rounds"):
        for entry in case["clients"]:
            shared = {name: case[name] for name in ("config", "charter", "task") if name in case}
            client = second_client.joined(shared | entry)
            for step in case["steps"]:
                for each in step["exchanges"]:
                    if each["client"] == entry["client"] and each["reply"] is not None:
                        assert client.receive(raw(each["request"])).hex() == each["reply"], case["name"]


@pytest.mark.parametrize("case", load("assisted_round", "rounds"), ids=lambda case: case["name"])
def test_members_and_helpers_of_the_page_give_every_reply(case):
    assert list(second_assisted_replay.rounds(case)) == []


@pytest.mark.parametrize("file", TRIED)
def test_members_and_helpers_of_the_page_answer_refuse_and_repeat(file):
    told = {name: load(file, name) for name in ("parties", "exchanges")}
    assert list(second_assisted_replay.exchanges(told)) == []


def test_the_page_refuses_what_the_vectors_refuse_by_the_same_check():
    assert len(PROBES) > 700
    for probe in PROBES:
        client = second_assisted.joined(probe.question["party"])
        *before, last = probe.question["asked"]
        for each in before:
            asked(client, each)
        assert asked(client, last) == (probe.case["error"], probe.case["check"]), probe.reason


def asked(client, each):
    second_assisted.told(client, each)
    try:
        client.receive(raw(each["request"]))
    except Refused as refusal:
        return refusal.error, refusal.check
    return None


def test_the_page_makes_its_checks_in_the_order_of_their_names():
    """In each step; the steps of both forms of a round stand one after the other."""
    for section in SECTIONS:
        found = [re.fullmatch(r"(\w+)\.(\d+)", name) for name in re.findall(r'"([A-Z]\w*\.\d+)"', section)]
        pairs = [(one[1], int(one[2])) for one in found]
        assert all(a[0] != b[0] or a[1] < b[1] for a, b in pairwise(pairs))
