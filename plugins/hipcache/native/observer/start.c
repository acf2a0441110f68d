/* Starts a process, under the observer (observer.c) if that is asked for; waits for its end, and can end it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "observe.h"

bool send_with(int socket, const void *message, size_t size, const int *descriptors, size_t count) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof *descriptors)] = {0};
    struct iovec part = {(void *)message, size};
    struct msghdr sent = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        sent.msg_control = room;
        sent.msg_controllen = CMSG_SPACE(count * sizeof *descriptors);
        struct cmsghdr *head = CMSG_FIRSTHDR(&sent);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof *descriptors);
        memcpy(CMSG_DATA(head), descriptors, count * sizeof *descriptors);
    }
    return sendmsg(socket, &sent, MSG_NOSIGNAL) == (ssize_t)size;
}

/* After vfork (`begin`), the memory is still the parent's, and the parent's thread waits: no allocation, no lock. */
bool become(start *begun) {
    /* A pass that outlived us would write where nobody looks. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != begun->parent)
        return begun->failed = ESRCH, false;
    const int input = begun->streams[0] >= 0 ? begun->streams[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int streams[3] = {input, begun->streams[1], begun->streams[2]};
    for (int i = 0; i < 3; i++)
        if (streams[i] < 3 || dup2(streams[i], i) < 0)
            return begun->failed = streams[i] < 0 ? errno : EBADF, false;
    signal(SIGPIPE, SIG_DFL); /* Python ignores these two */
    signal(SIGXFSZ, SIG_DFL);
    if (chdir(begun->directory) != 0)
        return begun->failed = errno, false;
    const int listener = begun->socket >= 0 ? observer_filter(begun->list) : -1;
    if (begun->socket >= 0 && !send_with(begun->socket, "", 1, &listener, listener >= 0))
        return begun->failed = EPIPE, false;
    /* Nothing of ours stays open in it; close is not among the calls that are held. */
    const bool keeps = begun->kept == KEPT_FD ? fcntl(KEPT_FD, F_SETFD, 0) == 0
                                              : begun->kept >= 0 && dup2(begun->kept, KEPT_FD) == KEPT_FD;
    const int first = keeps ? KEPT_FD + 1 : KEPT_FD;
    if (syscall(436, first, ~0U, 0) != 0) /* close_range, Linux 5.9 */
        for (int fd = first; fd < 1024; fd++)
            close(fd);
    sigprocmask(SIG_SETMASK, begun->mask, NULL);
    return true;
}

observing *hipcache_observing(void) {
    observing *one = calloc(1, sizeof *one);
    if (one)
        pthread_mutex_init(&one->lock, NULL);
    return one;
}

void hipcache_observing_free(observing *one) {
    pthread_mutex_destroy(&one->lock);
    free(one);
}

/* Ends the pass, also one that is only about to begin. */
void hipcache_observing_kill(observing *one) {
    pthread_mutex_lock(&one->lock);
    one->killed = true;
    if (one->pid > 0)
        kill(one->pid, SIGKILL);
    pthread_mutex_unlock(&one->lock);
}

/* The status of waitpid, and the microseconds of processor time that the process and what it waited for have used.
 * Until the process is reaped under the lock, its number is no other one's. */
int wait_for(observing *one, pid_t pid, int64_t *used) {
    siginfo_t ended;
    struct rusage usage = {0};
    int status = 127 << 8; /* where somebody else has waited for it: nobody knows that it ended well */
    while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&one->lock);
    while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    if (used)
        *used = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
                usage.ru_stime.tv_usec;
    one->pid = 0;
    pthread_mutex_unlock(&one->lock);
    return status;
}

void set_pid(observing *one, pid_t pid) {
    pthread_mutex_lock(&one->lock);
    one->pid = pid;
    if (one->killed)
        kill(pid, SIGKILL);
    pthread_mutex_unlock(&one->lock);
}

/* The memory in which a pass lists what it has missed; NULL if there is none. */
static missed_list *missed_begin(int *fd) {
    missed_list *list = MAP_FAILED;
    *fd = memfd_create("missed", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, MISSED_BYTES) == 0)
        list = mmap(NULL, MISSED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (list != MAP_FAILED && getrandom(list->words, sizeof list->words, GRND_NONBLOCK) == sizeof list->words)
        return list;
    if (list != MAP_FAILED)
        munmap(list, MISSED_BYTES);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return NULL;
}

/* Adds what it has listed. */
static int missed_end(missed_list *list, int fd, bytes *seen) {
    const bool whole = list->size <= MISSED_BYTES - sizeof *list;
    append(seen, SELF_LISTED, sizeof SELF_LISTED);
    if (whole)
        append(seen, list->rows, list->size);
    munmap(list, MISSED_BYTES);
    close(fd);
    return whole && !seen->failed ? OBSERVED : TOO_MANY;
}

/* Not to be inlined: what a vfork changes on the stack, it changes for us, too. */
__attribute__((noinline)) pid_t begin(start *begun) {
    const pid_t pid = vfork();
    if (pid == 0) {
        if (become(begun)) {
            execve(begun->program, begun->argv, begun->environ);
            begun->failed = errno;
        }
        _exit(127);
    }
    return pid;
}

/* Runs `program` and waits for its end. `status`: of waitpid; `used`: microseconds of processor time. `streams`:
 * standard input (negative: /dev/null), output and error. `server`: has loaded it, or NULL. `seen`: the list, the
 * caller's to free; NULL: it is not observed. Returns why there is no list (shared.h), or -errno where it did not
 * start; one that a server could not begin ends with status 127.
 *
 * `begin` holds the thread that calls by vfork, so the observer is another one. */
int hipcache_observe(observing *one, fork_server *server, const char *program, char *const *argv,
                     char *const *environment, const char *directory, const int streams[3], bytes *seen, int *status,
                     int64_t *used) {
    int sockets[2] = {-1, -1};
    if (seen && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return NO_THREAD;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the other threads' affair */
    const int here = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int memory = -1;
    missed_list *const list = seen && server ? missed_begin(&memory) : NULL;
    observer observes = {.socket = sockets[0], .directory = here, .seen = seen, .listener = -1, .missed = list};
    start begun = {.program = program,
                   .directory = directory,
                   .argv = argv,
                   .environ = environment,
                   .streams = streams,
                   .socket = sockets[1],
                   .parent = getpid(),
                   .mask = &before,
                   .kept = -1,
                   .memory = memory};
    pthread_t thread;
    int result = NO_THREAD;
    if (seen && server) {
        append(seen, "xf", 2);
        append(seen, program, strlen(program) + 1);
    }
    if (here >= 0 && (!seen || pthread_create(&thread, NULL, observer_run, &observes) == 0)) {
        const pid_t pid = server ? fork_server_begin(server, &begun) : begin(&begun);
        result = pid >= 0 ? -begun.failed : server ? pid : -errno;
        if (pid > 0) {
            set_pid(one, pid);
            *status = wait_for(one, pid, used);
        }
        if (seen) {
            shutdown(sockets[1], SHUT_RDWR); /* the observer sees the end */
            pthread_join(thread, NULL);
        }
        result = result ? result : observes.why;
    }
    if (list) {
        const int why = missed_end(list, memory, seen);
        result = result ? result : why;
    }
    if (here >= 0)
        close(here);
    for (int i = 0; i < 2; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
