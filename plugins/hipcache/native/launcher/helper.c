/* Asks the storage helper for a whole compile that the local store does not have, and starts the helper if there is
 * none. What is said: remote/helper/commands.py; what a helper is: remote/helper/process.py.
 *
 * Where its socket is follows from all settings, which only the engine reads. This program asks at a door: a socket
 * whose name is the digest of what decides about them here, the variables below and the states of config files.
 * Whoever finds no door makes it, and gives it to the helper that it starts: from then on others can connect, and
 * wait for its start in its backlog. The file DOOR.lock is locked by the helper for as long as it lives; it has a
 * byte from a start on until that helper is up, so that one that cannot start is not started by each compile.
 *
 * Whatever goes wrong here, the engine begins. A helper that says nothing loses its door. */
#define _GNU_SOURCE
#include "helper.h"
#include "masquerade.h"
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE = 2000,   /* milliseconds for an answer, or for a sign of life */
    LONGEST = 20000,   /* for what a whole build needs (remote/prefetch.py: SECONDS) */
    AGAIN = 60,        /* seconds after which a helper that did not come up is started again */
    BACKLOG = 512,
    MOST_VARIABLES = 256,
    MOST_QUESTION = 4 << 20,
    LOCK_AT = 3, /* descriptors in the helper */
    SOCKET_AT = 4,
};

/* Do they decide which helper it is? */
static bool decides(const char *variable) {
    static const char *const settings[] = {"HIPCACHE_DIR=",
                                           "HIPCACHE_CONFIG=",
                                           "HIPCACHE_SYSTEM_CONFIG=",
                                           "HIPCACHE_KEY=",
                                           "HIPCACHE_NAMESPACE=",
                                           "HIPCACHE_UMASK=",
                                           "HIPCACHE_MAX_SIZE=",
                                           "HIPCACHE_REMOTE=",
                                           "HIPCACHE_EXECUTOR=",
                                           "HOME=",
                                           "XDG_CONFIG_HOME=",
                                           "XDG_CACHE_HOME=",
                                           "PYTHONPATH=",
                                           NULL};
    static const char *const credentials[] = CREDENTIALS;
    for (const char *const *one = settings; *one; one++)
        if (starts(variable, *one))
            return true;
    for (const char *const *one = credentials; *one; one++)
        if (strncasecmp(variable, *one, strlen(*one)) == 0)
            return true;
    return false;
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* The name of the door. */
static bool name_door(const request *asked, bytes config, char name[64]) {
    char *found[MOST_VARIABLES], digits[2 * DIGEST_BYTES + 1];
    uint8_t digest[DIGEST_BYTES];
    size_t count = 0;
    bytes text = {0};
    for (char *const *one = asked->environ; *one; one++)
        if (decides(*one)) {
            if (count == MOST_VARIABLES)
                return false;
            found[count++] = *one;
        }
    qsort(found, count, sizeof *found, by_text);
    append(&text, HIPCACHE_VERSION, sizeof HIPCACHE_VERSION);
    for (size_t i = 0; i < count; i++)
        append(&text, found[i], strlen(found[i]) + 1);
    append(&text, config.at, config.size);
    if (!text.failed)
        blake3(text.at, text.size, digest);
    const bool good = !text.failed;
    release(&text);
    if (good) {
        hexadecimal(digest, DIGEST_BYTES, digits);
        snprintf(name, 64, "door-%.16s", digits);
    }
    return good;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The address by a name that is short enough, however long the directory's is: `directory` is open. */
static struct sockaddr_un address_of(int directory, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
    return address;
}

static int connect_to(int directory, const char *name) {
    const struct sockaddr_un address = address_of(directory, name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 && resident_is_mine(fd))
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* In the process that becomes the helper: it has nothing of the build's. */
static void become_helper(int lock, int door, const char *path, void (*start_engine)(char **words)) {
    char *words[] = {
        (char *)"hipcache", (char *)STORAGE_HELPER, (char *)"--door", (char *)"3", (char *)"4", (char *)path, NULL};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    const int null = open("/dev/null", O_RDWR);
    const int high = fcntl(lock, F_DUPFD, SOCKET_AT + 1), other = fcntl(door, F_DUPFD, SOCKET_AT + 1);
    if (null >= 0 && high >= 0 && other >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
        dup2(high, LOCK_AT) == LOCK_AT && dup2(other, SOCKET_AT) == SOCKET_AT && close_from(SOCKET_AT + 1) &&
        chdir("/") == 0)
        start_engine(words);
    _exit(1);
}

/* The helper is no child of who waits for compilers: that of a process that ends at once. */
static bool start_helper(int lock, int door, const char *path, void (*start_engine)(char **words)) {
    int status;
    const pid_t between = fork();
    if (between == 0) {
        if (setsid() >= 0 && fork() == 0)
            become_helper(lock, door, path, start_engine);
        _exit(0);
    }
    while (between > 0 && waitpid(between, &status, 0) < 0 && errno == EINTR)
        ;
    return between > 0;
}

/* Makes the door, and starts the helper; true if there is a door now, made by another process perhaps. */
static bool open_door(int directory, const char *name, const char *path, void (*start_engine)(char **words)) {
    char locked[80];
    struct stat found;
    bool opened = false;
    snprintf(locked, sizeof locked, "%s.lock", name);
    const int lock = openat(directory, locked, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        return false;
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        for (int i = 0; i < 20 && !opened; i++) {
            const struct timespec moment = {0, 5000000};
            nanosleep(&moment, NULL);
            opened = faccessat(directory, name, F_OK, 0) == 0;
        }
    } else if (fstat(lock, &found) == 0 &&
               (found.st_size == 0 || llabs((long long)time(NULL) - found.st_mtime) >= AGAIN) &&
               pwrite(lock, "s", 1, 0) == 1) {
        const struct sockaddr_un address = address_of(directory, name);
        unlinkat(directory, name, 0);
        const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const mode_t mask = umask(0177);
        opened = door >= 0 && bind(door, (const struct sockaddr *)&address, sizeof address) == 0 &&
                 listen(door, BACKLOG) == 0;
        umask(mask);
        opened = opened && start_helper(lock, door, path, start_engine);
        if (door >= 0)
            close(door);
    }
    close(lock);
    return opened;
}

/* The question as remote/helper/commands.py reads it. */
static bool write_question(const request *asked, const char *kind, bytes *text) {
    bytes rest = {0};
    char head[64];
    unsigned words = 0;
    append(&rest, asked->directory, strlen(asked->directory) + 1);
    for (char *const *word = asked->argv; *word; word++, words++)
        append(&rest, *word, strlen(*word) + 1);
    for (char *const *variable = asked->environ; *variable; variable++)
        append(&rest, *variable, strlen(*variable) + 1);
    append(text, head, (size_t)snprintf(head, sizeof head, "%s %zu %u\n", kind, rest.size, words));
    append(text, rest.at, rest.size);
    const bool good = !rest.failed && !text->failed && text->size <= MOST_QUESTION;
    release(&rest);
    return good;
}

static bool send_all(int fd, const bytes *text, int64_t end) {
    size_t sent = 0;
    while (sent < text->size) {
        const ssize_t size = send(fd, text->at + sent, text->size - sent, MSG_NOSIGNAL);
        struct pollfd ready = {fd, POLLOUT, 0};
        if (size > 0)
            sent += (size_t)size;
        else if (size < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        else if (now() >= end || poll(&ready, 1, (int)(end - now())) <= 0)
            return false;
    }
    return true;
}

/* The answer: 'y' or 'n'; 0 if there was none, and '\n' if the helper was still at it. `text`: what follows a 'y'. */
static char answer_of(int fd, int64_t end, bytes *text) {
    char said = 0, come[4096];
    for (;;) {
        const int64_t left = end - now();
        struct pollfd ready = {fd, POLLIN, 0};
        const int count = left > 0 ? poll(&ready, 1, (int)(said == 0 && left > PATIENCE ? PATIENCE : left)) : 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return said == 'y' ? 'n' : said; /* a text that is cut */
        const ssize_t size = recv(fd, come, sizeof come, 0);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (size <= 0)
            return said == 'y' && size == 0 ? 'y' : 'n'; /* it has gone */
        for (ssize_t i = 0; i < size; i++)
            if (said == 'y' && text)
                append(text, come + i, 1);
            else if (said != 'y')
                said = come[i];
        if (said == 'n' || (said == 'y' && !text))
            return said;
    }
}

/* Has a compile found lately that no helper answers? */
static bool is_down(const request *asked) {
    char path[PATH_MAX];
    struct stat found;
    return snprintf(path, PATH_MAX, "%s/v2/remote/down", asked->store) >= PATH_MAX ||
           (stat(path, &found) == 0 && llabs((long long)time(NULL) - found.st_mtime) < REMOTE_DOWN);
}

/* As `answer_of`, of a question of this kind, that may take so many milliseconds; 'n' if it cannot be asked. */
static char ask(const request *asked, const char *kind, bytes config, int64_t patience,
                void (*start_engine)(char **words), bytes *text) {
    char name[64], path[PATH_MAX], said = 'n';
    bytes message = {0};
    if (is_down(asked) || !name_door(asked, config, name) || !runtime_place(path, name, ""))
        return said;
    char *const last = (char *)base_name(path);
    last[-1] = 0;
    const int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    last[-1] = '/';
    if (directory < 0)
        return said;
    const int64_t end = now() + patience;
    int fd = connect_to(directory, name);
    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED) && open_door(directory, name, path, start_engine))
        fd = connect_to(directory, name);
    if (fd >= 0 && write_question(asked, kind, &message) && send_all(fd, &message, end)) {
        said = answer_of(fd, end, text);
        if (said == 0)
            unlinkat(directory, name, 0);
    }
    release(&message);
    if (fd >= 0)
        close(fd);
    close(directory);
    return said;
}

bool helper_ask(const request *asked, bytes config, void (*start_engine)(char **words)) {
    return ask(asked, "ask", config, PATIENCE, start_engine, NULL) == 'y';
}

ahead helper_fetch_ahead(const request *asked, const char *file, bytes config, void (*start_engine)(char **words),
                         bytes *text) {
    char *words[] = {(char *)file, NULL};
    request listed = *asked;
    listed.argv = words;
    switch (ask(&listed, "ahead", config, LONGEST, start_engine, text)) {
    case 'y':
        return text->failed ? AHEAD_ENGINE : AHEAD_DONE;
    case '\n':
        return AHEAD_TOO_LONG;
    default:
        return AHEAD_ENGINE;
    }
}
