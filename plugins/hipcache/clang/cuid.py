"""The CUID of an object: the same for any set of offload archs, and different for each object of a program.

Clang makes names of static device variables and kernels unique with the compilation unit ID, and from 18 on defines a
global symbol `__hip_cuid_<md5>`: two objects with one CUID do not link together, or become one. The driver's default
hashes the real path of the source (clang 22: its name as spelled) and all options with the object's name, in order
(clang/lib/Driver/Driver.cpp, `CUID_Hash`), so that each set of archs would be another program.

hipcache's CUID hashes the same but for the archs, and is the same in every checkout. The rule (docs/safe.md):

    base directory   paths stand below it: HIPCACHE_BASEDIR's, a package builder's, a probe's
    without it       the outermost directory above a file that is a working copy or a build tree (a source's is at
                     least a working copy), and the name of its project: two working copies may lie in no common one;
                     where an option names another root (a build tree's), its place beside the source's counts, too
    neither          paths are absolute
    options          all, in order, but those of archs, dependency files and the colours of messages
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from hipcache.base.keys import make_key
from hipcache.clang.command import output_in, words_of
from hipcache.clang.driver_options import ARCHS

if TYPE_CHECKING:
    from hashlib import md5
else:
    try:
        from _md5 import md5  # `hashlib` loads OpenSSL, which takes 2 ms
    except ImportError:  # a Python that has OpenSSL's alone
        from hashlib import md5

_WORKING_COPY = (".git", ".hg", ".svn", ".jj", ".bzr", "_darcs", ".fslckout")
_BUILD_TREE = ("CMakeCache.txt", "build.ninja", ".sconsign.dblite", "meson-info")
_MARKERS = _WORKING_COPY + _BUILD_TREE

# Of links, of dependency files, of the colours and the width of messages, and of CUIDs: the compile is the same with
# any of them, and build tools, generators and terminals differ in these.
_ASIDE = (
    *("-l", "-L", "-Wl,", "-Xlinker", "-no-hip-rt", "-shared", "-rdynamic", "-rpath", "-fuse-ld="),
    *("-M", "--write-dependencies", "--write-user-dependencies", "-fuse-cuid="),
    *("-fcolor-diagnostics", "-fno-color-diagnostics", "-fdiagnostics-color", "-fno-diagnostics-color"),
    *("-fansi-escape-codes", "-fno-ansi-escape-codes", "-fmessage-length="),
)
_WHOLE_ASIDE = ("", "-c", "--compile")
_DIRECTORIES = ("-isystem", "-iquote", "-idirafter", "-cxx-isystem", "-I")
_MACROS = ("-D", "-U")


def options(arguments: Iterable[str], cwd: str) -> Iterator[str]:
    """The options that count, in their order; directories of headers are absolute."""
    for _, word, value in words_of(tuple(arguments)):
        if word in _WHOLE_ASIDE or word.startswith((*ARCHS, *_ASIDE)) or output_in(word, value) is not None:
            continue
        directory = next((option for option in _DIRECTORIES if word.startswith(option)), "")
        if directory:
            yield directory + _absolute(word.removeprefix(directory) or value, cwd)
        else:
            yield word + value if word in _MACROS else f"{word} {value}".rstrip()


def make_cuid(
    source: str,
    output: str,
    options: Iterable[str],
    *,
    basedir: str = "",
    cwd: str = "",
    exists: Callable[[str], bool] = os.path.lexists,
    project: Callable[[str], str] = os.path.basename,
    named_absolute: bool = False,
) -> str:
    """16 hexadecimal digits, as clang's own. `source` and `output` are absolute (`named_absolute`: the command names
    the output so); `exists` is asked of each path where a root could be marked; `project` gives the name of the project
    in a working copy."""
    named, source, output = os.path.normpath(source), os.path.realpath(source), os.path.normpath(output)
    bases = dict.fromkeys((os.path.normpath(basedir), os.path.realpath(basedir)) if basedir else ())
    source_base, output_base = _below(source, bases), _below(output, bases)
    source_root = source_base or _outermost(source, _WORKING_COPY, exists)
    output_root = output_base or _outermost(output, _MARKERS, exists)
    same = bool(source_base and output_base) or source_root == output_root
    if named_absolute and not same:
        output_root = ""  # of two build trees of one source
    named_root = source_root if named == source else _below(named, bases) or _outermost(named, _WORKING_COPY, exists)
    marks = {output_root: "\0output", source_root: "\0source", **dict.fromkeys(bases, "\0base")}
    counted = [_marked(option, marks) for option in options]
    names_output_root = not (same or output_base) and any(marks[output_root] in option for option in counted)
    inputs = [
        ("source", _place(source, source_root)),
        ("name", _place(named, named_root)),
        ("output", _place(output, output_root)),
        # Distinguishes an object outside of its source's root from one inside of it.
        ("same root", str(same)),
        ("project", project(source_root) if source_root and not source_base else ""),
        # Where one command, or a build from above, reaches several working copies.
        ("root", os.path.relpath(source_root, cwd) if not source_base and _below(source_root, [cwd]) else ""),
        # Of two trees whose places in them are the same, each with headers of its own.
        ("build tree", _place(output_root, source_root) if names_output_root else ""),
        ("root of name", _place(named_root, source_root) if named_root not in ("", source_root, *bases) else ""),
        *(("option", option) for option in counted),
    ]
    for number in count():
        cuid = make_key("cuid", inputs).digest[:16]
        if len(clangs_hash(cuid)) == 16:
            break
        inputs.append(("again", str(number)))
    return cuid


def project_name(working_copy: str) -> str:
    """The last part of the address from which git has cloned it, without `.git`; if there is none, its directory's."""
    git = os.path.join(working_copy, ".git")
    with suppress(OSError, ValueError):  # (a name with NUL, or no text)
        if os.path.isfile(git):  # a worktree's, or a submodule's: gitrepository-layout(5)
            git = os.path.join(working_copy, _content(git).removeprefix("gitdir:").strip())
            with suppress(FileNotFoundError):
                git = os.path.join(git, _content(f"{git}/commondir").strip())
        address = _origin(_content(f"{git}/config"))
        if address:
            return re.split(r"[/:]", address.rstrip("/"))[-1].removesuffix(".git")
    return os.path.basename(working_copy)


def _origin(config: str) -> str:
    """The address of the remote `origin`; empty if there is none."""
    inside = False
    for line in config.splitlines():
        if line.startswith("["):
            inside = line == '[remote "origin"]'
        name, _, value = line.partition("=")
        if inside and name.strip() == "url" and value.strip():
            return value.strip()
    return ""


def _content(path: str) -> str:
    """Raises FileNotFoundError, also for what is no regular file: a reader of a pipe would wait."""
    if not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    with open(path, encoding="utf-8") as file:
        return file.read()


def clangs_hash(cuid: str) -> str:
    """The hash that clang 18 and newer put into a symbol's name. Those with all 16 digits can stand for each other
    (`bitcode`); clang leaves out leading zeros."""
    return f"{int.from_bytes(md5(cuid.encode(), usedforsecurity=False).digest()[:8], 'little'):x}"


def _absolute(directory: str, cwd: str) -> str:
    """Without dots at its beginning. (Behind a name, `..` may lead elsewhere.)"""
    head, _, rest = directory.partition("/")
    while head in (".", ".."):
        cwd = os.path.dirname(cwd) if head == ".." else cwd
        directory = rest.lstrip("/")
        head, _, rest = directory.partition("/")
    return os.path.join(cwd, directory).rstrip("/")


def _marked(text: str, marks: dict[str, str]) -> str:
    """The text with marks in place of roots, the inner ones first."""
    for root in sorted(filter(None, marks), key=len, reverse=True):
        if root in text:
            text = re.sub(re.escape(root) + r"(?=[/=:;,\"' ]|$)", marks[root], text)
    return text


def _place(path: str, root: str) -> str:
    return os.path.relpath(path, root) if root else path


def _below(path: str, roots: Iterable[str]) -> str:
    return next((root for root in roots if root and path.startswith(root.rstrip("/") + "/")), "")


def _outermost(path: str, markers: tuple[str, ...], exists: Callable[[str], bool]) -> str:
    """The outermost directory above it that is a working copy or a build tree; empty if none has one of `markers`."""
    outermost, known = "", False
    directory = os.path.dirname(path)
    while directory not in ("/", ""):
        marked = {marker for marker in _MARKERS if exists(os.path.join(directory, marker))}
        known = known or not marked.isdisjoint(markers)
        outermost = directory if marked else outermost
        directory = os.path.dirname(directory)
    return outermost if known else ""
