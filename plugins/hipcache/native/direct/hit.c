/* A direct hit in its steps: the command's key, its record, the state of all that it depends on, the outputs. */
#define _GNU_SOURCE
#include "direct.h"
#include "places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEX_BYTES = 2 * DIGEST_BYTES };
enum { SIZE_BYTES = 8, MOST_DIRECT = 16 << 20 }; /* the paths of 1,000 headers take 25 KB */

/* A text of a key, after its length: base/keys.py. */
static void key_text(bytes *key, const char *text) {
    char length[24];
    append(key, length, (size_t)snprintf(length, sizeof length, "%zu:", strlen(text)));
    append(key, text, strlen(text));
}

/* The same of a text that may name the base directory, if there is one. */
static bool key_named(bytes *key, const char *text, const char *base) {
    uint8_t room[PATH_MAX];
    bytes portable = BEGINS_IN(room);
    const bool clear = !base || append_portable(&portable, text, base);
    append(&portable, "", 1);
    const bool good = clear && !portable.failed;
    key_text(key, base && good ? (const char *)portable.at : text);
    release(&portable);
    return good;
}

typedef enum { HERE, ON_TERMINAL, ELSEWHERE } kind;

static bool key_of(const request *asked, kind of, char text[HEX_BYTES + 1]) {
    static const char *const KINDS[] = {DIRECT_KIND, DIRECT_KIND_ON_TERMINAL, DIRECT_KIND_ELSEWHERE};
    uint8_t digest[DIGEST_BYTES], room[1 << 14];
    bytes key = BEGINS_IN(room);
    const char *base = of == ELSEWHERE ? asked->base : NULL;
    key_text(&key, KEY_FORMAT), key_text(&key, KINDS[of]);
    key_text(&key, "version"), key_text(&key, HIPCACHE_VERSION);
    key_text(&key, "directory");
    bool whole = key_named(&key, asked->directory, base);
    if (asked->project[0])
        key_text(&key, "settings"), whole = key_named(&key, asked->project, base) && whole;
    for (char *const *word = asked->argv; *word; word++)
        key_text(&key, "word"), whole = key_named(&key, *word, base) && whole;
    whole = whole && !key.failed;
    blake3(key.at, key.size, digest);
    release(&key);
    hexadecimal(digest, DIGEST_BYTES, text);
    seal_name(asked->secret, text);
    return whole;
}

bool blob_name(char name[ENTRY_NAME_BYTES], const uint8_t digest[DIGEST_BYTES]) {
    char digits[HEX_BYTES + 1];
    hexadecimal(digest, DIGEST_BYTES, digits);
    return store_entry_name(name, "blobs", digits);
}

static bool take(bytes *rest, size_t size, bytes *part) {
    if (size > rest->size)
        return false;
    *part = LENT(rest->at, size);
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

static bool unpack(record *found, bytes rest) {
    return take(&rest, DIGEST_BYTES, &found->variables) && take(&rest, DIGEST_BYTES, &found->state) &&
           take(&rest, SIZE_BYTES, &found->racy) && take_string(&rest, &found->ignored) &&
           take_string(&rest, &found->outputs) && take_string(&rest, &found->messages) &&
           take_string(&rest, &found->counted) && take_string(&rest, &found->history) &&
           take_string(&rest, &found->uses) && take_string(&rest, &found->watched) &&
           take_string(&rest, &found->contents) && take(&rest, DIGEST_BYTES, &found->system) &&
           take(&rest, DIGEST_BYTES, &found->system_list) && take(&rest, DIGEST_BYTES, &found->system_contents) &&
           take_string(&rest, &found->rules) && rest.size == 0;
}

/* A file to be written: an output is a blob of the store, a dependency file is a list of lines. */
typedef struct {
    const char *base;    /* as in `record` */
    char path[PATH_MAX]; /* empty if no file is written */
    bytes blob, lines;
    uint64_t size;
    bool executable;
} delivery;

/* A path of the record, as a text that ends. */
static bool path_of(delivery *one, bytes part) {
    bytes path = {(uint8_t *)one->path, 0, PATH_MAX - 1, true, false};
    if (one->base)
        append_local(&path, part.at, part.size, one->base);
    else
        append(&path, part.at, part.size);
    const bool good = path.lent && path.size && path.at[0] == '/'; /* it had room */
    if (good)
        one->path[path.size] = 0;
    const bool ends = good && strlen(one->path) == path.size;
    release(&path);
    return ends;
}

static bool take_output(bytes *rest, delivery *one) {
    bytes mode, size, path;
    if (!take(rest, 1, &mode) || !take(rest, DIGEST_BYTES, &one->blob) || !take(rest, SIZE_BYTES, &size) ||
        !take_string(rest, &path))
        return false;
    one->size = 0;
    for (int i = SIZE_BYTES; i--;)
        one->size = one->size << 8 | size.at[i];
    one->executable = mode.at[0] == 'x';
    return (one->executable || mode.at[0] == '-') && path_of(one, path);
}

static bool take_rule(bytes *rest, delivery *one) {
    bytes path;
    one->path[0] = 0;
    return take_string(rest, &path) && take_string(rest, &one->lines) && (path.size == 0 || path_of(one, path));
}

/* Is each place one that the command writes to, and that a file can be put in? */
static bool are_free(bytes list, const char *base, bool (*next)(bytes *rest, delivery *one), const places *named,
                     bool (*allow)(const places *named, const char *path)) {
    delivery one;
    one.base = base;
    while (list.size)
        if (!next(&list, &one) || (one.path[0] && !(allow(named, one.path) && is_plain_file_or_absent(one.path))))
            return false;
    return true;
}

static bool places_are_free(const request *asked, const record *found) {
    const places named = places_of(asked->directory, asked->argv);
    return are_free(found->rules, found->base, take_rule, &named, places_allow_rule) &&
           are_free(found->outputs, found->base, take_output, &named, places_allow_output);
}

/* Looks at all of the system's files; their list is a blob, which sources that include the same share. */
bool direct_system_holds(record *found) {
    char blob[ENTRY_NAME_BYTES];
    return blob_name(blob, found->system_list.at) &&
           read_blob(found, blob, found->system_list.at, MOST_LIST, &found->system_watched) &&
           (system_holds(found->system_watched, found->system) || system_contents_hold(found));
}

/* Are all blobs of the outputs there, as long as they should be? Their content is hashed as it is written. */
static bool blobs_are_there(record *found) {
    char blob[ENTRY_NAME_BYTES];
    struct stat status;
    delivery one;
    one.base = found->base;
    for (bytes rest = found->outputs; rest.size;)
        if (!take_output(&rest, &one) || !blob_name(blob, one.blob.at) || !entry_status(found, blob, &status) ||
            (uint64_t)status.st_size != one.size)
            return false;
    return true;
}

/* The resident has watched the system's files since it saw them so; else they are looked at. */
static bool system_is_as_it_was(const request *asked, record *found) {
    if (!state_is_known(found->system))
        system_recall(found);
    const resident_answer said = asked->resident ? resident_ask(found) : RESIDENT_CANNOT_SAY;
    found->alone = said == RESIDENT_ABSENT;
    return said == RESIDENT_HOLDS || (said != RESIDENT_DIFFERS && direct_system_holds(found));
}

static bool find(const request *asked, kind of, record *found) {
    bytes payload;
    struct timespec now;
    memset(found, 0, offsetof(record, room));
    clock_gettime(CLOCK_REALTIME, &now);
    found->began = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    found->secret = asked->secret;
    found->readonly = asked->readonly;
    found->base = of == ELSEWHERE ? asked->base : NULL;
    found->content = (bytes)BEGINS_IN(found->room);
    found->store = store_base(asked->store);
    bool good = found->store >= 0 && key_of(asked, of, found->key);
    PHASE("key");
    good = good && store_entry_name(found->name, "actions", found->key) &&
           action_read(found, found->key, MOST_DIRECT, &found->content, &payload) && unpack(found, payload);
    PHASE("record");
    good = good && !(asked->terminal && of != ON_TERMINAL && found->messages.size) &&
           (asked->readonly || statistics_have_room(asked->store)) && has_temporary_directory(asked) &&
           places_are_free(asked, found) && blobs_are_there(found) && variables_hold(found, asked) &&
           ((!found->base && state_holds(found)) || contents_hold(found)) && system_is_as_it_was(asked, found);
    PHASE("state");
    if (!good)
        direct_release(found);
    return good;
}

bool direct_find(const request *asked, record *found) {
    return find(asked, HERE, found) || (asked->terminal && find(asked, ON_TERMINAL, found)) ||
           (asked->base && find(asked, ELSEWHERE, found));
}

static bool add_line(void *context, const uint8_t *text, size_t size) {
    append(context, text, size);
    return true;
}

bool direct_rules(const record *found, bytes *text) {
    delivery one;
    one.base = found->base;
    for (bytes rest = found->rules; rest.size;)
        if (!take_rule(&rest, &one) || !unpack_list(one.lines, add_line, text))
            return false;
    return !text->failed;
}

bool direct_output(const record *found, size_t number, char path[PATH_MAX]) {
    delivery one;
    one.base = found->base;
    for (bytes rest = found->outputs; rest.size;)
        if (!take_output(&rest, &one))
            return false;
        else if (number-- == 0)
            return strcpy(path, one.path), true;
    return false;
}

static bool deliver_rule(const delivery *one) {
    uint8_t room[1 << 16];
    bytes text = BEGINS_IN(room);
    const bool good = unpack_local(one->lines, one->base, add_line, &text) && !text.failed &&
                      (!one->base || wrap_rule(&text)) && is_harmless_rule(text.at, text.size) &&
                      write_whole(one->path, text.at, text.size);
    release(&text);
    return good;
}

static bool deliver_output(record *of, const delivery *one) {
    char blob[ENTRY_NAME_BYTES];
    return blob_name(blob, one->blob.at) &&
           deliver_blob(of, blob, one->blob.at, one->size, one->path, one->executable) &&
           (!one->executable || make_executable(one->path));
}

/* The dependency files first, as the engine does: an object without one would never be rebuilt. Each file is whole or
 * as it was; where one cannot be written, the engine writes them all anew. */
bool direct_deliver(record *found) {
    delivery one;
    one.base = found->base;
    for (bytes rest = found->rules; rest.size;)
        if (!take_rule(&rest, &one) || (one.path[0] && !deliver_rule(&one)))
            return false;
    for (bytes rest = found->outputs; rest.size;)
        if (!take_output(&rest, &one) || !deliver_output(found, &one))
            return false;
    return found->outputs.size != 0;
}

/* A better record, statistics, the history's time, and the uses that keep entries in the store. Failing here costs no
 * object. */
void direct_count(const request *asked, record *found) {
    char name[ENTRY_NAME_BYTES], digits[HEX_BYTES + 1];
    struct stat status;
    uint8_t room[1 << 10];
    bytes line = BEGINS_IN(room);
    const bytes counted = statistics_time(&line, found->counted, found->began) ? line : found->counted;
    const bool written = !asked->readonly && statistics_append(asked->store, counted.at, counted.size);
    release(&line);
    if (!written)
        return; /* a store that cannot be written, or must not be: nothing else can be noted there */
    const bool renewed = refresh(found); /* then its time tells nothing of when the others' use was noted */
    for (size_t at = 0, size; at < found->history.size; at += size + 1) {
        const char *one = (const char *)found->history.at + at;
        size = strnlen(one, found->history.size - at);
        if (at + size < found->history.size && is_history_name(one))
            store_touch(found->store, one);
    }
    if (!renewed && (!entry_status(found, found->name, &status) || use_is_noted(&status)))
        return;
    entry_touch(found, found->name);
    for (size_t at = 0; at + 1 + DIGEST_BYTES <= found->uses.size; at += 1 + DIGEST_BYTES) {
        const bool action = found->uses.at[at] == 'a';
        hexadecimal(found->uses.at + at + 1, DIGEST_BYTES, digits);
        if (action)
            seal_name(asked->secret, digits);
        if (store_entry_name(name, action ? "actions" : "blobs", digits))
            entry_touch(found, name);
    }
}

void direct_release(record *found) {
    release(&found->content);
    release(&found->system_watched);
    release(&found->guards);
    packs_release(found);
    if (found->store >= 0)
        close(found->store);
    found->store = -1;
}
