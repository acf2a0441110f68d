/* The floor of a warm build: copies a finished object and its dependency file to where a compile command wants them.
 * Usage: COPY STORE COMPILER ARGS...; finds STORE/<object's name> after -o, and STORE/<file's name> after -MF. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy(const char *store, const char *to) {
    char from[4096];
    struct stat status;
    const char *slash = strrchr(to, '/');
    snprintf(from, sizeof from, "%s/%s", store, slash ? slash + 1 : to);
    const int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (source < 0 || target < 0 || fstat(source, &status) != 0)
        return 1;
    for (off_t rest = status.st_size; rest > 0;) {
        const ssize_t moved = copy_file_range(source, NULL, target, NULL, (size_t)rest, 0);
        if (moved <= 0)
            return 1;
        rest -= moved;
    }
    return close(target) != 0;
}

int main(int argc, char **argv) {
    for (int i = 3; i + 1 < argc; i++)
        if ((strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "-MF") == 0) && copy(argv[1], argv[i + 1])) {
            fprintf(stderr, "copy: cannot copy '%s'\n", argv[i + 1]);
            return 1;
        }
    return 0;
}
