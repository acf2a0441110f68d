/* Any bytes as the record of a direct hit: the parts of a good one are inside it, and its paths fit. */
#include "hit.c"

int LLVMFuzzerTestOneInput(const uint8_t *content, size_t size) {
    static record found;
    char path[PATH_MAX];
    memset(&found, 0, offsetof(record, room));
    if (!unpack(&found, LENT((uint8_t *)content, size)))
        return 0;
    for (int portable = 0; portable < 2; portable++) {
        bytes text = {0};
        found.base = portable ? "/base" : NULL;
        direct_rules(&found, &text);
        release(&text);
        for (size_t number = 0; direct_output(&found, number, path); number++)
            if (path[0] != '/')
                abort();
    }
    return 0;
}
