/* The files that a command may write, read from the command itself: places.c. */
#ifndef HIPCACHE_PLACES_H
#define HIPCACHE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The outputs that the words of a command name; the texts are the command's. NULL: it names none. */
typedef struct {
    const char *directory;
    char *const *argv;
    const char *output, *rule, *remarks_file, *messages_file;
    bool rules, split_debug, remarks, stack_usage, coverage;
} places;

places places_of(const char *directory, char *const *argv);

/* Does the command write its output, or one beside it, to this absolute path? */
bool places_allow_output(const places *of, const char *path);
bool places_allow_rule(const places *of, const char *path);

/* Is it a dependency file that only tells make of files, and gives it nothing to run? */
bool is_harmless_rule(const uint8_t *text, size_t size);

/* "history/OBJECT/COMMAND" of report/history.py? */
bool is_history_name(const char *name);

#endif
