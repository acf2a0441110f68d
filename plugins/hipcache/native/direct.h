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

#ifndef PHASE
#define PHASE(name) /* the benchmark takes the time here: bench/phases.h */
#endif

/* Bytes of the record, or a growing text. */
typedef struct {
    uint8_t *at;
    size_t size, room;
    bool lent; /* is the room somebody else's, and not to be freed? */
} bytes;

/* An empty text that begins in an array. The hit path asks for no memory where it gets by without. */
#define BEGINS_IN(array) {(array), 0, sizeof(array), true}

void make_room(bytes *text, size_t size); /* for so many more */
void append(bytes *text, const void *more, size_t size);
void release(bytes *text);
/* `text` has room for 2 * size + 1. */
void hexadecimal(const uint8_t *content, size_t size, char *text);

/* One compile that is asked for. `argv` and `environ` end with NULL. */
typedef struct {
    const char *store;     /* absolute path, without /v1 */
    const char *directory; /* the working directory */
    char *const *argv;     /* as typed, the compiler first */
    char *const *environ;
    bool terminal; /* would messages go to a terminal? */
    bool resident; /* may the resident be asked? */
} request;

/* A record, read and checked; the parts point into `content`. */
typedef struct {
    bytes content, state, ignored, outputs, messages, counted, history, uses, watched, system, system_list, rules;
    bytes system_watched; /* the list itself, once it was needed */
    bool alone;           /* was there no resident to ask? */
    bool whole;           /* are the outputs' blobs as they were when somebody hashed them? */
    int resident;         /* the connection, while there is something to be told; else -1 */
    uint8_t blobs[DIGEST_BYTES]; /* digest of what the outputs are, and of how the files look that hold them */
    time_t blobs_changed;
    char path[PATH_MAX];  /* of the record itself */
    uint8_t room[1 << 15];
} record;

/* state.c */
bool unpack_list(bytes list, bool (*each)(void *context, const uint8_t *text, size_t size), void *context);
bool state_holds(const record *found, char *const *environ); /* the variables, and what is not of the system */
bool system_holds(bytes watched, bytes digest);
void append_status(bytes *text, const struct stat *found); /* 48 bytes */

/* ask.c: what the resident says of the system's state; the protocol stands above it. */
typedef enum { RESIDENT_ABSENT, RESIDENT_CANNOT_SAY, RESIDENT_HOLDS, RESIDENT_DIFFERS } resident_answer;
resident_answer resident_ask(const request *asked, record *found);
void resident_tell_whole(record *found); /* the blobs were hashed, and are what they should be */
void resident_start(void);

/* hit.c: false where there is no hit. `direct_release` after `direct_find` gave true. */
bool direct_system_holds(const request *asked, record *found);
bool direct_find(const request *asked, record *found);
bool direct_deliver(const request *asked, const record *found);
bool direct_rules(const record *found, bytes *text); /* the content of the dependency files */
void direct_count(const request *asked, record *found);
void direct_release(record *found);

/* output.c: absolute paths; whole or not at all. False where that cannot be done, and nothing was changed. */
bool is_plain_file_or_absent(const char *path); /* and may be written */
bool has_temporary_directory(const request *asked);
/* `whole`: it is known that the blob is what its digest says. */
bool deliver_blob(const char *blob, const uint8_t digest[DIGEST_BYTES], bool whole, const char *destination);
bool read_blob(const char *blob, const uint8_t digest[DIGEST_BYTES], bytes *content); /* appends it */
bool use_is_noted(const struct stat *entry); /* of an entry of the store, not long ago */
/* A dependency file; not where the one that is there is to stay (hard links, another mode), as clang writes into it. */
bool write_whole(const char *destination, const uint8_t *content, size_t size);
bool make_executable(const char *path);
bool write_all(int fd, const uint8_t *content, size_t size);

/* statistics.c */
bool statistics_have_room(const char *store);
bool statistics_append(const char *store, const uint8_t *line, size_t size);

#endif
