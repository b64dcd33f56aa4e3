"""Every kernel, with whatever instructions, gives the bytes of ``pure`` and of a sum made word by word."""

import os
import sys
import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ccesa import words
from ccesa.cli.app import app
from ccesa.compiled import INTERFACE
from ccesa.crypto import kernels
from ccesa.crypto.kernels import native, pure
from ccesa.crypto.masks import Mask
from ccesa.crypto.primitives import ALIGNMENT, GENERATORS
from ccesa.errors import ConfigError
from ccesa.simulate.enrolment import new_client, new_server
from rounds import CONFIGURE, federation_of, inputs
from strategies import bits, seeds

ROOT = Path(__file__).parents[2]
NATIVE = native.find()
needs_native = pytest.mark.needs("kernel")


def compiled():
    """Each generator with each kind of instructions that this machine can run it with."""
    if NATIVE is None:
        return []
    import ccesa_native

    return [(generator, name) for generator in GENERATORS for name in ccesa_native.instructions(generator)]


PATHS = compiled()
each_path = pytest.mark.parametrize(("generator", "instructions"), PATHS or [pytest.param("", "", marks=needs_native)])


def kernel_of(generator, instructions):
    import ccesa_native

    return native.Native(ccesa_native, {generator: instructions})


def keystream(generator: str, key: bytes, offset: int, size: int) -> bytes:
    if generator == "chacha20":
        nonce = (offset // 64).to_bytes(4, "little") + bytes(12)
        return Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(size))
    counter = (offset // 16).to_bytes(16, "big")
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(size))


def plainly(source: bytes, offset: int, masks: list[Mask], generator: str, word: int) -> bytes:
    """The sum word by word, in Python's own integers."""
    streams = [(mask.sign, keystream(generator, mask.key, offset, len(source))) for mask in masks]
    parts = []
    for first in range(0, len(source), word):
        value = int.from_bytes(source[first : first + word], "little")
        value += sum(sign * int.from_bytes(one[first : first + word], "little") for sign, one in streams)
        parts.append((value % 256**word).to_bytes(word, "little"))
    return b"".join(parts)


def random_masks(generator, rng, count):
    size = GENERATORS[generator].key_bytes
    return [Mask(rng.bytes(size), int(rng.choice([1, -1]))) for _ in range(count)]


def placed(data: bytes, shift: int, width: int) -> np.ndarray:
    """The words of ``data``, ``shift`` bytes into some memory."""
    memory = np.zeros(shift + len(data), np.uint8)
    memory[shift:] = np.frombuffer(data, np.uint8)
    return memory[shift:].view(words.dtype(width))


shifts = st.integers(0, 65)
#: Ends of chunks of all kernels, and lengths around them.
lengths = st.integers(0, 2100) | st.sampled_from([128, 256, 512, 1024, 2048]).flatmap(
    lambda size: st.integers(size - 9, size + 9)
)
#: In blocks of 64 bytes: small ones, and those before a carry from one byte of a counter into the next.
blocks = st.integers(0, 3000) | st.builds(
    lambda power, before: max(0, 2**power - before), st.integers(6, 31), st.integers(0, 40)
)


@each_path
@given(bits, lengths, blocks, st.integers(1, 9), shifts, shifts, st.booleans(), seeds)
@settings(max_examples=60)
@example(64, 2048, 2**26 - 5, 3, 1, 2, False, 0)
def test_all_instructions_give_the_same_bytes(
    generator, instructions, width, size, block, count, shift, other_shift, in_place, seed
):
    rng = np.random.default_rng(seed)
    word, offset, masks = width // 8, block * ALIGNMENT, random_masks(generator, rng, count)
    data = rng.bytes(size - size % word)
    source = placed(data, shift, width)
    target = source if in_place else placed(bytes(len(data)), other_shift, width)
    kernel_of(generator, instructions).add(source, target, offset, masks, generator)
    expected = placed(data, 0, width)
    pure.Pure().add(expected, expected, offset, masks, generator)
    assert target.tobytes() == expected.tobytes() == plainly(data, offset, masks, generator, word)
    assert in_place or source.tobytes() == data


@each_path
@given(bits, st.integers(1, 700), st.sampled_from([127, 128, 129, 256, 300]), st.booleans(), seeds)
@settings(max_examples=15)
def test_more_masks_than_keys_are_expanded_at_a_time(generator, instructions, width, length, count, in_place, seed):
    rng = np.random.default_rng(seed)
    masks, data = random_masks(generator, rng, count), rng.bytes(length * width // 8)
    source = placed(data, 3, width)
    target = source if in_place else placed(bytes(len(data)), 5, width)
    kernel_of(generator, instructions).add(source, target, 64, masks, generator)
    expected = placed(data, 0, width)
    pure.Pure().add(expected, expected, 64, masks, generator)
    assert target.tobytes() == expected.tobytes()


@each_path
def test_without_masks_the_source_is_copied(generator, instructions):
    source, target = placed(os.urandom(700), 1, 16), placed(bytes(700), 2, 16)
    kernel_of(generator, instructions).add(source, target, 0, [], generator)
    assert np.array_equal(source, target)


#: By generator, (key, number of the first 64 bytes, keystream). Blocks 0, 1 and 2 of AES under a key of zeros
#: are H, E(K, Y0) and the ciphertext of test cases 1 and 2 in the specification of GCM; the counters of
#: SP 800-38A start beyond 2^64 blocks, where no vector reaches (native/tests/check.c has them for its
#: reference). The others are numbers 1 to 4 of RFC 8439, appendix A.1.
KNOWN = {
    "aes128-ctr": [
        (
            bytes(16),
            0,
            "66e94bd4ef8a2c3b884cfa59ca342b2e58e2fccefa7e3061367f1d57a4e7455a0388dace60b6a392f328c2b971b2fe78",
        )
    ],
    "chacha20": [
        (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d"),
        (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43"),
        (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bb"),
        (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
    ],
}


@each_path
def test_all_instructions_give_the_known_answers(generator, instructions):
    for key, block, expected in KNOWN[generator]:
        target = np.zeros(len(expected) // 2, np.uint8)
        kernel_of(generator, instructions).add(target, target, block * ALIGNMENT, [Mask(key, 1)], generator)
        assert target.tobytes().hex() == expected


@each_path
def test_the_last_block_of_chacha20_is_reached_and_none_beyond(generator, instructions):
    if generator != "chacha20":
        pytest.skip("blocks of AES-CTR have numbers of 128 bits")
    import ccesa_native

    last, key = (2**32 - 1) * ALIGNMENT, os.urandom(32)
    target = bytearray(64)
    ccesa_native.add_masks(bytes(64), target, last, 1, generator, key, b"\0", instructions)
    assert target == keystream(generator, key, last, 64)
    with pytest.raises(ValueError, match="2\\^32 blocks"):
        ccesa_native.add_masks(bytes(65), bytearray(65), last, 1, generator, key, b"\0", instructions)


# Threads


@each_path
def test_other_threads_run_while_masks_are_added(generator, instructions):
    """This thread sees a vector whose beginning is masked and whose end is not; behind a lock it cannot."""
    kernel, masks = kernel_of(generator, instructions), random_masks(generator, np.random.default_rng(0), 40)

    def seen() -> bool:
        target = np.zeros(1 << 20, np.uint32)
        started, found = threading.Event(), False

        def work():
            started.set()
            kernel.add(target, target, 0, masks, generator)

        worker = threading.Thread(target=work)
        worker.start()
        started.wait()
        while worker.is_alive():
            end, beginning = int(target[-1]), int(target[0])  # in this order, or both might be new
            found |= beginning != 0 and end == 0
        return found

    assert any(seen() for _ in range(30))


# Which kernel runs


@pytest.mark.parametrize("name", [name for name in kernels.KERNELS if kernels.KERNELS[name]() is not None])
def test_the_environment_names_a_kernel(name, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    kind, _, instructions = name.partition(":")
    assert kernels.kernel().name.startswith(kind)
    assert instructions in kernels.kernel().name


@pytest.mark.parametrize("name", [name for name in kernels.KERNELS if kernels.KERNELS[name]() is None])
def test_a_kernel_that_this_machine_lacks_is_not_replaced_in_silence(name, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    with pytest.raises(ConfigError, match=r"cannot run that kernel: it needs .* \(pip install "):
        kernels.kernel()


@pytest.mark.parametrize("name", ["fast", "native:", "native:sse9", "pure:aesni", "NATIVE"])
def test_an_unknown_kernel_is_refused(name, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    with pytest.raises(ConfigError, match=f"{kernels.VARIABLE} must be one of native"):
        kernels.kernel()


def test_without_the_package_there_is_no_compiled_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "ccesa_native", None)
    assert native.find() is None
    monkeypatch.setenv(kernels.VARIABLE, "native")
    kernels._find.cache_clear()
    with pytest.raises(ConfigError, match=r"it needs ccesa-native \(pip install \./native\)"):
        kernels.kernel()


@pytest.mark.parametrize("stranger", [SimpleNamespace(), SimpleNamespace(INTERFACE=INTERFACE + 1)])
def test_a_package_made_for_another_version_is_left_alone(stranger, monkeypatch):
    monkeypatch.setitem(sys.modules, "ccesa_native", stranger)
    assert native.find() is None


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_processor_without_instructions_for_a_generator_uses_the_library(generator):
    """The module has no AES from tables: their timing shows keys."""
    kernel, masks = native.Native(None, {}), random_masks(generator, np.random.default_rng(1), 3)
    found, expected = np.zeros(100, np.uint32), np.zeros(100, np.uint32)
    kernel.add(found, found, 64, masks, generator)
    pure.Pure().add(expected, expected, 64, masks, generator)
    assert np.array_equal(found, expected)
    assert f"{generator}: pure" in kernel.name


@pytest.mark.parametrize("name", native.SLOW)
def test_what_is_slower_than_the_library_runs_only_by_its_name(name, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "ccesa_native", SimpleNamespace(INTERFACE=INTERFACE, instructions=lambda generator: (name,))
    )
    assert name not in native.find().name
    assert name in native.find(name).name


def test_the_command_line_says_which_kernel_runs(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "pure")
    assert CliRunner().invoke(app, ["--version"]).stdout.splitlines()[1] == "kernel: pure"


def test_no_requirement_names_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [project["dependencies"], *project["optional-dependencies"].values()]
    assert "native" not in str(named), "on an index the name is anybody's to take"


@pytest.mark.parametrize("guard", CONFIGURE)
@pytest.mark.parametrize("name", ["nativ", "native:armv9", "cuda"])
def test_a_kernel_that_cannot_run_is_refused_before_a_key_exists(guard, name, monkeypatch):
    config = CONFIGURE[guard](5)
    vector, federation = inputs(config)[0], federation_of(config)
    monkeypatch.setitem(kernels.KERNELS, "cuda", lambda: None)
    monkeypatch.setattr(kernels, "_find", kernels._find.__wrapped__)
    monkeypatch.setenv("CCESA_KERNEL", name)
    for make in (lambda: new_server(config, federation), lambda: new_client(config, 0, vector, federation)):
        with pytest.raises(ConfigError, match="CCESA_KERNEL"):
            make()
