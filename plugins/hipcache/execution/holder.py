"""The object that holds a program's code objects and registers them, as clang-linker-wrapper would have written it.

Given code objects (--override-image), the wrapper knows of each no more than its processor: of target IDs with features
it would make a bundle in which the features are missing. So it is given one alone, to write such an object and say how
it runs the bundler; that is run for all of them by their target IDs, and the bundle put in the place of the first. What
else is in the object says nothing of the bundle, not even its size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.making import splice
from hipcache.making.splice import UnknownObject
from hipcache.planning.wrapper_plan import WrapperPlan

# The wrapper derives the names of its files from this one (--save-temps keeps them, in its directory).
_NAME = "program"
_BUNDLE, _OBJECT = f"{_NAME}.hipfb", f"{_NAME}.hip.image.wrapper.o"
_TARGET = "hip-amdgcn-amd-amdhsa--"


def make(session: Session, plan: WrapperPlan, codes: Mapping[str, str], nothing: str) -> Path:
    """Its path. `codes`: paths of code objects by arch; `nothing`: a program that does nothing. Raises JobFailed,
    PassThrough."""
    place = session.jobs.workdir / "holder"
    place.mkdir()
    first_code = next(iter(codes.values()))
    words = [plan.job.program, *plan.options, *plan.bundling, "--save-temps", "--wrapper-verbose"]
    words += [f"--linker-path={nothing}", "-o", _NAME, f"--override-image=hip={first_code}"]
    done = session.jobs.run_now("linker wrapper", words, directory=place, environ=session.jobs.environ_here())
    try:
        first, template = (place / _BUNDLE).read_bytes(), (place / _OBJECT).read_bytes()
        bundled = session.jobs.run_now("bundler", _bundler(os.fsdecode(done.stderr), codes), directory=place)
        if bundled.stderr:
            raise PassThrough("job_output", f"the bundler printed: {os.fsdecode(bundled.stderr)[:200]}")
        spliced = splice.splice(template, (place / _BUNDLE).read_bytes(), first)
    except OSError as error:
        raise PassThrough("job_output", f"the linker wrapper did not write '{error.filename}'") from error
    except UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error
    return session.jobs.scratch(f"{place.name}/{_OBJECT}", spliced)


def _bundler(said: str, codes: Mapping[str, str]) -> list[str]:
    """The command of the bundler for all `codes`, in the wrapper's order."""
    # The one line of its two that is not the host linker's: its first word is quoted, the others are not.
    lines = said.splitlines()
    if len(lines) != 2 or not lines[0].startswith(' "') or f" -output={_BUNDLE}" not in lines[0]:
        raise PassThrough("job_output", f"the linker wrapper printed: {said[:200]}")
    program, _, rest = lines[0][2:].partition('" ')
    # The store may have a blank in its name.
    rest = rest.replace(f" -input={next(iter(codes.values()))}", "")
    archs = sorted(codes, reverse=True)
    words = [program]
    for word in rest.split():
        host, comma, _ = word.partition(f",{_TARGET}")
        if comma:
            words.append(",".join([host, *(_TARGET + arch for arch in archs)]))
        elif not word.startswith("-input="):
            words.append(word)
        elif word == "-input=/dev/null":
            words += [word, *(f"-input={codes[arch]}" for arch in archs)]
    return words
