"""A compile that is planned and not run: would hipcache cache it? And a word, once in a build, about a compiler of
which it would cache none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hipcache import config
from hipcache.app import kinds
from hipcache.base.errors import JobFailed, LibraryError, PassThrough, StoreError
from hipcache.build.context import open_context
from hipcache.clang import script
from hipcache.execution.session import Session
from hipcache.report import conditions

# With these every clang compiles a source that includes nothing.
_BARE = ("-x", "hip", "--offload-arch=gfx90a", "-nogpuinc", "-nogpulib")
_CHOOSE_DRIVER = frozenset(["--offload-new-driver", "--no-offload-new-driver"])
# Changes a command, and says nothing about the compiler.
_OVERRIDES = "CCC_OVERRIDE_OPTIONS"
_SOURCE, _OBJECT, _SETTINGS = "source.hip", "object.o", "settings.yaml"


def why_passed_through(compiler: Sequence[str], environ: Mapping[str, str]) -> str:
    """Why a compile by `compiler` (with its options) of a source of HIP's would pass through; empty if it would be
    cached, or if that cannot be tried. With a store and settings of its own."""
    with TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True) as place:
        Path(place, _SOURCE).write_text("void function() {}\n")
        own = {name: value for name, value in environ.items() if not name.startswith("HIPCACHE_")}
        Path(place, _SETTINGS).touch()
        own |= dict.fromkeys(("HIPCACHE_CONFIG", "HIPCACHE_SYSTEM_CONFIG"), f"{place}/{_SETTINGS}")
        own |= {"TMPDIR": place, "HIPCACHE_DIR": f"{place}/store"}
        argv = (*compiler, "-c", _SOURCE, "-o", _OBJECT)
        try:
            settings = config.load(own)
            context = open_context(settings, own)
            commands, context = kinds.unwrapped(context, kinds.read(argv, place, own, settings), argv, place)
            for typed in commands:
                command, context = script.through_script(context, typed)
                with Session(context, command) as session:
                    kinds.of(command).planner(session, None)
        except PassThrough as reason:
            return str(reason)
        except (JobFailed, LibraryError, StoreError, OSError):
            return ""
        return ""


def condition(compiler: str, environ: Mapping[str, str], options: Sequence[str] = ()) -> conditions.Condition | None:
    """None if a bare compile would be cached. `options`: of a command; of them those that choose the offload driver."""
    chosen = [word for word in options if word in _CHOOSE_DRIVER]
    why = why_passed_through([compiler, *chosen, *_BARE], environ)
    return conditions.of_plan(compiler, why) if why else None


def tell_of_plan(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Say it once in a build, if a compile passed through because its plan is not understood, and each would."""
    if conditions.is_first(f"plan of {argv[0]}", environ):
        without = {name: value for name, value in environ.items() if name != _OVERRIDES}
        found = condition(argv[0], without, argv)
        conditions.tell([found] if found else [], environ)
