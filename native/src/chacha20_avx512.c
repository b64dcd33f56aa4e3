/* ChaCha20 on the 512-bit vectors of AVX-512, which also has rotations. */
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw")))
#define LANES 16
#include "chacha20_body.h"
DEFINE_CHACHA(avx512)
#endif
