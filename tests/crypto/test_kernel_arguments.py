"""The compiled module refuses what it cannot work with, by an exception, before it writes anything."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ccesa import compiled
from ccesa.crypto.kernels import native
from ccesa.crypto.primitives import GENERATORS

ccesa_native = compiled.installed()
pytestmark = pytest.mark.needs("kernel")


def good():
    """Arguments that are right, by name, in their order."""
    return {
        "source": bytes(range(64)),
        "target": bytearray(64),
        "offset": 128,
        "word_bytes": 4,
        "generator": "chacha20",
        "keys": bytes(64),
        "negative": b"\0\1",
    }


BAD = {
    "a target that cannot be written": ({"target": bytes(64)}, TypeError, "read-write"),
    "a target of another length": ({"target": bytearray(65)}, ValueError, "the same length"),
    "part of a word": ({"source": bytes(63), "target": bytearray(63)}, ValueError, "whole number of words"),
    "words of three bytes": ({"word_bytes": 3}, ValueError, "1, 2, 4 or 8"),
    "words of no bytes": ({"word_bytes": 0}, ValueError, "1, 2, 4 or 8"),
    "words of sixteen bytes": ({"word_bytes": 16}, ValueError, "1, 2, 4 or 8"),
    "a huge word": ({"word_bytes": 2**40}, OverflowError, "greater than maximum|too large"),
    "an offset within a block": ({"offset": 32}, ValueError, "multiple of 64"),
    "a negative offset": ({"offset": -64}, ValueError, "not negative"),
    "an offset beyond all numbers": ({"offset": 2**63}, OverflowError, "too large"),
    "an offset near the end of numbers": ({"offset": 2**63 - 64}, ValueError, "below 2\\^63"),
    "an offset beyond the blocks": ({"offset": 2**38}, ValueError, "2\\^32 blocks"),
    "an end beyond the blocks": (
        {"offset": 2**38 - 64, "source": bytes(128), "target": bytearray(128)}, ValueError, "2\\^32 blocks",
    ),
    "an unknown generator": ({"generator": "rc4"}, ValueError, "rc4"),
    "no generator": ({"generator": None}, TypeError, "must be str"),
    "a short key": ({"keys": bytes(63)}, ValueError, "one key"),
    "a key too many": ({"keys": bytes(96)}, ValueError, "one key"),
    "a key too few": ({"keys": bytes(32)}, ValueError, "one key"),
    "a sign of two": ({"negative": b"\0\2"}, ValueError, "0, to add"),
    "signs as a list": ({"negative": [0, 1]}, TypeError, "bytes-like"),
    "text as a vector": ({"source": "0" * 64}, TypeError, "bytes-like"),
    "a vector with gaps": ({"source": np.zeros(128, np.uint8)[::2]}, ValueError, "contiguous"),
    "unknown instructions": ({"instructions": "sse9"}, ValueError, "sse9"),
    "instructions of another generator": ({"instructions": "aesni"}, ValueError, "aesni"),
}  # fmt: skip


def test_good_arguments_are_taken():
    given = good()
    assert ccesa_native.add_masks(*given.values()) is None
    assert any(given["target"])


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_and_nothing_is_written(name):
    changed, error, text = BAD[name]
    given = good() | changed
    target = bytearray(given["target"]) if isinstance(given["target"], bytes) else given["target"]
    with pytest.raises(error, match=text):
        ccesa_native.add_masks(*given.values())
    assert bytes(target) == bytes(len(target))


@pytest.mark.parametrize("shift", [1, 4, 63, -1, -4, -63])
def test_vectors_that_overlap_without_being_the_same_are_refused(shift):
    memory = bytearray(os.urandom(256))
    before, view = bytes(memory), memoryview(memory)
    given = good() | {"source": view[64:128], "target": view[64 + shift : 128 + shift]}
    with pytest.raises(ValueError, match="the same or lie apart"):
        ccesa_native.add_masks(*given.values())
    assert memory == before


@pytest.mark.parametrize(("name", "size"), [("keys", 64), ("negative", 2)])
@pytest.mark.parametrize("shift", [0, 1, 63])
def test_a_target_over_its_own_keys_is_refused(name, size, shift):
    memory = bytearray(256)
    view = memoryview(memory)
    given = good() | {"target": view[64:128], name: view[64 + shift : 64 + shift + size]}
    with pytest.raises(ValueError, match="apart from the target"):
        ccesa_native.add_masks(*given.values())
    assert memory == bytes(256)


def test_vectors_side_by_side_are_taken():
    view = memoryview(bytearray(192))
    for source, target in ((view[:64], view[64:128]), (view[128:], view[64:128])):
        ccesa_native.add_masks(*(good() | {"source": source, "target": target}).values())


def test_the_limit_checks_its_names():
    with pytest.raises(ValueError, match="sse9"):
        ccesa_native._limit("chacha20", "sse9", 1)
    with pytest.raises(TypeError):
        ccesa_native._limit("chacha20", "vector128", "1")


def test_instructions_of_another_processor_are_a_known_name_that_cannot_run():
    assert ccesa_native.instructions("rc4") == ()
    absent = set(native.INSTRUCTIONS).difference(*map(ccesa_native.instructions, GENERATORS))
    for name in absent:
        with pytest.raises((RuntimeError, ValueError), match=name):
            ccesa_native._limit("aes128-ctr", name, 1)


#: A thread turns all signs over and over while masks are added, with the interpreter's lock released.
_TURNING_SIGNS = """
import sys, threading, time, ccesa_native
sys.setswitchinterval(1e-6)
signs, end = bytearray(128), time.monotonic() + 0.5
def turn():
    while time.monotonic() < end:
        signs[:] = bytes([1]) * 128
        signs[:] = bytes(128)
thread = threading.Thread(target=turn)
thread.start()
while thread.is_alive():
    given = bytes(64), bytearray(64), 0, 4, sys.argv[1], bytes(int(sys.argv[3])), signs, sys.argv[2]
    ccesa_native.add_masks(*given)
"""


@pytest.mark.parametrize(
    ("generator", "name"),
    [(one, name) for one in GENERATORS if ccesa_native for name in ccesa_native.instructions(one)],
)
def test_signs_that_change_meanwhile_write_nothing_beyond_the_keys(generator, name):
    size = str(128 * GENERATORS[generator].key_bytes)
    done = subprocess.run(
        [sys.executable, "-c", _TURNING_SIGNS, generator, name, size], capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
