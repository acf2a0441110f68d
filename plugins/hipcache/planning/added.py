"""Options that a command does not have, and that the driver adds to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hipcache.disk.paths import names_stream
from hipcache.errors import PassThrough
from hipcache.patterns import pattern
from hipcache.planning import cuid
from hipcache.planning.configuration_files import words_of
from hipcache.planning.driver_options import ARCHS, chooses_cuid

# Options that certainly take no other word.
_WHOLE = pattern(r"-(?:O|W|(?:[DUI]|MJ).|std=|f[\w-]+=|g\d?$)|[^-]")
_WIDTH = "-fmessage-length="


def options(text: str, environ: Mapping[str, str]) -> list[str]:
    """Options that are not in the command: of the configuration files that the plan's banner names, and of
    CCC_OVERRIDE_OPTIONS."""
    return _edited(_edits(environ)) + _configured(text)


def counted(text: str, environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """What counts of these in a CUID. Edits are taken as they are: some take options away."""
    edits = (f"edit {edit}" for edit in _edits(environ) if edit and not edit[1:].startswith(ARCHS))
    return (*cuid.options(_configured(text), cwd), *edits)


def _configured(text: str) -> list[str]:
    names = re.findall(r"^Configuration file: (.*)$", text, re.MULTILINE)
    return [word for name in names for word in words_of(name)]


def kept(ours: Sequence[str], text: str, environ: Mapping[str, str]) -> list[str]:
    """Our options without those that the user has chosen there."""
    theirs = options(text, environ)
    chosen = ["-cuid="] if any(map(chooses_cuid, theirs)) else []
    if any(word.startswith(_WIDTH) for word in theirs):
        chosen.append(_WIDTH)
    return [word for word in ours if not word.startswith(tuple(chosen))]


def check_edits(environ: Mapping[str, str]) -> None:
    """Raises PassThrough if CCC_OVERRIDE_OPTIONS puts an option first whose value may be the next word: that would be
    our own `-###`, and the driver would compile."""
    for edit in _edits(environ):
        if edit[:1] == "^" and not _WHOLE.match(edit[1:]):
            raise PassThrough("plan", f"CCC_OVERRIDE_OPTIONS has '{edit}'")


def _edits(environ: Mapping[str, str]) -> list[str]:
    return environ.get("CCC_OVERRIDE_OPTIONS", "").removeprefix("#").split(" ")


def _edited(edits: list[str]) -> list[str]:
    """The words that CCC_OVERRIDE_OPTIONS adds to a command (clang/lib/Driver/Driver.cpp: `applyOneOverrideOption`).
    A `#` in front silences what the driver says about the edits. Raises PassThrough for one that may turn any word into
    any other."""
    words: list[str] = []
    for edit in edits:
        if edit.startswith(("+", "^")):
            words.append(edit[1:])
        elif edit and edit[0] not in "xXO":
            raise PassThrough("plan", f"CCC_OVERRIDE_OPTIONS has '{edit}'")
    return words


def why_passed_through(option: str) -> str:
    """The reason why a compile with such an option is left to the compiler, whatever its kind; empty if it is not."""
    return "standard_streams" if names_stream(option, "/") else ""
