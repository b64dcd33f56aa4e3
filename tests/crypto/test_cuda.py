"""The kernel of the GPU gives the bytes of the cryptographic library.

Every test runs on the device where there is one, and everywhere on the processor: the same source, compiled
by a C++ compiler, behind the part of CuPy that the kernel uses.
"""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine
import standin_cupy
from ccesa.crypto import kernels
from ccesa.crypto.kernels import cuda, pure
from ccesa.crypto.masks import Mask
from ccesa.errors import ConfigError, VectorError
from ccesa.words import BITS, dtype

HAS_DEVICE = cuda.find() is not None

signs = st.sampled_from([1, -1])
some_masks = st.lists(st.builds(Mask, st.binary(min_size=32, max_size=32), signs), min_size=1, max_size=5)
#: In blocks; the last ones that the counter reaches are among them.
starts = st.integers(0, 1000) | st.integers(2**32 - 60, 2**32 - 38)


def use(monkeypatch, where):
    if where == "processor":
        machine.need("compiler")
        monkeypatch.setitem(sys.modules, "cupy", standin_cupy)
    elif not HAS_DEVICE:
        pytest.skip("there is no CuPy, or no GPU")
    cuda._compiled.cache_clear()


@pytest.fixture(scope="module", params=["processor", "gpu"])
def cupy(request):
    with pytest.MonkeyPatch.context() as monkeypatch:
        use(monkeypatch, request.param)
        yield sys.modules.get("cupy") or __import__("cupy")
    cuda._compiled.cache_clear()


def words(size, bits, seed):
    return np.frombuffer(np.random.default_rng(seed).bytes(size * bits // 8), dtype(bits))


def expected(vector, masks, offset):
    found = np.empty_like(vector)
    pure.Pure().add(vector, found, offset, masks, "chacha20")
    return found


@pytest.mark.parametrize("bits", BITS)
@given(size=st.integers(1, 300), start=starts, masks=some_masks)
def test_the_kernel_gives_the_library_s_bytes(cupy, bits, size, start, masks):
    vector, found = words(size, bits, size), np.empty(size, dtype(bits))
    cuda.Cuda(pure.Pure()).add(vector, found, 64 * start, masks, "chacha20")
    assert np.array_equal(found, expected(vector, masks, 64 * start))


@pytest.mark.parametrize("bits", BITS)
@given(size=st.integers(1, 300), skipped=st.integers(0, 17), masks=some_masks)
def test_arrays_may_start_anywhere_and_nothing_beside_them_is_written(cupy, bits, size, skipped, masks):
    vector, room = words(size, bits, size), cupy.zeros(size + 40, dtype(bits))
    part = room[skipped : skipped + size]
    (keys,) = cuda.upload([masks])
    cuda.add(part, keys, source=cupy.asarray(vector), offset=128)
    assert np.array_equal(part.get(), expected(vector, masks, 128))
    part[:] = 0
    assert not room.get().any()


@pytest.mark.parametrize("shape", [{"BLOCKS": 2, "UNROLL": 2, "THREADS": 64}, cuda.SHAPE])
def test_every_shape_of_the_work_gives_the_same_bytes(cupy, shape):
    masks, vector = [Mask(bytes([n]) * 32, (-1) ** n) for n in range(7)], words(9001, 32, 1)
    (keys,) = cuda.upload([masks])
    found = cupy.asarray(vector)
    cuda._launch(found, found, 64, keys, shape)
    assert np.array_equal(found.get(), expected(vector, masks, 64))


def test_many_vectors_share_an_upload_and_no_mask_is_a_copy(cupy):
    sets = [[Mask(bytes([n, k]) * 16, (-1) ** k) for k in range(n)] for n in range(5)]
    vector = words(3000, 32, 1)
    for masks, keys in zip(sets, cuda.upload(sets), strict=True):
        found = cupy.zeros(3000, cupy.uint32)
        cuda.add(found, keys, source=cupy.asarray(vector))
        assert np.array_equal(found.get(), expected(vector, masks, 0) if masks else vector)


def test_as_many_masks_as_a_server_takes_off_give_the_library_s_bytes(cupy):
    masks = [Mask(n.to_bytes(32, "little"), (-1) ** n) for n in range(300)]
    vector, found = words(100_003, 32, 1), np.empty(100_003, "<u4")
    cuda.Cuda(pure.Pure()).add(vector, found, 0, masks, "chacha20")
    assert np.array_equal(found, expected(vector, masks, 0))


def test_an_empty_vector_stays_empty(cupy):
    (keys,) = cuda.upload([[Mask(bytes(32), 1)]])
    cuda.add(cupy.zeros(0, cupy.uint32), keys)


def test_aes_is_left_to_the_processor(cupy):
    masks, vector, found = [Mask(bytes(16), 1)], words(100, 32, 1), np.empty(100, "<u4")
    cuda.Cuda(pure.Pure()).add(vector, found, 0, masks, "aes128-ctr")
    wanted = np.empty_like(found)
    pure.Pure().add(vector, wanted, 0, masks, "aes128-ctr")
    assert np.array_equal(found, wanted)


def test_wrong_arrays_and_offsets_are_refused(cupy):
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
    for source, target in ((vector[:32], vector[1:33]), (vector[32:], vector[1:33])):
        with pytest.raises(VectorError, match="lie apart"):
            cuda.add(target, keys, source=source)
    assert not vector.get().any()
    cuda.add(vector[32:], keys, source=vector[:32])  # side by side
    assert not vector[:32].get().any()
    assert vector[32:].get().any()


def test_keys_of_another_generator_and_arrays_of_the_host_are_refused():
    with pytest.raises(VectorError, match="32 bytes"):
        cuda.upload([[Mask(bytes(16), 1)]])
    with pytest.raises(VectorError, match="on the device"):
        cuda.add(np.zeros(4, np.uint32), cuda.DeviceMasks(keys=None, added=0))


def test_without_a_device_the_kernel_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setenv(kernels.VARIABLE, "cuda")
    kernels._find.cache_clear()
    try:
        with pytest.raises(ConfigError, match="this machine cannot run that kernel"):
            kernels.kernel()
    finally:
        kernels._find.cache_clear()
    with pytest.raises(ConfigError, match=r"needs CuPy.*\.\[gpu\]"):
        cuda.upload([[Mask(bytes(32), 1)]])


def test_nobody_gets_it_who_has_not_asked(monkeypatch):
    """Keys would lie in a memory that others may read: first comes what every machine can run."""
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    assert not kernels.kernel().name.startswith("cuda")
    names = list(kernels.KERNELS)
    assert names.index("cuda") > names.index("pure")


@pytest.mark.skipif(not HAS_DEVICE, reason="there is no CuPy, or no GPU")
def test_it_is_there_for_who_asks(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "cuda")
    kernels._find.cache_clear()
    try:
        assert kernels.kernel().name.startswith("cuda (chacha20 on ")
    finally:
        kernels._find.cache_clear()


def test_keys_are_not_shown():
    assert "secret" not in repr(cuda.DeviceMasks(keys=b"secret", added=1))
