/* The rules stand in store.h. */
#define _GNU_SOURCE
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/openat2.h, which older systems do not have. */
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define BENEATH 0x08
#define NO_SYMLINKS 0x04
struct how {
    uint64_t flags, mode, resolve;
};

static const int SAFE = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

int store_base(const char *store) {
    const int root = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    const int base = openat(root, "v2", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    close(root);
    return base;
}

static bool is_name(const char *name) {
    for (const char *part = name;; part++) {
        const size_t size = strcspn(part, "/");
        if (size == 0 || (size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += size;
        if (*part == 0)
            return part - name < PATH_MAX;
    }
}

/* One directory after the other, where the kernel (before 5.6) or a sandbox knows no openat2. */
static int open_stepwise(int base, const char *name, int flags, mode_t mode) {
    char part[NAME_MAX + 1];
    int at = base;
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        const size_t size = (size_t)(slash - name);
        int next = -1;
        if (size < sizeof part) {
            memcpy(part, name, size);
            part[size] = 0;
            next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        if (at != base)
            close(at);
        if (next < 0)
            return -1;
        at = next;
    }
    const int fd = openat(at, name, flags, mode);
    if (at != base)
        close(at);
    return fd;
}

static int open_beneath(int base, const char *name, int flags, mode_t mode) {
    if (base < 0 || !is_name(name))
        return -1;
    const struct how how = {(uint64_t)(unsigned)flags, mode, BENEATH | NO_SYMLINKS};
    const int fd = (int)syscall(SYS_openat2, base, name, &how, sizeof how);
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_stepwise(base, name, flags, mode) : fd;
}

/* The directory of `name`, and in `last` the rest of it. */
static int open_parent(int base, const char *name, const char **last) {
    char directory[PATH_MAX];
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    if (!is_name(name))
        return -1;
    if (!slash)
        return fcntl(base, F_DUPFD_CLOEXEC, 3);
    memcpy(directory, name, (size_t)(slash - name));
    directory[slash - name] = 0;
    return open_beneath(base, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* As open as STORE/v2; but who may only read gets no lock file, as whoever can open it can hold it. */
static mode_t mode_in(const struct stat *whole, const char *name) {
    const mode_t mode = (whole->st_mode & 0666) | 0600, writers = mode & 0222;
    return strcmp(name, "statistics/lock") == 0 ? writers | writers << 1 : mode;
}

static int create(int base, const char *name, int flags) {
    struct stat whole;
    if (fstat(base, &whole) != 0)
        return -1;
    const mode_t mode = mode_in(&whole, name);
    const int fd = open_beneath(base, name, flags | O_CREAT | O_EXCL | SAFE, 0600);
    if (fd >= 0 && mode != 0600)
        (void)!fchmod(fd, mode);
    if (fd >= 0 && geteuid() == 0 && whole.st_uid != 0)
        (void)!fchown(fd, whole.st_uid, (gid_t)-1); /* root in a user's store */
    return fd;
}

int store_create(int base, const char *name) { return create(base, name, O_WRONLY); }

int store_open(int base, const char *name, int flags, off_t most, struct stat *found) {
    struct stat status;
    const int plain = (flags & ~O_CREAT) | SAFE;
    int fd = open_beneath(base, name, plain, 0);
    if (fd < 0 && errno == ENOENT && flags & O_CREAT) {
        fd = create(base, name, flags & ~O_CREAT);
        if (fd < 0 && errno == EEXIST) /* another process was faster */
            fd = open_beneath(base, name, plain, 0);
    }
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > most ||
        ((flags & O_ACCMODE) != O_RDONLY && status.st_nlink > 1)) {
        close(fd);
        return -1;
    }
    if (found)
        *found = status;
    return fd;
}

bool store_status(int base, const char *name, struct stat *found) {
    const char *last;
    const int directory = open_parent(base, name, &last);
    if (directory < 0)
        return false;
    const bool good = fstatat(directory, last, found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found->st_mode);
    close(directory);
    return good;
}

bool store_make_directory_of(int base, const char *name) {
    char directory[PATH_MAX];
    struct stat whole;
    const char *slash = strrchr(name, '/'), *last;
    if (!is_name(name) || !slash)
        return false;
    memcpy(directory, name, (size_t)(slash - name));
    directory[slash - name] = 0;
    const int parent = open_parent(base, directory, &last);
    const bool made = parent >= 0 && fstat(parent, &whole) == 0 && mkdirat(parent, last, 0700) == 0;
    if (made && geteuid() == 0 && whole.st_uid != 0)
        (void)!fchownat(parent, last, whole.st_uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW);
    if (made)
        (void)!fchmodat(parent, last, whole.st_mode & 02777, 0);
    if (parent >= 0)
        close(parent);
    return made;
}

bool store_rename(int base, const char *from, const char *to) {
    const char *old, *new;
    const int source = open_parent(base, from, &old), target = open_parent(base, to, &new);
    const bool good = source >= 0 && target >= 0 && renameat(source, old, target, new) == 0;
    if (source >= 0)
        close(source);
    if (target >= 0)
        close(target);
    return good;
}

/* A call with a directory and a name in it. */
static bool in_parent(int base, const char *name, int call(int directory, const char *last)) {
    const char *last;
    const int directory = open_parent(base, name, &last);
    if (directory < 0)
        return false;
    const bool good = call(directory, last) == 0;
    close(directory);
    return good;
}

static int touch_in(int directory, const char *last) { return utimensat(directory, last, NULL, AT_SYMLINK_NOFOLLOW); }

static int unlink_in(int directory, const char *last) { return unlinkat(directory, last, 0); }

bool store_touch(int base, const char *name) { return in_parent(base, name, touch_in); }

bool store_unlink(int base, const char *name) { return in_parent(base, name, unlink_in); }

bool store_entry_name(char name[ENTRY_NAME_BYTES], const char *kind, const char *digits) {
    if (strspn(digits, "0123456789abcdef") != 64 || digits[64] != 0)
        return false;
    return snprintf(name, ENTRY_NAME_BYTES, "%s/%s", kind, digits) < ENTRY_NAME_BYTES;
}
