/* Lexes the text of a C++ file as clang does, as far as it matters which files it reads and which comments it has:
 * line splices, comments, literals, header names, directives. clang/lib/Lex/Lexer.cpp is what it follows.
 *
 * One pass: each byte is looked at a fixed number of times at most, and each part of the output is no larger than the
 * text (three times the text where all lines are empty). `looked` counts the bytes, so that a test can hold it to that.
 *
 * The output, each part a text:
 *   bare     the text with comments blanked (outline.py says how), where BARE is asked for; a line without text has
 *            two NUL before its end
 *   lines    directives, one a line, as "#include <x.h>": without splices, each comment a blank. Those that name a file
 *            or have a word of the table that counts in lines (with ALL: every line, but for #include)
 *   strings  the contents of string literals, one a line
 *   words    the words of the table that stand in code, each with a blank behind it; with '#' before it in a directive
 */
#include "lexer_parts.h"

#include <stdlib.h>
#include <string.h>

static bool is_next(lexer *l, uint8_t c) {
    const uint8_t *next = lex_behind_splices(l, l->at + 1);
    return next < l->end && *next == c;
}

static bool is_one_of(const uint8_t *word, size_t size, const char *const *list) {
    for (; *list; list++)
        if (strlen(*list) == size && memcmp(*list, word, size) == 0)
            return true;
    return false;
}

static void word(lexer *l) {
    static const char *const RAW[] = {"R", "LR", "UR", "uR", "u8R", NULL};
    static const char *const READING[] = {"include", "include_next", "import", "embed", NULL};
    static const char *const SAYING[] = {"error", "warning", NULL};
    const uint8_t *from = l->at, *text = from;
    const bool odd = from == l->odd;
    bytes *spelled = &l->out->words;
    const size_t before = spelled->size;
    bool spliced = false;
    while (l->at < l->end && (is_word(*l->at) || *l->at == '\\')) {
        const size_t step = *l->at == '\\' ? lex_splice(l, l->at) : 0;
        if (*l->at == '\\' && !step)
            break;
        if (step && !spliced)
            lex_add(l, spelled, from, (size_t)(l->at - from));
        else if (!step && spliced)
            lex_add(l, spelled, l->at, 1);
        spliced = spliced || step;
        l->at += step ? step : 1;
    }
    looked(l, from, l->at);
    text = spliced ? spelled->at + before : from;
    const size_t size = spliced ? spelled->size - before : (size_t)(l->at - from);
    if (l->out->flags & LEXED_NO_MEMORY)
        return;
    if (l->capturing)
        lex_add(l, &l->out->lines, text, size);
    const bool named = l->place == NAME;
    lex_token(l);
    if (named && is_one_of(text, size, READING)) {
        l->reads = l->names_follow = true;
        l->kept = !(l->asked & LEXER_ALL);
        if (!l->digraph && *text == 'i') {
            spelled->size = before;
            return;
        }
    } else if (named && is_one_of(text, size, SAYING))
        l->says = true;
    unsigned bits = lex_bits_of(l, text, size);
    const bool quote = l->at < l->end && (*l->at == '"' || *l->at == '\'');
    const bool raw = quote && *l->at == '"' && !(l->asked & LEXER_RAW) && is_one_of(text, size, RAW);
    if (bits) {
        uint8_t mark = l->place == DIRECTIVE ? '#' : ' ';
        if (spliced) {
            lex_add(l, spelled, " ", 1);
            memmove(spelled->at + before + 1, spelled->at + before, size);
            spelled->at[before] = mark;
        } else {
            lex_add(l, spelled, &mark, 1);
            lex_add(l, spelled, text, size);
        }
        lex_add(l, spelled, " ", 1);
    } else
        spelled->size = before;
    if (l->place == DIRECTIVE) {
        l->kept = l->kept || (bits & WORD_IN_LINES);
        l->names_follow = (bits & WORD_NAMES) || (l->names_follow && l->reads);
    }
    if (odd && quote)
        l->out->flags |= LEXED_AMBIGUOUS;
    if (raw)
        lex_raw_string(l);
}

/* Behind a number with an odd number of digit separators. In C++11 the last of them begins a literal, which is one
 * if it ends in this line. */
static void separated(lexer *l) {
    if (l->separated < l->at) {
        const uint8_t *at = l->at;
        while (at < l->end && LEX_CLASSES[*at] != NEWLINE && *at != '\\' && *at != '\'')
            at++;
        looked(l, l->at, at);
        l->separated = at;
    }
    if (l->separated < l->end && LEX_CLASSES[*l->separated] != NEWLINE)
        l->out->flags |= LEXED_NOT_BARE;
}

static void number(lexer *l) {
    const uint8_t *from = l->at;
    const bool odd = from == l->odd;
    bool open = false;
    lex_token(l);
    for (uint8_t last = 0; l->at < l->end;) {
        const uint8_t c = *l->at;
        if (c == '\\') {
            const uint8_t *next = lex_behind_splices(l, l->at);
            if (next == l->at)
                break;
            l->at = next;
            continue;
        }
        bool goes_on = is_word(c) || c == '.' || ((c == '+' || c == '-') && last && strchr("eEpP", last));
        if (c == '\'' && !(l->asked & LEXER_RAW)) {
            const uint8_t *next = lex_behind_splices(l, l->at + 1);
            goes_on = next < l->end && is_word(*next);
            open = open != goes_on;
            if (odd)
                l->out->flags |= LEXED_AMBIGUOUS;
        }
        if (!goes_on)
            break;
        lex_put(l, c);
        last = c;
        l->at++;
    }
    if (l->at < l->end && *l->at == '\'')
        l->out->flags |= LEXED_AMBIGUOUS; /* older languages end the number elsewhere */
    looked(l, from, l->at);
    l->names_follow = l->names_follow && l->reads;
    if (open)
        separated(l);
}

static void other(lexer *l, uint8_t c) {
    lex_token(l);
    lex_put(l, c);
    l->at++;
    l->names_follow = l->names_follow && (l->reads || c == '(');
}

static void step(lexer *l) {
    const uint8_t c = *l->at;
    const bool raw = l->asked & LEXER_RAW;
    size_t size;
    switch ((enum class)LEX_CLASSES[c]) {
    case BLANK:
        if (l->capturing && l->place != NAME)
            lex_put(l, ' ');
        l->at++;
        return;
    case NEWLINE:
        if (c == '\r' && l->end - l->at > 1 && l->at[1] == '\n')
            l->at++;
        lex_newline(l);
        return;
    case LETTER:
        word(l);
        return;
    case DIGIT:
        number(l);
        return;
    case DOT: {
        const uint8_t *next = lex_behind_splices(l, l->at + 1);
        if (next < l->end && LEX_CLASSES[*next] == DIGIT)
            number(l);
        else
            other(l, c);
        return;
    }
    case BACKSLASH:
        size = lex_splice(l, l->at);
        if (size) {
            l->odd = l->odd == l->at ? l->at + size : l->odd;
            l->at += size;
            return;
        }
        l->out->flags |= LEXED_NOT_BARE;
        other(l, c);
        l->odd = l->at;
        return;
    case ODD:
        other(l, c);
        l->odd = l->at;
        return;
    case SLASH: {
        const uint8_t *next = lex_behind_splices(l, l->at + 1);
        if (!raw && next < l->end && (*next == '/' || *next == '*'))
            lex_comment(l, next);
        else
            other(l, c);
        return;
    }
    case QUOTE:
    case APOSTROPHE:
        raw ? other(l, c) : lex_quoted(l, c);
        return;
    case HASH:
    case PERCENT:
        if (!raw && l->place == BEGIN && (c == '#' || is_next(l, ':'))) {
            lex_begin(l, NAME);
            lex_put(l, '#');
            l->digraph = c == '%';
            l->at = l->digraph ? lex_behind_splices(l, l->at + 1) + 1 : l->at + 1;
        } else
            other(l, c);
        return;
    case LESS:
        lex_token(l);
        if (!l->names_follow || raw || !lex_angled(l))
            other(l, c);
        return;
    case QUESTION:
        if (l->end - l->at > 2 && l->at[1] == '?' && memchr("=/'", l->at[2], 3))
            l->out->flags |= LEXED_AMBIGUOUS;
        other(l, c);
        return;
    default:
        other(l, c);
    }
}

void hipcache_lex(const uint8_t *text, size_t size, const lexer_words *table, unsigned asked, lexed *out) {
    lexer l = {.at = text,
               .end = text + size,
               .copied = text,
               .separated = text,
               .unclosed = text,
               .table = table,
               .asked = asked,
               .out = out};
    memset(out, 0, sizeof *out);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        l.at += 3;
    for (const uint8_t *at = text; (at = memchr(at, '\r', (size_t)(l.end - at))); at++)
        if (at + 1 == l.end || at[1] != '\n') {
            out->flags |= LEXED_NOT_BARE;
            break;
        }
    if (memchr(text, 0, size))
        out->flags |= LEXED_NOT_BARE;
    out->looked = 2 * size;
    while (l.at < l.end && !(out->flags & LEXED_NO_MEMORY)) {
        const uint8_t *from = l.at;
        step(&l);
        out->looked += l.at > from;
    }
    lex_end_of_line(&l);
    lex_copy_until(&l, l.end);
    while (out->bare.size && memchr(" \t\r\n", out->bare.at[out->bare.size - 1], 5))
        out->bare.size--;
}

void hipcache_lexed_free(lexed *one) {
    free(one->bare.at);
    free(one->lines.at);
    free(one->strings.at);
    free(one->words.at);
}
