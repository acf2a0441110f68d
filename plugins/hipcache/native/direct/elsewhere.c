/* Records for every checkout: direct/elsewhere.py has the format and the reasons. Where such a record says MARK, the
 * base directory of this compile stands. */
#define _GNU_SOURCE
#include "direct.h"

#include <stdlib.h>
#include <string.h>

static const char MARK[] = BASEDIR_MARK;
enum { MARK_BYTES = sizeof MARK - 1, COLUMNS = 75 };

/* A name that is spelled in one way alone, and in which nothing has a meaning to anybody. */
bool is_plain_base(const char *base) {
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+@-/";
    char real[PATH_MAX];
    return base[0] == '/' && base[1] && strlen(base) < PATH_MAX && strspn(base, LETTERS) == strlen(base) &&
           realpath(base, real) && strcmp(base, real) == 0;
}

bool append_portable(bytes *to, const char *text, const char *base) {
    const size_t size = strlen(base);
    if (strstr(text, MARK))
        return false;
    for (const char *found; (found = strstr(text, base));) {
        const bool ends = !found[size] || strchr("/=:;,\"' ", found[size]);
        append(to, text, (size_t)(found - text) + !ends);
        if (ends)
            append(to, MARK, MARK_BYTES);
        text = found + (ends ? size : 1);
    }
    append(to, text, strlen(text));
    return true;
}

void append_local(bytes *to, const uint8_t *text, size_t size, const char *base) {
    for (const uint8_t *found; size && (found = memmem(text, size, MARK, MARK_BYTES));) {
        const size_t before = (size_t)(found - text);
        append(to, text, before), append(to, base, strlen(base));
        text = found + MARK_BYTES, size -= before + MARK_BYTES;
    }
    append(to, text, size);
}

typedef struct {
    const char *base;
    bool (*each)(void *context, const uint8_t *text, size_t size);
    void *context;
} localizing;

static bool localize(void *context, const uint8_t *text, size_t size) {
    const localizing *of = context;
    uint8_t room[PATH_MAX];
    bytes local = BEGINS_IN(room);
    append_local(&local, text, size, of->base);
    append(&local, "", 1);
    const bool good = !local.failed && of->each(of->context, local.at, local.size - 1);
    release(&local);
    return good;
}

bool unpack_local(bytes list, const char *base, bool (*each)(void *context, const uint8_t *text, size_t size),
                  void *context) {
    localizing of = {base, each, context};
    return base ? unpack_list(list, localize, &of) : unpack_list(list, each, context);
}

/* Lines of a dependency file are broken by their length (build/depfile.py: write). Its names have no blanks: else there
 * is no such record. */
bool wrap_rule(bytes *text) {
    uint8_t room[1 << 16];
    bytes out = BEGINS_IN(room);
    const uint8_t *at = text->at, *end = at + text->size;
    bool targets = true;
    size_t column = 0;
    while (at < end && *at != '\n') {
        const uint8_t *from = at;
        while (at < end && *at != ' ' && *at != '\n')
            at++;
        size_t size = (size_t)(at - from);
        const bool broken = size == 1 && *from == '\\', last = targets && size && from[size - 1] == ':';
        if (size && !broken) {
            size -= last;
            if (targets && column && column + size + 2 > COLUMNS)
                append(&out, " \\\n  ", 5), column = size + 2;
            else if (targets)
                append(&out, " ", column != 0), column += size + (column != 0);
            else if (column + size + 3 > COLUMNS)
                append(&out, " \\\n  ", 5), column = size + 3;
            else
                append(&out, " ", 1), column += size + 1;
            append(&out, from, size);
        }
        if (last)
            append(&out, ":", 1), column++, targets = false;
        at += at < end && (*at == ' ' || broken);
    }
    append(&out, at, (size_t)(end - at));
    release(text);
    *text = (bytes){0};
    append(text, out.at, out.size);
    const bool good = !out.failed && !text->failed;
    release(&out);
    return good;
}
