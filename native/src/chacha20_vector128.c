/* ChaCha20 on 128-bit vectors: SSE2 on x86-64, NEON on ARMv8, plain words wherever a compiler has neither. */
#define TARGET
#define LANES 4
#include "chacha20_body.h"
DEFINE_CHACHA(vector128)
