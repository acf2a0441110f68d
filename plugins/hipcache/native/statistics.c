/* Appends to the log of the statistics; its format and locks are those of report/statistics.py. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE = 1000 * 1024 }; /* near its FOLD_AT: the engine must look after it */

static int open_in(const char *store, const char *name, int flags) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/v1/statistics/%s", store, name);
    return length < PATH_MAX ? open(path, flags | O_CLOEXEC, 0666) : -1;
}

bool statistics_have_room(const char *store) {
    char path[PATH_MAX];
    struct stat found;
    const int length = snprintf(path, sizeof path, "%s/v1/statistics/log", store);
    return length < PATH_MAX && (stat(path, &found) != 0 || found.st_size < LARGE);
}

/* A log of its own, where another process holds the lock: whole, by rename. */
static bool append_aside(const char *store, const uint8_t *line, size_t size) {
    char part[PATH_MAX], whole[PATH_MAX];
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    const unsigned long long one = random[0], two = random[1];
    if (snprintf(part, sizeof part, "%s/v1/statistics/new.%016llx%016llx", store, one, two) >= PATH_MAX ||
        snprintf(whole, sizeof whole, "%s/v1/statistics/log.%016llx%016llx", store, one, two) >= PATH_MAX)
        return false;
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    const bool good = write_all(fd, line, size);
    if (close(fd) == 0 && good && rename(part, whole) == 0)
        return true;
    unlink(part);
    return false;
}

bool statistics_append(const char *store, const uint8_t *line, size_t size) {
    const int lock = open_in(store, "lock", O_RDWR | O_CREAT);
    if (lock < 0)
        return false;
    bool good;
    if (flock(lock, LOCK_SH | LOCK_NB) != 0) {
        good = append_aside(store, line, size);
    } else {
        const int log = open_in(store, "log", O_WRONLY | O_APPEND | O_CREAT);
        good = log >= 0 && write_all(log, line, size);
        if (log >= 0)
            close(log);
    }
    close(lock);
    return good;
}
