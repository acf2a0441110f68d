"""The lexer of `native/lexer.c` in Python, for where there is no native library: the same state machine, function for
function, and the same output. See there for the rules and their reasons.

It takes time in proportion to the text, some fifty times as long as the native one. No step of it is long, so that a
signal is heard.
"""

from __future__ import annotations

from hipcache.inputs.lexer_span import (
    ALL,
    AMBIGUOUS,
    BACKSLASH,
    BEGIN,
    DIRECTIVE,
    IN_LINES,
    NAME,
    NAMES,
    NEWLINE,
    NOT_BARE,
    RAW,
    SINGLE,
    SLASH,
    STAR,
    WORD,
    Spans,
)
from hipcache.patterns import pattern

_DIGITS = frozenset(b"0123456789")
_ODD = frozenset([*range(0x80, 0x100), *b"$"])
_RAW_PREFIXES = (b"R", b"LR", b"UR", b"uR", b"u8R")
_READING = (b"include", b"include_next", b"import", b"embed")
_SAYING = (b"error", b"warning")
_WORDS = pattern(rb"[A-Za-z0-9_]{1,60000}")
_PLAIN = pattern(rb"[^A-Za-z0-9_$\x80-\xff\\/\"'#%<?.(\n\r\0 \t\f\v]{1,60000}")
_BLANKS = pattern(rb"[ \t\f\v\0]{1,60000}")
_LITERAL_END = pattern(rb"['\\\n\r]")


class Lexer(Spans):
    """One text, from its beginning to its end."""

    def run(self) -> None:
        at = self.text.find(b"\r")
        while at >= 0 and self.text[at + 1 : at + 2] == b"\n":
            at = self.text.find(b"\r", at + 1)
        if at >= 0 or b"\0" in self.text:
            self.flags |= NOT_BARE
        while self.at < self.end:
            self._step()
        self._end_of_line()
        self._copy_until(self.end)
        while self.bare and self.bare[-1] in b" \t\r\n\0":
            self.bare.pop()

    def _bits_of(self, word: bytes) -> int:
        bits = self.table.get(word, 0)
        if not bits:
            for begin, inner, found in self.patterns:
                if word.startswith(begin) and inner in word[len(begin) :]:
                    return found
        return bits

    def _word(self) -> None:
        odd = self.at == self.odd
        word = b""
        while True:
            run = _WORDS.match(self.text, self.at)
            if run:
                word += run.group()
                self.at = run.end()
                continue
            behind = self._behind_splices(self.at)
            if behind == self.at:
                break
            self.at = behind
        self._put(word)
        named = self.place == NAME
        self._token()
        if named and word in _READING:
            self.reads = self.names_follow = True
            self.kept = not self.asked & ALL
            if not self.digraph and word.startswith(b"i"):
                return
        elif named and word in _SAYING:
            self.says = True
        bits = self._bits_of(word)
        if bits:
            self.words += (b"#" if self.place == DIRECTIVE else b" ") + word + b" "
        if self.place == DIRECTIVE:
            self.kept = self.kept or bool(bits & IN_LINES)
            self.names_follow = bool(bits & NAMES) or (self.names_follow and self.reads)
        quote = self.text[self.at : self.at + 1]
        if odd and quote in (b'"', b"'"):
            self.flags |= AMBIGUOUS
        if quote == b'"' and not self.asked & RAW and word in _RAW_PREFIXES:
            self._raw_string()

    def _number(self) -> None:
        odd, last, opened = self.at == self.odd, 0, False
        self._token()
        while self.at < self.end:
            char = self.text[self.at]
            if char == BACKSLASH:
                behind = self._behind_splices(self.at)
                if behind == self.at:
                    break
                self.at = behind
                continue
            goes_on = char in WORD or char == 46 or (char in b"+-" and last in b"eEpP")
            if char == SINGLE and not self.asked & RAW:
                goes_on = self._next() in WORD
                opened = opened != goes_on
                if odd:
                    self.flags |= AMBIGUOUS
            if not goes_on:
                break
            self._put(bytes([char]))
            last = char
            self.at += 1
        if self.text[self.at : self.at + 1] == b"'":
            self.flags |= AMBIGUOUS
        self.names_follow = self.names_follow and self.reads
        if opened:
            self._after_separator()

    def _after_separator(self) -> None:
        if self.separated < self.at:
            end = _LITERAL_END.search(self.text, self.at)
            self.separated = end.start() if end else self.end
        if self.text[self.separated : self.separated + 1] in (b"'", b"\\"):
            self.flags |= NOT_BARE

    def _other(self, char: int) -> None:
        self._token()
        self._put(bytes([char]))
        self.at += 1
        self.names_follow = self.names_follow and (self.reads or char == 40)

    def _step(self) -> None:
        text, char = self.text, self.text[self.at]
        if char in WORD:
            if char in _DIGITS:
                self._number()
            else:
                self._word()
        elif char in b" \t\f\v\0":
            run = _BLANKS.match(text, self.at)
            assert run
            if self.place != NAME:
                self._put(b" " * len(run.group()))
            self.at = run.end()
        elif char in NEWLINE:
            if text.startswith(b"\r\n", self.at):
                self.at += 1
            self._newline()
        else:
            self._step_to_mark(char)

    def _step_to_mark(self, char: int) -> None:
        """The next character is no letter, digit, blank or end of a line."""
        text, raw = self.text, self.asked & RAW
        if char == 46 and self._next() in _DIGITS:
            self._number()
        elif char == BACKSLASH:
            size = self._splice(self.at)
            if size:
                self.odd = self.at + size if self.odd == self.at else self.odd
                self.at += size
            else:
                self.flags |= NOT_BARE
                self._other(char)
                self.odd = self.at
        elif char in _ODD:
            self._other(char)
            self.odd = self.at
        elif char == SLASH and not raw and self._next() in (SLASH, STAR):
            self._comment(self._behind_splices(self.at + 1))
        elif char in b"\"'" and not raw:
            self._quoted(char)
        elif not raw and self.place == BEGIN and (char == 35 or (char == 37 and self._next() == 58)):
            self.capturing, self.kept, self.place = True, bool(self.asked & ALL), NAME
            self._put(b"#")
            self.digraph = char == 37
            self.at = self._behind_splices(self.at + 1) + 1 if self.digraph else self.at + 1
        elif char == 60:  # <
            self._token()
            if not self.names_follow or raw or not self._angled():
                self._other(char)
        elif char == 63 and text.startswith((b"??=", b"??/", b"??'"), self.at):
            self.flags |= AMBIGUOUS
            self._other(char)
        elif (run := _PLAIN.match(text, self.at)) is not None:
            self._token()
            self._put(run.group())
            self.names_follow = self.names_follow and self.reads
            self.at = run.end()
        else:
            self._other(char)
