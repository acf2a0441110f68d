"""The part of the lexer in Python (`lexer`) that takes literals, header names and comments, and puts a line out: as
`native/lexer_line.c` and `lexer_span.c`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hipcache import shared
from hipcache.patterns import pattern

BARE, ALL, RAW = shared.LEXER_BARE, shared.LEXER_ALL, shared.LEXER_RAW
NOT_BARE, UNPLAIN, AMBIGUOUS = shared.LEXED_NOT_BARE, shared.LEXED_UNPLAIN, shared.LEXED_AMBIGUOUS
IN_LINES, NAMES = shared.WORD_IN_LINES, shared.WORD_NAMES

_BLANK, NEWLINE = b" \t\f\v", b"\n\r"
WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")
_DELIMITER = WORD | frozenset(b"{}[]#<>%:;?*+-/^&|~!=,'.")
# Runs are taken in one step, each of limited length.
_ORDINARY = pattern(rb"[^\"'\\\n\r?]{1,60000}")
_IN_LINE = pattern(rb"[^\\\n\r]{1,60000}")
BEGIN, NAME, _CODE, DIRECTIVE = range(4)
SLASH, STAR, BACKSLASH, _DOUBLE, SINGLE = b"/*\\\"'"

Patterns = Sequence[tuple[bytes, bytes, int]]


class Spans:
    """One text. `table`: bits by word; `patterns`: (beginning, part that it holds, bits)."""

    def __init__(self, text: bytes, table: Mapping[bytes, int], patterns: Patterns, asked: int) -> None:
        self.text, self.end, self.at = text, len(text), 3 if text.startswith(b"\xef\xbb\xbf") else 0
        self.table, self.patterns, self.asked = table, patterns, asked
        self.bare, self.lines, self.strings, self.words = bytearray(), bytearray(), bytearray(), bytearray()
        self.flags = 0
        self.copied, self.separated, self.unclosed, self.odd, self.place, self.line = 0, 0, 0, -1, BEGIN, 0
        self.capturing = self.kept = self.reads = self.says = self.digraph = self.names_follow = False

    def _put(self, more: bytes) -> None:
        if self.capturing:
            self.lines += more

    def _splice(self, start: int) -> int:
        at = start + 1
        while at < self.end and self.text[at] in _BLANK:
            at += 1
        if at == self.end or self.text[at] not in NEWLINE:
            return 0
        if at != start + 1:
            self.flags |= NOT_BARE
        first = self.text[at]
        at += 1
        if at < self.end and self.text[at] in NEWLINE and self.text[at] != first:
            at += 1
        return at - start

    def _behind_splices(self, at: int) -> int:
        while at < self.end and self.text[at] == BACKSLASH:
            size = self._splice(at)
            if not size:
                break
            at += size
        return at

    def _next(self) -> int:
        """The next character, -1 at the end."""
        at = self._behind_splices(self.at + 1)
        return self.text[at] if at < self.end else -1

    def _copy_until(self, at: int) -> None:
        if self.asked & BARE:
            self.bare += self.text[self.copied : at]
        self.copied = at

    def _trim(self) -> None:
        while self.bare and self.bare[-1] in b" \t\r":
            self.bare.pop()

    def _end_of_line(self) -> None:
        if self.capturing:
            if self.kept:
                self._put(b"\n")
            else:
                del self.lines[self.line :]
        self.place = BEGIN
        self.capturing = self.kept = self.reads = self.says = self.digraph = self.names_follow = False
        self.line = len(self.lines)

    def _token(self) -> None:
        if self.place == BEGIN:
            self.capturing = self.kept = bool(self.asked & ALL)
            self.place = _CODE
        elif self.place == NAME:
            self.place = DIRECTIVE

    def _newline(self) -> None:
        if self.asked & BARE:
            blanks = self.at
            while blanks > self.copied and self.text[blanks - 1] in b" \t\r":
                blanks -= 1
            if blanks < self.at or blanks == self.copied:
                self._copy_until(blanks)
                self._trim()
                self.copied = self.at
        self.at += 1
        self._end_of_line()

    def _quoted(self, quote: int) -> None:
        keeps = quote == _DOUBLE and not self.names_follow
        self._token()
        if self.at == self.odd:
            self.flags |= AMBIGUOUS
        contents = bytearray()
        closed = False
        self.at += 1
        while True:
            self.at = self._behind_splices(self.at)
            if self.at == self.end or self.text[self.at] in NEWLINE:
                self.flags |= UNPLAIN
                break
            run = _ORDINARY.match(self.text, self.at)
            if run:
                contents += run.group()
                self.at = run.end()
                continue
            char = self.text[self.at]
            self.at += 1
            if char == quote:
                closed = True
                break
            contents.append(char)
            if char == BACKSLASH:
                self.at = self._behind_splices(self.at)
                if self.at < self.end and self.text[self.at] not in NEWLINE:
                    contents.append(self.text[self.at])
                    self.at += 1
            elif self.text.startswith((b"?/", b"?'") if quote == SINGLE else b"?/", self.at) and char == 63:
                self.flags |= AMBIGUOUS
        mark = bytes([quote])
        self._put(mark + contents + (mark if closed else b""))
        if keeps:
            self.strings += contents + b"\n"
        self.names_follow = False

    def _raw_string(self) -> None:
        start = self.at
        opened = start + 1
        while opened < self.end and opened - start - 1 < 16 and self.text[opened] in _DELIMITER:
            opened += 1
        if self.text[opened : opened + 1] != b"(":
            self.flags |= AMBIGUOUS
            close = self.text.find(b'"', start + 1)
            self.at = close + 1 if close >= 0 else self.end
        else:
            tail = b")" + self.text[start + 1 : opened] + b'"'
            close = self.text.find(tail, opened + 1)
            if close < 0:
                self.flags |= AMBIGUOUS
            self.at = close + len(tail) if close >= 0 else self.end
        content = self.text[start : self.at]
        plain = content.replace(b"\n", b" ").replace(b"\r", b" ")
        if self.says and plain != content:
            self.flags |= AMBIGUOUS
        self._put(plain)
        self.strings += plain + b"\n"
        self.names_follow = False

    def _angled(self) -> bool:
        at, name, odd, closed, last = self.at + 1, bytearray(b"<"), False, False, 0
        self.names_follow = False
        if self.at < self.unclosed:
            return False
        while not closed:
            at = self._behind_splices(at)
            if at == self.end or self.text[at] in NEWLINE:
                break
            char = self.text[at]
            at += 1
            closed = char == 62  # >
            odd = odd or char in b"\"'" or (last == SLASH and char in b"/*") or (last == char == 63)
            name.append(char)
            last = char
            if char == BACKSLASH:
                at = self._behind_splices(at)
                if at < self.end and self.text[at] not in NEWLINE:
                    name.append(self.text[at])
                    at += 1
        if not closed:
            self.unclosed = at
            return False
        self._put(bytes(name))
        if odd:
            self.flags |= AMBIGUOUS
        self.at = at
        return True

    def _comment(self, second: int) -> None:
        start, block = self.at, self.text[second] == STAR
        if second != start + 1:
            self.flags |= UNPLAIN
        self.at = self._end_of_block(second + 1) if block else self._end_of_line_comment(second + 1)
        text = self.text[start : self.at]
        if self._talks(text[2:], block=block):
            self.flags |= NOT_BARE
        if self.place != NAME:
            self._put(b" ")
        if block and self.says and b"\n" in text:
            self.flags |= AMBIGUOUS
        if self.asked & BARE:
            self._copy_until(start)
            self.copied = self.at
            for number, line in enumerate(text.split(b"\n") if block else []):
                if number:
                    self._trim()
                    self.bare += b"\0\n"
                self.bare += _blanked(line)

    def _talks(self, body: bytes, *, block: bool) -> bool:
        if b"??/" in body:
            self.flags |= AMBIGUOUS
        if b"??" in body or (block and b"/*" in body):
            return True
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            return True
        return False

    def _end_of_line_comment(self, at: int) -> int:
        while at < self.end and self.text[at] not in NEWLINE:
            run = _IN_LINE.match(self.text, at)
            if run:
                at = run.end()
                continue
            size = self._splice(at)
            if size:
                self.flags |= UNPLAIN
            at += size or 1
        return at

    def _end_of_block(self, at: int) -> int:
        while True:
            at = self.text.find(b"*", at)
            if at < 0:
                self.flags |= AMBIGUOUS
                return self.end
            slash = self._behind_splices(at + 1)
            if slash < self.end and self.text[slash] == SLASH:
                if slash != at + 1:
                    self.flags |= AMBIGUOUS
                return slash + 1
            at += 1


def _blanked(line: bytes) -> bytes:
    return b"\t".join(b" " * len(part) for part in line.split(b"\t"))
