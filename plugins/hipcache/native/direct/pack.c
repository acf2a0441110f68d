/* Reads entries of a store, in files of their own or in packs, whose format stands in store/packs.py. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* zstd's stable interface (zstd.h). The launcher has it linked in; the library takes the system's as it is needed. */
typedef struct {
    void *at;
    size_t size, pos;
} zstd_buffer;
typedef struct {
    void *(*take)(void *from, size_t size);
    void (*give)(void *from, void *at);
    void *from;
} zstd_memory;
typedef struct {
    void *(*create)(zstd_memory of);
    size_t (*release)(void *stream);
    size_t (*decode)(void *stream, zstd_buffer *out, zstd_buffer *in);
    size_t (*prefix)(void *stream, const void *content, size_t size);
    size_t (*set)(void *stream, int parameter, int value);
    size_t (*reset)(void *stream, int what);
    unsigned (*failed)(size_t code);
} zstd;

#ifdef ZSTD_LINKED
extern void *ZSTD_createDStream_advanced(zstd_memory); /* not stable, but linked in */
extern size_t ZSTD_freeDStream(void *);
extern size_t ZSTD_decompressStream(void *, zstd_buffer *, zstd_buffer *);
extern size_t ZSTD_DCtx_refPrefix(void *, const void *, size_t);
extern size_t ZSTD_DCtx_setParameter(void *, int, int);
extern size_t ZSTD_DCtx_reset(void *, int);
extern unsigned ZSTD_isError(size_t);
static bool zstd_load(zstd *of) {
    *of = (zstd){ZSTD_createDStream_advanced, ZSTD_freeDStream, ZSTD_decompressStream, ZSTD_DCtx_refPrefix,
                 ZSTD_DCtx_setParameter,      ZSTD_DCtx_reset,  ZSTD_isError};
    return true;
}
#elif defined ZSTD_LOADED
#include <dlfcn.h>
static void *(*create_plainly)(void);
static void *create(zstd_memory of) {
    (void)of;
    return create_plainly();
}
static bool zstd_load(zstd *of) {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    of->create = create;
    *(void **)&create_plainly = dlsym(library, "ZSTD_createDStream");
    *(void **)&of->release = dlsym(library, "ZSTD_freeDStream");
    *(void **)&of->decode = dlsym(library, "ZSTD_decompressStream");
    *(void **)&of->prefix = dlsym(library, "ZSTD_DCtx_refPrefix");
    *(void **)&of->set = dlsym(library, "ZSTD_DCtx_setParameter");
    *(void **)&of->reset = dlsym(library, "ZSTD_DCtx_reset");
    *(void **)&of->failed = dlsym(library, "ZSTD_isError");
    return create_plainly && of->release && of->decode && of->prefix && of->set && of->reset && of->failed;
}
#else
static bool zstd_load(zstd *of) {
    (void)of;
    return false;
}
#endif

enum {
    MAGIC_BYTES = 8,
    PACK_NAME_BYTES = 6,
    FINGERPRINT_BYTES = 6,
    SLOT_BYTES = FINGERPRINT_BYTES + PACK_NAME_BYTES,
    PROBES = 64,
    HEAD_BYTES = 32,
    FRAME_BYTES = 12 + PACK_NAME_BYTES,
    ENTRY_BYTES = 44,
    MOST_ENTRIES = 1 << 16,
    MOST_FRAMES = 256,
    MOST_PREFIX = 4 << 20,
    MOST_FRAME = 1 << 29 /* bytes of its content */,
    ROOM_BYTES = 2 << 20
};
static const uint8_t INDEX_MAGIC[MAGIC_BYTES] = {0x89, 'h', 'c', 'I', '2', '\r', '\n', 0x1a};
static const uint8_t PACK_MAGIC[MAGIC_BYTES] = {0x89, 'h', 'c', 'P', '2', '\r', '\n', 0x1a};

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
    const uint8_t *base;
} frame;

/* A pack that is open. `table`: of frames, then of entries; `contents`: of each frame, the first bytes. */
typedef struct pack {
    struct pack *next;
    int fd;
    bool touched;
    struct stat status;
    uint8_t name[PACK_NAME_BYTES], *table;
    size_t frames, entries;
    struct {
        uint8_t *at;
        size_t size;
    } contents[];
} pack;

/* Those that a hit has read from, and the decoder with the frame that it has begun. They begin a mapping in which
 * all that follows finds room: a page that is touched costs a hit more than what is written there, and malloc of
 * musl touches one or two for each size. */
struct packs {
    pack *first, *begun;
    size_t begun_frame;
    zstd with;
    void *stream;
    uint8_t *stored;
    zstd_buffer in, out;
    size_t used;
};

static void *take_room(void *from, size_t size) {
    enum { ALIGNED = 64 };
    struct packs *packs = from;
    if (size > ROOM_BYTES - ALIGNED - packs->used)
        return malloc(size);
    void *at = (uint8_t *)packs + packs->used;
    packs->used += (size + ALIGNED - 1) / ALIGNED * ALIGNED;
    return at;
}

/* What lies in the mapping goes with it. */
static void give_room(void *from, void *at) {
    const uint8_t *first = from, *it = at;
    if (it < first || it >= first + ROOM_BYTES)
        free(at);
}

/* Where an entry lies: behind `before` bytes of the frame's content. */
typedef struct {
    pack *in;
    size_t frame, before, size;
} place;

static void pack_name(const uint8_t named[PACK_NAME_BYTES], char name[16 + 2 * PACK_NAME_BYTES]) {
    memcpy(name, "packs/", 6);
    hexadecimal(named, PACK_NAME_BYTES, name + 6);
}

static frame frame_of(const pack *in, size_t which) {
    static const uint8_t NONE[PACK_NAME_BYTES] = {0};
    const uint8_t *row = in->table + which * FRAME_BYTES;
    frame found = {HEAD_BYTES + in->frames * FRAME_BYTES + in->entries * ENTRY_BYTES, (uint32_t)number(row, 4),
                   (uint32_t)number(row + 4, 4), (uint32_t)number(row + 8 + PACK_NAME_BYTES, 4), row + 8};
    if (memcmp(found.base, NONE, sizeof NONE) == 0)
        found.base = NULL;
    for (size_t i = 0; i < which; i++)
        found.at += number(in->table + i * FRAME_BYTES, 4);
    return found;
}

static void close_pack(struct packs *packs, pack *of) {
    for (size_t i = 0; i < of->frames; i++)
        give_room(packs, of->contents[i].at);
    close(of->fd);
    give_room(packs, of->table);
    give_room(packs, of);
}

/* NULL where it is gone or damaged. */
static pack *open_pack(int store, struct packs *packs, const uint8_t named[PACK_NAME_BYTES]) {
    char name[16 + 2 * PACK_NAME_BYTES];
    uint8_t head[HEAD_BYTES], digest[DIGEST_BYTES];
    struct stat status;
    pack_name(named, name);
    const int fd = store_open(store, name, O_RDONLY, MOST_BLOB, &status);
    bool good = fd >= 0 && read_at(fd, head, HEAD_BYTES, 0) && memcmp(head, PACK_MAGIC, MAGIC_BYTES) == 0;
    const size_t entries = good ? number(head + 24, 4) : 0, frames = good ? number(head + 28, 4) : 0;
    const size_t size = frames * FRAME_BYTES + entries * ENTRY_BYTES;
    good = good && entries <= MOST_ENTRIES && frames <= MOST_FRAMES;
    const size_t made_size = sizeof(pack) + frames * sizeof *((pack *)NULL)->contents;
    pack *made = good ? take_room(packs, made_size) : NULL;
    uint8_t *table = made ? take_room(packs, HEAD_BYTES - 16 + size) : NULL;
    if (table) {
        memset(made, 0, made_size);
        memcpy(table, head + 16, HEAD_BYTES - 16);
        good = read_at(fd, table + HEAD_BYTES - 16, size, HEAD_BYTES);
        blake3(table, HEAD_BYTES - 16 + size, digest);
        memmove(table, table + HEAD_BYTES - 16, size);
        if (good && memcmp(digest, head + 8, 8) == 0) {
            made->fd = fd, made->status = status, made->table = table, made->frames = frames, made->entries = entries;
            memcpy(made->name, named, PACK_NAME_BYTES);
            return made;
        }
    }
    give_room(packs, table);
    give_room(packs, made);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static pack *pack_of(record *of, const uint8_t named[PACK_NAME_BYTES]) {
    if (!of->packs) {
        void *room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return NULL;
        of->packs = room;
        (void)take_room(of->packs, sizeof *of->packs);
    }
    for (pack *one = of->packs->first; one; one = one->next)
        if (memcmp(one->name, named, PACK_NAME_BYTES) == 0)
            return one;
    pack *made = open_pack(of->store, of->packs, named);
    if (made)
        made->next = of->packs->first, of->packs->first = made;
    return made;
}

void packs_release(record *of) {
    struct packs *packs = of->packs;
    of->packs = NULL;
    if (!packs)
        return;
    for (pack *next, *one = packs->first; one; one = next) {
        next = one->next;
        close_pack(packs, one);
    }
    if (packs->stream)
        packs->with.release(packs->stream);
    give_room(packs, packs->stored);
    munmap(packs, ROOM_BYTES);
}

/* Finds the entry in the pack's table. */
static bool look_in(pack *in, char kind, const uint8_t key[DIGEST_BYTES], place *found) {
    for (size_t i = 0; in && i < in->entries; i++) {
        const uint8_t *entry = in->table + in->frames * FRAME_BYTES + i * ENTRY_BYTES;
        if (entry[0] != (uint8_t)kind || memcmp(entry + 12, key, DIGEST_BYTES) != 0 || entry[1] >= in->frames)
            continue;
        const frame of = frame_of(in, entry[1]);
        *found = (place){in, entry[1], number(entry + 4, 4), number(entry + 8, 4)};
        return of.size <= MOST_FRAME && found->before + found->size <= of.size &&
               of.at + of.stored <= (uint64_t)in->status.st_size;
    }
    return false;
}

/* Finds "actions/..." or "blobs/..." in the packs. */
static bool look_up(record *of, const char *name, place *found) {
    static const uint8_t EMPTY[SLOT_BYTES] = {0};
    const char *digits = strchr(name, '/');
    uint8_t key[DIGEST_BYTES], head[2 * MAGIC_BYTES], window[PROBES * SLOT_BYTES];
    struct stat status;
    size_t count = 0;
    for (const char *c = digits; c && *c && count < 2 * DIGEST_BYTES; c++)
        if (*c != '/') {
            const int digit = hexadecimal_digit(*c);
            key[count / 2] = (uint8_t)(count % 2 ? key[count / 2] << 4 | digit : digit);
            count++;
        }
    /* A content is the same wherever it lies, so most likely in the record's own pack; of records the newest counts. */
    for (pack *one = of->packs && name[0] == 'b' ? of->packs->first : NULL; one; one = one->next)
        if (look_in(one, name[0], key, found))
            return true;
    const int fd = count == 2 * DIGEST_BYTES ? store_open(of->store, "packs/index", O_RDONLY, MOST_BLOB, &status) : -1;
    if (fd < 0)
        return false;
    /* A record and a content of one digest have different fingerprints. */
    const uint8_t *fingerprint = key + (name[0] == 'a' ? FINGERPRINT_BYTES : 0);
    bool good = read_at(fd, head, sizeof head, 0) && memcmp(head, INDEX_MAGIC, MAGIC_BYTES) == 0;
    const uint64_t slots = good ? number(head + MAGIC_BYTES, 8) : 0;
    good = slots >= PROBES && slots <= MOST_BLOB / SLOT_BYTES &&
           (uint64_t)status.st_size >= sizeof head + slots * SLOT_BYTES;
    if (good) {
        const uint64_t first = number(fingerprint, FINGERPRINT_BYTES) % slots;
        const size_t before = slots - first < PROBES ? (size_t)(slots - first) : PROBES;
        good = read_at(fd, window, before * SLOT_BYTES, sizeof head + first * SLOT_BYTES) &&
               (before == PROBES ||
                read_at(fd, window + before * SLOT_BYTES, (PROBES - before) * SLOT_BYTES, sizeof head));
    }
    close(fd);
    for (const uint8_t *slot = window; good && slot < window + sizeof window; slot += SLOT_BYTES) {
        if (memcmp(slot, EMPTY, SLOT_BYTES) == 0)
            return false;
        if (memcmp(slot, fingerprint, FINGERPRINT_BYTES) == 0 &&
            look_in(pack_of(of, slot + FINGERPRINT_BYTES), name[0], key, found))
            return true;
    }
    return false;
}

static const uint8_t *content_of(record *of, pack *in, size_t which, size_t size);

/* Has the decoder begin with a frame. */
static bool begin(record *of, pack *in, size_t which) {
    enum { SESSION = 1, STABLE_OUTPUT = 1001 }; /* ZSTD_d_stableOutBuffer; where it is not known, there is a copy */
    struct packs *packs = of->packs;
    const frame one = frame_of(in, which);
    const uint8_t *prefix = NULL;
    size_t prefix_size = 0;
    if (one.base) {
        pack *base = pack_of(of, one.base);
        const frame its = base && one.base_number < base->frames ? frame_of(base, one.base_number) : (frame){0};
        prefix_size = its.size < MOST_PREFIX ? its.size : MOST_PREFIX;
        if (!its.at || its.base || its.size > MOST_FRAME ||
            !(prefix = content_of(of, base, one.base_number, prefix_size)))
            return false;
    }
    if (!packs->stream) {
        if (!zstd_load(&packs->with) ||
            !(packs->stream = packs->with.create((zstd_memory){take_room, give_room, packs})))
            return false;
        (void)packs->with.set(packs->stream, STABLE_OUTPUT, 1);
    }
    give_room(packs, packs->stored);
    packs->stored = take_room(packs, (size_t)one.stored + 1);
    if (!in->contents[which].at)
        in->contents[which].at = take_room(packs, (size_t)one.size + 1);
    packs->in = (zstd_buffer){packs->stored, 0, 0}, packs->out = (zstd_buffer){in->contents[which].at, one.size, 0};
    return packs->in.at && packs->out.at && !packs->with.failed(packs->with.reset(packs->stream, SESSION)) &&
           !packs->with.failed(packs->with.prefix(packs->stream, prefix, prefix_size));
}

/* At least the first `size` bytes of the frame's content. They are unpacked block by block, each from where it was read
 * to where it stays: of what is behind, nothing is read and no page is touched. */
static const uint8_t *content_of(record *of, pack *in, size_t which, size_t size) {
    enum { FIRST = 6 }; /* less than a whole header; how much comes next, the decoder says each time */
    struct packs *packs = of->packs;
    const frame one = frame_of(in, which);
    if (in->contents[which].at && in->contents[which].size >= size)
        return in->contents[which].at;
    bool good = (packs->begun == in && packs->begun_frame == which) || begin(of, in, which);
    for (size_t more = FIRST; good && packs->out.pos < size;) {
        const size_t before = packs->out.pos, left = one.stored - packs->in.size;
        more = more < left ? more : left;
        good = read_at(in->fd, packs->stored + packs->in.size, more, one.at + packs->in.size);
        packs->in.size += good ? more : 0;
        more = good ? packs->with.decode(packs->stream, &packs->out, &packs->in) : 0;
        good = good && !packs->with.failed(more) && (left || packs->out.pos > before);
    }
    packs->begun = good ? in : NULL, packs->begun_frame = which;
    if (!good)
        return NULL;
    in->contents[which].size = packs->out.pos;
    return in->contents[which].at;
}

static const uint8_t *entry_at(record *of, const place *where) {
    const uint8_t *content = content_of(of, where->in, where->frame, where->before + where->size);
    return content ? content + where->before : NULL;
}

bool entry_status(record *of, const char *name, struct stat *found) {
    place where;
    if (store_status(of->store, name, found))
        return true;
    if (!look_up(of, name, &where))
        return false;
    *found = where.in->status;
    found->st_size = (off_t)where.size;
    return true;
}

const uint8_t *entry_packed(record *of, const char *name, uint64_t size) {
    place where;
    return look_up(of, name, &where) && where.size == size ? entry_at(of, &where) : NULL;
}

bool entry_read(record *of, const char *name, off_t most, bytes *content) {
    struct stat status;
    place where;
    const int fd = store_open(of->store, name, O_RDONLY, most, &status);
    if (fd < 0) {
        const uint8_t *at = look_up(of, name, &where) && (off_t)where.size <= most ? entry_at(of, &where) : NULL;
        if (at)
            append(content, at, where.size);
        return at && !content->failed;
    }
    const size_t size = (size_t)status.st_size;
    const bool good = make_room(content, size) && read(fd, content->at + content->size, size) == (ssize_t)size;
    close(fd);
    content->size += good ? size : 0;
    return good;
}

void entry_touch(record *of, const char *name) {
    place where;
    if (store_touch(of->store, name) || !look_up(of, name, &where) || where.in->touched)
        return;
    where.in->touched = true;
    futimens(where.in->fd, NULL);
    for (size_t i = 0; i < where.in->frames; i++) { /* later than what needs them */
        char base[16 + 2 * PACK_NAME_BYTES];
        const frame one = frame_of(where.in, i);
        if (one.base)
            pack_name(one.base, base), store_touch(of->store, base);
    }
}
