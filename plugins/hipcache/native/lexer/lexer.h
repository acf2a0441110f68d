/* The lexer's results, and the questions that it answers: see lexer.c. */
#ifndef HIPCACHE_LEXER_H
#define HIPCACHE_LEXER_H

#include "direct.h"
#include "shared.h"

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
