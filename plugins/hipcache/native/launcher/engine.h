/* The Python engine, as the native program starts it (engine.c). */
#ifndef HIPCACHE_ENGINE_H
#define HIPCACHE_ENGINE_H

#include <stdbool.h>
#include <sys/resource.h>

/* Becomes the engine with these words; returns where that cannot be, with `errno`. */
void start_engine(char **argv);

bool is_subcommand(const char *word);
bool may_have(int resource, rlim_t least); /* by the limits of this process */

#endif
