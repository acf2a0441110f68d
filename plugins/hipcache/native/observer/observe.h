/* Processes that are started (start.c), or forked off a loaded program (fork_server.c), and what they look at
 * (observer.c; missed.c lists for itself). */
#ifndef HIPCACHE_OBSERVE_H
#define HIPCACHE_OBSERVE_H

#include "direct.h"
#include "shared.h"

#include <pthread.h>
#include <signal.h>

/* What passes list themselves (missed.c), in memory that they share with the observer. */
typedef struct {
    uint64_t words[2];      /* of a look that the filter lets pass */
    uint64_t stopped, size; /* of `rows`, which are as in the list */
    char rows[];
} missed_list;

/* KEPT_FD: what stays open in a program that is started. MISSED_BYTES: of a file in memory; what is not written takes
 * none. */
enum { KEPT_FD = 3, MISSED_BYTES = 64 << 20, MOST_DESCRIPTORS = 7 /* in a message */ };
#define SELF_LISTED "--"

typedef struct {
    int socket;      /* the listener comes here; it is shut down when the pass has ended */
    int directory;   /* in which the pass began */
    bytes *seen;
    int listener;
    bool moved; /* has a process gone to another directory? */
    int why;
    missed_list *missed; /* or NULL */
} observer;

/* A process that is to begin. */
typedef struct {
    const char *program, *directory;
    char *const *argv, *const *environ;
    const int *streams;
    int socket; /* of the observer, or -1 */
    pid_t parent;
    const sigset_t *mask;
    int kept;   /* becomes KEPT_FD; or -1 */
    int memory; /* in which the pass lists what it misses; or -1 */
    const missed_list *list; /* that memory, in the pass */
    volatile int failed; /* errno of the start */
} start;

/* Gives this new process its streams, directory, filter and death signal, and closes all else of ours. */
bool become(start *begun);
/* The process in which the program begins, or -1. */
pid_t begin(start *begun);

/* A process that may be ended from any thread. */
typedef struct {
    pthread_mutex_t lock;
    pid_t pid;
    bool killed;
} observing;

void set_pid(observing *one, pid_t pid);
int wait_for(observing *one, pid_t pid, int64_t *used);
void hipcache_observing_kill(observing *one);

/* See fork_server.c. */
typedef struct fork_server fork_server;
/* Has the loaded program begin in a new process: its number, or -errno. */
pid_t fork_server_begin(fork_server *server, const start *begun);
missed_list *missed_use(int memory); /* this process lists there what it misses, from now on */

/* Sends a message: `size` bytes, and with them descriptors. */
bool send_with(int socket, const void *message, size_t size, const int *descriptors, size_t count);

void gather_if_planning(int count, char *const *words); /* gather.c: of a program that begins */

/* Holds the calls of this process from now on, but for those with the words: the listener, or -1. */
int observer_filter(const missed_list *missed);
void *observer_run(void *context); /* an observer; until no process is left that is held */

#endif
