/* AES-128-CTR with VAES on the 256-bit vectors of AVX2: two blocks per instruction, for processors without AVX-512. */
#if defined(__x86_64__)
#include "aes_x86.h"

#define TARGET __attribute__((target("avx2,vaes,aes")))
#define VEC __m256i
#define VEC_BYTES 32
#define WIDTH 4 /* state, counters and sums fit into 16 registers */
#define SPREAD(p) _mm256_broadcastsi128_si256(LOAD_KEY(p))
#define SWAP(v) _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(REVERSED))
#define STEP(r, s, k) \
    ((r) == 0 ? (VEC)((s) ^ (k)) : (r) == 10 ? _mm256_aesenclast_epi128(s, k) : _mm256_aesenc_epi128(s, k))

#include "aes_body.h"
DEFINE_AES(vaes256)
#endif
