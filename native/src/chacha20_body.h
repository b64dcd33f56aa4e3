/* ChaCha20 (RFC 8439, zero nonce), written once for all widths of vectors. The file that includes this defines

     TARGET     the attribute that allows its instructions
     LANES      blocks that are made side by side, one per 32-bit lane: 4, 8 or 16
     ROTATE_16, ROTATE_8    if it has something better than two shifts

   Vector i of a chunk holds word i of each block. The source is brought into this order once per chunk and back
   once, so that no mask has to be. Nothing here branches on a secret or reads memory at an address that depends
   on one. */

#include "kernel.h"

#define VEC_BYTES (4 * LANES)
#define CHUNK (64 * LANES)

typedef uint8_t bytes8 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t words16 __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t words32 __attribute__((vector_size(VEC_BYTES)));

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))
#ifndef ROTATE_16
#define ROTATE_16(x) ROTATE(x, 16)
#define ROTATE_8(x) ROTATE(x, 8)
#endif
#define QUARTER(a, b, c, d)                                                          \
    x[a] += x[b]; x[d] ^= x[a]; x[d] = ROTATE_16(x[d]);                              \
    x[c] += x[d]; x[b] ^= x[c]; x[b] = ROTATE(x[b], 12);                             \
    x[a] += x[b]; x[d] ^= x[a]; x[d] = ROTATE_8(x[d]);                               \
    x[c] += x[d]; x[b] ^= x[c]; x[b] = ROTATE(x[b], 7);

TARGET INLINE void double_round(words32 *x)
{
    QUARTER(0, 4, 8, 12) QUARTER(1, 5, 9, 13) QUARTER(2, 6, 10, 14) QUARTER(3, 7, 11, 15)
    QUARTER(0, 5, 10, 15) QUARTER(1, 6, 11, 12) QUARTER(2, 7, 8, 13) QUARTER(3, 4, 9, 14)
}

/* Square matrices of LANES rows are transposed by swapping ever larger off-diagonal squares. */
#define LOW(lane, d) ((lane) & (d) ? LANES + (lane) - (d) : (lane))
#define HIGH(lane, d) ((lane) & (d) ? LANES + (lane) : (lane) + (d))
#define FOUR(f, d, i) f(i, d), f(i + 1, d), f(i + 2, d), f(i + 3, d)
#if LANES == 4
#define EACH(f, d) FOUR(f, d, 0)
#elif LANES == 8
#define EACH(f, d) FOUR(f, d, 0), FOUR(f, d, 4)
#else
#define EACH(f, d) FOUR(f, d, 0), FOUR(f, d, 4), FOUR(f, d, 8), FOUR(f, d, 12)
#endif
#define SWAP_SQUARES(d)                                                              \
    UNROLL for (int i = 0; i < LANES; i++) if (!(i & (d))) {                         \
        const words32 one = row[i], other = row[i + (d)];                            \
        row[i] = __builtin_shufflevector(one, other, EACH(LOW, d));                  \
        row[i + (d)] = __builtin_shufflevector(one, other, EACH(HIGH, d));           \
    }

TARGET INLINE void transpose(words32 *row)
{
    SWAP_SQUARES(1)
    SWAP_SQUARES(2)
#if LANES > 4
    SWAP_SQUARES(4)
#endif
#if LANES > 8
    SWAP_SQUARES(8)
#endif
}

TARGET INLINE void load_chunk(words32 *sum, const uint8_t *source)
{
    UNROLL for (int part = 0; part < 16; part += LANES) {
        UNROLL for (int i = 0; i < LANES; i++) memcpy(&sum[part + i], source + 64 * i + 4 * part, VEC_BYTES);
        transpose(sum + part);
    }
}

TARGET INLINE void store_chunk(words32 *sum, uint8_t *target)
{
    UNROLL for (int part = 0; part < 16; part += LANES) {
        transpose(sum + part);
        UNROLL for (int i = 0; i < LANES; i++) memcpy(target + 64 * i + 4 * part, &sum[part + i], VEC_BYTES);
    }
}

#define COMBINE(words, a, b, minus) ((words32)((minus) ? (words)(a) - (words)(b) : (words)(a) + (words)(b)))

/* Words of 64 bits lie in two vectors, the lower half first: a comparison gives -1 where there is a carry. */
TARGET INLINE void combine_halves(words32 *sum, const words32 *stream, int minus)
{
    UNROLL for (int i = 0; i < 16; i += 2) {
        const words32 low = minus ? sum[i] - stream[i] : sum[i] + stream[i];
        if (minus)
            sum[i + 1] = sum[i + 1] - stream[i + 1] + (words32)(sum[i] < stream[i]);
        else
            sum[i + 1] = sum[i + 1] + stream[i + 1] - (words32)(low < stream[i]);
        sum[i] = low;
    }
}

TARGET INLINE void combine(words32 *sum, const words32 *stream, int log_word, int minus)
{
    if (log_word == 3) {
        combine_halves(sum, stream, minus);
        return;
    }
    UNROLL for (int i = 0; i < 16; i++) {
        switch (log_word) {
        case 0: sum[i] = COMBINE(bytes8, sum[i], stream[i], minus); break;
        case 1: sum[i] = COMBINE(words16, sum[i], stream[i], minus); break;
        default: sum[i] = COMBINE(words32, sum[i], stream[i], minus); break;
        }
    }
}

TARGET INLINE void first_state(words32 *x, const uint8_t *key, uint32_t block)
{
    static const uint32_t NUMBERS[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const uint32_t CONSTANTS[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    uint32_t word[16] = {0};
    words32 numbers;
    memcpy(word, CONSTANTS, sizeof CONSTANTS);
    memcpy(word + 4, key, 32);
    memcpy(&numbers, NUMBERS, VEC_BYTES);
    UNROLL for (int i = 0; i < 16; i++) x[i] = (words32){0} + word[i];
    x[12] = numbers + block;
}

TARGET INLINE void add_mask(words32 *sum, const uint8_t *key, uint32_t block, int log_word, int minus)
{
    words32 x[16], first[16];
    first_state(first, key, block);
    UNROLL for (int i = 0; i < 16; i++) x[i] = first[i];
    for (int round = 0; round < 10; round++)
        double_round(x);
    UNROLL for (int i = 0; i < 16; i++) x[i] += first[i];
    if (minus)
        combine(sum, x, log_word, 1);
    else
        combine(sum, x, log_word, 0);
}

TARGET INLINE void add_chunk(const uint8_t *source, uint8_t *target, uint32_t block, const Work *work, int log_word)
{
    words32 sum[16];
    load_chunk(sum, source);
    for (size_t mask = 0; mask < work->count; mask++)
        add_mask(sum, work->keys + 32 * mask, block, log_word, work->negative[mask]);
    store_chunk(sum, target);
}

/* Block numbers of a last, partial chunk may wrap; bytes of such blocks are thrown away. */
TARGET INLINE void add_words(const Work *work, int log_word)
{
    uint32_t block = (uint32_t)(work->offset / 64);
    size_t at = 0;
    for (; work->bytes - at >= CHUNK; at += CHUNK, block += LANES)
        add_chunk(work->source + at, work->target + at, block, work, log_word);
    if (at < work->bytes) {
        uint8_t rest[CHUNK] = {0};
        memcpy(rest, work->source + at, work->bytes - at);
        add_chunk(rest, rest, block, work, log_word);
        memcpy(work->target + at, rest, work->bytes - at);
        wipe(rest, sizeof rest);
    }
}

/* Twenty rounds on registers for each block: nothing is loaded, added or stored. */
TARGET INLINE uint64_t run_rounds(uint64_t bytes)
{
    static const uint8_t KEY[32] = {0};
    words32 x[16], total = {0};
    first_state(x, KEY, (uint32_t)bytes);
    for (uint64_t done = 0; done < bytes; done += CHUNK)
        for (int round = 0; round < 10; round++)
            double_round(x);
    UNROLL for (int i = 0; i < 16; i++) total ^= x[i];
    return total[0];
}

#define DEFINE_CHACHA(NAME)                          \
    DEFINE_ADD(NAME)                                 \
    TARGET uint64_t NAME##_limit(uint64_t bytes)     \
    {                                                \
        return run_rounds(bytes);                    \
    }
