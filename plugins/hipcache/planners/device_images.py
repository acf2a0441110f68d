"""The device images in the inputs of a link by the new offload driver."""

from __future__ import annotations

import os
from collections.abc import Set
from itertools import combinations

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.inputs import embedded
from hipcache.inputs.embedded import HIP, Embedded, UnknownFile
from hipcache.patterns import pattern
from hipcache.planning.wrapper_plan import Input, WrapperPlan
from hipcache.values import dataclass

# From LLVM 24 on the processor stands in it, as in "amdgpu9.0a".
_TRIPLE = pattern(r"(amdgcn|amdgpu[0-9a-f.]*)-amd-amdhsa$")
_FLIP = str.maketrans("+-", "-+")
_TARGET_ID = pattern(r"gfx[0-9a-f]+(:(sramecc|xnack)[+-])*$")


@dataclass(frozen=True)
class File:
    """An input with device code."""

    path: str
    found: Embedded
    whole: bool

    @property
    def is_lazy(self) -> bool:
        return self.found.is_archive and not self.whole

    def of(self, arch: str) -> bytes:
        """The same input without the images of other archs, for the wrapper; empty if it has no image of this arch."""
        images = [image for image in self.found.images if image.arch == arch]
        return embedded.archive(images) if images and self.is_lazy else b"".join(image.raw for image in images)


def read(session: Session, plan: WrapperPlan) -> list[File]:
    """The inputs with device code. Raises PassThrough."""
    files = [file for file in (_open(session, plan, one) for one in plan.inputs) if file and file.found.images]
    images = [image for file in files for image in file.found.images]
    for image in images:
        if image.kind not in HIP or not _TRIPLE.match(image.triple) or not image.is_bitcode:
            raise PassThrough("link", f"device code that is not HIP's bitcode, for '{image.triple}'")
        if not _TARGET_ID.match(image.arch):
            raise PassThrough("target_id", image.arch)
    _check_incompatible({image.arch for image in images})
    return files


def triples_of(files: list[File]) -> dict[str, str]:
    """Arch -> triple, in the order of the wrapper's links. Archs that only libraries have are not linked. Raises
    PassThrough."""
    triples = {image.arch: image.triple for file in files if not file.is_lazy for image in file.found.images}
    if not triples:
        raise PassThrough("link", "of objects that have no device code to link")
    for image in (image for file in files for image in file.found.images):
        if triples.get(image.arch, image.triple) != image.triple:
            raise PassThrough("link", f"{image.arch} with two triples")
    return triples


def _check_incompatible(archs: Set[str]) -> None:
    """Images of one target ID that run on another one's devices, too, are linked for both (`areTargetsCompatible`,
    llvm/lib/Object/OffloadBinary.cpp): for all of one processor but those with other features."""
    for one, other in combinations(sorted(archs), 2):
        first, second = one.split(":"), other.split(":")
        flipped = {feature.translate(_FLIP) for feature in second[1:]}
        if first[0] == second[0] and not flipped & set(first[1:]):
            raise PassThrough("target_id", f"{one} and {other}, which are linked together")


def _open(session: Session, plan: WrapperPlan, one: Input) -> File | None:
    """The file of an input; None if the wrapper finds none there."""
    name = _library(session, plan, one.name) if one.library else one.name
    path = session.files.resolve(name)
    if not os.path.exists(path) or os.path.isdir(path):
        return None
    if not os.path.isfile(path):
        raise PassThrough("named_file", f"'{name}' is not a regular file")
    try:
        return File(name, embedded.read(path), one.whole)
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
    except UnknownFile as error:
        raise PassThrough("object_layout", f"'{name}': {error}") from error


def _library(session: Session, plan: WrapperPlan, name: str) -> str:
    """The path where the wrapper finds it (`searchLibrary`)."""
    if name.endswith(".lib"):
        raise PassThrough("linker_option", f"-l{name}")
    wanted = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
    for directory in plan.directories:
        for file in wanted:
            path = os.path.join(directory, file)
            if os.path.exists(session.files.resolve(path)):
                return path
    raise PassThrough("named_file", f"no library '-l{name}'")
