"""Configuration files of clang: options that the driver reads before those of the command.

Words have the quoting rules of response files, within a line; a backslash at its end continues it, and `#` in front of
it makes it a comment. `@file` stands for the words of another such file. Its name, if relative, and `<CFGDIR>` begin at
the file in which they stand (llvm/lib/Support/CommandLine.cpp: `tokenizeConfigFile`, `expandResponseFile`).
"""

from __future__ import annotations

import codecs
import os
import re

from hipcache.disk.paths import is_stream
from hipcache.errors import PassThrough
from hipcache.patterns import pattern
from hipcache.planning.responses import tokenize

_BLANKS = " \t\r\n"
_LINE = pattern(rf"[{_BLANKS}]*(#[^\n]*|(?:\\\r\n|\\.|[^\\\n]|\\\Z)+)", re.DOTALL)
_CONTINUED = pattern(r"\\(?:(\r?\n)|(.))", re.DOTALL)
_MOST_NESTED = 20


def words_of(path: str, depth: int = 0) -> list[str]:
    """The options in such a file, and in those that it names. Raises PassThrough."""
    if depth > _MOST_NESTED:
        raise PassThrough("response_file", f"'{path}': nested too deep")
    words: list[str] = []
    directory = os.path.dirname(path)
    for line in _LINE.findall(_text(path)):
        if line.startswith("#"):
            continue
        joined = _CONTINUED.sub(lambda found: "" if found[1] else found[0], line)
        for word in (one.replace("<CFGDIR>", directory) for one in tokenize(joined)):
            if word.startswith("@"):
                words += words_of(os.path.join(directory, word[1:]), depth + 1)
            elif word.startswith("--config="):  # by the driver's rules of where to look
                raise PassThrough("plan", f"'{path}' has '{word}'")
            else:
                words.append(word)
    return words


def _text(path: str) -> str:
    if is_stream(path):
        raise PassThrough("standard_streams", path)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise PassThrough("driver", f"'{path}': {error.strerror}") from error
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16", "replace") if utf16 else raw.decode("utf-8-sig", "surrogateescape")
