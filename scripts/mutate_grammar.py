"""What a random project of `mutate` is made of: texts of headers with every directive form, flags and variables.

A project has a source `m.hip` and headers of five names in the directories below. A text of rank N names only headers
of higher ranks, so that no inclusion goes round. Each text notes itself in the object (`MARK`): which headers were
read, in which order, shows in its bytes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

SOURCE = "m.hip"
NAMES = ("v.h", "w.h", "x.h", "y.h", "z.h")
DIRECTORIES = ("", "inc", "inc2", "sub", "inc/sub", "deep")
LINK = "linked"
SEARCHED = ("-Iinc2", "inc2", "sub", "-Ilinked", "-I.", "inc")

PROLOGUE = """\
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define SHOWN(x) #x
#define SHOW(x) SHOWN(x)
#define MARK(text) static const char *JOIN(kept, __COUNTER__) __attribute__((used)) = text;
"""

# `@`: the name of a header; `#1`: a number; `~`: a new line, `\_~` with a blank before it. Some
# are errors by one compiler or mode: both must fail then.
_INCLUDES = r"""
#include "@"
#include <@>
#import "@"
#import <@>
# include "@"
 #	include "@"
%:include "@"
#include/**/"@"
#include /* one */ "@" // two
/* one */ #include "@"
/* one
   two */ #include "@"
#/* one
 two */include "@"
#include /* one
 two */ "@"
#inc\
lude "@"
#include \
 "@"
#include \_~ "@"
#include "\
@"
#include "./@"
#include "sub/../@"
#include "sub/@"
#include <sub/@>
#import <sub//@>
#include "inc/sub/@"
#include <linked/@>
#include_next <@>
#include_next "@"
#define NAMED "@"~#include NAMED~#undef NAMED
#define NAMED <@>~#include NAMED~#undef NAMED
#define NAMED @~#include SHOW(NAMED)~#undef NAMED
#define EMPTY~#include EMPTY "@"
#define OPEN <~#include OPEN@>
#if __has_include("@")~MARK("#1")~#endif
#if __has_include(<@>)~MARK("#1")~#include <@>~#endif
#if __has_include_next("@")~MARK("#1")~#endif
#ifdef __has_include~#if __has_include ( <@> )~MARK("#1")~#endif~#endif
#if 0~#elif __has_include("@")~MARK("#1")~#endif
#if __has_include \~("@")~MARK("#1")~#endif
#if __has_inc\~lude("@")~MARK("#1")~#endif
#if \ ~ __has_include("@")~MARK("#1")~#endif
#if /* one~ two */ __has_include("@")~MARK("#1")~#endif
/* one~ two */ #if __has_include("@")~MARK("#1")~#endif
#define ASKED "@"~#if __has_include(ASKED)~MARK("#1")~#endif~#undef ASKED
#if HAS_LATER~MARK("#1")~#endif
#define HAS_LATER __has_include("@")
#define HAS_LATER __has_include(<@>)
#define HAS_LATER (0 \~ || __has_include("@"))
#if HAS_LATER~MARK("#1")~#endif~#undef HAS_LATER
#pragma GCC dependency "@"
#pragma GCC dependency <@> said
_Pragma("GCC dependency \"@\"")
#pragma include_alias("w.h", "@")
#pragma include_alias(<x.h>, <@>)
#include "w.h"
#if __has_embed("@")~MARK("#1")~#endif
static const unsigned char JOIN(bytes, __COUNTER__)[] __attribute__((used)) = {~#embed "@"~};
static const char JOIN(bytes, __COUNTER__)[] __attribute__((used)) = {~#embed <@> limit(3) suffix(, 1) if_empty(0)~};
??=include "@"
#inc??/~lude "@"
??=if __has_include("@")~MARK("#1")~??=endif
asm(".incbin \"@\"");
#if 0~#include "@"~#endif
#ifdef __CUDA_ARCH__~#include "@"~#endif
#ifdef __HIP_DEVICE_COMPILE__~#include "@"~#else~MARK("#1")~#endif
#line 7 "@"
#include "@" /* open
 */ MARK("#1")
"""
_LINES = r"""
MARK("#1")
MARK(R"(#1  ~b)")
MARK(R"(#1~b)")
MARK(R"q(#include "z.h"~)" )q")
MARK("/* #1 */") // "
MARK("//#1") /* ' */
MARK("??/"#1")
MARK("??/??/#1")
static int JOIN(number, __COUNTER__) = 1'000'#1; // it's
MARK(SHOW(__LINE__))
MARK(__FILE__)
MARK(__BASE_FILE__)
MARK(SHOW(__INCLUDE_LEVEL__))
// a comment #1
// a comment \~MARK("hidden #1")
/* a comment~ #1 */
/* #1~#include "z.h"~*/
MARK("a\~b#1")
MARK("a" /* #1~ */ "b")
#pragma once
#pragma GCC system_header
#pragma clang system_header
#warning said #1
[[nodiscard]] static int JOIN(kept, __COUNTER__)() { return #1; }
static int JOIN(warns, __COUNTER__)() { int unused = #1; /* it */ return 1; } // said
#define TWICE #1~#define TWICE /* again */ 2#1
[[deprecated("#1")]] int old_#1();~static int JOIN(calls, __COUNTER__)() { return old_#1(); } // quoted
#ifdef __HIP_DEVICE_COMPILE__~#error in devices alone #1~#endif
#ifndef __HIP_DEVICE_COMPILE__~int JOIN(wrong, __COUNTER__) = nowhere_#1; // in the host alone~#endif
#define LATER #1
#ifdef __CUDA_ARCH__~#undef LATER~#define LATER #1 // in devices~#endif
#define ALSO LATER
MARK(SHOW(LATER))
MARK(SHOW(ALSO))
MARK(SHOW(JOIN(LAT, ER)))
#if LATER + 0 > 500~MARK("#1")~#endif
#ifndef __HIP_DEVICE_COMPILE__~MARK(SHOW(ALSO))~#endif
#define HERE __LINE__
MARK(SHOW(HERE))
MARK(SHOW(JOIN(__LI, NE__)))
#if __LINE__ > 9~MARK("#1")~#endif
static int JOIN(line, __COUNTER__) __attribute__((used)) = __builtin_LINE();
#define UNUSED_#1 "it's /* no */ comment"
#if 0~it's not // closed "#1~#endif
#ifdef WANTED~MARK("#1")~#endif
#if WANTED + 0 > 1~MARK("#1")~#endif
#line 3 "other #1.h"
#ident "#1"
extern "C" int JOIN(host, __COUNTER__)() { return #1; }
"""


def _forms(table: str) -> list[str]:
    """One form a line; lines that a form breaks itself are told by `~`, or by the next line not beginning one."""
    forms: list[str] = []
    for line in table.strip("\n").split("\n"):
        continued = forms and (forms[-1].endswith(("\\", "\\ ")) or forms[-1].count("/*") > forms[-1].count("*/"))
        if continued or (forms and forms[-1].endswith('"\\')):
            forms[-1] += "\n" + line
        else:
            forms.append(line)
    return [form.replace("\\_~", "\\ \n").replace("~", "\n") for form in forms]


INCLUDES, LINES = _forms(_INCLUDES), _forms(_LINES)


def leave_out(known: str) -> None:
    """Texts without the forms that match a regular expression: for faults that are known already."""
    for forms in (INCLUDES, LINES):
        forms[:] = [form for form in forms if not re.search(known, form)]


FLAGS = """
-Iinc | -Iinc2 | -I sub | -I. | -Ilinked | -Inowhere | -Iinc/../inc2 | -I inc/sub | -Ideep/deeper | -iquote inc
-iquote sub | -iquote linked | -isystem inc | -isystem inc2 | -isystem linked | -idirafter inc2 | -idirafter sub
-cxx-isystem inc | -include x.h | -include inc/y.h | -include z.h | -imacros z.h | -imacros y.h
-DLATER=1 | -DLATER=222 | -DLATER=__LINE__ | -DNOBODY=1 | -DNOBODY=2 | -DALSO=LATER
-include /dev/null | -imacros /dev/null | -DWANTED | -DWANTED=2 | -UWANTED | '-DHAS_LATER=__has_include("y.h")'
'-DNAMED="z.h"' | -std=c++14 | -std=c++20 | -std=c++14 -ftrigraphs | -ftrigraphs | -trigraphs | -fms-extensions
-fms-compatibility | -Wall | -w | -Wno-everything | -Wc++98-compat-pedantic | -Wnewline-eof | -Wcomment
-pedantic | -Werror | -Wunused-macros | -Weverything | -C | -g | -fno-rtti | -O1 | -nostdinc | -undef
-traditional-cpp | -finput-charset=UTF-8 | -fdirectives-only | -H
"""
VARIABLES = (
    *(("CPATH", "inc"), ("CPATH", "sub:inc2"), ("CPATH", ":inc2"), ("CPLUS_INCLUDE_PATH", "inc2")),
    *(("C_INCLUDE_PATH", "inc"), ("SOURCE_DATE_EPOCH", "3"), ("TMPDIR", "/nonexistent/gone"), ("TMPDIR", "deep")),
    *(("LANG", "de_DE.UTF-8"), ("LC_ALL", "C.UTF-8"), ("COLUMNS", "40"), ("PWD", "/"), ("OBJC_INCLUDE_PATH", "inc")),
    *(("TMP", "/nonexistent/gone"), ("CCC_OVERRIDE_OPTIONS", "+-DWANTED"), ("GCC_EXEC_PREFIX", "/usr/lib/gcc/")),
)
# One side, of one arch, is a third of a whole compile.
SIDES = (("--cuda-host-only",),) * 5 + (("--cuda-device-only",),) * 3 + ((),)


def text(rand: random.Random, rank: int, *, is_source: bool = False) -> bytes:
    """A header's text (or the source's, of rank -1)."""
    later: Sequence[str] = NAMES[rank + 1 :]
    lines = [PROLOGUE.rstrip("\n")] if is_source else []
    for _ in range(rand.randrange(2, 5)):
        if later and rand.random() < (0.75 if is_source else 0.5):
            lines.append(
                rand.choice(INCLUDES[:4] if rand.random() < 0.4 else INCLUDES).replace("@", rand.choice(later))
            )
        else:
            lines.append(rand.choice(LINES))
    made = "\n".join(lines).replace("#1", str(rand.randrange(1000))) + "\n"
    return ending(rand, made.encode())


def ending(rand: random.Random, made: bytes) -> bytes:
    """The text with another beginning or end of its lines, sometimes."""
    chance = rand.random()
    if chance < 0.04:
        return b"\xef\xbb\xbf" + made
    if chance < 0.08:
        return made.removesuffix(b"\n")
    if chance < 0.11:
        return made.replace(b"\n", b"\r\n")
    if chance < 0.13:
        return rand.choice([b"\f", b"\v", b" ", b"\n", b"\xef\xbb\xbf\n"]) + made
    if chance < 0.15:
        return made.replace(b" ", rand.choice([b"\t", b"\f", b"  ", b"\v"]), 2)
    return made


def edited(rand: random.Random, old: bytes) -> bytes:
    """A small edit of a text."""
    lines = old.split(b"\n")
    at = rand.randrange(len(lines))
    way = rand.randrange(9)
    if way == 0:
        lines[at] += rand.choice([b" ", b"  ", b"\t", b"\\", b"\r"])
    elif way == 1:
        lines[at] = lines[at].rstrip()
    elif way == 2:
        lines.insert(at, rand.choice([b"", b"// more", b"/* more */", b"/* more\n*/", b"\f"]))
    elif way == 3:
        lines[at] = bytes(rand.choice(b"123456789") if one in b"123456789" else one for one in lines[at])
    elif way == 4:
        del lines[at]
    elif way == 5:
        lines[at] = lines[at] + b" // more"
    elif way == 6:
        return old.removesuffix(b"\n") if old.endswith(b"\n") else old + b"\n"
    elif way == 7:
        return ending(rand, old)
    else:
        other = rand.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)
