/* Asks the resident whether the system's files are as they were, and starts it if there is none.
 *
 * The resident is a process of this user that watches the files of compilers and libraries (`resident.c`). The
 * packets, over a Unix socket in a directory that only this user can enter:
 *
 *     asked     "?" (8 bytes), what the process sees as its files (mount namespace, root: 3 numbers of 8 bytes),
 *               32 bytes: digest of the system's state
 *     answer    "y": all is as the digest says.  "t": not known, tell me.  "n": it cannot be said
 *     told      "!", 32 bytes: digest; then the list of paths (record.py: `system`), which was just found to be so
 *
 * The digest goes over the paths too, so it means the same to both. Whatever goes wrong here, the files are looked
 * at. */
#define _GNU_SOURCE
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE = 3, /* milliseconds: looking at 400 files takes less than a tenth of that */
    AGAIN = 60,      /* seconds after which a resident that did not come up is started again */
};

/* XDG_RUNTIME_DIR may be that of the user who started sudo. */
bool runtime_place(char path[PATH_MAX], const char *name, const char *suffix) {
    char directory[PATH_MAX];
    struct stat found;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const bool mine = runtime && runtime[0] == '/' && stat(runtime, &found) == 0 && found.st_uid == geteuid();
    const int size = mine ? snprintf(directory, PATH_MAX, "%s/hipcache", runtime)
                          : snprintf(directory, PATH_MAX, "/tmp/hipcache-%u", (unsigned)geteuid());
    if (size >= PATH_MAX ||
        (lstat(directory, &found) != 0 && (mkdir(directory, 0700) != 0 || lstat(directory, &found) != 0)))
        return false;
    return S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0 &&
           snprintf(path, PATH_MAX, "%s/%s%s", directory, name, suffix) < PATH_MAX;
}

bool resident_place(char path[PATH_MAX], const char *suffix) { return runtime_place(path, RESIDENT_NAME, suffix); }

bool resident_sees(seen *files) {
    struct stat root, mounts;
    if (stat("/", &root) != 0 || stat("/proc/self/ns/mnt", &mounts) != 0)
        return false;
    *files = (seen){{mounts.st_ino, root.st_dev, root.st_ino}};
    return true;
}

bool resident_address(struct sockaddr_un *address) {
    char path[PATH_MAX];
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!resident_place(path, "") || strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

bool resident_is_mine(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void tell(int fd, bytes digest, bytes list) {
    bytes told = {0};
    append(&told, "!", 1), append(&told, digest.at, digest.size), append(&told, list.at, list.size);
    if (!told.failed)
        (void)!send(fd, told.at, told.size, MSG_NOSIGNAL | MSG_DONTWAIT); /* too long, or no room: it is asked again */
    release(&told);
}

resident_answer resident_ask(record *found) {
    struct sockaddr_un address;
    question asked = {.kind = "?"};
    char said_so = 'n';
    if (!resident_address(&address) || !resident_sees(&asked.files))
        return RESIDENT_CANNOT_SAY;
    memcpy(asked.system, found->system.at, DIGEST_BYTES);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return RESIDENT_CANNOT_SAY;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        const bool absent = errno == ENOENT || errno == ECONNREFUSED;
        close(fd);
        return absent ? RESIDENT_ABSENT : RESIDENT_CANNOT_SAY;
    }
    struct pollfd answers = {fd, POLLIN, 0};
    const bool answered = resident_is_mine(fd) &&
                          send(fd, &asked, sizeof asked, MSG_NOSIGNAL) == (ssize_t)sizeof asked &&
                          poll(&answers, 1, PATIENCE) == 1 && recv(fd, &said_so, 1, 0) == 1;
    resident_answer said = answered && said_so == 'y' ? RESIDENT_HOLDS : RESIDENT_CANNOT_SAY;
    if (answered && said_so == 't') {
        said = direct_system_holds(found) ? RESIDENT_HOLDS : RESIDENT_DIFFERS;
        if (said == RESIDENT_HOLDS && state_is_known(found->system))
            tell(fd, found->system, found->system_watched);
    }
    close(fd);
    return said;
}

/* Is this a build after which nothing may run on? Builders of packages say who they are. */
static bool is_package_build(void) {
    static const char *const builders[] = BUILDERS_VARIABLES;
    for (const char *const *variable = builders; *variable; variable++)
        if (getenv(*variable))
            return true;
    const char *domain = getenv("TEXTDOMAIN");
    return domain && strcmp(domain, MAKEPKGS_TEXTDOMAIN) == 0;
}

/* If it cannot run, not every compile is to try. */
static bool may_start(void) {
    char mark[PATH_MAX];
    struct stat found;
    if (is_package_build() || !resident_place(mark, ".started"))
        return false;
    if (stat(mark, &found) == 0 && llabs((long long)time(NULL) - found.st_mtime) < AGAIN)
        return false;
    const int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool marked = fd >= 0 && futimens(fd, NULL) == 0;
    if (fd >= 0)
        close(fd);
    return marked;
}

bool close_from(unsigned first) {
    if (syscall(SYS_close_range, first, ~0U, 0U) == 0)
        return true;
    const long most = sysconf(_SC_OPEN_MAX); /* Linux before 5.9 */
    for (long fd = first; fd < (most > 0 ? most : 1024); fd++)
        close((int)fd);
    return true;
}

/* The build waits for all that holds its pipes, and stops what is in its process group: the resident has nothing of
 * it. */
void resident_start(void) {
    static char *const words[] = {(char *)"hipcache", (char *)RESIDENT_WORD, NULL};
    char runtime[PATH_MAX + 32];
    char *const variables[] = {runtime, NULL};
    sigset_t none;
    if (!may_start() || fork() != 0)
        return;
    const char *given = getenv("XDG_RUNTIME_DIR");
    snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=%.*s", PATH_MAX, given ? given : "");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 && close_from(3) && setsid() >= 0 &&
        chdir("/") == 0)
        execve("/proc/self/exe", words, variables);
    _exit(1);
}
