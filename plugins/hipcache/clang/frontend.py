"""A pass over the source (a device front end, or the host pass): its command and its key."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from hipcache.base.keys import Key, make_key
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.build import ActionWork, Bound
from hipcache.clang import cc1, plan
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.jobs import Cc1Job
from hipcache.inputs import preprocessed
from hipcache.inputs.search import SearchPath

# Options that change with every run of a pass.
REPLACED = {Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE}
# Options that the preprocessor has no use for.
_OF_COMPILATION = {*REPLACED, Role.AUXILIARY, Role.BITCODE, Role.GPUBINARY}
# Warnings about comments or about the end of a file, beyond those that `inputs.outline` steers clear of. (All flags of
# clang 15 and 19 were tried on texts that differ in comments, blanks and the last line's end.) With `-Werror=` too.
_ABOUT_COMMENTS = (
    "-Weverything",
    "-Wdocumentation",
    "-Wnewline-eof",
    "-Winvalid-utf8",
    "-Wc++98-compat-pedantic",
    "-pedantic",
    "-Wpedantic",
    "-fparse-all-comments",
    "-E",  # Text has a line for each that there was.
)
# Messages of another format than `inputs.messages` understands, or with text of lines that they do not name.
_OTHER_FORMATS = pattern(
    r"-f(?:no-)?(?:diagnostics-(?!hotness-threshold|show-(?:category|hotness|note-include-stack|option))"
    r"|caret-diagnostics|show-|safe-buffer)"
)
_WRAPS = pattern(r"-fmessage-length[= ][1-9]")
_COUNTED = pattern(r"(?:^|\n)(?:\d+ warnings? and )?\d+ errors? generated(?: when compiling for [^\n]+)?\.\n\Z")
# Languages without raw strings, which the lexer takes for granted.
_OLD = pattern(r"--?std=(?:c|gnu)\+\+(?:98|03)")
# Without numbers like 1'000.
_WITHOUT_SEPARATORS = pattern(r"--?std=(?:c|gnu)\+\+(?:0x|11)")
# Names of static functions get a hash of the source's path, or are listed with it in a compressed section; a sanitizer
# names a part of the path.
_HASHES_PATHS = (
    "-fprofile-instr",
    "-fcs-profile",
    "-fcoverage-mapping",
    "-funique-internal-linkage-names",
    "-fpseudo-probe",
    "-fsanitize-undefined-strip-path-components",
)


@dataclass(frozen=True)
class FrontEnd:
    """A pass over the source (of a device unit or the host). `message_format`: the options for it, which are not
    in the key, since most passes print nothing. `delivers_bitcode`: is bitcode in its output, or its output?"""

    job: Cc1Job
    key: Key
    message_format: str
    delivers_bitcode: bool = False

    @property
    def cuid(self) -> str:
        return self.job.value(Role.CUID)

    @property
    def is_device(self) -> bool:
        """Is it a device's, not the host's?"""
        return any(option.name == "-fcuda-is-device" for option in self.job.options)

    @property
    def dated(self) -> bool:
        return any(option.name == "-source-date-epoch" for option in self.job.options)

    @property
    def comments_matter(self) -> bool:
        """Can an edit of a comment change an output or the messages? Debug information has digests of files, remarks
        have columns, bitcode has the places of inline assembly and of attributes with a text."""
        if self.auxiliary or keeps_directory(self.job) or self.delivers_bitcode or self._has_bitcode_beside:
            return True
        words = [option.text[0].replace("-Werror=", "-W", 1) for option in self.job.options]
        return any(word.startswith(_ABOUT_COMMENTS) or _OLD.fullmatch(word) for word in words)

    @property
    def separates_digits(self) -> bool:
        return not any(_WITHOUT_SEPARATORS.fullmatch(option.text[0]) for option in self.job.options)

    @property
    def quotes_lines(self) -> bool:
        """Are its messages of clang's usual format, which `inputs.messages` understands?"""
        return not any(_OTHER_FORMATS.match(option.text[0]) for option in self.job.options)

    @property
    def wraps_messages(self) -> bool:
        """Are lines of messages broken at a width?"""
        return bool(_WRAPS.search(self.message_format))

    def hides_paths(self, *, bitcode: bool) -> bool:
        """May a path be in the output where nobody sees it: in compressed debug information, hashed into a name, or (in
        bitcode) as no row of bytes? `bitcode`: is it a front end's, which is read?"""
        packed = any("-compress-debug-sections" in option.name for option in self.job.options)
        return packed or self.hides_paths_for_good(bitcode=bitcode)

    def hides_paths_for_good(self, *, bitcode: bool) -> bool:
        """The same of an object whose compressed sections are unpacked and looked into (`base.elf`)."""
        options = self.job.options
        if self.auxiliary or any(option.name.startswith(_HASHES_PATHS) for option in options):
            return True
        packed = any("-compress-debug-sections" in option.name for option in options)
        unseen = packed and self.job.emits != "-emit-obj"
        return unseen or (self.job.emits == "-emit-llvm-bc" and not bitcode) or self._has_bitcode_beside

    @property
    def embeds(self) -> bool:
        """Does its output contain the fat binary?"""
        return any(option.role is Role.GPUBINARY for option in self.job.options)

    @property
    def has_gap(self) -> bool:
        """Does its output hold the fat binary in a section of its own, into which it can be put afterwards? In bitcode
        and assembly it stands as a constant among others."""
        return self.embeds and self.job.emits == "-emit-obj" and not self._has_bitcode_beside

    @property
    def _has_bitcode_beside(self) -> bool:
        """An object for either kind of link has all of it once more, as bitcode."""
        return any(option.name == "-ffat-lto-objects" for option in self.job.options)

    @property
    def auxiliary(self) -> list[Option]:
        return plan.side_outputs(self.job)

    @cached_property
    def search(self) -> SearchPath:
        return cc1.search_path(self.job.options)

    @property
    def macros(self) -> list[str]:
        return [option.value for option in self.job.options if option.role is Role.MACRO]

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The plain macros that options give a value, as in the key."""
        return tuple(value for name, value in self.key.inputs if name == "option" and preprocessed.name_of(value))

    @cached_property
    def loose(self) -> str:
        """The key without these values, and without the CUID, which counts them."""
        return make_key(f"{self.key.kind} with other macros", map(_loosened, self.key.inputs)).digest

    def revalued(self, values: Collection[str]) -> tuple[frozenset[str], frozenset[str]] | None:
        """The macros that have other values than these, which were given to macros of the same names, and the names in
        both values; None if one of them is given more than one (the compiler may have something to say about that), or
        is not the user's alone."""
        names = [preprocessed.name_of(value) for value in self.values]
        pairs = [pair for pair in zip(names, self.values, values, strict=True) if pair[1] != pair[2]]
        inside = [preprocessed.names_in(value) for _, *both in pairs for value in both]
        if None in inside or any(names.count(name) > 1 or preprocessed.is_of_compiler(name) for name, *_ in pairs):
            return None
        return frozenset(name for name, *_ in pairs), frozenset[str]().union(*filter(None, inside))

    @property
    def included(self) -> list[str]:
        """The files that -include names."""
        return [option.value for option in self.job.options if option.role is Role.INCLUDE]

    @property
    def sysroot(self) -> str:
        given = cc1.sysroot(self.job.options)
        return "/" if given is None else given

    @property
    def macro_prefix_maps(self) -> list[str]:
        return [option.value for option in self.job.options if option.name == "-fmacro-prefix-map="]

    @property
    def prefix_maps(self) -> list[str]:
        """Those for debug information, macros and coverage."""
        return [option.value for option in self.job.options if option.name.endswith("-prefix-map=")]

    @property
    def source(self) -> str:
        return self.job.source

    def argv(self, output: Path, dependencies: Path, *, bitcode: bool, gpubinary: Path | None = None) -> list[str]:
        """The command that writes `output` and make's `dependencies` (and, where those leave out system headers, a
        graph of all headers to `graph_file(dependencies)`: -header-include-file would leave them out too)."""
        words = [self.job.program, "-cc1", "-dependency-file", str(dependencies), "-MT", "output", "-o", str(output)]
        words += ["-sys-header-deps"] if self.job.all_headers else ["-dependency-dot", str(graph_file(dependencies))]
        for option in self.job.options:
            if option.role in REPLACED or option.text == ("-cc1",):
                continue
            if option.role is Role.AUXILIARY:
                file = str(auxiliary_file(output, option))
                words += [option.name + file] if option.name.endswith("=") else [option.name, file]
                continue
            if option.role is Role.EMIT and bitcode:
                # With the order of uses kept, the back end sees the very IR that it would have had in one step.
                words += ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes"]
            elif option.role is Role.GPUBINARY:
                words += [option.name + str(gpubinary)] if option.name.endswith("=") else [option.name, str(gpubinary)]
            else:
                words += option.text
        return words

    def preprocessor(self, marked: Collection[str], left_out: Collection[str] = ()) -> list[str]:
        """The command that prints the preprocessed text, with a mark for each of those macros: of an option, in its
        place, or a builtin one. The options that define macros to be `left_out` are."""
        words = [self.job.program, "-cc1"]
        builtin = set(marked)
        for option in self.job.options:
            name = preprocessed.name_of(option.joined)
            if option.role in _OF_COMPILATION or option.text == ("-cc1",) or name in left_out:
                continue
            if name in marked:
                words += ["-D", f"{name}={preprocessed.mark(name)}"]
                builtin.discard(name)
            else:
                words += ["-E"] if option.role is Role.EMIT else option.text
        words += [f"-D{name}={preprocessed.mark(name)}" for name in sorted(builtin)]
        return [*words, "-Wno-builtin-macro-redefined", "-o", "-"]

    @cached_property
    def numbers_lines(self) -> bool:
        """May an option put the numbers of lines into its output, whatever the text is?"""
        from hipcache.clang import spelling

        return self.comments_matter or not spelling.shows_no_line(self.job)


def _loosened(part: tuple[str, str]) -> tuple[str, str]:
    name, value = part
    macro = preprocessed.name_of(value) if name == "option" else ""
    return name, f"macro {macro}" if macro else "CUID" if value.startswith("-cuid=") else value


def auxiliary_file(output: Path, option: Option) -> Path:
    """The file that the option asks for, beside the `output` of a pass."""
    return output.with_name(output.name + option.name.rstrip("="))


def graph_file(dependencies: Path) -> Path:
    return dependencies.with_suffix(".dot")


def keeps_directory(job: Cc1Job) -> bool:
    """Does the working directory get into the output? With debug information or coverage it does."""
    names = ("-debug-info-kind", "-fcoverage-mapping", "-fprofile", "-gembed", "-debug-info-macro", "-coverage-")
    return any(option.name.startswith(names) for option in job.options)


def counts_errors(text: str) -> bool:
    """Do the messages end with the number of errors, as those of a front end do that found some?"""
    return _COUNTED.search(text) is not None


# The outputs of passes: of a front end the essence of its bitcode, and the same without its CUID (empty if it has
# none).
BITCODE, NEUTRAL, OUTPUT = "bitcode", "neutral", "output"


@dataclass(frozen=True)
class Pass(ActionWork):
    """A pass that is run, which writes files that begin with `stem` in the scratch. `bitcode`: does it end before its
    back end? `gpubinary`: the input that is to be its fat binary, empty if it takes none; `shared`: may its result
    serve other spellings of its paths?"""

    front: FrontEnd
    stem: str
    bitcode: bool = False
    gpubinary: str = ""
    shared: bool = False


def pass_of(bound: Bound) -> Pass:
    """The work of an action that is a pass."""
    assert isinstance(bound.action.work, Pass)
    return bound.action.work


def loose_key(bound: Bound) -> str:
    """The key under which what a pass made is kept for other values of macros, and for other CUIDs (`cache/edits`);
    empty if there is none."""
    work = pass_of(bound)
    front = work.front
    is_kept = work.shared and bound.key.digest == front.key.digest and not front.numbers_lines
    return front.loose if is_kept and (front.values or front.cuid) else ""
