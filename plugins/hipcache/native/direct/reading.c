/* Reads a file to see whether it has the content that a record says.
 *
 * It is opened once. What is hashed is what was read from it, and its status before and after must be the one that goes
 * into the new state: so the digest and that status belong together. */
#define _GNU_SOURCE
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    int fd;
    uint8_t *buffer;
} reading;

static const uint8_t *next_piece(void *source, size_t size) {
    const reading *from = source;
    for (size_t have = 0; have < size;) {
        const ssize_t got = read(from->fd, from->buffer + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        have += (size_t)got;
    }
    return from->buffer;
}

static bool is_the_same(const struct stat *one, const struct stat *other) {
    uint8_t rooms[2][STATUS_BYTES];
    bytes before = BEGINS_IN(rooms[0]), after = BEGINS_IN(rooms[1]);
    append_status(&before, one), append_status(&after, other);
    return memcmp(rooms[0], rooms[1], STATUS_BYTES) == 0;
}

/* Has the open file this content? */
static bool content_holds(int fd, const struct stat *status, const uint8_t digest[DIGEST_BYTES], uint8_t *buffer) {
    reading from = {fd, buffer};
    struct stat after;
    uint8_t found[DIGEST_BYTES];
    return blake3_of(next_piece, &from, (uint64_t)status->st_size, found) && memcmp(found, digest, DIGEST_BYTES) == 0 &&
           fstat(fd, &after) == 0 && is_the_same(status, &after);
}

bool file_holds(record *of, const char *path, const struct stat *status, const uint8_t digest[DIGEST_BYTES], bool old,
                uint8_t *buffer) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat opened;
    uint8_t room[512];
    bytes claim = BEGINS_IN(room);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &opened) == 0 && is_the_same(&opened, status);
    /* Compilers and their libraries, which many records list. */
    const bool claims = good && old && opened.st_size >= LARGE_CONTENT;
    if (claims) {
        append(&claim, CONTENT_CLAIM_DOMAIN, sizeof CONTENT_CLAIM_DOMAIN), append(&claim, digest, DIGEST_BYTES);
        append_status(&claim, status), append(&claim, path, strlen(path) + 1);
    }
    if (good && !(claims && !claim.failed && claim_is_known(of, claim))) {
        good = content_holds(fd, status, digest, buffer);
        if (good && claims && !claim.failed)
            claim_keep(of, claim);
    }
    release(&claim);
    close(fd);
    return good;
}
