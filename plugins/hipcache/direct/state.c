/* The state of all that a compile depended on: variables and paths, as watched.py and record.py tell. */
#include "direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = PATH_MAX + 16 };
static const char DOMAIN[] = "hipcache direct state 1"; /* with its NUL */

void append(bytes *text, const void *more, size_t size) {
    if (text->room - text->size < size) {
        text->room = (text->size + size) * 2 + 4096;
        text->at = realloc(text->at, text->room);
        if (!text->at)
            abort(); /* the shell says so, and the build system tries no wrong object */
    }
    if (size)
        memcpy(text->at + text->size, more, size);
    text->size += size;
}

static size_t two_bytes(const uint8_t *at) {
    return (size_t)at[0] | (size_t)at[1] << 8;
}

/* Gives each text of a list, followed by a NUL. */
bool unpack_list(bytes list, bool (*each)(void *context, const uint8_t *text, size_t size), void *context) {
    bytes text = {0};
    bool good = true;
    while (good && list.size) {
        const size_t shared = list.size >= 4 ? two_bytes(list.at) : 0, more = list.size >= 4 ? two_bytes(list.at + 2) : 0;
        good = list.size >= 4 && shared <= text.size && more <= list.size - 4;
        if (!good)
            break;
        text.size = shared;
        append(&text, list.at + 4, more);
        append(&text, "", 1);
        text.size--;
        list.at += 4 + more;
        list.size -= 4 + more;
        good = each(context, text.at, text.size);
    }
    free(text.at);
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

/* Adds what is there now; false where something is not even of the right kind. */
static bool look(void *context, const uint8_t *text, size_t size) {
    bytes *state = context;
    struct stat found;
    if (size < 2 || strlen((const char *)text) != size)
        return false;
    const char kind = (char)text[0], *path = (const char *)text + 1;
    const bool there = (kind == 'l' || kind == 'a' ? lstat(path, &found) : stat(path, &found)) == 0;
    if (kind == 'a' || kind == 'n')
        return !there;
    if (!there)
        return false;
    switch (kind) {
    case 'f':
        number(state, found.st_dev), number(state, found.st_ino), number(state, found.st_mode);
        number(state, (uint64_t)found.st_size);
        number(state, nanoseconds(found.st_mtim)), number(state, nanoseconds(found.st_ctim));
        return true;
    case 'm':
        number(state, found.st_mode);
        return true;
    case 'i':
        number(state, found.st_dev), number(state, found.st_ino);
        return true;
    case 'l': {
        char target[PATH_MAX];
        const ssize_t length = S_ISLNK(found.st_mode) ? readlink(path, target, sizeof target) : 0;
        if (length < 0 || length == (ssize_t)sizeof target)
            return false;
        number(state, found.st_mode), number(state, (uint64_t)length);
        append(state, target, (size_t)length);
        return true;
    }
    default:
        return false;
    }
}

static bool is_ignored(bytes names, const char *variable) {
    const char *equals = strchr(variable, '=');
    const size_t length = equals ? (size_t)(equals - variable) : strlen(variable);
    for (size_t at = 0; at < names.size;) {
        const char *name = (const char *)names.at + at;
        const size_t size = strnlen(name, names.size - at);
        if (size == length && memcmp(name, variable, length) == 0)
            return true;
        at += size + 1;
    }
    return false;
}

static int by_text(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void add_variables(bytes *state, bytes ignored, char *const *environ) {
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    const char **variables = calloc(count + 1, sizeof *variables);
    if (!variables)
        abort();
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(ignored, environ[i]))
            variables[kept++] = environ[i];
    qsort(variables, kept, sizeof *variables, by_text);
    for (size_t i = 0; i < kept; i++)
        append(state, variables[i], strlen(variables[i]) + 1);
    free(variables);
}

bool state_holds(const record *found, char *const *environ) {
    bytes state = {0};
    uint8_t digest[DIGEST_BYTES];
    append(&state, DOMAIN, sizeof DOMAIN);
    add_variables(&state, found->ignored, environ);
    bool holds = unpack_list(found->watched, look, &state);
    if (holds) {
        blake3(state.at, state.size, digest);
        holds = found->state.size == DIGEST_BYTES && memcmp(digest, found->state.at, DIGEST_BYTES) == 0;
    }
    free(state.at);
    return holds;
}
