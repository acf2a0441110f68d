/* The settings that the launcher has to know: the rules are those of the package config. */
#ifndef HIPCACHE_SETTINGS_H
#define HIPCACHE_SETTINGS_H

#include "direct.h"
#include "logs.h"

typedef struct {
    char directory[PATH_MAX]; /* the working directory */
    char store[PATH_MAX], project[PATH_MAX]; /* the project's config file; empty if there is none */
    bool file;     /* is there a config file? */
    bool resident; /* may the resident be asked, and started? */
    bool readonly; /* is nothing to be written to the store? */
    bool remote;   /* may a remote be set in a config file? */
    bool forbids;  /* may anything there forbid to ask one? */
    bytes config; /* digests of the files that decide which storage helper it is */
    uint8_t room[4 * DIGEST_BYTES];
    unsigned long part, of; /* how many hits of how many are compared with a compile anew */
    bool sealed;            /* have records a seal? Then with this secret: */
    uint8_t secret[KEY_BYTES];
    char namespace[128]; /* of a config file; empty if there is none */
    char key[PATH_MAX]; /* the file with the secret; empty if there is none */
    logs logs;
} settings;

/* False where the engine must read them. */
bool find_settings(settings *found);

/* Are there variables of settings, besides those that are of no matter here? */
bool has_settings(void);

/* Is a remote set, which may be asked, as far as that is understood here? */
bool has_remote(const settings *set);

#endif
