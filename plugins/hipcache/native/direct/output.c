/* Writes into the build tree as a compiler would, whole or not at all; store/output.py has the reasons. */
#define _GNU_SOURCE
#include "direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLONE 0x40049409 /* FICLONE of linux/fs.h */

/* Seconds after which a use is noted again, for the store's bound: at each hit it would cost as much as the look-up. */
enum { USE_STEP = 3600 };

/* A file that may not be written is the compiler's affair, which fails. */
bool is_plain_file_or_absent(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0 ? S_ISREG(found.st_mode) && access(path, W_OK) == 0 : errno == ENOENT;
}

/* Would the driver find a place for its temporary files (system_temp_directory of LLVM's Path.inc)? */
bool has_temporary_directory(const request *asked) {
    static const char *const names[] = {"TMPDIR=", "TMP=", "TEMP=", "TEMPDIR="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (char *const *variable = asked->environ; *variable; variable++)
            if (strncmp(*variable, names[i], strlen(names[i])) == 0) {
                char path[PATH_MAX];
                const char *value = *variable + strlen(names[i]);
                const bool absolute = *value == '/';
                const int length = snprintf(path, PATH_MAX, "%s%s%s/.", absolute ? "" : asked->directory,
                                            absolute ? "" : "/", value);
                return length < PATH_MAX && access(path, W_OK | X_OK) == 0;
            }
    return true;
}

bool write_all(int fd, const uint8_t *content, size_t size) {
    while (size) {
        const ssize_t written = write(fd, content, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        content += written;
        size -= (size_t)written;
    }
    return true;
}

/* A new file beside `destination`; its name goes to `temporary`. */
static int create_beside(const char *destination, char temporary[PATH_MAX]) {
    const char *slash = strrchr(destination, '/');
    uint64_t random[2];
    if (!slash || getrandom(random, sizeof random, 0) != sizeof random)
        return -1;
    const int length = snprintf(temporary, PATH_MAX, "%.*s/.hipcache-%016llx%08llx.tmp", (int)(slash - destination),
                                destination, (unsigned long long)random[0], (unsigned long long)random[1] >> 32);
    if (length >= PATH_MAX)
        return -1;
    return open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* Reserves the blocks of a file that takes another one's place: ext4 flushes it as it is renamed, unless they are
 * there. */
static void reserve(int fd, const char *destination, uint64_t size) {
    if (size && access(destination, F_OK) == 0)
        (void)!fallocate(fd, 0, 0, (off_t)size);
}

/* As lld does: who may read it may run it. */
static mode_t executable(mode_t mode) { return mode | (mode & 0444) >> 2; }

/* Would the new file in the other's place be told from it: has that other names, another owner or mode? Then it matters
 * whether the compiler writes into the old file, which the engine knows. */
static bool shows(int fd, const char *destination, bool runs) {
    struct stat now, old;
    if (lstat(destination, &old) != 0)
        return false;
    return fstat(fd, &now) != 0 || old.st_nlink > 1 || old.st_uid != now.st_uid || old.st_gid != now.st_gid ||
           old.st_mode != (runs ? executable(now.st_mode) : now.st_mode);
}

/* Takes the new file's place under its name, or removes it. */
static bool finish(int fd, bool good, const char *temporary, const char *destination) {
    good = close(fd) == 0 && good && rename(temporary, destination) == 0;
    if (!good)
        unlink(temporary);
    return good;
}

static bool write_file(const char *destination, const uint8_t *content, size_t size, bool runs) {
    char temporary[PATH_MAX];
    const int target = create_beside(destination, temporary);
    if (target < 0)
        return false;
    reserve(target, destination, size);
    return finish(target, !shows(target, destination, runs) && write_all(target, content, size), temporary,
                  destination);
}

/* A file that is read, and copied to `target` meanwhile (unless that is -1). */
typedef struct {
    int from, target;
    uint8_t *buffer;
} copying;

static const uint8_t *next_piece(void *source, size_t size) {
    copying *copy = source;
    for (size_t have = 0; have < size;) {
        const ssize_t got = read(copy->from, copy->buffer + have, size - have);
        if (got <= 0)
            return NULL;
        have += (size_t)got;
    }
    return copy->target < 0 || write_all(copy->target, copy->buffer, size) ? copy->buffer : NULL;
}

/* A clone of a file that grew meanwhile is longer than what was hashed. */
static bool has_size(int fd, uint64_t size) {
    struct stat found;
    return fstat(fd, &found) == 0 && (uint64_t)found.st_size == size;
}

/* Far in the future counts as past: a clock was wrong, and such an entry would be the last to be evicted. */
bool use_is_noted(const struct stat *entry) { return llabs((long long)time(NULL) - entry->st_mtime) < USE_STEP; }

/* Of a pack there is no file to copy. */
static bool deliver_packed(record *of, const char *name, const uint8_t digest[DIGEST_BYTES], uint64_t size,
                           const char *destination, bool runs) {
    uint8_t found[DIGEST_BYTES];
    const uint8_t *content = entry_packed(of, name, size);
    if (!content)
        return false;
    blake3(content, size, found);
    return memcmp(found, digest, DIGEST_BYTES) == 0 && write_file(destination, content, size, runs);
}

/* The bytes are hashed as they are written, or where the file system shares the blocks, in the new file: a store's file
 * may change at any time without its times showing it, through a mapping of memory. */
bool deliver_blob(record *of, const char *name, const uint8_t digest[DIGEST_BYTES], uint64_t size,
                  const char *destination, bool runs) {
    char temporary[PATH_MAX];
    uint8_t found[DIGEST_BYTES], room[1 << 16];
    struct stat status;
    const int from = store_open(of->store, name, O_RDONLY, MOST_BLOB, &status);
    if (from < 0)
        return deliver_packed(of, name, digest, size, destination, runs);
    bool good = (uint64_t)status.st_size == size;
    const int target = good ? create_beside(destination, temporary) : -1;
    if (target < 0) {
        close(from);
        return false;
    }
    if (shows(target, destination, runs)) {
        finish(target, false, temporary, destination);
        close(from);
        return false;
    }
    const bool cloned = ioctl(target, CLONE, from) == 0;
    if (!cloned)
        reserve(target, destination, size);
    uint8_t *more = size <= sizeof room ? NULL : malloc(size < PIECE_BYTES ? (size_t)size : PIECE_BYTES);
    copying copy = {cloned ? target : from, cloned ? -1 : target, more ? more : room};
    good = (more || size <= sizeof room) && blake3_of(next_piece, &copy, size, found) &&
           memcmp(found, digest, DIGEST_BYTES) == 0 && (!cloned || has_size(target, size));
    free(more);
    good = finish(target, good, temporary, destination);
    if (good && !of->readonly && !use_is_noted(&status))
        futimens(from, NULL);
    close(from);
    return good;
}

bool read_blob(record *of, const char *name, const uint8_t digest[DIGEST_BYTES], off_t most, bytes *content) {
    uint8_t found[DIGEST_BYTES];
    const size_t before = content->size;
    if (!entry_read(of, name, most, content))
        return false;
    blake3(content->at + before, content->size - before, found);
    return memcmp(found, digest, DIGEST_BYTES) == 0;
}

bool write_whole(const char *destination, const uint8_t *content, size_t size) {
    return write_file(destination, content, size, false);
}

bool make_executable(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && chmod(path, executable(found.st_mode) & 07777) == 0;
}
