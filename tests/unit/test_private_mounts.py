"""What a run of tests mounts is nobody else's."""

from __future__ import annotations

import private_mounts
import pytest
from hip import SESSION


def test_the_files_of_a_run_are_in_memory_that_nobody_else_sees() -> None:
    here = {str(SESSION), str(SESSION.parent)}.intersection(fields[4] for fields in private_mounts.listed())
    if not here:
        pytest.skip("the files of this run are on the disk")
    theirs = [fields[2:5] for fields in private_mounts.listed("1")]
    assert not [fields for fields in private_mounts.listed() if fields[4] in here and fields[2:5] in theirs]
