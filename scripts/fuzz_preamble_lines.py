"""What the fuzzer's sources with precompiled preambles are made of, and called with."""

from __future__ import annotations

from fuzz_case import table

FLAGS = table("""
-Wall | -Wall -Wextra | -Wall -Wextra -Wconversion -Wshadow | -Wall -Wunused-function -Wundefined-inline | -w
-Werror | -Wno-unused-result | -pedantic | -Wcomment | -Wmissing-prototypes -Wmissing-declarations | -DGIVEN=2
-fcolor-diagnostics | -ferror-limit=1 | -fmessage-length=60 | -Wsystem-headers | -fPIC | -fno-exceptions | -std=c++17
-std=gnu++20 | -std=c++14 | -DVALUE=9 | -UVALUE | -ffast-math | -fvisibility=hidden | -ffunction-sections | -fno-rtti
-munsafe-fp-atomics | -Xarch_host -Wall | -Xarch_device -O1 | -fno-inline | -funroll-loops | -frandom-seed=7
-Wframe-larger-than=16 | -Wpass-failed | -fno-math-errno | -Wall -Wno-unused-variable -Wno-unused-parameter
""")
# With these a pass goes without, or its messages do; or the compile fails, or is left to the compiler.
LEFT = table("""
-Wunused-macros | -Weverything | -Wdocumentation | -fdiagnostics-absolute-paths | -fno-show-source-location
-fdiagnostics-show-note-include-stack | -fno-caret-diagnostics | -fdiagnostics-format=vi | -fno-diagnostics-fixit-info
-fdiagnostics-parseable-fixits | -g | -gline-tables-only | -include lead/late.h | -fsanitize=undefined | -ftrigraphs
-fgpu-rdc | -ffp-contract=off | -ffp-contract=fast | -fopenmp-simd | -Rpass=inline | -save-temps=obj | -std=c++71
-fms-extensions
""")
RULES = table("-MD | -MD | -MD | -MD | -MD | -MMD | -MD -MP | -MD -MF rules.d")
SEARCH = ("-I", "-I", "-I", "-isystem", "-idirafter", "-iquote")
ARCHS = ("gfx906", "gfx906", "gfx90a", "gfx1030")
HEADERS = ("hip/one.h", "hip/two.h", "hip/three.h", "users.h")
# So many that the first one makes a preamble.
SOURCES = ("a.hip", "b.hip", "c.hip", "d.hip", "e.hip", "f.hip", "g.hip")

#: What a header has, one line each; `#`: a number of its own.
IN_HEADERS = r"""
inline int twice_#(int x) { return 2 * x; }
#define VALUE_# #
#define VALUE #
[[nodiscard]] int kept_#();
[[deprecated("old")]] int olden_#(int);
static int lonely_#() { return #; }
static inline int quiet_#() { return #; }
inline int undefined_#();
template <class T> T narrow_#(double x) { int unused = 4; T y = x; unsigned z = 3; return z < (int)y ? y : T(1); }
template <class T> __device__ T shared_#(T x) { return x * #; }
__device__ inline int on_device_#(int x) { return x + #; }
#define PASTED_#(a) a##_1
struct Tall_# { virtual ~Tall_#() {} virtual int f() { return #; } int late, early; Tall_#() : early(1), late(2) {} };
extern int told_#; static const int at_start_# = told_#;
static const int constant_# = #;
struct Stream_# { Stream_#(); ~Stream_#(); };@static Stream_# opened_#;
namespace odd { inline namespace v# { struct S# {}; } }
#if __has_include(<late.h>)@#include <late.h>@#endif
#ifdef GIVEN@inline int given_#() { return GIVEN; }@#endif
inline int counted_#() { return __COUNTER__; }
inline const char* file_#() { return __FILE__; }
inline int line_#() { return __LINE__; }
#pragma pack(push, 2)@struct Packed_# { char c; int i; };@#pragma pack(pop)
#pragma clang diagnostic ignored "-Wunused-result"
_Pragma("clang diagnostic push")@_Pragma("clang diagnostic pop")
#pragma GCC system_header
inline float fused_#(float a, float b, float c) { return a * b + c; }
enum Kind_# { First_#, Second_# };
using deprecated_#_t [[deprecated]] = int;
template <int N> __device__ __attribute__((noinline)) int times_#(int x) { return N * x + (x >> N); }@\
inline __device__ int asks_#(int x) { return times_#<3>(x) + times_#<5>(x); }
template <class T> struct Trait_# { static constexpr int value = #; };@\
template <class T> __device__ int traited_#(T) { return Trait_#<T>::value; }@\
inline __device__ int pointed_#() { return traited_#((int*)nullptr); }@\
#define OF_POINTERS_# template <class T> struct Trait_#<T*>
struct Thing_# {};@template <class...> using void_# = void;@\
template <class T, class = void> struct Shown_# { static constexpr int value = 0; };@\
template <class T> struct Shown_#<T, void_#<decltype(shown_#(T()))>> { static constexpr int value = 1; };@\
template <class T> __device__ int is_shown_#(T) { return Shown_#<T>::value; }@\
inline __device__ int asks_shown_#() { return is_shown_#(Thing_#()); }@\
#define DECLARE_#(name) __device__ int name(Thing_#)@#define MORE_# DECLARE_#(shown_#);
class Hidden_# { public: int hidden_#(); private: int unused_#; };
namespace named_# { int inner_#(int x) { return x; } }@int beside_#(int x) { return x + #; }
"""
#: What follows the head of a source: right lines, lines that warn, lines that are wrong. `%`: what is in a header.
RIGHT = r"""
extern "C" __global__ void kernel_#(float* p) { p[0] = p[1] * # + __LINE__; }
extern "C" int host_#(int x) { return x + #; }
template <int N> __global__ void more_#(float* p) { p[N] = N; }@template __global__ void more_#<3>(float*);
extern "C" int counter_#() { return __COUNTER__; }
__device__ __attribute__((used)) float fma_#(float a, float b) { return a * b + #; }
#include <late.h>
#include "lead/late.h"
#include <hip/one.h>
#include <users.h>
static const int started_# = host_1000(#);
struct Local_# { virtual int f() { return #; } };@int use_#() { return Local_#().f(); }
const char* file_of_source_#() { return __FILE__; }
// a comment #
/* one@ * # */
"""
WARN = r"""
[[nodiscard]] int own_#();@void dropped_#() { own_#(); }
static int unused_#() { return #; }
int conversion_#(double x) { return x; }
#warning said #
#define VALUE 77
#define GIVEN 7
#define __HIP__ 7
int shadow_#(int x) { { int x = 1; return x; } }
__device__ int uninitialized_#(int q) { int u; return q; }
void g_#() { if (int a = 1) ; }
unsigned compared_#(int a, unsigned b) { return a < b; }
int reach_#(int x) { switch (x) { case 1: x = 2; case 2: return x; } return 0; }
[[deprecated]] int past_#();@int call_#() { return past_#(); }
static inline int later_#();@int calls_#() { return later_#(); }
"""
# Of headers, by the number of their line.
FROM_HEADERS = r"""
void h%() { kept_%(); }
int i%() { return olden_%(3); }
int j% = narrow_%<int>(3.5);
__device__ int k%(int x) { return on_device_%(x); }
int l% = twice_%(%);
int m%() { return undefined_%(); }
void f%() { int PASTED_%(x); }
Tall_% n%;
deprecated_%_t o%;
extern "C" __global__ void t%(int* p) { p[0] = times_%<5>(p[1]) + times_%<3>(p[2]); }
template <class T> struct Trait_%<T*> { static constexpr int value = 7; };@\
extern "C" __global__ void u%(int* p) { p[0] = Trait_%<int*>::value; }
__device__ int shown_%(Thing_%);@extern "C" __global__ void v%(int* p) { p[0] = Shown_%<Thing_%>::value; }
__device__ int (shown_%)(Thing_%);@extern "C" __global__ void x%(int* p) { p[0] = Shown_%<Thing_%>::value; }
DECLARE_%(shown_%);@extern "C" __global__ void y%(int* p) { p[0] = Shown_%<Thing_%>::value; }
MORE_%@extern "C" __global__ void z%(int* p) { p[0] = Shown_%<Thing_%>::value; }
#define NAME_% shown_%@__device__ int NAME_%(Thing_%);@\
extern "C" __global__ void a%(int* p) { p[0] = Shown_%<Thing_%>::value; }
namespace other_% { __device__ int shown_%(Thing_%); }@using other_%::shown_%, other_%::shown_%;@\
extern "C" __global__ void b%(int* p) { p[0] = Shown_%<Thing_%>::value; }
OF_POINTERS_% { static constexpr int value = 7; };@\
extern "C" __global__ void c%(int* p) { p[0] = Trait_%<int*>::value; }
extern "C" __global__ void w%(int* p) { p[0] = Trait_%<int*>::value + traited_%(p); }
int Hidden_%::hidden_%() { return 1; }
int p%(Kind_% k) { switch (k) { case First_%: return 1; } return 0; }
"""
WRONG = r"""
int wrong_# = nowhere_#;
#error said #
#ifdef __HIP_DEVICE_COMPILE__@int wrong_# = nowhere_#;@#endif
#ifndef __HIP_DEVICE_COMPILE__@int wrong_# = nowhere_#;@#endif
#ifdef __gfx90a__@#error of one architecture@#endif
#include <nowhere.h>
int twce_# = twise_1();
__device__ void calls_host_#() { host_1000(1); }
static_assert(sizeof(int) == #, "said");
int open_# = (
template <class T> T fails_#(T x) { return x.none; }@int g_# = fails_#(1);
"""
GAPS = (
    "",
    "",
    "",
    "\n",
    "// between #\n",
    "/* one\n * # */\n",
    "/* a /* b */\n",
    "// a \r",
    "// back \\\n",
    "\t \n",
    "// \u00e9\n",
)
EDGES = (
    "#define EARLY\n",
    "#pragma once\n",
    '#include "hip/one.h"\n',
    '#include "lead/users.h"\n',
    "int early;\n",
    "#if 1\n",
    "\ufeff",
    "#include <hip/one.h>\r\n",
)
