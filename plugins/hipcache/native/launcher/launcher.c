/* `hipcache COMPILER ARGS...` as people start it: serves a direct hit, becomes the compiler for what is certainly no
 * HIP, and hands everything else to the Python engine: `hipcache-engine` beside this one, or in ../libexec/hipcache
 * or ../lib/hipcache.
 *
 * The rules are those of __main__.py and the package config. What is not plain at first sight is the engine's
 * affair. */
#define _GNU_SOURCE
#include "engine.h"
#include "helper.h"
#include "logs.h"
#include "masquerade.h"
#include "resident.h"
#include "settings.h"

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

/* Is it this compile's turn? A draw of its own for each (verify/comparison.py). */
static bool is_drawn(const settings *set) {
    uint64_t random;
    return set->part && getrandom(&random, sizeof random, 0) == sizeof random && random % set->of < set->part;
}

/* Perhaps a source of a GPU's assembler, and one that is worth it (clang/assembler.py: WORTH)? */
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

static bool is_cache(const char *name) {
    static const char *const caches[] = {"ccache", "sccache", "buildcache", "distcc", "icecc", "hipcache", NULL};
    for (const char *const *cache = caches; *cache; cache++)
        if (strcmp(name, *cache) == 0)
            return true;
    return false;
}

/* The compiler's command in `ccache sloppiness=pch_defines clang++ -c x.hip` (clang/tools.py: `behind`). */
static char *const *behind(char *const *argv) {
    char *const *words = argv;
    while (*words && is_cache(base_name(*words)))
        for (words++; *words && strchr(*words, '=') && **words != '-';)
            words++;
    return *words && **words != '-' ? words : argv;
}

/* Certainly a compile, and certainly not of HIP? */
static bool is_plain(char *const *argv) {
    bool compiles = false;
    if (starts(base_name(*behind(argv)), "hipcc"))
        return false;
    for (char *const *word = argv + 1; *word; word++) {
        compiles = compiles || strcmp(*word, "-c") == 0;
        if (strcmp(*word, "hip") == 0 || strcmp(*word, "-xhip") == 0 || strcmp(*word, "--language=hip") == 0 ||
            ends(*word, ".hip") || **word == '@')
            return false;
    }
    return compiles && !assembles_for_gpu(argv + 1);
}

/* As the statistics count it; the checksum is that of the text. */
#define CHECK_TEXT "\tconfigure check ...\n"
static const char NOT_HIP[] = "\n" NOT_HIP_CRC "\tpassed_through\tnot_hip\t0\n";
static const char NOT_HIP_CHECK[] = "\n" NOT_HIP_CHECK_CRC "\tpassed_through\tnot_hip\t0" CHECK_TEXT;
static const char HANDED[] = "\n" CXX_CACHE_CRC "\tpassed_through\tcxx_cache\t0\n";
static const char HANDED_CHECK[] = "\n" CXX_CACHE_CHECK_CRC "\tpassed_through\tcxx_cache\t0" CHECK_TEXT;

/* As report/outcome.py has it, of a command's output. */
static bool is_check(const settings *set, char *const *argv) {
    static const char *const directories[] = CHECK_DIRECTORIES;
    char path[PATH_MAX] = "";
    while (*argv && strcmp(*argv, "-o") != 0)
        argv++;
    const char *output = *argv && argv[1] ? argv[1] : "";
    if (snprintf(path, sizeof path, "%s/%s", output[0] == '/' ? "" : set->directory, output) >= PATH_MAX)
        return false;
    for (const char *const *one = directories; *one; one++)
        if (strstr(path, *one))
            return true;
    const char *temporary = strstr(path, MESON_CHECK);
    return temporary && strchr(temporary + strlen(MESON_CHECK), '/');
}

/* What signals did that would end this process where a write is to fail. */
typedef struct {
    void (*on_size)(int), (*on_pipe)(int);
} handlers;

/* From now on a write to a file that may not grow, or to a pipe that nobody reads, fails. */
static handlers let_writes_fail(void) { return (handlers){signal(SIGXFSZ, SIG_IGN), signal(SIGPIPE, SIG_IGN)}; }

static void restore(handlers before) { signal(SIGXFSZ, before.on_size), signal(SIGPIPE, before.on_pipe); }

/* Counts a compile that is not served. `line`: as the statistics have it. */
static bool count(const settings *set, char *const *argv, const char *line) {
    const bytes counted = LENT((uint8_t *)line, strlen(line));
    const handlers before = let_writes_fail();
    const bool done = statistics_append(set->store, counted.at, counted.size);
    if (done && (set->logs.log[0] || set->logs.stats[0]))
        logs_append(&set->logs, &(ended_compile){set->directory, argv, 0, counted, NULL});
    restore(before);
    return done;
}

/* Ends as the compiler behind the first word, or as the cache that HIPCACHE_CXX_CACHE names, before it; returns
 * where that cannot be, with nothing done. Without the variable a cache that leads back here cannot go in a circle. */
static void pass_by(const settings *set, char **argv) {
    static const char name[] = "HIPCACHE_CXX_CACHE";
    char program[PATH_MAX], *cache = getenv(name), *const *words = argv + 1;
    if (!is_plain(words) || has_settings() || !which(words[0], program) || !statistics_have_room(set->store))
        return;
    const bool handed = cache && *cache && !is_cache(base_name(words[0]));
    if (handed && (strcmp(base_name(cache), "hipcache") == 0 || !which(cache, program)))
        return;
    const char *line = is_check(set, words) ? (handed ? HANDED_CHECK : NOT_HIP_CHECK) : (handed ? HANDED : NOT_HIP);
    if (!count(set, words, line))
        return;
    if (handed)
        *argv = strdup(cache), unsetenv(name), words = argv;
    execv(program, words);
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

/* May one have that compile, and is it to be asked? */
static bool may_be_remote(const settings *set, char *const *argv) {
    bool compiles = false;
    for (char *const *word = argv + 1; *word; word++)
        compiles = compiles || strcmp(*word, "-c") == 0;
    return compiles && has_remote(set) && !is_plain(argv);
}

static bool find(const settings *set, const request *asked, record *found) {
    return direct_find(asked, found) || (may_be_remote(set, asked->argv) &&
                                         helper_ask(asked, set->config, start_engine) && direct_find(asked, found));
}

/* Where what it said cannot be written, a compile fails: make would take an object that is there for a good one.
 * Devices and links stay, which may be the system's. */
static void withdraw(const record *found) {
    char path[PATH_MAX];
    struct stat status;
    for (size_t number = 0; direct_output(found, number, path); number++)
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
            unlink(path);
}

/* True if everything was there, and is where the build wants it. */
static bool serve(const settings *set, char *const *argv) {
    record found;
    sigset_t ending, before;
    const uint8_t *secret = set->sealed ? set->secret : NULL;
    const char *named = getenv("HIPCACHE_BASEDIR"), *base = named && is_plain_base(named) ? named : NULL;
    const request asked = {.store = set->store,
                           .directory = set->directory,
                           .argv = argv,
                           .environ = environ,
                           .terminal = isatty(2),
                           .resident = set->resident,
                           .secret = secret,
                           .base = base,
                           .project = set->project,
                           .readonly = set->readonly};
    if (!find(set, &asked, &found))
        return false;
    /* Ctrl-C waits for the fraction of a millisecond in which a file of ours has no name yet. */
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT), sigaddset(&ending, SIGTERM), sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, &before);
    /* If a file may not grow so large, or nobody can read the messages, the engine ends as the compiler would. */
    const handlers then = let_writes_fail();
    const bool done = direct_deliver(&found);
    PHASE("outputs");
    sigprocmask(SIG_SETMASK, &before, NULL);
    const bool said = done && say(found.messages);
    if (done && !said)
        withdraw(&found);
    if (said) {
        direct_count(&asked, &found);
        logs_append(&set->logs, &(ended_compile){set->directory, argv, found.began, found.counted, &found});
    }
    restore(then);
    PHASE("count");
    if (said && found.alone)
        resident_start();
    direct_release(&found);
    return said;
}

/* The engine compiles what was served anew, and compares. Returns if there is none: the hit is as good as any. */
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
    bytes text = {0};
    const bool step = argc > 2 && strcmp(argv[2], "--step") == 0;
    const int files = argc - 2 - step;
    const char *file = files == 1 ? argv[2 + step] : "compile_commands.json";
    if (files > 1 || file[0] == '-' || !has_remote(set) || getenv("HIPCACHE_PREFETCH"))
        return false;
    const request asked = {.store = set->store,
                           .directory = set->directory,
                           .argv = argv,
                           .environ = environ,
                           .project = set->project,
                           .readonly = set->readonly};
    const ahead came = helper_fetch_ahead(&asked, file, set->config, start_engine, &text);
    if (came == AHEAD_DONE)
        (void)!write(1, text.at, text.size);
    else if (came == AHEAD_TOO_LONG)
        fprintf(stderr, "hipcache: prefetch is incomplete: it takes too long\n");
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
    if (argc > 1 && strcmp(argv[1], "prefetch") == 0 && streams_are_open() && find_settings(&set) &&
        fetch_ahead(&set, argc, argv))
        return 0;
    if (compiles && streams_are_open() && may_have(RLIMIT_STACK, STACK) && find_settings(&set)) {
        if (!set.file)
            pass_by(&set, argv);
        if (serve(&set, argv + 1)) {
            if (is_drawn(&set))
                compare(argc, argv);
            return 0;
        }
    }
    if (compiles && !may_have(RLIMIT_NOFILE, FILES))
        execvp(argv[1], argv + 1);
    start_engine(argv);
    /* An installation without its engine: the build goes on, and a subcommand says what is wrong. */
    fprintf(stderr,
            "hipcache: cannot start 'hipcache-engine', which should be beside this program or in ../libexec/hipcache "
            "or ../lib/hipcache: %s\n",
            strerror(errno));
    if (argc > 1 && argv[1][0] != '-' && !is_subcommand(argv[1]))
        execvp(argv[1], argv + 1);
    fprintf(stderr, "  reinstall hipcache\n");
    return 127;
}
