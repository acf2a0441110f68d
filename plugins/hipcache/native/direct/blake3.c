/* See blake3.h. Eight or sixteen inputs are hashed side by side in vectors that the compiler maps to what the machine
 * has: 1 to 6 GB/s. The official code is 20 times as long. */
#include "blake3.h"

#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { CHUNK = 1024, BLOCK = 64 };
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED = 16, CONTEXT = 32, MATERIAL = 64 };

static const uint32_t IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* A mode of the hash: what each chain begins with, and the flags of all blocks. */
typedef struct {
    uint32_t words[8], flags;
} mode;

static const mode PLAIN = {
    {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19}, 0};

/* The message words of each round: the permutation of the specification, applied again and again. */
static const uint8_t SCHEDULE[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

/* The inputs that are hashed side by side: the first one's counter and how it grows, the flags of each first and last
 * block, and of all. */
typedef struct {
    const mode *of;
    uint64_t counter;
    uint32_t step, start, end, all;
} input;

#define ROTATE(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
#define MIX(v, a, b, c, d, x, y)                                                                                       \
    do {                                                                                                               \
        v[a] += v[b] + (x), v[d] ^= v[a], v[d] = ROTATE(v[d], 16), v[c] += v[d], v[b] ^= v[c];                         \
        v[b] = ROTATE(v[b], 12), v[a] += v[b] + (y), v[d] ^= v[a], v[d] = ROTATE(v[d], 8);                             \
        v[c] += v[d], v[b] ^= v[c], v[b] = ROTATE(v[b], 7);                                                            \
    } while (0)
#define ROUND(v, m, s)                                                                                                 \
    do {                                                                                                               \
        MIX(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);                                                                         \
        MIX(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);                                                                         \
        MIX(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);                                                                        \
        MIX(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);                                                                        \
        MIX(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);                                                                        \
        MIX(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);                                                                      \
        MIX(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);                                                                       \
        MIX(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);                                                                       \
    } while (0)

static uint32_t little(const uint8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* One block into the chaining value `cv`. */
static void compress(uint32_t cv[8], const uint8_t block[BLOCK], uint64_t counter, uint32_t size, uint32_t flags) {
    /* clang-format off */
    uint32_t m[16], v[16] = {cv[0], cv[1], cv[2], cv[3], cv[4], cv[5], cv[6], cv[7], IV[0], IV[1], IV[2], IV[3],
                             (uint32_t)counter, (uint32_t)(counter >> 32), size, flags};
    /* clang-format on */
    for (int i = 0; i < 16; i++)
        m[i] = little(block + 4 * i);
    for (int r = 0; r < 7; r++)
        ROUND(v, m, SCHEDULE[r]);
    for (int i = 0; i < 8; i++)
        cv[i] = v[i] ^ v[i + 8];
}

/* A chunk of at most CHUNK bytes. */
static void chunk(const mode *of, const uint8_t *content, size_t size, uint64_t counter, uint32_t root,
                  uint32_t cv[8]) {
    uint32_t flags = of->flags | CHUNK_START;
    memcpy(cv, of->words, sizeof of->words);
    for (; size > BLOCK; content += BLOCK, size -= BLOCK, flags = of->flags)
        compress(cv, content, counter, BLOCK, flags);
    uint8_t last[BLOCK] = {0};
    if (size)
        memcpy(last, content, size);
    compress(cv, last, counter, (uint32_t)size, flags | CHUNK_END | root);
}

/* LANES inputs of `blocks` whole blocks, each `stride` bytes after the one before. */
#define LANES 8
#define HASH_LANES hash_8
#define VECTOR vector_8
#define TARGET
#include "blake3_lanes.h"

#ifdef __x86_64__
#define LANES 8
#define HASH_LANES hash_8_avx2
#define VECTOR vector_8_avx2
#define TARGET __attribute__((target("avx2")))
#include "blake3_lanes.h"

#define LANES 16
#define HASH_LANES hash_16
#define VECTOR vector_16
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw")))
#include "blake3_lanes.h"
#endif

enum { NOT_ASKED, BASE, AVX2, AVX512 };

/* This machine's vector units: Intel's manual, "Detection of AVX instructions". Each CPUID is a microsecond in a
 * virtual machine, where it is the hypervisor's: so it is asked once, for content that is worth it, and not by the
 * compiler's own way (`__builtin_cpu_supports`, `target_clones`), which asks a dozen times as the program starts. */
static int machine(void) {
    static _Atomic int known;
    int found = known;
    if (found != NOT_ASKED)
        return found;
    found = BASE;
#ifdef __x86_64__
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        unsigned saved, high;
        __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
        const unsigned wide = bit_AVX512F | bit_AVX512VL | bit_AVX512BW, ymm = 0x06, zmm = 0xE6;
        if ((saved & ymm) == ymm && (b & bit_AVX2))
            found = (saved & zmm) == zmm && (b & wide) == wide ? AVX512 : AVX2;
    }
#endif
    known = found;
    return found;
}

/* As many of `count` inputs as fit into vectors; how many that were. */
static size_t hash_many(const uint8_t *content, size_t stride, size_t blocks, input kind, size_t count,
                        uint32_t cv[][8]) {
    enum { WORTH_ASKING = 16 };
    size_t done = 0;
#ifdef __x86_64__
    const int can = count >= WORTH_ASKING ? machine() : BASE;
    if (can == AVX512)
        for (; count - done >= 16; done += 16, kind.counter += 16 * kind.step)
            hash_16(content + done * stride, stride, blocks, kind, cv + done);
    if (can != BASE)
        for (; count - done >= 8; done += 8, kind.counter += 8 * kind.step)
            hash_8_avx2(content + done * stride, stride, blocks, kind, cv + done);
#endif
    for (; count - done >= 8; done += 8, kind.counter += 8 * kind.step)
        hash_8(content + done * stride, stride, blocks, kind, cv + done);
    return done;
}

static void parent(const mode *of, const uint32_t left[8], const uint32_t right[8], uint32_t root, uint32_t cv[8]) {
    uint8_t block[BLOCK];
    for (int i = 0; i < 16; i++) {
        const uint32_t word = i < 8 ? left[i] : right[i - 8];
        for (int b = 0; b < 4; b++)
            block[4 * i + b] = (uint8_t)(word >> (8 * b));
    }
    memcpy(cv, of->words, sizeof of->words);
    compress(cv, block, 0, BLOCK, of->flags | PARENT | root);
}

/* A subtree of at most PIECE_BYTES that lies in memory. */
static void piece(const mode *of, const uint8_t *content, size_t size, uint64_t counter, uint32_t root,
                  uint32_t cv[8]) {
    uint32_t level[PIECE_BYTES / CHUNK][8];
    if (size <= CHUNK) {
        chunk(of, content, size, counter, root, cv);
        return;
    }
    const input chunks = {of, counter, 1, CHUNK_START, CHUNK_END, 0}, parents = {of, 0, 0, 0, 0, PARENT};
    size_t count = hash_many(content, CHUNK, CHUNK / BLOCK, chunks, size / CHUNK, level);
    for (; count * CHUNK < size; count++) {
        const size_t rest = size - count * CHUNK;
        chunk(of, content + count * CHUNK, rest < CHUNK ? rest : CHUNK, counter + count, 0, level[count]);
    }
    while (count > 1) { /* neighbours join; an odd one rises as it is */
        size_t i = 0;
        /* Two chaining values that follow one another are a block as it lies in memory. */
        if (count > 2 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
            i = 2 * hash_many((const uint8_t *)level, BLOCK, 1, parents, count / 2, level);
        for (; i + 1 < count; i += 2)
            parent(of, level[i], level[i + 1], count == 2 ? root : 0, level[i / 2]);
        if (count % 2)
            memmove(level[count / 2], level[count - 1], sizeof level[0]);
        count = (count + 1) / 2;
    }
    memcpy(cv, level[0], sizeof level[0]);
}

static bool subtree(const mode *of, blake3_next next, void *source, uint64_t size, uint64_t counter, uint32_t root,
                    uint32_t cv[8]) {
    if (size <= PIECE_BYTES) {
        const uint8_t *content = next(source, (size_t)size);
        if (content)
            piece(of, content, (size_t)size, counter, root, cv);
        return content != NULL;
    }
    uint64_t left = PIECE_BYTES; /* the greatest power of two below `size` */
    while (2 * left < size)
        left *= 2;
    uint32_t first[8], second[8];
    if (!subtree(of, next, source, left, counter, 0, first) ||
        !subtree(of, next, source, size - left, counter + left / CHUNK, 0, second))
        return false;
    parent(of, first, second, root, cv);
    return true;
}

static bool hash(const mode *of, blake3_next next, void *source, uint64_t size, uint8_t digest[DIGEST_BYTES]) {
    uint32_t cv[8];
    if (!subtree(of, next, source, size, 0, ROOT, cv))
        return false;
    for (int i = 0; i < DIGEST_BYTES; i++)
        digest[i] = (uint8_t)(cv[i / 4] >> (8 * (i % 4)));
    return true;
}

bool blake3_of(blake3_next next, void *source, uint64_t size, uint8_t digest[DIGEST_BYTES]) {
    return hash(&PLAIN, next, source, size, digest);
}

static const uint8_t *from_memory(void *source, size_t size) {
    const uint8_t **at = source, *content = *at;
    *at += size;
    return content;
}

static void hash_memory(const mode *of, const void *content, size_t size, uint8_t digest[DIGEST_BYTES]) {
    const uint8_t *at = size ? content : (const uint8_t *)""; /* nothing may be nowhere */
    hash(of, from_memory, &at, size, digest);
}

static mode mode_of(const uint8_t key[KEY_BYTES], uint32_t flags) {
    mode made = {.flags = flags};
    for (int i = 0; i < 8; i++)
        made.words[i] = little(key + 4 * i);
    return made;
}

void blake3(const void *content, size_t size, uint8_t digest[DIGEST_BYTES]) {
    hash_memory(&PLAIN, content, size, digest);
}

void blake3_keyed(const uint8_t key[KEY_BYTES], const void *content, size_t size, uint8_t digest[DIGEST_BYTES]) {
    const mode keyed = mode_of(key, KEYED);
    hash_memory(&keyed, content, size, digest);
}

void blake3_derive_key(const char *context, const void *secret, size_t size, uint8_t key[KEY_BYTES]) {
    mode first = PLAIN, second;
    uint8_t of_context[DIGEST_BYTES];
    first.flags = CONTEXT;
    hash_memory(&first, context, strlen(context), of_context);
    second = mode_of(of_context, MATERIAL);
    hash_memory(&second, secret, size, key);
}
