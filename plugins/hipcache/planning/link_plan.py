"""The plan of a link with relocatable device code (--hip-link -fgpu-rdc): text of `-###` -> jobs -> their shape.

    for each object:        clang-offload-bundler -unbundle  -> host object, device bitcode of each arch
    for each library, arch: clang-offload-bundler -unbundle  -> an archive of that arch's bitcode
    for each offload arch:  lld (LTO)                        -> code object
    clang-offload-bundler                                    -> fat binary
    llvm-mc, on a script that includes that                  -> an object that holds it (22: by clang)
    ld                                                       -> program or shared library

The driver's temporary files are made in a directory of ours (TMPDIR), so the jobs are run as they stand. The script is
a temporary file, too, which the driver writes while it plans, and has removed by the end: with
-fhip-dump-offload-linker-script it prints the script before the jobs. (Since 18 it has symbols in it that the driver
read in the objects, so a link's plan is asked for anew each time.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hipcache.errors import PassThrough
from hipcache.patterns import pattern
from hipcache.planning.jobs import ToolJob, split
from hipcache.planning.lld import inputs, known_link
from hipcache.values import dataclass

# Before the words of the user, among which a `--` may end the options.
DUMP_SCRIPT = "-fhip-dump-offload-linker-script"

_SCRIPT = pattern(r"^#       HIP Object Generator\n(?:(?:#|  |__hip_)[^\n]*\n)*", re.MULTILINE)
# Since 18 each object has names of its own for the fat binary, after its CUID.
_NAME = pattern(r"(\b__hip_(?:fatbin|gpubin_handle)_)([0-9a-f]+)\b")
_UNBUNDLE_OPTIONS = frozenset(["type", "targets", "unbundle", "allow-missing-bundles", "hip-openmp-compatible"])


@dataclass(frozen=True)
class Unbundle:
    """Takes the object or library `source` apart."""

    job: ToolJob
    source: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class DeviceLink:
    """One arch's LTO. `inputs`: what lld reads, in order."""

    arch: str
    job: ToolJob
    code: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class LinkPlan:
    """A link as the driver means to run it. `script`: what llvm-mc is to find in `script_file`. `messages`: what the
    driver itself said."""

    unbundles: tuple[Unbundle, ...]
    devices: tuple[DeviceLink, ...]
    bundle: ToolJob
    script: str
    script_file: str
    embed: ToolJob
    host: ToolJob
    output: str
    messages: str

    def origin(self, name: str) -> str:
        """The file of the user that the temporary file `name` is taken from; empty if it is none."""
        return next((one.source for one in self.unbundles if name in one.outputs), "")


def parse(text: str) -> LinkPlan:
    """Raises PassThrough if the jobs do not have the shape above."""
    return of_jobs(*split_script(text))


def split_script(text: str) -> tuple[list[tuple[str, ...]], str, str]:
    """The jobs of a plan, the script in it (empty: there is none), and what the driver said besides."""
    found = _SCRIPT.search(text)
    script = found.group() if found else ""
    jobs, messages = split(text.replace(script, "", 1) if script else text)
    return jobs, script, messages


def of_jobs(jobs: Iterable[tuple[str, ...]], script: str, messages: str) -> LinkPlan:
    """The same of jobs that are taken apart already."""
    unbundles: list[Unbundle] = []
    links: list[ToolJob] = []
    bundles: list[ToolJob] = []
    embeds: list[ToolJob] = []
    hosts: list[ToolJob] = []
    for words in jobs:
        job = ToolJob(words[0], words[1:])
        name = job.program.rsplit("/", 1)[-1]
        if name.startswith("clang-offload-bundler"):
            if "-unbundle" in job.arguments:
                unbundles.append(unbundle(job))
            else:
                bundles.append(job)
        elif job.arguments[:2] == ("-flavor", "gnu"):
            links.append(ToolJob(job.program, known_link(job.arguments)))
        elif name.startswith("llvm-mc") or "assembler" in job.arguments:
            embeds.append(job)
        elif job.arguments[:1] in (("-cc1",), ("-cc1as",)):
            raise PassThrough("link", "it compiles, too")
        else:
            hosts.append(job)
    if len(bundles) != 1 or len(embeds) != 1 or len(hosts) != 1 or not links or not script:
        raise PassThrough(
            "plan",
            f"a link with {len(links)} device links, {len(bundles)} bundles, {len(embeds)} scripts, {len(hosts)} hosts",
        )
    bundled = _bundled(bundles[0])
    script_file, embedded = _embed(embeds[0])
    # (Where the driver saw nothing in the objects that needs a fat binary, the script includes none.)
    if embedded not in hosts[0].arguments:
        raise PassThrough("plan", "the host link does not read what llvm-mc writes")
    devices = []
    for link in links:
        code = value_after(link, "-o")
        if code not in bundled:
            raise PassThrough("plan", "a device link whose code object is not bundled")
        devices.append(DeviceLink(bundled.pop(code), link, code, inputs(link.arguments)))
    if bundled:
        raise PassThrough("plan", "the bundle contains a file that no device link writes")
    output = value_after(hosts[0], "-o")
    made = [name for one in unbundles for name in one.outputs] + [one.code for one in devices]
    if len(set(made)) != len(made):
        raise PassThrough("plan", "two jobs with one output")
    return LinkPlan(
        tuple(unbundles), tuple(devices), bundles[0], script, script_file, embeds[0], hosts[0], output, messages
    )


def rename_in_script(script: str, suffixes: Mapping[str, str]) -> str:
    """The script as the driver would have written it for objects of other CUIDs. `suffixes`: those of names that are to
    be others; the driver sorts all of them. Raises PassThrough if the script lacks one."""
    before = {suffix for _, suffix in _NAME.findall(script)}
    after = (before - suffixes.keys()) | set(suffixes.values())
    if not before:  # before 18
        return script
    if not suffixes.keys() <= before or len(after) != len(before):
        raise PassThrough("plan", "a script without the names of an object's fat binary")
    renamed = dict(zip(sorted(before), sorted(after), strict=True))
    return _NAME.sub(lambda found: found.group(1) + renamed[found.group(2)], script)


def unbundle(job: ToolJob) -> Unbundle:
    """Raises PassThrough for one that does more than take a file apart."""
    outputs, source = [], ""
    for word in job.arguments:
        name, _, value = word.lstrip("-").partition("=")
        if name == "output":
            outputs.append(value)
        elif name == "input":
            source = value
        elif name not in _UNBUNDLE_OPTIONS:
            raise PassThrough("plan", f"the bundler's option '{word}'")
    if not source or not outputs:
        raise PassThrough("plan", "it unbundles nothing")
    return Unbundle(job, source, tuple(outputs))


def _bundled(job: ToolJob) -> dict[str, str]:
    """The offload arch of each code object that is bundled."""
    targets = _value(job, "targets").split(",")
    inputs = [word.partition("=")[2] for word in job.arguments if word.lstrip("-").startswith("input=")]
    if len(targets) != len(inputs):
        raise PassThrough("plan", "the bundler's targets and inputs differ in number")
    pairs = [(path, target) for path, target in zip(inputs, targets, strict=True) if not target.startswith("host-")]
    return {path: re.sub(r"^.*-amd-amdhsa-+", "", target) for path, target in pairs}


def _embed(job: ToolJob) -> tuple[str, str]:
    """(what llvm-mc reads, what it writes)."""
    output = value_after(job, "-o")
    sources = [word for word in job.arguments if word.endswith(".mcin") and word != output]
    if len(sources) != 1:
        raise PassThrough("plan", "no script for the object that holds the fat binary")
    return sources[0], output


def _value(job: ToolJob, name: str) -> str:
    values = [word.partition("=")[2] for word in job.arguments if word.lstrip("-").startswith(f"{name}=")]
    if len(values) != 1:
        raise PassThrough("plan", f"a bundler with {len(values)} of '{name}'")
    return values[0]


def value_after(job: ToolJob, option: str) -> str:
    """The one value of `option`. Raises PassThrough if it has none, or several."""
    after = zip(("", *job.arguments), job.arguments, strict=False)
    values = [word for before, word in after if before == option]
    if len(values) != 1:
        raise PassThrough("plan", f"a job with {len(values)} of '{option}'")
    return values[0]
