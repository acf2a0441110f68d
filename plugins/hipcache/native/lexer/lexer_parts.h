/* Declarations that the files of the lexer share. */
#ifndef HIPCACHE_LEXER_PARTS_H
#define HIPCACHE_LEXER_PARTS_H

#include "lexer.h"

enum class {
    OTHER,
    BLANK,
    NEWLINE,
    LETTER,
    DIGIT,
    ODD,
    BACKSLASH,
    SLASH,
    QUOTE,
    APOSTROPHE,
    HASH,
    PERCENT,
    LESS,
    QUESTION,
    DOT
};

extern const uint8_t LEX_CLASSES[256];

/* The place in a line: before its first token; behind the # of a directive; in code; in a directive. */
enum place { BEGIN, NAME, CODE, DIRECTIVE };

typedef struct {
    const uint8_t *at, *end;
    const uint8_t *copied; /* `bare` holds all before it */
    const uint8_t *odd;    /* the end of the last odd character */
    const uint8_t *separated; /* as far as `separated` has looked */
    const uint8_t *unclosed;  /* no `>` stands before it */
    const lexer_words *table;
    lexed *out;
    unsigned asked;
    enum place place;
    bool capturing, kept;
    size_t line;        /* where the present line begins in `lines` */
    bool reads;         /* #include and the like */
    bool says;          /* #error and #warning, which clang reads without lexing */
    bool digraph;       /* %: */
    bool names_follow;  /* a header's name may come next */
} lexer;

static inline bool is_word(uint8_t c) { return LEX_CLASSES[c] == LETTER || LEX_CLASSES[c] == DIGIT; }
static inline void looked(lexer *l, const uint8_t *from, const uint8_t *to) { l->out->looked += (size_t)(to - from); }

/* lexer_line.c: splices, and what is put out of a line. */
void lex_add(lexer *l, bytes *text, const void *more, size_t size);
void lex_put(lexer *l, uint8_t c);
size_t lex_splice(lexer *l, const uint8_t *from);
const uint8_t *lex_behind_splices(lexer *l, const uint8_t *at);
void lex_copy_until(lexer *l, const uint8_t *at);
void lex_trim(lexer *l);
void lex_end_of_line(lexer *l);
void lex_begin(lexer *l, enum place place);
void lex_token(lexer *l);
void lex_newline(lexer *l);

/* lexer_span.c: literals, header names, comments. `at` is at their beginning, and behind them afterwards. */
void lex_quoted(lexer *l, uint8_t quote);
void lex_raw_string(lexer *l);
bool lex_angled(lexer *l);
void lex_comment(lexer *l, const uint8_t *second);

/* lexer_words.c: WORD_KNOWN and so on; 0 for a word that is not in the table. */
unsigned lex_bits_of(const lexer *l, const uint8_t *word, size_t size);

#endif
