/* Any bytes as a list of paths or lines: each text of it ends with NUL, here and with a base directory. */
#include "direct.h"

#include <stdlib.h>

static bool see(void *context, const uint8_t *text, size_t size) {
    if (text[size])
        abort();
    append(context, text, size);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *content, size_t size) {
    const bytes list = LENT((uint8_t *)content, size);
    uint8_t rooms[3][1 << 10];
    bytes text = BEGINS_IN(rooms[0]), local = BEGINS_IN(rooms[1]), rule = BEGINS_IN(rooms[2]);
    unpack_list(list, see, &text);
    if (unpack_local(list, "/base", see, &local))
        wrap_rule(&local);
    append(&rule, content, size);
    wrap_rule(&rule);
    release(&text), release(&local), release(&rule);
    return 0;
}
