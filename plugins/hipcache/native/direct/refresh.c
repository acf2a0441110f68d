/* Writes into a record which state its paths have now, after their contents were found to be the same (contents.c). So
 * the next hit takes a `stat` for each of them. Of several processes that do so at once, the last one's stays: each
 * record is whole, and true of what its writer read. The record keeps its size, so the store's ledger has nothing to
 * learn. */
#define _GNU_SOURCE
#include "look.h"

#include <string.h>
#include <time.h>

/* New digits of guards, in the order in which they stand in the list. A guard shares nothing with the text before. */
static void renew_guards(bytes list, bytes guards) {
    bool was_guard = false;
    for (size_t at = 0; at + 4 <= list.size;) {
        const size_t shared = (size_t)list.at[at] | (size_t)list.at[at + 1] << 8;
        const size_t more = (size_t)list.at[at + 2] | (size_t)list.at[at + 3] << 8;
        uint8_t *text = list.at + at + 4;
        if (more > list.size - at - 4)
            return;
        was_guard = shared ? was_guard : more && text[0] == 'd';
        if (was_guard) {
            if (guards.size < GUARD_DIGITS)
                return;
            if (guards.at[0] && shared == 0 && more > 1 + GUARD_DIGITS)
                memcpy(text + 1, guards.at, GUARD_DIGITS);
            guards.at += GUARD_DIGITS, guards.size -= GUARD_DIGITS;
        }
        at += 4 + more;
    }
}

bool refresh(record *found) {
    struct timespec now;
    if (found->base || (!found->refresh_state && !found->refresh_system))
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    if ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < found->began)
        return false; /* the clock was set back: what was old may be young */
    if (found->refresh_state) {
        memcpy(found->state.at, found->new_state, DIGEST_BYTES);
        renew_guards(found->watched, found->guards);
    }
    return action_write(found, found->key, &found->content);
}
