"""What a run of tests mounts is nobody else's."""

from __future__ import annotations

import private_mounts
import pytest
from session import MEMORY, SESSION


def test_the_files_of_a_run_are_in_memory_that_nobody_else_sees() -> None:
    ours = [fields[2:5] for fields in private_mounts.listed() if f"size={MEMORY >> 10}k" in fields[-1]]
    if not {str(SESSION), str(SESSION.parent)}.intersection(place for *_, place in ours):
        pytest.skip("the files of this run are on the disk")
    assert not [fields for fields in private_mounts.listed("1") if fields[2:5] in ours]
