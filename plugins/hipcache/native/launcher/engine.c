/* Starts the Python engine in the place of this process, and the compiler where Python finds that the engine is no
 * whole one: while `pip install --upgrade` runs, its script is there and its package is not, or in part.
 *
 * SUBCOMMANDS are those of __init__.py, and "help": words with a space between two. */
#define _GNU_SOURCE
#include "engine.h"
#include "masquerade.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Runs the script as Python itself would. It ends with a status: of main() only a half that was cut behind a
 * statement has none. What follows `--served` was delivered before. (Python ignores SIGPIPE and SIGXFSZ; SIGINT is
 * held back, see start_engine; Python may have set LC_CTYPE, see __main__.py. The names of subcommands: some are
 * those of programs, too, and ImageMagick's `import FILE` writes that file. PYTHONPATH is not read, see
 * start_engine: with that, `pip install` makes its package found that it puts into a directory of `--prefix` or
 * `--target`.) */
static const char START[] =
    "import os, sys\n"
    "def restore_locale():\n"
    "    try:\n"
    "        with open('/proc/self/environ', 'rb') as file:\n"
    "            given = [entry[9:] for entry in file.read().split(b'\\0') if entry[:9] == b'LC_CTYPE=']\n"
    "    except OSError:\n"
    "        return\n"
    "    os.environb.pop(b'LC_CTYPE', None)\n"
    "    os.environb.update((b'LC_CTYPE', value) for value in given[:1])\n"
    "def find_package(top):\n"
    "    version = 'python%d.%d' % sys.version_info[:2]\n"
    "    kinds = [(lib, name) for name in ('site', 'dist') for lib in {'lib', sys.platlibdir}]\n"
    "    places = [f'{top}/{lib}/{version}/{name}-packages' for lib, name in kinds]\n"
    "    found = [place for place in (*places, top) if os.path.exists(place + '/hipcache/__main__.py')]\n"
    "    at = next((i for i, place in enumerate(sys.path) if place.endswith('-packages')), len(sys.path))\n"
    "    sys.path[at:at] = [place for place in found if place not in sys.path]\n"
    "def start(script, words):\n"
    "    try:\n"
    "        with open(script, 'rb') as file:\n"
    "            text = file.read()\n"
    "        exec(compile(text, script, 'exec'), {'__name__': '__main__', '__file__': script})\n"
    "    except SystemExit as end:\n"
    "        if end.code is not None:\n"
    "            raise\n"
    "        error = 'its modules are truncated'\n"
    "    except Exception as caught:\n"
    "        error = caught\n"
    "    else:\n"
    "        error = 'its script is truncated'\n"
    "    served = words[:1] == ['--served']\n"
    "    compiles = words and words[0][:1] != '-' and words[0] not in '" SUBCOMMANDS "'.split()\n"
    "    if not (served or compiles or isinstance(error, (str, ImportError))):\n"
    "        raise error\n"
    "    import signal\n"
    "    is_lost = isinstance(error, ModuleNotFoundError)\n"
    "    there = f', where {sys.executable} finds it without PYTHONPATH' if is_lost else ''\n"
    "    os.write(2, os.fsencode(f'hipcache: cannot start: {error}\\n  reinstall hipcache{there}\\n'))\n"
    "    if not compiles:\n"
    "        sys.exit(0 if served else 127)\n"
    "    for number in signal.SIGPIPE, signal.SIGXFSZ:\n"
    "        signal.signal(number, signal.SIG_DFL)\n"
    "    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])\n"
    "    restore_locale()\n"
    "    os.execvp(words[0], words)\n"
    "sys.argv = sys.argv[1:]\n"
    "programs = os.path.dirname(sys.argv[0])\n"
    "if sys.path[:1] == ['']:\n"
    "    sys.path[0] = programs\n"
    "find_package(os.path.dirname(programs))\n"
    "start(sys.argv[0], sys.argv[1:])\n";

/* START comes by a variable, so that `ps` shows the command behind a few words. */
#define VARIABLE "_HIPCACHE_START"
static const char RUN[] = "exec(__import__('os').environ.pop('" VARIABLE "'))";

bool is_subcommand(const char *word) {
    size_t size;
    for (const char *name = SUBCOMMANDS; *name; name += size + strspn(name + size, " ")) {
        size = strcspn(name, " ");
        if (strlen(word) == size && memcmp(word, name, size) == 0)
            return true;
    }
    return false;
}

bool may_have(int resource, rlim_t least) {
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least;
}

/* For Python's compiled modules? It does not see that one was written in part, and cannot start with such a one. */
static bool has_room(const char *path) {
    enum { LARGEST = 1 << 20 };
    struct statvfs disk;
    return may_have(RLIMIT_FSIZE, LARGEST) &&
           (statvfs(path, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= 4 * LARGEST);
}

/* The engine's program: beside this one, else where distributions have what is no command of users. */
static bool find_engine(char path[PATH_MAX]) {
    static const char *const places[] = {"hipcache-engine", "../libexec/hipcache/hipcache-engine",
                                         "../lib/hipcache/hipcache-engine"};
    enum { LONGEST = sizeof "../libexec/hipcache/hipcache-engine" };
    if (!own_path(path) || strlen(path) + LONGEST >= PATH_MAX)
        return false;
    char *name = (char *)base_name(path);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        strcpy(name, places[i]);
        if (access(path, X_OK) == 0)
            return true;
    }
    strcpy(name, places[0]); /* of which it is told that it is missing */
    return true;
}

/* The Python of a script with this line, and its option there ("": none); NULL where they are not known. A path that
 * has a space, or is too long for the kernel, stands in the second line, below `#!/bin/sh` (pip, uv, conda; quoted in
 * three ways): `'''exec' "PYTHON" -E "$0" "$@"`, the start of a string to Python. */
static char *interpreter(char *line, char **option) {
    static const char shell[] = "'''exec' ";
    const bool by_shell = starts(line, shell);
    char *path = line + (by_shell ? sizeof shell - 1 : 2), *words = strstr(path, " \"$0\"");
    if (by_shell ? !words : !starts(line, "#!"))
        return NULL;
    *(by_shell ? words : path + strcspn(path, "\n")) = 0;
    path += strspn(path, " ");
    const char until[] = {by_shell && (*path == '"' || *path == '\'') ? *path++ : ' ', 0};
    char *end = path + strcspn(path, until);
    *option = *end ? end + 1 + strspn(end + 1, " ") : end;
    if ((!*end && *until != ' ') || (by_shell && strpbrk(path, "$`\\")))
        return NULL;
    *end = 0;
    const char *letters = *option + 1;
    const bool known = !**option || (**option == '-' && *letters && !letters[strspn(letters, "BEIOPRbdqsuv")]);
    return known && *path == '/' && strstr(base_name(path), "python") ? path : NULL;
}

/* The line that names the script's interpreter, "" if it has none; NULL where the script ends within it: to the shell
 * that would be a program that does nothing. */
static char *first_line(const char *path) {
    static char line[PATH_MAX];
    FILE *script = fopen(path, "re");
    bool whole = !script || !fgets(line, sizeof line, script) || !starts(line, "#!") || strchr(line, '\n');
    if (whole && strcmp(line, "#!/bin/sh\n") == 0)
        whole = fgets(line, sizeof line, script) && strchr(line, '\n');
    if (script)
        fclose(script);
    return whole ? line : NULL;
}

/* A script is started by its own interpreter with -E: what PYTHONHOME and the like say is not meant for it. Python ends
 * with a traceback where SIGINT comes before the program begins, so the signal waits until then (__main__.py). */
void start_engine(char **argv) {
    static char path[PATH_MAX];
    if (!find_engine(path))
        return;
    char *line = first_line(path), *option, **words = NULL;
    if (!line) {
        errno = ENOEXEC;
        return;
    }
    sigset_t interrupt, before;
    sigemptyset(&interrupt), sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    char *python = interpreter(line, &option);
    if (python) {
        size_t count = 0, at = 0;
        while (argv[count])
            count++;
        words = calloc(count + 6, sizeof *words);
        if (words) {
            words[at++] = python, words[at++] = (char *)(has_room(path) ? "-E" : "-EB");
            if (*option)
                words[at++] = option;
            words[at++] = (char *)"-c", words[at++] = (char *)RUN, words[at++] = path;
            memcpy(words + at, argv + 1, count * sizeof *words);
            setenv(VARIABLE, START, true);
            execv(python, words);
            unsetenv(VARIABLE);
        }
    }
    if (!words || errno == E2BIG) /* else the shell would start, and not find Python either */
        execv(path, argv);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
