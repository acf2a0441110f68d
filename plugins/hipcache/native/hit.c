/* A direct hit in its steps: the command's key, its record, the state of all that it depends on, the outputs. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8, HEADER_BYTES = MAGIC_BYTES + DIGEST_BYTES, HEX_BYTES = 2 * DIGEST_BYTES };
static const uint8_t MAGIC[MAGIC_BYTES] = {0x89, 'h', 'c', 'A', '1', '\r', '\n', 0x1a};
static const char DOMAIN[] = "hipcache action record 1"; /* with its NUL */
static const char KEY_FORMAT[] = "3";                    /* inputs/keys.py: FORMAT */

/* A text of a key, after its length: inputs/keys.py. */
static void key_text(bytes *key, const char *text) {
    char length[24];
    append(key, length, (size_t)snprintf(length, sizeof length, "%zu:", strlen(text)));
    append(key, text, strlen(text));
}

static void key_of(const request *asked, bool terminal, char text[HEX_BYTES + 1]) {
    uint8_t digest[DIGEST_BYTES], room[1 << 14];
    bytes key = BEGINS_IN(room);
    key_text(&key, KEY_FORMAT), key_text(&key, terminal ? "direct on a terminal" : "direct");
    key_text(&key, "version"), key_text(&key, HIPCACHE_VERSION);
    key_text(&key, "directory"), key_text(&key, asked->directory);
    for (char *const *word = asked->argv; *word; word++)
        key_text(&key, "word"), key_text(&key, *word);
    blake3(key.at, key.size, digest);
    release(&key);
    hexadecimal(digest, DIGEST_BYTES, text);
}

static bool entry_path(char path[PATH_MAX], const char *store, const char *kind, const char *name) {
    return snprintf(path, PATH_MAX, "%s/v1/%s/%.2s/%s", store, kind, name, name + 2) < PATH_MAX;
}

static bool take(bytes *rest, size_t size, bytes *part) {
    if (size > rest->size)
        return false;
    *part = (bytes){rest->at, size, 0, true};
    rest->at += size;
    rest->size -= size;
    return true;
}

static bool take_string(bytes *rest, bytes *part) {
    bytes length;
    if (!take(rest, 4, &length))
        return false;
    const uint8_t *at = length.at;
    return take(rest, (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24, part);
}

static bool unpack(record *found, uint8_t *payload, size_t size) {
    bytes rest = {payload, size, 0, true};
    return take(&rest, DIGEST_BYTES, &found->state) && take_string(&rest, &found->ignored) &&
           take_string(&rest, &found->outputs) && take_string(&rest, &found->messages) &&
           take_string(&rest, &found->counted) && take_string(&rest, &found->history) &&
           take_string(&rest, &found->uses) && take_string(&rest, &found->watched) &&
           take(&rest, DIGEST_BYTES, &found->system) && take(&rest, DIGEST_BYTES, &found->system_list) &&
           take_string(&rest, &found->rules) && rest.size == 0;
}

/* A file to be written: an output is a blob of the store, a dependency file is a list of lines. */
typedef struct {
    char path[PATH_MAX]; /* empty where no file is written */
    bytes blob, lines;
    bool executable;
} delivery;

/* A path of the record, as a text that ends. */
static bool path_of(char path[PATH_MAX], bytes part) {
    if (part.size >= PATH_MAX || part.size == 0 || part.at[0] != '/')
        return false;
    memcpy(path, part.at, part.size);
    path[part.size] = 0;
    return strlen(path) == part.size;
}

static bool take_output(bytes *rest, delivery *one) {
    bytes kind, path;
    if (!take(rest, 1, &kind) || !take(rest, DIGEST_BYTES, &one->blob) || !take_string(rest, &path))
        return false;
    one->executable = kind.at[0] == 'x';
    return (one->executable || kind.at[0] == '-') && path_of(one->path, path);
}

static bool take_rule(bytes *rest, delivery *one) {
    bytes path;
    one->path[0] = 0;
    return take_string(rest, &path) && take_string(rest, &one->lines) && (path.size == 0 || path_of(one->path, path));
}

/* Is each place one that a file can be put in? */
static bool are_free(bytes list, bool (*next)(bytes *rest, delivery *one)) {
    delivery one;
    while (list.size)
        if (!next(&list, &one) || (one.path[0] && !is_plain_file_or_absent(one.path)))
            return false;
    return true;
}

/* The record under `key`, if it is one and whole: an action of the store (store/layout.py). */
static bool read_record(record *found, const char key[HEX_BYTES + 1]) {
    uint8_t header[HEADER_BYTES], digest[DIGEST_BYTES];
    struct stat status;
    const int fd = open(found->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > HEADER_BYTES &&
                read(fd, header, HEADER_BYTES) == HEADER_BYTES && memcmp(header, MAGIC, MAGIC_BYTES) == 0;
    bytes *content = &found->content;
    append(content, DOMAIN, sizeof DOMAIN), append(content, key, HEX_BYTES);
    const size_t prefix = content->size, size = good ? (size_t)status.st_size - HEADER_BYTES : 0;
    make_room(content, size);
    good = good && read(fd, content->at + prefix, size) == (ssize_t)size;
    if (good)
        blake3(content->at, prefix + size, digest);
    close(fd);
    return good && memcmp(digest, header + MAGIC_BYTES, DIGEST_BYTES) == 0 && unpack(found, content->at + prefix, size);
}

/* Looks at all of the system's files; their list is a blob, which sources that include the same share. */
bool direct_system_holds(const request *asked, record *found) {
    char blob[PATH_MAX], name[HEX_BYTES + 1];
    hexadecimal(found->system_list.at, DIGEST_BYTES, name);
    return entry_path(blob, asked->store, "blobs", name) && read_blob(blob, found->system_list.at, &found->system_watched) &&
           system_holds(found->system_watched, found->system);
}

/* Also false where a blob is gone. */
static bool look_at_blobs(const request *asked, record *found) {
    char blob[PATH_MAX], name[HEX_BYTES + 1];
    uint8_t room[1 << 12];
    bytes state = BEGINS_IN(room);
    struct stat status;
    delivery one;
    bool good = true;
    for (bytes rest = found->outputs; good && rest.size;) {
        good = take_output(&rest, &one);
        if (good)
            hexadecimal(one.blob.at, DIGEST_BYTES, name);
        good = good && entry_path(blob, asked->store, "blobs", name) && lstat(blob, &status) == 0;
        if (good) {
            append(&state, one.blob.at, DIGEST_BYTES), append_status(&state, &status);
            found->blobs_changed = found->blobs_changed > status.st_ctime ? found->blobs_changed : status.st_ctime;
        }
    }
    blake3(state.at, state.size, found->blobs);
    release(&state);
    return good;
}

/* The resident has watched the system's files since it saw them so; else they are looked at. */
static bool system_is_as_it_was(const request *asked, record *found) {
    const resident_answer said = asked->resident ? resident_ask(asked, found) : RESIDENT_CANNOT_SAY;
    found->alone = said == RESIDENT_ABSENT;
    return said == RESIDENT_HOLDS || (said != RESIDENT_DIFFERS && direct_system_holds(asked, found));
}

/* `terminal`: the record of those whose messages went to one. */
static bool find(const request *asked, bool terminal, record *found) {
    char key[HEX_BYTES + 1];
    memset(found, 0, offsetof(record, room));
    found->content = (bytes)BEGINS_IN(found->room);
    found->resident = -1;
    key_of(asked, terminal, key);
    PHASE("key");
    bool good = entry_path(found->path, asked->store, "actions", key) && read_record(found, key);
    PHASE("record");
    good = good && !(asked->terminal && !terminal && found->messages.size) && statistics_have_room(asked->store) &&
           has_temporary_directory(asked) && are_free(found->rules, take_rule) &&
           are_free(found->outputs, take_output) && look_at_blobs(asked, found) &&
           state_holds(found, asked->environ) && system_is_as_it_was(asked, found);
    PHASE("state");
    if (!good)
        direct_release(found);
    return good;
}

bool direct_find(const request *asked, record *found) {
    return find(asked, false, found) || (asked->terminal && find(asked, true, found));
}

static bool add_line(void *context, const uint8_t *text, size_t size) {
    append(context, text, size);
    return true;
}

bool direct_rules(const record *found, bytes *text) {
    delivery one;
    for (bytes rest = found->rules; rest.size;)
        if (!take_rule(&rest, &one) || !unpack_list(one.lines, add_line, text))
            return false;
    return true;
}

static bool deliver_rule(const delivery *one) {
    uint8_t room[1 << 16];
    bytes text = BEGINS_IN(room);
    const bool good = unpack_list(one->lines, add_line, &text) && write_whole(one->path, text.at, text.size);
    release(&text);
    return good;
}

static bool deliver_output(const char *store, const delivery *one, bool whole) {
    char blob[PATH_MAX], name[HEX_BYTES + 1];
    hexadecimal(one->blob.at, DIGEST_BYTES, name);
    return entry_path(blob, store, "blobs", name) && deliver_blob(blob, one->blob.at, whole, one->path) &&
           (!one->executable || make_executable(one->path));
}

/* The dependency files first, as the engine does: an object without one would never be rebuilt. Each file is whole or
 * as it was; where one cannot be written, the engine writes them all anew. */
bool direct_deliver(const request *asked, const record *found) {
    delivery one;
    for (bytes rest = found->rules; rest.size;)
        if (!take_rule(&rest, &one) || (one.path[0] && !deliver_rule(&one)))
            return false;
    for (bytes rest = found->outputs; rest.size;)
        if (!take_output(&rest, &one) || !deliver_output(asked->store, &one, found->whole))
            return false;
    return found->outputs.size != 0;
}

/* Statistics, the history's time, and the uses that keep entries in the store. Failing here costs no object. */
void direct_count(const request *asked, record *found) {
    char path[PATH_MAX], name[HEX_BYTES + 1];
    struct stat status;
    resident_tell_whole(found);
    if (!statistics_append(asked->store, found->counted.at, found->counted.size))
        return; /* a store that cannot be written: nothing else can be noted there */
    for (size_t at = 0, size; at < found->history.size; at += size + 1) {
        const char *one = (const char *)found->history.at + at;
        size = strnlen(one, found->history.size - at);
        if (snprintf(path, sizeof path, "%s/v1/%.*s", asked->store, (int)size, one) < PATH_MAX)
            utimensat(AT_FDCWD, path, NULL, 0);
    }
    if (stat(found->path, &status) != 0 || use_is_noted(&status))
        return;
    utimensat(AT_FDCWD, found->path, NULL, 0);
    for (size_t at = 0; at + 1 + DIGEST_BYTES <= found->uses.size; at += 1 + DIGEST_BYTES) {
        hexadecimal(found->uses.at + at + 1, DIGEST_BYTES, name);
        if (entry_path(path, asked->store, found->uses.at[at] == 'a' ? "actions" : "blobs", name))
            utimensat(AT_FDCWD, path, NULL, 0);
    }
}

void direct_release(record *found) {
    release(&found->content);
    release(&found->system_watched);
    if (found->resident >= 0)
        close(found->resident);
    found->resident = -1;
}
