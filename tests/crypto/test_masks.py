import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa import words
from ccesa.crypto import masks
from ccesa.crypto.kernels import pure
from ccesa.crypto.masks import Mask, add_masks, mask_words, masked
from ccesa.crypto.primitives import ALIGNMENT, GENERATORS
from strategies import bits, generators, seeds

lengths = st.integers(1, 400)
threads = st.sampled_from([1, 2, 3, 5])


@pytest.fixture(scope="module", autouse=True)
def _all_threads_work():
    """As many threads work as a test says, however short its vectors are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "helpful_threads", lambda most, size, count: most or 1)
        yield


def keystream(generator: str, key: bytes, size: int) -> bytes:
    """The library's own stream from its beginning."""
    if generator == "chacha20":
        cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), None)
    else:
        cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16)))
    return cipher.encryptor().update(bytes(size))


def whole(generator: str, key: bytes, length: int, width: int) -> np.ndarray:
    return np.frombuffer(keystream(generator, key, length * width // 8), words.dtype(width))


def key_of(generator: str, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(GENERATORS[generator].key_bytes)


def random_masks(generator: str, seed: int, count: int) -> list[Mask]:
    rng = np.random.default_rng(seed)
    return [Mask(rng.bytes(GENERATORS[generator].key_bytes), int(rng.choice([1, -1]))) for _ in range(count)]


def random_vector(length: int, width: int, seed: int) -> np.ndarray:
    return np.frombuffer(np.random.default_rng(seed).bytes(length * width // 8), words.dtype(width)).copy()


def plainly(vector: np.ndarray, chosen: list[Mask], generator: str) -> np.ndarray:
    """Vector plus and minus whole keystreams, one after the other."""
    total = vector.copy()
    for mask in chosen:
        words = whole(generator, mask.key, vector.size, 8 * vector.itemsize)
        total = total + words if mask.sign > 0 else total - words
    return total


@given(generators, bits, lengths, seeds)
def test_a_mask_is_the_library_keystream(generator, width, length, seed):
    key = key_of(generator, seed)
    assert mask_words(generator, key, 0, length, width).tobytes() == keystream(generator, key, length * width // 8)


@settings(max_examples=60)
@given(generators, bits, lengths, st.integers(1, 4), st.integers(0, 9), threads, seeds)
def test_a_vector_is_masked_in_any_place_also_where_words_are_not_aligned(
    generator, width, length, count, place, parts, seed
):
    vector, chosen = random_vector(length, width, seed), random_masks(generator, seed, count)
    room = bytearray(place + vector.nbytes + 3)
    target = words.from_bytes(memoryview(room)[place : place + vector.nbytes], width)
    before = vector.copy()
    assert masked(vector, chosen, generator, parts, out=target) is target
    due = plainly(vector, chosen, generator).tobytes()
    assert room == bytes(place) + due + bytes(3)
    assert masked(vector, chosen, generator, parts).tobytes() == due
    assert np.array_equal(vector, before)


@given(generators, bits, st.integers(0, 1000), st.integers(0, 300), seeds)
def test_a_slice_equals_that_part_of_the_whole(generator, width, start, count, seed):
    key = key_of(generator, seed)
    part = mask_words(generator, key, start, count, width)
    assert part.dtype == words.dtype(width)
    assert np.array_equal(part, whole(generator, key, start + count, width)[start:])


@given(generators, bits, seeds)
@settings(max_examples=10)
def test_a_slice_far_into_the_mask_equals_that_part(generator, width, seed):
    key, end = key_of(generator, seed), 3 * pure.SLICE_BYTES // (width // 8)
    part = mask_words(generator, key, end - 777, 777, width)
    assert np.array_equal(part, whole(generator, key, end, width)[-777:])


@given(generators, bits, lengths, st.integers(0, 12), threads, seeds)
def test_masks_are_added_and_subtracted_by_sign(generator, width, length, count, workers, seed):
    vector, chosen = random_vector(length, width, seed), random_masks(generator, seed, count)
    expected = plainly(vector, chosen, generator)
    add_masks(vector, chosen, generator, workers)
    assert np.array_equal(vector, expected)
    assert vector.dtype == words.dtype(width)


@given(generators, bits, lengths, threads, seeds)
def test_opposite_signs_cancel(generator, width, length, workers, seed):
    vector, chosen = random_vector(length, width, seed), random_masks(generator, seed, 5)
    before = vector.copy()
    add_masks(vector, chosen, generator, workers)
    assert length < 16 or not np.array_equal(vector, before)
    add_masks(vector, [Mask(mask.key, -mask.sign) for mask in chosen], generator)
    assert np.array_equal(vector, before)


@given(generators, bits, st.integers(16, 400), seeds)
def test_different_keys_give_different_masks(generator, width, length, seed):
    one, other = random_masks(generator, seed, 2)
    assert not np.array_equal(
        mask_words(generator, one.key, 0, length, width), mask_words(generator, other.key, 0, length, width)
    )


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("width", words.BITS)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_vectors_longer_than_a_slice(generator, width, workers):
    length = workers * pure.SLICE_BYTES // (width // 8) + 1001
    vector, chosen = random_vector(length, width, 1), random_masks(generator, 2, 2)
    expected = plainly(vector, chosen, generator)
    add_masks(vector, chosen, generator, workers)
    assert np.array_equal(vector, expected)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [pure.OPEN_STREAMS, pure.OPEN_STREAMS + 1, 2 * pure.OPEN_STREAMS + 3])
def test_more_masks_than_streams_are_open_at_a_time(generator, workers, count):
    vector, chosen = random_vector(203, 16, 1), random_masks(generator, 2, count)
    expected = plainly(vector, chosen, generator)
    add_masks(vector, chosen, generator, workers)
    assert np.array_equal(vector, expected)


@given(st.integers(1, 300), bits, st.integers(1, 40))
def test_more_threads_than_blocks_change_nothing(length, width, workers):
    vector = random_vector(length, width, 0)
    chosen = random_masks("chacha20", 1, 2)
    expected = plainly(vector, chosen, "chacha20")
    add_masks(vector, chosen, "chacha20", workers)
    assert np.array_equal(vector, expected)


@given(generators, bits, lengths, st.integers(1, 12), threads, seeds)
def test_a_vector_is_masked_into_another_array(generator, width, length, count, workers, seed):
    vector, chosen = random_vector(length, width, seed), random_masks(generator, seed, count)
    before, expected = vector.copy(), plainly(vector, chosen, generator)
    out = np.empty_like(vector)
    assert masked(vector, chosen, generator, workers, out) is out
    assert np.array_equal(out, expected)
    assert np.array_equal(masked(vector, chosen, generator, workers), expected)
    assert np.array_equal(vector, before)


@given(generators, bits, lengths, st.integers(0, 5), threads, seeds)
def test_a_part_of_a_vector_is_masked_by_itself(generator, width, length, blocks, workers, seed):
    first = blocks * ALIGNMENT // (width // 8)
    vector, chosen = random_vector(first + length, width, seed), random_masks(generator, seed, 3)
    expected = plainly(vector, chosen, generator)[first:]
    add_masks(vector[first:], chosen, generator, workers, offset=blocks * ALIGNMENT)
    assert np.array_equal(vector[first:], expected)


@given(generators, seeds)
def test_the_key_stays_out_of_the_repr(generator, seed):
    (mask,) = random_masks(generator, seed, 1)
    assert repr(mask) == f"Mask(sign={mask.sign})"


@given(generators, bits, lengths, st.integers(1, 3), threads, st.sampled_from([2, 3, -1, -2, 0]), seeds)
def test_a_vector_with_gaps_is_masked_like_its_words_side_by_side(generator, width, length, count, working, step, seed):
    memory = random_vector(3 * length, width, seed)
    vector = memory[::step][:length] if step else np.broadcast_to(memory[0], (length,))
    chosen, expected = random_masks(generator, seed, count), np.ascontiguousarray(vector)
    found = masked(vector, chosen, generator, working)
    assert found.tobytes() == plainly(expected, chosen, generator).tobytes()
