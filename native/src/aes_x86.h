/* What the files for x86-64 share. */
#include <immintrin.h>

#define SUBWORD(w) ((uint32_t)_mm_cvtsi128_si32(_mm_aeskeygenassist_si128(_mm_set1_epi32((int)(w)), 0)))
#define LOAD_KEY(p) _mm_load_si128((const __m128i *)(p))
#define REVERSED _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
