/* Direct hits: a whole compile that nothing has changed for. The formats stand above record.py, watched.py (state),
 * store/layout.py and report/statistics.py. Whatever is not as it should be here is no hit: the engine sees to it. */
#ifndef HIPCACHE_DIRECT_H
#define HIPCACHE_DIRECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "blake3.h"
#include "store.h"

#ifndef PHASE
#define PHASE(name) /* the benchmark takes the time here: bench/phases.h */
#endif

/* Bytes of the record, or a growing text. */
typedef struct {
    uint8_t *at;
    size_t size, room;
    bool lent;   /* is the room somebody else's, and not to be freed? */
    bool failed; /* was there no memory for more? Then it is not whole, and there is no hit. */
} bytes;

/* An empty text that begins in an array. The hit path asks for no memory where it gets by without. */
#define BEGINS_IN(array) {(array), 0, sizeof(array), true, false}

/* Bytes that somebody else holds. */
#define LENT(at, size) ((bytes){(at), (size), 0, true, false})

enum { MOST_LIST = 16 << 20 }; /* bytes of a list of paths; 1,000 headers take 25 KB */

bool make_room(bytes *text, size_t size); /* for so many more */
void append(bytes *text, const void *more, size_t size);
void release(bytes *text);
/* `text` has room for 2 * size + 1. */
void hexadecimal(const uint8_t *content, size_t size, char *text);
/* Its value, -1 for what is no such digit. */
int hexadecimal_digit(char digit);

/* One compile that is asked for. `argv` and `environ` end with NULL. */
typedef struct {
    const char *store;     /* absolute path, without /v2 */
    const char *directory; /* the working directory */
    char *const *argv;     /* as typed, the compiler first */
    char *const *environ;
    bool terminal; /* would messages go to a terminal? */
    bool resident; /* may the resident be asked? */
    const uint8_t *secret; /* KEY_BYTES, with which records are sealed (seal.c); NULL: they are not */
    const char *base;      /* the base directory, if records for every checkout are to be tried; else NULL */
    const char *project;   /* the project's config file (project.c); empty if there is none */
    bool readonly;         /* is nothing to be written to the store? */
} request;

/* A record, read and checked; the parts point into `content`. */
typedef struct {
    bytes content, variables, state, racy, ignored, outputs, messages, counted, history, uses, watched, contents;
    bytes system, system_list, system_contents, rules;
    bytes system_watched; /* the list itself, once it was needed */
    bool alone;           /* was there no resident to ask? */
    bool readonly;        /* as in `request` */
    int store;            /* descriptor of STORE/v2 (store.h), or -1 */
    struct packs *packs;  /* those that were read from (pack.c) */
    char key[2 * DIGEST_BYTES + 1], name[ENTRY_NAME_BYTES]; /* of the record itself */
    const uint8_t *secret; /* as in `request` */
    const char *base;      /* of a record for every checkout; else NULL */
    uint64_t began;        /* nanoseconds of the epoch */
    bytes guards;          /* digits that `watched` is to have (contents.c) */
    uint8_t new_state[DIGEST_BYTES], new_system[DIGEST_BYTES];
    bool refresh_state, refresh_system; /* are these to be written into the record? */
    uint8_t room[1 << 15];
} record;

/* state.c */
bool unpack_list(bytes list, bool (*each)(void *context, const uint8_t *text, size_t size), void *context);
bool variables_hold(const record *found, const request *asked);
bool state_holds(const record *found); /* what is not of the system */
bool system_holds(bytes watched, bytes digest);
void append_status(bytes *text, const struct stat *found); /* 48 bytes */

/* elsewhere.c: records for every checkout */
bool is_plain_base(const char *base);
bool append_portable(bytes *to, const char *text, const char *base); /* false where that is not clear */
void append_local(bytes *to, const uint8_t *text, size_t size, const char *base);
bool unpack_local(bytes list, const char *base, bool (*each)(void *context, const uint8_t *text, size_t size),
                  void *context); /* as `unpack_list`, of a record for `base`, which may be NULL */
bool wrap_rule(bytes *text);

/* contents.c: is it all the same by its content? Then notes in the record which state it has now, if that lasts. */
bool contents_hold(record *found);
bool system_contents_hold(record *found); /* `system_watched` was read */

/* system.c: which state of the system was last found to have these contents? A record from elsewhere has none. */
bool state_is_known(bytes digest);
void system_claim(const record *found, const uint8_t state[DIGEST_BYTES], bytes *claim); /* that it has them */
void system_recall(record *found);                                                       /* into `system` */
void system_note(record *found);

/* refresh.c: writes what was noted into the record, whole, in the place of the old one, or returns false. Failing here
 * costs no object. */
bool refresh(record *found);

/* action.c: actions of the store (store/layout.py). `key`: 64 hexadecimal digits, as `seal_name` gives them. */
bool action_read(record *of, const char *key, off_t most, bytes *content, bytes *payload); /* appends to content */
/* `content`: domain, key and payload, as it was read. */
bool action_write(const record *of, const char *key, const bytes *content);
/* Facts about files, by their status: a claim is known if there is an action under its digest. */
bool claim_is_known(record *of, bytes claim);
void claim_keep(const record *of, bytes claim);
/* A short text under the digest of another one; a text that is kept begins with '{'. */
bool note_read(record *of, bytes about, bytes *content, bytes *payload);
void note_keep(const record *of, bytes about, const void *payload, size_t size);

/* pack.c: entries ("actions/...", "blobs/...", as of `store_entry_name`) in files of their own or in packs. */
bool entry_status(record *of, const char *name, struct stat *found); /* size of the entry, times of its file */
bool entry_read(record *of, const char *name, off_t most, bytes *content); /* appends it; unchecked */
/* Of a pack, until the next call; unchecked. */
const uint8_t *entry_packed(record *of, const char *name, uint64_t size);
void entry_touch(record *of, const char *name);
void packs_release(record *of);

/* ask.c: what the resident says of the system's state; the protocol stands above it. */
typedef enum { RESIDENT_ABSENT, RESIDENT_CANNOT_SAY, RESIDENT_HOLDS, RESIDENT_DIFFERS } resident_answer;
resident_answer resident_ask(record *found);
void resident_start(void);

/* hit.c: false if there is no hit. `direct_release` after `direct_find` gave true. */
bool direct_system_holds(record *found);
bool blob_name(char name[ENTRY_NAME_BYTES], const uint8_t digest[DIGEST_BYTES]);
bool direct_find(const request *asked, record *found);
bool direct_deliver(record *found);
bool direct_output(const record *found, size_t number, char path[PATH_MAX]); /* where it was written; false: no such */
bool direct_rules(const record *found, bytes *text); /* the content of the dependency files */
void direct_count(const request *asked, record *found);
void direct_release(record *found);

/* output.c: absolute paths; whole or not at all. False where that cannot be done, and nothing was changed. */
bool is_plain_file_or_absent(const char *path); /* and may be written */
bool has_temporary_directory(const request *asked);
/* `name`: of a blob in `store`, of that size; `runs`: will it be made executable? As for `write_whole`, not
 * everywhere. */
bool deliver_blob(record *of, const char *name, const uint8_t digest[DIGEST_BYTES], uint64_t size,
                  const char *destination, bool runs);
/* Appends it. */
bool read_blob(record *of, const char *name, const uint8_t digest[DIGEST_BYTES], off_t most, bytes *content);
bool use_is_noted(const struct stat *entry); /* of an entry of the store, not long ago */
/* A dependency file; not where the one that is there is to stay (hard links, another mode), as clang writes into it. */
bool write_whole(const char *destination, const uint8_t *content, size_t size);
bool make_executable(const char *path);
bool write_all(int fd, const uint8_t *content, size_t size);

/* seal.c: how records are sealed, which stands above store/seal.py. */
bool seal_read_secret(const char *path, uint8_t secret[KEY_BYTES]);
bool seal_is_namespace(const char *name);
void seal_within(const char *namespace, bool sealed, uint8_t secret[KEY_BYTES]); /* `sealed`: has it a secret so far? */
void seal_name(const uint8_t *secret, char key[2 * DIGEST_BYTES + 1]); /* of the record's file; in place */
const uint8_t *seal_magic(const uint8_t *secret);
void seal_digest(const uint8_t *secret, const void *content, size_t size, uint8_t digest[DIGEST_BYTES]);

/* project.c: is it a config file that counts, though others can write where it is? And the project's of a directory. */
bool settings_count(const char *path, struct stat *found);
bool settings_of_project(const char *directory, char path[PATH_MAX], struct stat *found); /* else `path` is empty */

/* statistics.c */
bool statistics_have_room(const char *store);
/* The line, with the time that it took (report/statistics.py). */
bool statistics_time(bytes *line, bytes counted, uint64_t began);
bool statistics_append(const char *store, const uint8_t *line, size_t size);

#endif
