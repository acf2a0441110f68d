/* The part of a module's bitcode that matters to a back end, without the place of its source and the offsets in the
 * file; see clang/bitcode.py. Format: LLVM Language Reference, "LLVM Bitcode File Format"
 * (llvm.org/docs/BitCodeFormat.html).
 *
 * The text that comes out: the block of identification as it is; of the module each block at its top as it is (its
 * number first, and of the symbols' block the records), each record as its numbers; the names in the block of names
 * that records have. A back end uses nothing else of a module. */
#include "direct.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKINFO = 0, MODULE = 8, ATTRIBUTES, ATTRIBUTE_GROUPS, CONSTANTS, BODY, IDENTIFICATION, SYMBOLS };
enum { TYPES = 17, STRTAB = 23, SYMTAB = 25, BLOCKS = 27 };
/* Records of a module, and that of the block about blocks which says what block is meant. */
enum { VERSION = 1, COMDAT = 12, VSTOFFSET = 13, SOURCE_FILENAME = 16, SETBID = 1, FUNCTION_ENTRY = 3 };
enum { ASSEMBLY = 4, SECTION_NAME = 5, VARIABLE = 7, FUNCTION = 8, ALIAS = 14, IFUNC = 18 };
/* Inline assembly among constants, as each LLVM wrote it; the last code that is known. */
enum { INLINE_OLD = 18, INLINE_OLD2 = 23, INLINE_OLD3 = 28, INLINE = 30, LAST_CONSTANT = 36 };
enum { END, ENTER, DEFINE, UNABBREVIATED };
enum { FIXED = 1, VBR, ARRAY, CHAR6, BLOB };
enum { MOST_OPERANDS = 32, MOST_ABBREVIATIONS = 32 };

typedef struct {
    uint64_t value;   /* a literal, or a width */
    uint8_t encoding; /* 0: a literal */
} operand;

typedef struct {
    operand operands[MOST_OPERANDS];
    size_t count;
} abbreviation;

typedef struct {
    abbreviation each[MOST_ABBREVIATIONS];
    size_t count;
} abbreviations;

typedef struct {
    uint64_t *at;
    size_t count, room;
} numbers;

typedef struct {
    const uint8_t *content;
    size_t size, position; /* of the content in bytes; in bits */
    jmp_buf unknown;       /* not bitcode as it is known here */
    numbers record;        /* the last one: its code and operands */
    const uint8_t *blob;   /* of that record */
    size_t blob_size;
    uint64_t names;         /* the end of the names that records of the module have */
    numbers bodies;         /* which functions have one, and where */
    abbreviations known[BLOCKS]; /* for each kind of block, from the block about blocks */
    abbreviations here;          /* of the block that is read */
    bytes *out;
} reader;

typedef struct {
    uint64_t number;
    unsigned width;
    size_t start, end; /* bytes */
} block;

static _Noreturn void give_up(reader *r) { longjmp(r->unknown, 1); }

static uint64_t fixed(reader *r, unsigned width) {
    uint64_t value = 0;
    if (width > 64 || r->position + width > r->size * 8)
        give_up(r);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (width <= 56 && (r->position >> 3) + sizeof value <= r->size) {
        memcpy(&value, r->content + (r->position >> 3), sizeof value);
        value = value >> (r->position & 7) & (((uint64_t)1 << width) - 1);
        r->position += width;
        return value;
    }
#endif
    for (unsigned got = 0; got < width;) {
        const unsigned shift = r->position & 7, take = 8 - shift < width - got ? 8 - shift : width - got;
        value |= (uint64_t)(r->content[r->position >> 3] >> shift & ((1u << take) - 1)) << got;
        got += take;
        r->position += take;
    }
    return value;
}

static uint64_t vbr(reader *r, unsigned width) {
    const uint64_t more = (uint64_t)1 << (width - 1);
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += width - 1) {
        const uint64_t piece = fixed(r, width), digits = piece & (more - 1);
        if (shift >= 64 ? digits != 0 : (digits << shift) >> shift != digits)
            give_up(r);
        if (shift < 64)
            value |= digits << shift;
        if (!(piece & more))
            return value;
    }
}

static void align(reader *r) { r->position = (r->position + 31) & ~(size_t)31; }

static block enter(reader *r) {
    block found = {.number = vbr(r, 8)};
    const uint64_t width = vbr(r, 4);
    align(r);
    const uint64_t words = fixed(r, 32);
    found.start = r->position / 8;
    if (!width || width > 32 || words > (r->size - found.start) / 4)
        give_up(r);
    found.width = (unsigned)width;
    found.end = found.start + words * 4;
    return found;
}

/* What is read of a block ends where its head says: else what it holds would be read again behind it, and again in each
 * block in it. */
static void leave(reader *r, const block *left) {
    align(r);
    if (r->position != left->end * 8)
        give_up(r);
}

static void define(reader *r, abbreviations *known) {
    if (known->count == MOST_ABBREVIATIONS)
        give_up(r);
    abbreviation *new = &known->each[known->count++];
    const uint64_t count = vbr(r, 5);
    if (count > MOST_OPERANDS)
        give_up(r);
    new->count = count;
    for (size_t i = 0; i < count; i++) {
        operand *one = &new->operands[i];
        if (fixed(r, 1)) {
            *one = (operand){vbr(r, 8), 0};
            continue;
        }
        const uint8_t encoding = (uint8_t)fixed(r, 3);
        const uint64_t width = encoding == FIXED || encoding == VBR ? vbr(r, 5) : 0;
        if (encoding < FIXED || encoding > BLOB || width > 64 || ((encoding == FIXED || encoding == VBR) && !width))
            give_up(r);
        *one = (operand){width, encoding};
    }
}

static void push(reader *r, numbers *list, uint64_t value) {
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 256;
        uint64_t *more = realloc(list->at, room * sizeof *more);
        if (!more)
            give_up(r);
        list->at = more;
        list->room = room;
    }
    list->at[list->count++] = value;
}

static uint64_t scalar(reader *r, const operand *kind) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
    if (!kind->encoding)
        return kind->value;
    if (kind->encoding == CHAR6)
        return (uint8_t)LETTERS[fixed(r, 6)];
    if (kind->encoding != FIXED && (kind->encoding != VBR || kind->value < 2))
        give_up(r);
    return kind->encoding == FIXED ? fixed(r, (unsigned)kind->value) : vbr(r, (unsigned)kind->value);
}

/* A record into `record` and `blob`. */
static void take_record(reader *r, uint64_t kind, const abbreviations *known) {
    r->record.count = 0;
    r->blob_size = 0;
    if (kind == UNABBREVIATED) {
        push(r, &r->record, vbr(r, 6));
        for (uint64_t left = vbr(r, 6); left; left--)
            push(r, &r->record, vbr(r, 6));
        return;
    }
    if (kind < 4 || kind - 4 >= known->count)
        give_up(r);
    const abbreviation *how = &known->each[kind - 4];
    for (size_t i = 0; i < how->count; i++) {
        const operand *one = &how->operands[i];
        if (one->encoding == ARRAY) {
            if (++i == how->count || !how->operands[i].encoding)
                give_up(r);
            for (uint64_t left = vbr(r, 6); left; left--)
                push(r, &r->record, scalar(r, &how->operands[i]));
        } else if (one->encoding == BLOB) {
            const uint64_t size = vbr(r, 6);
            align(r);
            const size_t start = r->position / 8;
            if (start > r->size || size > r->size - start)
                give_up(r);
            r->blob = r->content + start;
            r->blob_size = size;
            r->position += size * 8;
            align(r);
        } else {
            push(r, &r->record, scalar(r, one));
        }
    }
    if (!r->record.count)
        give_up(r);
}

static void start_with(abbreviations *to, const abbreviations *from) {
    to->count = from->count;
    memcpy(to->each, from->each, from->count * sizeof from->each[0]);
}

/* A part of the text: a letter for its kind, its size, and `size` bytes. */
static void write_part(reader *r, char kind, const void *content, size_t size) {
    const uint64_t length = size;
    append(r->out, &kind, 1);
    append(r->out, &length, sizeof length);
    if (size)
        append(r->out, content, size);
}

static void write_numbers(reader *r, char kind, const uint64_t *list, size_t count) {
    write_part(r, kind, list, count * sizeof *list);
}

static void module_record(reader *r) {
    const uint64_t code = r->record.at[0], *operands = r->record.at + 1;
    const size_t count = r->record.count - 1;
    if (code == IFUNC || (code == VERSION && (count != 1 || operands[0] != 2)))
        give_up(r);
    if (code == SOURCE_FILENAME) { /* only its last part: some passes name what they make by it */
        size_t last = 0;
        for (size_t i = 0; i < count; i++)
            if (operands[i] == '/')
                last = i + 1;
        write_numbers(r, 's', operands + last, count - last);
        return;
    }
    if (code == VSTOFFSET) { /* where the symbols stand in the file */
        write_numbers(r, 'o', NULL, 0);
        return;
    }
    /* The first two operands are a name (where it begins, its size); of a partition there is a second one. */
    const size_t second = code == VARIABLE ? 16 : code == FUNCTION ? 19 : code == ALIAS ? 11 : 0;
    const size_t places[] = {0, second};
    for (size_t i = 0; i < (second ? 2 : code == COMDAT ? 1 : 0); i++)
        if (places[i] + 1 < count) {
            const uint64_t end = operands[places[i]] + operands[places[i] + 1];
            r->names = end > r->names ? end : r->names;
        }
    write_numbers(r, 'r', r->record.at, r->record.count);
}

/* The functions that have bodies, and the places of these: from the first one on. */
static void symbols(reader *r, unsigned width) {
    uint64_t first = UINT64_MAX;
    start_with(&r->here, &r->known[SYMBOLS]);
    r->bodies.count = 0;
    for (uint64_t kind; (kind = fixed(r, width)) != END;) {
        if (kind == DEFINE) {
            define(r, &r->here);
            continue;
        }
        take_record(r, kind, &r->here); /* a block in this one is unknown there */
        const uint64_t *entry = r->record.at;
        if (r->record.count != 3 || entry[0] != FUNCTION_ENTRY)
            give_up(r);
        push(r, &r->bodies, entry[1]);
        push(r, &r->bodies, entry[2]);
        first = entry[2] < first ? entry[2] : first;
    }
    for (size_t i = 1; i < r->bodies.count; i += 2)
        r->bodies.at[i] -= first;
    write_numbers(r, 'y', r->bodies.at, r->bodies.count);
}

static void about_blocks(reader *r, unsigned width) {
    static const abbreviations NONE = {.count = 0};
    uint64_t number = UINT64_MAX;
    for (uint64_t kind; (kind = fixed(r, width)) != END;) {
        if (kind == DEFINE) {
            r->here.count = 0;
            define(r, number < BLOCKS ? &r->known[number] : &r->here);
            continue;
        }
        take_record(r, kind, &NONE);
        if (r->record.at[0] == SETBID && r->record.count > 1)
            number = r->record.at[1];
    }
}

static void module(reader *r, unsigned width) {
    abbreviations own = {.count = 0};
    for (uint64_t kind; (kind = fixed(r, width)) != END;) {
        if (kind == DEFINE) {
            define(r, &own);
        } else if (kind == ENTER) {
            const block inner = enter(r);
            write_numbers(r, 'b', (const uint64_t[]){inner.number, inner.width}, 2);
            if (inner.number != SYMBOLS)
                write_part(r, 'c', r->content + inner.start, inner.end - inner.start);
            if (inner.number == SYMBOLS)
                symbols(r, inner.width);
            else if (inner.number == BLOCKINFO)
                about_blocks(r, inner.width);
            else
                r->position = inner.end * 8;
            leave(r, &inner);
        } else {
            take_record(r, kind, &own);
            module_record(r);
        }
    }
}

/* The names in the block of names that records have; what linkers ask for comes behind them. */
static void names(reader *r, unsigned width) {
    uint64_t kind;
    r->here.count = 0;
    while ((kind = fixed(r, width)) == DEFINE)
        define(r, &r->here);
    take_record(r, kind, &r->here);
    write_part(r, 'n', r->blob, r->blob_size < r->names ? r->blob_size : r->names);
}

static void whole(reader *r) {
    if (r->size < 4 || memcmp(r->content, "BC\xc0\xde", 4) != 0)
        give_up(r);
    bool modules = false;
    for (r->position = 32; r->position + 64 <= r->size * 8;) {
        if (fixed(r, 2) != ENTER)
            give_up(r);
        const block found = enter(r);
        if (found.number == IDENTIFICATION)
            write_part(r, 'i', r->content + found.start, found.end - found.start);
        else if (found.number == MODULE)
            module(r, found.width), leave(r, &found), modules = true;
        else if (found.number == STRTAB)
            names(r, found.width);
        else if (found.number != SYMTAB)
            give_up(r);
        r->position = found.end * 8;
    }
    if (!modules)
        give_up(r);
}

static bool is_text(uint64_t number, uint64_t code) {
    if (number == MODULE)
        return code == ASSEMBLY || code > IFUNC;
    return number == CONSTANTS &&
           (code == INLINE || code == INLINE_OLD || code == INLINE_OLD2 || code == INLINE_OLD3 || code > LAST_CONSTANT);
}

/* A record as bytes: its operands are characters, or numbers before them. */
static void write_text(reader *r) {
    const size_t first = r->record.at[0] == INLINE ? 2 : 1; /* without the number of its type */
    const uint64_t length = r->record.count > first ? r->record.count - first : 0;
    append(r->out, "a", 1);
    append(r->out, &length, sizeof length);
    for (size_t i = first; i < r->record.count; i++) {
        const uint8_t character = (uint8_t)r->record.at[i];
        append(r->out, &character, 1);
    }
}

static void declared_record(reader *r, uint64_t number) {
    const uint64_t code = r->record.at[0];
    if (is_text(number, code)) {
        write_text(r);
    } else if (number == MODULE) {
        if (code == VERSION && (r->record.count != 2 || r->record.at[1] != 2))
            give_up(r);
        if (code == SECTION_NAME || code == VARIABLE || code == FUNCTION || code == ALIAS || code == IFUNC)
            write_numbers(r, 'r', r->record.at, r->record.count);
    } else if (number != CONSTANTS && number != BODY) {
        write_numbers(r, number == TYPES ? 't' : number == ATTRIBUTES ? 'l' : 'g', r->record.at, r->record.count);
    }
}

/* Is the block read, and not passed over? (No block is read in one of its kind, so they do not nest deeply.) */
static bool is_read(uint64_t number, uint64_t outer) {
    if (outer == BODY)
        return number == CONSTANTS;
    return outer == MODULE && (number == BODY || number == CONSTANTS || number == TYPES || number == ATTRIBUTES ||
                               number == ATTRIBUTE_GROUPS);
}

static void declared(reader *r, const block *outer) {
    abbreviations own;
    start_with(&own, &r->known[outer->number]);
    for (uint64_t kind; (kind = fixed(r, outer->width)) != END;) {
        if (kind == DEFINE) {
            define(r, &own);
        } else if (kind == ENTER) {
            const block inner = enter(r);
            if (inner.number >= BLOCKS || inner.number == MODULE || (inner.number == BODY && outer->number == BODY))
                give_up(r);
            if (inner.number == BLOCKINFO)
                about_blocks(r, inner.width);
            else if (is_read(inner.number, outer->number))
                declared(r, &inner);
            else
                r->position = inner.end * 8;
            leave(r, &inner);
        } else {
            take_record(r, kind, &own);
            declared_record(r, outer->number);
        }
    }
}

static void declarations(reader *r) {
    if (r->size < 4 || memcmp(r->content, "BC\xc0\xde", 4) != 0)
        give_up(r);
    for (r->position = 32;;) {
        if (fixed(r, 2) != ENTER)
            give_up(r);
        const block found = enter(r);
        if (found.number == MODULE) {
            write_part(r, 'm', NULL, 0);
            declared(r, &found);
            leave(r, &found);
        } else if (found.number == STRTAB) {
            r->names = UINT64_MAX;
            names(r, found.width);
        } else if (found.number != IDENTIFICATION && found.number != SYMTAB) {
            give_up(r);
        }
        r->position = found.end * 8;
        if (found.number == STRTAB)
            return; /* the last block */
    }
}

static int told(const uint8_t *content, size_t size, bytes *out, void (*tell)(reader *), size_t *end) {
    reader *r = calloc(1, sizeof *r);
    if (!r)
        return 0;
    r->content = content;
    r->size = size;
    r->out = out;
    const bool known = setjmp(r->unknown) == 0;
    if (known)
        tell(r);
    *end = r->position / 8;
    free(r->record.at);
    free(r->bodies.at);
    free(r);
    return known && !out->failed;
}

/* 1 if `out` is the text above, which is the caller's to free in any case; 0 where the content is not known well. */
int hipcache_bitcode(const uint8_t *content, size_t size, bytes *out) {
    size_t end;
    return told(content, size, out, whole, &end);
}

/* The same for what a module declares: its bitcode begins `at` that byte of the content, and ends before `end`. In the
 * text each module begins with a part `m`; records of types (t), groups of attributes (g), lists of those (l), and of
 * the module (r: functions, variables, aliases, sections) are numbers; a part `a` is the text of assembly, of the
 * module or inline, with some numbers before it, as is any record that is not known; `n` are the names. */
int hipcache_declarations(const uint8_t *content, size_t size, size_t at, size_t *end, bytes *out) {
    const int known = at <= size && told(content + at, size - at, out, declarations, end);
    *end += at;
    return known;
}
