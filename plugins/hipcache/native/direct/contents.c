/* Compares the contents of all that a record lists: direct/record.py has the format and the reasons.
 * The newest file is read first, as it is most likely the one that was edited. */
#define _GNU_SOURCE
#include "look.h"
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A regular file that is still to be read: where its path stands in `paths`, the digest that it should have, and the
 * status that is in the state. */
typedef struct {
    size_t path;
    const uint8_t *digest;
    struct stat status;
} unread;

typedef struct {
    looking at;
    record *of;
    bytes expected;      /* what is left of the contents */
    bytes paths, files;  /* of `unread` */
    bytes same;          /* device and inode of each 'i' */
    bytes guards;        /* for each guard its new digits, or zeros */
    char directory[PATH_MAX]; /* of the last guard, if it may be renewed; else empty */
    uint64_t old;        /* nanoseconds of the epoch: what changed since is too young */
    bool lasting;        /* does the state stand for the contents? */
    uint8_t *buffer;     /* PIECE_BYTES */
} survey;

static bool expect(survey *of, const void *text, size_t size) {
    if (size > of->expected.size || memcmp(of->expected.at, text, size) != 0)
        return false;
    of->expected.at += size, of->expected.size -= size;
    return true;
}

static bool expect_number(survey *of, uint64_t value) {
    uint8_t room[8];
    bytes raw = BEGINS_IN(room);
    look_number(&raw, value);
    return expect(of, room, sizeof room);
}

static uint64_t type_of(const struct stat *found) {
    return (found->st_mode & S_IFMT) | (S_ISREG(found->st_mode) ? found->st_mode & 0111 : 0);
}

/* A directory that is another one. It may stand for the names that are looked for below it from now on, unless one of
 * them fails further down (inputs/watched.py). Its status is taken before they are looked for. */
static void see_guard(survey *of, const char *text) {
    const char *path = text + GUARD_DIGITS;
    char digits[GUARD_DIGITS + 1] = {0};
    struct stat found;
    of->directory[0] = 0;
    of->at.guarded = false;
    const bool there = stat(path, &found) == 0 && S_ISDIR(found.st_mode) && look_allows(path, &found, X_OK);
    if (there)
        look_digits(&found, digits);
    if (there && memcmp(digits, text, GUARD_DIGITS) == 0)
        of->at.guarded = true;
    else if (there && look_last_change(&found) < of->old && strlen(path) < PATH_MAX && look_keeps_times(path))
        strcpy(of->directory, path);
    if (!of->directory[0])
        memset(digits, 0, sizeof digits);
    append(&of->guards, digits, GUARD_DIGITS);
}

/* Is already the next step below the guard's directory missing? */
static bool is_missing_in_guard(survey *of, const char *path) {
    char step[PATH_MAX];
    struct stat found;
    const size_t length = strlen(of->directory), root = length == 1;
    if (strncmp(path, of->directory, length) == 0 && (root || path[length] == '/') && strlen(path) < PATH_MAX) {
        const size_t end = length + !root + strcspn(path + length + !root, "/");
        memcpy(step, path, end);
        step[end] = 0;
        if (end > length + !root && fstatat(AT_FDCWD, step, &found, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
            return true;
    }
    of->directory[0] = 0;
    memset(of->guards.at + of->guards.size - GUARD_DIGITS, 0, GUARD_DIGITS);
    return false;
}

static bool see_missing(survey *of, char kind, const char *path) {
    struct stat found;
    return of->at.guarded || (of->directory[0] && is_missing_in_guard(of, path)) ||
           (look_status(&of->at, path, kind == 'a' ? AT_SYMLINK_NOFOLLOW : 0, &found) != 0 &&
            (errno == ENOENT || errno == ENOTDIR));
}

static bool see_file(survey *of, const char *path, const struct stat *found) {
    uint8_t digest[DIGEST_BYTES] = {0};
    if (!expect_number(of, type_of(found)))
        return false;
    if (S_ISREG(found->st_mode)) {
        if (!look_allows(path, found, R_OK)) /* a claim about its content spares opening it */
            return false;
        if (!expect_number(of, (uint64_t)found->st_size) || of->expected.size < DIGEST_BYTES)
            return false;
        const unread one = {of->paths.size, of->expected.at, *found};
        append(&of->paths, path, strlen(path) + 1), append(&of->files, &one, sizeof one);
        of->expected.at += DIGEST_BYTES, of->expected.size -= DIGEST_BYTES;
        of->lasting = of->lasting && look_keeps_change_time(path, found); /* no claim counts for the whole, either */
    } else if (S_ISDIR(found->st_mode)) {
        of->lasting = of->lasting && look_is_old(path, found, of->old) && look_keeps_times(path);
        if (!expect_number(of, 0) || !look_entries(path, digest) || !expect(of, digest, DIGEST_BYTES))
            return false;
    } else if (!S_ISCHR(found->st_mode) || !expect_number(of, found->st_rdev) || !expect(of, digest, DIGEST_BYTES)) {
        return false;
    }
    append_status(&of->at.state, found);
    return true;
}

/* The first of the paths with this device and inode. */
static bool see_same(survey *of, const struct stat *found) {
    const uint64_t numbers[2] = {found->st_dev, found->st_ino};
    size_t place = 0;
    while (place < of->same.size && memcmp(of->same.at + place, numbers, sizeof numbers) != 0)
        place += sizeof numbers;
    if (place == of->same.size)
        append(&of->same, numbers, sizeof numbers);
    return !of->same.failed && expect_number(of, place / sizeof numbers);
}

/* Compares one path but for the content of a regular file, and adds its state. */
static bool see(void *context, const uint8_t *text, size_t size) {
    survey *of = context;
    struct stat found;
    uint8_t digest[DIGEST_BYTES];
    char target[PATH_MAX];
    if (size < 2 || strlen((const char *)text) != size || (text[0] == 'd' && size < 2 + GUARD_DIGITS))
        return false;
    if (of->at.named)
        append(&of->at.state, text, size + 1);
    const char kind = (char)text[0], *path = (const char *)text + 1;
    if (kind == 'd') {
        see_guard(of, path);
        return true;
    }
    if (kind == 'a' || kind == 'n')
        return see_missing(of, kind, path);
    of->at.guarded = false, of->directory[0] = 0;
    if (look_status(&of->at, path, kind == 'l' ? AT_SYMLINK_NOFOLLOW : 0, &found) != 0)
        return false;
    bytes *state = &of->at.state;
    switch (kind) {
    case 'f':
        return see_file(of, path, &found);
    case 'm':
        look_number(state, found.st_mode);
        return expect_number(of, type_of(&found));
    case 'e':
        if (!look_entries(path, digest))
            return false;
        append(state, digest, DIGEST_BYTES);
        return expect(of, digest, DIGEST_BYTES);
    case 'i':
    case 'o':
        look_number(state, found.st_dev), look_number(state, found.st_ino);
        return kind == 'i' ? see_same(of, &found) : expect(of, state->at + state->size - 16, 16);
    case 'p':
        return look_processor(state) && expect(of, state->at + state->size - DIGEST_BYTES, DIGEST_BYTES);
    case 'l': {
        const ssize_t length = look_link(path, &found, target);
        if (length < 0 || !expect_number(of, type_of(&found)) || !expect_number(of, (uint64_t)length) ||
            !expect(of, target, (size_t)length))
            return false;
        look_number(state, found.st_mode), look_number(state, (uint64_t)length);
        append(state, target, (size_t)length);
        return true;
    }
    default:
        return false;
    }
}

static bool reading_holds(survey *of, const unread *one) {
    const char *path = (const char *)of->paths.at + one->path;
    const bool old = look_is_old(path, &one->status, of->old);
    of->lasting = of->lasting && old;
    return file_holds(of->of, path, &one->status, one->digest, old, of->buffer);
}

static int by_change(const void *one, const void *other) {
    const uint64_t first = look_last_change(&((const unread *)one)->status);
    const uint64_t second = look_last_change(&((const unread *)other)->status);
    return first < second ? 1 : first > second ? -1 : 0;
}

static bool read_files(survey *of) {
    unread *files = (unread *)(void *)of->files.at;
    const size_t count = of->files.size / sizeof *files;
    bool good = true;
    of->buffer = count ? malloc(PIECE_BYTES) : NULL;
    if (count && !of->buffer)
        return false;
    if (count)
        qsort(files, count, sizeof *files, by_change);
    for (size_t i = 0; good && i < count; i++)
        good = reading_holds(of, &files[i]);
    free(of->buffer);
    return good;
}

static uint64_t old_for(const record *found) {
    uint64_t racy = 0;
    for (int i = 8; i--;)
        racy = racy << 8 | found->racy.at[i];
    return racy < found->began ? found->began - racy : 0;
}

static void survey_begin(survey *of, record *found, bytes contents, bool system, uint8_t *room, size_t size) {
    *of = (survey){.at = look_begin(room, size, system), .of = found, .expected = contents, .old = old_for(found)};
    of->lasting = true;
}

/* All but the content of regular files. Then `state` is the digest of the state. */
static bool surveyed(survey *of, bytes watched, uint8_t state[DIGEST_BYTES]) {
    const char *base = of->at.named ? NULL : of->of->base; /* no path of the system lies in it */
    const bool good = of->expected.size && unpack_local(watched, base, see, of) && of->expected.size == 0;
    const bytes *texts[] = {&of->at.state, &of->paths, &of->files, &of->same, &of->guards};
    bool whole = true;
    look_leave(&of->at);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        whole = whole && !texts[i]->failed;
    if (good && whole)
        blake3(of->at.state.at, of->at.state.size, state);
    return good && whole;
}

static void survey_end(survey *of) {
    release(&of->at.state), release(&of->paths), release(&of->files), release(&of->same), release(&of->guards);
}

bool contents_hold(record *found) {
    uint8_t room[1 << 14];
    survey of;
    survey_begin(&of, found, found->contents, false, room, sizeof room);
    const bool good = surveyed(&of, found->watched, found->new_state) && read_files(&of);
    found->refresh_state = good && of.lasting;
    if (found->refresh_state) {
        found->guards = of.guards;
        of.guards = (bytes){0};
    }
    survey_end(&of);
    return good;
}

/* The turn to read compilers and their libraries, some 200 MB: with a new store all compiles of a build begin with
 * that, and one of them does it for all. A descriptor to close, or -1: somebody is at it for long, or there is no
 * place for it. */
static int take_turn(void) {
    enum { TRIES = 100, PAUSE = 5000000 }; /* nanoseconds: half a second in all */
    char path[PATH_MAX];
    const int fd = runtime_place(path, "reading.lock", "") ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                                                           : -1;
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        const struct timespec moment = {0, PAUSE};
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        nanosleep(&moment, NULL);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A system's state that was found to have these contents once is known to all records that list it. */
bool system_contents_hold(record *found) {
    uint8_t room[1 << 14];
    char blob[ENTRY_NAME_BYTES];
    bytes contents = {0}, claim = {0};
    survey of;
    bool good = blob_name(blob, found->system_contents.at) &&
                read_blob(found, blob, found->system_contents.at, MOST_LIST, &contents);
    survey_begin(&of, found, contents, true, room, sizeof room);
    if ((good = good && surveyed(&of, found->system_watched, found->new_system))) {
        system_claim(found, found->new_system, &claim);
        const bool claims = of.lasting && !claim.failed;
        if (!(claims && claim_is_known(found, claim))) {
            /* If nothing can be noted, nobody is served by the others' reading. */
            const bool notes = claims && !found->readonly && faccessat(found->store, "actions", W_OK, AT_EACCESS) == 0;
            const int turn = notes ? take_turn() : -1;
            good = (turn >= 0 && claim_is_known(found, claim)) || read_files(&of);
            if (good && of.lasting && !claim.failed)
                claim_keep(found, claim);
            if (turn >= 0)
                close(turn);
        }
    }
    found->refresh_system = good && of.lasting;
    if (found->refresh_system) {
        memcpy(found->system.at, found->new_system, DIGEST_BYTES);
        system_note(found);
    }
    survey_end(&of);
    release(&contents), release(&claim);
    return good;
}
