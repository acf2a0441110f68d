/* The files that a command writes. A direct record names outputs, and whoever may write into the store may have
 * written the record: so nothing is written but what the words of the command name, or what clang derives from them:
 *
 *     -o FILE                            the output; without it, for each input: its name with another ending, in the
 *                                        working directory
 *     -MF FILE                           the dependency file; with -MD alone: the output's name, ending in .d
 *     --serialize-diagnostics FILE       and the other options that name one
 *     -gsplit-dwarf, --coverage, ...     the output's name with an ending of their own
 *
 * Names of device passes have their arch between name and ending (k-hip-amdgcn-amd-amdhsa-gfx906.s, k_gfx906.dwo). A
 * command that says it otherwise (in a response file, a configuration file, a script) is the engine's affair, which
 * asks the driver. */
#define _GNU_SOURCE
#include "places.h"

#include <string.h>

/* Options whose value is the next word, of those that a compile may have (clang/driver_options.py: SEPARATE). Their
 * values are no inputs. */
/* clang-format off */
static const char *const SEPARATE[] = {
    "-x", "--language", "-I", "--include-directory", "-D", "--define-macro", "-U", "--undefine-macro", "-include",
    "--include", "-imacros", "--imacros", "-isystem", "-iquote", "-idirafter", "-isysroot", "--sysroot", "-cxx-isystem",
    "-stdlib++-isystem", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-iwithsysroot", "-iframework", "-MT", "-MQ",
    "-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xoffload-linker", "-Xopenmp-target", "-Xthinlto", "-mllvm",
    "-target", "--target", "-arch", "-L", "--library-directory", "-l", "-B", "--prefix", "-G", "-resource-dir",
    "-working-directory", "--param", "--config", "-dumpdir", "-dumpbase", "-gcc-toolchain", "-mthread-model", NULL};
/* clang-format on */

static bool is_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

/* The rest of the word behind `start`; NULL if it begins otherwise. */
static const char *after(const char *word, const char *start) {
    const size_t size = strlen(start);
    return strncmp(word, start, size) == 0 ? word + size : NULL;
}

/* Goes from word to word: an input, or NULL for an option, whose `value` is the next word if it takes one. */
typedef struct {
    char *const *next;
    bool inputs_only;
    const char *option, *value, *input;
} walk;

static bool step(walk *at) {
    static const char *const FILES[] = {"-o", "--output", "-MF", "--serialize-diagnostics", "-serialize-diagnostics",
                                        NULL};
    at->option = at->value = at->input = NULL;
    if (!*at->next)
        return false;
    const char *word = *at->next++;
    if (at->inputs_only || word[0] != '-') {
        at->input = word;
    } else if (strcmp(word, "--") == 0) {
        at->inputs_only = true;
    } else {
        at->option = word;
        if (*at->next && (is_one_of(word, FILES) || is_one_of(word, SEPARATE) || after(word, "-Xarch_")))
            at->value = *at->next++;
    }
    return true;
}

static bool names(const char *option, const char *one, const char *other) {
    return strcmp(option, one) == 0 || strcmp(option, other) == 0;
}

/* One option. Where several name the output, the last counts. */
static void read_option(places *of, const char *option, const char *value) {
    const char *rest;
    if (names(option, "-o", "--output"))
        of->output = value;
    else if ((rest = after(option, "--output=")))
        of->output = rest;
    else if ((rest = after(option, "-o")) && !after(option, "-object") && !after(option, "-objc"))
        of->output = rest;
    else if (strcmp(option, "-MF") == 0)
        of->rule = value;
    else if ((rest = after(option, "-MF")))
        of->rule = rest;
    else if ((rest = after(option, "-Wp,-MD,")) || (rest = after(option, "-Wp,-MMD,")))
        of->rules = true, of->rule = strchr(rest, ',') ? NULL : rest;
    else if (names(option, "-MD", "-MMD") || names(option, "--write-dependencies", "--write-user-dependencies"))
        of->rules = true;
    else if (names(option, "--serialize-diagnostics", "-serialize-diagnostics"))
        of->messages_file = value;
    else if ((rest = after(option, "-foptimization-record-file=")))
        of->remarks_file = rest;
    else if (after(option, "-fsave-optimization-record"))
        of->remarks = true;
    else if (after(option, "-gsplit-dwarf"))
        of->split_debug = true;
    else if (strcmp(option, "-fstack-usage") == 0)
        of->stack_usage = true;
    else if (names(option, "--coverage", "-coverage") || strcmp(option, "-ftest-coverage") == 0)
        of->coverage = true;
}

places places_of(const char *directory, char *const *argv) {
    places found = {.directory = directory, .argv = argv};
    for (walk at = {.next = argv + 1}; step(&at);)
        if (at.option)
            read_option(&found, at.option, at.value);
    return found;
}

/* The rest of the path behind the working directory; all of it if `name` is absolute. NULL: it lies elsewhere. */
static const char *in_directory(const places *of, const char *name, const char *path) {
    if (name[0] == '/')
        return path;
    const char *rest = after(path, of->directory);
    if (rest && of->directory[1] == 0)
        return rest; /* the root */
    return rest && *rest == '/' ? rest + 1 : NULL;
}

static bool is(const places *of, const char *name, const char *path) {
    const char *rest = name && *name ? in_directory(of, name, path) : NULL;
    return rest && strcmp(rest, name) == 0;
}

/* Nothing, or what names a pass: "-hip-amdgcn-amd-amdhsa-gfx906", "-host-x86_64-unknown-linux-gnu", "_gfx906". */
static bool is_pass(const char *text, size_t size) {
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+:@-";
    return size == 0 || ((after(text, "-hip-amdgcn-") || after(text, "-host-") || after(text, "_gfx")) &&
                         strspn(text, LETTERS) >= size);
}

/* Is it the first `size` bytes of `name`, a pass, and `ending`? */
static bool is_derived(const places *of, const char *name, size_t size, const char *ending, const char *path) {
    const char *rest = size ? in_directory(of, name, path) : NULL;
    if (!rest || strncmp(rest, name, size) != 0)
        return false;
    rest += size;
    const size_t more = strlen(rest), tail = strlen(ending);
    return more >= tail && strcmp(rest + more - tail, ending) == 0 && is_pass(rest, more - tail);
}

static const char *base_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Bytes of the name without its ending, as llvm::sys::path::replace_extension cuts it. */
static size_t stem(const char *name) {
    const char *dot = strrchr(base_name(name), '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Has it the output's name (or without one, that of any input, in the working directory) with this ending? */
static bool is_beside(const places *of, const char *ending, const char *path) {
    if (of->output)
        return is_derived(of, of->output, stem(of->output), ending, path);
    for (walk at = {.next = of->argv + 1}; step(&at);)
        if (at.input && is_derived(of, base_name(at.input), stem(base_name(at.input)), ending, path))
            return true;
    return false;
}

/* The output of a command that does not name it. */
static bool is_default(const places *of, const char *path) {
    static const char *const ENDINGS[] = {".o", ".s", ".bc", ".ll", ".out", ".hipfb", NULL};
    if (of->output)
        return false;
    for (const char *const *ending = ENDINGS; *ending; ending++)
        if (is_beside(of, *ending, path))
            return true;
    for (walk at = {.next = of->argv + 1}; step(&at);) { /* k.hip-hip-amdgcn-amd-amdhsa.hipfb */
        const char *name = at.input ? base_name(at.input) : "";
        if (is_derived(of, name, strlen(name), ".hipfb", path))
            return true;
    }
    return false;
}

bool places_allow_output(const places *of, const char *path) {
    return is(of, of->output, path) || is_default(of, path) || is(of, of->remarks_file, path) ||
           is(of, of->messages_file, path) || (of->split_debug && is_beside(of, ".dwo", path)) ||
           (of->remarks && is_beside(of, ".opt.yaml", path)) || (of->stack_usage && is_beside(of, ".su", path)) ||
           (of->coverage && is_beside(of, ".gcno", path));
}

bool places_allow_rule(const places *of, const char *path) {
    return of->rule ? is(of, of->rule, path) : of->rules && is_beside(of, ".d", path);
}

/* Words that make (GNU make manual, "Index of functions, variables, and directives") reads as no rule. */
static bool is_directive(const uint8_t *line, size_t size) {
    static const char *const WORDS[] = {"include", "-include", "sinclude", "load",    "-load", "define", "undefine",
                                        "export",  "unexport", "override", "private", "vpath", "ifdef",  "ifndef",
                                        "ifeq",    "ifneq",    "else",     "endif",   "endef", NULL};
    size_t end = 0;
    while (end < size && line[end] != ' ' && line[end] != '\n')
        end++;
    for (const char *const *word = WORDS; *word; word++)
        if (strlen(*word) == end && memcmp(*word, line, end) == 0)
            return true;
    return false;
}

/* clang's file has rules only: targets, a colon, and names. A recipe would begin with a tab or follow a semicolon,
 * a variable have "=", a function "$"; names with one of these are rare, and the engine's affair. */
bool is_harmless_rule(const uint8_t *text, size_t size) {
    unsigned bad = size && text[size - 1] != '\n';
    for (size_t i = 0; i < size; i++)
        bad |= (unsigned)(text[i] < ' ' && text[i] != '\n') | (unsigned)(text[i] == '$') | (unsigned)(text[i] == ';') |
               (unsigned)(text[i] == '=');
    bool continued = false;
    for (const uint8_t *line = text, *end = text + size; !bad && line < end;) {
        const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)(stop - line);
        if (!continued)
            bad |= length && (line[0] == ' ' || is_directive(line, length + 1));
        continued = length && stop[-1] == '\\';
        line = stop + 1;
    }
    return !bad;
}

bool is_history_name(const char *name) {
    static const char DIGITS[] = "0123456789abcdef";
    const char *object = after(name, "history/"), *command = object ? strchr(object, '/') : NULL;
    if (!command || strspn(command + 1, DIGITS) != 16 || command[17] != 0)
        return false;
    const size_t size = (size_t)(command - object);
    return (size == 32 && strspn(object, DIGITS) >= size) || (size == 7 && after(object, "unnamed"));
}
