/* The config files that others may have written: a store's, and a project's (config/files.py says which count). */
#define _GNU_SOURCE
#include "direct.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool settings_count(const char *path, struct stat *found) {
    char above[PATH_MAX];
    struct stat directory;
    if (lstat(path, found) != 0 || !S_ISREG(found->st_mode))
        return false;
    if (found->st_uid == 0 || found->st_uid == getuid())
        return true;
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(path, '/') - path) + 1, path);
    return stat(above, &directory) == 0 && found->st_uid == directory.st_uid;
}

bool settings_of_project(const char *directory, char path[PATH_MAX], struct stat *found) {
    for (size_t length = strlen(directory); length; length--)
        if ((directory[length] == 0 || directory[length] == '/') && directory[length - 1] != '/' &&
            snprintf(path, PATH_MAX, "%.*s/" PROJECT_SETTINGS, (int)length, directory) < PATH_MAX &&
            settings_count(path, found))
            return true;
    path[0] = 0;
    return false;
}
