/* Reads and writes actions of the store, whose format stands in store/layout.py and seal.py. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8, HEADER_BYTES = MAGIC_BYTES + DIGEST_BYTES, HEX_BYTES = 2 * DIGEST_BYTES, MOST_NOTE = 1 << 12 };
/* JSON, as every action that is no record of a whole compile (cache/records.py). */
static const char CLAIMED[] = "{\"claim\":true}";

bool action_read(record *of, const char *key, off_t most, bytes *content, bytes *payload) {
    uint8_t header[HEADER_BYTES], digest[DIGEST_BYTES];
    char name[ENTRY_NAME_BYTES];
    const size_t start = content->size, prefix = start + sizeof ACTION_DOMAIN + HEX_BYTES;
    /* The payload goes where it is hashed, behind domain and key; these then take the place of the header. */
    if (!store_entry_name(name, "actions", key) || !make_room(content, prefix - start))
        return false;
    content->size = prefix - HEADER_BYTES;
    if (!entry_read(of, name, most, content) || content->size <= prefix) {
        content->size = start;
        return false;
    }
    memcpy(header, content->at + prefix - HEADER_BYTES, HEADER_BYTES);
    memcpy(content->at + start, ACTION_DOMAIN, sizeof ACTION_DOMAIN);
    memcpy(content->at + prefix - HEX_BYTES, key, HEX_BYTES);
    seal_digest(of->secret, content->at + start, content->size - start, digest);
    *payload = LENT(content->at + prefix, content->size - prefix);
    return memcmp(header, seal_magic(of->secret), MAGIC_BYTES) == 0 &&
           memcmp(digest, header + MAGIC_BYTES, DIGEST_BYTES) == 0;
}

bool action_write(const record *of, const char *key, const bytes *content) {
    uint8_t header[HEADER_BYTES];
    char temporary[64], name[ENTRY_NAME_BYTES];
    uint64_t random[2];
    const size_t prefix = sizeof ACTION_DOMAIN + HEX_BYTES;
    if (of->readonly || content->failed || content->size < prefix || !store_entry_name(name, "actions", key) ||
        getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(temporary, sizeof temporary, "tmp/put-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    memcpy(header, seal_magic(of->secret), MAGIC_BYTES);
    seal_digest(of->secret, content->at, content->size, header + MAGIC_BYTES);
    const int fd = store_create(of->store, temporary);
    if (fd < 0)
        return false;
    bool good = write_all(fd, header, sizeof header) && write_all(fd, content->at + prefix, content->size - prefix);
    good = close(fd) == 0 && good;
    good = good && (store_rename(of->store, temporary, name) ||
                    (store_make_directory_of(of->store, name) && store_rename(of->store, temporary, name)));
    if (!good)
        store_unlink(of->store, temporary);
    return good;
}

static void key_of(const record *of, bytes about, char key[HEX_BYTES + 1]) {
    uint8_t digest[DIGEST_BYTES];
    blake3(about.at, about.size, digest);
    hexadecimal(digest, DIGEST_BYTES, key);
    seal_name(of->secret, key);
}

bool note_read(record *of, bytes about, bytes *content, bytes *payload) {
    char key[HEX_BYTES + 1];
    key_of(of, about, key);
    return action_read(of, key, MOST_NOTE, content, payload);
}

void note_keep(const record *of, bytes about, const void *payload, size_t size) {
    char key[HEX_BYTES + 1];
    uint8_t room[512];
    bytes content = BEGINS_IN(room);
    key_of(of, about, key);
    append(&content, ACTION_DOMAIN, sizeof ACTION_DOMAIN), append(&content, key, HEX_BYTES);
    append(&content, payload, size);
    action_write(of, key, &content);
    release(&content);
}

bool claim_is_known(record *of, bytes claim) {
    uint8_t room[512];
    bytes content = BEGINS_IN(room), payload;
    const bool known = note_read(of, claim, &content, &payload) && payload.size == sizeof CLAIMED - 1 &&
                       memcmp(payload.at, CLAIMED, payload.size) == 0;
    release(&content);
    return known;
}

void claim_keep(const record *of, bytes claim) { note_keep(of, claim, CLAIMED, sizeof CLAIMED - 1); }
