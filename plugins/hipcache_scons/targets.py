"""The programs and libraries that the HIP objects go to, for `hipcache explain` and `hipcache report`.

CMake and Meson list their targets themselves. Here emitters see each program and library when it is declared, and as
SCons ends, the list is written, if an object was made (report/targets.py reads it):

    {"version": 1, "targets": {"libaxpy.a": ["axpy.o"]}}

beside the objects, in the deepest directory that has all of those below the SConstruct; paths are relative to it.
`scons -c` removes it.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
import threading
from contextlib import suppress
from typing import Any

from SCons.Script import GetOption
from SCons.Util import is_List

from hipcache_scons import commands

# As in report/targets.py.
LIST = ".hipcache-targets.json"
_EMITTERS = ("PROGEMITTER", "LIBEMITTER", "SHLIBEMITTER", "LDMODULEEMITTER")

_objects: dict[Any, list[Any]] = {}
# Was an object made, or served? Then there is a list to write.
_made = threading.Event()


def install(env: Any) -> None:
    """Have the emitters of `env` note what is declared."""
    for name in _EMITTERS:
        there = env.get(name)
        emitters = list(there) if is_List(there) else [there] if there else []
        if _note not in emitters and all(map(callable, emitters)):
            env[name] = [*emitters, _note]


def made_one() -> None:
    _made.set()


def _note(target: Any, source: Any, env: Any) -> tuple[Any, Any]:
    objects = [node for node in source if getattr(node.attributes, "hip_flags", None) and not node.is_conftest()]
    if objects and target:
        _objects[target[0]] = objects
    return target, source


def _is_below(place: str, directory: str) -> bool:
    return os.path.commonpath([place, directory]) == directory


@atexit.register
def _write() -> None:
    """As SCons ends; without a list an object's place tells its target."""
    with suppress(OSError, ValueError, RuntimeError):
        listed = {
            target.get_abspath(): [node.get_abspath() for node in objects] for target, objects in _objects.items()
        }
        if not listed:
            return
        places = [os.path.dirname(path) for some in listed.values() for path in some]
        top = commands.directory()
        directory = os.path.commonpath([place for place in places if _is_below(place, top)] or places)
        if directory != top and _is_below(top, directory):
            return  # not into what is not the project's: the parent of several projects, or the root
        place = os.path.join(directory, LIST)
        if GetOption("clean") and not GetOption("no_exec"):
            os.unlink(place)
        elif _made.is_set():
            targets = {
                os.path.relpath(target, directory): [os.path.relpath(path, directory) for path in objects]
                for target, objects in listed.items()
            }
            _replace(place, json.dumps({"version": 1, "targets": targets}))


def _replace(path: str, text: str) -> None:
    """Whole or not at all. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=LIST, dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
