/* The settings for the launcher: of the environment, as the package config reads it, and of config files, as the
 * engine has left them. Whatever is not plain at first sight is the engine's affair. */
#define _GNU_SOURCE
#include "settings.h"
#include "masquerade.h"
#include "resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static const char *value(const char *name) {
    const char *found = getenv(name);
    return found ? found : "";
}

/* "BASE/hipcache" and what follows, as the package config finds the user's directories; false if it is not known. */
static bool below(char path[PATH_MAX], const char *variable, const char *below_home, const char *rest) {
    const char *base = value(variable), *home = value("HOME");
    if (base[0] == '/')
        return snprintf(path, PATH_MAX, "%s/hipcache%s", base, rest) < PATH_MAX;
    return home[0] == '/' && snprintf(path, PATH_MAX, "%s/%s/hipcache%s", home, below_home, rest) < PATH_MAX;
}

/* A flag as the package config reads it. False where it is none, and where it has spaces around it. */
static bool take_flag(const char *word, bool *flag) {
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i]) == 0)
            return *flag = i % 2, true;
    return false;
}

/* A number and the spaces around it; what follows, or NULL. */
static const char *take_number(const char *text, unsigned long *number) {
    char digits[10];
    int end = 0;
    if (sscanf(text, " %9[0-9] %n", digits, &end) != 1)
        return NULL;
    *number = strtoul(digits, NULL, 10);
    return text + end;
}

/* A share as the package config reads it; false where it is none. */
static bool take_share(const char *text, settings *found) {
    found->of = 1;
    const char *rest = take_number(text, &found->part);
    if (rest && *rest == '/')
        rest = take_number(rest + 1, &found->of);
    return rest && !*rest && found->of && found->part <= found->of;
}

/* A path that the package config takes for a log. Other forms (~), and those that it refuses, are left to it. */
static bool set_log(char path[PATH_MAX], const char *text) {
    return text[0] == '/' && snprintf(path, PATH_MAX, "%s", text) < PATH_MAX;
}

static bool set_format(logs *found, const char *text) {
    found->json = strcmp(text, "json") == 0;
    return found->json || strcmp(text, "text") == 0;
}

static bool find_logs(logs *found) {
    const char *log = value("HIPCACHE_LOG"), *stats = value("HIPCACHE_STATS_LOG"),
               *format = value("HIPCACHE_LOG_FORMAT");
    return (!log[0] || set_log(found->log, log)) && (!stats[0] || set_log(found->stats, stats)) &&
           (!format[0] || set_format(found, format));
}

/* As read(2) of a regular file, of a local one to its end; -1 for all else: what is taken from a pipe, the engine would
 * lack. */
static ssize_t read_from(const char *path, uint8_t *text, size_t size) {
    struct stat status;
    const bool good = stat(path, &status) == 0 && S_ISREG(status.st_mode);
    const int fd = good ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    const ssize_t found = fd >= 0 ? read(fd, text, size) : -1;
    if (fd >= 0)
        close(fd);
    return found;
}

/* Takes the values in a text of these that has `size` bytes, as it stands above config/resolved.py. */
static bool take_values(const char *text, size_t size, settings *found) {
    enum { DIR, KEY, NAMESPACE, LOG, STATS_LOG, LOG_FORMAT, RESIDENT, READONLY, VERIFY, REMOTE, FORBIDS, VALUES };
    const char *values[VALUES];
    for (size_t at = 0; at < VALUES; at++) {
        const size_t length = strnlen(text, size);
        if (length == size)
            return false;
        values[at] = text;
        text += length + 1, size -= length + 1;
    }
    const struct {
        const char *value;
        char *room;
        size_t size;
    } texts[] = {{values[DIR], found->store, sizeof found->store},
                 {values[KEY], found->key, sizeof found->key},
                 {values[NAMESPACE], found->namespace, sizeof found->namespace},
                 {values[LOG], found->logs.log, sizeof found->logs.log},
                 {values[STATS_LOG], found->logs.stats, sizeof found->logs.stats}};
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        if (*texts[at].value &&
            (size_t)snprintf(texts[at].room, texts[at].size, "%s", texts[at].value) >= texts[at].size)
            return false;
    found->remote = *values[REMOTE] ? *values[REMOTE] == '1' : found->remote;
    found->forbids = found->forbids || *values[FORBIDS];
    return !size && (!*values[LOG_FORMAT] || set_format(&found->logs, values[LOG_FORMAT])) &&
           (!*values[RESIDENT] || take_flag(values[RESIDENT], &found->resident)) &&
           (!*values[READONLY] || take_flag(values[READONLY], &found->readonly)) &&
           (!*values[VERIFY] || take_share(values[VERIFY], found));
}

/* The settings of a config file, as the engine has left them (config/resolved.py); false where it has not. `scope`: the
 * name that config/files.py gives it; `digest`: of that, and of the content. */
static bool take_content(const char *file, const char *scope, settings *found, uint8_t digest[DIGEST_BYTES]) {
    enum { DIGITS = 32, MOST_VALUES = 5 * PATH_MAX };
    static uint8_t content[MOST_CONFIG + 1], values[MOST_VALUES];
    char name[DIGITS + 1], place[PATH_MAX];
    bytes hashed = {0};
    const ssize_t size = read_from(file, content, sizeof content);
    found->file = true;
    if (size < 0 || size > MOST_CONFIG)
        return false;
    append(&hashed, SETTINGS_DOMAIN, sizeof SETTINGS_DOMAIN), append(&hashed, scope, strlen(scope) + 1);
    append(&hashed, value("HOME"), strlen(value("HOME")) + 1), append(&hashed, content, (size_t)size);
    blake3(hashed.at, hashed.failed ? 0 : hashed.size, digest);
    release(&hashed);
    hexadecimal(digest, DIGITS / 2, name);
    const ssize_t left = runtime_place(place, "settings-", name) ? read_from(place, values, sizeof values) : -1;
    return left >= 0 && take_values((const char *)values, (size_t)left, found);
}

/* A config file that may decide which storage helper is asked; false where the engine must read it. */
static bool take_file(const char *file, const char *scope, settings *found) {
    uint8_t digest[DIGEST_BYTES];
    struct stat status;
    if (lstat(file, &status) != 0)
        return true;
    if (!take_content(file, scope, found, digest))
        return false;
    append(&found->config, digest, sizeof digest);
    return true;
}

static bool take_store(settings *found) {
    char file[PATH_MAX];
    struct stat status;
    if (snprintf(file, sizeof file, "%s/" STORE_SETTINGS, found->store) >= PATH_MAX)
        return false;
    return !settings_count(file, &status) || take_file(file, "store's", found);
}

static bool take_project(settings *found) {
    uint8_t digest[DIGEST_BYTES];
    struct stat status;
    return !settings_of_project(found->directory, found->project, &status) ||
           take_content(found->project, "project's", found, digest);
}

/* The secret of the store's records, or of a namespace; false where the engine must say what is wrong with it. */
static bool find_secret(settings *found) {
    const char *named = value("HIPCACHE_KEY");
    if (named[0])
        snprintf(found->key, PATH_MAX, "%s", named);
    found->sealed = found->key[0] != 0;
    if (found->sealed && !(found->key[0] == '/' && seal_read_secret(found->key, found->secret)))
        return false;
    const char *namespace = value("HIPCACHE_NAMESPACE")[0] ? value("HIPCACHE_NAMESPACE") : found->namespace;
    if (!seal_is_namespace(namespace))
        return false;
    if (namespace[0])
        seal_within(namespace, found->sealed, found->secret), found->sealed = true;
    return true;
}

static bool find_store(settings *found) {
    const char *named = value("HIPCACHE_DIR");
    if (named[0])
        return named[0] == '/' && snprintf(found->store, PATH_MAX, "%s", named) < PATH_MAX;
    return found->store[0] || below(found->store, "XDG_CACHE_HOME", ".cache", "");
}

/* Those that a record leaves out, since they change no output (inputs/variables.py). */
static bool find_choices(settings *found) {
    const char *resident = value("HIPCACHE_RESIDENT"), *verify = value("HIPCACHE_VERIFY"),
               *prefetch = value("HIPCACHE_PREFETCH");
    const char *readonly = value("HIPCACHE_READONLY");
    bool prefetches;
    return (!resident[0] || take_flag(resident, &found->resident)) && (!verify[0] || take_share(verify, found)) &&
           (!prefetch[0] || take_flag(prefetch, &prefetches)) &&
           (!readonly[0] || take_flag(readonly, &found->readonly));
}

bool find_settings(settings *found) {
    char file[PATH_MAX];
    const char *system = value("HIPCACHE_SYSTEM_CONFIG"), *user = value("HIPCACHE_CONFIG");
    found->config = (bytes)BEGINS_IN(found->room);
    found->resident = true;
    found->of = 1;
    if (!getcwd(found->directory, sizeof found->directory))
        return false;
    if (user[0] ? snprintf(file, sizeof file, "%s", user) >= PATH_MAX || user[0] != '/'
                : !below(file, "XDG_CONFIG_HOME", ".config", "/hipcache.yaml"))
        return false;
    if ((system[0] && system[0] != '/') || !take_file(system[0] ? system : SYSTEM_CONFIG, "system-wide", found) ||
        !take_file(file, "user's", found) || !find_store(found) || !take_store(found) || !take_project(found))
        return false;
    return find_choices(found) && find_secret(found) && find_logs(&found->logs);
}

bool has_settings(void) {
    // These change nothing of what is decided here, or are known.
    static const char *const known[] = {
        "HIPCACHE_DIR=",       "HIPCACHE_RESIDENT=",        "HIPCACHE_VERIFY=",
        "HIPCACHE_KEY=",       "HIPCACHE_NAMESPACE=",       "HIPCACHE_SYSTEM_PATHS=",
        "HIPCACHE_UMASK=",     "HIPCACHE_REMOTE=",          "HIPCACHE_PACKS=",
        "HIPCACHE_LOG=",       "HIPCACHE_LOG_FORMAT=",      "HIPCACHE_STATS_LOG=",
        "HIPCACHE_PREAMBLES=", "HIPCACHE_PREAMBLE_CHECKS=", "HIPCACHE_SHARED_FRONT_ENDS=",
        "HIPCACHE_CXX_CACHE=",
    };
    for (char **variable = environ; *variable; variable++) {
        bool is_known = !starts(*variable, "HIPCACHE_");
        for (size_t at = 0; at < sizeof known / sizeof *known && !is_known; at++)
            is_known = starts(*variable, known[at]);
        if (!is_known)
            return true;
    }
    return false;
}

bool has_remote(const settings *set) {
    const char *named = getenv("HIPCACHE_REMOTE");
    if (set->forbids || (named ? !named[0] : !set->remote))
        return false;
    for (char **variable = environ; *variable; variable++)
        if (starts(*variable, "HIPCACHE_DISABLE=") || starts(*variable, "HIPCACHE_READONLY=") ||
            starts(*variable, "HIPCACHE_RECACHE="))
            return false;
    return true;
}
