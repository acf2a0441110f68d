/* hipcache under a compiler's name: a link `clang++` to it, in a directory that comes first on PATH, makes every build
 * use it (as ccache's links in /usr/lib/ccache do). The real compiler is the next one of that name on PATH.
 *
 * A link may have the name of any compiler, with a version and a target (`x86_64-linux-gnu-g++-12`). By all other names
 * this is hipcache: distributions add a version or a prefix to it, and users have short names of their own.
 *
 * Another cache may do the same, and its next `clang++` may be this program again. So the compiler that was found is
 * told to all processes below, in a variable ("clang++=/usr/lib/ccache/clang++"): the second search begins
 * behind it, and each one is further on than the one before. PATH itself stays: clang finds linkers there. */
#define _GNU_SOURCE
#include "engine.h"
#include "masquerade.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSED_VARIABLE "_HIPCACHE_PASSED"

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_program(const char *path) {
    struct stat status;
    return access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The next program of that name from `*at` on, a place in PATH; moves `*at` behind its directory. */
static bool next_on_path(const char **at, const char *name, char path[PATH_MAX]) {
    while (**at) {
        const size_t size = strcspn(*at, ":");
        const int length = snprintf(path, PATH_MAX, "%.*s%s%s", (int)size, *at, size ? "/" : "", name);
        *at += size + ((*at)[size] == ':');
        if (length < PATH_MAX && is_program(path))
            return true;
    }
    return false;
}

static const char *path_variable(void) {
    const char *found = getenv("PATH");
    return found ? found : "";
}

bool which(const char *name, char path[PATH_MAX]) {
    const char *at = path_variable();
    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && access(path, X_OK) == 0;
    return next_on_path(&at, name, path);
}

bool own_path(char path[PATH_MAX]) {
    const ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (size > 0) {
        path[size] = 0;
        return true;
    }
    const char *started = (const char *)getauxval(AT_EXECFN); /* where there is no /proc */
    return started && realpath(started, path);
}

static bool is_this_program(const char *path) {
    char own[PATH_MAX];
    struct stat mine, other;
    return stat(path, &other) == 0 && own_path(own) && stat(own, &mine) == 0 && mine.st_dev == other.st_dev &&
           mine.st_ino == other.st_ino;
}

/* "", "-15", "-6.2" */
static bool is_version(const char *text) {
    return *text == 0 ||
           (*text == '-' && isdigit((unsigned char)text[1]) && text[1 + strspn(text + 1, ".0123456789")] == 0);
}

/* Without a target before it. */
static bool is_bare_name(const char *name) {
    static const char *const others[] = {"c++", "cc", "g++", "gcc", NULL};
    for (const char *const *other = others; *other; other++)
        if (starts(name, *other) && is_version(name + strlen(*other)))
            return true;
    name += strncmp(name, "amd", 3) == 0 ? 3 : 0;
    if (strncmp(name, "clang", 5) != 0)
        return false;
    name += 5;
    return is_version(name + (strncmp(name, "++", 2) == 0 ? 2 : 0));
}

static bool is_compiler_name(const char *name) {
    if (strncmp(name, "hipcc", 5) == 0)
        return is_version(name + 5) || strcmp(name + 5, ".pl") == 0 || strcmp(name + 5, ".bin") == 0;
    if (strcmp(name, "iree-compile") == 0)
        return true;
    for (; name && !strstr(name, "hipcache"); name = strchr(name, '-'), name += name ? 1 : 0)
        if (is_bare_name(name))
            return true;
    return false;
}

/* The place in PATH behind the program `path`, of that name; NULL if it is not on PATH. */
static const char *behind(const char *name, const char *path) {
    char found[PATH_MAX];
    const char *at = path_variable();
    while (next_on_path(&at, name, found))
        if (path ? strcmp(found, path) == 0 : is_this_program(found))
            return at;
    return NULL;
}

static bool real_compiler(const char *name, char path[PATH_MAX]) {
    char told[PATH_MAX + 64];
    const char *passed = getenv(PASSED_VARIABLE);
    const size_t size = strlen(name);
    if (passed && (strncmp(passed, name, size) != 0 || passed[size] != '='))
        passed = NULL;
    const char *at = behind(name, passed ? passed + size + 1 : NULL);
    bool found = false;
    for (int round = 0; round < 2 && !found; round++) {
        if (round == 1 && passed)
            return false;
        const char *from = round == 0 && at ? at : path_variable();
        while (!found && next_on_path(&from, name, path))
            found = !is_this_program(path);
    }
    return found && snprintf(told, sizeof told, "%s=%s", name, path) < (int)sizeof told &&
           setenv(PASSED_VARIABLE, told, 1) == 0;
}

/* The words of the command, the compiler second, where this program is started under a compiler's name, or where the
 * compiler that it is given is a link to it. */
char **unmask(int *argc, char **argv) {
    static char path[PATH_MAX];
    const char *name = base_name(argv[0]);
    const bool hidden = is_compiler_name(name);
    if (!hidden) {
        if (*argc < 2 || !is_compiler_name(name = base_name(argv[1])) || !which(argv[1], path) ||
            !is_this_program(path))
            return argv;
    }
    if (!real_compiler(name, path)) {
        fprintf(stderr,
                "hipcache: '%s' is a link to hipcache, and there is no other '%s' on PATH\n"
                "  install the compiler, or put its directory on PATH after the directory of the links\n",
                name, name);
        exit(127);
    }
    char **words = calloc((size_t)*argc + 2, sizeof *words);
    if (!words)
        return argv;
    words[0] = argv[0], words[1] = path;
    memcpy(words + 2, argv + (hidden ? 1 : 2), (size_t)(*argc - (hidden ? 1 : 2)) * sizeof *words);
    *argc += hidden;
    return words;
}
