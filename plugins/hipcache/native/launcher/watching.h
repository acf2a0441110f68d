/* Paths that are watched, each step on the way to them: has anything happened to any of them? */
#ifndef HIPCACHE_WATCHING_H
#define HIPCACHE_WATCHING_H

#include "direct.h"

/* Numbers by digest, open addressing; 0 is none. */
typedef struct {
    uint8_t digest[DIGEST_BYTES];
    int value;
} entry;

typedef struct {
    entry *entries;
    size_t room, count;
} table;

int table_find(const table *all, const uint8_t digest[DIGEST_BYTES]);
void table_put(table *all, const uint8_t digest[DIGEST_BYTES], int value);
void table_empty(table *all);

/* A directory as it was last named, and where that led: the paths of one directory stand together. */
typedef struct {
    char named[PATH_MAX], is[PATH_MAX];
    size_t size;
    int watch;
} way;

typedef struct {
    int events; /* of inotify(7) */
    int mounts; /* mountinfo of proc(5), which tells by poll(2) that something was mounted */
    size_t watches, most;
    table watched; /* resolved path -> watch */
    table names;   /* watch of a directory and a name in it, or that watch alone where every name matters -> 1 */
    way last;
} watching;

bool watching_begin(watching *self);
bool watching_again(watching *self); /* with nothing watched */

/* Watches all paths of a list of a record, as far as they are there; false where that cannot be. */
bool watching_add(watching *self, bytes paths);

/* Takes up what has happened since the last call, also that some of it was lost. False: something that matters, or it
 * cannot be told. */
bool watching_is_quiet(watching *self);

#endif
