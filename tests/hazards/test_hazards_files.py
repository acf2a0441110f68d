"""Never a wrong object: files under several names, and files that are read by other means than #include.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hip import MISS, PARTIAL, Lab, kernel, since_19

pytestmark = pytest.mark.archs(1)

# One file under several names


def test_a_name_that_was_a_link_to_a_header_read_before_and_becomes_a_file_is_seen(lab: Lab) -> None:
    lab.write("real/value.hpp", "#pragma once\n#define VALUE 1\n")
    (lab.root / "link").mkdir()
    link = lab.root / "link" / "value.hpp"
    link.symlink_to("../real/value.hpp")
    lab.write("k.hip", kernel("VALUE", '#include "real/value.hpp"\n#include "link/value.hpp"'))
    before = lab.warm()
    link.unlink()
    lab.write("link/value.hpp", "#undef VALUE\n#define VALUE 2\n")
    lab.changed(before)


def test_a_second_name_of_a_header_that_becomes_another_file_is_seen(lab: Lab) -> None:
    lab.write("real/value.hpp", "#ifndef VALUE\n#define VALUE 1\n#endif\n#define TWICE\n")
    (lab.root / "link").mkdir()
    link = lab.root / "link" / "value.hpp"
    link.hardlink_to(lab.root / "real" / "value.hpp")
    lab.write("k.hip", kernel("VALUE", '#include "real/value.hpp"\n#include "link/value.hpp"'))
    before = lab.warm()
    link.unlink()
    lab.write("link/value.hpp", "#undef VALUE\n#define VALUE 2\n")
    lab.changed(before)


def test_a_link_to_a_directory_of_headers_that_is_switched_is_seen(lab: Lab) -> None:
    for number in (1, 2):
        lab.write(f"v{number}/value.hpp", f"#define VALUE {number}\n")
    link = lab.root / "current"
    link.symlink_to("v1")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm("-I", "current")
    link.unlink()
    link.symlink_to("v2")
    lab.changed(before, "-I", "current")


def test_a_directory_of_headers_that_is_swapped_is_seen(lab: Lab) -> None:
    for number in (1, 2):
        path = lab.write(f"v{number}/value.hpp", f"#define VALUE {number}\n")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (lab.root / "v1").rename(lab.root / "current")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm("-I", "current")
    shutil.rmtree(lab.root / "current")
    (lab.root / "v2").rename(lab.root / "current")
    lab.changed(before, "-I", "current")


# Files that are read by other means than #include


def test_a_file_that_inline_assembly_reads_is_seen(lab: Lab) -> None:
    data = lab.write("data.bin", "one!")
    text = '#ifndef __HIP_DEVICE_COMPILE__\nasm(".section .rodata\\n.incbin \\"data.bin\\"\\n.text");\n#endif'
    lab.write("k.hip", kernel("1", text))
    before = lab.compile()
    lab.compile()
    data.write_text("two!")
    lab.changed(before)


def test_a_file_that_inline_assembly_of_a_header_includes_is_seen(lab: Lab) -> None:
    data = lab.write("data.s", ".byte 1\n")
    lab.write(
        "data.hpp",
        '#ifndef __HIP_DEVICE_COMPILE__\nasm(".section .rodata\\n .include \\"data.s\\"\\n.text");\n#endif\n',
    )
    lab.write("k.hip", kernel("1", '#include "data.hpp"'))
    before = lab.compile()
    lab.compile()
    data.write_text(".byte 2\n")
    lab.changed(before)


IN_PIECES = {
    "two strings": '".inc" "bin %s"',
    "three strings": '"." "inc" "bin %s"',
    "an escape": '".\\x69ncbin %s"',
    "an octal escape": '".\\151ncbin %s"',
    "a word over two lines": '".inc\\\nbin %s"',
    "raw strings": 'R"(.inc)" "bin %s"',
    "words made strings": "WORD(.inc) WORD(bin %s)",
    "include": '".inc" "lude %s"',
    "a dot": '"." "include %s"',
}


def test_a_header_with_a_backslash_in_its_name_is_never_mistaken(lab: Lab) -> None:
    """Clang's dependency file has a slash there: the name of another file."""
    lab.write("b/c.hpp", "#define VALUE 3\n")
    header = lab.write("b\\c.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "b\\c.hpp"'))
    before = lab.compile()
    lab.compile()
    header.write_text("#define VALUE 2\n")
    lab.changed(before)


@pytest.mark.parametrize("how", IN_PIECES)
def test_a_file_whose_reading_is_put_together_from_pieces_is_seen(lab: Lab, how: str) -> None:
    data = lab.write("data.s", ".byte 1\n")
    text = '".section .rodata\\n" ' + IN_PIECES[how] % '\\"data.s\\"' + ' "\\n.text"'
    if "WORD" in text:
        text = text.replace('\\"', '"')
    lab.write("k.hip", kernel("1", f"#define WORD(x) #x\n#ifndef __HIP_DEVICE_COMPILE__\nasm({text});\n#endif"))
    before = lab.compile()
    assert before.status == 0, before.messages
    lab.compile()
    data.write_text(".byte 2\n")
    lab.changed(before)


EMBED = "static const unsigned char data[] = {\n#embed %s\n};\nextern const int size = sizeof data + data[0];\n"


@since_19
@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_an_embedded_file_is_seen(lab: Lab, flags: tuple[str, ...]) -> None:
    data = lab.write("data.bin", "one!")
    lab.write("k.hip", kernel("1") + EMBED % '"data.bin"')
    before = lab.warm("-Wno-c23-extensions", *flags)
    data.write_text("two!")
    lab.changed(before, "-Wno-c23-extensions", *flags)


@since_19
def test_an_embedded_file_of_a_system_header_is_seen_under_mmd(lab: Lab) -> None:
    data = lab.write("system/data.bin", "one!")
    lab.write("system/data.hpp", EMBED % '"data.bin"')
    lab.write("k.hip", kernel("1") + "#include <data.hpp>\n")
    flags = ("-isystem", "system", "-MMD")
    before = lab.warm(*flags)
    data.write_text("two!")
    lab.changed(before, *flags)


@since_19
def test_an_embedded_file_found_through_an_embed_directory_is_right(lab: Lab) -> None:
    data = lab.write("data/data.bin", "one!")
    lab.write("k.hip", kernel("1") + EMBED % "<data.bin>")
    flags = ("--embed-dir=data", "-Wno-c23-extensions")
    before = lab.compile(*flags)
    lab.compile(*flags)
    data.write_text("two!")
    lab.changed(before, *flags)


@since_19
def test_a_file_that_has_embed_looked_for_and_that_appears_is_seen(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", '#if __has_embed("data.bin")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif'))
    before = lab.compile()
    lab.compile()
    lab.write("data.bin", "x")
    lab.changed(before)


@since_19
def test_a_file_that_has_embed_found_empty_and_that_is_filled_is_seen(lab: Lab) -> None:
    data = lab.write("data.bin", "")
    lab.write(
        "k.hip",
        kernel(
            "VALUE", '#define VALUE __LINE__\n#if __has_embed("data.bin") == 2\n#undef VALUE\n#define VALUE 99\n#endif'
        ),
    )
    before = lab.compile()
    lab.compile()
    data.write_text("x")
    lab.changed(before)


def test_a_warning_is_replayed_only_while_its_cause_is_there(lab: Lab) -> None:
    header = lab.write("value.hpp", "#warning old\n#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    assert "old" in lab.warm().messages
    header.write_text("#warning new\n#define VALUE 1\n")
    after = lab.compile()
    assert "new" in after.messages
    assert after.outcome in (MISS, PARTIAL)


def test_a_header_named_with_blanks_and_signs_is_seen(lab: Lab) -> None:
    header: Path = lab.write("odd dir/a b#c$d.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "odd dir/a b#c$d.hpp"'))
    before = lab.warm()
    header.write_text("#define VALUE 2\n")
    lab.changed(before)
