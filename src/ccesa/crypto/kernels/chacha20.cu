// Keystreams of ChaCha20 (RFC 8439, zero nonce) are added to words and subtracted from them.
//
// A thread holds BLOCKS blocks of 64 bytes of the vector in registers while it runs through all masks, so the
// vector is read and written once. Those to be added come first. CUDA compiles this for a GPU, and a C++ compiler
// for the processor, where a test holds every path against the cryptographic library.
//
// WORD_BITS  8, 16, 32 or 64
// BLOCKS     per thread
// UNROLL     double rounds that are written out; 10 are all of them
// THREADS    per block of the grid
// PERMUTED   1: rotations by whole bytes are permutations of bytes

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define ROTATED(x, bits) \
    (PERMUTED && bits == 16 ? __byte_perm(x, x, 0x1032) \
     : PERMUTED && bits == 8 ? __byte_perm(x, x, 0x2103) : __funnelshift_l(x, x, bits))
#define FETCH(place) __ldg(place)
#else
#include <cstddef>
#define DEVICE static inline
#define ROTATED(x, bits) (((x) << (bits)) | ((x) >> (32 - (bits))))
#define FETCH(place) (*(place))
struct uint4 {
    unsigned int x, y, z, w;
};
#endif

enum { UNROLLED = UNROLL };  // a pragma takes a constant, and no macro
typedef unsigned char Byte;
typedef unsigned int Word;
typedef unsigned long long Long;

// The assembler makes products by 1 of the additions (IMAD): they run beside the exclusive ors and the rotations,
// which have another unit.
#define STEP(a, b, d, bits) \
    a += b;                 \
    d ^= a;                 \
    d = ROTATED(d, bits);
#define QUARTER(a, b, c, d) STEP(a, b, d, 16) STEP(c, d, b, 12) STEP(a, b, d, 8) STEP(c, d, b, 7)

// Words of every size are added in pieces of 32 bits.
#if WORD_BITS == 64
DEVICE void combine(Word *sum, const Word *stream, bool negative) {
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        Long old = (Long)sum[i + 1] << 32 | sum[i], word = (Long)stream[i + 1] << 32 | stream[i];
        Long next = negative ? old - word : old + word;
        sum[i] = (Word)next;
        sum[i + 1] = (Word)(next >> 32);
    }
}
#else
#if WORD_BITS == 32
DEVICE Word plus(Word a, Word b) { return a + b; }
DEVICE Word minus(Word a, Word b) { return a - b; }
#else
// The highest bit of each word by itself, so that nothing is carried from one word to the next.
#define HIGHEST (WORD_BITS == 16 ? 0x80008000u : 0x80808080u)
DEVICE Word plus(Word a, Word b) { return ((a & ~HIGHEST) + (b & ~HIGHEST)) ^ ((a ^ b) & HIGHEST); }
DEVICE Word minus(Word a, Word b) { return ((a | HIGHEST) - (b & ~HIGHEST)) ^ ((a ^ ~b) & HIGHEST); }
#endif
DEVICE void combine(Word *sum, const Word *stream, bool negative) {
    if (negative) {
#pragma unroll
        for (int i = 0; i < 16; i++) sum[i] = minus(sum[i], stream[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++) sum[i] = plus(sum[i], stream[i]);
    }
}
#endif

DEVICE void first_state(Word *x, uint4 low, uint4 high, Word counter) {
    x[0] = 0x61707865, x[1] = 0x3320646e, x[2] = 0x79622d32, x[3] = 0x6b206574;
    x[4] = low.x, x[5] = low.y, x[6] = low.z, x[7] = low.w;
    x[8] = high.x, x[9] = high.y, x[10] = high.z, x[11] = high.w;
    x[12] = counter, x[13] = 0, x[14] = 0, x[15] = 0;
}

DEVICE void double_round(Word *x) {
    QUARTER(x[0], x[4], x[8], x[12])
    QUARTER(x[1], x[5], x[9], x[13])
    QUARTER(x[2], x[6], x[10], x[14])
    QUARTER(x[3], x[7], x[11], x[15])
    QUARTER(x[0], x[5], x[10], x[15])
    QUARTER(x[1], x[6], x[11], x[12])
    QUARTER(x[2], x[7], x[8], x[13])
    QUARTER(x[3], x[4], x[9], x[14])
}

// `bytes` is how many there are from `from` on: 64 or more but for the last block.
DEVICE void load(Word *sum, const Byte *from, Long bytes, bool aligned) {
    if (aligned && bytes >= 64) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint4 part = ((const uint4 *)from)[i];
            sum[4 * i] = part.x, sum[4 * i + 1] = part.y, sum[4 * i + 2] = part.z, sum[4 * i + 3] = part.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) sum[i] = 0;
#pragma unroll
    for (int i = 0; i < 64; i++)
        if (i < bytes) sum[i / 4] |= (Word)from[i] << 8 * (i % 4);
}

DEVICE void store(const Word *sum, Byte *to, Long bytes, bool aligned) {
    if (aligned && bytes >= 64) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint4 part = {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]};
            ((uint4 *)to)[i] = part;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 64; i++)
        if (i < bytes) to[i] = (Byte)(sum[i / 4] >> 8 * (i % 4));
}

// What one thread does. `source` and `target` may be the same; `keys` are pairs of 16 bytes.
DEVICE void mask_blocks(Long thread, const Byte *source, Byte *target, Long bytes, Word counter,
                        const uint4 *keys, Word masks, Word added) {
    bool aligned = (((size_t)source | (size_t)target) & 15) == 0;
    Word sum[BLOCKS][16];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        Long first = 64 * (thread * BLOCKS + b);
        if (first < bytes) load(sum[b], source + first, bytes - first, aligned);
    }
    counter += (Word)thread * BLOCKS;
#pragma unroll 1
    for (Word mask = 0; mask < masks; mask++) {
        uint4 low = FETCH(keys + 2 * mask), high = FETCH(keys + 2 * mask + 1);
        Word x[BLOCKS][16], start[16];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) first_state(x[b], low, high, counter + b);
#pragma unroll UNROLLED
        for (int round = 0; round < 10; round++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) double_round(x[b]);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            first_state(start, low, high, counter + b);
#pragma unroll
            for (int i = 0; i < 16; i++) x[b][i] += start[i];
            combine(sum[b], x[b], mask >= added);
        }
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        Long first = 64 * (thread * BLOCKS + b);
        if (first < bytes) store(sum[b], target + first, bytes - first, aligned);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(THREADS)
    add_masks(const Byte *source, Byte *target, Long bytes, Word counter, const uint4 *__restrict__ keys,
              Word masks, Word added) {
    Long thread = (Long)blockIdx.x * THREADS + threadIdx.x;
    if (thread * BLOCKS * 64 < bytes) mask_blocks(thread, source, target, bytes, counter, keys, masks, added);
}
#else
extern "C" void add_masks(const Byte *source, Byte *target, Long bytes, Word counter, const uint4 *keys,
                          Word masks, Word added) {
    for (Long thread = 0; thread * BLOCKS * 64 < bytes; thread++)
        mask_blocks(thread, source, target, bytes, counter, keys, masks, added);
}
#endif
