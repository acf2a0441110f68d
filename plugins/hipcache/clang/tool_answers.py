"""Stored answers of a tool, with all paths that the tool looked at.

An answer (the driver's plan, the command that hipcc runs) depends on the command, the environment, the working
directory, and what the tool finds in the file system. hipcache checks all of these before it reuses a stored answer,
and otherwise asks the tool again.

An answer names programs to run. So hipcache uses only answers that the same user has stored: in a shared store each
user asks the tool.

Format of an answer (an action of the store): JSON in zlib's format
`{"text": str, "looked": [[how, path, signature], ...]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hipcache.base.compression import pack_json, unpack_json
from hipcache.base.keys import make_key
from hipcache.base.values import dataclass
from hipcache.build.context import Context
from hipcache.inputs.variables import VOLATILE
from hipcache.processes import observe
from hipcache.processes.observe import Observation


@dataclass(frozen=True)
class Answer:
    """`observations`: every path that the tool looked at; empty if unknown."""

    text: str
    observations: tuple[Observation, ...]


def question(kind: str, program: str, argv: Iterable[str], cwd: str, environ: Mapping[str, str]) -> str:
    """The key of what `program` answers to `argv`."""
    name, *words = argv
    inputs = [("program", program), ("name", name), ("directory", cwd), *(("word", word) for word in words)]
    inputs += [(f"variable {n}", v) for n, v in sorted(environ.items()) if n not in VOLATILE and not _own(n)]
    return make_key(kind, inputs).digest


def remember(context: Context, key: str, answer: Answer) -> None:
    if not answer.observations or observe.young(answer.observations, context.clock(), context.racy):
        return
    data = {"text": answer.text, "looked": [[look.how, look.path, look.sign] for look in answer.observations]}
    context.keep_for_speed(key, pack_json(data), own=True)


def recall(context: Context, key: str) -> Answer | None:
    """The stored answer, if nothing that the tool looked at has changed."""
    raw = None if context.recache else context.store.get_action(key, own=True)
    if raw is None:
        return None
    try:
        data = unpack_json(raw)
        observations = tuple(Observation(how, path, sign) for how, path, sign in data["looked"])
        answer = Answer(str(data["text"]), observations)
    except (ValueError, KeyError, TypeError):
        return None
    if observe.young(observations, context.clock(), context.racy):
        return None  # of a version that kept such an answer
    return answer if all(observe.sign(look.how, look.path) == look.sign for look in observations) else None


def _own(name: str) -> bool:
    return name.startswith("HIPCACHE_")
