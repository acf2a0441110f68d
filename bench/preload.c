/* The rejected way to observe a pass, measured by observer.py: a library in LD_PRELOAD that notes each path that the
 * program gives to libc's calls. Calls within libc and static programs go around it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char list[1 << 20];
static size_t length;

static void note(const char *path) {
    const size_t size = path ? strlen(path) + 1 : 0;
    if (length + size <= sizeof list) {
        memcpy(list + length, path, size);
        length += size;
    }
}

__attribute__((destructor)) static void write_list(void) {
    const char *name = getenv("OBSERVED_TO");
    const int fd = name ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd >= 0 && write(fd, list, length) == (ssize_t)length)
        close(fd);
}

#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next)                                                                                                         \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WITH_MODE(name)                                                                                                \
    int name(const char *path, int flags, ...) {                                                                       \
        NEXT(name);                                                                                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        const mode_t mode = va_arg(rest, mode_t);                                                                      \
        va_end(rest);                                                                                                  \
        note(path);                                                                                                    \
        return next(path, flags, mode);                                                                                \
    }
WITH_MODE(open)
WITH_MODE(open64)

#define WITH_STATUS(name, type)                                                                                        \
    int name(const char *path, struct type *into) {                                                                    \
        NEXT(name);                                                                                                    \
        note(path);                                                                                                    \
        return next(path, into);                                                                                       \
    }
WITH_STATUS(stat, stat)
WITH_STATUS(lstat, stat)
WITH_STATUS(stat64, stat64)
WITH_STATUS(lstat64, stat64)

int access(const char *path, int mode) {
    NEXT(access);
    note(path);
    return next(path, mode);
}

ssize_t readlink(const char *path, char *into, size_t size) {
    NEXT(readlink);
    note(path);
    return next(path, into, size);
}
