"""Response files: `@file` in a command stands for the words in that file."""

from __future__ import annotations

import os

from hipcache.disk.paths import is_stream
from hipcache.errors import PassThrough


def expand(
    arguments: tuple[str, ...], cwd: str, read: dict[str, os.stat_result] | None = None, depth: int = 0
) -> tuple[str, ...]:
    """Response files (`@file`) read in, with the quoting rules of GNU's (llvm::cl::TokenizeGNUCommandLine). `read`
    gets the path of each, with its status before it was read. Raises PassThrough."""
    if not any(word.startswith("@") for word in arguments):
        return arguments
    if depth > 20:
        raise PassThrough("response_file", "nested too deep")
    words: list[str] = []
    for word in arguments:
        if not word.startswith("@"):
            words.append(word)
            continue
        path = os.path.join(cwd, word[1:])
        if is_stream(path):
            raise PassThrough("response_file", f"'{word[1:]}' is not a regular file")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                if read is not None:
                    read[path] = os.fstat(file.fileno())
                words += expand(tokenize(file.read()), cwd, read, depth + 1)
        except OSError as error:
            raise PassThrough("response_file", f"'{word[1:]}': {error.strerror}") from error
    return tuple(words)


def tokenize(text: str) -> tuple[str, ...]:
    """Words of a response file: blanks separate, a backslash takes the next character, quotes group."""
    words: list[str] = []
    word, started, quote, i = "", False, "", 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            i += 1
            word, started = word + text[i], True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char in "'\"":
            quote, started = char, True
        elif char in " \t\r\n\0":
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + char, True
        i += 1
    if started:
        words.append(word)
    return tuple(words)
