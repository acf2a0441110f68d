"""The project of the fuzzer's links: objects with relocatable device code, libraries, and how the link names them."""

from __future__ import annotations

import hashlib
import os
import shlex
import struct
import subprocess
from pathlib import Path

from fuzz_case import BARE, FULL_HEADER, LEVELS, REAL, SHORT_HEADER, Case
from fuzz_link_flags import (
    ARCHS,
    COMPILING,
    DEVICE_LTO,
    DRIVERS,
    FLAGS,
    HOST,
    HOST_LEFT,
    LEFT,
    LIBRARY,
    OUTPUTS,
    THIN,
)

SOURCES = {
    "a": """\
__device__ int twice(int);
extern __device__ int shared_counter;
static __device__ int counter = 3;
void* address() {{ return (void*)&counter; }} // of this source
extern "C" __global__ void kernel(int* p) {{ p[0] = twice(p[1]) + counter + shared_counter + {device}; }}
int host() {{ return {host}; }}
""",
    "b": """\
__device__ int thrice(int);
static __device__ int counter = 4;
void* other_address() {{ return (void*)&counter; }} // of this source
__device__ int twice(int a) {{ return thrice(a) * FACTOR + counter + {device}; }}
template <int N> __global__ void more(float* p) {{ __shared__ float s[N]; s[0] = p[N]; p[1] = s[0] * FACTOR; }}
template __global__ void more<{device}>(float*);
int host_of_b() {{ return {host}; }}
""",
    "c": """\
__device__ int shared_counter = {device};
__device__ __attribute__((noinline)) int thrice(int a) {{ return 3 * a + FACTOR; }} // of this source
int host_of_c() {{ return {host}; }}
""",
    "d": """\
__attribute__((constant)) int numbers[2] = {{FACTOR, {device}}};
__attribute__((managed)) int managed = 3; // of this source
extern "C" __global__ void alone(int* p) {{ p[0] = numbers[p[1]] + managed; }}
int host_of_d() {{ return {host}; }}
""",
}
FACTOR = """\
#ifdef __{arch}__
#define FACTOR {number}
#else
#define FACTOR 2
#endif
"""
MAIN = """\
int host(); int host_of_b(); int host_of_c(); void* other_address();
int main() {{ return host() + host_of_b() + host_of_c() + !other_address() + {host}; }}
"""
# What the objects call of HIP's runtime, where that is not linked.
RUNTIME = """\
extern "C" {
int hipLaunchKernel() { return 0; }
int __hipPopCallConfiguration() { return 0; }
void* __hipRegisterFatBinary() { return nullptr; }
void __hipRegisterFunction() {}
void __hipRegisterVar() {}
void __hipRegisterManagedVar() {}
void __hipRegisterSurface() {}
void __hipRegisterTexture() {}
void __hipUnregisterFatBinary() {}
}
"""


class LinkProject(Case):
    """Objects of a project, and their link."""

    def __post_init__(self) -> None:
        super().__post_init__()
        draw = self.random
        compiler, self.driver = draw.choice(DRIVERS)
        self.compiler = self.instead or compiler
        # It runs clang 15, and links with more libraries.
        self.linker = "/usr/bin/hipcc" if (self.compiler, self.driver) == DRIVERS[0] and draw.random() < 0.2 else ""
        self.stores["b"] = self.root / draw.choice(["store-b", "store b", "store,b=c", "st'o$r\"e#b", "st\\ore"])
        self.archs = draw.choice(ARCHS)
        # By the old driver the device link mostly finds no functions of another source then.
        thin = [THIN] if draw.random() < (0.2 if self.driver else 0.05) else draw.choice(DEVICE_LTO)
        self.compiling = [*draw.choice(COMPILING), *thin]
        self.texts = {name: {"host": 1, "device": 1, "arch": 0, "comment": 0} for name in (*SOURCES, "main")}
        self.odd: dict[str, list[str]] = {}
        self.damaged_library = ""
        self.members = draw.choice([[], [], ["c"], ["c", "util"], ["d", "c", "util"], ["d"]])
        self.library = self._some_library() if self.members else []
        self.objects = [name for name in ("a", "b", "c") if name not in self.members] + ["main"]
        if "d" not in self.members and draw.random() < 0.2:
            self.objects.append("d")
        if draw.random() < 0.3:
            draw.shuffle(self.objects)
        # (hipcc with one is left to itself.)
        self.responses = draw.random() < 0.1 and not self.linker
        self.linked_archs = [*self.archs]
        self.level = draw.choice([[], [draw.choice(LEVELS)]])
        self.flags = [self._some_flag() for _ in range(draw.randrange(3))]
        self.host_flags = [self._some_host_flag() for _ in range(draw.randrange(3))]
        self.runtime = draw.choice([["-L.", "-lruntime"]] * 3 + [["runtime.o"], ["libruntime.a"]])
        self.output = draw.choice(OUTPUTS)
        #: By store: what the device links depend on of each link that was stored.
        self.linked: dict[str, set[str]] = {"a": set(), "b": set()}
        self.failed = False
        self._write_project()

    # The project

    def _write_project(self) -> None:
        self._write("runtime.cpp", RUNTIME)
        self._write("util.cpp", "int util() { return 5; }\n")
        self._write("exports.map", "{ global: main; host; local: *; };\n")
        self._write("list.txt", "{ main; };\n")
        self._write("notes.txt", "nothing that is linked\n")
        self._write("link.cfg", "-O1\n")
        self._write("more.rsp", "-Wl,-z,now '-DTEXT=a b'\n")
        self._write("sub.dir/file", "")
        self._write("first/file", "")
        self._write("old", "an old program\n")
        self._write("empty.o", "")
        (self.work / "linked").symlink_to("elsewhere")
        for name in ("runtime", "util"):
            self._make(self.compiler, "-fPIC", "-c", f"{name}.cpp", "-o", f"{name}.o")
        self._make("ar", "rc", "libruntime.a", "runtime.o")
        self._make("ar", "rc", "libutil.a", "util.o")
        self._make(self.compiler, "-shared", "util.o", "-o", "libhost.so")
        self._make(self.compiler, "-flto", "-c", "util.cpp", "-o", "main.bc")
        for name in self.texts:
            self._compile(name)
        self._make("ar", "rcT", "libthin.a", "d.o")
        whole = (self.work / "d.o").read_bytes() if (self.work / "d.o").exists() else b""
        (self.work / "cut.o").write_bytes(whole[: len(whole) * 2 // 3])
        self._pack()
        self._write_response()

    def _make(self, *words: str) -> None:
        subprocess.run(words, cwd=self.work, check=False, capture_output=True)

    def _compile(self, name: str) -> None:
        """A fresh object; none where that fails, which is a case, too."""
        text = self.texts[name]
        (self.work / f"{name}.o").unlink(missing_ok=True)
        if name == "main":
            self._write("main.cpp", MAIN.format(**text))
            self._make(self.compiler, "-fPIC", "-c", "main.cpp", "-o", "main.o", *self.odd.get(name, []))
            return
        factor = FACTOR.format(arch=self.archs[0].partition(":")[0], number=text["arch"] + 2)
        source = SOURCES[name].format(**text).replace("of this source", f"comment {text['comment']}")
        self._write(f"{name}.hip", (FULL_HEADER if self.real else SHORT_HEADER) + factor + source)
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        surroundings = REAL if self.real else BARE
        words = [*archs, *surroundings, "-fgpu-rdc", *self.driver, *self.compiling, *self.odd.get(name, [])]
        self._make(self.compiler, *words, "-c", f"{name}.hip", "-o", f"{name}.o")

    def _pack(self, kind: str = "rc") -> None:
        self.damaged_library = ""
        (self.work / "libdev.a").unlink(missing_ok=True)
        if self.members:
            self._make("ar", kind, "libdev.a", *(f"{name}.o" for name in self.members))

    def _fresh(self, name: str) -> None:
        self._compile(name)
        if name in self.members:
            self._pack()

    # The command

    def words(self) -> list[str]:
        host = [word for flag in self.host_flags for word in flag]
        output = shlex.split(self.output)
        return [*self._device_words(), *host, *self._inputs(), *self.runtime, *output]

    def _device_words(self) -> list[str]:
        """Those that may reach device links."""
        archs = [f"--offload-arch={arch}" for arch in self.linked_archs]
        surroundings = REAL if self.real else ("-no-hip-rt",)
        flags = [word for flag in self.flags for word in flag]
        program = self.linker or self.compiler
        return [program, *archs, *surroundings, "--hip-link", "-fgpu-rdc", *self.driver, *self.level, *flags]

    def _inputs(self) -> list[str]:
        objects = [f"{name}.o" for name in self.objects]
        return [*(["@objects.rsp"] if self.responses else objects), *self.library]

    def _write_response(self) -> None:
        path, content = self.work / "objects.rsp", "".join(f"{name}.o\n" for name in self.objects)
        if not path.exists() or path.read_text() != content:
            self._write(path.name, content)

    def _device_state(self) -> str:
        """What the device links depend on, and maybe more."""
        codes = []
        for directory, _, names in sorted(os.walk(self.work)):
            for name in sorted(names):
                path = Path(directory, name)
                if path.suffix == ".o" and path.is_file():
                    code = device_code(path.read_bytes())
                    codes.append(f"{os.path.relpath(path, self.work)} {hashlib.sha256(code).hexdigest()}")
        # (What is in a library is packed of these.)
        libraries = [str(path) for path in sorted(self.work.glob("**/*.a"))] if self.library else []
        words = [*self._device_words(), *self.objects, *self.library, *self.members]
        # The old driver takes each library that is named apart for a device link, with and without device code.
        words += [word for word in self.words() if word.startswith("-l")]
        return f"{words} {self.variables} {codes} {len(libraries)} {self.damaged_library}"

    def _some_library(self) -> list[str]:
        # The old driver takes those alone apart for device code that stand behind -l.
        sure = not self.driver and self.random.random() < 0.7
        return ["-L.", "-ldev"] if sure else self.random.choice(LIBRARY).split(" ")

    def _some_flag(self) -> list[str]:
        return self.random.choice(FLAGS if self.random.random() < 0.8 else LEFT)

    def _some_host_flag(self) -> list[str]:
        return self.random.choice(HOST if self.random.random() < 0.9 else HOST_LEFT)


def device_code(content: bytes) -> bytes:
    """What an object carries for devices: its sections with the bundler's or the packager's name. All of what is no
    ELF-64 object (System V ABI, chapter 4)."""
    try:
        if content[:6] != b"\x7fELF\x02\x01":
            return content
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count, names = struct.unpack_from("<HHH", content, 58)
        sections = [struct.unpack_from("<IIQQQQ", content, start + size * number) for number in range(count)]
    except struct.error:
        return content
    found = []
    for name, _, _, _, place, length in sections:
        first = sections[names][4] + name
        label = content[first : content.find(b"\0", first)]
        if label.startswith((b"__CLANG_OFFLOAD_BUNDLE__hip", b".llvm.offloading")):
            found.append(label + content[place : place + length])
    return b"".join(found)
