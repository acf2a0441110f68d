"""The tool module: `Environment(tools=["default", "hipcache"], toolpath=[...])`, or a copy in `site_scons/site_tools`.

SCons loads a tool as the top-level module of its name (SCons manual, "Extending SCons: Pseudo-Builders and Tools"): it
puts this file into `sys.modules["hipcache"]`, where the package of the engine belongs, and its directory first on
`sys.path`. So this file holds nothing but the way to the real one: it gives the name back, finds the package
elsewhere, and hands on the two functions that SCons asks a tool for. SCons keeps its own reference to this
module. Another name for the tool would be simpler and worse: `hipcache` is what people type everywhere.
"""

from __future__ import annotations

import glob
import importlib
import os
import sys
from typing import Any

_here = os.path.dirname(os.path.abspath(__file__))


def _places() -> list[str]:
    """Directories in which the package may be if SCons' Python does not know it: those of the installation or the
    checkout that this file is part of, where made for the same version of Python."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    if os.path.isfile(os.path.join(root, "pyproject.toml")):
        return [os.path.join(root, "plugins"), os.path.join(root, ".venv", "lib", version, "site-packages")]
    prefix = os.path.dirname(root)
    return [path for lib in ("lib", "lib64") for path in sorted(glob.glob(f"{prefix}/{lib}/{version}/*-packages"))]


def _load() -> Any:
    path, none = sys.path, list[str]()
    del sys.modules[__name__]
    try:
        own = [entry for entry in path if os.path.abspath(entry or ".") != _here]
        for more in (none, _places()):
            # After everything else: these add what is missing, and replace nothing.
            sys.path = own + more
            try:
                tool = importlib.import_module("hipcache_scons.tool")
            except ModuleNotFoundError as error:
                missing = error.name
                for name in [name for name in sys.modules if name.partition(".")[0] in ("hipcache", "hipcache_scons")]:
                    del sys.modules[name]
                continue
            sys.modules["hipcache"] = tool.hipcache
            return tool
    finally:
        sys.path = path
    from SCons.Errors import UserError

    raise UserError(
        f"tool 'hipcache': SCons runs in '{sys.executable}', which has no module '{missing}'\n"
        f"  install hipcache there, with this Python's pip ({sys.executable} -m pip)"
    )


_tool = _load()
generate = _tool.generate
exists = _tool.exists
