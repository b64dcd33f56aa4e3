"""The vectors: they are up to date, the package agrees with them, and so does a second implementation."""

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ccesa import labels, words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.graphs.assignment import draw
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from second import (
    KEY_BYTES,
    LABELS,
    agreed,
    bytes_of,
    field_words,
    framed,
    gmac,
    graph_of,
    hashed,
    hkdf,
    keystream,
    le4,
    packed,
    public_of,
    raw,
    rows_at,
    sealed_by_hand,
    value_at,
    words_of,
)
from second_active import bitmap
from vector_files import GRAPHS, VECTORS, cases, config_of, load, part, refused, values_of

X25519 = keys.AGREEMENTS[keys.DEFAULT]
MESSAGES = {kind.__struct_config__.tag: kind for kind in m.MESSAGES}


# The files are what the package gives now.


def run_make(folder, *arguments):
    command = [sys.executable, str(folder / "make.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.needs("ml-kem")
def test_files_are_up_to_date():
    done = run_make(VECTORS, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_names_what_differs_and_writes_nothing(tmp_path):
    """In a copy that makes three files only."""
    ignored = shutil.ignore_patterns("__pycache__", "*.json")
    folder = Path(shutil.copytree(VECTORS, tmp_path / "vectors", ignore=ignored))
    others = re.compile(r'^    "(?!graphs|masks|sharing)\w+\.json": .*\n', re.MULTILINE)
    (folder / "make.py").write_text(others.sub("", (VECTORS / "make.py").read_text()))
    (tmp_path / "tests").symlink_to(VECTORS.parent / "tests")
    shutil.copy(VECTORS / "sharing.json", folder)
    changed, stray = folder / "graphs.json", folder / "stray.json"
    changed.write_text((VECTORS / "graphs.json").read_text() + "\n")
    stray.write_text("{}\n")
    before = changed.read_bytes()
    done = run_make(folder, "--check")
    assert done.returncode == 1, done.stderr
    assert done.stdout.endswith("3 of 3 vector files differ\n")
    named = {line.split(":")[0] for line in done.stdout.splitlines()[:-1]}
    assert named == {"graphs.json", "masks.json", "stray.json"}
    assert changed.read_bytes() == before
    assert not (folder / "masks.json").exists()


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.json")), ids=lambda path: path.name)
def test_files_describe_themselves_and_stay_small(path):
    assert len(json.loads(path.read_text())["description"]) > 60
    assert path.stat().st_size < 300_000


# derivations.json


@cases("derivations", "framing", "name")
def test_framing(case):
    parts = [raw(part) for part in case["parts"]]
    assert labels.frame(*parts) == framed(*parts) == raw(case["frame"])
    assert labels.digest(*parts) == hashlib.sha256(raw(case["frame"])).digest() == raw(case["digest"])


def test_labels():
    assert {name: raw(label) for name, label in load("derivations", "labels").items()} == LABELS
    assert list(labels.ALL) == list(LABELS.values())


def test_different_lists_of_parts_have_different_frames():
    frames = [case["frame"] for case in load("derivations", "framing")]
    assert len(set(frames)) == len(frames)


@cases("derivations", "contexts", "name")
def test_context(case):
    config = config_of(case["fields"])
    assert config.encode() == packed(values_of(case["fields"])) == raw(case["encoded"])
    assert config.context == hashed(raw(case["label"]), config.encode()) == raw(case["context"])


@cases("derivations", "vector_digests", "client")
def test_digest_and_tag_of_a_masked_vector(case):
    vector, context, client = raw(case["vector"]), raw(case["context"]), case["client"]
    assert keys.vector_digest(vector, context, client) == raw(case["digest"])
    assert hashed(LABELS["masked vector"], context, le4(client), vector) == raw(case["digest"])
    assert keys.vector_tag(vector, context, client) == raw(case["tag"])
    assert gmac(hashed(LABELS["masked vector"], context, le4(client))[:16], vector) == raw(case["tag"])


@cases("derivations", "among", "client", "known")
def test_digest_of_what_a_vector_was_masked_among(case):
    context, client, known = raw(case["context"]), case["client"], raw(case["known"])
    assert signed_texts.among(context, client, known) == raw(case["digest"])
    assert hashed(raw(case["label"]), context, le4(client), known) == raw(case["digest"])
    assert known in (b"".join(map(le4, case["members"])), bitmap(case["members"], 20))


def test_rounds_of_one_series_and_equal_numbers_of_two_have_contexts_of_their_own():
    found = [case["context"] for case in load("derivations", "contexts")]
    assert len(set(found)) == len(found)


@cases("derivations", "mask_key_pairs", "client")
def test_mask_key_pair(case):
    secret, context, client = raw(case["secret"]), raw(case["context"]), case["client"]
    private = keys.mask_private_key(secret, context, client)
    assert private.private_bytes_raw() == raw(case["private"])
    assert primitives.public_key(private) == raw(case["public"])
    info = framed(raw(case["label"]), context, le4(client))
    assert hkdf(secret, info, 32) == raw(case["private"])
    assert public_of(raw(case["private"])) == raw(case["public"])


@cases("derivations", "self_mask_keys", "generator", "client")
def test_self_mask_key(case):
    secret, context, client = raw(case["secret"]), raw(case["context"]), case["client"]
    key = raw(case["key"])
    assert keys.self_mask_key(secret, context, client, case["generator"]) == key
    info = framed(raw(case["label"]), context, le4(client))
    assert hkdf(secret, info, KEY_BYTES[case["generator"]]) == key


@cases("derivations", "commitments", "client")
def test_commitment(case):
    secret, context, client = raw(case["secret"]), raw(case["context"]), case["client"]
    commitment = raw(case["commitment"])
    assert keys.commitment(secret, context, client) == commitment
    assert hashed(raw(case["label"]), context, le4(client), secret) == commitment


def agreed_in(case):
    private, public = raw(case["private"]), raw(case["neighbour_public"])
    found = primitives.agree(primitives.private_key(private), primitives.load_public_key(public))
    assert found == agreed(private, public) == raw(case["agreed"])
    return found


def pair_info(case):
    low, high = sorted((case["client"], case["neighbour"]))
    return framed(raw(case["label"]), raw(case["context"]), le4(low), le4(high))


@cases("derivations", "pair_mask_keys", "generator", "client", "neighbour")
def test_pair_mask_key(case):
    client, neighbour, generator = case["client"], case["neighbour"], case["generator"]
    found = keys.pair_mask_key(agreed_in(case), raw(case["context"]), client, neighbour, generator)
    assert found == hkdf(agreed_in(case), pair_info(case), KEY_BYTES[generator]) == raw(case["key"])
    assert keys.pair_sign(client, neighbour) == case["sign"] == (1 if client < neighbour else -1)


def test_both_ends_have_the_same_pair_mask_key():
    found = load("derivations", "pair_mask_keys")
    ends = [case for case in found if {case["client"], case["neighbour"]} == {3, 7}]
    assert len(ends) == 4
    assert len({case["key"] for case in ends}) == 2  # one for each generator


@cases("derivations", "sealing_keys", "client", "neighbour")
def test_sealing_keys(case):
    client, neighbour = case["client"], case["neighbour"]
    both = X25519.sealing(agreed_in(case), raw(case["context"]), client, neighbour)
    assert both == raw(case["outgoing"]) + raw(case["incoming"])
    derived = hkdf(agreed_in(case), pair_info(case), 56)
    upward, downward = derived[:28], derived[28:]
    assert both == (upward + downward if client < neighbour else downward + upward)


@cases("derivations", "bad_public_keys", "reason")
def test_bad_public_key_is_refused(case):
    with refused(case["error"]):
        primitives.check_public_key(raw(case["public"]))


# masks.json


def slice_matches(case, data):
    if "sha256" in case:
        return hashlib.sha256(data).hexdigest() == case["sha256"]
    return data == raw(case["words"])


@cases("masks", "slices", "generator", "bits", "start", "count")
def test_mask_slice(case):
    generator, key, size = case["generator"], raw(case["key"]), case["bits"] // 8
    found = masks.mask_words(generator, key, case["start"], case["count"], case["bits"])
    assert found.dtype == words.dtype(case["bits"])
    assert slice_matches(case, found.tobytes())
    assert slice_matches(case, keystream(generator, key, case["start"] * size, case["count"] * size))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("generator", sorted(KEY_BYTES))
def test_add_masks_applies_the_same_words(generator, threads):
    for case in load("masks", "slices"):
        if case["generator"] == generator and case["start"] == 0:
            vector = words.zeros(case["count"], case["bits"])
            masks.add_masks(vector, [masks.Mask(raw(case["key"]), 1)], generator, threads)
            assert slice_matches(case, vector.tobytes())


# sharing.json


class Tape:
    """The given bytes, once, in order."""

    def __init__(self, data):
        self.left = data

    def __call__(self, count):
        assert count <= len(self.left)
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def elements(*rows):
    return np.array([shamir.from_bytes(raw(row)) for row in rows])


@cases("sharing", "split", "name")
def test_split(case):
    tape = Tape(raw(case["randomness"]))
    shares = shamir.split(elements(case["secret"])[0], case["threshold"], case["holders"], tape)
    assert [shamir.to_bytes(row).hex() for row in shares] == case["shares"]
    assert tape.left == b""


@cases("sharing", "split", "name")
def test_split_in_whole_numbers(case):
    secret, noise = words_of(raw(case["secret"]), 16), field_words(raw(case["randomness"]))
    coefficients = [secret, *(noise[k : k + len(secret)] for k in range(0, len(noise), len(secret)))]
    assert len(coefficients) == case["threshold"]
    for x, share in enumerate(case["shares"], 1):
        assert words_of(raw(share), 16) == [value_at(column, x) for column in zip(*coefficients, strict=True)]


@cases("sharing", "split", "name")
def test_join(case):
    for xs in case["joins"]:
        rows = [case["shares"][x - 1] for x in xs]
        assert shamir.to_bytes(shamir.join(np.array(xs), elements(*rows))).hex() == case["secret"]
        found = rows_at(xs, [words_of(raw(row), 16) for row in rows])
        assert bytes_of(found, 16).hex() == case["secret"]


@cases("sharing", "bad_split", "threshold", "holders")
def test_bad_split_is_refused(case):
    with refused(case["error"]):
        shamir.split(np.zeros(16, np.uint16), case["threshold"], case["holders"], bytes)


@cases("sharing", "bad_join", "reason")
def test_bad_join_does_not_fit_its_commitment(case):
    joined = shamir.to_bytes(shamir.join(np.array(case["xs"]), elements(*case["shares"])))
    assert joined == raw(case["joined"]) != raw(case["secret"])
    for secret, fits in ((joined, False), (raw(case["secret"]), True)):
        found = keys.commitment(secret, raw(case["context"]), case["client"])
        assert (found == raw(case["commitment"])) is fits


@cases("sharing", "correct", "name")
def test_correct(case):
    xs, shares, threshold = np.array(case["xs"]), elements(*case["shares"]), case["threshold"]
    if "error" in case:
        with refused(case["error"]):
            shamir.wrong_places(xs, shares, threshold, os.urandom)
        return
    wrong = shamir.wrong_places(xs, shares, threshold, os.urandom)
    right = np.flatnonzero(~wrong)[:threshold]
    assert shamir.to_bytes(shamir.join(xs[right], shares[right])).hex() == case["secret"]
    assert np.flatnonzero(wrong).tolist() == case["wrong"] == case["changed"]


@cases("sharing", "correct", "name")
def test_correct_by_trying_every_subset(case):
    """The definition: the one sharing that differs from at most floor((r - t) / 2) of r shares, if any."""
    xs, threshold = case["xs"], case["threshold"]
    rows = [words_of(raw(share), 16) for share in case["shares"]]
    budget, found = (len(xs) - threshold) // 2, set()
    for chosen in itertools.combinations(range(len(xs)), threshold):
        base = [xs[k] for k in chosen], [rows[k] for k in chosen]
        rest = [k for k in range(len(xs)) if k not in chosen]
        wrong = [k for k in rest if rows_at(*base, at=xs[k]) != rows[k]]
        if len(wrong) <= budget:
            found.add((bytes_of(rows_at(*base), 16).hex(), tuple(wrong)))
    assert found == (set() if "error" in case else {(case["secret"], tuple(case["wrong"]))})


@cases("sharing", "words", "name")
def test_words_of_the_field(case):
    assert shamir.from_bytes(raw(case["data"])).tolist() == case["elements"]
    assert words_of(raw(case["data"]), 16) == case["elements"]


@cases("sharing", "bad_words", "reason")
def test_bad_words_are_refused(case):
    with refused(case["error"]):
        shamir.from_bytes(raw(case["data"]))


# sealing.json


def incoming(case):
    private = primitives.private_key(raw(case["recipient_private"]))
    found = primitives.agree(private, primitives.load_public_key(raw(case["sender_keys"])[:32]))
    return X25519.sealing(found, raw(case["context"]), case["recipient"], case["sender"])


def unseal(key, case):
    return X25519.unseal(key, b"", raw(case["sealed"]), raw(case["context"]), ends_of(case)).shares


def ends_of(case):
    both = raw(case["sender_keys"]), raw(case["recipient_keys"])
    return keys.Ends(case["sender"], case["recipient"], *both, case["masked"], raw(case["commitment"]))


@cases("sealing", "good", "sender", "recipient")
def test_sealed_shares_open(case):
    assert unseal(incoming(case), case) == raw(case["shares"])


@cases("sealing", "good", "sender", "recipient")
def test_sealing_by_hand(case):
    context, ends = raw(case["context"]), ends_of(case)
    private, public = raw(case["sender_private"]), public_of(raw(case["recipient_private"]))
    text = raw(case["shares"])
    assert sealed_by_hand(private, context, *ends, text) == raw(case["sealed"])
    agreed = primitives.agree(primitives.private_key(private), primitives.load_public_key(public))
    mine = X25519.sealing(agreed, context, ends.sender, ends.recipient)
    given = keys.Encapsulated(b"", b""), keys.Content(text, b"")
    assert X25519.seal(mine, *given, context, ends) == raw(case["sealed"])
    assert (public_of(private), public) == (ends.sender_keys[:32], ends.recipient_keys[:32])


@cases("sealing", "bad", "reason")
def test_bad_sealed_shares_are_refused(case):
    if case["operation"] == "unseal":
        with refused(case["error"]):
            unseal(incoming(case), case)
        return
    shares = unseal(incoming(case), case)
    with refused(case["error"]):
        shamir.from_bytes(shares)


@cases("sealing", "bad_associated", "reason")
def test_associated_data_alone_refuse(case):
    key = bytes(28) + raw(case["key"])
    with refused(case["error"]):
        unseal(key, case)
    good = next(good for good in load("sealing", "good") if good["sealed"] == case["sealed"])
    assert unseal(key, good) == raw(good["shares"])


# graphs.json


@cases("graphs", "graphs", "name")
def test_graph(case):
    graph = draw(part(GRAPHS, case["graph"]), raw(case["seed"]), np.array(case["ids"]))
    nodes = range(len(case["ids"]))
    assert [graph.ids[graph.neighbours(node)].tolist() for node in nodes] == case["neighbours"]
    assert [graph.carries_masks[graph.edges(node)].astype(int).tolist() for node in nodes] == case["masked"]


@cases("graphs", "graphs", "name")
def test_each_neighbourhood_by_itself(case):
    kind, seed, ids = part(GRAPHS, case["graph"]), raw(case["seed"]), np.array(case["ids"])
    found = [ids[kind.neighbours(seed, ids, node)].tolist() for node in range(ids.size)]
    assert found == case["neighbours"]


@cases("graphs", "graphs", "name")
def test_graph_pair_by_pair(case):
    near, masked = graph_of(case["graph"], raw(case["seed"]), case["ids"])
    assert list(near.values()) == case["neighbours"]
    flags = [[int(other in masked[one]) for other in near[one]] for one in case["ids"]]
    assert flags == case["masked"]


# messages.json


def named(case):
    return f"{case['type']} {case['client']} {len(case['encoding']) // 2} bytes"


GOOD_MESSAGES = [one for file in ("messages", "active_messages", "assisted_messages") for one in load(file, "messages")]


def field_values(case):
    """Type, context, client and the fields of this type, as they travel."""
    names = MESSAGES[case["type"]].__struct_fields__
    return {name: case[name] if name == "client" else raw(case[name]) for name in names}


@pytest.mark.parametrize("case", GOOD_MESSAGES, ids=named)
def test_message(case):
    message = MESSAGES[case["type"]](**field_values(case))
    assert message.encode() == raw(case["encoding"])
    assert m.decode(raw(case["encoding"]), case["most"]) == message
    assert packed([case["type"], *field_values(case).values()]) == raw(case["encoding"])


def test_every_message_has_a_vector():
    assert {case["type"] for case in GOOD_MESSAGES} == set(MESSAGES)


def decoding_is_refused(case):
    with refused(case["error"]):
        m.decode(raw(case["encoding"]), case["most"])


@cases("messages", "bad_messages", "reason")
def test_bad_message_is_refused(case):
    decoding_is_refused(case)


@cases("active_messages", "bad_messages", "reason")
def test_bad_message_of_the_active_guard_is_refused(case):
    decoding_is_refused(case)


@cases("messages", "packed_ids", "ids")
def test_packed_ids(case):
    assert m.unpack_ids("ids", raw(case["data"]), case["clients"]).tolist() == case["ids"]
    assert m.pack_ids(np.array(case["ids"], np.int64)) == raw(case["data"])
    assert b"".join(map(le4, case["ids"])) == raw(case["data"])


@cases("messages", "bad_packed_ids", "reason")
def test_bad_packed_ids_are_refused(case):
    with refused(case["error"]):
        m.unpack_ids("ids", raw(case["data"]), case["clients"])


@cases("messages", "configurations", "name")
def test_configuration(case):
    config = config_of(case["fields"])
    assert RoundConfig.decode(raw(case["encoding"])) == config
    assert config.encode() == packed(values_of(case["fields"])) == raw(case["encoding"])


@cases("messages", "bad_configurations", "reason")
def test_bad_configuration_is_refused(case):
    data = raw(case["encoding"]) + bytes(case.get("append_zeros", 0))
    with refused(case["error"]):
        RoundConfig.decode(data)
    if "fields" in case:
        with refused("ConfigError"):
            config_of(case["fields"])
