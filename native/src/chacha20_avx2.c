/* ChaCha20 on the 256-bit vectors of AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define LANES 8
/* Whole bytes are moved by one shuffle. */
#define MOVED(a, b, c, d) \
    _mm256_setr_epi8(a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, \
                     d + 12, a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, \
                     c + 12, d + 12)
#define ROTATE_16(x) (words32) _mm256_shuffle_epi8((__m256i)(x), MOVED(2, 3, 0, 1))
#define ROTATE_8(x) (words32) _mm256_shuffle_epi8((__m256i)(x), MOVED(3, 0, 1, 2))

#include "chacha20_body.h"
DEFINE_CHACHA(avx2)
#endif
