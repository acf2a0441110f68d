/* A command with a misspelt option: the driver refuses it in a few milliseconds, long before the engine could begin.
 *
 * A command that is new, and has an option that is not of the usual ones, is shown to the driver with `-###` first. Where
 * the driver says that it does not know an option, and nothing else but its banner, that is what it says to the command
 * itself: its words are told, and its status. All else is the engine's affair (planners/failing.py).
 *
 * So that the driver leaves nothing behind, it is given a place for temporary files in which none can be made; it
 * complains of that instead of planning. */
#define _GNU_SOURCE
#include "direct.h"
#include "masquerade.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char NOWHERE[] = "/proc/hipcache-nowhere";
enum { MOST_SAID = 1 << 14, MILLISECONDS = 10000 };

static bool is_listed(const char *word, const char *const *list, bool beginning) {
    for (; *list; list++)
        if (beginning ? starts(word, *list) : strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Options that every driver knows: a command that has no others is not shown to it. (One that is missing here costs a
 * new command some 20 ms.) */
static bool is_usual(const char *word) {
    static const char *const words[] = {"-c", "-o", "-x", "-w", "-MD", "-MMD", "-MP", "-MF", "-MT", "-MQ", "-fPIC", "-fpic",
        "-fPIE", "-fpie", "-pthread", "-pipe", "-fgpu-rdc", "-fno-gpu-rdc", "-nogpuinc", "-nogpulib", "-ffast-math", "-fno-exceptions",
        "-fno-rtti", "-fopenmp", "-mllvm", "-Xclang", "-include", "-isystem", "-iquote", "-idirafter", "-target",
        "-fcolor-diagnostics", "-fdiagnostics-color", "-fvisibility-inlines-hidden", "-fno-strict-aliasing", "-pedantic", NULL};
    static const char *const begin[] = {"-D", "-U", "-I", "-L", "-l", "-W", "-O", "-g", "-std=", "-xhip", "--offload-arch=", "--cuda-gpu-arch=",
        "--rocm-path=", "--rocm-device-lib-path=", "--hip-path=", "--hip-device-lib-path=", "-fvisibility=", "-cuid=",
        "-ffile-prefix-map=", "-fdebug-prefix-map=", "-fmacro-prefix-map=", "-ffp-contract=", "--target=", "--std=", NULL};
    return *word != '-' || is_listed(word, words, false) || is_listed(word, begin, true);
}

/* Is it worth a question, and is the answer that of the command itself? There must be an input: without one the driver
 * says more to the command than to `-###`. */
static bool is_to_be_shown(char *const *argv) {
    static const char *const other[] = {"@", "-###", "--config", "--driver-mode", "-fdiagnostics-format", NULL};
    const char *name = base_name(argv[0]);
    bool unusual = false, input = false;
    struct stat found;
    if (!starts(name, "clang") && !starts(name, "amdclang"))
        return false;
    /* It may put an option first that takes `-###` for its value. */
    const char *edits = getenv("CCC_OVERRIDE_OPTIONS");
    if (edits && strchr(edits, '^'))
        return false;
    for (char *const *word = argv + 1; *word; word++) {
        if (is_listed(*word, other, true) || strcmp(*word, "--") == 0 || strstr(*word, "serialize"))
            return false;
        unusual = unusual || !is_usual(*word);
        if (strcmp(*word, "-c") == 0 && word[1] && *word[1] != '-')
            input = input || (stat(word[1], &found) == 0 && S_ISREG(found.st_mode));
    }
    return unusual && input;
}

/* A script may do more than it says. */
static bool is_binary(const char *path) {
    char magic[4];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool good = fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic && memcmp(magic, "\177ELF", sizeof magic) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

static void become_driver(const char *program, char *const *argv, int said) {
    size_t count = 0;
    while (argv[count])
        count++;
    char **words = calloc(count + 2, sizeof *words);
    const int nowhere = open("/dev/null", O_RDWR);
    if (!words || nowhere < 0 || dup2(nowhere, 0) < 0 || dup2(nowhere, 1) < 0 || dup2(said, 2) < 0 || setenv("TMPDIR", NOWHERE, 1) != 0)
        _exit(127);
    words[0] = argv[0], words[1] = (char *)"-###";
    memcpy(words + 2, argv + 1, (count - 1) * sizeof *words);
    execv(program, words);
    _exit(127);
}

/* All that is written until its end; false where that is too much, or comes too late. */
static bool hear(int from, char *text, size_t *size) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (*size = 0; *size < MOST_SAID;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        const long left = MILLISECONDS - (now.tv_sec - begun.tv_sec) * 1000 - (now.tv_nsec - begun.tv_nsec) / 1000000;
        struct pollfd ready = {from, POLLIN, 0};
        if (left <= 0 || (poll(&ready, 1, (int)left) < 0 && errno != EINTR))
            return false;
        if (!ready.revents)
            continue;
        const ssize_t got = read(from, text + *size, MOST_SAID - *size);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        *size += got > 0 ? (size_t)got : 0;
    }
    return false;
}

/* The status of the driver, and what it said; -1 where that is not known. */
static int ask(const char *program, char *const *argv, char *text, size_t *size) {
    int ends[2], status = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    const pid_t child = fork();
    if (child == 0)
        become_driver(program, argv, ends[1]);
    close(ends[1]);
    const bool whole = child > 0 && hear(ends[0], text, size);
    close(ends[0]);
    if (child > 0 && !whole)
        kill(child, SIGKILL);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return whole && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Is it "clang: error: unknown argument: '-x'", or as clang 15 says of one that begins with two dashes? */
static bool is_unknown_option(const char *line) {
    const char *error = strstr(line, ": error: ");
    const char *said = error ? error + strlen(": error: ") : "";
    const bool plain = error && !memchr(line, '\'', (size_t)(error - line)) && !strchr(line, '\033');
    return plain && (starts(said, "unknown argument: '") || starts(said, "unknown argument '") ||
                     (starts(said, "unsupported option '--") && !strstr(said, "' for target")));
}

/* Reduces the text to the part for the user; false if that part is not known. */
static bool take_errors(char *text, size_t *size) {
    static const char *const banner[] = {"Target: ", "Thread model: ", "InstalledDir: ", "Build config: ", NULL};
    char *to = text, *from = text, *const end = text + *size;
    while (from < end) {
        char *next = memchr(from, '\n', (size_t)(end - from));
        if (!next)
            return false;
        *next++ = 0;
        const char *version = strstr(from, "clang version ");
        if (is_unknown_option(from)) {
            next[-1] = '\n';
            memmove(to, from, (size_t)(next - from));
            to += next - from;
        } else if (!is_listed(from, banner, true) && !(version && !memchr(from, ':', (size_t)(version - from))) &&
                   !strstr(from, ": error: unable to make temporary file: "))
            return false;
        from = next;
    }
    *size = (size_t)(to - text);
    return *size;
}

/* Is each word of the command a usual one, about code, or one that the driver does not know? Any other may make it say
 * more (-v), or do something else (--version). */
static bool are_explained(char *const *argv, const char *errors) {
    static const char *const about_code[] = {"-f", "-m", NULL};
    for (char *const *word = argv + 1; *word; word++) {
        if (is_usual(*word) || is_listed(*word, about_code, true))
            continue;
        char quoted[256];
        const int size = snprintf(quoted, sizeof quoted, "'%s'", *word);
        if (size < 0 || (size_t)size >= sizeof quoted || !strstr(errors, quoted))
            return false;
    }
    return true;
}

bool refused_by_driver(const request *asked, bytes *text) {
    static char said[MOST_SAID + 1];
    char program[PATH_MAX];
    size_t size = 0;
    if (asked->terminal || !is_to_be_shown(asked->argv) || direct_is_known(asked) || !has_temporary_directory(asked) ||
        !which(asked->argv[0], program) || !is_binary(program))
        return false;
    if (ask(program, asked->argv, said, &size) != 1 || memchr(said, 0, size) || !take_errors(said, &size))
        return false;
    said[size] = 0;
    if (!are_explained(asked->argv, said))
        return false;
    *text = LENT((uint8_t *)said, size);
    return true;
}
