/* AES-128-CTR with the AES instructions of ARMv8. */
#include "kernel.h"
#if defined(ARM_AES)
#include <arm_neon.h>

#if defined(__clang__)
#define TARGET __attribute__((target("aes")))
#else
#define TARGET __attribute__((target("+crypto")))
#endif
#define VEC uint8x16_t
#define VEC_BYTES 16
#define WIDTH 8
#define SPREAD(p) vld1q_u8(p)
#define SWAP(v) vrev64q_u8(v)
/* AESE adds its key before the S-box, where x86 adds it after the columns are mixed. */
#define STEP(r, s, k) ((r) == 10 ? (VEC)((s) ^ (k)) : (r) == 9 ? vaeseq_u8(s, k) : vaesmcq_u8(vaeseq_u8(s, k)))
/* Where all columns are equal, shifting rows changes nothing: what is left of AESE is the S-box. */
#define SUBWORD(w) vgetq_lane_u32(vreinterpretq_u32_u8(vaeseq_u8(vreinterpretq_u8_u32(vdupq_n_u32(w)), vdupq_n_u8(0))), 0)

#include "aes_body.h"
DEFINE_AES(armv8)
#endif
