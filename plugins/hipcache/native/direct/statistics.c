/* Appends to the log of the statistics; its format and locks are those of report/statistics.py. */
#define _GNU_SOURCE
#include "direct.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 1000 * 1024 }; /* near its FOLD_AT: the engine must look after it */
static const char LOCK[] = "statistics/lock", LOG[] = "statistics/log";

bool statistics_have_room(const char *store) {
    struct stat found;
    const int base = store_base(store);
    if (base < 0)
        return true;
    const bool room = !store_status(base, LOG, &found) || found.st_size < LARGE;
    close(base);
    return room;
}

/* A log of its own, where another process holds the lock: whole, by rename. */
static bool append_aside(int base, const uint8_t *line, size_t size) {
    char part[64], whole[64];
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    const unsigned long long one = random[0], two = random[1];
    snprintf(part, sizeof part, "statistics/new.%016llx%016llx", one, two);
    snprintf(whole, sizeof whole, "statistics/log.%016llx%016llx", one, two);
    const int fd = store_create(base, part);
    if (fd < 0)
        return false;
    const bool good = write_all(fd, line, size);
    if (close(fd) == 0 && good && store_rename(base, part, whole))
        return true;
    store_unlink(base, part);
    return false;
}

/* The checksum of zlib; a line is short. */
static uint32_t crc32_of(const uint8_t *text, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

bool statistics_time(bytes *line, bytes counted, uint64_t began) {
    enum { BEFORE = 10 }; /* LF, the checksum, TAB */
    char head[BEFORE + 1];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ended = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (ended <= began || counted.size < BEFORE + 2 || memchr(counted.at + BEFORE, '\n', counted.size - BEFORE - 1))
        return false; /* several sources: which of them took how long is not known */
    append(line, counted.at, counted.size - 1);
    char took[48];
    append(line, took,
           (size_t)snprintf(took, sizeof took, "\ttook %llu ...", (unsigned long long)(ended - began) / 1000));
    if (line->failed)
        return false;
    snprintf(head, sizeof head, "\n%08x\t", crc32_of(line->at + BEFORE, line->size - BEFORE));
    memcpy(line->at, head, BEFORE);
    append(line, "\n", 1);
    return !line->failed;
}

static bool append_to(int base, const uint8_t *line, size_t size) {
    const int lock = store_open(base, LOCK, O_RDWR | O_CREAT, MOST_STATISTICS, NULL);
    if (lock < 0)
        return false;
    bool good;
    if (flock(lock, LOCK_SH | LOCK_NB) != 0) {
        good = append_aside(base, line, size);
    } else {
        const int log = store_open(base, LOG, O_WRONLY | O_APPEND | O_CREAT, MOST_STATISTICS, NULL);
        good = log >= 0 && write_all(log, line, size);
        if (log >= 0)
            close(log);
    }
    close(lock);
    return good;
}

bool statistics_append(const char *store, const uint8_t *line, size_t size) {
    const int base = store_base(store);
    const bool good = base >= 0 && append_to(base, line, size);
    if (base >= 0)
        close(base);
    return good;
}
