/* What test_observer.py has observed, by its first word. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void look(const char *name) {
    struct stat found;
    (void)!stat(name, &found);
}

static void *many(void *number) {
    char name[64];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "thread%ld/%d", (long)number, i);
        look(name);
    }
    return NULL;
}

int main(int count, char **words) {
    char text[64];
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "all")) {
        close(open("there", O_RDONLY));
        close(open("gone", O_RDONLY));
        close(open("written", O_WRONLY | O_CREAT, 0666));
        close(open("written", O_RDONLY));
        look("directory");
        look("dangling");
        (void)!readlink("link", text, sizeof text);
        (void)!access("asked", F_OK);
        const int fd = open("directory", O_RDONLY);
        close(openat(fd, "below", O_RDONLY));
        puts("out");
        fputs("err", stderr);
        return 7;
    }
    if (!strcmp(what, "child")) {
        if (fork() == 0) {
            (void)!chdir("directory");
            look("by_child");
            close(open("opened_by_child", O_RDONLY));
            execl(words[0], words[0], "exec", NULL);
        }
        wait(NULL);
    }
    if (!strcmp(what, "exec"))
        look("after_exec");
    if (!strcmp(what, "threads")) {
        pthread_t threads[100];
        for (long i = 0; i < 100; i++)
            pthread_create(&threads[i], NULL, many, (void *)i);
        for (int i = 0; i < 100; i++)
            pthread_join(threads[i], NULL);
    }
    if (!strcmp(what, "long")) {
        char *name = malloc(65537);
        memset(name, 'x', 65536);
        name[65536] = 0;
        look(name);
        look("after");
    }
    if (!strcmp(what, "crash"))
        raise(SIGSEGV);
    if (!strcmp(what, "leave") && fork() == 0)
        sleep(100);
    if (!strcmp(what, "sleep")) {
        FILE *file = fopen("started", "w");
        fprintf(file, "%d", (int)getpid());
        fclose(file);
        rename("started", "running");
        sleep(60);
    }
    if (!strcmp(what, "socket"))
        close(socket(AF_UNIX, SOCK_STREAM, 0));
    if (!strcmp(what, "vfork") && vfork() == 0)
        _exit(0);
    if (!strcmp(what, "chroot"))
        (void)!chroot(".");
    return 0;
}
