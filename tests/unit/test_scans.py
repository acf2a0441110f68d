"""What one compile finds in a file serves the next one, as long as the file's status is the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hipcache.base.keys import digest_bytes
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import RACY, FileManager
from hipcache.inputs.includes import scan
from hipcache.inputs.readset import Status
from hipcache.inputs.scans import Scan, Scanned, Scans

TEXT = b'#include "a.h"\n#include <b.h>\n#if __has_include_next("c\xff.h")\n#endif\nchar x[] = __FILE__; // __DA TE__\n'
STATUS: Status = (1, 2, 3, 4, 5)


class Records(dict[str, bytes]):
    """A store in memory."""

    def scans(self) -> Scans:
        return Scans(self.get, self.__setitem__)


def found(status: Status = STATUS, *, own: bool = False) -> Scanned:
    return Scanned(status, own, digest_bytes(TEXT), scan(TEXT, own=own))


def test_another_process_finds_what_was_saved() -> None:
    records = Records()
    scans = records.scans()
    scans.put("/inc/x.h", found())
    assert records == {}
    scans.save()
    assert records.scans().get("/inc/x.h", STATUS, own=False) == found()


def test_each_field_of_a_scan_comes_back() -> None:
    names = frozenset(["n"])
    records, whole = Records(), Scan(names, names, True, True, names, True, True, names, True, names, names, names)
    scans = records.scans()
    scans.put("/inc/x.h", Scanned(STATUS, True, "d", whole))
    scans.save()
    again = records.scans().get("/inc/x.h", STATUS, own=True)
    assert again is not None
    assert again.scan == whole


@pytest.mark.parametrize("number", range(len(STATUS)))
def test_another_status_is_another_file(number: int) -> None:
    scans = Records().scans()
    scans.put("/inc/x.h", found())
    other = (*STATUS[:number], 9, *STATUS[number + 1 :])
    assert scans.get("/inc/x.h", other, own=False) is None


def test_a_header_of_the_compilers_own_is_scanned_otherwise() -> None:
    scans = Records().scans()
    scans.put("/inc/x.h", found(own=True))
    assert scans.get("/inc/x.h", STATUS, own=False) is None
    assert scans.get("/inc/x.h", STATUS, own=True) == found(own=True)


def test_what_is_new_joins_what_was_there_and_only_that_is_written() -> None:
    records = Records()
    for name in ("/inc/x.h", "/inc/y.h", "/other/z.h"):
        scans = records.scans()
        scans.put(name, found())
        scans.save()
    before = dict(records)
    later = records.scans()
    assert all(later.get(name, STATUS, own=False) for name in ("/inc/x.h", "/inc/y.h", "/other/z.h"))
    records.clear()
    later.save()
    assert records == {}
    later.put("/inc/x.h", found((9, 9, 9, 9, 9)))
    later.save()
    assert records.keys() < before.keys()


def test_a_record_cut_at_any_length_is_read_as_nothing() -> None:
    records = Records()
    scans = records.scans()
    scans.put("/inc/x.h", found())
    scans.save()
    ((key, packed),) = records.items()
    for size in range(1, len(packed)):
        assert Records({key: packed[:size]}).scans().get("/inc/x.h", STATUS, own=False) is None
    for text in (b"[]", b"{}", b'{"x.h": 1}', b"null"):
        assert Records({key: text}).scans().get("/inc/x.h", STATUS, own=False) is None


def read(path: Path, records: Records, now: float) -> str:
    """The digest that a compile which begins `now` finds."""
    scans = records.scans()
    digest = FileManager(str(path.parent), now, Basedir(""), scans).read(str(path))[1]
    scans.save()
    return digest


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    path, records, later = tmp_path / "x.h", Records(), time.time() + RACY + 1
    path.write_bytes(TEXT)
    assert read(path, records, later) == digest_bytes(TEXT)
    status = FileManager(str(tmp_path), later, Basedir("")).status(str(path))
    scans = records.scans()
    scans.put(str(path), Scanned(status, False, "found by an earlier compile", scan(TEXT)))
    scans.save()
    assert read(path, records, later) == "found by an earlier compile"
    os.utime(path, ns=(0, status[3]))  # the change time is another one
    assert read(path, records, later) == digest_bytes(TEXT)


def test_what_is_found_in_a_young_file_is_for_this_compile_alone(tmp_path: Path) -> None:
    path, records = tmp_path / "x.h", Records()
    path.write_bytes(TEXT)
    assert read(path, records, time.time()) == digest_bytes(TEXT)
    assert records == {}
