/* A look at the paths of a record's list: state.c takes their state, contents.c compares their contents. */
#ifndef HIPCACHE_LOOK_H
#define HIPCACHE_LOOK_H

#include "direct.h"

enum { GUARD_DIGITS = 32, STATUS_BYTES = 48 };

/* The paths of one directory stand together: from the second on, they are looked for in the opened directory, not from
 * the root again (the compiler's paths have up to 15 steps). */
typedef struct {
    bytes state;
    bool named; /* are the paths part of the state? */
    char directory[PATH_MAX];
    size_t length;
    int opened; /* NOT_YET, CANNOT_BE, or a file descriptor */
    bool guarded;
    bool asked, keeps_times; /* look_keeps_times, of what is there on `device` */
    dev_t device;
} looking;

enum { NOT_YET = -1, CANNOT_BE = -2 };

/* With what the state begins, and `named` as there. */
looking look_begin(uint8_t *room, size_t size, bool system);
void look_leave(looking *at); /* the directory that is open */
int look_status(looking *at, const char *path, int flags, struct stat *found); /* as fstatat(2) */
/* May this user read the file (R_OK) or search the directory (X_OK)? The status tells of this user's, and of root's
 * that are open to all. Else it takes a system call: an ACL may deny some users what the mode allows to all. */
bool look_allows(const char *path, const struct stat *found, int what);
void look_failure(bytes *state); /* of that, by errno: the state of a path that is looked for in vain */
bool look_entries(const char *path, uint8_t digest[DIGEST_BYTES]); /* of the names in a directory */
/* The text of a link in `target`, nothing for what is none; its length, -1 where that cannot be told. */
ssize_t look_link(const char *path, const struct stat *found, char target[PATH_MAX]);
bool look_processor(bytes *state); /* processor.c: adds its digest; false where there is none */
void look_digits(const struct stat *found, char digits[GUARD_DIGITS + 1]); /* of a guard */
bool look_keeps_times(const char *path); /* is it in a local file system that keeps the times of directories? */
void look_number(bytes *state, uint64_t value);
uint64_t look_last_change(const struct stat *found); /* nanoseconds of the epoch */
/* Has the file a change time of its own? Else its status never stands for its content. `look_is_old`: does it, if what
 * changed since `old` is too young? */
bool look_keeps_change_time(const char *path, const struct stat *found);
bool look_is_old(const char *path, const struct stat *found, uint64_t old);

/* reading.c: has the file at `path` still this status, and this content? `old`: does the status stand for it from now
 * on? `buffer`: PIECE_BYTES. */
bool file_holds(record *of, const char *path, const struct stat *status, const uint8_t digest[DIGEST_BYTES], bool old,
                uint8_t *buffer);

#endif
