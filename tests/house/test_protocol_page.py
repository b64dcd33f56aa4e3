"""docs/protocol.md against the package: its labels, its tables of sizes and its worked example."""

import base64
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from ccesa import labels
from ccesa.agreement.charter import Charter, Learning, Stated
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Admission, Identity
from ccesa.crypto import check_words, keys, merkle, primitives
from ccesa.crypto.keys import AGREEMENTS, vector_digest
from ccesa.graphs import Harary
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.quantizer import rotate
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import Client
from ccesa.protocol.messages import Size, record_bytes
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.steps import steps_of
from ccesa.protocol.submission import Binding, confirmed_text, keyring_of, question_digest, sum_text
from ccesa.simulate.enrolment import Enrolment, new_client, new_helper, new_server

DOCS = Path(__file__).parents[2] / "docs"
PAGE, FORMATS = ((DOCS / name).read_text(encoding="utf-8") for name in ("protocol.md", "formats.md"))
#: Pages for implementers, whose lines are short.
SHORT_LINES = ("protocol.md", "formats.md", "pseudocode.md")
#: Checks that no vector shows; the page says why of each.
UNSHOWN = ("F3.6", "M4.1", "M4.2", "K1.3", "Y1.14", "Y4.1", "Y4.2", "H2.10")
KINDS = {kind.__struct_config__.tag: kind for kind in m.MESSAGES}
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
#: What the page multiplies a size with: the number of neighbours in some state, or of those that are named.
PER_NEIGHBOUR = ("d", "d1", "d2", "d3")
PER_NAMED = ("(d − d2)", "(d − d1)", "(d1 − d2)", "each")
#: Sizes of the page that vary, by their place in ``Size``.
VARYING = {
    "VECTOR": "per_vector_byte",
    "SET": "sets",
    "at most PROOF": "proofs",
    "KEYS": "bundles",
    "KEYS · d": "bundles_per_neighbour",
    **dict.fromkeys([f"TEXT · {count}" for count in PER_NEIGHBOUR], "texts_per_neighbour"),
    "DEPOSIT · d1": "deposits_per_neighbour",
    "MASKED": "per_vector_byte",
    "BUNDLE": "helper_bundles",
    "BUNDLE · A": "bundles_per_helper",
    "CIPHERTEXT · A": "ciphertexts_per_helper",
    "RECORD each": "records_per_named",
    "CIPHERTEXT each": "ciphertexts_per_named",
}
X25519 = AGREEMENTS["x25519"]
#: Steps of a round in the order in which the tables of sizes have their messages.
FORMS = [(guard, accept) for guard in ("curious", "active") for accept in (True, False)]


def rows_of(header: list[str]) -> list[list[str]]:
    """The rows under each table with this header."""
    found, inside = [], False
    for row in ROWS:
        if row == header:
            inside = True
        elif inside and row[0].startswith("`"):
            found.append([row[0].strip("`"), *row[1:]])
        elif not row[0].startswith("---"):
            inside = False
    return found


def test_every_label_is_listed_in_order():
    found = re.findall(r'^\| `"(ccesa/2/[^"]*)"` \|', PAGE, re.MULTILINE)
    assert [label.encode() for label in found] == list(labels.ALL)


def test_the_order_of_messages_is_that_of_the_guards():
    header = ["guard", "*accept*", "state", "request", "reply", "next state"]
    found = [[cell.strip("`") for cell in row] for row in ROWS[ROWS.index(header) + 2 :][: len(list(moves()))]]
    assert sorted(found) == sorted(moves())


def moves():
    """Guard, with or without accept, and who goes from where to where; steps that both have once."""
    for guard in ("curious", "active"):
        with_it, without = (list(transitions(guard, accept)) for accept in (True, False))
        for row in with_it:
            yield [guard, "both" if row in without else "with", *row]
        for row in without:
            if row not in with_it:
                yield [guard, "without", *row]


def transitions(guard, accept):
    steps = steps_of(SimpleNamespace(guard=guard, accept=accept))
    after = [*(step.state.__name__ for step in steps[1:]), "Done"]
    for step, state in zip(steps, after, strict=True):
        tags = [kind.__struct_config__.tag for kind in (step.request, step.reply)]
        yield [step.state.__name__, *tags, state]
        if step.instead is not None:
            yield [step.state.__name__, tags[0], step.instead.__struct_config__.tag, "out of the round"]


def test_every_message_and_each_of_its_fields_is_named():
    for name, kind in KINDS.items():
        assert f"`{name}`" in PAGE
        for field in kind.__struct_fields__:
            assert field in ("context", "client") or f"`{field}`" in PAGE


def named_sizes() -> dict[str, int]:
    """The sizes of section 2 that are numbers."""
    rows = ROWS[ROWS.index(["size", "bytes", "of"]) + 2 :]
    return {row[0].strip("`"): int(row[1]) for row in rows[:20] if len(row) == 3 and row[1].isdecimal()}


def told_size(cell: str) -> Size:
    if cell in VARYING:
        return Size(**{VARYING[cell]: 1})
    name, _, count = cell.replace(" each", " · each").partition(" · ")
    size = named_sizes()[name]
    if count == "(d2 + 1)":
        return Size(size, per_neighbour=size)
    units = {"": "constant", "A": "per_helper", **dict.fromkeys(PER_NEIGHBOUR, "per_neighbour")}
    return Size(**{{**units, **dict.fromkeys(PER_NAMED, "per_named")}[count]: size})


def test_the_sizes_of_the_fields_are_those_that_the_messages_declare():
    found, message = {}, ""
    for row in ROWS[ROWS.index(["step", "name", "fields after `client`, in order", "bytes"]) :]:
        message = row[1].strip("`") if len(row) == 4 and row[1].strip("`") in KINDS else message
        if len(row) == 4 and row[2].startswith("`") and (row[1] == "" or row[1].strip("`") in KINDS):
            name = row[2].split("`")[1]
            found.setdefault(message, {})[name] = told_size(row[3])
    assert found == {name: m.sizes(kind) for name, kind in KINDS.items() if m.sizes(kind)}
    for name, kind in KINDS.items():
        assert list(found.get(name, {})) == list(kind.__struct_fields__[2:])


def test_the_agreements_are_listed_with_their_sizes():
    found = rows_of(["`agreement`", "keys of i", "`KEYS`", "`TEXT`", "`DEPOSIT`"])
    sizes = {name: tuple(map(int, told)) for name, _, *told in found}
    assert sizes == {name: (one.bundle_bytes, one.text_bytes, one.deposit_bytes) for name, one in AGREEMENTS.items()}


def told_limit(cell: str) -> int:
    """A number, a size or a sum of them, for x25519 and three helpers."""
    varying = {"KEYS": X25519.bundle_bytes, "TEXT": X25519.text_bytes, "DEPOSIT": X25519.deposit_bytes}
    varying |= {
        "BUNDLE": X25519.helper_bytes,
        "CIPHERTEXT": X25519.ciphertext_bytes,
        "RECORD": record_bytes("x25519", 3),
    }
    known = {**named_sizes(), **varying}
    return sum(known[part] if part in known else int(part) for part in cell.split(" + "))


def test_the_limits_are_those_of_the_messages():
    curious = rows_of(["message", "constant", "per neighbour", "per vector byte"])
    active = rows_of(["message", "constant", "per neighbour", "per vector byte", "sets", "proofs"])
    found = {name: [told_limit(cell) for cell in cells] for name, *cells in [*curious, *active]}
    assisted = rows_of(["message", "constant", "per helper", "per member", "per vector byte"])
    helped = {name: [told_limit(cell) for cell in cells] for name, *cells in assisted}
    assert found.keys() | helped.keys() == KINDS.keys()
    for name, (constant, per_helper, per_member, per_vector_byte) in helped.items():
        due = constant + 3 * per_helper + 5 * per_member + 7 * per_vector_byte
        assert m.body(KINDS[name]).of("x25519", 0, 7, 0, helpers=3, named=5) == due, name
    for name in found:
        size = m.body(KINDS[name])
        constant = size.constant + size.bundles * X25519.bundle_bytes
        each = size.each("x25519") + size.per_named
        due = [constant, each, size.per_vector_byte, size.sets, size.proofs]
        assert (found[name] + [0, 0])[:5] == due, name


def fixed_bytes(size: Size) -> int | None:
    """Of a field that is the same for all clients; None of one that varies."""
    fixed = Size(size.constant, bundles=size.bundles) == size
    return size.constant + size.bundles * X25519.bundle_bytes if fixed else None


def head_bytes(kind: type[m.Message], client: int, varying: int) -> int:
    """Of a message without what varies in it."""
    fixed = {name: fixed_bytes(size) for name, size in m.sizes(kind).items()}
    most = {name: 65519 if size.per_neighbour == 1 else varying for name, size in m.sizes(kind).items()}
    sizes = {name: min(varying, most[name]) if size is None else size for name, size in fixed.items()}
    message = kind(context=bytes(32), client=client, **{name: bytes(size) for name, size in sizes.items()})
    return len(message.encode()) - sum(size for name, size in sizes.items() if fixed[name] is None)


HEADS = ["message", "head, minimum", "head, maximum", "for each neighbour", ""]
HELPED_HEADS = ["message", "head, minimum", "head, maximum", "for each helper", "for each member", ""]


def test_the_heads_are_those_of_the_messages():
    found = rows_of(HEADS)
    assert {name for name, *_ in [*found, *rows_of(HELPED_HEADS)]} == KINDS.keys()
    for name, least, most, *_ in found:
        own = 32 if name == "unmask-reply" else 0  # the share for itself is there without neighbours
        assert int(least) == head_bytes(KINDS[name], 0, 0) + own, name
        assert int(most) == head_bytes(KINDS[name], 2**32 - 2, 70_000) + own, name


def assisted_head_bytes(kind: type[m.Message], client: int, helpers: int, named: int) -> int:
    """Of a message to or from helpers, without what each helper and each member adds."""
    sizes = {name: int(size.of("x25519", 0, 0, 0, helpers, named)) for name, size in m.sizes(kind).items()}
    sizes |= {name: named for name, size in m.sizes(kind).items() if size.per_vector_byte}
    message = kind(context=bytes(32), client=client, **{name: bytes(size) for name, size in sizes.items()})
    constant = sum(int(size.of("x25519", 0, 0, 0)) for size in m.sizes(kind).values() if not size.records_per_named)
    return len(message.encode()) - sum(sizes.values()) + constant


def test_the_heads_with_helpers_are_those_of_the_messages():
    for name, least, most, per_helper, per_member, _ in rows_of(HELPED_HEADS):
        kind, size = KINDS[name], m.body(KINDS[name])
        assert int(least) == assisted_head_bytes(kind, 0, 2, 0), name
        assert int(most) == assisted_head_bytes(kind, 2**32 - 2, 16, 70_000), name
        assert int(per_helper or 0) == size.of("x25519", 0, 0, 0, 1) - size.of("x25519", 0, 0, 0), name
        constant, _, each = per_member.partition(" + ")
        due = int(constant or 0) + 3 * int(each.removesuffix(" · A") or 0)
        assert due == size.of("x25519", 0, 0, 0, 3, 1) - size.of("x25519", 0, 0, 0, 3), name


def test_the_bytes_for_each_neighbour_are_those_of_the_messages():
    for name, _, _, told, _ in rows_of(HEADS):
        size = m.body(KINDS[name])
        named = size.per_named if not size.each("x25519") else 0
        due = size.each("x25519") or named
        assert int(re.search(r"\d+", told or "0").group()) in (due, 0), name
        assert (told == "") == (due == 0), name


def test_the_sums_are_those_of_the_steps():
    """With accept and without, for a neighbour that stays to the end."""
    heads = {name: (int(least), int(most)) for name, least, most, *_ in rows_of(HEADS)}
    sums = [row for row in ROWS if row[0].startswith("sum")]
    for (guard, accept), row in zip(FORMS, sums, strict=True):
        config = SimpleNamespace(guard=guard, accept=accept)
        kinds = [kind for step in steps_of(config) for kind in (step.request, step.reply)]
        names = [kind.__struct_config__.tag for kind in kinds]
        assert row[0] == f"sum, {'with' if accept else 'without'} accept"
        assert int(row[1]) == sum(heads[name][0] for name in names)
        assert int(row[2]) == sum(heads[name][1] for name in names)
        assert int(row[3]) == sum(m.body(kind).each("x25519") for kind in kinds)


def test_the_proof_among_a_thousand_has_the_size_that_the_page_says():
    rng, sizes = np.random.default_rng(0), []
    tree = merkle.levels([rng.bytes(32) for _ in range(1000)])
    for node in range(0, 1000, 5):
        near = Harary(degree=38).neighbours(rng.bytes(32), np.arange(1000), node)
        sizes.append(len(merkle.prove(tree, np.sort(np.append(near, node)))) // 32)
    assert re.search(r"among 1000 it has 152 hashes on average", PAGE)
    assert np.mean(sizes) == pytest.approx(152, abs=3)
    assert max(sizes) <= 39 * 10


# The worked example


def sizes_on_the_page() -> tuple[int, ...]:
    """Of the charter, the configuration under it, the other configuration, and the first reply."""
    patterns = (
        r"Its encoding has (\d+) bytes",
        r"the configuration has (\d+) bytes:",
        r"the rest by default; (\d+) bytes",
        r"advertise-reply, (\d+) bytes",
    )
    return tuple(int(re.search(pattern, PAGE).group(1)) for pattern in patterns)


SIZES = sizes_on_the_page()


def example() -> dict[str, bytes]:
    identities = [Identity(bytes([k]) * 32) for k in range(4)]
    charter = Charter.parse(PAGE.split("### 13.9")[1].split("```toml")[1].split("```")[0])
    assert [seat.key for seat in charter.members] == [one.public for one in identities]
    assert len(charter.encode()) == SIZES[0]
    config, task = charter.config(series_id=bytes(range(32)), length=2), bytes([7]) * 32
    context, v1 = config.context, m.pack_set(np.array([True, True, False, True]))
    keys = {k: bytes([0x10 + k]) * 32 + bytes([0x20 + k]) * 32 for k in (0, 1, 3)}
    leaves = [signed_texts.leaf(context, k, keys[k]) for k in (0, 1, 3)]
    tree = merkle.levels(leaves)
    root = signed_texts.root(context, v1, tree[-1].tobytes())
    what, digest = (context, root, v1, task), vector_digest(b"\x01\x02", context, 3)
    texts = [
        signed_texts.masking_text(*what),
        signed_texts.confirmed_text(*what, v1),
        signed_texts.receipt_text(*what, digest),
    ]
    assert len(config.encode()) == SIZES[1]
    assert v1 == b"\x0b"
    return {
        **{f"A_{k}": one.public for k, one in enumerate(identities)},
        "charter": charter.digest,
        "context": context,
        "bundle": identities[3].sign(signed_texts.bundle_text(context, 3, keys[3])),
        **{f"leaf {k}": leaf for k, leaf in enumerate(leaves)},
        "node": tree[1][0].tobytes(),
        "top": tree[2][0].tobytes(),
        "root": root,
        "seed": signed_texts.seed(context, root),
        "masking": texts[0],
        "confirmed": texts[1],
        "signature on V2": identities[3].sign(texts[0]),
        "signature on V2 and V3": identities[3].sign(texts[1]),
        "digest": digest,
        "among": signed_texts.among(context, 3, v1),
        "receipt": texts[2],
        "signed receipt": identities[3].sign(texts[2]),
    }


def test_the_worked_example_of_the_active_guard():
    example_text = PAGE.split("### 13.9")[1].split("## Appendix")[0]
    squeezed = re.sub(r"\s", "", example_text)
    for name, value in example().items():
        assert value.hex() in squeezed, name


def assisted_example(text: str) -> dict[str, bytes]:
    """A round of three members and two helpers under this charter, as the page describes it."""
    charter, now, task = Charter.parse(text), 2_000_000_000, bytes([7]) * 32
    every = [Identity(bytes([k]) * 32) for k in range(5)]
    enrolment = Enrolment(identities=every[:3], charter=charter, helpers=every[3:])
    config, vector = charter.config(series_id=bytes(range(32)), length=2), np.array([1, 2], np.uint8)

    def filled(value):
        return lambda count: bytes([value]) * count

    members = {i: {"task": task, "random": filled(0x40 + i), "now": now} for i in range(3)}
    parties = {i: new_client(config, i, vector, enrolment, **given) for i, given in members.items()}
    helpers = {3 + a: {"random": filled(0x30 + a), "clock": lambda: now} for a in range(2)}
    parties |= {h: new_helper(config, h - 3, enrolment, **given) for h, given in helpers.items()}
    said = {}
    carry = in_memory(parties)

    def heard(step, requests):
        for party, reply in carry(step, requests):
            said[step.name, party] = m.decode(requests[party], 1000), m.decode(reply, 1000)
            yield party, reply

    found = run_round(new_server(config, enrolment, task=task, now=now), heard)
    keys, sent = {h: said["key", h][1] for h in helpers}, {i: said["mask", i][1] for i in members}
    (_, confirmed), (asked, answer) = said["mask", 3], said["unmask", 3]
    keyring, question = keyring_of(config.context, [keys[3].keys, keys[4].keys]), question_digest(asked, 3)
    secrets = primitives.agree_each(primitives.private_key(filled(0x42)(32)), [keys[3].keys, keys[4].keys])
    binding = Binding(config=config, context=config.context, task=task, keyring=keyring)
    masks = [binding.mask_key(secret, 2, a, sent[2].key, b"") for a, secret in enumerate(secrets)]
    total = np.sum([np.frombuffer(one.vector, np.uint8) for one in sent.values()], axis=0, dtype=np.uint8)
    words = [check_words.make(one, config.context, config.generator) for one in (vector, found.vector)]
    return {
        "charter": charter.digest,
        "context": config.context,
        "not_after": keys[3].not_after,
        "signature of 3": keys[3].signature,
        "keyring": keyring,
        **{f"bundle of {h}": keys[h].keys for h in helpers},
        **{f"Z_2{a}": secret for a, secret in enumerate(secrets)},
        **{f"key_2{a}": one.key for a, one in enumerate(masks)},
        **{f"box_2{a}": one.box for a, one in enumerate(masks)},
        "check words": words[0].tobytes(),
        **{name: getattr(sent[2], name) for name in ("key", "tag", "vector", "signature")},
        "submission": binding.text(2, sent[2].key, sent[2].boxes, b"", sent[2].tag),
        "asked": confirmed.boxes,
        "its word": confirmed_text(config.context, 3, confirmed.boxes, b""),
        "its signature": confirmed.signature,
        "question": question,
        "R_0": answer.vector,
        "R_1": said["unmask", 4][1].vector,
        "tag of R_0": answer.tag,
        "its answer": sum_text(config.context, 3, question, answer.tag),
        "signature of R_0": answer.signature,
        "sum of vectors": total.tobytes(),
        "sum": found.vector.tobytes() + words[1].tobytes(),
    }


def test_the_worked_example_of_the_guard_with_helpers():
    section = PAGE.split("### 19.13")[1].split("## Appendix")[0]
    text = section.split("```toml")[1].split("```")[0]
    assert len(Charter.parse(text).encode()) == int(re.search(r"Its encoding has (\d+) bytes", section).group(1))
    squeezed = re.sub(r"\s", "", section)
    for name, value in assisted_example(text).items():
        assert bytes(value).hex() in squeezed, name


def test_the_list_on_the_page_is_one():
    block = FORMATS.split("```\n# name")[1].split("```")[0]
    admission = Admission.parse(f"# name{block}")
    assert [one.public for one in admission.members] == [Identity(bytes([k]) * 32).public for k in (0, 1)]
    assert all(len(base64.b64encode(one.public)) == 44 for one in admission.members)


def test_the_order_of_the_fields_of_a_configuration():
    told = [part.split("`type` is")[0] for part in PAGE.split("in exactly this order:")[1:]]
    configs = [RoundConfig(clients=4, length=2), RoundConfig(clients=4, length=2, guard="active", charter=bytes(32))]
    for part, config in zip(told, configs, strict=True):
        assert re.findall(r"`(\w+)`", part) == list(msgspec.msgpack.decode(config.encode()))


def test_the_order_of_the_keys_of_a_charter():
    table = FORMATS.split("### 5.2")[1].split("### 5.3")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert names == list(Charter.__struct_fields__)
    for part, section in ((Stated, "### 5.4"), (Learning, "### 5.5")):
        text = FORMATS.split(section)[1].lstrip().split("\n\n")[1]
        found = [name for name in re.findall(r"`(\w+)`", text) if name in part.__struct_fields__]
        assert found == list(part.__struct_fields__)


def test_the_keys_of_the_noise_are_listed_in_order():
    found = rows_of(["key of `privacy`", "type", "limits", "meaning"])
    assert [name for name, *_ in found] == list(Mechanism.__struct_fields__)


def test_the_rotation_on_the_page_is_one():
    told = PAGE.split("### 15.2")[1].split("### 15.3")[0]
    before, after = (
        [float(number.replace("−", "-")) for number in found.split(",")]
        for found in re.findall(r"\(([−\d., ]+,[−\d., ]+)\)", told)
    )
    assert np.allclose(rotate(np.array(before), bytes(range(32))), after)


def test_the_worked_example_of_the_curious_guard():
    """Section 12, from the random source on."""
    squeezed = re.sub(r"\s", "", PAGE.split("## 12. Worked example")[1].split("## 13.")[0])
    config = RoundConfig(series_id=bytes(range(32)), clients=4, length=2, bits=8)
    secret = np.arange(1, 17, dtype="<u2").tobytes()
    drawn = iter([secret, bytes(range(0x20, 0x40))])
    reply = Client(config, 3, np.zeros(2, np.uint8), random=lambda count: next(drawn) if count else b"").receive(
        m.AdvertiseRequest(context=config.context, client=3, number=bytes(4)).encode()
    )
    message = m.expect(m.decode(reply, 200), m.AdvertiseReply)
    block = PAGE.split("## 12. Worked example")[1].split("```\n")[1].split("\n\n")[0]
    assert bytes.fromhex("".join(line[:72] for line in block.splitlines())) == config.encode()
    assert (len(config.encode()), len(reply)) == SIZES[2:]
    for value in (
        config.context,
        message.keys[:32],
        message.keys[32:],
        keys.mask_private_key(secret, config.context, 3).private_bytes_raw(),
        keys.commitment(secret, config.context, 3),
        keys.self_mask_key(secret, config.context, 3, "aes128-ctr"),
        keys.vector_tag(b"\x01\x02", config.context, 3),
        signed_texts.among(config.context, 3, m.pack_ids(np.array([0, 1, 3]))),
    ):
        assert value.hex() in squeezed


# Names of checks, and the tables that vectors/checks.py writes


sys.path.append(str(DOCS.parent / "vectors"))

import checks as named  # noqa: E402 - not a package
import probes  # noqa: E402

CHECKS = named.checks()
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in SHORT_LINES}


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page):
    assert [line for line in PAGES[page].splitlines() if len(line) > 120] == []


def test_each_check_has_one_name_and_its_place():
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names) > 290
    places = {}
    for name in names:
        start, number = name.split(".")
        assert int(number) > places.get(start, 0), name
        places[start] = int(number)
    letters = {re.match("[A-Z]+", name).group() for name in names}
    told = [row for row in ROWS[ROWS.index(["letters", "what is checked", "where"]) + 2 :] if len(row) == 3]
    assert letters == set(", ".join(row[0] for row in told[:13]).split(", "))


@pytest.mark.parametrize("page", PAGES)
def test_a_name_that_is_cited_is_that_of_a_check(page):
    names = {check.name for check in CHECKS}
    starts = {name.split(".")[0] for name in names}
    cited = re.findall(r"\b((?:S[AB]|[A-Z])\d+[aoc]*\.\d+)\b", PAGES[page])
    assert len(cited) > 20
    assert {name for name in cited if name.split(".")[0] in starts} <= names
    assert {name.split(".")[0] for name in cited} <= starts


def test_each_check_is_shown_by_a_vector_or_says_why_not():
    shown = set(named.shown(probes.load()))
    assert shown == {check.name for check in CHECKS if check.unshown is None}
    assert {check.name for check in CHECKS if check.unshown} == set(UNSHOWN)


def test_the_tables_of_checks_and_roles_are_those_of_the_vectors():
    assert named.written(PAGE) == PAGE, "run `python vectors/checks.py`"
    section = PAGE.split("## 17.")[1].split("## 18.")[0]
    assert set(re.findall(r"^\| `(\w+)\.json`", section, re.MULTILINE)) == set(probes.load())


def test_a_page_without_a_place_for_a_table_is_noticed():
    with pytest.raises(LookupError, match="checks"):
        named.written(PAGE.replace("<!-- checks -->", ""))
