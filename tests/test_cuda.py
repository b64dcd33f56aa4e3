"""The kernel of the GPU gives the bytes of the cryptographic library.

Its source is compiled for the processor here, so that everything but CUDA itself is checked on every machine;
the tests of the device need one and are skipped elsewhere.
"""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.crypto import kernels
from ccesa.crypto.kernels import cuda, pure
from ccesa.crypto.masks import Mask
from ccesa.errors import ConfigError, VectorError
from ccesa.words import BITS, dtype

COMPILER = shutil.which("g++") or shutil.which("c++")
DEVICE = cuda.find()
#: Words of every size, and a thread with two blocks.
SHAPES = [(bits, 1) for bits in BITS] + [(32, 2)]

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
needs_device = pytest.mark.skipif(DEVICE is None, reason="there is no CuPy, or no GPU")

signs = st.sampled_from([1, -1])
some_masks = st.lists(st.builds(Mask, st.binary(min_size=32, max_size=32), signs), min_size=1, max_size=5)
#: In blocks; the last ones that the counter reaches are among them.
starts = st.integers(0, 1000) | st.integers(2**32 - 60, 2**32 - 38)


def words(size, bits, seed):
    return np.frombuffer(np.random.default_rng(seed).bytes(size * bits // 8), dtype(bits))


def expected(vector, masks, offset):
    found = np.empty_like(vector)
    pure.find().add(vector, found, offset, masks, "chacha20")
    return found


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    """The source, compiled for the processor in every shape."""
    libraries = {}
    for bits, blocks in SHAPES:
        path = tmp_path_factory.mktemp("cuda") / "kernel.so"
        defined = [f"-DWORD_BITS={bits}", f"-DBLOCKS={blocks}", "-DUNROLL=1"]
        options = ["-O1", "-w", "-shared", "-fPIC", "-x", "c++", str(cuda.SOURCE), "-o", str(path)]
        subprocess.run([COMPILER, *defined, *options], check=True)
        libraries[bits, blocks] = ctypes.CDLL(str(path)).add_masks
    return libraries


def by_processor(function, vector, masks, offset):
    """In place, as a thread of the device does it."""
    masks = sorted(masks, key=lambda mask: -mask.sign)
    keys = np.frombuffer(b"".join(mask.key for mask in masks), np.uint32)
    place = ctypes.c_void_p(vector.ctypes.data)
    counts = ctypes.c_uint(len(masks)), ctypes.c_uint(sum(mask.sign > 0 for mask in masks))
    function(
        place,
        place,
        ctypes.c_ulonglong(vector.nbytes),
        ctypes.c_uint(offset // 64),
        ctypes.c_void_p(keys.ctypes.data),
        *counts,
    )


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
@given(size=st.integers(1, 300), start=starts, masks=some_masks, skipped=st.integers(0, 16))
def test_the_source_gives_the_library_s_bytes(processor, shape, size, start, masks, skipped):
    bits, _ = shape
    vector = words(size, bits, size)
    room = np.zeros(vector.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 16 + skipped * bits // 8 % 16  # from every place within 16 bytes
    target = room[first : first + vector.nbytes].view(dtype(bits))
    target[:] = vector
    by_processor(processor[shape], target, masks, 64 * start)
    assert np.array_equal(target, expected(vector, masks, 64 * start))
    room[first : first + vector.nbytes] = 0
    assert not room.any(), "nothing beside the vector is written"


def test_without_a_device_the_kernel_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setenv(kernels.VARIABLE, "cuda")
    kernels._found.cache_clear()
    try:
        with pytest.raises(ConfigError, match="this machine cannot run that kernel"):
            kernels.kernel()
    finally:
        kernels._found.cache_clear()
    with pytest.raises(ConfigError, match=r"needs CuPy.*\.\[gpu\]"):
        cuda.upload([[Mask(bytes(32), 1)]])


def test_nobody_gets_it_who_has_not_asked(monkeypatch):
    """Keys would lie in a memory that others may read: first comes what every machine can run."""
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    assert not kernels.kernel().name.startswith("cuda")
    names = list(kernels.KERNELS)
    assert names.index("cuda") > names.index("pure")


def test_keys_of_another_generator_and_arrays_of_the_host_are_refused():
    with pytest.raises(VectorError, match="32 bytes"):
        cuda.upload([[Mask(bytes(16), 1)]])
    with pytest.raises(VectorError, match="on the device"):
        cuda.add(np.zeros(4, np.uint32), cuda.DeviceMasks(keys=None, added=0))


def test_keys_are_not_shown():
    assert "keys" not in repr(cuda.DeviceMasks(keys=b"secret", added=1))


@needs_device
@pytest.mark.parametrize("bits", BITS)
@given(size=st.integers(1, 5000), start=starts, masks=some_masks)
def test_the_device_gives_the_library_s_bytes(bits, size, start, masks):
    size = min(size, (2**32 - start) * 512 // bits)
    vector, found = words(size, bits, size), np.empty(size, dtype(bits))
    DEVICE.add(vector, found, 64 * start, masks, "chacha20")
    assert np.array_equal(found, expected(vector, masks, 64 * start))


@needs_device
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("skipped", range(5))
def test_on_the_device_arrays_may_start_anywhere(bits, skipped):
    import cupy

    masks = [Mask(bytes([n]) * 32, (-1) ** n) for n in range(7)]
    vector = words(1000, bits, bits)
    room = cupy.zeros(1016, dtype(bits))
    (keys,) = cuda.upload([masks])
    cuda.add(room[skipped : skipped + 1000], keys, source=cupy.asarray(vector), offset=128)
    assert np.array_equal(room[skipped : skipped + 1000].get(), expected(vector, masks, 128))
    room[skipped : skipped + 1000] = 0
    assert not room.any(), "nothing beside the vector is written"


@needs_device
def test_many_vectors_share_an_upload_and_no_mask_is_a_copy():
    import cupy

    sets = [[Mask(bytes([n, k]) * 16, (-1) ** k) for k in range(n)] for n in range(5)]
    vector = words(3000, 32, 1)
    for masks, keys in zip(sets, cuda.upload(sets), strict=True):
        found = cupy.empty(3000, cupy.uint32)
        cuda.add(found, keys, source=cupy.asarray(vector))
        assert np.array_equal(found.get(), expected(vector, masks, 0) if masks else vector)


@needs_device
def test_a_large_vector_and_as_many_masks_as_a_server_takes_off():
    masks = [Mask(n.to_bytes(32, "little"), (-1) ** n) for n in range(300)]
    vector, found = words(1_000_003, 32, 1), np.empty(1_000_003, "<u4")
    DEVICE.add(vector, found, 0, masks, "chacha20")
    assert np.array_equal(found, expected(vector, masks, 0))


@needs_device
def test_aes_is_left_to_the_processor():
    masks, vector, found = [Mask(bytes(16), 1)], words(100, 32, 1), np.empty(100, "<u4")
    DEVICE.add(vector, found, 0, masks, "aes128-ctr")
    wanted = np.empty_like(found)
    pure.find().add(vector, wanted, 0, masks, "aes128-ctr")
    assert np.array_equal(found, wanted)


@needs_device
def test_on_the_device_wrong_arrays_and_offsets_are_refused():
    import cupy

    (keys,) = cuda.upload([[Mask(bytes(32), 1)]])
    vector = cupy.zeros(64, cupy.uint32)
    for offset in (32, -64, 2**38 - 64):
        with pytest.raises(VectorError, match="cannot start"):
            cuda.add(vector, keys, offset=offset)
    with pytest.raises(VectorError, match="one size"):
        cuda.add(vector, keys, source=vector[:32])
    with pytest.raises(VectorError, match="contiguous words"):
        cuda.add(vector[::2], keys)
    with pytest.raises(VectorError, match="contiguous words"):
        cuda.add(vector.astype(cupy.float32), keys)
