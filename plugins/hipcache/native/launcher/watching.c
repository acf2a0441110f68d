/* Watches paths with inotify(7). A path leads over directories and links, each of which may become another one; so
 * every step is watched for the name that comes next, and the file at the end for itself, whatever name it is
 * written by.
 *
 * Events of a change are in the queue before the call that made the change returns. */
#define _GNU_SOURCE
#include "watching.h"

#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINKS = 40, /* on one way, as the kernel follows */
    SHARE = 4, /* of the watches that this user may have: editors want some too */
};

static const uint32_t DIRECTORY_EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                                         IN_DELETE_SELF | IN_MOVE_SELF;
static const uint32_t FILE_EVENTS = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

static entry *place(const table *all, const uint8_t digest[DIGEST_BYTES]) {
    size_t at;
    memcpy(&at, digest, sizeof at);
    for (at &= all->room - 1; all->entries[at].value; at = (at + 1) & (all->room - 1))
        if (memcmp(all->entries[at].digest, digest, DIGEST_BYTES) == 0)
            break;
    return &all->entries[at];
}

int table_find(const table *all, const uint8_t digest[DIGEST_BYTES]) {
    return all->room ? place(all, digest)->value : 0;
}

void table_put(table *all, const uint8_t digest[DIGEST_BYTES], int value) {
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

void table_empty(table *all) {
    free(all->entries);
    *all = (table){0};
}

bool watching_again(watching *self) {
    if (self->events >= 0)
        close(self->events);
    self->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    self->watches = 0;
    table_empty(&self->watched), table_empty(&self->names);
    return self->events >= 0;
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

bool watching_begin(watching *self) {
    *self = (watching){.events = -1, .most = watches_of_user() / SHARE};
    self->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    return self->mounts >= 0 && watching_again(self);
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
static bool matters(const watching *self, const struct inotify_event *event) {
    uint8_t name[DIGEST_BYTES], every[DIGEST_BYTES];
    if (event->len == 0 || event->wd < 0)
        return true;
    name_in(event->wd, event->name, strnlen(event->name, event->len), name), name_in(event->wd, "", 0, every);
    return table_find(&self->names, name) || table_find(&self->names, every);
}

bool watching_is_quiet(watching *self) {
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
    return quiet && size < 0 && errno == EAGAIN;
}

/* The watch of `path`, which is resolved, without links; 0 if it cannot be watched. */
static int watch(watching *self, const char *path, bool directory) {
    uint8_t digest[DIGEST_BYTES];
    blake3((const uint8_t *)path, strlen(path), digest);
    const int before = table_find(&self->watched, digest);
    if (before)
        return before;
    /* Where times are kept, all changes come by the kernel's file operations. */
    if (self->watches >= self->most || !look_keeps_times(path))
        return 0;
    const uint32_t events = IN_DONT_FOLLOW | (directory ? DIRECTORY_EVENTS | IN_ONLYDIR : FILE_EVENTS);
    const int made = inotify_add_watch(self->events, path, events);
    if (made <= 0)
        return 0;
    self->watches++;
    table_put(&self->watched, digest, made);
    return made;
}

static void mind(watching *self, int watch, const char *name, size_t size) {
    uint8_t digest[DIGEST_BYTES];
    name_in(watch, name, size, digest);
    table_put(&self->names, digest, 1);
}

/* Watches each step on the way to `path`, as far as there is one: path_resolution(7). `kind`: as in a record. */
static bool watch_way(watching *self, char kind, const char *path) {
    char here[PATH_MAX] = "/", rest[PATH_MAX], next[PATH_MAX], target[PATH_MAX];
    const bool follow_last = kind != 'l' && kind != 'a', entries_matter = strchr("fde", kind) != NULL;
    const char *slash = strrchr(path, '/');
    const size_t before = slash ? (size_t)(slash - path) : 0;
    int watched = watch(self, "/", true), links = 0;
    bool way_is_known = before && before == self->last.size && memcmp(path, self->last.named, before) == 0;
    if (!watched || path[0] != '/' || snprintf(rest, PATH_MAX, "%s", path + (way_is_known ? before : 0)) >= PATH_MAX)
        return false;
    if (way_is_known) {
        memcpy(here, self->last.is, PATH_MAX);
        watched = self->last.watch;
    }
    for (;;) {
        struct stat found;
        const char *step = rest + strspn(rest, "/");
        const size_t size = strcspn(step, "/");
        const char *after = step + size;
        if (size == 0)
            break;
        if (!way_is_known && links == 0 && before && strcmp(step, slash + 1) == 0 && before < PATH_MAX) {
            self->last.size = before, self->last.watch = watched;
            memcpy(self->last.named, path, before);
            memcpy(self->last.is, here, PATH_MAX);
            way_is_known = true;
        }
        const bool up = size == 2 && memcmp(step, "..", 2) == 0;
        if (up || (size == 1 && step[0] == '.')) {
            char *const end = strrchr(here, '/');
            if (up)
                end[end == here] = 0;
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
    const size_t before = text[0] == 'd' ? 1 + GUARD_DIGITS : 1;
    return size > before && strlen((const char *)text) == size &&
           watch_way(context, (char)text[0], (const char *)text + before);
}

bool watching_add(watching *self, bytes paths) {
    self->last.size = 0;
    return unpack_list(paths, watch_text, self);
}
