/* A library to be preloaded: regular files that were modified in the second MODIFIED are shown without a change time of
 * their own, as squashfs shows all of its files, and every file system as a squashfs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static int shown(int result, struct stat *found) {
    if (result == 0 && S_ISREG(found->st_mode) && found->st_mtim.tv_sec == MODIFIED)
        found->st_ctim = found->st_mtim;
    return result;
}

int fstatat(int directory, const char *restrict path, struct stat *restrict found, int flags) {
    int (*usual)(int, const char *, struct stat *,
                 int) = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
    return shown(usual(directory, path, found, flags), found);
}

int fstat(int fd, struct stat *found) { return fstatat(fd, "", found, 0x1000 /* AT_EMPTY_PATH */); }

int stat(const char *restrict path, struct stat *restrict found) {
    return fstatat(-100 /* AT_FDCWD */, path, found, 0);
}

int statfs(const char *path, struct statfs *found) {
    (void)path;
    *found = (struct statfs){.f_type = 0x73717368};
    return 0;
}
