/* A pass under observation: observe.c starts it, observer.c makes the list, which is explained above observe.c. */
#ifndef HIPCACHE_OBSERVE_H
#define HIPCACHE_OBSERVE_H

#include "direct.h"
#include "shared.h"

typedef struct {
    int socket;      /* the listener comes here; it is closed by the other side when the pass has ended */
    int directory;   /* in which the pass began */
    bytes *seen;
    int listener;
    bool moved; /* has a process gone to another directory? */
    int why;
} observer;

int observer_filter(void);       /* holds the calls of this process from now on: the listener, or -1 */
void *observer_run(void *context); /* an observer; until no process is left that is held */

#endif
