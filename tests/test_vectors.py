"""The vectors, three ways: they are up to date, the package agrees with them, and so does a second
implementation below that shares nothing with the package but the libraries."""

import hashlib
import hmac
import itertools
import json
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ccesa import errors, labels, ring
from ccesa.config import Complete, ErdosRenyi, Fixed, Harary, Majority, RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.graphs.assignment import draw
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
FIELD = 65521
raw = bytes.fromhex

ERRORS = {
    **{name: value for name, value in vars(errors).items() if isinstance(value, type)},
    "LowOrderKey": primitives.LowOrderKey,
    "SealBroken": primitives.SealBroken,
    "TooManyWrong": shamir.TooManyWrong,
    "ValueError": ValueError,
}
GRAPHS = {"erdos-renyi": ErdosRenyi, "harary": Harary, "complete": Complete}
THRESHOLDS = {"majority": Majority, "fixed": Fixed}
MESSAGES = {kind.__struct_config__.tag: kind for kind in m.MESSAGES}


def load(file, key):
    return json.loads((VECTORS / f"{file}.json").read_text())[key]


def cases(file, key, *named_by):
    """Parametrize over the cases of one list, each under its name."""
    found = load(file, key)
    names = [" ".join(str(case[name]) for name in named_by) for case in found]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", found, ids=names)


@contextmanager
def refused(error):
    """The named class itself, not a subclass: a vector says exactly what happens."""
    with pytest.raises(ERRORS[error]) as caught:
        yield caught
    assert caught.type is ERRORS[error]


# The files are what the package gives now.


def run_make(folder, *arguments):
    command = [sys.executable, str(folder / "make.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_are_up_to_date():
    done = run_make(VECTORS, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_names_what_differs_and_writes_nothing(tmp_path):
    folder = Path(
        shutil.copytree(VECTORS, tmp_path / "vectors", ignore=shutil.ignore_patterns("__pycache__"))
    )
    changed, stray = folder / "graphs.json", folder / "stray.json"
    changed.write_text(changed.read_text() + "\n")
    stray.write_text("{}\n")
    (folder / "masks.json").unlink()
    before = changed.read_bytes()
    done = run_make(folder, "--check")
    assert done.returncode == 1
    named = {line.split(":")[0] for line in done.stdout.splitlines()[:-1]}
    assert named == {"graphs.json", "masks.json", "stray.json"}
    assert changed.read_bytes() == before
    assert not (folder / "masks.json").exists()


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.json")), ids=lambda path: path.name)
def test_files_describe_themselves_and_stay_small(path):
    assert len(json.loads(path.read_text())["description"]) > 60
    assert path.stat().st_size < 200_000


# A second implementation: standard library, and pyca for X25519, AES and ChaCha20.


LABELS = {
    "context": b"ccesa/1/0 context",
    "roster": b"ccesa/1/1 roster",
    "graph seed": b"ccesa/1/2 graph seed",
    "mask key pair": b"ccesa/1/3 mask key pair",
    "sealing": b"ccesa/1/4 sealing",
    "pair mask": b"ccesa/1/5 pair mask",
    "self mask": b"ccesa/1/6 self mask",
    "commitment": b"ccesa/1/7 commitment",
    "sealed shares": b"ccesa/1/8 sealed shares",
}


def le4(number):
    return number.to_bytes(4, "little")


def framed(*parts):
    return b"".join(le4(len(part)) + part for part in parts)


def hashed(*parts):
    return hashlib.sha256(framed(*parts)).digest()


def hkdf(secret, info, length):
    """RFC 5869 with SHA-256 and no salt."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    block = output = b""
    for k in range(1, -(-length // 32) + 1):
        block = hmac.digest(extracted, block + info + bytes([k]), "sha256")
        output += block
    return output[:length]


def public_of(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private, public):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


KEY_BYTES = {"aes128-ctr": 16, "chacha20": 32}


def keystream(generator, key, first, count):
    """Bytes [first, first + count) of a keystream."""
    size = {"aes128-ctr": 16, "chacha20": 64}[generator]
    block, skipped = divmod(first, size)
    if generator == "aes128-ctr":
        cipher = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big")))
    else:
        cipher = Cipher(algorithms.ChaCha20(key, le4(block) + bytes(12)), None)
    return cipher.encryptor().update(bytes(skipped + count))[skipped:]


def words_of(data, bits):
    size = bits // 8
    return [int.from_bytes(data[k : k + size], "little") for k in range(0, len(data), size)]


def bytes_of(words, bits):
    return b"".join(word.to_bytes(bits // 8, "little") for word in words)


def field_words(data):
    return [word for word in words_of(data, 16) if word < FIELD]


def value_at(polynomial, x):
    return sum(c * pow(x, k, FIELD) for k, c in enumerate(polynomial)) % FIELD


def lagrange(xs, ys, at=0):
    total = 0
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        above = below = 1
        for other in xs[:i] + xs[i + 1 :]:
            above = above * (at - other) % FIELD
            below = below * (x - other) % FIELD
        total += y * above * pow(below, -1, FIELD)
    return total % FIELD


def rows_at(xs, rows, at=0):
    return [lagrange(xs, list(column), at) for column in zip(*rows, strict=True)]


def draw_of(key, one, other):
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a function of one block
    return int.from_bytes(cipher.update(struct.pack("<QQ", one, other))[:8], "little")


def graph_of(kind, seed, ids):
    """Neighbours of each id, and those among them with whom it has masks."""
    around = sorted(range(len(ids)), key=lambda node: (draw_of(seed[16:], node, node), node))
    place = {ids[node]: position for position, node in enumerate(around)}

    def apart(one, other):
        distance = abs(place[one] - place[other])
        return min(distance, len(ids) - distance)

    def drawn(one, other, p):
        return draw_of(seed[:16], min(one, other), max(one, other)) < int(Fraction(p) * 2**64)

    def shares(one, other):
        if kind["type"] == "erdos-renyi":
            return drawn(one, other, kind["p"])
        return kind["type"] == "complete" or apart(one, other) <= kind["degree"] // 2

    def masked(one, other):
        if kind.get("mask_p") is not None:
            return drawn(one, other, kind["mask_p"])
        return kind.get("mask_degree") is None or apart(one, other) <= kind["mask_degree"] // 2

    near = {one: [other for other in ids if other != one and shares(one, other)] for one in ids}
    return near, {one: [other for other in near[one] if masked(one, other)] for one in ids}


def packed(value):
    """msgpack in its shortest form."""
    if isinstance(value, dict):
        body = b"".join(packed(key) + packed(item) for key, item in value.items())
        return bytes([0x80 | len(value)]) + body
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    if isinstance(value, str):
        return bytes([0xA0 | len(value)]) + value.encode()
    if isinstance(value, bytes):
        return headed(len(value), 0xC4, 8) + value
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if value is None:
        return b"\xc0"
    return bytes([value]) if value < 128 else headed(value, 0xCC, 8)


def headed(number, opcode, bits):
    """The first of the three or four widths that is wide enough."""
    while number >= 1 << bits:
        opcode, bits = opcode + 1, 2 * bits
    return bytes([opcode]) + number.to_bytes(bits // 8, "big")


# Configurations as they stand in the JSON.


def values_of(fields):
    return {**fields, "round_id": raw(fields["round_id"]), "task": raw(fields["task"])}


def part(table, values):
    values = dict(values)
    return table[values.pop("type")](**values)


def config_of(fields):
    values = values_of(fields)
    assert values.pop("type") == "round"
    graph, threshold = part(GRAPHS, values.pop("graph")), part(THRESHOLDS, values.pop("threshold"))
    return RoundConfig(**values, graph=graph, threshold=threshold)


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
    both = keys.sealing(agreed_in(case), raw(case["context"]), client, neighbour)
    assert both == (raw(case["outgoing"]), raw(case["incoming"]))
    derived = hkdf(agreed_in(case), pair_info(case), 56)
    upward, downward = derived[:28], derived[28:]
    assert both == ((upward, downward) if client < neighbour else (downward, upward))


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
    words = masks.mask_words(generator, key, case["start"], case["count"], case["bits"])
    assert words.dtype == ring.dtype(case["bits"])
    assert slice_matches(case, words.tobytes())
    assert slice_matches(case, keystream(generator, key, case["start"] * size, case["count"] * size))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("generator", sorted(KEY_BYTES))
def test_add_masks_applies_the_same_words(generator, threads):
    for case in load("masks", "slices"):
        if case["generator"] == generator and case["start"] == 0:
            vector = ring.zeros(case["count"], case["bits"])
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
    given = np.array(case["xs"]), elements(*case["shares"]), case["threshold"]
    if "error" in case:
        with refused(case["error"]):
            shamir.correct(*given)
        return
    secret, wrong = shamir.correct(*given)
    assert shamir.to_bytes(secret).hex() == case["secret"]
    assert wrong.tolist() == case["wrong"] == case["changed"]


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
    found = primitives.agree(private, primitives.load_public_key(raw(case["sender_public"])))
    return keys.sealing(found, raw(case["context"]), case["recipient"], case["sender"])


def unseal(key, case):
    ids = case["sender"], case["recipient"]
    return keys.unseal_shares(key, raw(case["sealed"]), raw(case["context"]), *ids)


def one_time_key(private, public, context, sender, recipient):
    """Key and nonce for the text from sender to recipient."""
    info = framed(LABELS["sealing"], context, le4(min(sender, recipient)), le4(max(sender, recipient)))
    both = hkdf(agreed(private, public), info, 56)
    return both[:28] if sender < recipient else both[28:]


def sealed_by_hand(private, public, context, sender, recipient, text):
    key = one_time_key(private, public, context, sender, recipient)
    associated = framed(LABELS["sealed shares"], context, le4(sender), le4(recipient))
    return AESGCM(key[:16]).encrypt(key[16:], text, associated)


@cases("sealing", "good", "sender", "recipient")
def test_sealed_shares_open(case):
    assert unseal(incoming(case), case) == raw(case["shares"])


@cases("sealing", "good", "sender", "recipient")
def test_sealing_by_hand(case):
    context, ids = raw(case["context"]), (case["sender"], case["recipient"])
    private, public = raw(case["sender_private"]), public_of(raw(case["recipient_private"]))
    text = raw(case["shares"])
    assert sealed_by_hand(private, public, context, *ids, text) == raw(case["sealed"])
    mine = keys.sealing(
        primitives.agree(primitives.private_key(private), primitives.load_public_key(public)), context, *ids
    )
    assert keys.seal_shares(mine, text, context, *ids) == raw(case["sealed"])
    assert public_of(private) == raw(case["sender_public"])


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
    key = keys.Sealing(outgoing=bytes(28), incoming=raw(case["key"]))
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
    assert [graph.masked[graph.edges(node)].astype(int).tolist() for node in nodes] == case["masked"]


@cases("graphs", "graphs", "name")
def test_graph_pair_by_pair(case):
    near, masked = graph_of(case["graph"], raw(case["seed"]), case["ids"])
    assert list(near.values()) == case["neighbours"]
    flags = [[int(other in masked[one]) for other in near[one]] for one in case["ids"]]
    assert flags == case["masked"]


# messages.json


def named(case):
    return f"{case['type']} {case['client']} {len(case['encoding']) // 2} bytes"


GOOD_MESSAGES = load("messages", "messages")


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


@cases("messages", "bad_messages", "reason")
def test_bad_message_is_refused(case):
    with refused(case["error"]):
        m.decode(raw(case["encoding"]), case["most"])


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


# round.json: replayed by the package


class Stream:
    """SHA-256(seed || k) for k = 0, 1, …, as the file describes it."""

    def __init__(self, seed):
        counters = (k.to_bytes(8, "little") for k in range(1000))
        self.left = b"".join(hashlib.sha256(seed + counter).digest() for counter in counters)

    def __call__(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def words(self, count):
        found = []
        while len(found) < count:
            found += field_words(self(2))
        return found


def fresh_clients(case):
    config = RoundConfig.decode(raw(case["config"]))
    return {
        entry["client"]: Client(
            config,
            entry["client"],
            np.frombuffer(raw(entry["vector"]), ring.dtype(config.bits)),
            random=Stream(raw(entry["seed"])),
        )
        for entry in case["clients"]
    }


def replies_of(step):
    return [exchange for exchange in step["exchanges"] if exchange["reply"] is not None]


def gone_in(case, step):
    return {drop["client"] for drop in case["drops"] if drop["step"] == step["step"]}


@cases("round", "rounds", "name")
def test_clients_give_the_same_replies(case):
    clients = fresh_clients(case)
    assert config_of(case["fields"]).encode() == raw(case["config"])
    for step in case["steps"]:
        silent = {exchange["client"] for exchange in step["exchanges"] if exchange["reply"] is None}
        assert silent == gone_in(case, step)
        for exchange in replies_of(step):
            reply = clients[exchange["client"]].receive(raw(exchange["request"]))
            assert reply.hex() == exchange["reply"]


@cases("round", "rounds", "name")
def test_server_gives_the_same_requests_and_result(case):
    server = Server(RoundConfig.decode(raw(case["config"])))
    requests = server.open()
    for step in case["steps"]:
        assert server.step.name == step["step"]
        assert [(client, request.hex()) for client, request in requests.items()] == [
            (exchange["client"], exchange["request"]) for exchange in step["exchanges"]
        ]
        for exchange in replies_of(step):
            server.receive(exchange["client"], raw(exchange.get("delivered", exchange["reply"])))
        last = step is case["steps"][-1]
        if last and "failure" in case["outcome"]:
            check_failure(case["outcome"], server)
            return
        requests = server.close()
    aggregate, outcome = server.result(), case["outcome"]
    assert requests == {}
    assert aggregate.vector.tobytes() == raw(outcome["sum"])
    assert list(aggregate.survivors) == outcome["survivors"]
    assert sorted(aggregate.culprits) == outcome["culprits"]


def check_failure(outcome, server):
    assert server.step.name == outcome["step"]
    with refused(outcome["failure"]) as caught:
        server.close()
    for name in ("clients", "component", "dealer"):
        found = getattr(caught.value, name, None)
        assert (list(found) if isinstance(found, tuple) else found) == outcome.get(name)


def test_every_failure_and_every_step_has_a_round():
    found = load("round", "rounds")
    failures = {case["outcome"].get("failure") for case in found}
    assert failures == {None, "TooFewClients", "Unreliable", "Disconnected", "CorruptShares"}
    first = found[0]
    assert "sum" in first["outcome"]
    assert {drop["step"] for drop in first["drops"]} == {"advertise", "share", "mask", "unmask"}


# round.json: once more, from the seeds alone


class Party:
    """A client's secrets in the order in which it draws them."""

    def __init__(self, case, entry):
        self.id, self.context, self.fields = entry["client"], raw(case["context"]), case["fields"]
        self.vector, self.random = raw(entry["vector"]), Stream(raw(entry["seed"]))
        self.mask_secret = self.random.words(16)
        self.sealing_private = self.random(32)
        info = framed(LABELS["mask key pair"], self.context, le4(self.id))
        self.mask_private = hkdf(bytes_of(self.mask_secret, 16), info, 32)
        self.keys = public_of(self.sealing_private), public_of(self.mask_private)

    def deal(self, near):
        self.circle = sorted([*near, self.id])
        rule = self.fields["threshold"]
        threshold = rule["t"] if rule["type"] == "fixed" else len(self.circle) // 2 + 1
        self.self_secret = self.random.words(16)
        noise = [self.random.words(32) for _ in range(threshold - 1)]
        self.columns = list(zip(self.self_secret + self.mask_secret, *noise, strict=True))

    def share_for(self, holder):
        """The share of b_i, then the share of s_i."""
        x = 1 + self.circle.index(holder)
        return bytes_of([value_at(column, x) for column in self.columns], 16)

    def mask(self, key):
        return words_of(keystream(self.fields["generator"], key, 0, len(self.vector)), self.fields["bits"])

    def derived(self, secret, label, *ids):
        info = framed(label, self.context, *map(le4, ids))
        return self.mask(hkdf(secret, info, KEY_BYTES[self.fields["generator"]]))

    def masked_vector(self, partners):
        """``partners``: live mask neighbours."""
        bits = self.fields["bits"]
        terms = [words_of(self.vector, bits)]
        terms.append(self.derived(bytes_of(self.self_secret, 16), LABELS["self mask"], self.id))
        for other in partners:
            pair = sorted((self.id, other.id))
            words = self.derived(agreed(self.mask_private, other.keys[1]), LABELS["pair mask"], *pair)
            terms.append(words if self.id < other.id else [-word for word in words])
        return bytes_of([sum(column) % 2**bits for column in zip(*terms, strict=True)], bits)


class Reference:
    """All messages of a round, from who replied in which step. No pruning: these rounds need none."""

    def __init__(self, case):
        self.context = raw(case["context"])
        self.parties = {entry["client"]: Party(case, entry) for entry in case["clients"]}
        self.sets = [[e["client"] for e in replies_of(step)] for step in case["steps"]]
        ids = self.sets[0]
        roster = b"".join(le4(i) + b"".join(self.parties[i].keys) for i in ids)
        root = hashed(LABELS["roster"], self.context, roster)
        seed = hashed(LABELS["graph seed"], self.context, root)
        self.near, self.mask_near = graph_of(case["fields"]["graph"], seed, ids)
        for i in self.sets[1] if len(self.sets) > 1 else ():
            self.parties[i].deal(self.near[i])

    def message(self, type, client, *fields):
        return packed([type, self.context, client, *fields])

    def sealed(self, sender, recipient):
        one, other = self.parties[sender], self.parties[recipient]
        text = one.share_for(recipient)
        return sealed_by_hand(one.sealing_private, other.keys[0], self.context, sender, recipient, text)

    def advertise(self, i):
        return self.message("advertise-request", i), self.message("advertise-reply", i, *self.parties[i].keys)

    def share(self, i):
        near, party = self.near[i], self.parties[i]
        public = b"".join(b"".join(self.parties[j].keys) for j in near)
        flags = bytes(j in self.mask_near[i] for j in near)
        request = self.message("share-request", i, b"".join(map(le4, near)), public, flags)
        if i not in self.sets[1]:
            return request, None
        secret = bytes_of(party.self_secret, 16)
        commitment = hashed(LABELS["commitment"], self.context, le4(i), secret)
        sealed = b"".join(self.sealed(i, j) for j in near)
        return request, self.message("share-reply", i, commitment, sealed)

    def mask(self, i):
        v2 = self.sets[1]
        dropped = b"".join(le4(j) for j in self.near[i] if j not in v2)
        sealed = b"".join(self.sealed(j, i) for j in self.near[i] if j in v2)
        partners = [self.parties[j] for j in self.mask_near[i] if j in v2]
        vector = self.parties[i].masked_vector(partners)
        return self.message("mask-request", i, dropped, sealed), self.message("mask-reply", i, vector)

    def unmask(self, i):
        v2, v3 = self.sets[1], self.sets[2]
        live = [j for j in sorted([*self.near[i], i]) if j in v2]
        dropped = b"".join(le4(j) for j in live if j not in v3)
        shares = [self.parties[j].share_for(i) for j in live]
        released = [share[:32] if j in v3 else share[32:] for j, share in zip(live, shares, strict=True)]
        return self.message("unmask-request", i, dropped), self.message("unmask-reply", i, b"".join(released))


@cases("round", "rounds", "name")
def test_every_message_follows_from_the_seeds(case):
    reference = Reference(case)
    for step in case["steps"]:
        for exchange in step["exchanges"]:
            request, reply = getattr(reference, step["step"])(exchange["client"])
            assert request.hex() == exchange["request"]
            assert exchange["reply"] in (None, reply and reply.hex())


@cases("round", "rounds", "name")
def test_sum_is_the_plain_sum_of_the_survivors(case):
    if "failure" in case["outcome"]:
        assert "sum" not in case["outcome"]
        return
    bits = case["fields"]["bits"]
    survivors = [exchange["client"] for exchange in replies_of(case["steps"][2])]
    vectors = [words_of(raw(case["clients"][i]["vector"]), bits) for i in survivors]
    assert case["outcome"]["survivors"] == survivors
    assert bytes_of([sum(column) % 2**bits for column in zip(*vectors, strict=True)], bits) == raw(
        case["outcome"]["sum"]
    )
