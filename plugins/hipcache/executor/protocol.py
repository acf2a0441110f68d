"""Actions run by workers of a server of the Remote Execution API: Command, Action and input root, Execute, the outputs.

A worker is given all that the command needs: the program in `bin/`, the libraries that it loads in `lib/` with the
loader itself, and the inputs. The loader is the first word: so neither the worker's libraries nor its paths count.
Results of other clients in the server's action cache are not taken, and none is put there.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc

from hipcache.base.values import dataclass, field
from hipcache.executor.workers import ExecutorAddress, Watch
from hipcache.processes import decode
from hipcache.remote import reapi
from hipcache.remote import reapi_pb2 as pb
from hipcache.remote.backend import (
    GARBAGE,
    MOST_CONTENT,
    MOST_RESULT,
    SETTINGS,
    STATUS,
    TOOLCHAIN,
    Blob,
    Credentials,
    RemoteError,
    blob_of,
)
from hipcache.remote.reapi import as_remote_error

# Kinds of faults, besides those of `backend`: the server has no worker for it or lost it, the time is up, an output is
# not there.
WORKER, LIMIT, NO_OUTPUT = "worker", "limit", "no output"
_EXECUTE = "/build.bazel.remote.execution.v2.Execution/Execute"
_CANCEL = "/google.longrunning.Operations/CancelOperation"
_STAGES = {1: "queued", 2: "queued", 3: "executing", 4: "executing"}
_SMALL = 1 << 20  # bytes
_CHECK = 5.0  # of an address's timeout
_MOST = 200  # characters of what the server says


@dataclass(frozen=True)
class Program:
    """A program as part of an input root: the words that start it, directories, and where their contents are here, by
    their digests."""

    words: tuple[str, ...]
    directories: tuple[tuple[str, Any], ...]
    contents: Mapping[Blob, str | bytes]


@dataclass(frozen=True)
class RemoteCommand:
    """`words`: behind the program; `inputs`: contents by name; `outputs`: names; `environ`: all its variables."""

    program: Program
    words: tuple[str, ...]
    inputs: Mapping[str, bytes]
    outputs: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecutionResult:
    """`text`: on standard error."""

    outputs: Mapping[str, bytes]
    text: str
    seconds: float


def program_of(path: str, files: Iterable[str]) -> Program:
    """`path`: as the command names it; `files`: itself and all that the loader maps for it. Raises OSError."""
    first, *libraries = files
    contents: dict[Blob, str | bytes] = {}

    def node(name: str, file: str) -> Any:
        blob = hashed(file)
        contents[blob] = file
        return pb.FileNode(name=name, digest=reapi.digest_of(blob), is_executable=True)

    def directory(files: Mapping[str, str]) -> Any:
        return _kept(pb.Directory(files=[node(name, files[name]) for name in sorted(files)]), contents)

    name = os.path.basename(path)
    named = {os.path.basename(library): library for library in libraries}
    loader = next((name for name in named if name.startswith("ld-")), "")
    if not loader or len(named) != len(libraries):
        raise OSError(f"the loader of '{path}' is not known, or two of its libraries have one name")
    words = (f"lib/{loader}", "--library-path", "lib", f"bin/{name}")
    return Program(words, (("bin", directory({name: first})), ("lib", directory(named))), contents)


def hashed(path: str) -> Blob:
    """The digest of a file. Raises OSError."""
    with open(path, "rb") as opened:
        digest, size = hashlib.sha256(), 0
        while piece := opened.read(_SMALL):
            digest.update(piece)
            size += len(piece)
    return Blob(digest.hexdigest(), size)


def _kept(message: Any, contents: dict[Blob, Any]) -> Any:
    """The digest of the message, which is one of the contents now."""
    content = reapi.serialized(message)
    blob = blob_of(content)
    contents[blob] = content
    return reapi.digest_of(blob)


@dataclass
class Workers:
    """One server's. Any number of threads may use it at once."""

    executor: ExecutorAddress
    cas: reapi.Reapi
    _execute: Any = field(init=False)
    _cancel: Any = field(init=False)

    def __post_init__(self) -> None:
        channel = self.cas.channel
        self._execute = channel.unary_stream(_EXECUTE, reapi.serialized, pb.Operation.FromString)
        self._cancel = channel.unary_unary(_CANCEL, reapi.serialized, bytes)

    def check(self) -> None:
        """Raises RemoteError where the server executes nothing."""
        timeout = _CHECK * self.executor.address.timeout
        if not self.cas.capabilities(timeout).execution_capabilities.exec_enabled:
            raise RemoteError(SETTINGS, "it offers no execution")

    def upload(self, program: Program) -> int:
        """What of it the server lacks; bytes. Raises RemoteError, OSError."""
        self.check()
        lacking = self.cas.lacking(program.contents)
        for blob in lacking:
            content = program.contents[blob]
            self.cas.put_contents([(blob, content if isinstance(content, bytes) else Path(content).read_bytes())])
        return sum(blob.size for blob in lacking)

    def run(self, work: RemoteCommand, watch: Watch) -> ExecutionResult:
        """Raises RemoteError."""
        began = time.monotonic()
        result = self._result(work, watch)
        if result.stdout_raw or result.stdout_digest.size_bytes:
            raise RemoteError(STATUS, "a command wrote to standard output there")
        return ExecutionResult(
            {name: self._output(result, name) for name in work.outputs},
            self._text(result.stderr_raw, result.stderr_digest),
            _seconds(result.execution_metadata) or time.monotonic() - began,
        )

    def text_of(self, words: tuple[str, ...], environ: Mapping[str, str]) -> str:
        """What a command that reads no inputs writes to standard output. Raises RemoteError."""
        result = self._result(RemoteCommand(Program((), (), {}), words, {}, (), environ), Watch())
        return self._text(result.stdout_raw, result.stdout_digest)

    def _result(self, work: RemoteCommand, watch: Watch) -> Any:
        """Of a command that ended well. Raises RemoteError."""
        contents: dict[Blob, bytes] = {}
        action = _kept(self._action(work, contents), contents)
        large = [blob for blob in contents if blob.size > _SMALL]
        there = set(large) - self.cas.lacking(large) if large else set()
        self.cas.put_contents((blob, content) for blob, content in contents.items() if blob not in there)
        request = pb.ExecuteRequest(
            instance_name=self.cas.instance,
            action_digest=action,
            skip_cache_lookup=True,
            inline_stdout=True,
            inline_stderr=True,
            inline_output_files=work.outputs,
        )
        result = self._awaited(request, watch)
        if result.exit_code != 0:
            raise RemoteError(STATUS, f"a command ended with status {result.exit_code} there")
        return result

    def _action(self, work: RemoteCommand, contents: dict[Blob, bytes]) -> Any:
        def kept(content: bytes) -> Any:
            blob = blob_of(content)
            contents[blob] = content
            return reapi.digest_of(blob)

        program, names = work.program, sorted(work.inputs)
        root = pb.Directory(
            files=[pb.FileNode(name=name, digest=kept(work.inputs[name])) for name in names],
            directories=[pb.DirectoryNode(name=name, digest=digest) for name, digest in program.directories],
        )
        properties = [pb.Platform.Property(name=name, value=value) for name, value in self.executor.platform]
        platform = pb.Platform(properties=properties)
        # Older servers know the one list of outputs, newer ones the other.
        command = pb.Command(
            arguments=[*program.words, *work.words],
            environment_variables=[
                pb.Command.EnvironmentVariable(name=name, value=value) for name, value in sorted(work.environ.items())
            ],
            output_files=sorted(work.outputs),
            output_paths=sorted(work.outputs),
            platform=platform,
        )
        return pb.Action(
            command_digest=_kept(command, contents),
            input_root_digest=_kept(root, contents),
            timeout=pb.Duration(seconds=self.executor.limit),
            do_not_cache=True,
            platform=platform,
        )

    def _awaited(self, request: Any, watch: Watch) -> Any:
        """The result. Raises RemoteError."""
        stream, name = self._execute(request, timeout=self.executor.limit, metadata=self.cas.metadata), ""
        watch.begin(stream.cancel)
        try:
            for operation in stream:
                name = operation.name
                if operation.done:
                    name = ""
                    return _result_of(operation)
                watch.at = _STAGES.get(pb.ExecuteOperationMetadata.FromString(operation.metadata.value).stage, "")
            raise RemoteError(WORKER, "it ended an action without a result")
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise RemoteError(LIMIT, f"an action took longer than {self.executor.limit} s") from error
            raise as_remote_error(error) from error
        finally:
            stream.cancel()
            if name:
                self._cancel.future(pb.CancelOperationRequest(name=name), timeout=5, metadata=self.cas.metadata)

    def _output(self, result: Any, name: str) -> bytes:
        found = [file for file in result.output_files if file.path == name]
        if len(found) != 1 or not found[0].digest.hash:
            raise RemoteError(NO_OUTPUT, "an action has no output there")
        blob = Blob(found[0].digest.hash, found[0].digest.size_bytes)
        return self._content(blob, MOST_CONTENT, bytes(found[0].contents))

    def _text(self, raw: bytes, digest: Any) -> str:
        content = bytes(raw)
        if digest.hash and (content or digest.size_bytes):
            content = self._content(Blob(digest.hash, digest.size_bytes), MOST_RESULT, known=content)
        return decode(content)

    def _content(self, blob: Blob, most: int, known: bytes = b"") -> bytes:
        """`known`: what came with the result, if it did."""
        found = {blob: known} if known else self.cas.contents([blob], lambda size: None) if blob.size <= most else {}
        if blob not in found:
            raise RemoteError(NO_OUTPUT, "an output is not there")
        if blob_of(found[blob]) != blob:
            raise RemoteError(GARBAGE, "an output is not what its digest says")
        return found[blob]


def _result_of(operation: Any) -> Any:
    answer = pb.ExecuteResponse.FromString(operation.response.value)
    wrong = operation.error if operation.error.code else answer.status
    if wrong.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]:
        raise RemoteError(LIMIT, "an action took too long there")
    if wrong.code:
        raise RemoteError(WORKER, f"it could not run an action (status {wrong.code}): {wrong.message[:_MOST]}")
    return answer.result


def _seconds(metadata: Any) -> float:
    """Of the work itself, where the server says that."""
    begin, end = metadata.execution_start_timestamp, metadata.execution_completed_timestamp
    return max(0.0, float(end.seconds - begin.seconds) + float(end.nanos - begin.nanos) / 1e9)


def connect(executor: ExecutorAddress, shown: Credentials) -> Workers:
    """Nothing is sent yet."""
    return Workers(executor, reapi.connect(executor.address, shown))


# Programs that workers have installed, by their image: nothing is uploaded, and their commands name them by path.
#
# Whether such a program is that of this machine is asked first, by two actions: what its loader maps for it there
# (LD_TRACE_LOADED_OBJECTS, as `inputs/identity` asks here), and the digests of these files and its own. An image that
# is named by more than its digest may change, or workers may have several: then the first answer is not that of all.
_HASHES = "/usr/bin/sha256sum"
_TRACE = {"LD_TRACE_LOADED_OBJECTS": "1"}
_MOST_MAPPED = 1000


@dataclass(frozen=True)
class Installed:
    """`digests`: SHA-256 in hexadecimal of the program's own file and of each library, whose name is its key."""

    path: str
    own: str
    digests: Mapping[str, str]


def read_installed(path: str, files: Iterable[str]) -> Installed:
    """What is here. Raises OSError."""
    first, *libraries = files
    digests = {os.path.basename(library): hashed(library).hash for library in libraries}
    return Installed(path, hashed(first).hash, digests)


def checked(workers: Workers, wanted: Installed) -> Program:
    """The program as it is there, if it is the same. Raises RemoteError."""
    try:
        mapped = _mapped(workers.text_of((wanted.path,), _TRACE))
        found = _digests(workers.text_of((_HASHES, wanted.path, *mapped), {}))
    except RemoteError as error:
        if error.kind != STATUS:
            raise
        raise RemoteError(TOOLCHAIN, f"'{wanted.path}' cannot be looked at on its workers: {error}") from error
    there = {os.path.basename(path): found.get(path, "") for path in mapped}
    differing = [name for name in {**wanted.digests, **there} if there.get(name) != wanted.digests.get(name)]
    if found.get(wanted.path) != wanted.own or len(there) != len(mapped):
        differing = [wanted.path]
    if differing:
        raise RemoteError(TOOLCHAIN, f"its workers have another '{differing[0]}' than this machine")
    return Program((wanted.path,), (), {})


def _mapped(text: str) -> list[str]:
    """Of lines such as `libc.so.6 => /lib/libc.so.6 (0x1)` or `/lib64/ld.so (0x2)`."""
    places = [line.rpartition("=>")[2].rpartition("(")[0].strip() for line in text.splitlines()]
    return list(dict.fromkeys(place for place in places if place.startswith("/")))[:_MOST_MAPPED]


def _digests(text: str) -> dict[str, str]:
    """Of lines such as `0123...  /bin/program`, by path."""
    pairs = (line.split("  ", 1) for line in text.splitlines() if "  " in line)
    return {path: digest for digest, path in pairs}
