/* The storage helper, as the native program asks it (helper.c). */
#ifndef HIPCACHE_HELPER_H
#define HIPCACHE_HELPER_H

#include "direct.h"

/* Is the direct record of that compile in the store now, fetched from a remote? `config`: the states of config files.
 * `start_engine`: becomes the engine with these words; returns where that cannot be. */
bool helper_ask(const request *asked, bytes config, void (*start_engine)(char **words));

typedef enum { AHEAD_DONE, AHEAD_TOO_LONG, AHEAD_ENGINE } ahead;

/* `hipcache prefetch FILE`: `text` is what it came to, a line. AHEAD_ENGINE: that is to do it, and to say what is
 * wrong. `argv` of `asked` is not looked at. */
ahead helper_fetch_ahead(const request *asked, const char *file, bytes config, void (*start_engine)(char **words),
                         bytes *text);

#endif
