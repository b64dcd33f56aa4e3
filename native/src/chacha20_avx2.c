/* ChaCha20 on the 256-bit vectors of AVX2. */
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define LANES 8
#include "chacha_body.h"
DEFINE_CHACHA(avx2)
#endif
