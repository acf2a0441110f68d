"""The object that holds a program's code objects and registers them, as clang-linker-wrapper would have written it.

Given code objects (--override-image), the wrapper knows of each no more than its processor: of target IDs with features
it would make a bundle in which the features are missing, and from LLVM 23 on one with the triple of the ELF file. So it
is given one alone, to write such an object and say how it runs the bundler; that is run for all of them by their target
IDs, and the bundle put in the place of the first. What else is in the object says nothing of the bundle, not even its
size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.making import splice
from hipcache.making.splice import UnknownObject
from hipcache.patterns import pattern
from hipcache.planning.wrapper_plan import WrapperPlan

_NAME = "program"
_BUNDLE, _OBJECT = f"{_NAME}.hipfb", f"{_NAME}.o"
# The host's linker, called `-o program /.../program.hip.image.wrapper-012345.o` with the bundle beside that object,
# keeps both. (With --save-temps the wrapper would keep them, but from 23 on it makes another object then.)
_KEEPS = f"""\
#!/bin/sh
cp "$3" {_OBJECT} && cp "${{3%.hip.image.wrapper*}}"-*.hipfb {_BUNDLE}
"""
_TARGETS = pattern(r"(-targets=host-[^,]+),hip-amd(?:gcn|gpu)-amd-amdhsa--")
_TARGET = ",hip-amdgcn-amd-amdhsa--"


def make(session: Session, plan: WrapperPlan, codes: Mapping[str, str]) -> Path:
    """Its path. `codes`: paths of code objects by arch. Raises JobFailed, PassThrough."""
    jobs = session.jobs
    linker = jobs.scratch("holder/linker", _KEEPS.encode())
    linker.chmod(0o700)
    place = linker.parent
    environ = {**jobs.environ_here(), "TMPDIR": str(place)}
    words = [plan.job.program, *plan.options, *plan.bundling, "--wrapper-verbose"]
    words += [f"--linker-path={linker}", "-o", _NAME, f"--override-image=hip={next(iter(codes.values()))}"]
    done = jobs.run_now("linker wrapper", words, directory=place, environ=environ)
    try:
        first, template = (place / _BUNDLE).read_bytes(), (place / _OBJECT).read_bytes()
        bundled = jobs.run_now("bundler", _bundler(os.fsdecode(done.stderr), codes), directory=place)
        if bundled.stderr:
            raise PassThrough("job_output", f"the bundler printed: {os.fsdecode(bundled.stderr)[:200]}")
        spliced = splice.splice(template, (place / _BUNDLE).read_bytes(), first)
    except OSError as error:
        raise PassThrough("job_output", f"the linker wrapper did not write '{error.filename}'") from error
    except UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error
    return jobs.scratch(f"{place.name}/{_OBJECT}", spliced)


def _bundler(said: str, codes: Mapping[str, str]) -> list[str]:
    """The command of the bundler for all `codes`, in the wrapper's order."""
    # The first line. (The second one is the host linker's.) The first word of each is quoted, the others are not.
    lines = said.splitlines()
    if len(lines) != 2 or not lines[0].startswith(' "') or " -output=" not in lines[0]:
        raise PassThrough("job_output", f"the linker wrapper printed: {said[:200]}")
    program, _, rest = lines[0][2:].partition('" ')
    # The store may have a blank in its name.
    rest = rest.partition(" -output=")[0].replace(f" -input={next(iter(codes.values()))}", "")
    archs = sorted(codes, reverse=True)
    words = [program]
    for word in rest.split():
        if targets := _TARGETS.match(word):
            words.append("".join([targets[1], *(_TARGET + arch for arch in archs)]))
        elif not word.startswith("-input="):
            words.append(word)
        elif word == "-input=/dev/null":
            words += [word, *(f"-input={codes[arch]}" for arch in archs)]
    return [*words, f"-output={_BUNDLE}"]
