/* The lexer: the table of words that are looked for (lexer.c). */
#define _GNU_SOURCE
#include "lexer_parts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const uint8_t *word, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ word[i]) * 16777619u;
    return sum;
}

struct lexer_words {
    uint32_t sizes[256]; /* by first letter: a bit for each size that there is */
    struct word {
        const uint8_t *text;
        size_t size, inner_size; /* of a pattern: the part that it begins with, and the part that it holds */
        const uint8_t *inner;
        unsigned bits;
    } table[2048], patterns[8];
    size_t patterns_count;
    uint8_t text[];
};

/* Each line of the text: bits as a digit, and a word. A word `a*b` is a pattern: begins with a, holds b. */
lexer_words *hipcache_lexer_words(const uint8_t *text, size_t size) {
    lexer_words *words = calloc(1, sizeof *words + size);
    if (!words)
        return NULL;
    memcpy(words->text, text, size);
    const uint8_t *at = words->text, *end = at + size;
    for (size_t count = 0; at < end && count < 1024; count++) {
        const uint8_t *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        struct word word = {at + 1, (size_t)(line_end - at - 1), 0, NULL, (unsigned)(*at - '0')};
        const uint8_t *star = memchr(word.text, '*', word.size);
        if (star && words->patterns_count < 8) {
            word.inner = star + 1;
            word.inner_size = (size_t)(line_end - star - 1);
            word.size = (size_t)(star - word.text);
            words->patterns[words->patterns_count++] = word;
        } else if (word.size && word.size < 32) {
            words->sizes[*word.text] |= 1u << word.size;
            uint32_t i = hash(word.text, word.size) % 2048;
            while (words->table[i].text)
                i = (i + 1) % 2048;
            words->table[i] = word;
        }
        at = line_end + 1;
    }
    return words;
}

unsigned lex_bits_of(const lexer *l, const uint8_t *word, size_t size) {
    const lexer_words *words = l->table;
    if (size < 32 && words->sizes[*word] >> size & 1)
        for (uint32_t i = hash(word, size) % 2048; words->table[i].text; i = (i + 1) % 2048)
            if (words->table[i].size == size && memcmp(words->table[i].text, word, size) == 0)
                return words->table[i].bits;
    for (size_t i = 0; i < words->patterns_count; i++) {
        const struct word *one = &words->patterns[i];
        if (size >= one->size && memcmp(one->text, word, one->size) == 0 &&
            (!one->inner_size || memmem(word + one->size, size - one->size, one->inner, one->inner_size)))
            return one->bits;
    }
    return 0;
}
