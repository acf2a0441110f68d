/* `hipcache COMPILER ARGS...` as people start it: serves a direct hit, becomes the compiler for what is certainly no
 * HIP, and hands everything else to the Python engine: `hipcache-engine` beside this one, or in ../libexec/hipcache.
 *
 * The rules are those of __main__.py, plain.py and config.py. What is not plain at first sight is the engine's affair. */
#define _GNU_SOURCE
#include "engine.h"
#include "helper.h"
#include "logs.h"
#include "masquerade.h"
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static bool ends(const char *text, const char *with) {
    const size_t size = strlen(text), tail = strlen(with);
    return size >= tail && strcmp(text + size - tail, with) == 0;
}

static const char *value(const char *name) {
    const char *found = getenv(name);
    return found ? found : "";
}

/* "BASE/hipcache" and what follows, as config.py finds the user's directories; false where it is not known. */
static bool below(char path[PATH_MAX], const char *variable, const char *below_home, const char *rest) {
    const char *base = value(variable), *home = value("HOME");
    if (base[0] == '/')
        return snprintf(path, PATH_MAX, "%s/hipcache%s", base, rest) < PATH_MAX;
    return home[0] == '/' && snprintf(path, PATH_MAX, "%s/%s/hipcache%s", home, below_home, rest) < PATH_MAX;
}

/* What the launcher has to know of the settings. */
typedef struct {
    char store[PATH_MAX];
    bool file;     /* is there a config file? */
    bool silent;   /* has it nothing to say: is there none (nor should be), or is it empty? */
    bool resident; /* may the resident be asked, and started? */
    bool remote;   /* may a remote be set in the config file, and nothing there that forbids to ask it? */
    struct stat status; /* of the config file, if there is one */
    unsigned long part, of; /* how many hits of how many are compared with a compile anew */
    bool sealed;   /* have records a seal? Then with this secret: */
    uint8_t secret[KEY_BYTES];
    char key[PATH_MAX]; /* the file that it is in; empty where there is none */
    logs logs;
} settings;

static bool is_yes(const char *word) {
    static const char *const words[] = {"1", "true", "yes", "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i]) == 0)
            return true;
    return false;
}

/* As config.py reads it; none where it is no share: the engine says so. */
static void share_of(const char *text, settings *found) {
    char more;
    found->part = 0, found->of = 1;
    const int read = sscanf(text, "%9lu / %9lu %c", &found->part, &found->of, &more);
    if ((read != 2 && (read != 1 || strchr(text, '/'))) || found->of == 0)
        found->part = 0, found->of = 1;
}

/* Is it this compile's turn? A draw of its own for each (verify/delivered.py). */
static bool is_drawn(const settings *set) {
    uint64_t random;
    return set->part && getrandom(&random, sizeof random, 0) == sizeof random && random % set->of < set->part;
}

/* Of a remote, which the engine alone asks; a plain one, so that it is no part of something longer. */
static bool is_address(const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-:?=&%~,";
    return strspn(text, plain) == strlen(text);
}

/* What config.py takes for a log; what else it knows to read (~), or refuses, is its affair. */
static bool set_log(char path[PATH_MAX], const char *text) {
    return text[0] == '/' && snprintf(path, PATH_MAX, "%s", text) < PATH_MAX;
}

static bool set_format(logs *found, const char *text) {
    found->json = strcmp(text, "json") == 0;
    return found->json || strcmp(text, "text") == 0;
}

static bool find_logs(logs *found) {
    const char *log = value("HIPCACHE_LOG"), *stats = value("HIPCACHE_STATS_LOG"), *format = value("HIPCACHE_LOG_FORMAT");
    return (!log[0] || set_log(found->log, log)) && (!stats[0] || set_log(found->stats, stats)) &&
           (!format[0] || set_format(found, format));
}

/* One line of the plainest kind: `key: value` without quotes. */
static bool read_line(const char *line, settings *found, bool *named) {
    char key[32], words[PATH_MAX], more;
    if (line[0] == 0 || line[0] == '#')
        return true;
    if (starts(line, "remote: ") || starts(line, "HIPCACHE_REMOTE: "))
        return is_address(line + strcspn(line, " ") + 1);
    if (sscanf(line, "%31[a-zA-Z_]: %4095s %c", key, words, &more) != 2 ||
        strspn(words, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-") != strlen(words))
        return false;
    if (strcmp(key, "dir") == 0 || strcmp(key, "HIPCACHE_DIR") == 0) {
        const bool good = words[0] == '/' && (!*named || value("HIPCACHE_DIR")[0]);
        *named = true;
        snprintf(found->store, PATH_MAX, "%s", words);
        return good;
    }
    if (strcmp(key, "key") == 0 || strcmp(key, "HIPCACHE_KEY") == 0) {
        snprintf(found->key, PATH_MAX, "%s", words);
        return words[0] == '/';
    }
    if (strcmp(key, "log") == 0 || strcmp(key, "HIPCACHE_LOG") == 0)
        return set_log(found->logs.log, words);
    if (strcmp(key, "stats_log") == 0 || strcmp(key, "HIPCACHE_STATS_LOG") == 0)
        return set_log(found->logs.stats, words);
    if (strcmp(key, "log_format") == 0 || strcmp(key, "HIPCACHE_LOG_FORMAT") == 0)
        return set_format(&found->logs, words);
    if (strcmp(key, "resident") == 0 || strcmp(key, "HIPCACHE_RESIDENT") == 0)
        found->resident = is_yes(words);
    else if (strcmp(key, "verify") == 0 || strcmp(key, "HIPCACHE_VERIFY") == 0)
        share_of(words, found);
    return true;
}

/* The settings of a config file, if all of its lines are of the plainest kind. `unsealed`, `unlogged`: certainly,
 * none of them is that of the key, or of a log. */
static bool read_file(const char *file, settings *found, bool *named, bool *unsealed, bool *unlogged) {
    static char text[MOST_CONFIG + 2];
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t size = fd >= 0 ? read(fd, text, MOST_CONFIG + 1) : -1;
    bool good = size >= 0 && size <= MOST_CONFIG && !memchr(text, 0, (size_t)size);
    if (fd >= 0)
        close(fd);
    found->remote = good && strcasestr(text, "remote") && !strcasestr(text, "disable") && !strcasestr(text, "readonly") && !strcasestr(text, "recache");
    *unsealed = good && !strcasestr(text, "key") && !strchr(text, '\\');
    *unlogged = good && !strcasestr(text, "log") && !strchr(text, '\\');
    for (char *line = text, *end; good && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        good = read_line(line, found, named);
    }
    return good;
}

/* The secret of the store's records; false where the engine must say what is wrong with it. */
static bool find_secret(settings *found) {
    const char *named = value("HIPCACHE_KEY");
    if (named[0])
        snprintf(found->key, PATH_MAX, "%s", named);
    found->sealed = found->key[0] != 0;
    return !found->sealed || (found->key[0] == '/' && seal_read_secret(found->key, found->secret));
}

static bool find_settings(settings *found) {
    char file[PATH_MAX];
    const char *config = value("HIPCACHE_CONFIG"), *directory = value("HIPCACHE_DIR"), *resident = value("HIPCACHE_RESIDENT");
    bool named = directory[0] != 0, unsealed = true, unlogged = true;
    if (config[0] ? snprintf(file, sizeof file, "%s", config) >= PATH_MAX || config[0] != '/'
                  : !below(file, "XDG_CONFIG_HOME", ".config", "/hipcache.yaml"))
        return false;
    found->file = lstat(file, &found->status) == 0;
    found->silent = found->file ? S_ISREG(found->status.st_mode) && found->status.st_size == 0 : !config[0];
    found->resident = true;
    if (found->file && found->status.st_size && !read_file(file, found, &named, &unsealed, &unlogged)) {
        if (!directory[0] || !unlogged || !(unsealed || value("HIPCACHE_KEY")[0]))
            return false;
        found->resident = false; /* what stands there, only the engine can read */
    }
    if (resident[0])
        found->resident = is_yes(resident);
    if (value("HIPCACHE_VERIFY")[0])
        share_of(value("HIPCACHE_VERIFY"), found);
    if (!find_secret(found) || !find_logs(&found->logs))
        return false;
    if (directory[0])
        return directory[0] == '/' && snprintf(found->store, PATH_MAX, "%s", directory) < PATH_MAX;
    return named || below(found->store, "XDG_CACHE_HOME", ".cache", "");
}

/* Perhaps a source of a GPU's assembler, and one that is worth it (planning/assembler.py: WORTH)? */
static bool assembles_for_gpu(char *const *words) {
    enum { WORTH = 1 << 18 };
    bool gpu = false, assembler = false, large = false;
    struct stat found;
    for (char *const *word = words; *word; word++) {
        gpu = gpu || starts(*word, "amdgcn") || starts(*word, "--target=amdgcn");
        assembler = assembler || ends(*word, ".s") || strcmp(*word, "assembler") == 0 ||
                    strcmp(*word, "-xassembler") == 0 || strcmp(*word, "--language=assembler") == 0;
    }
    for (char *const *word = words; gpu && assembler && *word; word++)
        large = large || (**word != '-' && stat(*word, &found) == 0 && found.st_size >= WORTH);
    return large;
}

/* Certainly a compile, and certainly not of HIP? */
static bool is_plain(char *const *argv) {
    static const char *const caches[] = {"ccache", "sccache", "buildcache", "distcc", "icecc", "hipcache", NULL};
    bool compiles = false;
    for (const char *const *cache = caches; *cache; cache++)
        if (strcmp(base_name(argv[0]), *cache) == 0)
            return false; /* what stands behind it decides */
    if (starts(base_name(argv[0]), "hipcc"))
        return false;
    for (char *const *word = argv + 1; *word; word++) {
        compiles = compiles || strcmp(*word, "-c") == 0;
        if (strcmp(*word, "hip") == 0 || strcmp(*word, "-xhip") == 0 || strcmp(*word, "--language=hip") == 0 ||
            ends(*word, ".hip") || **word == '@')
            return false;
    }
    return compiles && !assembles_for_gpu(argv + 1);
}

/* `but_file`: besides that which names the config file. */
static bool has_settings(bool but_file) {
    for (char **variable = environ; *variable; variable++)
        if (starts(*variable, "HIPCACHE_") && !(but_file && starts(*variable, "HIPCACHE_CONFIG=")) && !starts(*variable, "HIPCACHE_DIR=") &&
            !starts(*variable, "HIPCACHE_RESIDENT=") && !starts(*variable, "HIPCACHE_VERIFY=") &&
            !starts(*variable, "HIPCACHE_KEY=") && !starts(*variable, "HIPCACHE_SYSTEM_PATHS=") &&
            !starts(*variable, "HIPCACHE_UMASK=") && !starts(*variable, "HIPCACHE_REMOTE=") &&
            !starts(*variable, "HIPCACHE_LOG=") && !starts(*variable, "HIPCACHE_LOG_FORMAT=") &&
            !starts(*variable, "HIPCACHE_STATS_LOG="))
            return true;
    return false;
}

/* Is the statistics' line that plain.py writes; the checksum is that of the text. */
static const char NOT_HIP[] = "\n" NOT_HIP_CRC "\tpassed_through\tnot_hip\t0\n";

/* Counts a compile that is not served. `line`: as the statistics have it. */
static bool count(const settings *set, char *const *argv, const char *line) {
    char directory[PATH_MAX];
    const bytes counted = LENT((uint8_t *)line, strlen(line));
    if (!statistics_append(set->store, counted.at, counted.size))
        return false;
    if ((set->logs.log[0] || set->logs.stats[0]) && getcwd(directory, sizeof directory))
        logs_append(&set->logs, &(ended_compile){directory, argv, 0, counted, NULL});
    return true;
}

/* Ends as that compiler; returns where that cannot be, with nothing done. */
static void pass_by(const settings *set, char *const *argv) {
    char program[PATH_MAX];
    if (is_plain(argv) && !has_settings(false) && which(argv[0], program) && statistics_have_room(set->store) &&
        count(set, argv, NOT_HIP))
        execv(program, argv);
}

static bool say(bytes messages) {
    while (messages.size) {
        const ssize_t written = write(2, messages.at, messages.size);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {2, POLLOUT, 0};
            poll(&ready, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return false;
        } else if (written > 0) {
            messages.at += written;
            messages.size -= (size_t)written;
        }
    }
    return true;
}

/* As the statistics count a command that the driver refuses. */
static const char REFUSED[] = "\n" REFUSED_CRC "\tfailed\t\t0\n";

/* Is it one that the driver refuses? Then that is told, and counted. */
static bool is_refused(const settings *set, char *const *argv) {
    char directory[PATH_MAX];
    bytes text;
    const request asked = {set->store, directory, argv, environ, isatty(2), false, set->sealed ? set->secret : NULL, NULL};
    if (!set->silent || has_settings(true) || !getcwd(directory, sizeof directory) || !statistics_have_room(set->store) ||
        !refused_by_driver(&asked, &text) || !count(set, argv, REFUSED))
        return false;
    void (*const on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
    const bool said = say(text);
    signal(SIGPIPE, on_pipe);
    return said;
}

/* Is it a name of a standard, or of one that there may be? (clang/include/clang/Basic/LangStandards.def) */
static bool may_be_standard(const char *name) {
    static const char *const others[] = {"c++98", "c++03", "c++0x", "c++11", "c++1y", "c++14", "c++1z", "c++17",
        "gnu++98", "gnu++03", "gnu++0x", "gnu++11", "gnu++1y", "gnu++14", "gnu++1z", "gnu++17", NULL};
    for (const char *const *other = others; *other; other++)
        if (strcmp(name, *other) == 0)
            return true;
    name += starts(name, "gnu++") ? 5 : starts(name, "c++") ? 3 : strlen(name);
    return (*name == '2' || *name == '3') && name[1] && !name[2];
}

/* Is it a compile of HIP with one -std=, for all passes, whose value is no standard? */
static bool misspells_standard(char *const *argv) {
    unsigned compiles = 0, hip = 0, standards = 0, misspelt = 0;
    for (char *const *word = argv + 1; *word; word++) {
        compiles += strcmp(*word, "-c") == 0;
        hip += strcmp(*word, "hip") == 0 || strcmp(*word, "-xhip") == 0 || ends(*word, ".hip");
        standards += starts(*word, "-std=") || starts(*word, "--std") || **word == '@';
        misspelt += starts(*word, "-std=") && !may_be_standard(*word + strlen("-std=")) && !starts(word[-1], "-X");
    }
    return compiles && hip && standards == 1 && misspelt == 1 && starts(base_name(argv[0]), "clang");
}

/* Ends as the compiler where cc1 refuses the command as soon as it starts, before the engine would have begun. Returns
 * where it does not, with nothing done. */
static void pass_misspelt_standard(const settings *set, char *const *argv) {
    char program[PATH_MAX];
    if (misspells_standard(argv) && set->silent && !has_settings(true) && which(argv[0], program) &&
        statistics_have_room(set->store) && count(set, argv, REFUSED))
        execv(program, argv);
}

/* Is a remote set, which may be asked, as far as that is understood here? */
static bool has_remote(const settings *set) {
    const char *named = getenv("HIPCACHE_REMOTE");
    if (named ? !named[0] : !set->remote)
        return false;
    for (char **variable = environ; *variable; variable++)
        if (starts(*variable, "HIPCACHE_DISABLE=") || starts(*variable, "HIPCACHE_READONLY=") || starts(*variable, "HIPCACHE_RECACHE="))
            return false;
    return true;
}

/* May one have that compile, and is it to be asked? */
static bool may_be_remote(const settings *set, char *const *argv) {
    bool compiles = false;
    for (char *const *word = argv + 1; *word; word++)
        compiles = compiles || strcmp(*word, "-c") == 0;
    return compiles && has_remote(set) && !is_plain(argv);
}

static bool find(const settings *set, const request *asked, record *found) {
    return direct_find(asked, found) ||
           (may_be_remote(set, asked->argv) && helper_ask(asked, set->file ? &set->status : NULL, start_engine) &&
            direct_find(asked, found));
}

/* True if everything was there, and is where the build wants it. */
static bool serve(const settings *set, char *const *argv) {
    char directory[PATH_MAX];
    record found;
    sigset_t ending, before;
    if (!getcwd(directory, sizeof directory))
        return false;
    const uint8_t *secret = set->sealed ? set->secret : NULL;
    const char *base = is_plain_base(value("HIPCACHE_BASEDIR")) ? value("HIPCACHE_BASEDIR") : NULL;
    const request asked = {set->store, directory, argv, environ, isatty(2), set->resident, secret, base};
    if (!find(set, &asked, &found))
        return false;
    /* Ctrl-C waits for the fraction of a millisecond in which a file of ours has no name yet. */
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT), sigaddset(&ending, SIGTERM), sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, &before);
    /* Where a file may not grow so large, or nobody can read the messages, the engine ends as the compiler would. */
    void (*const on_size)(int) = signal(SIGXFSZ, SIG_IGN);
    const bool done = direct_deliver(&found);
    PHASE("outputs");
    sigprocmask(SIG_SETMASK, &before, NULL);
    void (*const on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
    const bool said = done && say(found.messages);
    signal(SIGPIPE, on_pipe);
    if (said) {
        direct_count(&asked, &found);
        logs_append(&set->logs, &(ended_compile){directory, argv, found.began, found.counted, &found});
    }
    signal(SIGXFSZ, on_size);
    PHASE("count");
    if (said && found.alone)
        resident_start();
    direct_release(&found);
    return said;
}

/* The engine compiles what was served anew, and compares. Returns where there is none: the hit is as good as any. */
static void compare(int argc, char **argv) {
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words) {
        words[0] = argv[0], words[1] = (char *)"--served";
        memcpy(words + 2, argv + 1, (size_t)argc * sizeof *words);
        start_engine(words);
    }
}

/* `hipcache prefetch [--step] [FILE]`, where the helper does it, and nothing is wrong. */
static bool fetch_ahead(const settings *set, int argc, char *const *argv) {
    char directory[PATH_MAX];
    bytes text = {0};
    const bool step = argc > 2 && strcmp(argv[2], "--step") == 0;
    const int files = argc - 2 - step;
    const char *file = files == 1 ? argv[2 + step] : "compile_commands.json";
    if (files > 1 || file[0] == '-' || !has_remote(set) || getenv("HIPCACHE_PREFETCH") || !getcwd(directory, sizeof directory))
        return false;
    const request asked = {set->store, directory, argv, environ, false, false, NULL, NULL};
    const ahead came = helper_fetch_ahead(&asked, file, set->file ? &set->status : NULL, start_engine, &text);
    if (came == AHEAD_DONE)
        (void)!write(1, text.at, text.size);
    else if (came == AHEAD_TOO_LONG)
        fprintf(stderr, "hipcache: not all is fetched ahead: it takes too long\n");
    release(&text);
    return came != AHEAD_ENGINE;
}

static bool streams_are_open(void) {
    return fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
}

int main(int argc, char **argv) {
    enum { STACK = 1 << 19, FILES = 32 }; /* serving a hit takes some 150 KiB; Python opens many files at once */
    static settings set;
    PHASE("start");
    if ((argc == 2 || argc == 3) && strcmp(argv[1], RESIDENT_WORD) == 0)
        return resident_main(argc == 3 ? atoi(argv[2]) : 0);
    if (argc > 0)
        argv = unmask(&argc, argv);
    const bool compiles = argc > 2 && argv[1][0] != '-';
    if (argc > 1 && strcmp(argv[1], "prefetch") == 0 && streams_are_open() && find_settings(&set) && fetch_ahead(&set, argc, argv))
        return 0;
    if (compiles && streams_are_open() && may_have(RLIMIT_STACK, STACK) && find_settings(&set)) {
        if (!set.file)
            pass_by(&set, argv + 1);
        if (serve(&set, argv + 1)) {
            if (is_drawn(&set))
                compare(argc, argv);
            return 0;
        }
        if (is_refused(&set, argv + 1))
            return 1;
        pass_misspelt_standard(&set, argv + 1);
    }
    if (compiles && !may_have(RLIMIT_NOFILE, FILES))
        execvp(argv[1], argv + 1);
    start_engine(argv);
    /* An installation without its engine: the build goes on, and a subcommand says what is wrong. */
    fprintf(stderr, "hipcache: cannot start its engine, 'hipcache-engine' beside this program or in ../libexec/hipcache: %s\n", strerror(errno));
    if (argc > 1 && argv[1][0] != '-' && !is_subcommand(argv[1]))
        execvp(argv[1], argv + 1);
    fprintf(stderr, "  install hipcache again\n");
    return 127;
}
