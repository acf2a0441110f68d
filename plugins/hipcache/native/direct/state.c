/* The state of all that a compile depended on: variables and paths, as inputs/watched.py and direct/record.py tell. */
#define _GNU_SOURCE
#include "look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

void look_number(bytes *state, uint64_t value) {
    uint8_t raw[8];
    for (int i = 0; i < 8; i++)
        raw[i] = (uint8_t)(value >> (8 * i));
    append(state, raw, 8);
}

static uint64_t nanoseconds(struct timespec time) {
    return (uint64_t)((int64_t)time.tv_sec * 1000000000 + time.tv_nsec);
}

uint64_t look_last_change(const struct stat *found) {
    const uint64_t modified = nanoseconds(found->st_mtim), changed = nanoseconds(found->st_ctim);
    return modified > changed ? modified : changed;
}

/* base/times.py has the reasons. */
static bool has_change_time(const struct stat *found) {
    return nanoseconds(found->st_mtim) != nanoseconds(found->st_ctim) || found->st_ctim.tv_nsec != 0;
}

bool look_keeps_change_time(const char *path, const struct stat *found) {
    return has_change_time(found) || look_keeps_times(path);
}

bool look_is_old(const char *path, const struct stat *found, uint64_t old) {
    return look_last_change(found) < old && look_keeps_change_time(path, found);
}

looking look_begin(uint8_t *room, size_t size, bool system) {
    looking at = {.state = {room, 0, size, true, false}, .opened = NOT_YET, .named = system};
    if (system)
        append(&at.state, SYSTEM_DOMAIN, sizeof SYSTEM_DOMAIN);
    else
        append(&at.state, STATE_DOMAIN, sizeof STATE_DOMAIN);
    return at;
}

void look_leave(looking *at) {
    if (at->opened >= 0)
        close(at->opened);
    at->opened = NOT_YET;
}

int look_status(looking *at, const char *path, int flags, struct stat *found) {
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;
    if (length == 0 || length >= PATH_MAX || slash[1] == 0)
        return fstatat(AT_FDCWD, path, found, flags);
    if (length != at->length || memcmp(at->directory, path, length) != 0) {
        look_leave(at);
        at->asked = false;
        memcpy(at->directory, path, length);
        at->directory[length] = 0;
        at->length = length;
        return fstatat(AT_FDCWD, path, found, flags);
    }
    if (at->opened == NOT_YET) {
        at->opened = open(at->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        at->opened = at->opened < 0 ? CANNOT_BE : at->opened;
    }
    return at->opened == CANNOT_BE ? fstatat(AT_FDCWD, path, found, flags)
                                   : fstatat(at->opened, slash + 1, found, flags);
}

bool look_allows(const char *path, const struct stat *found, int what) {
    const mode_t all = (mode_t)what * 0111, own = (mode_t)what * 0100;
    return (found->st_uid == 0 && (found->st_mode & all) == all) ||
           (found->st_uid == geteuid() && (found->st_mode & own)) || faccessat(AT_FDCWD, path, what, AT_EACCESS) == 0;
}

void look_failure(bytes *state) {
    if (errno != ENOENT && errno != ENOTDIR)
        look_number(state, (uint64_t)errno);
}

void append_status(bytes *state, const struct stat *found) {
    const uint64_t numbers[] = {found->st_dev,
                                found->st_ino,
                                found->st_mode,
                                (uint64_t)found->st_size,
                                nanoseconds(found->st_mtim),
                                nanoseconds(found->st_ctim)};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        look_number(state, numbers[i]);
}

void look_digits(const struct stat *found, char digits[GUARD_DIGITS + 1]) {
    uint8_t digest[DIGEST_BYTES], room[STATUS_BYTES];
    bytes status = BEGINS_IN(room);
    append_status(&status, found);
    blake3(status.at, status.size, digest);
    hexadecimal(digest, GUARD_DIGITS / 2, digits);
}

/* Is the directory as it was? `text`: the first digits of its status' digest, and its path. */
static bool guard_holds(const char *text, size_t size) {
    struct stat found;
    char digits[GUARD_DIGITS + 1];
    if (size <= GUARD_DIGITS || stat(text + GUARD_DIGITS, &found) != 0)
        return false;
    look_digits(&found, digits);
    return memcmp(digits, text, GUARD_DIGITS) == 0 && look_allows(text + GUARD_DIGITS, &found, X_OK);
}

/* Not: networks, FUSE, and overlays, whose lower layers may change behind them. From linux/magic.h; the names of these
 * stand in base/times.py. */
bool look_keeps_times(const char *path) {
    static const unsigned long KNOWN[] = {0xEF53,     0x58465342, 0x9123683E, 0x01021994,
                                          0xF2F52010, 0xCA451A4E, 0x2FC12FC1};
    struct statfs system;
    if (statfs(path, &system) != 0)
        return false;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if ((unsigned long)system.f_type == KNOWN[i])
            return true;
    return false;
}

/* `look_keeps_change_time`, asked once for each directory: an image of a disk may have no such time of any file. */
static bool keeps_change_time(looking *at, const char *path, const struct stat *found) {
    if (has_change_time(found))
        return true;
    if (!at->asked || at->device != found->st_dev)
        at->asked = true, at->device = found->st_dev, at->keeps_times = look_keeps_times(path);
    return at->keeps_times;
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* The names in a directory, sorted: for one whose status does not tell (inputs/watched.py). */
bool look_entries(const char *path, uint8_t digest[DIGEST_BYTES]) {
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
        blake3(sorted.at, sorted.size, digest);
    if (directory)
        closedir(directory);
    release(&names), release(&order), release(&sorted);
    return good;
}

ssize_t look_link(const char *path, const struct stat *found, char target[PATH_MAX]) {
    const ssize_t length = S_ISLNK(found->st_mode) ? readlink(path, target, PATH_MAX) : 0;
    return length == PATH_MAX ? -1 : length;
}

/* Adds what is there now; false where something is not even of the right kind. */
static bool look(void *context, const uint8_t *text, size_t size) {
    looking *at = context;
    struct stat found;
    uint8_t digest[DIGEST_BYTES];
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
    if (look_status(at, path, flags, &found) != 0) {
        look_failure(&at->state);
        return missing;
    }
    if (missing)
        return false;
    switch (kind) {
    case 'f':
        append_status(&at->state, &found);
        return keeps_change_time(at, path, &found) && look_allows(path, &found, R_OK);
    case 'e':
        if (!look_entries(path, digest))
            return false;
        append(&at->state, digest, DIGEST_BYTES);
        return true;
    case 'm':
        look_number(&at->state, found.st_mode);
        return true;
    case 'i':
    case 'o':
        look_number(&at->state, found.st_dev), look_number(&at->state, found.st_ino);
        return true;
    case 'p':
        return look_processor(&at->state);
    case 'l': {
        char target[PATH_MAX];
        const ssize_t length = look_link(path, &found, target);
        if (length < 0)
            return false;
        look_number(&at->state, found.st_mode), look_number(&at->state, (uint64_t)length);
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

/* Is PWD another name of the working directory (inputs/variables.py: compared)? */
static bool renames(const char *path, const char *directory) {
    struct stat named, here;
    return path[0] == '/' && strcmp(path, directory) != 0 && stat(path, &named) == 0 && stat(directory, &here) == 0 &&
           named.st_dev == here.st_dev && named.st_ino == here.st_ino;
}

static bool is_compared(bytes ignored, const char *variable, const char *directory) {
    return !is_ignored(ignored, variable) || (strncmp(variable, "PWD=", 4) == 0 && renames(variable + 4, directory));
}

static bool add_variables(bytes *state, bytes ignored, const request *asked, const char *base) {
    char *const *environment = asked->environ;
    const char *few[128];
    size_t count = 0, kept = 0;
    bool clear = true;
    while (environment[count])
        count++;
    const char **variables = count <= sizeof few / sizeof *few ? few : calloc(count, sizeof *variables);
    if (!variables)
        return false;
    for (size_t i = 0; i < count; i++)
        if (is_compared(ignored, environment[i], asked->directory))
            variables[kept++] = environment[i];
    qsort(variables, kept, sizeof *variables, by_text);
    for (size_t i = 0; i < kept; i++)
        if (base)
            clear = append_portable(state, variables[i], base) && clear, append(state, "", 1);
        else
            append(state, variables[i], strlen(variables[i]) + 1);
    if (variables != few)
        free(variables);
    return clear;
}

static bool ends_in(looking *at, bytes watched, bytes digest) {
    uint8_t found[DIGEST_BYTES];
    bool holds = state_is_known(digest) && unpack_list(watched, look, at);
    look_leave(at);
    holds = holds && !at->state.failed;
    if (holds) {
        blake3(at->state.at, at->state.size, found);
        holds = memcmp(found, digest.at, DIGEST_BYTES) == 0;
    }
    release(&at->state);
    return holds;
}

bool variables_hold(const record *found, const request *asked) {
    uint8_t room[1 << 14], digest[DIGEST_BYTES];
    bytes text = BEGINS_IN(room);
    append(&text, VARIABLES_DOMAIN, sizeof VARIABLES_DOMAIN);
    const bool whole = add_variables(&text, found->ignored, asked, found->base) && !text.failed;
    if (whole)
        blake3(text.at, text.size, digest);
    release(&text);
    return whole && memcmp(digest, found->variables.at, DIGEST_BYTES) == 0;
}

bool state_holds(const record *found) {
    uint8_t room[1 << 14];
    looking at = look_begin(room, sizeof room, false);
    return ends_in(&at, found->watched, found->state);
}

bool system_holds(bytes watched, bytes digest) {
    uint8_t room[1 << 12];
    looking at = look_begin(room, sizeof room, true);
    return ends_in(&at, watched, digest);
}
