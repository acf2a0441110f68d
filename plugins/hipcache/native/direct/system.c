/* A system's state that was found to have certain contents: known to all records that list it.
 *
 * A record from elsewhere says which contents the system's files must have, and has no state of its own. To find
 * that state takes two looks at all of them, some 1,200 paths. So whoever has found it leaves it under the digest of
 * list and contents, and the next record with these begins with it. It may be an old one, or another process's word:
 * it counts only where the claim is known that it has these contents, and it is compared as if it had stood in the
 * record.
 *
 *     claim    SYSTEM_CLAIM, 32 bytes each: digests of the list, of the contents, and of the state
 *     note     SYSTEM_NOTE, 32 bytes each: digests of the list and of the contents; under it {"system":"HEX"} */
#define _GNU_SOURCE
#include "look.h"

#include <string.h>

/* With their NUL. */
static const char SYSTEM_CLAIM[] = "hipcache contents of a system state 1";
static const char SYSTEM_NOTE[] = "hipcache system of contents 1";
static const char BEFORE[] = "{\"system\":\"", AFTER[] = "\"}";
enum { HEX_BYTES = 2 * DIGEST_BYTES, BEFORE_BYTES = sizeof BEFORE - 1, AFTER_BYTES = sizeof AFTER - 1 };
enum { NOTE_BYTES = BEFORE_BYTES + HEX_BYTES + AFTER_BYTES };

bool state_is_known(bytes digest) {
    static const uint8_t none[DIGEST_BYTES];
    return digest.size == DIGEST_BYTES && memcmp(digest.at, none, DIGEST_BYTES) != 0;
}

static void write_note(const uint8_t state[DIGEST_BYTES], char note[NOTE_BYTES + 1]) {
    memcpy(note, BEFORE, BEFORE_BYTES);
    hexadecimal(state, DIGEST_BYTES, note + BEFORE_BYTES);
    memcpy(note + BEFORE_BYTES + HEX_BYTES, AFTER, sizeof AFTER);
}

/* False for what is no note. */
static bool read_note(bytes payload, uint8_t state[DIGEST_BYTES]) {
    char again[NOTE_BYTES + 1];
    const char *digits = (const char *)payload.at + BEFORE_BYTES;
    if (payload.size != NOTE_BYTES)
        return false;
    for (int i = 0; i < DIGEST_BYTES; i++) {
        const int high = hexadecimal_digit(digits[2 * i]), low = hexadecimal_digit(digits[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        state[i] = (uint8_t)(high << 4 | low);
    }
    write_note(state, again);
    return memcmp(payload.at, again, NOTE_BYTES) == 0;
}

static void name_note(const record *found, bytes *about) {
    append(about, SYSTEM_NOTE, sizeof SYSTEM_NOTE);
    append(about, found->system_list.at, DIGEST_BYTES), append(about, found->system_contents.at, DIGEST_BYTES);
}

void system_claim(const record *found, const uint8_t state[DIGEST_BYTES], bytes *claim) {
    append(claim, SYSTEM_CLAIM, sizeof SYSTEM_CLAIM);
    append(claim, found->system_list.at, DIGEST_BYTES), append(claim, found->system_contents.at, DIGEST_BYTES);
    append(claim, state, DIGEST_BYTES);
}

void system_recall(record *found) {
    uint8_t rooms[3][512], state[DIGEST_BYTES];
    bytes about = BEGINS_IN(rooms[0]), claim = BEGINS_IN(rooms[1]), content = BEGINS_IN(rooms[2]), payload;
    name_note(found, &about);
    if (note_read(found, about, &content, &payload) && read_note(payload, state)) {
        system_claim(found, state, &claim);
        if (claim_is_known(found, claim)) {
            memcpy(found->system.at, state, DIGEST_BYTES);
            found->refresh_system = true;
        }
    }
    release(&about), release(&claim), release(&content);
}

void system_note(record *found) {
    uint8_t rooms[2][512], state[DIGEST_BYTES];
    bytes about = BEGINS_IN(rooms[0]), content = BEGINS_IN(rooms[1]), payload;
    char note[NOTE_BYTES + 1];
    name_note(found, &about);
    const bool noted = note_read(found, about, &content, &payload) && read_note(payload, state) &&
                       memcmp(state, found->system.at, DIGEST_BYTES) == 0;
    if (!noted) {
        write_note(found->system.at, note);
        note_keep(found, about, note, NOTE_BYTES);
    }
    release(&about), release(&content);
}
