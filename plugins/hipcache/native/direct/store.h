/* Opens what lies in a store. Nothing else in C opens, looks at, renames or removes a file of the store by its path.
 *
 * A co-writer of the store may have put anything in the place of anything: links, FIFOs, devices, huge files. So names
 * are looked up from a descriptor of STORE/v2, no link is followed below STORE, and only regular files of limited size
 * are opened. SECURITY.md has the rules, confined.py does the same for Python.
 *
 * A `name` is relative to STORE/v2, without empty parts, "." and "..": "statistics/log". */
#ifndef HIPCACHE_STORE_H
#define HIPCACHE_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "shared.h"

enum { ENTRY_NAME_BYTES = 96 };

/* A descriptor of STORE/v2, for the functions below and for close(2); -1 if there is none. */
int store_base(const char *store);

/* A regular file of at most `most` bytes, opened without waiting; -1 if it is anything else. `flags`: O_RDONLY, or
 * O_WRONLY or O_RDWR with O_APPEND and O_CREAT; what is written in place has no second name. `found`: its status,
 * may be NULL. A new file has the permissions of STORE/v2, less those to execute. */
int store_open(int base, const char *name, int flags, off_t most, struct stat *found);

/* A file that was not there, to be written. */
int store_create(int base, const char *name);

/* False unless it is a regular file. */
bool store_status(int base, const char *name, struct stat *found);

/* Sets its times to now. */
bool store_touch(int base, const char *name);

/* The directory of a file that is to come, as open as the one that it is in. */
bool store_make_directory_of(int base, const char *name);

bool store_rename(int base, const char *from, const char *to);
bool store_unlink(int base, const char *name);

/* "actions/AB/CDEF..." or "blobs/AB/CDEF...", of 64 hexadecimal digits. */
bool store_entry_name(char name[ENTRY_NAME_BYTES], const char *kind, const char *digits);

#endif
