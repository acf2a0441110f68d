"""Edits of comments, blanks and lines in texts in which they might matter: each compile is plain clang's.

`Lab.compile` compares objects, messages and dependency files; what is a hit is for `test_edits` to show.
"""

from __future__ import annotations

import pytest
from hip import HIT, Lab, kernel

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

F = "int f() { return 1; }\n"
PASTE = "#define CAT(a, b) a##b\n#define NAME(a, b) CAT(a, b)\n"
TEXTS = {
    "#line": kernel("3") + '#line 100 "other.h"\nint f() { return __LINE__; }\n',
    "#line of a macro": "#define N __LINE__\n#line N\n" + kernel("__LINE__"),
    "#line by a trigraph": "??=line 9\n" + kernel("__LINE__"),
    "a marker of the preprocessor": '# 33 "gnu.h"\n' + kernel("__LINE__"),
    "#pragma once by two paths": '#include "x.hpp"\n#include "./y/../x.hpp"\n#include "link.hpp"\n' + kernel("X"),
    "#import": '#import "x.hpp"\n#import "link.hpp"\n' + kernel("X"),
    "a header that is read twice": '#include "twice.hpp"\n#include "twice.hpp"\n' + kernel("1"),
    "__COUNTER__": PASTE + kernel("__COUNTER__") + "int NAME(v, __COUNTER__), NAME(w, __LINE__);\n",
    "__has_include": '#if __has_include("x.hpp")\n#define V 1\n#else\n#define V 2\n#endif\n' + kernel("V"),
    "__INCLUDE_LEVEL__": '#include "twice.hpp"\n' + kernel("__INCLUDE_LEVEL__"),
    "assert": "#include <cassert>\n" + kernel("1") + "int f(int n) { assert(n > 2); return n; }\n",
    "_Pragma": kernel("1") + f'_Pragma("clang diagnostic push")\n{F}_Pragma("clang diagnostic pop")\n',
    "a pragma with a message": kernel("1") + '#pragma message("hello")\n' + F,
    "a raw string": kernel("1") + 'const char* r() { return R"x(a\n// one\n\n#line 3\n)x"; }\n' + F,
    "a trigraph": kernel("1") + 'const char* t() { return "??/n"; }\n// what??/\n' + F,
    "a spliced comment": kernel("1") + "// what \\\n" + F + F.replace("f", "g"),
    "a spliced word": kernel("__LI\\\nNE__") + "int f() { return __builtin_LI\\\nNE(); }\n",
    "a digraph": "%:define P 4\n%: /* a */ define Q __LINE__\n" + kernel("P + Q"),
    "__builtin_COLUMN": kernel("1") + "int f() { return __builtin_COLUMN(); /* one */ }\n",
    "__builtin_FILE": kernel("sizeof(__builtin_FILE())") + "const char* f() { return __builtin_FILE(); }\n",
    "a literal of the user": kernel("1")
    + 'constexpr int operator""_k(unsigned long long n) { return n * __LINE__; }\nint f() { return 3_k; }\n',
    "a default that is an argument": kernel("1")
    + "#define F(...) f(0 __VA_OPT__(,) __VA_ARGS__)\nint f(int, int = __builtin_LINE());\nint g() { return F(); }\n",
    "an argument of several lines": "#define S(x, n) (sizeof(#x) + n)\n" + kernel("S(a\n  b, __LINE__)"),
    "the name of a lambda": kernel("1") + "const char* f() { return [] { return __PRETTY_FUNCTION__; }(); }\n",
    "an unnamed type": kernel("1")
    + "struct { int a; } v;\ntemplate <class T> const char* nm(T&) { return __PRETTY_FUNCTION__; }\nauto f = nm(v);\n",
    "an annotation of the host": kernel("1") + '__attribute__((annotate("x"))) int f() { return 1; }\n',
    "assembly with a line": kernel("1") + 'asm(".globl zz\\n# " "x\\nzz:\\n");\nvoid f() { asm("nop"); }\n',
    "indentation": kernel("1") + "int g();\nint f(int n) {\n  if (n)\n    g(); /* a */\n    return g();\n}\n",
    "an empty body": kernel("1") + "int f(int n) {\n  if (n); /* a */\n  while (n)\n  ;\n  return 1;\n}\n",
    "OpenMP": kernel("1")
    + "int f(int* p) {\n#pragma omp parallel for\n for (int i = 0; i < 9; i++) p[i] = i;\n return 1; }\n",
    "macros that come back": '#define M 1\n#pragma push_macro("M")\n#undef M\n#define M 2\n#pragma pop_macro("M")\n'
    + kernel("M"),
    "a header that warns": '#include "warns.hpp"\n' + kernel("1"),
    "a loop that does not unroll": kernel("1") + "__global__ void l(int* p) {\n#pragma unroll 8\n"
    "for (int i = 0; i < p[3]; ++i) if (p[i * p[i]]) { p[i] = i; break; }\n}\n",
    "a NUL in a comment": kernel("1") + F + "// \0 x\n",
    "a printf": "#include <cstdio>\n" + kernel("1") + 'void f() { printf("%s:%d", __FILE__, __LINE__); }\n',
}
HEADERS = {
    "x.hpp": "#pragma once\n#define X 3\ninline int x() {\n  return X;\n}\n",
    "twice.hpp": PASTE + "struct NAME(s, __LINE__##__INCLUDE_LEVEL__);\n\nextern int v; // one\n",
    "warns.hpp": '// one\ninline int w() { int unused; return 1; }\n#warning "hello"\n',
    "y/z.hpp": "",
}
FLAGS = [
    ("-std=c++20", "-Wall", "-Wextra"),
    ("-std=c++17", "-O2", "-ftrigraphs", "-fopenmp", "-save-temps=obj", "-frandom-seed=1"),
    ("-fgpu-rdc", "-std=c++20"),
    ("-fembed-bitcode=all", "-fmacro-prefix-map=.=x", "-std=c++20"),
    ("-Xclang", "-verify=none", "-std=c++20"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", TEXTS)
def test_an_edit_without_a_word_of_code_is_what_plain_clang_makes_of_it(lab: Lab, text: str) -> None:
    for path, content in HEADERS.items():
        lab.write(path, content)
    (lab.root / "link.hpp").symlink_to("x.hpp")
    content = TEXTS[text]
    flags = FLAGS[[*TEXTS].index(text) % 2]
    for state in (
        content,
        "// a line\n" + content.replace("{", "{ /* two\n lines */", 1),
        content.replace("\n", "\n// b\n", 1).replace("/* one */", "/* 1  */"),
        content.replace("\n", "  \r\n"),
    ):
        lab.write("k.hip", state)
        lab.compile(*flags)
    for name, header in HEADERS.items():
        if name in content:
            lab.write(name, "// h\n" + header.replace("// one", "// two"))
            lab.compile(*flags)


NAME = "template <class T> const char* name(T) { return __PRETTY_FUNCTION__; }\n"
MACROS = "#define UNNAMED struct { int a; }\n#define OPEN [\n#define DIGRAPH <:\n#define CALL(x) x\n"
# Types without a name, behind which an object is named `v`.
UNNAMED = {
    "a lambda": "auto v = [] {};",
    "a lambda by a digraph": "auto v = <:] {};",
    "a lambda by a macro": "auto v = OPEN] {};",
    "a digraph by a macro": "auto v = DIGRAPH] {};",
    "a lambda that a macro takes": "auto v = CALL(\n  [] {}\n);",
    "a struct": "struct { int a; } v;",
    "a struct by a macro": "UNNAMED v;",
    "a class in a struct": "struct S { class { public: int a; } v; }; S s; auto v = s.v;",
    "a union": "union { int a; } v;",
    "an enumeration": "enum { A } v;",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unnamed", UNNAMED)
def test_the_place_of_a_type_that_another_file_names_is_never_stale(lab: Lab, unnamed: str) -> None:
    text = "#pragma once\n" + UNNAMED[unnamed] + "\n"
    lab.write("macros.hpp", MACROS)
    lab.write("x.hpp", text)
    lab.write("k.hip", kernel("1", f'#include "macros.hpp"\n#include "x.hpp"\n{NAME}') + "const char* n = name(v);\n")
    before = lab.warm()
    lab.write("macros.hpp", "// a line\n" + MACROS)
    lab.compile()
    lab.write("x.hpp", "// a line\n" + text)
    lab.changed(before)


def test_a_line_of_a_header_without_types_is_none_to_an_assertion(lab: Lab) -> None:
    lab.write("x.hpp", "__host__ __device__ inline int x() { return 1; }\n")
    lab.write("k.hip", "#include <cassert>\n" + kernel("x()", '#include "x.hpp"') + "void f(int n) { assert(n); }\n")
    lab.warm()
    lab.write("x.hpp", "// a line\n__host__ __device__ inline int x() { return 1; }\n")
    assert lab.compile().outcome == HIT


def test_a_block_names_types_too(lab: Lab) -> None:
    text = "template <class T> struct X { int a; };\nvoid run(void (^)(X<decltype(v)>));\n"
    text = kernel("1", '#include "x.hpp"') + text + "void f() { run(^(X<decltype(v)> x) { (void)x; }); }\n"
    lab.write("x.hpp", "inline auto v = [] {};\n")
    lab.write("k.hip", f"#ifdef __HIP_DEVICE_COMPILE__\n{kernel('1')}#else\n{text}#endif\n")
    before = lab.warm("-fblocks")
    lab.write("x.hpp", "// a line\ninline auto v = [] {};\n")
    lab.changed(before, "-fblocks")
