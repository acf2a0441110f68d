/* Lists each path that a compiler pass, its threads and its children hand to the kernel. (hipcc and scripts have a
 * table of their own: processes/ptrace.py.)
 *
 * A seccomp filter (SECCOMP_RET_USER_NOTIF) holds the pass at each call with a path. The observer, a thread of ours,
 * reads the path from the memory of the pass, looks at it itself, and lets the call go on in the kernel. So nothing is
 * missed: static programs and calls inside libc are seen as all others, and no ptrace is needed (an outer strace or
 * gdb goes on).
 *
 * Costs, clang 15 and 19, nested virtual machine: 10 us a call, look included. A front end of <hip/hip_runtime.h>
 * makes 770 (clang 15) and 970 (19) such calls, one of rocPRIM 930 and 1,150: 0.9 to 1.6 % of its time
 * (bench/observer.py). Rejected: ptrace with a filter (12 to 13 us a call, and only the thread that started the pass
 * may wait for it); a library in LD_PRELOAD alone (below 1 us, but static compilers and libc's own calls go around
 * it).
 *
 * The list: for each call, in order
 *
 *     how    r opened to be read   d opened as a directory   s stat, access   l lstat, readlink
 *            w opened to be written   x started as a program   p a new process   n a socket (both with an empty path)
 *     found  f is there   d is there, a directory   l is a link (how l alone)   - is not there
 *            b is a link that leads nowhere   ? cannot be told
 *     path   as the pass spells it; absolute where it is relative to another directory than the one that it began in
 *     NUL
 *
 * and behind `--` and a NUL, which stand there once, what the pass has listed itself (missed.c).
 *
 * Not listed: calls with an open file (fstat is newfstatat with AT_EMPTY_PATH, which libc gives an empty path), what
 * is a process's own below /proc/self (open files again; not its directory and its root), and paths that are empty
 * or longer than the kernel takes, which no file can be. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "observe.h"

/* linux/audit.h, filter.h, seccomp.h: musl-gcc has none of them, and older ones lack what is new. */
#if defined(__x86_64__)
#define ARCHITECTURE 0xC000003EU
#elif defined(__aarch64__)
#define ARCHITECTURE 0xC00000B7U
#endif
struct row {
    uint16_t code;
    uint8_t yes, no;
    uint32_t value;
};
struct program {
    uint16_t size;
    const struct row *rows;
};
struct made { /* a system call */
    int number;
    uint32_t architecture;
    uint64_t at, arguments[6];
};
struct held {
    uint64_t id;
    uint32_t thread, flags;
    struct made call;
};
struct answer {
    uint64_t id;
    int64_t value;
    int32_t error;
    uint32_t flags;
};
enum { LOAD = 0x20, JUMP = 0x05, IF_SAME = 0x15, IF_NOT_LESS = 0x35, IF_BITS = 0x45, RETURN = 0x06 };
enum { CLONE3 = 435, THREAD = 0x10000 }; /* CLONE_THREAD */
enum { X32 = 0x40000000 }; /* calls of x86-64's other ABI begin there */
enum { SET_FILTER = 1, NEW_LISTENER = 1 << 3, SPEC_ALLOW = 1 << 2, GO_ON = 1 /* Linux 5.5 */ };
#define ALLOW 0x7FFF0000U
#define NOTIFY 0x7FC00000U
#define RECEIVE _IOWR('!', 0, struct held)
#define SEND _IOWR('!', 1, struct answer)
#define SET_FLAGS _IOW('!', 4, uint64_t) /* Linux 6.6 */

enum {
    MOST = 64 << 20, /* bytes of a list */
    PIECE = 256, /* bytes of a path that are read at once */
    PATIENCE_MS = 1000, /* for processes that outlive the pass */
    NONE = -1
};

typedef struct {
    int number, path, directory, flags;
    char how; /* as in the list; o: opened, ?: a call that a list of paths cannot stand for, c: changes the directory */
} call;

static const call CALLS[] = {
#ifdef SYS_open
    {SYS_open, 0, NONE, 1, 'o'},
    {SYS_stat, 0, NONE, NONE, 's'},
    {SYS_lstat, 0, NONE, NONE, 'l'},
    {SYS_access, 0, NONE, NONE, 's'},
    {SYS_readlink, 0, NONE, NONE, 'l'},
#endif
    {SYS_openat, 1, 0, 2, 'o'},
    {SYS_newfstatat, 1, 0, 3, 's'},
    {SYS_readlinkat, 1, 0, NONE, 'l'},
    {SYS_faccessat, 1, 0, NONE, 's'},
    {SYS_statx, 1, 0, 2, 's'},
    {439, 1, 0, 3, 's'}, /* faccessat2 */
    {SYS_statfs, 0, NONE, NONE, 's'},
    {SYS_getxattr, 0, NONE, NONE, 's'},
    {SYS_lgetxattr, 0, NONE, NONE, 'l'},
    {SYS_execve, 0, NONE, NONE, 'x'},
    {SYS_chdir, 0, NONE, NONE, 'c'},
    {SYS_fchdir, NONE, NONE, NONE, 'c'},
    {SYS_socket, NONE, NONE, NONE, 'n'},
    {SYS_clone, NONE, NONE, 0, 'p'},
    {CLONE3, NONE, NONE, NONE, 'p'},
#ifdef SYS_fork
    {SYS_fork, NONE, NONE, NONE, 'p'},
    {SYS_vfork, NONE, NONE, NONE, 'p'},
#endif
    {SYS_execveat, NONE, NONE, NONE, '?'},
    {SYS_chroot, NONE, NONE, NONE, '?'},
    {SYS_unshare, NONE, NONE, NONE, '?'},
    {SYS_setns, NONE, NONE, NONE, '?'},
    {SYS_listxattr, NONE, NONE, NONE, '?'},
    {SYS_open_by_handle_at, NONE, NONE, NONE, '?'},
    {425, NONE, NONE, NONE, '?'}, /* io_uring_setup */
    {437, NONE, NONE, NONE, '?'}, /* openat2 */
};
enum { COUNT = sizeof CALLS / sizeof *CALLS };

#ifdef ARCHITECTURE
int observer_filter(const missed_list *missed) {
    struct row rows[COUNT + 32];
    uint16_t size = 0;
#define ROW(...)                                                                                                       \
    do {                                                                                                               \
        rows[size] = (struct row){__VA_ARGS__};                                                                        \
        size++;                                                                                                        \
    } while (0)
    ROW(LOAD, 0, 0, offsetof(struct made, architecture));
    ROW(IF_SAME, 1, 0, ARCHITECTURE);
    ROW(RETURN, 0, 0, NOTIFY);
    ROW(LOAD, 0, 0, offsetof(struct made, number));
    ROW(IF_NOT_LESS, 0, 1, X32);
    ROW(RETURN, 0, 0, NOTIFY);
    /* Behind the table: allow, notify, then fstat by newfstatat (its fourth argument) and by statx (its third). */
    const int notify = size + COUNT + 1, by_newfstatat = notify + 1, by_statx = notify + 3 + (missed ? 9 : 0);
    for (int i = 0; i < COUNT; i++) {
        const int number = CALLS[i].number;
        const int to = number == SYS_newfstatat ? by_newfstatat : number == SYS_statx ? by_statx : notify;
        ROW(IF_SAME, (uint8_t)(to - size - 1), 0, (uint32_t)number);
    }
    ROW(RETURN, 0, 0, ALLOW);
    ROW(RETURN, 0, 0, NOTIFY);
    for (int i = 0; missed && i < 4; i++) {
        ROW(LOAD, 0, 0, (uint32_t)(offsetof(struct made, arguments[4]) + 4 * (size_t)i));
        ROW(IF_SAME, 0, (uint8_t)(7 - 2 * i), ((const uint32_t *)missed->words)[i]);
    }
    if (missed)
        ROW(RETURN, 0, 0, ALLOW);
    ROW(LOAD, 0, 0, offsetof(struct made, arguments[3]));
    ROW(JUMP, 0, 0, 1);
    ROW(LOAD, 0, 0, offsetof(struct made, arguments[2]));
    ROW(IF_BITS, 0, 1, AT_EMPTY_PATH);
    ROW(RETURN, 0, 0, ALLOW);
    ROW(RETURN, 0, 0, NOTIFY);
#undef ROW
    const struct program program = {size, rows};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    /* Without SPEC_ALLOW older kernels slow the process down. */
    return (int)syscall(SYS_seccomp, SET_FILTER, NEW_LISTENER | SPEC_ALLOW, &program);
}
#else
int observer_filter(const missed_list *missed) { return (void)missed, -1; }
#endif

static int receive_descriptor(int socket) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* The length of the path at `at` in the memory of a thread; NONE if it cannot be read, PATH_MAX if it is too long.
 * A piece never goes beyond its page, behind which there may be none. */
static int read_path(pid_t thread, uint64_t at, char path[PATH_MAX]) {
    for (size_t size = 0; size < PATH_MAX;) {
        size_t piece = 4096 - (at + size) % 4096;
        piece = piece < PIECE ? piece : PIECE;
        piece = piece < PATH_MAX - size ? piece : PATH_MAX - size;
        const struct iovec here = {path + size, piece}, there = {(void *)(uintptr_t)(at + size), piece};
        const ssize_t got = process_vm_readv(thread, &here, 1, &there, 1, 0);
        if (got <= 0)
            return NONE;
        const char *end = memchr(path + size, 0, (size_t)got);
        if (end)
            return (int)(end - path);
        size += (size_t)got;
    }
    return PATH_MAX;
}

/* Puts what the link /proc/THREAD/NAME leads to, and a slash, before the path. */
static bool put_directory(pid_t thread, const char *name, char path[PATH_MAX]) {
    char link[64], whole[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/%s", (int)thread, name);
    const ssize_t size = readlink(link, whole, sizeof whole - 1);
    if (size <= 0 || *whole != '/' || (size_t)size + strlen(path) + 2 > sizeof whole)
        return false;
    whole[size] = '/';
    strcpy(whole + size + 1, path);
    strcpy(path, whole);
    return true;
}

/* What a process has for itself alone: its open files, its program. As `is_own` of base/paths.py. */
static bool is_own(const char *path) {
    static const char SELF[] = "/proc/self/";
    const bool leads_out = strstr(path, "/cwd") || strstr(path, "/root") || strstr(path, "/..");
    return strncmp(path, SELF, sizeof SELF - 1) == 0 && !leads_out;
}

/* The path without /proc/self/cwd and /proc/self/root, which are others for us: relative to the directory of the
 * process in place of the first. As `absolute` of base/paths.py. */
static const char *for_all(const char *path) {
    static const char CWD[] = "/proc/self/cwd", ROOT[] = "/proc/self/root";
    const size_t cwd = sizeof CWD - 1, root = sizeof ROOT - 1;
    while (strncmp(path, ROOT, root) == 0 && (path[root] == '/' || !path[root]))
        path = path[root] ? path + root : "/";
    if (strncmp(path, CWD, cwd) != 0 || (path[cwd] != '/' && path[cwd]))
        return path;
    path += cwd;
    path += strspn(path, "/");
    return *path ? path : ".";
}

static const call *call_of(const struct made *made) {
    for (int i = 0; i < COUNT; i++)
        if (CALLS[i].number == made->number)
            return &CALLS[i];
    return NULL;
}

/* Is it a thread of the same process that begins? clone3 has its flags in memory, first of all. */
static bool is_thread(pid_t thread, const struct made *made) {
    uint64_t flags = made->number == SYS_clone ? made->arguments[0] : 0;
    const struct iovec here = {&flags, sizeof flags}, there = {(void *)(uintptr_t)made->arguments[0], sizeof flags};
    if (made->number == CLONE3 && process_vm_readv(thread, &here, 1, &there, 1, 0) != sizeof flags)
        return false;
    return flags & THREAD;
}

static char look(int directory, const char *path, char how) {
    struct stat found;
    if (fstatat(directory, path, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || errno == ENOTDIR ? '-' : '?';
    if (how != 'l' && S_ISLNK(found.st_mode) && fstatat(directory, path, &found, 0) != 0)
        return errno == ENOENT || errno == ENOTDIR ? 'b' : '?';
    return S_ISDIR(found.st_mode) ? 'd' : S_ISLNK(found.st_mode) ? 'l' : 'f';
}

static int put(observer *one, char how, char found, const char *path) {
    const char head[2] = {how, found};
    append(one->seen, head, sizeof head);
    append(one->seen, path, strlen(path) + 1);
    return one->seen->failed || one->seen->size > MOST ? TOO_MANY : OBSERVED;
}

/* Lists the path of a call that is held. 0, or why there can be no list. */
static int note(observer *one, const struct held *held) {
    const struct made *made = &held->call;
    const call *known = call_of(made);
#ifdef ARCHITECTURE
    if (made->architecture != ARCHITECTURE)
        return UNKNOWN_CALL;
#endif
    if (!known || known->how == '?')
        return UNKNOWN_CALL;
    one->moved = one->moved || known->how == 'c';
    if (one->missed && one->moved)
        __atomic_store_n(&one->missed->stopped, 1, __ATOMIC_RELEASE);
    if (known->how == 'n' || (known->how == 'p' && !is_thread((pid_t)held->thread, made)))
        return put(one, known->how, '?', "");
    if (known->path == NONE)
        return OBSERVED;
    char path[PATH_MAX];
    const int size = read_path((pid_t)held->thread, made->arguments[known->path], path);
    if (size == NONE)
        return NOT_READABLE;
    if (size == 0 || size == PATH_MAX || is_own(path))
        return OBSERVED;
    const uint64_t flags = known->flags == NONE ? 0 : made->arguments[known->flags];
    char how = known->how;
    if (how == 'o')
        how = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) ? 'w' : flags & O_DIRECTORY ? 'd' : 'r';
    else if (how == 's' && flags & AT_SYMLINK_NOFOLLOW)
        how = 'l';
    else if (how == 'c')
        how = 's';
    const bool by_proc = one->moved && for_all(path) != path; /* no longer the directory in which the pass began */
    if (by_proc)
        memmove(path, for_all(path), strlen(for_all(path)) + 1);
    if (*path != '/') {
        const int base = known->directory == NONE || by_proc ? AT_FDCWD : (int)made->arguments[known->directory];
        char name[32] = "cwd";
        if (base != AT_FDCWD)
            snprintf(name, sizeof name, "fd/%d", base);
        if ((base != AT_FDCWD || one->moved) && !put_directory((pid_t)held->thread, name, path))
            return NOT_READABLE;
    }
    return put(one, how, how == 'w' ? 'f' : look(one->directory, for_all(path), how), path);
}

/* Once more than a list can hold was seen, calls are let go on unread. */
static void reply(observer *one) {
    struct held held = {0};
    if (ioctl(one->listener, RECEIVE, &held) != 0)
        return; /* the process was killed meanwhile */
    if (one->why == OBSERVED)
        one->why = note(one, &held);
    struct answer go_on = {.id = held.id, .flags = GO_ON};
    if (ioctl(one->listener, SEND, &go_on) != 0 && errno == EINVAL && one->why == OBSERVED) {
        /* Linux before 5.5 cannot let a call go on. The first one is execve: the pass does not begin, and is run
         * without us. */
        struct answer fail = {.id = held.id, .error = -ENOSYS};
        ioctl(one->listener, SEND, &fail);
        one->why = NO_FILTER;
    }
}

void *observer_run(void *context) {
    observer *one = context;
    one->listener = receive_descriptor(one->socket);
    if (one->listener < 0) {
        one->why = NO_FILTER;
        return NULL;
    }
    ioctl(one->listener, SET_FLAGS, 1UL); /* wake us where the pass runs: it waits for us anyway */
    /* The socket becomes readable when the pass has ended; what it has left behind has some time then. */
    struct pollfd watched[2] = {{one->listener, POLLIN, 0}, {one->socket, POLLIN, 0}};
    int patience = -1;
    for (;;) {
        const int ready = poll(watched, patience < 0 ? 2 : 1, patience);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            one->why = LEFT_BEHIND;
            break;
        }
        if (watched[0].revents & POLLIN)
            reply(one);
        else if (watched[0].revents)
            break; /* no process has the filter any more */
        if (patience < 0 && watched[1].revents)
            patience = PATIENCE_MS;
    }
    close(one->listener);
    return NULL;
}
