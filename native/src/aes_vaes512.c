/* AES-128-CTR with VAES on the 512-bit vectors of AVX-512: four blocks per instruction. */
#if defined(__x86_64__)
#include "aes_x86.h"

#define TARGET __attribute__((target("avx512f,avx512bw,vaes,aes")))
#define VEC __m512i
#define VEC_BYTES 64
#define WIDTH 8
#define SPREAD(p) _mm512_broadcast_i32x4(LOAD_KEY(p))
#define SWAP(v) _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(REVERSED))
#define STEP(r, s, k) \
    ((r) == 0 ? (VEC)((s) ^ (k)) : (r) == 10 ? _mm512_aesenclast_epi128(s, k) : _mm512_aesenc_epi128(s, k))

#include "aes_body.h"
DEFINE_AES(vaes512)
#endif
