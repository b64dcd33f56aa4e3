/* Compares every path that this machine runs with the reference, on what the input says.

   Built with -DLIBFUZZER it is a harness for libFuzzer. Otherwise it has a main: known answers first, then random
   cases for as many seconds as are given (5 without), or until a difference ends it. Vectors lie at the very end of
   their memory, at odd addresses, so that a sanitizer sees every byte that is touched beyond them. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/kernel.h"
#include "reference.h"

enum { MOST_BYTES = 5000, MOST_MASKS = 300 };

static void fail(const char *text, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, text);
    abort();
}

/* Numbers for a case: the input's bytes first, then whatever follows from them. */
typedef struct {
    const uint8_t *data;
    size_t left;
    uint64_t state;
} Numbers;

static uint8_t next_byte(Numbers *numbers)
{
    uint64_t x = numbers->state ^ (numbers->left ? *numbers->data * UINT64_C(0x9e3779b97f4a7c15) : 0);
    if (numbers->left)
        numbers->data++, numbers->left--;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    numbers->state = x + 0x6a09e667;
    return (uint8_t)(x >> 32);
}

static uint64_t below(Numbers *numbers, uint64_t bound)
{
    uint64_t value = 0;
    for (int i = 0; i < 6; i++)
        value = value << 8 | next_byte(numbers);
    return value % bound;
}

static void reference_stream(int chacha, const uint8_t *key, uint64_t offset, uint8_t *stream, size_t bytes)
{
    uint8_t keys[176], block[64], counter[16];
    reference_expand(key, keys);
    for (size_t at = 0; at < bytes; at += chacha ? 64 : 16) {
        const size_t size = chacha ? 64 : 16;
        if (chacha)
            reference_chacha(key, (uint32_t)((offset + at) / 64), block);
        else {
            for (int i = 0; i < 16; i++)
                counter[i] = i < 8 ? 0 : (uint8_t)((offset + at) / 16 >> 8 * (15 - i));
            reference_aes(keys, counter, block);
        }
        memcpy(stream + at, block, bytes - at < size ? bytes - at : size);
    }
}

/* One word after the other, with a carry that ends at the word's end. */
static void reference_add(uint8_t *sum, const uint8_t *stream, size_t bytes, int log_word, int minus)
{
    unsigned carry = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (i % (1u << log_word) == 0)
            carry = 0;
        const unsigned result = minus ? 256u + sum[i] - stream[i] - carry : (unsigned)sum[i] + stream[i] + carry;
        carry = minus ? result < 256 : result > 255;
        sum[i] = (uint8_t)result;
    }
}

static void compare(const Path *path, Work work, const uint8_t *expected, int in_place, size_t shift)
{
    uint8_t *memory = malloc(shift + work.bytes), *other = malloc(shift / 3 + work.bytes);
    uint8_t *vector = memory + shift, *result = in_place ? vector : other + shift / 3;
    if (!memory || !other)
        fail("no memory", path->name);
    memcpy(vector, work.source, work.bytes);
    work.target = result;
    const uint8_t *source = work.source;
    work.source = vector;
    path->add(&work);
    if (memcmp(result, expected, work.bytes))
        fail("differs from the reference", path->name);
    if (!in_place && memcmp(vector, source, work.bytes))
        fail("changed its source", path->name);
    free(memory);
    free(other);
}

static void check_generator(const char *generator, Numbers *numbers)
{
    static uint8_t keys[32 * MOST_MASKS], negative[MOST_MASKS], source[MOST_BYTES], expected[MOST_BYTES];
    static uint8_t stream[MOST_BYTES];
    const int chacha = !strcmp(generator, "chacha20");
    const size_t key_bytes = chacha ? 32 : 16;
    Work work = {.source = source, .keys = keys, .negative = negative};
    work.log_word = (int)below(numbers, 4);
    work.count = below(numbers, 8) ? below(numbers, 6) : below(numbers, MOST_MASKS);
    work.bytes = (below(numbers, work.count > 8 ? 700 : MOST_BYTES) >> work.log_word) << work.log_word;
    const uint64_t blocks = (work.bytes + 63) / 64;
    /* The end of chacha20's blocks, and carries from each byte of a counter into the next. */
    const uint64_t most = chacha ? (UINT64_C(1) << 32) - blocks : UINT64_C(1) << 57;
    const uint64_t near = UINT64_C(1) << below(numbers, chacha ? 33 : 57);
    work.offset = 64 * (near > blocks && near - blocks <= most ? near - blocks + below(numbers, 2) * (near < most) : 0);
    for (size_t i = 0; i < work.bytes; i++)
        expected[i] = source[i] = next_byte(numbers);
    for (size_t i = 0; i < key_bytes * work.count; i++)
        keys[i] = next_byte(numbers);
    for (size_t i = 0; i < work.count; i++) {
        negative[i] = next_byte(numbers) & 1;
        reference_stream(chacha, keys + key_bytes * i, work.offset, stream, work.bytes);
        reference_add(expected, stream, work.bytes, work.log_word, negative[i]);
    }
    const int in_place = next_byte(numbers) & 1;
    const size_t shift = below(numbers, 64);
    for (const Path *path = PATHS; work.bytes && path->name; path++)
        if (!strcmp(path->generator, generator) && path->runs())
            compare(path, work, expected, in_place, shift);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Numbers numbers = {data, size, 1};
    check_generator("aes128-ctr", &numbers);
    check_generator("chacha20", &numbers);
    return 0;
}

#ifndef LIBFUZZER
static void known(const char *name, const uint8_t *found, const char *expected)
{
    char text[129] = {0};
    for (size_t i = 0; i < strlen(expected) / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", found[i]);
    if (strcmp(text, expected))
        fail("the reference gives another answer than its document", name);
}

/* The reference itself: SP 800-38A, section F.5.1, and RFC 8439, appendix A.1, number 4. */
static void check_reference(void)
{
    static const uint8_t KEY[16] = "\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c";
    uint8_t keys[176], counter[16], out[64], key[32] = {0, 0xff};
    for (int i = 0; i < 16; i++)
        counter[i] = (uint8_t)(0xf0 + i);
    reference_expand(KEY, keys);
    reference_aes(keys, counter, out);
    known("AES-128", out, "ec8cdf7398607cb0f2d21675ea9ea1e4");
    reference_chacha(key, 2, out);
    known("ChaCha20", out,
          "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
          "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096");
}

int main(int count, char **arguments)
{
    const double seconds = count > 1 ? atof(arguments[1]) : 5;
    const uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL);
    const time_t start = time(NULL);
    uint64_t cases = 0, input[8];
    check_reference();
    while (difftime(time(NULL), start) < seconds) {
        for (int i = 0; i < 8; i++)
            input[i] = (seed + cases) * UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(2 * i + 1);
        LLVMFuzzerTestOneInput((const uint8_t *)input, sizeof input);
        cases++;
    }
    printf("%llu cases from seed %llu agree with the reference:", (unsigned long long)cases, (unsigned long long)seed);
    for (const Path *path = PATHS; path->name; path++)
        printf(" %s%s", path->name, path->runs() ? "" : " (not on this processor)");
    printf("\n");
    return 0;
}
#endif
