#define _GNU_SOURCE
#include "logs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void add(bytes *text, const char *more) { append(text, more, strlen(more)); }

/* A string of JSON. Bytes that are no UTF-8 stay what they are: who reads them takes them for a path's. */
static void quote(bytes *text, const char *from, size_t size) {
    char escaped[8];
    append(text, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        const unsigned char one = (unsigned char)from[i];
        if (one == '"' || one == '\\')
            append(text, (char[]){'\\', (char)one}, 2);
        else if (one < 0x20)
            append(text, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", one));
        else
            append(text, &from[i], 1);
    }
    append(text, "\"", 1);
}

static void quote_words(bytes *text, char *const *words) {
    for (char *const *word = words; *word; word++)
        add(text, word == words ? "" : ", "), quote(text, *word, strlen(*word));
}

/* The fields of the next line: `CRC TAB fields`. False at the end. */
static bool next_counted(bytes *rest, bytes *fields) {
    while (rest->size) {
        const uint8_t *end = memchr(rest->at, '\n', rest->size);
        bytes line = LENT(rest->at, end ? (size_t)(end - rest->at) : rest->size);
        const size_t taken = line.size + (end != NULL);
        rest->at += taken, rest->size -= taken;
        const uint8_t *tab = memchr(line.at, '\t', line.size);
        if (tab) {
            *fields = LENT(line.at + (tab + 1 - line.at), line.size - (size_t)(tab + 1 - line.at));
            return true;
        }
    }
    return false;
}

/* The name of the nth output, from the working directory where it is not known. */
static void add_object(bytes *text, const ended_compile *told, size_t number) {
    char path[PATH_MAX] = "";
    if (told->served)
        direct_output(told->served, number, path);
    for (char *const *word = told->argv; !path[0] && *word; word++)
        if (strcmp(*word, "-o") == 0 && word[1] &&
            snprintf(path, sizeof path, "%s%s%s", word[1][0] == '/' ? "" : told->directory,
                     word[1][0] == '/' ? "" : "/", word[1]) >= PATH_MAX)
            path[0] = 0;
    quote(text, path, strlen(path));
}

static void add_json(bytes *text, const ended_compile *told, bytes fields, size_t number, uint64_t now, bool words) {
    char figures[128];
    const uint64_t began = told->began && told->began < now ? told->began : now, took = (now - began) / 1000;
    snprintf(figures, sizeof figures,
             "{\"format\": 1, \"began\": %llu.%06llu, \"seconds\": %llu.%06llu, \"pid\": %ld, \"directory\": ",
             (unsigned long long)(began / 1000000000), (unsigned long long)(began / 1000 % 1000000),
             (unsigned long long)(took / 1000000), (unsigned long long)(took % 1000000), (long)getpid());
    add(text, figures), quote(text, told->directory, strlen(told->directory));
    add(text, ", \"object\": "), add_object(text, told, number);
    add(text, told->served ? ", \"direct\": true, \"counted\": [" : ", \"direct\": false, \"counted\": [");
    quote(text, (const char *)fields.at, fields.size), add(text, "]");
    if (words)
        add(text, ", \"command\": ["), quote_words(text, told->argv), add(text, "]");
    add(text, "}\n");
}

/* As the engine writes it: outcome, reason, a detail (none here), the words of the command. */
static void add_text(bytes *text, const ended_compile *told, bytes fields, uint64_t now) {
    char when[64];
    struct tm local;
    const time_t seconds = (time_t)(now / 1000000000);
    const size_t size = localtime_r(&seconds, &local) ? strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &local) : 0;
    append(text, when, size);
    append(text, when, (size_t)snprintf(when, sizeof when, " %ld ", (long)getpid()));
    for (size_t i = 0, tabs = 0; i < fields.size && (tabs += fields.at[i] == '\t') < 2; i++)
        append(text, fields.at[i] == '\t' ? (const uint8_t *)" " : &fields.at[i], 1);
    add(text, " ");
    for (char *const *word = told->argv; *word; word++) {
        add(text, " ");
        for (const char *one = *word; *one; one++)
            append(text, *one == '\n' ? " " : one, 1);
    }
    add(text, "\n");
}

/* Half a line, or the next one would go on in it. Not where another process has appended since. */
static void take_back(int fd, size_t written) {
    const int error = errno;
    struct stat found;
    const off_t end = lseek(fd, 0, SEEK_CUR);
    if (written && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == end)
        (void)!ftruncate(fd, end - (off_t)written);
    errno = error;
}

/* A pipe may have no reader, or one that has stopped to read: the compile waits for no log longer than a second.
 * What has no room for all of it is told by the write of the rest. */
static bool write_soon(int fd, const bytes *text) {
    enum { WAITS = 100, MILLISECONDS = 10 };
    struct pollfd ready = {fd, POLLOUT, 0};
    size_t done = 0;
    for (int waits = 0; done < text->size;) {
        const ssize_t written = write(fd, text->at + done, text->size - done);
        if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno != EAGAIN || waits++ == WAITS) {
            take_back(fd, done);
            return false;
        } else {
            poll(&ready, 1, MILLISECONDS);
        }
    }
    return true;
}

static void write_log(const char *path, const bytes *text) {
    const int fd = text->failed ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0 || !write_soon(fd, text))
        fprintf(stderr, "hipcache: cannot write the log '%s': %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void logs_append(const logs *to, const ended_compile *told) {
    uint8_t room[1 << 13], more[1 << 13];
    bytes log = BEGINS_IN(room), stats = BEGINS_IN(more), rest = told->counted, fields;
    struct timespec clock;
    if (!to->log[0] && !to->stats[0])
        return;
    clock_gettime(CLOCK_REALTIME, &clock);
    const uint64_t now = (uint64_t)clock.tv_sec * 1000000000 + (uint64_t)clock.tv_nsec;
    for (size_t number = 0; next_counted(&rest, &fields); number++) {
        if (to->stats[0])
            add_json(&stats, told, fields, number, now, false);
        if (to->log[0] && to->json)
            add_json(&log, told, fields, number, now, true);
        else if (to->log[0])
            add_text(&log, told, fields, now);
    }
    if (to->log[0])
        write_log(to->log, &log);
    if (to->stats[0])
        write_log(to->stats, &stats);
    release(&log), release(&stats);
}
