/* Any bytes as a module of bitcode: what is not known well is told, and every module ends within the content. */
#include "direct.h"

#include <stdlib.h>

int hipcache_bitcode(const uint8_t *content, size_t size, bytes *out);
int hipcache_declarations(const uint8_t *content, size_t size, size_t at, size_t *end, bytes *out);

int LLVMFuzzerTestOneInput(const uint8_t *content, size_t size) {
    bytes said = {0};
    hipcache_bitcode(content, size, &said);
    release(&said);
    for (size_t at = 0, end = 0; at < size; at = end) {
        bytes declared = {0};
        const bool known = hipcache_declarations(content, size, at, &end, &declared);
        release(&declared);
        if (!known)
            break;
        if (end <= at || end > size)
            abort();
    }
    return 0;
}
