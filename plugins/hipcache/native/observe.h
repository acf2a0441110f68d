/* A pass under observation: observe.c starts it, observer.c makes the list, which is explained above observe.c. */
#ifndef HIPCACHE_OBSERVE_H
#define HIPCACHE_OBSERVE_H

#include "direct.h"
#include "shared.h"

/* What passes list themselves (missed.c), in memory that they share with the observer. */
typedef struct {
    uint8_t magic[8];
    uint64_t words[2];      /* of a look that the filter lets pass */
    uint64_t stopped, size; /* of `rows`, which are as in the list */
    char rows[];
} missed_list;

enum { MISSED_FD = 3, MISSED_BYTES = 64 << 20 /* of a file in memory: what is not written takes none */ };
#define SELF_LISTED "--"
#define MISSED_MAGIC "hipcach1"

typedef struct {
    int socket;      /* the listener comes here; it is closed by the other side when the pass has ended */
    int directory;   /* in which the pass began */
    bytes *seen;
    int listener;
    bool moved; /* has a process gone to another directory? */
    int why;
    missed_list *missed; /* or NULL */
} observer;

/* Holds the calls of this process from now on, but for those with the words: the listener, or -1. */
int observer_filter(const missed_list *missed);
void *observer_run(void *context); /* an observer; until no process is left that is held */

#endif
