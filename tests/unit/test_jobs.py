"""Jobs: the environment of a compiler that hipcache starts itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hipcache.build.context import Context
from hipcache.execution.session import Jobs
from hipcache.processes.runner import SubprocessRunner
from hipcache.processes.slots import SharedSlots
from hipcache.store.local import LocalStore


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "glibc.malloc.hugetlb=1"),
        ({"GLIBC_TUNABLES": "glibc.malloc.check=1"}, "glibc.malloc.check=1"),
        ({"GLIBC_TUNABLES": ""}, ""),
    ],
)
def test_a_compiler_may_use_huge_pages_unless_the_user_says_otherwise(
    tmp_path: Path, given: Mapping[str, str], expected: str
) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=0)
    context = Context(
        store=store, runner=SubprocessRunner(), slots=SharedSlots(1, ""), environ={"A": "b", **given}, clock=time.time
    )
    jobs = Jobs(context, str(tmp_path))
    lines = jobs.attempt(["/usr/bin/env"]).stdout.decode().splitlines()
    assert sorted(lines) == sorted(["A=b", f"GLIBC_TUNABLES={expected}"])
    here = jobs.attempt(["/usr/bin/env"], environ=jobs.environ_here()).stdout.decode().splitlines()
    assert sorted(here) == sorted([*lines, f"TMPDIR={jobs.workdir}"])
    (own,) = jobs.attempt(["/usr/bin/env"], environ={"C": "d"}).stdout.decode().splitlines()
    assert own == "C=d"
    jobs.close()
