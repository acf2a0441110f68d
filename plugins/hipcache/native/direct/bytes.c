/* Bytes that grow, and lists of texts as a record has them (direct/record.py). */
#define _GNU_SOURCE
#include "direct.h"

#include <stdlib.h>
#include <string.h>

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

int hexadecimal_digit(char digit) {
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static size_t two_bytes(const uint8_t *at) { return (size_t)at[0] | (size_t)at[1] << 8; }

/* Gives each text of a list, followed by a NUL. */
bool unpack_list(bytes list, bool (*each)(void *context, const uint8_t *text, size_t size), void *context) {
    uint8_t room[PATH_MAX];
    bytes text = BEGINS_IN(room);
    bool good = true;
    while (good && list.size) {
        const size_t shared = list.size >= 4 ? two_bytes(list.at) : 0,
                     more = list.size >= 4 ? two_bytes(list.at + 2) : 0;
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
