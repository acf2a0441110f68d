/* The socket and the protocol of the resident, for itself and for those who ask it (ask.c). */
#ifndef HIPCACHE_RESIDENT_H
#define HIPCACHE_RESIDENT_H

#include "direct.h"

#include <sys/un.h>

/* The number counts formats of packets and of digests: others are another resident's. */
#define RESIDENT_NAME "resident-3-" HIPCACHE_VERSION
#define RESIDENT_WORD "--resident"

/* Mount namespace, device and inode of the root: paths of another process mean the same if these are equal. */
typedef struct {
    uint64_t numbers[3];
} seen;

typedef struct {
    char kind[8]; /* the first of them says it: '?' */
    seen files;
    uint8_t system[DIGEST_BYTES];
} question;

/* A path in a directory that only this user can enter; false if there is none. */
bool runtime_place(char path[PATH_MAX], const char *name, const char *suffix);
bool close_from(unsigned first); /* all open files from that number on */
/* The path of the socket (and of what lies beside it), in a directory that is only this user's. */
bool resident_place(char path[PATH_MAX], const char *suffix);
bool resident_address(struct sockaddr_un *address);
bool resident_sees(seen *files);
bool resident_is_mine(int fd); /* is the other end of the socket this user's? */

/* resident.c: serves until nobody has asked for `idle` seconds (0: as long as is usual); returns the exit status. */
int resident_main(int idle);

#endif
