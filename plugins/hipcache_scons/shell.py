"""Words of a command line as the shell would make them, if no shell is needed for that.

SCons joins the words of a command and gives them to `sh -c`. A command that uses more of the shell than quotes and
backslashes (POSIX, "Shell Command Language", 2.2) is left to it.
"""

from __future__ import annotations

_OPERATORS = set("|&;<>()$`*?[]\n#~!{}")
_ESCAPED_IN_QUOTES = set('$`"\\\n')


def split(line: str) -> tuple[str, ...] | None:
    """The words of the line; None if only a shell can tell them."""
    words: list[str] = []
    word: str | None = None
    chars = iter(line)
    for char in chars:
        if char in " \t":
            if word is not None:
                words.append(word)
            word = None
            continue
        word = word or ""
        if char == "\\":
            word += next(chars, "\\")
        elif char == "'":
            for inner in chars:
                if inner == "'":
                    break
                word += inner
            else:
                return None
        elif char == '"':
            for inner in chars:
                if inner == '"':
                    break
                if inner in "$`":
                    return None
                if inner == "\\":
                    escaped = next(chars, "")
                    word += escaped if escaped in _ESCAPED_IN_QUOTES else "\\" + escaped
                else:
                    word += inner
            else:
                return None
        elif char in _OPERATORS:
            return None
        else:
            word += char
    if word is not None:
        words.append(word)
    if not words or "=" in words[0]:
        return None  # an assignment before the command
    return tuple(words)
