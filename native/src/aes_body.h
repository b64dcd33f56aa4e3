/* AES-128-CTR, written once for all widths of vectors. The file that includes this defines

     TARGET             the attribute that allows its instructions
     VEC, VEC_BYTES     a vector of whole 16-byte blocks
     WIDTH              vectors that are encrypted side by side
     SPREAD(p)          the 16 bytes at p in every block of a vector
     SWAP(v)            the bytes of each 64-bit half in reverse order
     STEP(r, s, k)      what round key r = 0 ... 10 does to state s
     SUBWORD(w)         the S-box on each byte of a 32-bit word

   All streams of a vector have the same counters: they are computed once per chunk and shared by all masks.
   The sums stay in registers from the first mask to the last; each byte of the vector is read and written once
   for GROUP masks. Nothing here branches on a secret or reads memory at an address that depends on one. */

#include "kernel.h"

#define ROUND_KEYS 11
#define BLOCKS (VEC_BYTES / 16)
#define CHUNK (WIDTH * VEC_BYTES)
/* Masks whose expanded keys (176 bytes each) stay in the first-level cache. */
#define GROUP 128

typedef uint8_t words0 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t words1 __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t words2 __attribute__((vector_size(VEC_BYTES)));
typedef uint64_t words3 __attribute__((vector_size(VEC_BYTES)));

typedef struct {
    _Alignas(64) uint8_t keys[GROUP][ROUND_KEYS][16]; /* first those to add, then those to subtract */
    size_t plus, count;
} Group;

/* FIPS 197, section 5.2. */
TARGET static void expand(const uint8_t *key, uint8_t *round_keys)
{
    uint32_t word[4 * ROUND_KEYS], constant = 1;
    memcpy(word, key, 16);
    for (int i = 4; i < 4 * ROUND_KEYS; i++) {
        uint32_t before = word[i - 1];
        if (i % 4 == 0) {
            before = SUBWORD(before);
            before = (before >> 8 | before << 24) ^ constant;
            constant = constant << 1 ^ (constant >> 7) * 0x11b;
        }
        word[i] = word[i - 4] ^ before;
    }
    memcpy(round_keys, word, sizeof word);
    wipe(word, sizeof word);
}

/* Each sign is read once: another thread may own that memory, and whatever it writes, all keys find their place. */
TARGET static void expand_group(Group *group, const Work *work, size_t first, size_t count)
{
    size_t plus = 0, minus = count;
    for (size_t i = first; i < first + count; i++)
        expand(work->keys + 16 * i, group->keys[work->negative[i] ? --minus : plus++][0]);
    group->plus = plus;
    group->count = count;
}

#define COMBINE(words, a, b, minus) ((VEC)((minus) ? (words)(a) - (words)(b) : (words)(a) + (words)(b)))

TARGET INLINE void add_mask(VEC *sum, const VEC *counter, const uint8_t (*key)[16], int log_word, int minus)
{
    VEC state[WIDTH];
    UNROLL for (int i = 0; i < WIDTH; i++) state[i] = counter[i];
    UNROLL for (int round = 0; round < ROUND_KEYS; round++) {
        const VEC round_key = SPREAD(key[round]);
        UNROLL for (int i = 0; i < WIDTH; i++) state[i] = STEP(round, state[i], round_key);
    }
    UNROLL for (int i = 0; i < WIDTH; i++) {
        switch (log_word) {
        case 0: sum[i] = COMBINE(words0, sum[i], state[i], minus); break;
        case 1: sum[i] = COMBINE(words1, sum[i], state[i], minus); break;
        case 2: sum[i] = COMBINE(words2, sum[i], state[i], minus); break;
        default: sum[i] = COMBINE(words3, sum[i], state[i], minus); break;
        }
    }
}

/* The big-endian 128-bit numbers of the blocks from `block` on; no number reaches 2^64. */
TARGET INLINE void count_blocks(VEC *counter, uint64_t block)
{
    static const uint64_t NUMBERS[8] = {0, 0, 0, 1, 0, 2, 0, 3}, LOW[8] = {0, ~0ull, 0, ~0ull, 0, ~0ull, 0, ~0ull};
    words3 numbers, low;
    memcpy(&numbers, NUMBERS, VEC_BYTES);
    memcpy(&low, LOW, VEC_BYTES);
    UNROLL for (int i = 0; i < WIDTH; i++)
        counter[i] = SWAP((VEC)(numbers + (low & (block + (uint64_t)(i * BLOCKS)))));
}

TARGET INLINE void add_chunk(const uint8_t *source, uint8_t *target, uint64_t block, const Group *group, int log_word)
{
    VEC sum[WIDTH], counter[WIDTH];
    size_t mask = 0;
    count_blocks(counter, block);
    UNROLL for (int i = 0; i < WIDTH; i++) memcpy(&sum[i], source + i * VEC_BYTES, VEC_BYTES);
    for (; mask < group->plus; mask++)
        add_mask(sum, counter, group->keys[mask], log_word, 0);
    for (; mask < group->count; mask++)
        add_mask(sum, counter, group->keys[mask], log_word, 1);
    UNROLL for (int i = 0; i < WIDTH; i++) memcpy(target + i * VEC_BYTES, &sum[i], VEC_BYTES);
}

TARGET INLINE void add_group(const uint8_t *source, const Work *work, const Group *group, int log_word)
{
    uint64_t block = work->offset / 16;
    size_t at = 0;
    for (; work->bytes - at >= CHUNK; at += CHUNK, block += CHUNK / 16)
        add_chunk(source + at, work->target + at, block, group, log_word);
    if (at < work->bytes) {
        uint8_t rest[CHUNK] = {0};
        memcpy(rest, source + at, work->bytes - at);
        add_chunk(rest, rest, block, group, log_word);
        memcpy(work->target + at, rest, work->bytes - at);
        wipe(rest, sizeof rest);
    }
}

TARGET INLINE void add_words(const Work *work, int log_word)
{
    Group group;
    const uint8_t *source = work->source;
    size_t first = 0;
    do {
        const size_t left = work->count - first;
        expand_group(&group, work, first, left < GROUP ? left : GROUP);
        add_group(source, work, &group, log_word);
        source = work->target;
        first += GROUP;
    } while (first < work->count);
    wipe(&group, sizeof group);
}

/* Ten rounds on registers for each block: nothing is loaded, added or stored. */
TARGET INLINE uint64_t run_rounds(uint64_t bytes)
{
    VEC state[8];
    words3 total = {0};
    const VEC round_key = (VEC)(total + bytes);
    UNROLL for (int i = 0; i < 8; i++) state[i] = (VEC)(total + (uint64_t)i);
    for (uint64_t done = 0; done < bytes; done += sizeof state) {
        UNROLL for (int round = 1; round < ROUND_KEYS; round++)
            UNROLL for (int i = 0; i < 8; i++) state[i] = STEP(1, state[i], round_key);
    }
    UNROLL for (int i = 0; i < 8; i++) total ^= (words3)state[i];
    return total[0] ^ total[1];
}

#define DEFINE_AES(NAME)                             \
    DEFINE_ADD(NAME)                                 \
    TARGET uint64_t NAME##_limit(uint64_t bytes)     \
    {                                                \
        return run_rounds(bytes);                    \
    }
