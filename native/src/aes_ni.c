/* AES-128-CTR with AES-NI, a block per instruction: for nearly every x86-64 processor since 2010. */
#if defined(__x86_64__)
#include "aes_x86.h"

#define TARGET __attribute__((target("ssse3,aes")))
#define VEC __m128i
#define VEC_BYTES 16
#define WIDTH 8
#define SPREAD(p) LOAD_KEY(p)
#define SWAP(v) _mm_shuffle_epi8(v, REVERSED)
#define STEP(r, s, k) ((r) == 0 ? (VEC)((s) ^ (k)) : (r) == 10 ? _mm_aesenclast_si128(s, k) : _mm_aesenc_si128(s, k))

#include "aes_body.h"
DEFINE_AES(aesni)
#endif
