/* The resident: knows without a look at each file whether compilers, device libraries and system headers are as they
 * were. It watches them (inotify(7)), and forgets all that it knows as soon as anything happens to any of them; before
 * each answer it takes up what has happened. It compiles nothing, writes nothing and keeps no process waiting.
 *
 * git's fsmonitor--daemon and Watchman do this for working trees. Here a tree that somebody works in is never watched
 * (record.py: `system`), so an event is a rare thing, as is the loss of all knowledge: no event is looked into.
 *
 * A digest is known when each step on the way to each of its paths is watched, and then all was found as it says. Events
 * of a change are in the queue before the call that made the change returns, so no answer is older than its question. */
#define _GNU_SOURCE
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK = 15,       /* seconds between looks at whether it is still wanted */
    IDLE = 600,      /* seconds without a question after which it ends */
    QUIET = 1,       /* seconds after an event in which nothing is learned: packages are being installed */
    ASKERS = 64,     /* connections at a time */
    LINKS = 40,      /* on one way, as the kernel follows */
    KNOWN = 1 << 16, /* digests; each translation unit has one */
    PACKET = 1 << 18,
    SHARE = 4 /* of the watches that this user may have: editors want some too */
};

/* Local file systems whose changes all come by the kernel's file operations. Not: networks, FUSE, and overlays, whose
 * lower layers may change behind them. From linux/magic.h. */
static const unsigned long WATCHABLE[] = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1};

static const uint32_t DIRECTORY_EVENTS =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
static const uint32_t FILE_EVENTS = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

/* Numbers by digest, open addressing; 0 is none. */
typedef struct {
    uint8_t digest[DIGEST_BYTES];
    int value;
} entry;

typedef struct {
    entry *entries;
    size_t room, count;
} table;

typedef struct {
    int events, mounts, listener, lock;
    seen files;
    size_t watches, most;
    time_t restless; /* until then nothing is learned */
    table known;     /* state -> 'y' if it holds, or 'n' where it cannot be watched */
    table watched;   /* resolved path -> watch */
    table names;     /* watch of a directory and a name in it, or that watch alone where every name matters -> 1 */
    struct sockaddr_un address;
    ino_t socket;
} resident;

static entry *place(const table *all, const uint8_t digest[DIGEST_BYTES]) {
    size_t at;
    memcpy(&at, digest, sizeof at);
    for (at &= all->room - 1; all->entries[at].value; at = (at + 1) & (all->room - 1))
        if (memcmp(all->entries[at].digest, digest, DIGEST_BYTES) == 0)
            break;
    return &all->entries[at];
}

static int find(const table *all, const uint8_t digest[DIGEST_BYTES]) {
    return all->room ? place(all, digest)->value : 0;
}

static void put(table *all, const uint8_t digest[DIGEST_BYTES], int value) {
    if (all->count * 2 >= all->room) {
        const table old = *all;
        all->room = old.room ? old.room * 2 : 1024;
        all->entries = calloc(all->room, sizeof *all->entries);
        if (!all->entries)
            abort(); /* nobody waits for more than an answer */
        for (size_t i = 0; i < old.room; i++)
            if (old.entries[i].value)
                *place(all, old.entries[i].digest) = old.entries[i];
        free(old.entries);
    }
    entry *here = place(all, digest);
    all->count += here->value == 0;
    memcpy(here->digest, digest, DIGEST_BYTES);
    here->value = value;
}

static void empty(table *all) {
    free(all->entries);
    *all = (table){0};
}

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static bool forget(resident *self) {
    if (self->events >= 0)
        close(self->events);
    self->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    self->watches = 0;
    empty(&self->known), empty(&self->watched), empty(&self->names);
    return self->events >= 0;
}

/* The key in `names`; without a name: of "every name". */
static void name_in(int watch, const char *name, size_t size, uint8_t digest[DIGEST_BYTES]) {
    uint8_t text[sizeof watch + NAME_MAX + 1];
    size = size > NAME_MAX + 1 ? NAME_MAX + 1 : size;
    memcpy(text, &watch, sizeof watch);
    memcpy(text + sizeof watch, name, size);
    blake3(text, sizeof watch + size, digest);
}

/* Other names come and go beside those that matter (in /tmp, or where a toolchain lies beside what is built). */
static bool matters(const resident *self, const struct inotify_event *event) {
    uint8_t name[DIGEST_BYTES], every[DIGEST_BYTES];
    if (event->len == 0 || event->wd < 0)
        return true;
    name_in(event->wd, event->name, strnlen(event->name, event->len), name), name_in(event->wd, "", 0, every);
    return find(&self->names, name) || find(&self->names, every);
}

/* Takes up what has happened, also that some of it was lost, and any change of what is mounted where. False: something
 * that matters, and all is forgotten. */
static bool take_up(resident *self) {
    _Alignas(struct inotify_event) char events[1 << 14];
    struct pollfd mounts = {self->mounts, POLLPRI, 0};
    bool quiet = poll(&mounts, 1, 0) == 0;
    ssize_t size = 0;
    while (quiet && (size = read(self->events, events, sizeof events)) > 0)
        for (ssize_t at = 0; quiet && at < size;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);
            quiet = !matters(self, event);
            at += (ssize_t)(sizeof *event + event->len);
        }
    quiet = quiet && size < 0 && errno == EAGAIN;
    if (!quiet) {
        self->restless = now() + QUIET + 1;
        if (!forget(self))
            exit(1);
    }
    return quiet;
}

static bool can_be_watched(const char *path) {
    struct statfs system;
    if (statfs(path, &system) != 0)
        return false;
    for (size_t i = 0; i < sizeof WATCHABLE / sizeof *WATCHABLE; i++)
        if ((unsigned long)system.f_type == WATCHABLE[i])
            return true;
    return false;
}

/* The watch of `path`, which is resolved, without links; 0 where it cannot be watched. */
static int watch(resident *self, const char *path, bool directory) {
    uint8_t digest[DIGEST_BYTES];
    blake3((const uint8_t *)path, strlen(path), digest);
    const int before = find(&self->watched, digest);
    if (before)
        return before;
    if (self->watches >= self->most || !can_be_watched(path))
        return 0;
    const uint32_t events = IN_DONT_FOLLOW | (directory ? DIRECTORY_EVENTS | IN_ONLYDIR : FILE_EVENTS);
    const int made = inotify_add_watch(self->events, path, events);
    if (made <= 0)
        return 0;
    self->watches++;
    put(&self->watched, digest, made);
    return made;
}

static void mind(resident *self, int watch, const char *name, size_t size) {
    uint8_t digest[DIGEST_BYTES];
    name_in(watch, name, size, digest);
    put(&self->names, digest, 1);
}

/* Watches each step on the way to `path`, as far as there is one: path_resolution(7). `kind`: as in a record. */
static bool watch_way(resident *self, char kind, const char *path) {
    char here[PATH_MAX] = "/", rest[PATH_MAX], next[PATH_MAX], target[PATH_MAX];
    const bool follow_last = kind != 'l' && kind != 'a', entries_matter = kind == 'f' || kind == 'd';
    int watched = watch(self, "/", true), links = 0;
    if (!watched || path[0] != '/' || snprintf(rest, PATH_MAX, "%s", path) >= PATH_MAX)
        return false;
    for (;;) {
        struct stat found;
        const char *step = rest + strspn(rest, "/");
        const size_t size = strcspn(step, "/");
        const char *after = step + size;
        if (size == 0)
            break;
        const bool up = size == 2 && memcmp(step, "..", 2) == 0;
        if (up || (size == 1 && step[0] == '.')) {
            char *slash = strrchr(here, '/');
            if (up)
                slash[slash == here] = 0;
            memmove(rest, after, strlen(after) + 1);
            if (!(watched = watch(self, here, true)))
                return false;
            continue;
        }
        if (snprintf(next, PATH_MAX, "%s%s%.*s", here, here[1] ? "/" : "", (int)size, step) >= PATH_MAX)
            return false;
        mind(self, watched, step, size);
        if (lstat(next, &found) != 0)
            return errno == ENOENT; /* the directory tells if it comes */
        if (S_ISLNK(found.st_mode)) {
            if (!follow_last && after[strspn(after, "/")] == 0)
                return true; /* the directory tells if it becomes another */
            const ssize_t text = readlink(next, target, sizeof target);
            if (text <= 0 || text == (ssize_t)sizeof target || ++links > LINKS ||
                snprintf(next, PATH_MAX, "%.*s%s", (int)text, target, after) >= PATH_MAX)
                return false;
            if (next[0] == '/') {
                here[1] = 0;
                watched = watch(self, here, true);
            }
            memcpy(rest, next, strlen(next) + 1);
            continue;
        }
        if (!S_ISDIR(found.st_mode))
            return S_ISREG(found.st_mode) && watch(self, next, false); /* what follows cannot be there */
        if (!(watched = watch(self, next, true)))
            return false;
        memcpy(here, next, strlen(next) + 1);
        memmove(rest, after, strlen(after) + 1);
    }
    if (entries_matter)
        mind(self, watched, "", 0);
    return true;
}

static bool watch_text(void *context, const uint8_t *text, size_t size) {
    enum { GUARD_DIGITS = 32 };
    const size_t before = text[0] == 'd' ? 1 + GUARD_DIGITS : 1;
    return size > before && strlen((const char *)text) == size &&
           watch_way(context, (char)text[0], (const char *)text + before);
}

/* Learns that a state holds, if it does: all is watched first, and then looked at. */
static void learn(resident *self, const uint8_t *digest, bytes paths) {
    if (now() < self->restless || find(&self->known, digest))
        return;
    if (self->known.count >= KNOWN && !forget(self))
        exit(1);
    const bool watched = unpack_list(paths, watch_text, self);
    if (!take_up(self))
        return;
    if (!watched)
        put(&self->known, digest, 'n');
    else if (system_holds(paths, (bytes){(uint8_t *)digest, DIGEST_BYTES, 0}))
        put(&self->known, digest, 'y');
}

static char answer(resident *self, const question *asked) {
    if (memcmp(&asked->files, &self->files, sizeof self->files) != 0)
        return 'n';
    if (!take_up(self) || now() < self->restless)
        return 'n';
    const int found = find(&self->known, asked->digest);
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
        const char said = answer(self, &asked);
        return send(fd, &said, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 && said == 't';
    }
    if (size > 1 + DIGEST_BYTES && size <= PACKET && packet[0] == '!')
        learn(self, packet + 1, (bytes){packet + 1 + DIGEST_BYTES, (size_t)size - 1 - DIGEST_BYTES, 0});
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
    self->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (self->listener < 0 || self->mounts < 0 || !forget(self))
        return false;
    unlink(self->address.sun_path);
    if (bind(self->listener, (struct sockaddr *)&self->address, sizeof self->address) != 0 ||
        chmod(self->address.sun_path, 0600) != 0 || lstat(self->address.sun_path, &found) != 0 ||
        listen(self->listener, ASKERS) != 0)
        return false;
    self->socket = found.st_ino;
    return true;
}

static size_t watches_of_user(void) {
    size_t most = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_user_watches", "re");
    if (file && fscanf(file, "%zu", &most) != 1)
        most = 0;
    if (file)
        fclose(file);
    return most;
}

int resident_main(int idle) {
    idle = idle > 0 ? idle : IDLE;
    const int tick = idle < TICK ? 1 : TICK;
    resident self = {.events = -1, .mounts = -1, .listener = -1, .lock = -1, .most = watches_of_user() / SHARE};
    struct pollfd waiting[1 + ASKERS];
    uint8_t *packet = malloc(PACKET);
    nfds_t count = 1;
    if (!packet || !settle(&self))
        return 1;
    prctl(PR_SET_NAME, "hipcache-watch");
    waiting[0] = (struct pollfd){self.listener, POLLIN, 0};
    for (time_t asked = now(); now() - asked < idle;) {
        const int ready = poll(waiting, count, tick * 1000);
        if (ready < 0 && errno != EINTR)
            return 1;
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
