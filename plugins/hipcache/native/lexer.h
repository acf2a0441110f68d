/* What the lexer gives, and what it can be asked for: see lexer.c. The numbers stand in inputs/lexed.py too. */
#ifndef HIPCACHE_LEXER_H
#define HIPCACHE_LEXER_H

#include "direct.h"

enum { LEXER_BARE = 1, LEXER_ALL = 2, LEXER_RAW = 4 };
enum {
    LEXED_NOT_BARE = 1,  /* `bare` cannot stand for the text */
    LEXED_UNPLAIN = 2,   /* a literal or a comment that people may read in another way */
    LEXED_AMBIGUOUS = 4, /* clang's options, or whether the text is skipped, decide how it is read */
    LEXED_NO_MEMORY = 8,
};
enum { WORD_IN_LINES = 1, WORD_NAMES = 2, WORD_KNOWN = 4 };

typedef struct lexer_words lexer_words;
typedef struct {
    bytes bare, lines, strings, words;
    uint64_t looked; /* bytes, each time one was looked at */
    uint32_t flags;
} lexed;

lexer_words *hipcache_lexer_words(const uint8_t *text, size_t size);
void hipcache_lex(const uint8_t *text, size_t size, const lexer_words *table, unsigned asked, lexed *out);
void hipcache_lexed_free(lexed *one);

#endif
