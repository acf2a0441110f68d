"""A lab whose front ends serve other GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from hip import Compiled, Lab, kernel
from hipcache.execution import gpu_groups, shared_front_ends

# Also where tests call the engine in their own process (see `launchers`).
shared_front_ends._WORTH, gpu_groups._IDLE = 0.0, 10**9

ALIKE = ("--offload-arch=gfx1030", "--offload-arch=gfx1031", "--offload-arch=gfx1036")
NEVER_CHECKED = "999999999"


@pytest.fixture
def shared(lab: Lab) -> Lab:
    """A lab whose front ends serve other GPUs, of three that are alike; none is checked by chance."""
    lab.archs = ALIKE
    lab.environ |= {"HIPCACHE_SHARED_FRONT_ENDS": "1", "HIPCACHE_PREAMBLE_CHECKS": NEVER_CHECKED}
    return lab


def build(lab: Lab, number: object, *flags: str, text: str = "") -> Compiled:
    name = f"s{number}.hip"
    lab.write(name, text or kernel(str(number)))
    done = lab.compile("-MD", *flags, source=name)
    assert done.dependencies == done.plain_dependencies
    return done


def counts(lab: Lab) -> tuple[int, int, int]:
    """(front ends that served another GPU, that were compared, that were different)."""
    told = lab.stats()
    print("not shared:", told["without_sharing"])  # for who reads of a failure
    found: Any = told["shared_front_ends"]
    return found["used"], found["checked"], found["different"]


def without(lab: Lab) -> dict[str, int]:
    found: Any = lab.stats()["without_sharing"]
    return dict(found)
