/* The processor, as far as the driver looks at it for `native` (-march=, -mcpu=, -mtune=): by the instructions CPUID
 * and XGETBV, which no list of paths shows. What LLVM 15 to 22 reads is in the digest
 * (llvm/lib/TargetParser/Host.cpp: getHostCPUName, getHostCPUFeatures), and the name of the model, in case a later
 * one reads more. What differs from core to core is not (the number of the core in leaf 1, sizes in leaf 0xd).
 *
 * In a virtual machine all of it takes a tenth of a millisecond, so only records that depend on it ask. Of other
 * processors than x86-64, LLVM reads /proc/cpuinfo: for them there is no digest. */
#define _GNU_SOURCE
#include "look.h"

#ifdef __x86_64__
#include <cpuid.h>

static const char DOMAIN[] = "hipcache processor 1";
enum { EAX = 1, EBX = 2, ECX = 4, EDX = 8, ALL = 15, EXTENDED = 31, OSXSAVE = 1 << 27 };

static const struct {
    unsigned leaf, part, kept;
} ASKED[] = {
    /* clang-format off */
    {0, 0, ALL},
    {1, 0, EAX | ECX | EDX},
    {7, 0, ALL},
    {7, 1, ALL},
    {0xd, 1, EAX},
    {0x14, 0, EBX},
    {0x19, 0, EBX},
    {0x1e, 1, EAX},
    {0x24, 0, EBX},
    {0x29, 0, EBX},
    {0x80000000, 0, ALL},
    {0x80000001, 0, ECX | EDX},
    {0x80000002, 0, ALL},
    {0x80000003, 0, ALL},
    {0x80000004, 0, ALL},
    {0x80000008, 0, EBX},
    /* clang-format on */
};

static void append_features(bytes *text) {
    unsigned most[2] = {0, 1U << EXTENDED}; /* leaves; one that is not there has the values of another */
    bool saves = false;
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++) {
        const unsigned leaf = ASKED[i].leaf, extended = leaf >> EXTENDED;
        unsigned found[4] = {0};
        if (leaf <= most[extended])
            __cpuid_count(leaf, ASKED[i].part, found[0], found[1], found[2], found[3]);
        if (leaf == extended << EXTENDED)
            most[extended] = found[0];
        saves = saves || (leaf == 1 && (found[2] & OSXSAVE));
        for (unsigned j = 0; j < 4; j++)
            look_number(text, ASKED[i].kept >> j & 1 ? found[j] : 0);
    }
    /* The registers that the kernel keeps: without theirs, AVX and AMX are not to be used. */
    unsigned low = 0, high = 0;
    if (saves)
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    look_number(text, low), look_number(text, high);
}

bool look_processor(bytes *state) {
    uint8_t room[1024], digest[DIGEST_BYTES];
    bytes text = BEGINS_IN(room);
    append(&text, DOMAIN, sizeof DOMAIN);
    append_features(&text);
    const bool whole = !text.failed;
    if (whole)
        blake3(text.at, text.size, digest), append(state, digest, DIGEST_BYTES);
    release(&text);
    return whole;
}
#else
bool look_processor(bytes *state) {
    (void)state;
    return false;
}
#endif
