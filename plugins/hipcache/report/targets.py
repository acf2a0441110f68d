"""The build tool's targets that objects belong to, as CMake's file API, Meson's introspection and our SCons tool list
them.

Formats, each read as far as it is needed: https://cmake.org/cmake/help/latest/manual/cmake-file-api.7.html (object kind
"codemodel", version 2), https://mesonbuild.com/IDE-integration.html (`intro-targets.json`) and hipcache_scons/targets.
Where a build directory has none, or one that does not read, the place of an object tells its target.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field
from hipcache.report.outcome import is_check

CHECKS = "(configure checks)"
# CMake's Makefiles and Ninja: DIR/CMakeFiles/TARGET.dir/...; Meson: DIR/FILE.p/..., of what the target makes.
_TARGET_OF_PATH = pattern(r"/CMakeFiles/([^/]+)\.dir/|/([^/]+)\.p/")
_FILE_OF_TARGET = pattern(r"^lib(.+)\.(?:a|so)(?:\.[0-9]+)*$")
_REPLY = os.path.join(".cmake", "api", "v1", "reply")
_MESON = "meson-info"
_SCONS = ".hipcache-targets.json"
# One of these is in the top of every build directory, also in one without a list of targets.
_OF_BUILDS = ("CMakeCache.txt", "meson-private", _SCONS)


def by_place(path: str) -> str:
    """The target of the object at absolute `path` by where CMake and Meson put objects; else its directory."""
    if is_check(path):
        return CHECKS
    found = _TARGET_OF_PATH.search(path)
    if not found:
        return os.path.dirname(path) or "(not known)"
    return found[1] or _FILE_OF_TARGET.sub(r"\1", found[2])


@dataclass(frozen=True)
class _Listed:
    """The targets of one build directory by absolute paths: those that they make, and where their objects are;
    `made`: the former by target."""

    outputs: dict[str, str] = field(default_factory=dict)
    directories: dict[str, str] = field(default_factory=dict)
    made: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, output: str) -> None:
        self.outputs[output] = name
        self.made.setdefault(name, set()).update((output, os.path.basename(output)))

    def of(self, path: str) -> str | None:
        if path in self.outputs:
            return self.outputs[path]
        return next((self.directories[above] for above in _above(path) if above in self.directories), None)


class Targets:
    """The targets of any objects. A build directory is read once, when its first object is asked for."""

    def __init__(self) -> None:
        self._listed: dict[str, _Listed | None] = {}
        self._is_build: dict[str, bool] = {}

    def of(self, path: str) -> str:
        """The name of the target that the object or output at absolute `path` belongs to."""
        return self._find(path)[0]

    def names(self, path: str) -> set[str]:
        """All that the target of `path` may be called: its name, the files that it makes, by name and by path."""
        name, build = self._find(path)
        listed = self._listed[build] if build else None
        return {name} | (listed.made.get(name, set()) if listed else set())

    def build(self, path: str) -> str:
        """The build directory of the object at absolute `path`: the one that lists it, else the nearest one that is a
        build tool's; empty if there is none (any more)."""
        found = self._find(path)[1]
        return found or next((above for above in _above(os.path.normpath(path)) if self._looks_built(above)), "")

    def lists(self, build: str, called: str) -> bool | None:
        """Is there a target of that name in the build directory, or one that makes a file of that name (or absolute
        path)? None: it has no list."""
        if build not in self._listed:
            self._listed[build] = _list(build)
        listed = self._listed[build]
        return None if listed is None else any(called in {name, *made} for name, made in listed.made.items())

    def _looks_built(self, directory: str) -> bool:
        if directory not in self._is_build:
            self._is_build[directory] = any(os.path.exists(os.path.join(directory, name)) for name in _OF_BUILDS)
        return self._is_build[directory]

    def _find(self, path: str) -> tuple[str, str]:
        """The target's name, and the build directory that lists it; empty if none does."""
        path = os.path.normpath(path) if path else ""
        # A build directory may be in another one, and only the outer one have a list.
        for above in _above(path) if not is_check(path) else ():
            if above not in self._listed:
                self._listed[above] = _list(above)
            listed = self._listed[above]
            name = listed.of(path) if listed else None
            if name is not None:
                return name, above
        return by_place(path), ""


def _above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) not in ("", os.sep):
        yield path


def _list(build: str) -> _Listed | None:
    """The list of the build tool whose documents are there, and can be read."""
    for read in (_of_cmake, _of_meson, _of_scons):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return read(build)
    return None


def _of_cmake(build: str) -> _Listed:
    """Paths in replies are relative to the build directory where they lie below it: a build that was moved reads."""
    reply = os.path.join(build, _REPLY)
    index = max(name for name in os.listdir(reply) if name.startswith("index-"))  # the newest, says the manual
    listed = _Listed()
    for entry in _json(reply, index)["objects"]:
        if entry["kind"] != "codemodel" or entry["version"]["major"] != 2:
            continue
        for configuration in _json(reply, entry["jsonFile"])["configurations"]:
            for named in configuration["targets"]:
                target = _json(reply, named["jsonFile"])
                name = str(target["name"])
                for made in target.get("artifacts", ()):
                    listed.add(name, _absolute(build, made["path"]))
                listed.directories[_absolute(build, target["paths"]["build"], "CMakeFiles", f"{name}.dir")] = name
    return listed


def _of_meson(build: str) -> _Listed:
    info = os.path.join(build, _MESON)
    # Paths are absolute, as Meson was called: the directory may have another name by now.
    called = str(_json(info, "meson-info.json")["directories"]["build"])
    listed = _Listed()
    for target in _json(info, "intro-targets.json"):
        for made in target["filename"]:
            path = _absolute(build, os.path.relpath(made, called))
            listed.add(str(target["name"]), path)
            listed.directories[f"{path}.p"] = str(target["name"])
    return listed


def _of_scons(build: str) -> _Listed:
    """SCons' targets have no names but those of their files, of which several directories may have the same."""
    targets = _json(build, _SCONS)["targets"]
    listed, names = _Listed(), Counter(map(_name_of, targets))
    for made, objects in targets.items():
        name = _name_of(made) if names[_name_of(made)] == 1 else str(made)
        listed.add(name, _absolute(build, made))
        for path in objects:
            listed.outputs.setdefault(_absolute(build, path), name)
    return listed


def _name_of(path: str) -> str:
    return _FILE_OF_TARGET.sub(r"\1", os.path.basename(path))


def _json(directory: str, name: str) -> Any:
    """A document. Raises OSError, ValueError; who reads it raises LookupError, TypeError if it has another shape."""
    import json  # the statistics have this module, and need no document

    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        raise FileNotFoundError(path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _absolute(*parts: str) -> str:
    return os.path.normpath(os.path.join(*parts))
