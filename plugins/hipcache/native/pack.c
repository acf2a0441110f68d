/* Reads entries of a store, in files of their own or in packs, whose format stands in store/packs.py. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* zstd's stable interface (zstd.h). The launcher has it linked in; the library takes the system's as it is needed. */
typedef struct {
    void *at;
    size_t size, pos;
} zstd_buffer;
typedef struct {
    void *(*create)(void);
    size_t (*release)(void *stream);
    size_t (*decode)(void *stream, zstd_buffer *out, zstd_buffer *in);
    size_t (*prefix)(void *stream, const void *content, size_t size);
    size_t (*set)(void *stream, int parameter, int value);
    unsigned (*failed)(size_t code);
} zstd;

#ifdef ZSTD_LINKED
extern void *ZSTD_createDStream(void);
extern size_t ZSTD_freeDStream(void *);
extern size_t ZSTD_decompressStream(void *, zstd_buffer *, zstd_buffer *);
extern size_t ZSTD_DCtx_refPrefix(void *, const void *, size_t);
extern size_t ZSTD_DCtx_setParameter(void *, int, int);
extern unsigned ZSTD_isError(size_t);
static bool zstd_load(zstd *of) {
    *of = (zstd){ZSTD_createDStream, ZSTD_freeDStream, ZSTD_decompressStream, ZSTD_DCtx_refPrefix,
                 ZSTD_DCtx_setParameter, ZSTD_isError};
    return true;
}
#elif defined ZSTD_LOADED
#include <dlfcn.h>
static bool zstd_load(zstd *of) {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    *(void **)&of->create = dlsym(library, "ZSTD_createDStream");
    *(void **)&of->release = dlsym(library, "ZSTD_freeDStream");
    *(void **)&of->decode = dlsym(library, "ZSTD_decompressStream");
    *(void **)&of->prefix = dlsym(library, "ZSTD_DCtx_refPrefix");
    *(void **)&of->set = dlsym(library, "ZSTD_DCtx_setParameter");
    *(void **)&of->failed = dlsym(library, "ZSTD_isError");
    return of->create && of->release && of->decode && of->prefix && of->set && of->failed;
}
#else
static bool zstd_load(zstd *of) {
    (void)of;
    return false;
}
#endif

enum {
    MAGIC_BYTES = 8,
    PACK_NAME_BYTES = 12,
    FINGERPRINT_BYTES = 8,
    SLOT_BYTES = FINGERPRINT_BYTES + PACK_NAME_BYTES,
    PROBES = 64,
    HEAD_BYTES = 32,
    FRAME_BYTES = 24,
    ENTRY_BYTES = 44,
    MOST_ENTRIES = 1 << 16,
    MOST_FRAMES = 256,
    MOST_BASES = 8,
    MOST_PREFIX = 4 << 20,
    MOST_FRAME = 1 << 29 /* bytes of its content */
};
static const uint8_t INDEX_MAGIC[MAGIC_BYTES] = {0x89, 'h', 'c', 'I', '1', '\r', '\n', 0x1a};
static const uint8_t PACK_MAGIC[MAGIC_BYTES] = {0x89, 'h', 'c', 'P', '1', '\r', '\n', 0x1a};

static uint64_t number(const uint8_t *at, int size) {
    uint64_t value = 0;
    while (size--)
        value = value << 8 | at[size];
    return value;
}

static bool read_at(int fd, void *to, size_t size, uint64_t at) {
    return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* A frame of a pack: bytes there, and of its content; where its base is, if it has one. */
typedef struct {
    uint64_t at;
    uint32_t stored, size, base_number;
    uint8_t base[PACK_NAME_BYTES];
    bool based;
} frame;

/* Where an entry lies: behind `before` bytes of the frame's content. */
typedef struct {
    int store, fd;
    frame of;
    uint32_t before, size;
    uint8_t bases[MOST_BASES][PACK_NAME_BYTES];
    size_t base_count;
    struct stat status;
} place;

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void pack_name(const uint8_t pack[PACK_NAME_BYTES], char name[16 + 2 * PACK_NAME_BYTES]) {
    memcpy(name, "packs/", 6);
    hexadecimal(pack, PACK_NAME_BYTES, name + 6);
}

static frame frame_of(const uint8_t *table, size_t count, size_t entries, size_t which) {
    static const uint8_t NONE[PACK_NAME_BYTES] = {0};
    const uint8_t *row = table + which * FRAME_BYTES;
    frame found = {HEAD_BYTES + count * FRAME_BYTES + entries * ENTRY_BYTES, (uint32_t)number(row, 4),
                   (uint32_t)number(row + 4, 4), (uint32_t)number(row + 20, 4), {0}, memcmp(row + 8, NONE, sizeof NONE) != 0};
    memcpy(found.base, row + 8, PACK_NAME_BYTES);
    for (size_t i = 0; i < which; i++)
        found.at += number(table + i * FRAME_BYTES, 4);
    return found;
}

/* Opens a pack; its table (of frames, then of entries) is the caller's to free. */
static uint8_t *open_pack(int store, const uint8_t pack[PACK_NAME_BYTES], int *fd, struct stat *status, size_t *frames,
                          size_t *entries) {
    char name[16 + 2 * PACK_NAME_BYTES];
    uint8_t head[HEAD_BYTES], digest[DIGEST_BYTES], *checked = NULL;
    pack_name(pack, name);
    *fd = store_open(store, name, O_RDONLY, MOST_BLOB, status);
    bool good = *fd >= 0 && read_at(*fd, head, HEAD_BYTES, 0) && memcmp(head, PACK_MAGIC, MAGIC_BYTES) == 0;
    *entries = good ? number(head + 24, 4) : 0, *frames = good ? number(head + 28, 4) : 0;
    const size_t size = *frames * FRAME_BYTES + *entries * ENTRY_BYTES;
    good = good && *entries <= MOST_ENTRIES && *frames <= MOST_FRAMES && (checked = malloc(HEAD_BYTES - 16 + size));
    if (good) {
        memcpy(checked, head + 16, HEAD_BYTES - 16);
        good = read_at(*fd, checked + HEAD_BYTES - 16, size, HEAD_BYTES);
        blake3(checked, HEAD_BYTES - 16 + size, digest);
        good = good && memcmp(digest, head + 8, 8) == 0;
        memmove(checked, checked + HEAD_BYTES - 16, size);
    }
    if (good)
        return checked;
    free(checked);
    if (*fd >= 0)
        close(*fd);
    return NULL;
}

/* Finds the entry in the pack's table. Gives the pack open. */
static bool look_in(int store, const uint8_t pack[PACK_NAME_BYTES], char kind, const uint8_t key[DIGEST_BYTES], place *found) {
    size_t frames, entries;
    uint8_t *table = open_pack(store, pack, &found->fd, &found->status, &frames, &entries);
    bool here = false;
    found->store = store, found->base_count = 0;
    for (size_t i = 0; table && !here && i < entries; i++) {
        const uint8_t *entry = table + frames * FRAME_BYTES + i * ENTRY_BYTES;
        if (entry[0] != (uint8_t)kind || memcmp(entry + 12, key, DIGEST_BYTES) != 0 || entry[1] >= frames)
            continue;
        found->before = (uint32_t)number(entry + 4, 4), found->size = (uint32_t)number(entry + 8, 4);
        found->of = frame_of(table, frames, entries, entry[1]);
        here = found->of.size <= MOST_FRAME && (uint64_t)found->before + found->size <= found->of.size &&
               found->of.at + found->of.stored <= (uint64_t)found->status.st_size;
    }
    for (size_t i = 0; here && i < frames && found->base_count < MOST_BASES; i++) {
        const frame one = frame_of(table, frames, entries, i);
        if (one.based)
            memcpy(found->bases[found->base_count++], one.base, PACK_NAME_BYTES);
    }
    if (table && !here)
        close(found->fd);
    free(table);
    return here;
}

/* Finds "actions/..." or "blobs/..." in the packs. */
static bool look_up(int store, const char *name, place *found) {
    static const uint8_t EMPTY[SLOT_BYTES] = {0};
    const char *digits = strchr(name, '/');
    uint8_t key[DIGEST_BYTES], head[2 * MAGIC_BYTES], window[PROBES * SLOT_BYTES];
    struct stat status;
    size_t count = 0;
    for (const char *c = digits; c && *c && count < 2 * DIGEST_BYTES; c++)
        if (*c != '/') {
            key[count / 2] = (uint8_t)(count % 2 ? key[count / 2] << 4 | digit(*c) : digit(*c));
            count++;
        }
    const int fd = count == 2 * DIGEST_BYTES ? store_open(store, "packs/index", O_RDONLY, MOST_BLOB, &status) : -1;
    if (fd < 0)
        return false;
    /* A record and a content of one digest have different fingerprints. */
    const uint8_t *fingerprint = key + (name[0] == 'a' ? FINGERPRINT_BYTES : 0);
    bool good = read_at(fd, head, sizeof head, 0) && memcmp(head, INDEX_MAGIC, MAGIC_BYTES) == 0;
    const uint64_t slots = good ? number(head + MAGIC_BYTES, 8) : 0;
    good = slots >= PROBES && slots <= MOST_BLOB / SLOT_BYTES && (uint64_t)status.st_size >= sizeof head + slots * SLOT_BYTES;
    if (good) {
        const uint64_t first = number(fingerprint, FINGERPRINT_BYTES) % slots;
        const size_t before = slots - first < PROBES ? (size_t)(slots - first) : PROBES;
        good = read_at(fd, window, before * SLOT_BYTES, sizeof head + first * SLOT_BYTES) &&
               (before == PROBES || read_at(fd, window + before * SLOT_BYTES, (PROBES - before) * SLOT_BYTES, sizeof head));
    }
    close(fd);
    for (const uint8_t *slot = window; good && slot < window + sizeof window; slot += SLOT_BYTES) {
        if (memcmp(slot, EMPTY, SLOT_BYTES) == 0)
            return false;
        if (memcmp(slot, fingerprint, FINGERPRINT_BYTES) == 0 &&
            look_in(store, slot + FINGERPRINT_BYTES, name[0], key, found))
            return true;
    }
    return false;
}

/* Unpacks at least the first `size` bytes of the frame's content; `to` has room for all of it, which the decoder writes
 * into directly: of what is behind, no page is touched. */
static bool decode(const zstd *with, int fd, const frame *of, bytes prefix, uint8_t *to, size_t size) {
    enum { STABLE_OUTPUT = 1001, PIECE = 1 << 13 }; /* ZSTD_d_stableOutBuffer; where it is not known, there is a copy */
    uint8_t *stored = malloc((size_t)of->stored + 1);
    bool good = stored && read_at(fd, stored, of->stored, of->at);
    void *stream = good ? with->create() : NULL;
    zstd_buffer in = {stored, 0, 0}, out = {to, of->size, 0};
    good = stream && !with->failed(with->prefix(stream, prefix.at, prefix.size));
    if (good)
        (void)with->set(stream, STABLE_OUTPUT, 1);
    while (good && out.pos < size) {
        const size_t before = out.pos, left = of->stored - in.size;
        in.size += left < PIECE ? left : PIECE;
        good = !with->failed(with->decode(stream, &out, &in)) && (left || out.pos > before);
    }
    if (stream)
        with->release(stream);
    free(stored);
    return good;
}

/* The beginning of the content of a frame's base, in memory that is the caller's to free. */
static bool read_prefix(const zstd *with, int store, const frame *of, bytes *prefix) {
    size_t frames, entries;
    struct stat status;
    int fd;
    uint8_t *table = open_pack(store, of->base, &fd, &status, &frames, &entries);
    if (!table)
        return false;
    bool good = of->base_number < frames;
    if (good) {
        const frame base = frame_of(table, frames, entries, of->base_number);
        const size_t size = base.size < MOST_PREFIX ? base.size : MOST_PREFIX;
        good = !base.based && base.size <= MOST_FRAME && make_room(prefix, base.size) && decode(with, fd, &base, (bytes){0}, prefix->at, size);
        prefix->size = size;
    }
    free(table);
    close(fd);
    return good;
}

static bool unpack_entry(const place *of, uint8_t *to) {
    zstd with;
    const size_t end = (size_t)of->before + of->size;
    bytes prefix = {0};
    uint8_t *whole = malloc((size_t)of->of.size + 1);
    const bool good = whole && zstd_load(&with) && (!of->of.based || read_prefix(&with, of->store, &of->of, &prefix)) &&
                      decode(&with, of->fd, &of->of, prefix, whole, end);
    if (good)
        memcpy(to, whole + of->before, of->size);
    free(whole);
    release(&prefix);
    return good;
}

bool entry_status(int store, const char *name, struct stat *found) {
    place where;
    if (store_status(store, name, found))
        return true;
    if (!look_up(store, name, &where))
        return false;
    *found = where.status;
    found->st_size = where.size;
    close(where.fd);
    return true;
}

bool entry_read(int store, const char *name, off_t most, bytes *content) {
    struct stat status;
    place where = {0};
    const int fd = store_open(store, name, O_RDONLY, most, &status);
    if (fd < 0 && !look_up(store, name, &where))
        return false;
    const size_t size = fd < 0 ? where.size : (size_t)status.st_size;
    bool good = (off_t)size <= most && make_room(content, size);
    if (fd >= 0)
        good = good && read(fd, content->at + content->size, size) == (ssize_t)size;
    else
        good = good && unpack_entry(&where, content->at + content->size);
    close(fd < 0 ? where.fd : fd);
    content->size += good ? size : 0;
    return good;
}

void entry_touch(int store, const char *name) {
    place where;
    if (store_touch(store, name) || !look_up(store, name, &where))
        return;
    futimens(where.fd, NULL);
    close(where.fd);
    for (size_t i = 0; i < where.base_count; i++) { /* later than what needs them */
        char base[16 + 2 * PACK_NAME_BYTES];
        pack_name(where.bases[i], base);
        store_touch(store, base);
    }
}
