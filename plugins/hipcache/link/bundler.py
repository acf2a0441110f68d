"""Links with relocatable device code (--hip-link -fgpu-rdc) by clang-offload-bundler: from `-###` to the graph.

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

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.keys import digest_bytes, digest_file, make_key
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.build import EACH_TIME, Action, ActionId, ActionOutput, Graph, Literal, Process, Ref, Source, Word
from hipcache.clang import bitcode, jobs
from hipcache.clang.jobs import ToolJob, inputs, known_link, output_of, split
from hipcache.execution.session import Session
from hipcache.link import steps
from hipcache.link.steps import CODE

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
        return next((unbundle.source for unbundle in self.unbundles if name in unbundle.outputs), "")


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
        code = output_of(link)
        if code not in bundled:
            raise PassThrough("plan", "a device link whose code object is not bundled")
        devices.append(DeviceLink(bundled.pop(code), link, code, inputs(link.arguments)))
    if bundled:
        raise PassThrough("plan", "the bundle contains a file that no device link writes")
    output = output_of(hosts[0])
    made = [name for job in unbundles for name in job.outputs] + [device.code for device in devices]
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
    lists = [word.partition("=")[2] for word in job.arguments if word.lstrip("-").startswith("targets=")]
    if len(lists) != 1:
        raise PassThrough("plan", f"a bundler with {len(lists)} of 'targets'")
    targets = lists[0].split(",")
    inputs = [word.partition("=")[2] for word in job.arguments if word.lstrip("-").startswith("input=")]
    if len(targets) != len(inputs):
        raise PassThrough("plan", "the bundler's targets and inputs differ in number")
    pairs = [(path, target) for path, target in zip(inputs, targets, strict=True) if not target.startswith("host-")]
    return {path: re.sub(r"^.*-amd-amdhsa-+", "", target) for path, target in pairs}


def _embed(job: ToolJob) -> tuple[str, str]:
    """(what llvm-mc reads, what it writes)."""
    output = output_of(job)
    sources = [word for word in job.arguments if word.endswith(".mcin") and word != output]
    if len(sources) != 1:
        raise PassThrough("plan", "no script for the object that holds the fat binary")
    return sources[0], output


# Libraries that the driver takes apart for the device link of each pass, though most of them are the host's alone.
#
#     clang-offload-bundler -unbundle -type=a -input=LIBRARY -targets=...-gfx906 -> an archive of that arch's code
#     lld ... PASS.o ARCHIVE                                                     -> code object
#
# Where the archive is empty the link is the same without it. What the bundler finds depends on the library's content
# and on its own: that it found nothing is kept in the store, an action that holds `_NOTHING`. (Not of a thin archive,
# which only names its members.)

_NOTHING = b"no device code"
_EMPTY = b"!<arch>\n"


def check_without_device_code(session: Session, unbundle: Unbundle) -> None:
    """Raises PassThrough if the library has device code for the arch, JobFailed if it is none."""
    key = _key(session, unbundle)
    is_whole = jobs.is_archive(unbundle.source, session.files.resolve(unbundle.source))
    if is_whole and session.shelves.shelf.records([key]).get(key) == _NOTHING:
        return
    archive = session.jobs.workdir / "device-code.a"
    words = [word if "output=" not in word else f"-output={archive}" for word in unbundle.job.arguments]
    done = session.jobs.run_now(f"unbundling of '{unbundle.source}'", [unbundle.job.program, *words])
    if done.stderr:
        raise PassThrough("job_output", f"unbundling of '{unbundle.source}' printed: {os.fsdecode(done.stderr)[:200]}")
    if archive.read_bytes() != _EMPTY:
        raise PassThrough(
            "link", f"library '{unbundle.source}' has device code, and the command compiles and links at once"
        )
    if is_whole:
        session.shelves.shelf.put(key, _NOTHING)


def _key(session: Session, unbundle: Unbundle) -> str:
    inputs = [("bundler", session.tool(unbundle.job.program))]
    with passing_through("named_file", unbundle.source):
        inputs.append(("library", session.files.named(unbundle.source)))
    words = (word for word in unbundle.job.arguments if not word.lstrip("-").startswith(("input=", "output=")))
    inputs += [("bundler option", word) for word in words]
    return make_key("unbundling", inputs).digest


def graph(session: Session, plan: LinkPlan, sources: Mapping[str, str], columns: int | None) -> Graph:
    """One action per job of the plan. Only device links are stored. All other jobs run every time, unchanged, because
    the host linker decides what the program is. `sources`: of temporary files that exist already. Raises PassThrough if
    an input cannot be read."""
    made: dict[str, ActionOutput] = {}
    unbundles = list(_unbundles(session, plan, made))
    links = [_device_link(session, plan, device, sources, made) for device in plan.devices]
    pairs = list(zip(plan.devices, links, strict=True))
    units = [steps.unit_of(device.arch, link, several=bool(sources)) for device, link in pairs]
    codes = {session.jobs.name(device.code): steps.code_of(link) for device, link in pairs}
    bundle = _job(session, "bundler", plan.bundle, codes, _written_by_bundler(plan.bundle))
    content = os.fsencode(plan.script)
    script = Literal(digest_bytes(content), lambda: content)
    read: dict[str, Source] = {**outputs_of_action(bundle), session.jobs.name(plan.script_file): script}
    embed = _job(session, "llvm-mc", plan.embed, read, [output_of(plan.embed)])
    host = steps.host_link(session, plan.host, {**made, **outputs_of_action(embed)}, columns)
    path = session.command.path(plan.output)
    return Graph((*unbundles, *links, bundle, embed, host), (), tuple(units), path, plan.messages)


def _unbundles(session: Session, plan: LinkPlan, made: dict[str, ActionOutput]) -> Iterator[Action]:
    """Adds the outputs to `made`. The driver's plan unbundles each object twice, for the host and for the devices."""
    first: dict[tuple[str, ...], Action] = {}
    for unbundle in plan.unbundles:
        same = (unbundle.job.program, *(word for word in unbundle.job.arguments if "output=" not in word))
        if same not in first:
            action = first[same] = _job(
                session, f"unbundling of '{unbundle.source}'", unbundle.job, {}, unbundle.outputs
            )
            yield action
        names = map(session.jobs.name, unbundle.outputs)
        made |= dict(zip(names, outputs_of_action(first[same]).values(), strict=True))


def _job(session: Session, label: str, job: ToolJob, inputs: Mapping[str, Source], written: Iterable[str]) -> Action:
    """A job of the plan, run unchanged: it names files in the scratch by path."""
    names = tuple(map(session.jobs.name, written))
    work = Process((job.program, *job.arguments))
    return Action(ActionId(label, " ".join(names)), "", label, work, (), tuple(inputs.items()), names, EACH_TIME)


def outputs_of_action(action: Action) -> dict[str, ActionOutput]:
    return {name: ActionOutput(action.id, name) for name in action.outputs}


def _written_by_bundler(job: ToolJob) -> list[str]:
    return [value for name, _, value in (word.partition("=") for word in job.arguments) if name.lstrip("-") == "output"]


def _device_link(
    session: Session, plan: LinkPlan, link: DeviceLink, sources: Mapping[str, str], made: Mapping[str, ActionOutput]
) -> Action:
    parts: list[tuple[str, Word]] = [("linker", session.tool(link.job.program))]
    inputs = {}
    for word in link.job.arguments:
        name = session.jobs.name(word)
        if word not in link.inputs:
            parts.append(("linker option", "code object" if word == link.code else word))
            named = jobs.value_of(word)
            if named and session.files.exists(named):
                parts.append(_content(session, named))
        elif name in made:
            inputs[name] = made[name]
            parts.append((f"device code of '{os.path.basename(plan.origin(word))}'", (Ref(name),)))
        else:
            parts.append(_file(session, word, sources.get(word, "")))
    names = {word: session.jobs.name(word) for word in link.inputs}
    refs = {word: name for word, name in names.items() if name in inputs} | {link.code: CODE}
    command = (link.job.program, *((Ref(refs[word]),) if word in refs else word for word in link.job.arguments))
    stored = not any(bitcode.may_include(session.files.resolve(word)) for word in link.inputs if word not in refs)
    place = session.jobs.name(link.code)
    return steps.device_link(link.arch, command, place, parts, tuple(inputs.items()), stored=stored)


def _file(session: Session, name: str, source: str) -> tuple[str, str]:
    if not source:
        jobs.check_input(name, session.files.resolve(name))
        return _content(session, name)
    with passing_through("named_file", name):
        return f"device code of '{os.path.basename(source)}'", digest_file(session.files.resolve(name))


def _content(session: Session, name: str) -> tuple[str, str]:
    with passing_through("named_file", name):
        return f"content of {os.path.basename(name)}", session.files.named(name)
