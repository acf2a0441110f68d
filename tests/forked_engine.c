/* The engine of a test's launcher: asks a server (forked_engines.py) for one that is forked off a Python that has
 * imported all, which spares a tenth of a second of it. It starts the real one, `hipcache-engine.py` beside it,
 *   - where anything of a process is not as the server's own: limits, namespaces, user, signals, open files, tracer;
 *   - in one test of twenty, as an audit: in all of a test's runtime directory or none, as an engine of either kind
 *     has other ancestors, and so is of another build (`report.conditions`).
 * It sends  its surroundings | cwd | number of arguments | arguments | environment  as strings that end with 0, and the
 * descriptors 0 to 2; then a byte for each signal that is to reach the engine. It receives the status of waitpid, 4
 * bytes; or one byte, where the surroundings differ. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { LONGEST = 1 << 22, AUDIT = 20 };
static char message[LONGEST];
static size_t used;
static int server = -1;

static void add(const char *text) {
    const size_t size = strlen(text) + 1;
    if (used + size > LONGEST)
        used = LONGEST + 1; /* too long: nothing is asked */
    if (used > LONGEST)
        return;
    memcpy(message + used, text, size);
    used += size;
}

static void add_lines(const char *path, const char *const *names) {
    char line[4096];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        for (const char *const *name = names; *name; name++)
            if (strncmp(line, *name, strlen(*name)) == 0)
                used--, line[strcspn(line, "\n")] = ';', add(line);
    if (file)
        fclose(file);
}

static void add_surroundings(void) {
    static const char *const spaces[] = {"mnt", "user", "pid", "net", "ipc", "uts", "cgroup"};
    static const char *const status[] = {"Umask",  "Uid", "Gid",        "Groups",   "TracerPid",     "SigBlk",
                                         "SigIgn", "Cap", "NoNewPrivs", "Seccomp:", "Cpus_allowed:", NULL};
    static const char *const all[] = {"", NULL};
    char text[PATH_MAX], path[64];
    add("");
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
        const ssize_t size = readlink(path, text, sizeof text - 1);
        text[size < 0 ? 0 : size] = 0;
        used--, add(text);
    }
    add_lines("/proc/self/status", status);
    add_lines("/proc/self/limits", all);
    add_lines("/proc/self/cgroup", all);
    struct stat top;
    const bool known = stat("/", &top) == 0;
    snprintf(text, sizeof text, "%lu %lu session %d nice %d", known ? (unsigned long)top.st_dev : 0,
             known ? (unsigned long)top.st_ino : 0, getsid(0), getpriority(PRIO_PROCESS, 0));
    used--, add(text);
    static const char *const locale[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof locale / sizeof *locale; i++)
        used--, add(" "), used--, add(getenv(locale[i]) ? getenv(locale[i]) : "-");
    DIR *open = opendir("/proc/self/fd");
    for (struct dirent *entry; open && (entry = readdir(open));) {
        const int fd = atoi(entry->d_name);
        if (fd <= 2 || fd == dirfd(open))
            continue;
        snprintf(text, sizeof text, " fd %d", fd);
        used--, add(text);
    }
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 || isatty(fd))
            used--, add(" stream");
    if (open)
        closedir(open);
}

static void forward(int number) {
    const unsigned char byte = (unsigned char)number;
    if (send(server, &byte, 1, MSG_NOSIGNAL) < 0)
        return; /* it has ended */
}

static bool send_all(const char *data, size_t size) {
    union {
        char room[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    uint32_t length = (uint32_t)size;
    struct iovec part = {&length, sizeof length};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *files = CMSG_FIRSTHDR(&header);
    files->cmsg_level = SOL_SOCKET, files->cmsg_type = SCM_RIGHTS, files->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(files), (int[]){0, 1, 2}, 3 * sizeof(int));
    if (sendmsg(server, &header, MSG_NOSIGNAL) != sizeof length)
        return false;
    for (ssize_t done; size; data += done, size -= (size_t)done)
        if ((done = send(server, data, size, MSG_NOSIGNAL)) <= 0)
            return false;
    return true;
}

static bool is_audit(void) {
    uint32_t hash = 2166136261; /* FNV-1a */
    for (const char *at = getenv("XDG_RUNTIME_DIR"); at && *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619;
    return hash % AUDIT == 0;
}

/* Ends as the forked engine does. Returns where it must be the real one. */
static void ask(const char *directory, int argc, char **argv) {
    char cwd[PATH_MAX], number[16];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    add_surroundings();
    if (argc == 2 && strcmp(argv[1], "--surroundings") == 0)
        exit(fwrite(message, 1, used - 1, stdout) == used - 1 && fflush(stdout) == 0 ? 0 : 1);
    if (is_audit() || !getcwd(cwd, sizeof cwd))
        return;
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/engines", directory) >= (int)sizeof address.sun_path)
        return;
    snprintf(number, sizeof number, "%d", getpgrp());
    add(number), add(cwd);
    snprintf(number, sizeof number, "%d", argc);
    add(number);
    for (int i = 0; i < argc; i++)
        add(argv[i]);
    for (char **word = environ; *word; word++)
        add(*word);
    if (used > LONGEST || (server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return;
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0 || !send_all(message, used)) {
        close(server);
        return;
    }
    sigset_t held;
    sigemptyset(&held), sigaddset(&held, SIGINT);
    for (const int *one = (const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, 0}; *one; one++)
        sigaction(*one, &(struct sigaction){.sa_handler = forward}, NULL);
    sigprocmask(SIG_UNBLOCK, &held, NULL); /* the launcher holds it back until the engine is there */
    char answer[4];
    ssize_t size = 0;
    for (ssize_t more;
         size < 4 && ((more = recv(server, answer + size, 4 - (size_t)size, 0)) > 0 || (more < 0 && errno == EINTR));)
        size += more > 0 ? more : 0;
    if (size == 1) { /* the surroundings differ */
        sigprocmask(SIG_BLOCK, &held, NULL);
        for (const int *one = (const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, 0}; *one; one++)
            signal(*one, SIG_DFL);
        return;
    }
    if (size != 4) {
        fprintf(stderr, "the server of forked engines has ended\n");
        exit(98);
    }
    int status;
    memcpy(&status, answer, 4);
    if (WIFSIGNALED(status)) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    exit(WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    static char path[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 32);
    if (size > 0) {
        path[size] = 0;
        *strrchr(path, '/') = 0;
        ask(path, argc, argv);
        strcat(path, "/hipcache-engine.py");
    }
    char **words = calloc((size_t)argc + 3, sizeof *words);
    words[0] = (char *)PYTHON, words[1] = (char *)"-E", words[2] = path;
    memcpy(words + 3, argv + 1, (size_t)argc * sizeof *words);
    execv(PYTHON, words);
    perror(PYTHON);
    return 97;
}
