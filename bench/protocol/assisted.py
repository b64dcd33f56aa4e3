"""Rounds with helpers beside their floors: a member, a helper and the hub, and a helper of a crowd.

Each party is timed in turn with what the kernel and the library alone need for the same keystreams, agreements,
verifications, tags and additions, so that a noisy moment meets both. Processor time, one thread.
"""

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from operator import truediv
from statistics import median
from typing import Any, TypeVar

import numpy as np

from bench.crypto.kernels import bare
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import check_words, primitives
from ccesa.crypto.kernels import kernel
from ccesa.crypto.keys import AGREEMENTS, vector_tag
from ccesa.crypto.masks import Mask
from ccesa.guards import GUARDS
from ccesa.helper_keys import HelperKey, ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.round import HELD_BYTES
from ccesa.protocol.server import Server
from ccesa.protocol.steps import steps_under
from ccesa.protocol.submission import Binding, Record, keyring_of
from ccesa.simulate import federate
from ccesa.simulate.enrolment import Enrolment, new_client, new_helper, new_server

T = TypeVar("T")
Work = Callable[[], object]
HELPERS, CLIENTS, LENGTH, SHORT, CROWD = 3, 1000, 1_000_000, 1000, 100_000
#: Members that are timed, and how often a helper is, of a round and of a crowd.
MEMBERS, TIMES, CROWD_TIMES = 100, 5, 3
#: Tags and additions in one sample of the hub's floor.
ROW = 16
GENERATOR = "aes128-ctr"


def compare() -> dict[str, Any]:
    """Measure all parties of a round of 1,000, and a helper of a round of 100,000."""
    return {
        "helpers": HELPERS,
        "clients": CLIENTS,
        "crowd_clients": CROWD,
        "kernel": kernel().name,
        "member": {str(length): _member(length) for length in (LENGTH, SHORT)},
        **_round(),
        "crowd": _crowd(),
        "bytes": {name: _beside_the_vector(name) for name in AGREEMENTS},
        "exchanges": {name: _exchanges(name) for name in GUARDS},
    }


# A member


def _member(length: int) -> dict[str, float]:
    """Time members of one round, each in turn with its keystreams by the kernel and with all of its floor."""
    federation = federate(MEMBERS, helpers=HELPERS)
    config = federation.charter.config(length=length)
    vector = _vector(length)
    members = [new_client(config, i, vector, federation, threads=1) for i in range(MEMBERS)]
    requests = _until_mask(new_server(config, federation), _helpers(config, federation))
    works = _member_floor(config)
    spent: dict[str, list[float]] = {name: [] for name in ("member", *works)}
    for i, member in enumerate(members):
        check_words._weights.cache_clear()  # each member makes those of its round
        spent["member"].append(_timed(partial(member.receive, requests[i]))[0])
        for name, work in works.items():
            spent[name].append(_timed(work)[0])
    over = {
        f"over_{name}": median(map(truediv, spent["member"], each)) for name, each in spent.items() if name != "member"
    }
    return {f"{name}_ms": median(each) for name, each in spent.items()} | over


def _member_floor(config: RoundConfig) -> dict[str, Work]:
    """Return a member's keystreams alone, by the kernel and as bare instructions, and all calls of its floor."""
    target, every = words.zeros(config.masked_length, config.bits), _masks(HELPERS)
    others = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(HELPERS)]
    signing = primitives.signing_key(os.urandom(32))
    public, text = primitives.public_key(signing), bytes(96)
    signature = signing.sign(text)

    def keystreams() -> None:
        kernel().add(target, target, 0, every, GENERATOR)

    def library() -> None:
        private = primitives.private_key(os.urandom(32))
        primitives.public_key(private)
        for agreed in primitives.agree_each(private, others):
            primitives.derive(agreed, text, 32)
            primitives.verify(public, signature, text)
        keystreams()
        vector_tag(target.data, bytes(32), 0)
        signing.sign(text)

    instructions = bare(GENERATOR, HELPERS * config.masked_bytes)
    works: dict[str, Work] = {"keystreams": keystreams, "library": library}
    return works | ({"instructions": instructions} if instructions else {})


# A whole round: the hub, and then a helper with the question that it was asked


def _round() -> dict[str, Any]:
    """Play a round of 1,000 with a million words; time its hub, and one of its helpers a few times."""
    federation = federate(CLIENTS, helpers=HELPERS, attempts=1)
    config = federation.charter.config(length=LENGTH)
    server, helpers = new_server(config, federation, threads=1), _helpers(config, federation)
    keys = helpers[CLIENTS][1]
    hub, questions = _hub(server, {helper: one for helper, (one, _) in helpers.items()}, federation, keys)
    return {"hub": hub, "helper": _helper(config, federation, *questions)}


def _hub(
    server: Server, helpers: dict[int, Helper], federation: Enrolment, keys: ProcessKeys
) -> tuple[dict[str, float], tuple[bytes, HelperKey]]:
    """Time the hub of a round, in turn with tags and additions; return the question to the first helper, too."""
    config, vector = server.config, _vector(LENGTH)
    requests = _until_mask(server, {helper: (one, keys) for helper, one in helpers.items()})
    spent, floor, sample = 0.0, [], _hub_floor(vector)
    held = max(1, HELD_BYTES // config.masked_bytes)
    for first in range(0, CLIENTS, held):
        batch = range(first, min(first + held, CLIENTS))
        replies = {i: _member_reply(config, i, vector, federation, requests[i]) for i in batch}
        for i, reply in replies.items():
            spent += _timed(partial(server.receive, i, reply))[0]
        ms, asked = _timed(lambda: dict(server.ask_helpers()))
        spent += ms
        for helper, request in asked.items():
            spent += _timed(partial(server.receive, helper, helpers[helper].receive(request)))[0]
        floor.append(_timed(sample)[0] / ROW)
    ms, questions = _timed(lambda: dict(server.close()))
    spent += ms
    key = keys.get(config.context)
    for helper, question in questions.items():
        spent += _timed(partial(server.receive, helper, helpers[helper].receive(question)))[0]
    ms, _ = _timed(server.close)
    if key is None or len(server.result().survivors) != CLIENTS:
        raise RuntimeError("a round in which somebody was left out")
    return {"hub_ms": spent + ms, "floor_ms": CLIENTS * median(floor)}, (questions[CLIENTS], key)


def _hub_floor(vector: np.ndarray) -> Work:
    """Return a row of tags and additions of vectors that lie in memory, as replies do."""
    total, vectors = vector.copy(), [vector.copy() for _ in range(ROW)]

    def work() -> None:
        for one in vectors:
            vector_tag(one.data, bytes(32), 0)
            np.add(total, one, out=total)

    return work


def _member_reply(config: RoundConfig, i: int, vector: np.ndarray, federation: Enrolment, request: bytes) -> bytes:
    member: Client = new_client(config, i, vector, federation, threads=1)
    return member.receive(request)


def _helper(config: RoundConfig, federation: Enrolment, question: bytes, key: HelperKey) -> dict[str, float]:
    """Time a helper that was asked nothing before, in turn with its keystreams, agreements and verifications."""
    total, every = words.zeros(config.masked_length, config.bits), _masks(config.clients)
    others, verify = _peers(config.clients), _verification()

    def library() -> None:
        kernel().add(total, total, 0, every, GENERATOR)
        primitives.agree_each(others[0], others[1])
        for _ in range(config.clients):
            verify()

    spent = _in_turn(config, federation, question, key, library, TIMES)
    return spent | {"memory_vectors": _memory(config, federation, question, key) / config.masked_bytes}


def _memory(config: RoundConfig, federation: Enrolment, question: bytes, key: HelperKey) -> float:
    """Return the most bytes that a helper has at a time while it answers, without the question itself."""
    tracemalloc.start()
    _new_helper(config, federation, key).receive(question)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def _in_turn(
    config: RoundConfig, federation: Enrolment, question: bytes, key: HelperKey, library: Work, times: int
) -> dict[str, float]:
    spent: list[tuple[float, float]] = []
    for _ in range(times):
        helper = _new_helper(config, federation, key)
        spent.append((_timed(partial(helper.receive, question))[0], _timed(library)[0]))
    ours, floor = (median(each) for each in zip(*spent, strict=True))
    return {"helper_ms": ours, "floor_ms": floor, "ratio": median(one / other for one, other in spent)}


def _new_helper(config: RoundConfig, federation: Enrolment, key: HelperKey) -> Helper:
    """Make the first helper, as after a restart, with its key and nothing answered."""
    keys = ProcessKeys()
    keys.put(config.context, key)
    return new_helper(config, 0, federation, memory=ProcessMemory(), keys=keys, threads=1)


# A crowd


def _crowd() -> dict[str, float]:
    """Time a helper of 100,000 members with short vectors, in turn with its agreements and verifications."""
    federation = federate(CROWD, helpers=HELPERS)
    config = federation.charter.config(length=SHORT)
    key = HelperKey(not_after=int(time.time()) + 86400, secret=os.urandom(32))
    question = _question(config, federation, key)
    others, verify = _peers(CROWD), _verification()

    def library() -> None:
        primitives.agree_each(others[0], others[1])
        for _ in range(CROWD):
            verify()

    return _in_turn(config, federation, question, key, library, CROWD_TIMES)


def _question(config: RoundConfig, federation: Enrolment, key: HelperKey) -> bytes:
    """Make the question about all members, whose boxes for other helpers nobody opens."""
    shown = primitives.public_key(primitives.private_key(key.secret))
    keyring = keyring_of(config.context, [shown])
    binding = Binding(config=config, context=config.context, task=m.NO_TASK, keyring=keyring)
    return m.UnmaskSumRequest(
        context=config.context,
        client=config.clients,
        number=bytes(m.NUMBER_BYTES),
        task=m.NO_TASK,
        keyring=keyring,
        members=m.pack_ids(np.arange(config.clients)),
        records=b"".join(_records(config, federation, binding, shown)),
        ciphertexts=b"",
    ).encode()


def _records(config: RoundConfig, federation: Enrolment, binding: Binding, shown: bytes) -> Iterator[bytes]:
    for i, identity in enumerate(federation.identities):
        private = primitives.private_key(os.urandom(32))
        public = primitives.public_key(private)
        (agreed,) = primitives.agree_each(private, [shown])
        box = binding.mask_key(agreed, i, 0, public, b"").box
        said = {"key": public, "boxes": box.ljust(HELPERS * len(box), b"\0"), "digests": b"", "tag": bytes(16)}
        text = binding.text(i, said["key"], said["boxes"], said["digests"], said["tag"])
        yield Record(**said, signature=identity.sign(text)).pack()


# Sizes


def _beside_the_vector(agreement: str) -> dict[str, int]:
    """Return what a member sends and receives beside the words of its vector."""
    federation = federate(4, helpers=HELPERS, agreement=agreement)
    config = federation.charter.config(length=LENGTH)
    requests = _until_mask(new_server(config, federation), _helpers(config, federation))
    reply = _member_reply(config, 0, _vector(LENGTH), federation, requests[0])
    return {"sent": len(reply) - config.vector_bytes, "received": len(requests[0])}


def _exchanges(guard: str) -> int:
    """Return how often a member is asked in a round."""
    return sum(not step.by_helpers for step in steps_under(guard))


# The page


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Return the time of each party over its floor."""
    large, small = (found["member"][str(length)] for length in (LENGTH, SHORT))
    hub = found["hub"]
    return {
        "keystream": large.get("over_instructions", large["over_keystreams"]),
        "member": large["over_library"],
        "short": small["over_library"],
        "helper": found["helper"]["ratio"],
        "hub": hub["hub_ms"] / hub["floor_ms"],
        "crowd": found["crowd"]["ratio"],
    }


def targets(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return the rows of the table of targets."""
    ratio, sent = ratios(found), {name: one["sent"] for name, one in found["bytes"].items()}
    return [
        ("member with 3 helpers, a million words: times the bare instructions for its keystream",
         ratio["keystream"], 1.3, True),
        ("the same with 1,000 words: times the library's calls", ratio["short"], 1.6, True),
        ("helper, n = 1,000, a million words: times its floor", ratio["helper"], 1.25, True),
        ("the same: memory, in vectors", found["helper"]["memory_vectors"], 2.0, True),
        ("hub of that round: times its tags and additions", ratio["hub"], 2.0, True),
        ("helper, n = 100,000, 1,000 words: times its agreements and verifications", ratio["crowd"], 1.4, True),
        ("member with 3 helpers: bytes sent beside the vector", sent["x25519"], 300, True),
        ("the same under the hybrid agreement", sent["x25519-mlkem768"], 3700, True),
        ("exchanges of a member with helpers", found["exchanges"]["assisted"], 1, True),
    ]  # fmt: skip


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    ratio, (large, small) = ratios(found), (found["member"][str(length)] for length in (LENGTH, SHORT))
    helper, hub, crowd = (found[name] for name in ("helper", "hub", "crowd"))
    calls = "agreements, verifications, derivations, signature, tag and keystreams"
    asked = ", ".join(f"`{name}` {count}" for name, count in found["exchanges"].items())
    rows = (
        ("member, a million words", large["member_ms"], calls, large["library_ms"], ratio["member"]),
        ("member, 1,000 words", small["member_ms"], calls, small["library_ms"], ratio["short"]),
        (
            f"helper, {found['clients']:,} members, a million words",
            helper["helper_ms"],
            "keystreams, agreements, verifications",
            helper["floor_ms"],
            ratio["helper"],
        ),
        ("hub of that round", hub["hub_ms"], "a tag and an addition for each vector", hub["floor_ms"], ratio["hub"]),
        (
            f"helper, {found['crowd_clients']:,} members, 1,000 words",
            crowd["helper_ms"],
            "agreements, verifications",
            crowd["floor_ms"],
            ratio["crowd"],
        ),
    )
    table = [f"| {who} | {ms:,.2f} | {what} | {floor:,.2f} | {over:.2f} |" for who, ms, what, floor, over in rows]
    sent = [f"| `{name}` | {one['sent']:,} | {one['received']:,} |" for name, one in found["bytes"].items()]
    return (
        f"{found['helpers']} helpers, words of 32 bits, one thread, processor time, kernel {found['kernel']} "
        "(`bench/protocol/assisted.py`). Each party is measured in turn with its floor: what the kernel and the "
        "library need for the same keystreams and calls. Times are medians.\n\n"
        "| | ms | floor | floor, ms | ratio |\n|---|---:|---|---:|---:|\n" + "\n".join(table) + "\n\n"
        f"The {found['helpers']} keystreams of a member with a million words take {large['keystreams_ms']:.2f} ms with "
        f"this kernel, so the whole member takes {ratio['keystream']:.1f} times the bare instructions for them. The "
        "rest is the tag, the check words, one write of four million bytes, and three agreements with three "
        "verifications. Each of these four takes as long as one to three keystreams. "
        f"A helper has at most {helper['memory_vectors']:.1f} vectors in memory while it answers, and the hub adds no "
        "keystream.\n\n"
        "| agreement | sent beside the vector, bytes | received, bytes |\n|---|---:|---:|\n" + "\n".join(sent) + "\n\n"
        f"Exchanges of a member in one round: {asked}."
    )


# Shared


def _vector(length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2**32, size=length, dtype=np.uint32)


def _masks(count: int) -> list[Mask]:
    return [Mask(os.urandom(16), 1) for _ in range(count)]


def _peers(count: int) -> tuple[primitives.PrivateKey, list[bytes]]:
    """Return a private key, and as many public ones of others."""
    public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(count)]
    return primitives.private_key(os.urandom(32)), public


def _verification() -> Work:
    signing, text = primitives.signing_key(os.urandom(32)), bytes(32)
    return partial(primitives.verifier(), primitives.public_key(signing), signing.sign(text), text)


def _helpers(config: RoundConfig, federation: Enrolment) -> dict[int, tuple[Helper, ProcessKeys]]:
    made = {}
    for place, helper in enumerate(config.helper_ids):
        keys = ProcessKeys()
        made[helper] = new_helper(config, place, federation, memory=ProcessMemory(), keys=keys, threads=1), keys
    return made


def _until_mask(server: Server, helpers: dict[int, tuple[Helper, ProcessKeys]]) -> Any:
    """Open a round, take the helpers' keys, and return the requests to members."""
    for helper, request in server.open().items():
        server.receive(helper, helpers[helper][0].receive(request))
    return server.close()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    found = work()
    return (time.process_time() - start) * 1e3, found


if __name__ == "__main__":
    print(text(compare()))
