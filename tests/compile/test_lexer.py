"""The lexer: as clang reads, and in time that is in proportion to the text."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import FULL, LLVM
from hipcache.base import native
from hipcache.base.keys import digest_bytes
from hipcache.inputs.includes import scan
from hipcache.inputs.lexer import ALL, BARE, TABLE
from test_comments import without_comments

# Time

MEGABYTES = 100
HOSTILE = {
    "include": b"include a < b ",
    "a comment before code": b"/*" + b"x" * 1000 + b"*/ int a; ",
    "continued words": b"__has_ \\\n",
    "opened comments": b"/* /",
    "slashes and backslashes": b"// \\ \\\n",
    "backslashes": b"\\",
    "quotes": b'"',
    "apostrophes": b"1'",
    "raw strings": b'R"(',
    "raw strings that nearly end": b')"xR"x(',
    "nothing": b"\0",
    "blanks": b"\\ \t",
    "directives": b"#include <",
    "questions": b"__has_include(<a ",
    "questions that are defined": b"defined (__has_include) ",
    "trigraphs": b"??/\r",
    "ends of lines": b" \n\r",
    "bytes": b"\xe2\x80",
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_hostile_text_is_looked_at_a_few_times_only(shape: str) -> None:
    """In all, over 100 MB. Some begin as a directive, or within a literal or a comment."""
    piece = HOSTILE[shape]
    size = MEGABYTES * 1_000_000 // len(HOSTILE)
    begins = (b"", b"#if ", b"#define X ", b'char a[] = "', b"/*", b'R"(')
    for number, begin in enumerate(begins):
        content = begin + piece * (size // len(piece) // len(begins) + 1)
        found = native.lex(content, TABLE, (0, BARE, ALL)[number % 3])
        assert found.looked <= 8 * len(content) + 100
        assert len(found.bare) + len(found.lines) + len(found.strings) + len(found.words) <= 4 * len(content) + 100


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_hostile_text_is_scanned_in_time_that_is_in_proportion(shape: str) -> None:
    """What took quadratic time would take hours here."""
    piece = HOSTILE[shape]
    for begin in (b"", b"#if ", b"#define X ", b'char a[] = "'):
        content = begin + piece * (300_000 // len(piece))
        assert scan(content) == scan(content + b"\n")
        without_comments(content)


class Interrupted(BaseException):
    """Raised by the handler of the test below."""


@pytest.mark.parametrize("work", [scan, without_comments, digest_bytes], ids=lambda work: work.__name__)
def test_a_signal_is_heard_while_native_code_is_at_work(work: Callable[[bytes], object]) -> None:
    """The launcher's handler raises, too, and the process ends."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    content = b'char a[] = "include a < b "; // c\n' * (30_000_000 // 32 * (5 if work is digest_bytes else 1))
    # By the processor's time: others may be at work beside it.
    began = time.process_time()
    work(content)
    full = time.process_time() - began
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        began = time.process_time()
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, full / 20)
            work(content)
            time.sleep(60)
        assert time.process_time() - began < max(full / 2, 0.2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Held against clang

CLANG_PIECES = (
    *(
        "a",
        " ",
        "  ",
        "\n",
        "//",
        "/*",
        "*/",
        "/* b */",
        "// c\n",
        '"',
        "'",
        "\\",
        "\\\n",
        "\\\r\n",
        "\r\n",
        "\t",
        "\f",
    ),
    *(
        "#define X ",
        "#if 0\n",
        "#endif\n",
        'R"(',
        ')"',
        'R"(x  \n',
        "1'0",
        "0x1p+",
        'u8R"y(',
        ')y"',
        "X",
        "/",
        "*",
        "??/\n",
    ),
    *("#include <x//y>\n", "_d", "\v", "%:define Y ", "// é\n", "'e'", '"/*"', "  \n", "\n\n", "#error /*\n"),
)
_TOKEN = re.compile(
    rb"^(\w+) '(.*?)'\t(.*?)\tLoc=<[^>]*?text(\d+)\.cpp:(\d+:\d+)(?: <[^>]*>)?>$", re.MULTILINE | re.DOTALL
)


def tokens_of_clang(root: Path, texts: list[bytes], version: str) -> list[list[tuple[bytes, ...]]]:
    """Kind, text, flags and place of each token of the preprocessed texts; one process for all."""
    names = [f"text{number}.cpp" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (root / name).write_bytes(text)
    command = [LLVM[version] / "bin" / "clang", "-cc1", "-w", "-std=c++17", "-ferror-limit", "0", "-dump-tokens"]
    done = subprocess.run([*command, "-x", "c++", *names], cwd=root, capture_output=True, check=False, timeout=300)
    found: list[list[tuple[bytes, ...]]] = [[] for _ in texts]
    for kind, text, flags, number, place in _TOKEN.findall(done.stderr):
        if kind != b"eof":
            found[int(number)].append((kind, text, flags, place))
    return found


@pytest.mark.parametrize("version", ["15", "19"])
def test_texts_that_are_the_same_without_comments_are_the_same_to_clang(tmp_path: Path, version: str) -> None:
    chosen = random.Random(int(version))
    groups: dict[bytes, set[bytes]] = {}
    for _ in range(60_000 if FULL else 6000):
        pieces = chosen.choices(CLANG_PIECES, k=chosen.randint(2, 8))
        text = "".join(pieces).encode()
        other = (
            text.replace(b" b ", b" \td/").replace(b"// c", b"//dd/* ").replace(b"  \n", b"\n").replace(b"\f", b"\f ")
        )
        for one in (text, other, text + b"\n"):
            bare = without_comments(one)
            if bare is not None:
                groups.setdefault(bare, set()).add(one)
    pairs = [(sorted(group)[0], one) for group in groups.values() if len(group) > 1 for one in sorted(group)[1:]]
    assert len(pairs) > 300
    chosen.shuffle(pairs)
    pairs = pairs[: 5000 if FULL else 600]
    seen = 0
    for start in range(0, len(pairs), 200):
        some = pairs[start : start + 200]
        tokens = tokens_of_clang(tmp_path, [text for pair in some for text in pair], version)
        for number, pair in enumerate(some):
            assert tokens[2 * number] == tokens[2 * number + 1], pair
            seen += len(tokens[2 * number])
    assert seen > len(pairs), "no tokens: the test shows nothing"


NAME_PIECES = (
    *(" ", "\n", "//", "/*", "*/", '"', "'", "\\\n", "\\  \n", "\r\n", "\f", "\v", "/* b\n */", "#if 0\n", "#endif\n"),
    *(
        '#include "NAME"\n',
        "#include <NAME>\n",
        "#",
        "%:",
        "include",
        '"NAME"',
        "<NAME>",
        "#import <NAME>\n",
        'R"(',
        ')"',
    ),
    *(
        "#define N <NAME>\n",
        "#include N\n",
        "a",
        "1'0",
        "??=",
        "\n#if __has_include(<NAME>)\n",
        "include_next",
        "??/\n",
    ),
)


@pytest.mark.parametrize("version", ["15", "19"])
@pytest.mark.parametrize("flags", [(), ("-ftrigraphs",)], ids=["", "trigraphs"])
def test_each_name_that_clang_looks_for_is_found_or_the_text_is_unclear(
    tmp_path: Path, version: str, flags: tuple[str, ...]
) -> None:
    """Each text asks for headers of its own, all of which are there."""
    chosen = random.Random(int(version) + len(flags))
    texts = []
    for number in range(6000 if FULL else 600):
        text = "".join(chosen.choices(NAME_PIECES, k=chosen.randint(1, 7))) + "\n"
        text = re.sub("NAME", lambda _, n=number: f"n{n}_{chosen.randint(0, 2)}.h", text)
        texts.append((b"\xef\xbb\xbf" if chosen.random() < 0.1 else b"") + text.encode())
    for number, content in enumerate(texts):
        (tmp_path / f"text{number}").write_bytes(content)
        for name in range(3):
            (tmp_path / f"n{number}_{name}.h").touch()
    (tmp_path / "all.cpp").write_text("".join(f'#include "text{number}"\n#undef N\n' for number in range(len(texts))))
    command = [
        LLVM[version] / "bin" / "clang",
        "-cc1",
        "-w",
        "-std=c++17",
        *flags,
        "-ferror-limit",
        "0",
        "-Eonly",
        "-H",
    ]
    done = subprocess.run(
        [*command, "-I.", "-x", "c++", "all.cpp"], cwd=tmp_path, capture_output=True, check=False, timeout=300
    )
    looked_for: dict[int, set[str]] = {}
    for name, number in re.findall(r"^\.\. (?:\./)?(n(\d+)_\d+\.h)", done.stderr.decode(), re.MULTILINE):
        looked_for.setdefault(int(number), set()).add(name)
    assert len(looked_for) > len(texts) / 20, "clang includes nothing: the test shows nothing"
    clear = 0
    for number, names in looked_for.items():
        found = scan(texts[number])
        assert found.unclear or names <= found.quoted | found.angled, texts[number]
        clear += not found.unclear
    assert clear > len(looked_for) / 3
