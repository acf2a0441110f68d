"""The record of a whole compile for every checkout: another one, with HIPCACHE_BASEDIR, is served without the engine.

It is a direct record (`direct/record.py`) whose paths stand as in keys of units (`inputs/basedir.py`): where the base
directory was named, in the working directory, the command, the variables, the paths that mattered and the dependency
file, there is a mark, for which the native program puts its own base directory (`native/direct/elsewhere.c`). It has no
state, since other files never have the same one: contents decide each time. So a source that differs, or a header that
is in one of the checkouts alone, sends the compile to the engine.

Whether what was made is the same in each checkout is no new question: it is what lets the engine share it, unit by unit
(`execution/passes`: an entry that belongs to no base directory). More is asked of what the engine would do anew there:

- The driver's plan is one of the translated words. Its CUID must be, too: ours is, if no macro names the base
  directory.
- No path may lead out of the checkout other than by its name: the base directory is no link, and nothing that mattered
  lies beside it (`../other`, a link to there), but at places that the command or a variable names (of PWD the place
  itself, where a build was started from: `ninja -C`). Neither does the compiler lie in it.
- Names in a dependency file are those that make and clang write alike, without blanks; its lines are broken anew.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from hipcache import __version__
from hipcache.base.keys import make_key
from hipcache.base.patterns import pattern
from hipcache.base.shared import DIRECT_KIND_ELSEWHERE
from hipcache.base.values import replace
from hipcache.build import depfile
from hipcache.direct.record import NO_STATE, DirectRecord, Rule, of_project, variables_digest
from hipcache.inputs.basedir import MARK, Basedir
from hipcache.inputs.watched import GUARD

_PLAIN = pattern(r"(?:/[\w.+@-]+)+", re.ASCII)


def key(argv: Sequence[str], cwd: str, basedir: str) -> str:
    """As `record.key`."""
    portable = Basedir(basedir).portable
    words = [("word", portable(word)) for word in argv]
    files = [(name, portable(path)) for name, path in of_project(cwd)]
    inputs = [("version", __version__), ("directory", portable(cwd)), *files, *words]
    return make_key(DIRECT_KIND_ELSEWHERE, inputs).digest


def of(
    record: DirectRecord,
    argv: Sequence[str],
    cwd: str,
    variables: Mapping[str, str],
    system: Sequence[str],
    named: frozenset[str],
    pwd: str,
) -> DirectRecord | None:
    """The record for every checkout, made from that of this one; None if there can be none. `variables`: those that
    matter, which name the base directory; `system`: the paths of the system that mattered; `named`: see `places`;
    `pwd`: the variable, which LLVM looks at only to see whether it names the working directory."""
    path = variables.get("HIPCACHE_BASEDIR", "")
    basedir = Basedir(path)
    if path != basedir.path or not _PLAIN.fullmatch(path) or os.path.realpath(path) != path or not record.contents:
        return None
    # A directory here says nothing of names in the one that stands in its place.
    watched = [entry for entry in record.watched if entry.kind != GUARD]
    paths = [*(path for entry in watched for path in entry.paths), *(output.path for output, _ in record.outputs)]
    texts = [*argv, cwd, *variables.values(), *paths, *system]
    rules = [_rule(rule, basedir) for rule in record.rules]
    if path in argv[0] or path in variables.get("PATH", ""):
        return None  # links may lead from a compiler there to one outside
    if any(MARK in text for text in texts) or None in rules or basedir.named_in(record.messages):
        return None
    if any(path in entry for entry in system) or any(
        _is_beside(entry, basedir, named) for entry in paths if entry != pwd
    ):
        return None
    return replace(
        record,
        variables=variables_digest({name: basedir.portable(value) for name, value in variables.items()}),
        state=NO_STATE,
        outputs=tuple((replace(output, path=basedir.portable(output.path)), size) for output, size in record.outputs),
        history=(),
        watched=tuple(entry._replace(path=basedir.portable(entry.path)) for entry in watched),
        rules=tuple(rule for rule in rules if rule),
    )


def places(words: Iterable[str], variables: Mapping[str, str], tools: Iterable[str]) -> frozenset[str]:
    """The directories in which inputs may lie wherever the checkout is: those that words and variables name, and those
    of the tools."""
    named = [word[word.find("/") :] for word in words if "/" in word]
    named += [part for value in variables.values() for part in value.split(":")]
    named += [os.path.dirname(os.path.dirname(tool)) for tool in tools]
    base = variables.get("HIPCACHE_BASEDIR", "") + "/"
    plain = (part.rstrip("/") for part in named if part.count("/") > 1)
    return frozenset(
        part for part in plain if not base.startswith(part + "/")
    )  # what is above all checkouts names none


def _is_beside(path: str, basedir: Basedir, named: frozenset[str]) -> bool:
    """May its place depend on where the base directory is, though it does not lie there?"""
    plain = os.path.normpath(path)
    if basedir.portable(path) != path:
        return plain != basedir.path and not plain.startswith(basedir.path + "/") and ".." in path.split("/")
    near = "/".join(basedir.path.split("/")[:2])
    parents = itertools.accumulate(plain.split("/")[1:], "{}/{}".format, initial="")
    return plain.startswith(near + "/") and named.isdisjoint(parents)


def _rule(rule: Rule, basedir: Basedir) -> Rule | None:
    text = os.fsdecode(rule.content)
    if not rule.path or MARK in rule.path or MARK in text or not text.isascii() or depfile.wrapped(text) != text:
        return None
    return Rule(basedir.portable(rule.path), os.fsencode(basedir.portable(text)))
