/* The resident: knows without a look at each file whether compilers, device libraries and system headers are as they
 * were. It watches them (watching.c), and forgets all that it knows as soon as anything happens to any of them; before
 * each answer it takes up what has happened. It compiles nothing, writes nothing and keeps no process waiting.
 *
 * git's fsmonitor--daemon and Watchman do this for working trees. Here a tree that somebody works in is not watched
 * (record.py: `is_of_system`), so a change is rare, and it is no loss to forget everything with it.
 *
 * A digest is known when each step on the way to each of its paths is watched, and all was found as it says after that.
 * Events of a change are there before the call that made the change returns: no answer is older than its question. */
#define _GNU_SOURCE
#include "resident.h"
#include "watching.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK = 15,        /* seconds between looks at whether it is still wanted */
    IDLE = 600,       /* seconds without a question after which it ends */
    QUIET = 1,        /* seconds after an event in which nothing is learned: packages are being installed */
    PAUSE = 20,       /* milliseconds in which nobody asks: then there is time to learn */
    UNREAD = 1 << 24, /* bytes of what was told and not learned yet; more than that is told again */
    ASKERS = 64,      /* connections at a time */
    KNOWN = 1 << 16,  /* digests; sources that include the same of the system share one */
    PACKET = 1 << 18, /* bytes: the longest list */
};

/* The messages that were told, until there is time for them. */
typedef struct told {
    struct told *next;
    size_t size;
    uint8_t digest[DIGEST_BYTES];
    uint8_t paths[];
} told;

typedef struct {
    watching system;
    int listener, lock;
    seen files;
    time_t restless; /* until then nothing is learned */
    table known;     /* state -> 'y' if it holds, or 'n' if it cannot be watched */
    told *first, **end;
    size_t unread;
    struct sockaddr_un address;
    ino_t socket;
} resident;

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static void forget(resident *self) {
    table_empty(&self->known);
    if (!watching_again(&self->system))
        exit(1);
}

/* False: something has happened, and all is forgotten. */
static bool take_up(resident *self) {
    const bool quiet = watching_is_quiet(&self->system);
    if (!quiet) {
        self->restless = now() + QUIET + 1;
        forget(self);
    }
    return quiet;
}

/* Learns that a state holds, if it does: all is watched first, and then looked at. */
static void learn(resident *self, const uint8_t *digest, bytes paths) {
    if (now() < self->restless || table_find(&self->known, digest))
        return;
    if (self->known.count >= KNOWN)
        forget(self);
    const bool watched = watching_add(&self->system, paths);
    if (!take_up(self))
        return;
    if (!watched)
        table_put(&self->known, digest, 'n');
    else if (system_holds(paths, LENT((uint8_t *)digest, DIGEST_BYTES)))
        table_put(&self->known, digest, 'y');
}

static void learn_first(resident *self) {
    told *one = self->first;
    self->first = one->next;
    if (!self->first)
        self->end = &self->first;
    self->unread -= one->size;
    learn(self, one->digest, LENT(one->paths, one->size));
    free(one);
}

/* Learning takes longer than anybody who asks meanwhile would wait. */
static void keep(resident *self, const uint8_t *digest, const uint8_t *paths, size_t size) {
    told *one = self->unread + size <= UNREAD ? malloc(sizeof *one + size) : NULL;
    if (!one)
        return;
    one->next = NULL, one->size = size;
    memcpy(one->digest, digest, DIGEST_BYTES);
    memcpy(one->paths, paths, size);
    *self->end = one;
    self->end = &one->next;
    self->unread += size;
}

static char of_system(resident *self, const question *asked) {
    if (memcmp(&asked->files, &self->files, sizeof self->files) != 0)
        return 'n';
    if (!take_up(self) || now() < self->restless)
        return 'n';
    const int found = table_find(&self->known, asked->system);
    return found ? (char)found : 't';
}

/* False when that connection has ended. */
static bool hear(resident *self, int fd, uint8_t *packet) {
    const ssize_t size = recv(fd, packet, PACKET, MSG_DONTWAIT | MSG_TRUNC);
    question asked;
    if (size < 0)
        return errno == EAGAIN || errno == EINTR;
    if (size == sizeof asked && packet[0] == '?') {
        memcpy(&asked, packet, sizeof asked);
        const char said = of_system(self, &asked);
        return send(fd, &said, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 && said == 't';
    }
    if (size > 1 + DIGEST_BYTES && size <= PACKET && packet[0] == '!')
        keep(self, packet + 1, packet + 1 + DIGEST_BYTES, (size_t)size - 1 - DIGEST_BYTES);
    return false;
}

static bool is_still_there(const resident *self) {
    struct stat found;
    return lstat(self->address.sun_path, &found) == 0 && found.st_ino == self->socket;
}

/* Alone under its name: the lock is held for life, so what a killed one left can be removed. */
static bool settle(resident *self) {
    char lock[PATH_MAX];
    struct stat found;
    if (!resident_address(&self->address) || !resident_place(lock, ".lock") || !resident_sees(&self->files))
        return false;
    self->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (self->lock < 0 || flock(self->lock, LOCK_EX | LOCK_NB) != 0)
        return false;
    self->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->listener < 0 || !watching_begin(&self->system))
        return false;
    unlink(self->address.sun_path);
    if (bind(self->listener, (struct sockaddr *)&self->address, sizeof self->address) != 0 ||
        chmod(self->address.sun_path, 0600) != 0 || lstat(self->address.sun_path, &found) != 0 ||
        listen(self->listener, ASKERS) != 0)
        return false;
    self->socket = found.st_ino;
    return true;
}

int resident_main(int idle) {
    idle = idle > 0 ? idle : IDLE;
    const int tick = idle < TICK ? 1 : TICK;
    resident self = {.listener = -1, .lock = -1};
    struct pollfd waiting[1 + ASKERS];
    uint8_t *packet = malloc(PACKET);
    nfds_t count = 1;
    if (!packet || !settle(&self))
        return 1;
    self.end = &self.first;
    prctl(PR_SET_NAME, "hipcache-watch");
    waiting[0] = (struct pollfd){self.listener, POLLIN, 0};
    int pause = PAUSE;
    for (time_t asked = now(); now() - asked < idle;) {
        const int ready = poll(waiting, count, self.first ? pause : tick * 1000);
        if (ready < 0 && errno != EINTR)
            return 1;
        pause = ready == 0 ? 0 : PAUSE;
        if (ready == 0 && self.first) {
            learn_first(&self);
            continue;
        }
        if (ready <= 0) {
            take_up(&self); /* so that a long row of events does not stay in the kernel */
            if (!is_still_there(&self))
                return 0;
            continue;
        }
        asked = now();
        for (nfds_t i = 1; i < count; i++)
            if (waiting[i].revents && !hear(&self, waiting[i].fd, packet)) {
                close(waiting[i].fd);
                waiting[i--] = waiting[--count];
            }
        if (waiting[0].revents) {
            if (count > ASKERS) { /* one that asked, and then says nothing, does not keep others from asking */
                close(waiting[1].fd);
                waiting[1] = waiting[--count];
            }
            const int fd = accept4(self.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd >= 0 && (!resident_is_mine(fd) || !hear(&self, fd, packet)))
                close(fd);
            else if (fd >= 0)
                waiting[count++] = (struct pollfd){fd, POLLIN, 0};
        }
    }
    if (is_still_there(&self))
        unlink(self.address.sun_path);
    return 0;
}
