"""Why a unit missed, in words: what differs from the last compile of its object (`history`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from hipcache.inputs.readset import ReadSet
from hipcache.report.history import VARIABLES, Record, UnitRecord

_MOST_FILES = 4
#: Begins what is said in place of further files of a unit: no cause of its own.
MORE_FILES = "and "
RECACHED = "HIPCACHE_RECACHE is set: no hits are served"
FIRST_COMPILE = "first compile of this object with this store"
# Begins the reasons of look-ups of which no object of the store knows anything.
_NOTHING = "nothing is stored"
_OTHER_CUID = "the CUID changed (different options, or a different source or object name)"
# Begins the names of inputs that are variables (`iree/planner`).
_VARIABLE = "variable "
_BUNDLED = "the code objects are bundled differently"

_TOOLS = ("compiler", "linker", "bundler")
# Variables that hold paths, and the inputs that they can change besides options with one of the paths. The others may
# change anything.
_PATHS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH"), ()),
    **dict.fromkeys(("COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"), _TOOLS),
    **dict.fromkeys(("ROCM_PATH", "HIP_PATH", "HIP_DEVICE_LIB_PATH"), (*_TOOLS, "bitcode ")),
}


#: How the texts of causes begin, those first about which a user can do something: settings and command lines, tools,
#: files, the rest, and what no setting changes.
_SETTINGS = (
    "variable ",
    "option ",
    "linker option ",
    "the namespace ",
    "the key ",
    "the order ",
    "the kind ",
    RECACHED,
)
_ORDER = (_SETTINGS, ("the compiler ", "the linker ", "the bundler ", "device library "), ("file ", "the source "))
_LAST = (FIRST_COMPILE, "first compile")
_NEW = " is new for this object"


def rank(text: str) -> int:
    """The place of a cause's kind, 0 for what comes first."""
    if text.startswith(_LAST) or text.endswith(_NEW):
        return len(_ORDER) + 1
    return next((place for place, begins in enumerate(_ORDER) if text.startswith(begins)), len(_ORDER))


def is_file(text: str) -> bool:
    """Is the cause one file that changed, came or went?"""
    return text.startswith("file '")


def why(
    unit: UnitRecord,
    found: str,
    old: Record | None,
    variables: Mapping[str, str],
    read_set: Callable[[str], ReadSet | None],
    namespace: str = "",
    key: str = "",
) -> tuple[str, ...]:
    """Why `unit` missed, in words: the differences from the last compile of its object.

    `found`: the reason that the lookup gave; `read_set` gets a read set from the store; `namespace`, `key`: as in
    `Record`.
    """
    if old is None and found and not found.startswith(_NOTHING):
        return (found,)  # the store knows that command from another object, in another build directory say
    if old is None:
        return (f"{FIRST_COMPILE}; {found}" if found else FIRST_COMPILE,)
    before = next((old_unit for old_unit in old.units if old_unit.name == unit.name), None)
    if before is None and not old.units:
        return (found,)
    if before is None:
        return (f"{unit.name}{_NEW}",)
    words = _seals(old, namespace, key)
    # Else those that count are inputs.
    if not any(name.startswith(_VARIABLE) for name, _ in (*before.inputs, *unit.inputs)):
        differing = set(before.inputs) ^ set(unit.inputs)
        words += [
            _changed(name, was, now)
            for name in VARIABLES
            if (was := old.variables.get(name)) != (now := variables.get(name)) and _changes(name, was, now, differing)
        ]
    words += differences(before.inputs, unit.inputs)
    words += _files(read_set(before.reads) if before.reads else None, read_set(unit.reads) if unit.reads else None)
    return tuple(words) or (found,)


def _changes(name: str, was: str | None, now: str | None, differing: Collection[tuple[str, str]]) -> bool:
    """Can one of the inputs differ because of that variable?"""
    if name not in _PATHS:
        return bool(differing)
    places = {place.rstrip("/") or "/" for place in _places(was) ^ _places(now)}
    return any(
        input.startswith(_PATHS[name]) or any(value.endswith(place) or f"{place}/" in value for place in places)
        for input, value in differing
    )


def _places(value: str | None) -> set[str]:
    return set() if value is None else {place or "." for place in value.split(":")}


def _seals(old: Record, namespace: str, key: str) -> list[str]:
    """What keeps the results of one from the other."""
    words = []
    if old.namespace != namespace:
        was, now = (_shown(name or None) for name in (old.namespace, namespace))
        words.append(f"the namespace was {was}, now {now} (HIPCACHE_NAMESPACE)")
    if old.key != key:
        words.append("the key of the store changed (HIPCACHE_KEY)")
    return words


def differences(old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> list[str]:
    """The differences between the named inputs of two keys, in words."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    was, names_come = dict(gone.keys()), {name for name, _ in come}
    words: list[str] = []
    for name, value in come:
        if name in ("compiler", "linker", "bundler"):
            words.append(f"the {name} changed, or a library that it loads")
        elif name.startswith("bitcode "):
            changed = "changed" if name in was else "is new"
            words.append(f"device library '{name.removeprefix('bitcode ')}' {changed}")
        elif name.startswith("device code of "):
            words.append(f"{name} {'changed' if name in was else 'is new'}")
        elif name == "text of the source":
            words.append("the source changed")
        elif name == "way of bundling":
            words.append(_BUNDLED)
        elif name.startswith("content of "):
            changed = "changed" if name in was else "is new"
            words.append(f"file '{name.removeprefix('content of ')}', which an option names, {changed}")
        elif name.startswith(_VARIABLE):
            words.append(_changed(name.removeprefix(_VARIABLE), was.get(name), value))
        elif value.startswith("-cuid="):
            words.append(_OTHER_CUID)
        elif name == "source":
            words.append(f"the source is now named '{value}'")
        elif name == "dependencies":
            words.append("the kind of dependency file changed (-MD or -MMD)")
        else:
            words.append(f"{name} '{value}' is new")
    for name, value in gone:
        if name in ("option", "linker option") and not value.startswith("-cuid="):
            words.append(f"{name} '{value}' is gone")
        elif name.startswith("device code of ") and name not in names_come:
            words.append(f"{name} is gone")
        elif name.startswith(("bitcode ", "content of ")) and name not in names_come:
            words.append(f"'{name.removeprefix('bitcode ').removeprefix('content of ')}' is no longer used")
        elif name.startswith(_VARIABLE) and name not in names_come:
            words.append(_changed(name.removeprefix(_VARIABLE), value, None))
    if not words and Counter(old) == Counter(new) and list(old) != list(new):
        words.append("the order of the options changed")
    for follows in (_OTHER_CUID, _BUNDLED):  # from the others
        if len(words) > 1 and follows in words:
            words.remove(follows)
    return list(dict.fromkeys(words))


def _files(old: ReadSet | None, new: ReadSet | None) -> list[str]:
    if old is None or new is None:
        return []
    before = {file.path: file.digest for file in old.files}
    now = {file.path: file.digest for file in new.files}
    words = [f"file '{path}' changed" for path in now if before.get(path, now[path]) != now[path]]
    words += [f"file '{path}' is now read" for path in now if path not in before]
    words += [f"file '{path}' is no longer read" for path in before if path not in now]
    if len(words) > _MOST_FILES:
        words = [*words[:_MOST_FILES], f"{MORE_FILES}{len(words) - _MOST_FILES} more files"]
    return words


def _changed(name: str, before: str | None, now: str | None) -> str:
    return f"variable '{name}' was {_shown(before)}, now {_shown(now)}"


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"
