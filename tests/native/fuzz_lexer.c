/* Any bytes as a source, for each set of questions: the lexer looks at each byte a bounded number of times. */
#include "lexer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *text, size_t size) {
    static const char WORDS[] = "1__FILE__\n2include\n4asm\n1__builtin_*line\n";
    static lexer_words *words;
    if (!words && !(words = hipcache_lexer_words((const uint8_t *)WORDS, strlen(WORDS))))
        abort();
    for (unsigned asked = 0; asked <= (LEXER_BARE | LEXER_ALL | LEXER_RAW); asked++) {
        lexed said = {0};
        hipcache_lex(text, size, words, asked, &said);
        if (said.bare.size > 3 * size) /* "\n" becomes two NUL and itself */
            abort();
        hipcache_lexed_free(&said);
    }
    return 0;
}
