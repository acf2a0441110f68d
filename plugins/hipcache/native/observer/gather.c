/* Within clang when it plans (`-###`, its first word): gathers what it writes to standard error, and writes it once
 * it ends. LLVM's errs() keeps nothing back, and a plan is printed letter by letter: 18,000 system calls for four
 * architectures, a third of the driver's time, and 190,000 with 1,000 directories.
 *
 * Not in a program without errs(), which may write itself and then become clang, or end without a destructor. Clang
 * that is killed loses its words; whoever asked it then runs the command as it is. */
#define _GNU_SOURCE
#include "observe.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool gathers;
static size_t gathered;
static char room[1 << 16];

/* Where that cannot be written, at a limit of files, a plan is cut: the program must not end well, as errs() ends. */
static void give_out(void) {
    for (size_t at = 0; at < gathered;) {
        const long size = syscall(SYS_write, STDERR_FILENO, room + at, gathered - at);
        if (size < 0 && errno != EINTR)
            _exit(EXIT_FAILURE);
        at += size > 0 ? (size_t)size : 0;
    }
    gathered = 0;
}

__attribute__((destructor)) static void end(void) {
    give_out();
    gathers = false; /* other libraries end later */
}

void gather_if_planning(int count, char *const *words) {
    gathers = count > 1 && strcmp(words[1], "-###") == 0 && dlsym(RTLD_DEFAULT, "_ZN4llvm4errsEv");
    if (gathers)
        unsetenv("LD_PRELOAD"); /* what it starts need not load us */
}

ssize_t write(int fd, const void *text, size_t size) {
    const bool ours = gathers && fd == STDERR_FILENO;
    if (ours && size > sizeof room - gathered)
        give_out();
    if (!ours || size > sizeof room)
        return syscall(SYS_write, fd, text, size);
    memcpy(room + gathered, text, size);
    gathered += size;
    return (ssize_t)size;
}
