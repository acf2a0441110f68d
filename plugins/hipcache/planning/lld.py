"""The device linker's words: which of them are the driver's own, and what in them names a file."""

from __future__ import annotations

from hipcache.errors import PassThrough
from hipcache.patterns import pattern
from hipcache.planning.cc1 import REFUSED_LLVM

# The options that the driver itself gives lld. Options of users (-Xoffload-linker) may write files (-Map=), or put the
# name of lld's temporary output into the code object (--version-script=).
_KNOWN = pattern(
    r"-flavor$|gnu$|-m$|elf64_amdgpu$|--?no-undefined$|-shared$|--lto-(CGO[0-3]|partitions=\d+)$|--(no-)?whole-archive$"
    r"|-o$|[^-]|--fat-lto-objects$|--compress-debug-sections=(none|zlib|zstd)$"
    r"|--?plugin-opt=(-amdgpu-internalize-symbols|mcpu=|O[0-3]$|-mattr=|-debugger-tune=\w+$|thinlto$|-force-import-all$"
    r"|(jobs|lto-partitions)=\d+$|opt-remarks-(format|passes|with-hotness|hotness-threshold)\b)"
)
# Of LLVM's own options, those that may count what is done in a process: a link's threads, or all archs, share a count.
COUNTING = pattern(r"bisect|limit|counter|cutoff")
_WITH_VALUE = frozenset(["-flavor", "-m", "-o"])
_PLUGIN_OPTION = pattern(r"^--?plugin-opt=")  # clang 15 writes both


def known_link(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Raises PassThrough if the device linker gets an option that is not the driver's own."""
    for before, word in zip(("", *arguments), arguments, strict=False):
        if word != "-mllvm" and not _KNOWN.match(word):
            option = _PLUGIN_OPTION.sub("", word, count=1)
            # Without a dash it is one of lld's own: some write files (save-temps, thinlto-index-only, emit-asm).
            is_llvms = option.startswith("-") and (option != word or before == "-mllvm")
            if not is_llvms or REFUSED_LLVM.search(option) or (before == "-mllvm" and COUNTING.search(option)):
                raise PassThrough("linker_option", word)
    return arguments


def inputs(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The words that lld takes for files to read, in order."""
    after = zip(("", *arguments), arguments, strict=False)
    return tuple(word for before, word in after if not word.startswith("-") and before not in _WITH_VALUE)


def value_of(word: str) -> str:
    """The part of an option of the device linker that may name a file to read; empty if there is none."""
    name, _, value = _PLUGIN_OPTION.sub("", word, count=1).partition("=")
    return "" if name == "mcpu" or not word.startswith("-") else value
