/* The state of all that a compile depended on: variables and paths, as watched.py, guards.py and record.py tell. */
#define _GNU_SOURCE
#include "direct.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GUARD_DIGITS = 32, STATUS_BYTES = 48 };
static const char DOMAIN[] = "hipcache direct state 1"; /* with its NUL */
static const char SYSTEM_DOMAIN[] = "hipcache system state 1";

bool make_room(bytes *text, size_t size) {
    if (text->failed || text->room - text->size >= size)
        return !text->failed;
    const size_t room = (text->size + size) * 2 + 4096;
    uint8_t *at = realloc(text->lent ? NULL : text->at, room);
    if (!at) {
        text->failed = true;
        return false;
    }
    if (text->lent)
        memcpy(at, text->at, text->size);
    *text = (bytes){at, text->size, room, false, false};
    return true;
}

void append(bytes *text, const void *more, size_t size) {
    if (!make_room(text, size))
        return;
    if (size)
        memcpy(text->at + text->size, more, size);
    text->size += size;
}

void release(bytes *text) {
    if (!text->lent)
        free(text->at);
    *text = (bytes){0};
}

void hexadecimal(const uint8_t *content, size_t size, char *text) {
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = "0123456789abcdef"[content[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[content[i] & 15];
    }
    text[2 * size] = 0;
}

static size_t two_bytes(const uint8_t *at) {
    return (size_t)at[0] | (size_t)at[1] << 8;
}

/* Gives each text of a list, followed by a NUL. */
bool unpack_list(bytes list, bool (*each)(void *context, const uint8_t *text, size_t size), void *context) {
    uint8_t room[PATH_MAX];
    bytes text = BEGINS_IN(room);
    bool good = true;
    while (good && list.size) {
        const size_t shared = list.size >= 4 ? two_bytes(list.at) : 0, more = list.size >= 4 ? two_bytes(list.at + 2) : 0;
        good = list.size >= 4 && shared <= text.size && more <= list.size - 4;
        if (!good)
            break;
        text.size = shared;
        append(&text, list.at + 4, more);
        append(&text, "", 1);
        if ((good = !text.failed) == false)
            break;
        text.size--;
        list.at += 4 + more;
        list.size -= 4 + more;
        good = each(context, text.at, text.size);
    }
    release(&text);
    return good;
}

static void number(bytes *state, uint64_t value) {
    uint8_t raw[8];
    for (int i = 0; i < 8; i++)
        raw[i] = (uint8_t)(value >> (8 * i));
    append(state, raw, 8);
}

static uint64_t nanoseconds(struct timespec time) {
    return (uint64_t)((int64_t)time.tv_sec * 1000000000 + time.tv_nsec);
}

/* The look at all that is watched. The paths of one directory stand together: from the second on, they are looked for
 * in the opened directory, not from the root again (the compiler's paths have up to 15 steps). */
typedef struct {
    bytes state;
    bool named; /* are the paths part of the state? */
    char directory[PATH_MAX];
    size_t length;
    int opened; /* NOT_YET, CANNOT_BE, or a file descriptor */
    bool guarded;
} looking;

enum { NOT_YET = -1, CANNOT_BE = -2 };

static void leave_directory(looking *at) {
    if (at->opened >= 0)
        close(at->opened);
    at->opened = NOT_YET;
}

static int status_of(looking *at, const char *path, int flags, struct stat *found) {
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;
    if (length == 0 || length >= PATH_MAX || slash[1] == 0)
        return fstatat(AT_FDCWD, path, found, flags);
    if (length != at->length || memcmp(at->directory, path, length) != 0) {
        leave_directory(at);
        memcpy(at->directory, path, length);
        at->directory[length] = 0;
        at->length = length;
        return fstatat(AT_FDCWD, path, found, flags);
    }
    if (at->opened == NOT_YET) {
        at->opened = open(at->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        at->opened = at->opened < 0 ? CANNOT_BE : at->opened;
    }
    return at->opened == CANNOT_BE ? fstatat(AT_FDCWD, path, found, flags) : fstatat(at->opened, slash + 1, found, flags);
}

void append_status(bytes *state, const struct stat *found) {
    number(state, found->st_dev), number(state, found->st_ino), number(state, found->st_mode);
    number(state, (uint64_t)found->st_size);
    number(state, nanoseconds(found->st_mtim)), number(state, nanoseconds(found->st_ctim));
}

/* Is the directory as it was? `text`: the first digits of its status' digest, and its path. */
static bool guard_holds(const char *text, size_t size) {
    struct stat found;
    uint8_t digest[DIGEST_BYTES];
    char digits[GUARD_DIGITS + 1];
    if (size <= GUARD_DIGITS || stat(text + GUARD_DIGITS, &found) != 0)
        return false;
    uint8_t room[STATUS_BYTES];
    bytes status = BEGINS_IN(room);
    append_status(&status, &found);
    blake3(status.at, status.size, digest);
    hexadecimal(digest, GUARD_DIGITS / 2, digits);
    return memcmp(digits, text, GUARD_DIGITS) == 0;
}

static int by_text(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The names in a directory, sorted: for one whose status does not tell (direct/guards.py). */
static bool add_entries(bytes *state, const char *path) {
    uint8_t digest[DIGEST_BYTES];
    bytes names = {0}, order = {0}, sorted = {0};
    const struct dirent *one;
    DIR *directory = opendir(path);
    while (directory && (one = readdir(directory)))
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            append(&names, one->d_name, strlen(one->d_name) + 1);
    for (size_t at = 0; at < names.size; at += strlen((char *)names.at + at) + 1) {
        const char *name = (char *)names.at + at;
        append(&order, &name, sizeof name);
    }
    if (order.size)
        qsort(order.at, order.size / sizeof(char *), sizeof(char *), by_text);
    for (size_t i = 0; i < order.size / sizeof(char *); i++)
        append(&sorted, ((char **)(void *)order.at)[i], strlen(((char **)(void *)order.at)[i]) + 1);
    const bool good = directory && !names.failed && !order.failed && !sorted.failed;
    if (good)
        blake3(sorted.at, sorted.size, digest), append(state, digest, DIGEST_BYTES);
    if (directory)
        closedir(directory);
    release(&names), release(&order), release(&sorted);
    return good;
}

/* Adds what is there now; false where something is not even of the right kind. */
static bool look(void *context, const uint8_t *text, size_t size) {
    looking *at = context;
    struct stat found;
    if (size < 2 || strlen((const char *)text) != size)
        return false;
    if (at->named)
        append(&at->state, text, size + 1);
    const char kind = (char)text[0], *path = (const char *)text + 1;
    if (kind == 'd') {
        at->guarded = guard_holds(path, size - 1);
        return true;
    }
    const bool missing = kind == 'a' || kind == 'n';
    at->guarded = at->guarded && missing;
    if (at->guarded)
        return true;
    const int flags = kind == 'l' || kind == 'a' ? AT_SYMLINK_NOFOLLOW : 0;
    const bool there = status_of(at, path, flags, &found) == 0;
    if (missing || !there)
        return missing && !there;
    switch (kind) {
    case 'f':
        append_status(&at->state, &found);
        return true;
    case 'e':
        return add_entries(&at->state, path);
    case 'm':
        number(&at->state, found.st_mode);
        return true;
    case 'i':
        number(&at->state, found.st_dev), number(&at->state, found.st_ino);
        return true;
    case 'l': {
        char target[PATH_MAX];
        const ssize_t length = S_ISLNK(found.st_mode) ? readlink(path, target, sizeof target) : 0;
        if (length < 0 || length == (ssize_t)sizeof target)
            return false;
        number(&at->state, found.st_mode), number(&at->state, (uint64_t)length);
        append(&at->state, target, (size_t)length);
        return true;
    }
    default:
        return false;
    }
}

/* The names that begin as `variable` does: each of some 40 is looked for among some 60. */
static bool is_ignored(bytes names, const char *variable) {
    const size_t length = strcspn(variable, "=");
    const char *name = (const char *)names.at, *end = name + names.size;
    while (name && name < end) {
        if (*name == *variable && (size_t)(end - name) > length && memcmp(name, variable, length) == 0 && !name[length])
            return true;
        name = memchr(name, 0, (size_t)(end - name));
        name += name != NULL;
    }
    return false;
}

static bool add_variables(bytes *state, bytes ignored, char *const *environ) {
    const char *few[128];
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    const char **variables = count <= sizeof few / sizeof *few ? few : calloc(count, sizeof *variables);
    if (!variables)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(ignored, environ[i]))
            variables[kept++] = environ[i];
    qsort(variables, kept, sizeof *variables, by_text);
    for (size_t i = 0; i < kept; i++)
        append(state, variables[i], strlen(variables[i]) + 1);
    if (variables != few)
        free(variables);
    return true;
}

static bool ends_in(looking *at, bytes watched, bytes digest) {
    uint8_t found[DIGEST_BYTES];
    bool holds = digest.size == DIGEST_BYTES && unpack_list(watched, look, at);
    leave_directory(at);
    holds = holds && !at->state.failed;
    if (holds) {
        blake3(at->state.at, at->state.size, found);
        holds = memcmp(found, digest.at, DIGEST_BYTES) == 0;
    }
    release(&at->state);
    return holds;
}

bool state_holds(const record *found, char *const *environ) {
    uint8_t room[1 << 14];
    looking at = {.state = BEGINS_IN(room), .opened = NOT_YET};
    append(&at.state, DOMAIN, sizeof DOMAIN);
    at.state.failed = !add_variables(&at.state, found->ignored, environ) || at.state.failed;
    return ends_in(&at, found->watched, found->state);
}

bool system_holds(bytes watched, bytes digest) {
    looking at = {.opened = NOT_YET, .named = true};
    append(&at.state, SYSTEM_DOMAIN, sizeof SYSTEM_DOMAIN);
    return ends_in(&at, watched, digest);
}
