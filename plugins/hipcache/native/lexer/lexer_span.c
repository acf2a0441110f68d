/* The lexer: literals, header names and comments (lexer.c). */
#define _GNU_SOURCE
#include "lexer_parts.h"

#include <string.h>

/* A byte of a literal or a name, without splices. */
static void literal(lexer *l, bytes *contents, uint8_t c) {
    const uint8_t plain = LEX_CLASSES[c] == NEWLINE ? ' ' : c;
    lex_put(l, plain);
    if (contents)
        lex_add(l, contents, &plain, 1);
}

/* A string or character literal; `at` is at its quote. */
void lex_quoted(lexer *l, uint8_t quote) {
    const uint8_t *from = l->at;
    bytes *contents = quote == '"' && !l->names_follow ? &l->out->strings : NULL;
    lex_token(l);
    if (l->at == l->odd)
        l->out->flags |= LEXED_AMBIGUOUS;
    lex_put(l, quote);
    for (l->at++;;) {
        l->at = lex_behind_splices(l, l->at);
        if (l->at == l->end || LEX_CLASSES[*l->at] == NEWLINE) {
            l->out->flags |= LEXED_UNPLAIN; /* an apostrophe in text that is skipped */
            break;
        }
        const uint8_t c = *l->at++;
        if (c == quote) {
            lex_put(l, quote);
            break;
        }
        literal(l, contents, c);
        if (c == '\\') {
            l->at = lex_behind_splices(l, l->at);
            if (l->at < l->end && LEX_CLASSES[*l->at] != NEWLINE)
                literal(l, contents, *l->at++);
        } else if (c == '?' && l->end - l->at >= 2 && *l->at == '?' &&
                   (l->at[1] == '/' || (l->at[1] == '\'' && quote == '\'')))
            l->out->flags |= LEXED_AMBIGUOUS;
    }
    if (contents)
        lex_add(l, contents, "\n", 1);
    l->names_follow = false;
    looked(l, from, l->at);
}

static bool is_delimiter(uint8_t c) { return is_word(c) || (c && strchr("{}[]#<>%:;?*+-/^&|~!=,'.", c)); }

/* A raw string; `at` is at its quote. Nothing in it is a splice or a trigraph. */
void lex_raw_string(lexer *l) {
    const uint8_t *from = l->at, *delimiter = from + 1, *open = delimiter;
    while (open < l->end && open - delimiter < 16 && is_delimiter(*open))
        open++;
    const size_t size = (size_t)(open - delimiter);
    const uint8_t *close = open;
    if (open == l->end || *open != '(') {
        l->out->flags |= LEXED_AMBIGUOUS;
        close = memchr(from + 1, '"', (size_t)(l->end - from - 1));
        l->at = close ? close + 1 : l->end;
    } else {
        for (close = open + 1;; close++) {
            close = close < l->end ? memchr(close, ')', (size_t)(l->end - close)) : NULL;
            if (!close || (size_t)(l->end - close) < size + 2) {
                close = NULL;
                break;
            }
            if (memcmp(close + 1, delimiter, size) == 0 && close[1 + size] == '"')
                break;
        }
        if (!close)
            l->out->flags |= LEXED_AMBIGUOUS;
        l->at = close ? close + size + 2 : l->end;
    }
    for (const uint8_t *at = from; at < l->at; at++) {
        literal(l, &l->out->strings, *at);
        if (LEX_CLASSES[*at] == NEWLINE && l->says)
            l->out->flags |= LEXED_AMBIGUOUS;
    }
    lex_add(l, &l->out->strings, "\n", 1);
    l->names_follow = false;
    looked(l, from, l->at);
    looked(l, from, l->at);
}

/* A header's name in angle brackets: true, and `at` is behind it. Without a `>` in its line, `<` is an operator. */
bool lex_angled(lexer *l) {
    const uint8_t *from = l->at, *at = from + 1;
    const size_t before = l->out->lines.size;
    bool odd = false, closed = false;
    l->names_follow = false;
    if (from < l->unclosed)
        return false;
    lex_put(l, '<');
    for (uint8_t last = 0; !closed;) {
        at = lex_behind_splices(l, at);
        if (at == l->end || LEX_CLASSES[*at] == NEWLINE)
            break;
        const uint8_t c = *at++;
        closed = c == '>';
        /* In text that is skipped, clang sees a comment or a literal there. */
        odd = odd || c == '"' || c == '\'' || (last == '/' && (c == '/' || c == '*')) || (last == '?' && c == '?');
        lex_put(l, c);
        last = c;
        if (c == '\\') {
            at = lex_behind_splices(l, at);
            if (at < l->end && LEX_CLASSES[*at] != NEWLINE)
                lex_put(l, *at++);
        }
    }
    looked(l, from, at);
    if (!closed) {
        l->unclosed = at;
        if (l->capturing)
            l->out->lines.size = before;
        return false;
    }
    if (odd)
        l->out->flags |= LEXED_AMBIGUOUS;
    l->at = at;
    return true;
}

/* May clang have something to say about the comment from `from` to `at`? (Of bytes that are no UTF-8 it warns where
 * it is asked to: clang/frontend.py.) */
static bool talks(lexer *l, const uint8_t *from, const uint8_t *to, bool block) {
    looked(l, from, to);
    if (memmem(from, (size_t)(to - from), "\?\?/", 3))
        l->out->flags |= LEXED_AMBIGUOUS;
    return memmem(from + 2, (size_t)(to - from - 2), "\?\?", 2) ||
           (block && memmem(from + 2, (size_t)(to - from - 2), "/*", 2));
}

static const uint8_t *end_of_line_comment(lexer *l, const uint8_t *at) {
    while (at < l->end && LEX_CLASSES[*at] != NEWLINE) {
        const size_t size = *at == '\\' ? lex_splice(l, at) : 0;
        if (size)
            l->out->flags |= LEXED_UNPLAIN; /* it goes on in the next line */
        at += size ? size : 1;
    }
    return at;
}

static const uint8_t *end_of_block_comment(lexer *l, const uint8_t *at) {
    for (;;) {
        at = at < l->end ? memchr(at, '*', (size_t)(l->end - at)) : NULL;
        if (!at) {
            l->out->flags |= LEXED_AMBIGUOUS;
            return l->end;
        }
        const uint8_t *slash = lex_behind_splices(l, at + 1);
        if (slash < l->end && *slash == '/') {
            if (slash != at + 1)
                l->out->flags |= LEXED_AMBIGUOUS;
            return slash + 1;
        }
        at++;
    }
}

/* A comment whose second character stands at `second`. */
void lex_comment(lexer *l, const uint8_t *second) {
    const uint8_t *from = l->at;
    const bool block = *second == '*';
    if (second != from + 1)
        l->out->flags |= LEXED_UNPLAIN;
    l->at = block ? end_of_block_comment(l, second + 1) : end_of_line_comment(l, second + 1);
    looked(l, from, l->at);
    if (talks(l, from, l->at, block))
        l->out->flags |= LEXED_NOT_BARE;
    if (l->place != NAME)
        lex_put(l, ' ');
    if (block && l->says && memchr(from, '\n', (size_t)(l->at - from)))
        l->out->flags |= LEXED_AMBIGUOUS;
    if (!(l->asked & LEXER_BARE))
        return;
    lex_copy_until(l, from);
    l->copied = l->at;
    if (!block)
        return; /* blanks at a line's end go */
    for (const uint8_t *at = from; at < l->at; at++)
        if (*at == '\n') {
            /* A line break in a comment does not end a directive: it is not the same as one between tokens. */
            lex_trim(l);
            lex_add(l, &l->out->bare, "\0\n", 2);
        } else
            lex_add(l, &l->out->bare, *at == '\t' ? "\t" : " ", 1); /* clang counts the columns of a tab */
    looked(l, from, l->at);
}
