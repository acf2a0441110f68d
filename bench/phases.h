/* Included before each C file of a launcher that tells its phases: microseconds since the one before, on stderr. */
#ifndef PHASES_H
#define PHASES_H
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
static inline void tell_phase(const char *name) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "phase %s %lld\n", name, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
}
#define PHASE(name) tell_phase(name)
#endif
