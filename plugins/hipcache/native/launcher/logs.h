/* The logs of compiles that the user may want (HIPCACHE_LOG, HIPCACHE_STATS_LOG): their format is that of
 * report/stats_log.py and report/telling.py. Nothing here is done where neither is set. */
#ifndef HIPCACHE_LOGS_H
#define HIPCACHE_LOGS_H

#include "direct.h"

typedef struct {
    char log[PATH_MAX], stats[PATH_MAX]; /* absolute; empty where that log is not wanted */
    bool json;                           /* is the first of them in JSON? */
} logs;

/* A compile that has ended: `counted` is what the statistics got, one line for each of its sources. */
typedef struct {
    const char *directory;
    char *const *argv;
    uint64_t began; /* nanoseconds of the epoch; 0: just now */
    bytes counted;
    const record *served; /* NULL if it was not served */
} ended_compile;

void logs_append(const logs *to, const ended_compile *told);

#endif
