"""Tests for `Configure`: `conf = env.Configure(custom_tests={"CheckHip": CheckHip})`, then `conf.CheckHip()`."""

from __future__ import annotations

from typing import Any

_KERNEL = """\
__attribute__((device)) int device(int* p) { return *p; }
int host() { return 0; }
"""


def CheckHip(context: Any, header: str | None = None) -> bool:
    """Can HIPCXX compile a kernel for all of HIP_ARCHS? `header`: one that it must find, such as
    "hip/hip_runtime.h"."""
    context.Message(f"Checking for HIP{f' header {header}' if header else ''}... ")
    include = f"#include <{header}>\n" if header else ""
    found = context.TryCompile(include + _KERNEL, ".hip")
    context.Result(found)
    return bool(found)
