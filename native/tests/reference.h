/* The two generators as their documents write them, byte by byte: slow, and plain enough to be read beside them. */
#include <stdint.h>
#include <string.h>

static uint8_t twice(uint8_t a)
{
    return (uint8_t)(a << 1 ^ (a >> 7) * 0x1b);
}

static uint8_t times(uint8_t a, uint8_t b)
{
    uint8_t product = 0;
    for (; b; b >>= 1, a = twice(a))
        product ^= b & 1 ? a : 0;
    return product;
}

/* FIPS 197, section 5.1.1: the inverse, and an affine map. */
static uint8_t substitute(uint8_t byte)
{
    static uint8_t table[256];
    static int made;
    if (!made) {
        for (int x = 0; x < 256; x++) {
            uint8_t inverse = 1, result = 0x63;
            for (int i = 0; i < 254; i++)
                inverse = times(inverse, (uint8_t)x);
            for (int turn = 0; turn < 5; turn++)
                result ^= (uint8_t)(inverse << turn | inverse >> (8 - turn));
            table[x] = result;
        }
        made = 1;
    }
    return table[byte];
}

static void reference_expand(const uint8_t *key, uint8_t keys[176])
{
    uint8_t constant = 1;
    memcpy(keys, key, 16);
    for (int i = 16; i < 176; i += 4) {
        uint8_t word[4] = {keys[i - 4], keys[i - 3], keys[i - 2], keys[i - 1]};
        if (i % 16 == 0) {
            const uint8_t turned[4] = {word[1], word[2], word[3], word[0]};
            for (int j = 0; j < 4; j++)
                word[j] = substitute(turned[j]);
            word[0] ^= constant;
            constant = twice(constant);
        }
        for (int j = 0; j < 4; j++)
            keys[i + j] = keys[i + j - 16] ^ word[j];
    }
}

static void reference_aes(const uint8_t keys[176], const uint8_t in[16], uint8_t out[16])
{
    uint8_t state[16], moved[16];
    for (int i = 0; i < 16; i++)
        state[i] = in[i] ^ keys[i];
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < 16; i++)
            moved[i] = substitute(state[(i + 4 * (i % 4)) % 16]);
        for (int i = 0; i < 16; i++) {
            const uint8_t *column = moved + i / 4 * 4;
            state[i] = moved[i];
            if (round < 10)
                state[i] = twice(column[i % 4] ^ column[(i + 1) % 4]) ^ column[(i + 1) % 4] ^ column[(i + 2) % 4] ^
                           column[(i + 3) % 4];
        }
        for (int i = 0; i < 16; i++)
            state[i] ^= keys[16 * round + i];
    }
    memcpy(out, state, 16);
}

static uint32_t turn(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void reference_quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b; *d = turn(*d ^ *a, 16);
    *c += *d; *b = turn(*b ^ *c, 12);
    *a += *b; *d = turn(*d ^ *a, 8);
    *c += *d; *b = turn(*b ^ *c, 7);
}

/* RFC 8439, section 2.3. */
static void reference_chacha(const uint8_t *key, uint32_t block, uint8_t out[64])
{
    uint32_t first[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
    memcpy(first + 4, key, 32);
    first[12] = block;
    memcpy(x, first, sizeof x);
    for (int i = 0; i < 80; i++) {
        const int column = i % 4, diagonal = i / 4 % 2;
        reference_quarter(&x[column], &x[4 + (column + diagonal) % 4], &x[8 + (column + 2 * diagonal) % 4],
                          &x[12 + (column + 3 * diagonal) % 4]);
    }
    for (int i = 0; i < 16; i++)
        x[i] += first[i];
    memcpy(out, x, sizeof x);
}
