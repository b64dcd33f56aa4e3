/* What every kernel is: a function that adds keystreams to one contiguous part of a vector. */
#ifndef CCESA_KERNEL_H
#define CCESA_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are little-endian, and so must be the machine"
#endif

/* Older clangs know these instructions only where all processors that they compile for have them. */
#if defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16 || defined(__ARM_FEATURE_AES))
#define ARM_AES
#endif

#define INLINE static inline __attribute__((always_inline))
/* Loops of fixed length over registers have to be unrolled, or the registers become memory. */
#define UNROLL _Pragma("GCC unroll 16")

/* target = source plus and minus `count` keystreams, in words of 2^log_word bytes.
   The caller has checked everything: see masks.c. */
typedef struct {
    const uint8_t *source; /* equal to target, or apart from it */
    uint8_t *target;
    size_t bytes;
    uint64_t offset; /* of the first byte in the keystreams, a multiple of 64 */
    const uint8_t *keys;
    const uint8_t *negative; /* per key: 1 subtracts */
    size_t count;
    int log_word;
} Work;

/* One way to make the keystream of one generator. */
typedef struct {
    const char *generator;
    const char *name;
    int (*runs)(void); /* on this processor, under this operating system */
    void (*add)(const Work *);
    uint64_t (*limit)(uint64_t bytes); /* the bare instructions for so many bytes of keystream */
} Path;

/* The fastest path of a generator, or the one that is named; NULL where this machine runs none. */
const Path *find_path(const char *generator, const char *name);
/* All paths that were compiled, the fastest of each generator first; ends with one that has no name. */
extern const Path PATHS[];

/* A memset that stays although nothing reads the memory afterwards. */
static inline void wipe(void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* Defines NAME_add, which calls add_words with a constant word size, so that each size is compiled on its own. */
#define DEFINE_ADD(NAME)                                 \
    TARGET void NAME##_add(const Work *work)             \
    {                                                    \
        switch (work->log_word) {                        \
        case 0: add_words(work, 0); break;               \
        case 1: add_words(work, 1); break;               \
        case 2: add_words(work, 2); break;               \
        default: add_words(work, 3); break;              \
        }                                                \
    }

#endif
