/* A fork server: a program that is loaded once, and begins anew in a process of its own for each command.
 *
 * A compile starts clang five to fifteen times. Of 26 ms that a start takes (clang 19, which relocates 560,000
 * addresses of its libraries), 20 are over before `main`. So this library is loaded into the program (LD_PRELOAD),
 * waits where `main` would begin, and forks for each command, as AFL's fork server and Android's zygote do; the new
 * process has the words, the environment, the directory and the open files that a new program would have. It is a
 * child of who asks (CLONE_PARENT), who waits for it and ends it as any other; and it is observed from there on
 * (observer.c).
 *
 * Whoever gets no server starts the program: a static one and a script (base/native.py), one that has threads or
 * open files before `main`, and one that prints while it is loaded. Not for musl, whose `raise` uses the number of
 * the thread that was copied. */
#define _GNU_SOURCE
#include "observe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORK_SERVER "--hipcache-fork-server" /* its only word */

enum { PATIENCE_MS = 2000 /* for a program to be loaded */ };
/* The descriptors of a request, in this order: the streams; then the observer's socket; then its list. */
enum { WORDS, GO, STREAMS, SOCKET = STREAMS + 3, MEMORY };

/* What one descriptor holds, each text with its NUL: the directory, the words, the environment. */
typedef struct {
    uint32_t words, variables, size;
    uint32_t descriptors; /* how many there are: SOCKET, MEMORY or all */
} request_head;

struct fork_server {
    pthread_mutex_t lock; /* of requests */
    int socket;
    bool ended;
    sem_t end;
    pthread_t keeper;
    observing process;
    start begun;
};

#ifdef __GLIBC__
typedef int (*main_function)(int count, char **words, char **environment);
static main_function program_main;

/* How many entries a directory of /proc has; -1 if it cannot be read. */
static int count_of(const char *path) {
    DIR *const open = opendir(path);
    int count = open ? 0 : -1;
    for (const struct dirent *one; open && (one = readdir(open));)
        count += *one->d_name != '.';
    if (open)
        closedir(open);
    return count;
}

/* Has it one thread, and no file but the streams and the socket? (The directory is one while it is read.) Threads
 * are not copied, and files would be closed. */
static bool is_plain(void) { return count_of("/proc/self/task") == 1 && count_of("/proc/self/fd") == KEPT_FD + 2; }

/* The request and its descriptors; false if who asks is gone, or sends something else. */
static bool receive(request_head *head, int descriptors[MOST_DESCRIPTORS]) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    struct iovec part = {head, sizeof *head};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t size;
    while ((size = recvmsg(KEPT_FD, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    const struct cmsghdr *rights = size == sizeof *head ? CMSG_FIRSTHDR(&message) : NULL;
    const size_t count = head->descriptors;
    if (!rights || count > MOST_DESCRIPTORS || rights->cmsg_len != CMSG_LEN(count * sizeof(int)))
        return false;
    memcpy(descriptors, CMSG_DATA(rights), count * sizeof(int));
    return true;
}

/* The texts of a request, and lists of them; the words begin at `lists[1]`. NULL if there is no memory. */
static char **read_texts(const request_head *head, int from) {
    const size_t count = (size_t)head->words + head->variables + 3; /* the directory, and a NULL behind each list */
    char **const lists = malloc(count * sizeof *lists + head->size);
    char *text = (char *)(lists + count);
    if (!lists || pread(from, text, head->size, 0) != (ssize_t)head->size) {
        free(lists);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (i == head->words + 1 || i == count - 1) {
            lists[i] = NULL;
        } else {
            lists[i] = text;
            text += strlen(text) + 1;
        }
    return lists;
}

/* Makes a process for each request, and returns in it: its words, and its environment behind them. */
static char **serve(int *count) {
    const pid_t parent = getppid();
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    if (!is_plain() || !send_with(KEPT_FD, "", 1, NULL, 0))
        _exit(1);
    for (;;) {
        request_head head;
        int descriptors[MOST_DESCRIPTORS] = {[SOCKET] = -1};
        if (!receive(&head, descriptors))
            _exit(0);
        char **const lists = read_texts(&head, descriptors[WORDS]);
        /* fork() would make it our child. */
        const pid_t pid = lists ? (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) : -1;
        if (pid == 0) {
            start begun = {.directory = lists[0],
                           .streams = descriptors + STREAMS,
                           .parent = parent,
                           .mask = &mask,
                           .socket = descriptors[SOCKET],
                           .kept = -1};
            /* Else who asks would not see that the server has died, and we would wait for each other. */
            close(KEPT_FD);
            char byte; /* none comes if the answer did not arrive: then another process begins in place of this one */
            if (head.descriptors > MEMORY)
                begun.list = missed_use(descriptors[MEMORY]);
            if (read(descriptors[GO], &byte, 1) != 1 || !become(&begun))
                _exit(127);
            *count = (int)head.words;
            return lists + 1;
        }
        const int32_t answer = pid > 0 ? pid : lists ? -errno : -ENOMEM;
        free(lists);
        for (size_t i = 0; i < head.descriptors; i++)
            close(descriptors[i]);
        if (!send_with(KEPT_FD, &answer, sizeof answer, NULL, 0))
            _exit(0);
    }
}

static int serve_or_begin(int count, char **words, char **environment) {
    if (count == 2 && strcmp(words[1], FORK_SERVER) == 0) {
        words = serve(&count);
        environment = environ = words + count + 1;
    }
    gather_if_planning(count, words);
    return program_main(count, words, environment);
}

/* The program's first call, in place of glibc's: with another `main`. */
int __libc_start_main(main_function main, int count, char **words, void (*first)(void), void (*last)(void),
                      void (*loader_end)(void), void *stack);
int __libc_start_main(main_function main, int count, char **words, void (*first)(void), void (*last)(void),
                      void (*loader_end)(void), void *stack) {
    __typeof__(&__libc_start_main) next = (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = main;
    return next(serve_or_begin, count, words, first, last, loader_end, stack);
}
#endif

/* The thread that the server, and all processes that it makes, have for a parent: they end with it
 * (PR_SET_PDEATHSIG). */
static void *keep(void *context) {
    fork_server *const server = context;
    const pid_t pid = begin(&server->begun);
    close(server->begun.kept);
    if (pid > 0) {
        set_pid(&server->process, pid);
        wait_for(&server->process, pid, NULL);
    }
    while (sem_wait(&server->end) != 0)
        ;
    return NULL;
}

/* Ends it, and what it has begun. Whoever asks it for more is told that it is gone. */
void hipcache_fork_server_end(fork_server *server) {
    if (server->ended)
        return;
    server->ended = true;
    hipcache_observing_kill(&server->process);
    sem_post(&server->end);
    pthread_join(server->keeper, NULL);
}

/* When nobody can ask it any more. */
void hipcache_fork_server_free(fork_server *server) {
    hipcache_fork_server_end(server);
    close(server->socket);
    sem_destroy(&server->end);
    pthread_mutex_destroy(&server->lock);
    pthread_mutex_destroy(&server->process.lock);
    free(server);
}

/* One that has loaded the program in that directory, by an environment that has it load this library; NULL if there is
 * none. `streams`: of the program until then; what it prints is the caller's to judge. */
fork_server *hipcache_fork_server(const char *program, char *const *environment, const char *directory,
                                  const int streams[3]) {
#ifndef __GLIBC__
    return NULL;
#endif
    int sockets[2];
    char byte, *const argv[] = {(char *)program, (char *)FORK_SERVER, NULL};
    sigset_t all, before;
    fork_server *server = calloc(1, sizeof *server);
    if (!server || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        free(server);
        return NULL;
    }
    pthread_mutex_init(&server->lock, NULL);
    pthread_mutex_init(&server->process.lock, NULL);
    sem_init(&server->end, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    server->socket = sockets[0];
    server->begun = (start){.program = program,
                            .directory = directory,
                            .argv = argv,
                            .environ = environment,
                            .streams = streams,
                            .socket = -1,
                            .parent = getpid(),
                            .mask = &before,
                            .kept = sockets[1]};
    const bool kept = pthread_create(&server->keeper, NULL, keep, server) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!kept) {
        close(sockets[1]);
        server->ended = true;
    }
    struct pollfd ready = {sockets[0], POLLIN, 0};
    while (kept && poll(&ready, 1, PATIENCE_MS) < 0 && errno == EINTR)
        ;
    if (kept && recv(sockets[0], &byte, 1, MSG_DONTWAIT) == 1)
        return server;
    hipcache_fork_server_free(server);
    return NULL;
}

/* A file in memory with the texts of the request. */
static int write_texts(const start *begun, request_head *head) {
    bytes text = {0};
    append(&text, begun->directory, strlen(begun->directory) + 1);
    for (char *const *word = begun->argv; *word; word++, head->words++)
        append(&text, *word, strlen(*word) + 1);
    for (char *const *variable = begun->environ; *variable; variable++, head->variables++)
        append(&text, *variable, strlen(*variable) + 1);
    head->size = (uint32_t)text.size;
    int fd = text.failed || text.size > UINT32_MAX ? -1 : memfd_create("words", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text.at, text.size) != (ssize_t)text.size) {
        close(fd);
        fd = -1;
    }
    release(&text);
    return fd;
}

pid_t fork_server_begin(fork_server *server, const start *begun) {
    request_head head = {.descriptors = begun->socket < 0 ? SOCKET : begun->memory < 0 ? MEMORY : MOST_DESCRIPTORS};
    const int input = begun->streams[0] >= 0 ? begun->streams[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int words = write_texts(begun, &head);
    int go[2] = {-1, -1};
    int32_t answer = -EPIPE;
    if (words >= 0 && input >= 0 && pipe2(go, O_CLOEXEC) == 0) {
        const int descriptors[MOST_DESCRIPTORS] = {
            words, go[0], input, begun->streams[1], begun->streams[2], begun->socket, begun->memory};
        pthread_mutex_lock(&server->lock);
        if (!send_with(server->socket, &head, sizeof head, descriptors, head.descriptors) ||
            recv(server->socket, &answer, sizeof answer, 0) != sizeof answer ||
            (answer > 0 && write(go[1], "", 1) != 1))
            answer = -EPIPE;
        pthread_mutex_unlock(&server->lock);
    }
    const int mine[] = {words, go[0], go[1], input == begun->streams[0] ? -1 : input};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (mine[i] >= 0)
            close(mine[i]);
    return answer;
}
