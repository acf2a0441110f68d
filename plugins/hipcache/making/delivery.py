"""What the user gets: the dependency file, second outputs and the object, each written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.delivery import files
from hipcache.direct.record import Output, Outputs, Rule
from hipcache.errors import PassThrough
from hipcache.making import auxiliary, depfile
from hipcache.making.assembly import Object
from hipcache.making.one_source import Made
from hipcache.making.passes import Dependency
from hipcache.planning.cc1 import Role
from hipcache.planning.command import is_stream
from hipcache.planning.plan import Plan
from hipcache.session import Damaged, Session


def deliver(session: Session, made: Made, objects: Sequence[Object]) -> Outputs:
    plan = made.plan
    files.check_places(map(session.command.path, plan.outputs))
    rules = write_dependencies(session, [made])
    beside = auxiliary.deliver(session, [one for product in made.products for one in product.beside])
    written = [Output(path, digest) for path, digest in beside.items()]
    for output, one in zip(plan.outputs, objects, strict=True):
        path = session.command.path(output)
        write_object(session, one, Path(path))
        if plan.links_alone:
            _make_executable(Path(path))
        written.append(Output(path, one.digest, plan.links_alone))
    return Outputs(rules, tuple(written))


def write_object(session: Session, one: Object, path: Path) -> None:
    if one.content is not None:
        files.write(path, one.content)
    elif not session.engine.store.copy_blob(one.digest, path):
        raise Damaged


def _make_executable(path: Path) -> None:
    """As lld does: who may read it may run it."""
    with suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)


def write_dependencies(session: Session, made: Sequence[Made]) -> tuple[Rule, ...]:
    """The dependency file, if one was asked for: the union over all passes, the host's first. Clang's own file lists
    only what the last source's host pass read."""
    lists = [
        product.dependencies
        for one in reversed(made)
        for product in ((one.products[-1], *one.products[:-1]) if one.plan.host else one.products)
    ]
    return write_rule(session, made[-1].plan, lists)


def write_rule(session: Session, plan: Plan, passes: Sequence[Sequence[Dependency]]) -> tuple[Rule, ...]:
    """The dependency file of these passes, if one was asked for."""
    options = [option for option in plan.first.options if option.role is Role.DEPENDENCIES]
    path = plan.first.value(Role.DEPENDENCIES, "-dependency-file")
    if not path:
        return ()
    whole = session.command.path(path)
    if path == "-" or (is_stream(whole) and os.path.realpath(whole) != os.devnull):
        raise PassThrough("standard_streams", f"-MF {path}")  # a rule for each pass
    targets = [o.value if o.name == "-MT" else depfile.quote(o.value) for o in options if o.name in ("-MT", "-MQ")]
    everything = any(option.role is Role.DEPENDENCY_STYLE for option in plan.first.options)
    lists = [[file.path for file in read if everything or not file.system] for read in passes]
    phony = any(option.name == "-MP" for option in options)
    if os.path.isfile(whole) and not os.access(whole, os.W_OK):
        raise PassThrough("store", f"'{path}' cannot be written")
    names = depfile.union(lists)
    if any(";" in name or "\n" in name for name in names):
        # The store says what was read, and others may write there: make runs what stands behind such a name.
        raise PassThrough("side_output", "a header whose name make would take for a command")
    rule = depfile.write(targets, names, phony=phony, clang=plan.clang)
    # As clang does, which replaces an object, and writes into a dependency file that is there.
    content = os.fsencode(rule)
    files.write(Path(whole), content, through_links=True)
    return (Rule(whole, content),)
