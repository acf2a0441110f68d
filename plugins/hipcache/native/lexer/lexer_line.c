/* The lexer: line splices, and what is put out of a line (lexer.c). */
#include "lexer_parts.h"

#include <stdlib.h>
#include <string.h>

/* ODD: may be part of a name, or not. UCNs, names in UTF-8 and dollars are not looked into. */
const uint8_t LEX_CLASSES[256] = {
    /* clang-format off */
    [' '] = BLANK, ['\t'] = BLANK, ['\f'] = BLANK, ['\v'] = BLANK, [0] = BLANK, ['\n'] = NEWLINE, ['\r'] = NEWLINE,
    ['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['_'] = LETTER, ['0' ... '9'] = DIGIT, [0x80 ... 0xff] = ODD,
    ['$'] = ODD, ['\\'] = BACKSLASH, ['/'] = SLASH, ['"'] = QUOTE, ['\''] = APOSTROPHE, ['#'] = HASH, ['%'] = PERCENT,
    ['<'] = LESS, ['?'] = QUESTION, ['.'] = DOT,
    /* clang-format on */
};

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\f' || c == '\v'; }

void lex_add(lexer *l, bytes *text, const void *more, size_t size) {
    if (!size)
        return;
    if (text->room - text->size < size) {
        const size_t room = 2 * text->room + size + 64;
        uint8_t *at = realloc(text->at, room);
        if (!at) {
            l->out->flags |= LEXED_NO_MEMORY;
            return;
        }
        text->at = at;
        text->room = room;
    }
    memcpy(text->at + text->size, more, size);
    text->size += size;
}

void lex_put(lexer *l, uint8_t c) {
    if (l->capturing)
        lex_add(l, &l->out->lines, &c, 1);
}

/* The length of the line splice at a backslash: blanks may stand before the line's end. 0: it is none. */
size_t lex_splice(lexer *l, const uint8_t *from) {
    const uint8_t *at = from + 1;
    while (at < l->end && is_blank(*at))
        at++;
    looked(l, from, at);
    if (at == l->end || LEX_CLASSES[*at] != NEWLINE)
        return 0;
    if (at != from + 1)
        l->out->flags |= LEXED_NOT_BARE; /* clang warns */
    const uint8_t first = *at++;
    if (at < l->end && LEX_CLASSES[*at] == NEWLINE && *at != first)
        at++;
    return (size_t)(at - from);
}

/* The first place from `at` on where no splice begins. */
const uint8_t *lex_behind_splices(lexer *l, const uint8_t *at) {
    for (size_t size; at < l->end && *at == '\\' && (size = lex_splice(l, at));)
        at += size;
    return at;
}

/* The bytes go to `bare` as they are, those before `copied` have. */
void lex_copy_until(lexer *l, const uint8_t *at) {
    if (l->asked & LEXER_BARE)
        lex_add(l, &l->out->bare, l->copied, (size_t)(at - l->copied));
    l->copied = at;
}

void lex_trim(lexer *l) {
    bytes *bare = &l->out->bare;
    while (bare->size &&
           (bare->at[bare->size - 1] == ' ' || bare->at[bare->size - 1] == '\t' || bare->at[bare->size - 1] == '\r'))
        bare->size--;
}

void lex_end_of_line(lexer *l) {
    if (l->capturing) {
        if (l->kept)
            lex_put(l, '\n');
        else
            l->out->lines.size = l->line;
    }
    l->place = BEGIN;
    l->capturing = l->kept = l->reads = l->says = l->digraph = l->names_follow = false;
    l->line = l->out->lines.size;
}

/* A token begins, or a directive. */
void lex_begin(lexer *l, enum place place) {
    if (l->place == BEGIN)
        l->kept = l->capturing = l->asked & LEXER_ALL;
    if (place == NAME) {
        l->capturing = true;
        l->kept = l->asked & LEXER_ALL;
    }
    l->place = place;
}

/* Any token but a word. */
void lex_token(lexer *l) {
    if (l->place == BEGIN)
        lex_begin(l, CODE);
    else if (l->place == NAME)
        l->place = DIRECTIVE;
}

/* Has the line that ends here nothing but blanks and comments? (A line break in a comment is NUL and newline.) */
static bool is_empty(lexer *l) {
    const uint8_t *text = l->out->bare.at;
    if (!text)
        return true;
    const uint8_t *end = text + l->out->bare.size, *at = end;
    while (at - text > 1 && at[-1] == '\n' && at[-2] == 0 && (at - text == 2 || at[-3] != 0))
        at -= 2;
    looked(l, at, end);
    if (at == text)
        return true;
    if (at[-1] != '\n')
        return false;
    while (--at > text && at[-1] == '\r')
        ;
    return at == text || at[-1] != '\\'; /* a splice is text */
}

void lex_newline(lexer *l) {
    const uint8_t *blanks = l->at;
    if (l->asked & LEXER_BARE) {
        while (blanks > l->copied && (blanks[-1] == ' ' || blanks[-1] == '\t' || blanks[-1] == '\r'))
            blanks--;
        looked(l, blanks, l->at);
        if (blanks < l->at || blanks == l->copied || l->place == BEGIN) {
            lex_copy_until(l, blanks);
            lex_trim(l);
            l->copied = l->at;
        }
        if (l->place == BEGIN && is_empty(l))
            lex_add(l, &l->out->bare, "\0", 2);
    }
    l->at++;
    lex_end_of_line(l);
}
