/* Reads the settings for the launcher, as the package config does. Whatever is not plain at first sight is the
 * engine's affair. */
#define _GNU_SOURCE
#include "settings.h"
#include "masquerade.h"

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

/* Of a remote, which the engine alone asks; a plain one, so that it is no part of something longer. */
static bool is_address(const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-:?=&%~,";
    return strspn(text, plain) == strlen(text);
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

/* One line of the plainest kind: `key: value` without quotes. `allowed`: as of `read_file`. */
static bool read_line(const char *line, const char *const *allowed, settings *found, bool *named) {
    char key[32], words[PATH_MAX], more;
    if (line[0] == 0 || line[0] == '#')
        return true;
    for (; allowed; allowed++)
        if (!*allowed)
            return false;
        else if (starts(line, *allowed) && line[strlen(*allowed)] == ':')
            break;
    if (starts(line, "remote: ") || starts(line, "HIPCACHE_REMOTE: "))
        return is_address(line + strcspn(line, " ") + 1);
    if (sscanf(line, "%31[a-zA-Z_]: %4095s %c", key, words, &more) != 2 ||
        strspn(words, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-") != strlen(words))
        return false;
    if (strcmp(key, "dir") == 0 || strcmp(key, "HIPCACHE_DIR") == 0) {
        const bool good = words[0] == '/' && !*named;
        *named = true;
        snprintf(found->store, PATH_MAX, "%s", words);
        return good;
    }
    if (strcmp(key, "key") == 0 || strcmp(key, "HIPCACHE_KEY") == 0) {
        snprintf(found->key, PATH_MAX, "%s", words);
        return words[0] == '/';
    }
    if (strcmp(key, "namespace") == 0 || strcmp(key, "HIPCACHE_NAMESPACE") == 0)
        return (size_t)snprintf(found->namespace, sizeof found->namespace, "%s", words) < sizeof found->namespace;
    if (strcmp(key, "log") == 0 || strcmp(key, "HIPCACHE_LOG") == 0)
        return set_log(found->logs.log, words);
    if (strcmp(key, "stats_log") == 0 || strcmp(key, "HIPCACHE_STATS_LOG") == 0)
        return set_log(found->logs.stats, words);
    if (strcmp(key, "log_format") == 0 || strcmp(key, "HIPCACHE_LOG_FORMAT") == 0)
        return set_format(&found->logs, words);
    if (strcmp(key, "resident") == 0 || strcmp(key, "HIPCACHE_RESIDENT") == 0)
        return take_flag(words, &found->resident);
    if (strcmp(key, "readonly") == 0 || strcmp(key, "HIPCACHE_READONLY") == 0)
        return take_flag(words, &found->readonly);
    if (strcmp(key, "verify") == 0 || strcmp(key, "HIPCACHE_VERIFY") == 0)
        return take_share(words, found);
    return true;
}

/* The settings of a config file, if all of its lines are of the plainest kind. `allowed`: the keys that it may have;
 * NULL: any. `unsealed`, `unnoted`: certainly, none of its lines is that of the key, or of what a hit leaves. */
static bool read_file(const char *file, const char *const *allowed, settings *found, bool *unsealed, bool *unnoted) {
    static char text[MOST_CONFIG + 2];
    bool named = false;
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t size = fd >= 0 ? read(fd, text, MOST_CONFIG + 1) : -1;
    bool good = size >= 0 && size <= MOST_CONFIG && !memchr(text, 0, (size_t)size);
    if (fd >= 0)
        close(fd);
    if (good)
        text[size] = 0;
    found->remote = found->remote || (good && strcasestr(text, "remote"));
    found->forbids = found->forbids || !good || strcasestr(text, "disable") || strcasestr(text, "readonly") ||
                     strcasestr(text, "recache");
    *unsealed = good && !strcasestr(text, "key") && !strcasestr(text, "namespace") && !strchr(text, '\\');
    *unnoted = good && !strcasestr(text, "log") && !strcasestr(text, "verify") && !strcasestr(text, "readonly") &&
               !strchr(text, '\\');
    for (char *line = text, *end; good && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        good = read_line(line, allowed, found, &named);
    }
    return good;
}

/* A file of this machine's, or of this user's; false where the engine must read it. `number`: among the statuses. */
static bool take_file(const char *file, uint8_t number, settings *found) {
    struct stat status;
    bool unsealed, unnoted;
    if (lstat(file, &status) != 0)
        return true;
    found->file = true;
    append(&found->statuses, &number, sizeof number), append_status(&found->statuses, &status);
    if (status.st_size == 0 || read_file(file, NULL, found, &unsealed, &unnoted))
        return true;
    found->resident = false; /* what stands there, only the engine can read */
    return value("HIPCACHE_DIR")[0] && unnoted &&
           (unsealed || (value("HIPCACHE_KEY")[0] && value("HIPCACHE_NAMESPACE")[0]));
}

/* A store's, or a project's. */
static bool take_foreign(const char *file, const struct stat *status, const char *const *allowed, settings *found) {
    bool unsealed, unnoted;
    found->file = true;
    return status->st_size == 0 || read_file(file, allowed, found, &unsealed, &unnoted);
}

static bool take_store(settings *found) {
    static const char *const allowed[] = {"max_size", "readonly", "umask", NULL};
    char file[PATH_MAX];
    const uint8_t number = 2;
    struct stat status;
    if (snprintf(file, sizeof file, "%s/" STORE_SETTINGS, found->store) >= PATH_MAX)
        return false;
    if (!settings_count(file, &status))
        return true;
    append(&found->statuses, &number, sizeof number), append_status(&found->statuses, &status);
    return take_foreign(file, &status, allowed, found);
}

static bool take_project(settings *found) {
    static const char *const allowed[] = {"basedir", "disable", "readonly", NULL};
    struct stat status;
    return !settings_of_project(found->directory, found->project, &status) ||
           take_foreign(found->project, &status, allowed, found);
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
    found->statuses = (bytes)BEGINS_IN(found->room);
    found->resident = true;
    found->of = 1;
    if (!getcwd(found->directory, sizeof found->directory))
        return false;
    if (user[0] ? snprintf(file, sizeof file, "%s", user) >= PATH_MAX || user[0] != '/'
                : !below(file, "XDG_CONFIG_HOME", ".config", "/hipcache.yaml"))
        return false;
    if ((system[0] && system[0] != '/') || !take_file(system[0] ? system : SYSTEM_CONFIG, 0, found) ||
        !take_file(file, 1, found) || !find_store(found) || !take_store(found) || !take_project(found))
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
