/* The program that a command means: found on PATH, and never this one (masquerade.c). */
#ifndef HIPCACHE_MASQUERADE_H
#define HIPCACHE_MASQUERADE_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>

const char *base_name(const char *path);
bool which(const char *name, char path[PATH_MAX]); /* as exec would find it */
bool own_path(char path[PATH_MAX]);                /* of this program, all links resolved */

static inline bool starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* The words of the command, the real compiler second. Ends this process if there is no such compiler. */
char **unmask(int *argc, char **argv);

#endif
