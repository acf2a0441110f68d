/* The functions that Python calls in its own process: a direct hit (the SCons front), a search in large files. */
#define _GNU_SOURCE
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The version of these functions: __init__.py takes no others. */
int hipcache_interface(void) { return 14; }

/* Has the launcher beside it zstd, and so reads packs? */
int hipcache_reads_packs(void) { return READS_PACKS; }

/* 1 if the outputs were written. `secret`: that of the store's records (KEY_BYTES), or NULL; `messages`, `rule` (the
 * dependency file's content) and `counted` (what the statistics got) are the caller's to free. */
int hipcache_hit(const char *store, const char *directory, char *const *argv, char *const *environment, int terminal,
                 int resident, const uint8_t *secret, bytes *messages, bytes *rule, bytes *counted) {
    char project[PATH_MAX];
    struct stat status;
    settings_of_project(directory, project, &status);
    const request asked = {.store = store,
                           .directory = directory,
                           .argv = argv,
                           .environ = environment,
                           .terminal = terminal != 0,
                           .resident = resident != 0,
                           .secret = secret,
                           .project = project};
    record found;
    if (!direct_find(&asked, &found))
        return 0;
    append(messages, found.messages.at, found.messages.size);
    append(counted, found.counted.at, found.counted.size);
    const bool done = !messages->failed && !counted->failed && direct_rules(&found, rule) && direct_deliver(&found);
    if (done)
        direct_count(&asked, &found);
    direct_release(&found);
    return done;
}

/* 1 and the processor's digest (DIGEST_BYTES); 0 where it has none. */
int hipcache_processor(uint8_t *digest) {
    bytes state = {digest, 0, DIGEST_BYTES, true, false};
    return look_processor(&state) && state.lent && !state.failed;
}

void hipcache_free(bytes *text) { release(text); }

/* What fstatat(2) finds of each path with these flags (`paths`: each with a NUL behind it). `how`: 0 where nothing is
 * found, 1, or 2 if this user may read it; `statuses`: as of append_status. */
void hipcache_statuses(const char *paths, size_t count, int flags, uint8_t *how, uint8_t *statuses) {
    looking at = {.opened = NOT_YET};
    for (size_t i = 0; i < count; i++, paths += strlen(paths) + 1) {
        struct stat found;
        bytes status = {statuses + i * STATUS_BYTES, 0, STATUS_BYTES, true, false};
        how[i] = 0;
        if (look_status(&at, paths, flags, &found) != 0)
            continue;
        how[i] = look_allows(paths, &found, R_OK) ? 2 : 1;
        append_status(&status, &found);
    }
    look_leave(&at);
}

/* Where among the paths (as above, `size` bytes) the first one begins that lstat(2) does not find missing; `size` where
 * there is none. */
size_t hipcache_not_missing(const char *paths, size_t size) {
    looking at = {.opened = NOT_YET};
    size_t i = 0;
    for (struct stat found; i < size; i += strlen(paths + i) + 1)
        if (look_status(&at, paths + i, AT_SYMLINK_NOFOLLOW, &found) == 0 || (errno != ENOENT && errno != ENOTDIR))
            break;
    look_leave(&at);
    return i;
}

static size_t pair(const uint8_t *at) { return (size_t)at[0] << 8 | at[1]; }

/* Finds those of `count` texts (`size` bytes each, one after the other) that are in the content: `found[i]` becomes 1.
 * -1 where that cannot be found out. Wu and Manber, "A fast algorithm for multi-pattern searching" (1994): the last two
 * bytes of the place that is looked at tell how far away the next one is. */
int hipcache_search_in(const uint8_t *content, size_t length, const uint8_t *texts, size_t size, size_t count,
                       uint8_t *found) {
    static const size_t PAIRS = 1 << 16;
    if (size < 2 || size > UINT8_MAX)
        return -1;
    if (length < size)
        return 0;
    uint8_t *away = malloc(PAIRS);
    if (!away)
        return -1;
    memset(away, (int)(size - 1), PAIRS);
    for (size_t i = 0; i < count; i++)
        for (size_t end = 2; end <= size; end++) {
            uint8_t *here = &away[pair(texts + i * size + end - 2)];
            *here = size - end < *here ? (uint8_t)(size - end) : *here;
        }
    /* Several places in turn, each in its share of the content: a step waits for the one before it. */
    enum { PLACES = 4 };
    size_t at[PLACES], end[PLACES];
    for (size_t p = 0, first = 0; p < PLACES; p++, first = end[p - 1]) {
        at[p] = first;
        end[p] = p + 1 < PLACES ? (length - size + 1) / PLACES * (p + 1) : length - size + 1;
    }
    for (size_t going = PLACES; going;) {
        going = 0;
        for (size_t p = 0; p < PLACES; p++) {
            if (at[p] >= end[p])
                continue;
            const size_t steps = away[pair(content + at[p] + size - 2)];
            for (size_t i = 0; steps == 0 && i < count; i++)
                if (memcmp(content + at[p], texts + i * size, size) == 0)
                    found[i] = 1;
            at[p] += steps ? steps : 1;
            going++;
        }
    }
    free(away);
    return 0;
}

/* The same in a file; -1 also if it cannot be read. */
int hipcache_search(const char *path, const uint8_t *texts, size_t size, size_t count, uint8_t *found) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    const size_t length = good ? (size_t)status.st_size : 0;
    void *content = length ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (!good || content == MAP_FAILED)
        return -1;
    const int done = hipcache_search_in(content, length, texts, size, count, found);
    if (length)
        munmap(content, length);
    return done;
}
