/* Which instructions this processor has, and the operating system saves. */
#include "kernel.h"

#define DECLARE(NAME) void NAME##_add(const Work *); uint64_t NAME##_limit(uint64_t);
#define PATH(GENERATOR, NAME, RUNS) {GENERATOR, #NAME, RUNS, NAME##_add, NAME##_limit}

static int always(void)
{
    return 1;
}

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

static unsigned feature(unsigned leaf, int in, int bit)
{
    unsigned found[4] = {0};
    return __get_cpuid_count(leaf, 0, &found[EAX], &found[EBX], &found[ECX], &found[EDX]) ? found[in] >> bit & 1 : 0;
}

/* Whether the operating system saves all these parts of the registers (XCR0). */
static int saves(unsigned parts)
{
    unsigned low, high;
    if (!feature(1, ECX, 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & parts) == parts;
}

static int has_aes(void)
{
    return feature(1, ECX, 25) && feature(1, ECX, 9);
}

static int has_avx2(void)
{
    return saves(0x06) && feature(7, EBX, 5);
}

static int has_avx512(void)
{
    return saves(0xe6) && feature(7, EBX, 16) && feature(7, EBX, 30);
}

static int has_vaes256(void)
{
    return has_aes() && has_avx2() && feature(7, ECX, 9);
}

static int has_vaes512(void)
{
    return has_aes() && has_avx512() && feature(7, ECX, 9);
}

DECLARE(vaes512) DECLARE(vaes256) DECLARE(aesni) DECLARE(avx512) DECLARE(avx2)

#elif defined(ARM_AES)
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
static int has_aes(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
}
#elif defined(__APPLE__)
#define has_aes always
#else
static int has_aes(void)
{
    return 0;
}
#endif

DECLARE(armv8)
#endif

DECLARE(vector128)

const Path PATHS[] = {
#if defined(__x86_64__)
    PATH("aes128-ctr", vaes512, has_vaes512),
    PATH("aes128-ctr", vaes256, has_vaes256),
    PATH("aes128-ctr", aesni, has_aes),
    PATH("chacha20", avx512, has_avx512),
    PATH("chacha20", avx2, has_avx2),
#elif defined(ARM_AES)
    PATH("aes128-ctr", armv8, has_aes),
#endif
    PATH("chacha20", vector128, always),
    {NULL, NULL, NULL, NULL, NULL},
};

/* A virtual machine takes longer to say what its processor has than to make a small mask: it is asked once.
   The interpreter's lock is held here. */
static int runs(const Path *path)
{
    static enum { UNKNOWN, NO, YES } known[sizeof PATHS / sizeof PATHS[0]];
    const ptrdiff_t place = path - PATHS;
    if (known[place] == UNKNOWN)
        known[place] = path->runs() ? YES : NO;
    return known[place] == YES;
}

const Path *find_path(const char *generator, const char *name)
{
    for (const Path *path = PATHS; path->name; path++)
        if (!strcmp(path->generator, generator) && (!name || !strcmp(path->name, name)) && runs(path))
            return path;
    return NULL;
}
