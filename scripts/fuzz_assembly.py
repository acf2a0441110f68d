"""The fuzzer's sources of the GPU's assembler (`fuzz.py --assembler`)."""

from __future__ import annotations

from fuzz_case import table
from fuzz_compile import Compile

# Lines for the GPU's assembler, the harmless ones first, and options for it.
LINES = r"""
v_add_u32 v0, s0, v1|s_nop 1|s_waitcnt lgkmcnt(0)|.p2align 4|.file 1 "a.c"|.loc 1 3|.FILE 1 "b.c"|label:|s_branch label
.macro add d a:req b=v3`v_add_u32 \d, \a, \b`.endm`add v0, s1`add v1, s1, v2
.irp x,1,2`s_nop \x`.endr|.rept 2`s_nop 0`.endr
.macro own`own_\@:`s_cbranch_scc0 own_\@`.endm`own`own|.section .note`.ascii "\001\002\"q\\"`.text|.set n, 3`s_nop n
.include "more.inc"|.INCBIN "more.inc"|".incbin" "more.inc"|.macro m p`.inc\p "more.inc"`.endm`m bin|// include "x"
.macro m p q`a\p\q "more.inc"`.endm`m "x: ; .inc" "bin"|.irpc x,b`.inc\x\()in "more.inc"`.endr|.warning "w"|.print "p"
.macro o v`.macro m p q`\\v "more.inc"`.endm`.endm`o "p\q"`m .inc bin|no_such v0|.ifdef A`s_nop A`.endif|.end|.ident "x"
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"|.cfi_sections .debug_frame
.section .x`.asciz "/usr/include/x.h"`.text|.altmacro|.comm c,4,4
"""
ASSEMBLING = """
-g | -gdwarf-4 | -g -gz | -g -fdebug-prefix-map=inc=x | -ggdb3 | -mcode-object-version=4 | -mcode-object-version=5
-mwavefrontsize64 | -mcumode | -Wa,--noexecstack | -Wa,-defsym,A=2 | -Wa,-I,inc | -Iinc | -MD | -O3 | -DX=1 | -Wall
-fPIC | -w | -Werror | -Wa,--fatal-warnings | -Wa,-W | -Wa,-L | -save-temps | -v | -mllvm -opt-bisect-limit=3
-gsplit-dwarf -g | --typo | -Xassembler -I -Xassembler inc | -nogpulib | -fno-integrated-as | -frecord-command-line
-fdebug-compilation-dir=x | -g -fdebug-compilation-dir=x | -Wa,--crel | -x assembler-with-cpp | @asm.rsp
"""


class Assembly(Compile):
    """A source of the GPU's assembler."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compiler = self.compiler.replace("++", self.random.choice(["", "++"]))
        self.language = self.random.choice(["-x assembler", "-xassembler", ""]).split()
        self.target = self.random.choice([["-target", "amdgcn-amd-amdhsa"]] * 3 + [["--target=amdgcn-amd-amdhsa"]])
        self.cpu = "gfx90a"
        del self.flags[self.random.randrange(2) :]
        self._write("more.inc", ".byte 1\n")
        self._write("asm.rsp", "-Wa,-defsym,A=5\n")
        self._text()

    def words(self) -> list[str]:
        flags = [word for flag in self.flags for word in flag]
        options = [*self.language, *self.target, f"-mcpu={self.cpu}", *flags, *self.output]
        return [self.compiler, *options, "-c", "k.s"]

    def _text(self) -> str:
        rows = LINES.strip().splitlines()
        lines = "|".join(rows[:3] if self.random.random() < 0.7 else rows).split("|")
        some = ["k:", *self.random.sample(lines, self.random.randrange(1, 5)), "s_endpgm", ""]
        # A small one is left to the compiler.
        self._write("k.s", "\n".join(some).replace("`", "\n") + ("; " + "-" * 97 + "\n") * ((1 << 18) // 100 + 1))
        return f"k.s is {some}"

    def _edit(self) -> str:
        edits = (
            self._nothing,
            self._nothing,
            self._text,
            self._more,
            self._move,
            self._anew,
            self._variable,
            self._cpu,
        )
        return self.random.choice((*edits, self._flag))()

    def _some_flag(self) -> list[str]:
        return self.random.choice(table(ASSEMBLING))

    def _more(self) -> str:
        self.version += 1
        self._write("more.inc", f".byte {self.version}\n")
        return "more.inc is other text"

    def _anew(self) -> str:
        text = (self.work / "k.s").read_text()
        (self.work / "k.s").unlink()
        self._write("k.s", text)
        return "k.s is written anew"

    def _cpu(self) -> str:
        self.cpu = self.random.choice(["gfx90a", "gfx906", "gfx90a:xnack+", "gfx000"])
        return f"for {self.cpu}"
