"""Device images that objects and static libraries carry for the new offload driver, and files with those of one arch.

The host's compile puts a package into section `.llvm.offloading` (of type SHT_LLVM_OFFLOADING): one binary behind the
other, each with one image (from LLVM 23 on: with several), its triple and its offload arch. clang-linker-wrapper reads
such binaries from objects, from members of static libraries, and from files that are nothing else
(`extractOffloadBinaries`, llvm/lib/Object). So binaries of one image each are an input for that arch alone.

Formats: the offload binary of llvm/include/llvm/Object/OffloadBinary.h, versions 1 (LLVM 14 to 22), 2 (23) and 3 (24);
ELF-64 little-endian (System V ABI, chapter 4); static libraries as GNU's ar writes them. Each LLVM reads version 1.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator

from hipcache.base import elf
from hipcache.base.values import dataclass

Content = bytes | mmap.mmap

HIP = (3, 4)  # OFK_HIP, a number up to LLVM 19, and a bit since
_MAGIC = b"\x10\xff\x10\xad"
# Magic, version, size; offset of the entries; their number (version 1: the size of the only one). Version 3 has another
# field: the size of what is compressed, or 0.
_HEADER = struct.Struct("<4sIQQQ")
_INFLATED = struct.Struct("<Q")
_ENTRY = struct.Struct("<HHIQQQQ")  # kinds of image and of offload, flags; strings: offset, count; image: offset, size
_PAIR = struct.Struct("<QQ")
_PAIR_SIZED = struct.Struct("<QQQ")  # from version 2 on, with the value's size
_ALIGNMENT = 8
_ELF = b"\x7fELF"
_SHT_LLVM_OFFLOADING = 0x6FFF4C0B
_ET_DYN = 3
_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


class UnknownFile(Exception):
    """A file that is damaged, or not laid out as this module knows it; says how."""


@dataclass(frozen=True)
class DeviceImage:
    """One image, alone in a binary (`raw`). `kind`: of offloading; `is_bitcode`: is it LLVM's bitcode?"""

    triple: str
    arch: str
    kind: int
    is_bitcode: bool
    raw: bytes


@dataclass(frozen=True)
class Embedded:
    """The device code in a file. `is_archive`: its images are taken as they are needed."""

    images: tuple[DeviceImage, ...]
    is_archive: bool


def read_images(path: str) -> Embedded:
    """The images of an input of the linker, in order. Raises OSError, UnknownFile."""
    with open(path, "rb") as file:
        if not file.read(1):
            return Embedded((), is_archive=False)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                found = tuple(_images(content, 0, len(content)))
            except (struct.error, ValueError, IndexError) as error:
                raise UnknownFile(f"it is truncated or damaged ({error})") from error
            return Embedded(found, content[: len(_ARCHIVE)] == _ARCHIVE)


def archive(images: Iterable[DeviceImage]) -> bytes:
    """A static library with a member for each image."""
    parts = [_ARCHIVE]
    for number, image in enumerate(images):
        fields = f"{number}.o/", "0", "0", "0", "644", str(len(image.raw)), "`\n"
        padded = (text.encode().ljust(width) for text, width in zip(fields, _WIDTHS, strict=True))
        parts += [_MEMBER.pack(*padded), image.raw]
        parts.append(b"\n" * (len(image.raw) % 2))
    return b"".join(parts)


_WIDTHS = (16, 12, 6, 6, 8, 10, 2)


def _images(content: Content, start: int, end: int) -> Iterator[DeviceImage]:
    head = content[start : start + len(_ARCHIVE)]
    if head.startswith(_ELF):
        yield from _in_elf(content, start, end)
    elif head == _ARCHIVE:
        yield from _in_archive(content, start, end)
    elif head.startswith(_MAGIC):
        yield from _binaries(content, start, end)
    elif head == _THIN:
        raise UnknownFile("a thin archive")
    elif head.startswith(_BITCODE):
        raise UnknownFile("bitcode for the host")


def _in_elf(content: Content, start: int, end: int) -> Iterator[DeviceImage]:
    if content[start : start + len(elf.IDENT)] != elf.IDENT:
        if content.find(_MAGIC, start, end) >= 0:
            raise UnknownFile("an ELF file that is not 64-bit little-endian")
        return
    header = elf.HEADER.unpack(content[start : start + elf.HEADER.size])
    kind, table, size, count = header[1], header[6], header[11], header[12]
    if kind == _ET_DYN:
        return  # the linker wrapper looks into no shared library
    if start + table + size * count > end or (table and (size != elf.SECTION.size or not count)):
        raise UnknownFile("its sections lie outside the file")
    if content.find(_MAGIC, start, end) < 0:
        return
    for number in range(count):
        place = start + table + number * size
        fields = elf.SECTION.unpack(content[place : place + size])
        if fields[1] == _SHT_LLVM_OFFLOADING:
            first = start + fields[4]
            if first + fields[5] > end:
                raise UnknownFile("a section lies outside the file")
            yield from _binaries(content, first, first + fields[5])


def _in_archive(content: Content, start: int, end: int) -> Iterator[DeviceImage]:
    place = start + len(_ARCHIVE)
    while place < end:
        name, *_, size, last = _MEMBER.unpack(content[place : place + _MEMBER.size])
        first, length = place + _MEMBER.size, int(size)
        if last != b"`\n" or first + length > end or name.startswith(b"#"):
            raise UnknownFile("an archive that is truncated, or not in GNU ar's format")
        if name.rstrip() not in (b"/", b"//", b"/SYM64/"):
            yield from _images(content, first, first + length)
        place = first + length + length % 2


def _binaries(content: Content, start: int, end: int) -> Iterator[DeviceImage]:
    while start < end:
        magic, version, size, entries, count = _HEADER.unpack(content[start : start + _HEADER.size])
        if magic != _MAGIC or version not in (1, 2, 3) or not 0 < size <= end - start:
            raise UnknownFile("device code in another format")
        raw = bytes(content[start : start + size])
        if version == 1:
            if count != _ENTRY.size:
                raise UnknownFile("device code in another format")
            count = 1
        elif version == 3 and _INFLATED.unpack_from(raw, _HEADER.size) != (0,):
            raise UnknownFile("device code that is compressed")
        if entries + count * _ENTRY.size > size:
            raise UnknownFile("a device image lies outside its file")
        for number in range(count):
            yield _image(raw, version, entries + number * _ENTRY.size)
        start += -(-size // _ALIGNMENT) * _ALIGNMENT


def _image(raw: bytes, version: int, entry: int) -> DeviceImage:
    image_kind, kind, flags, strings, count, place, length = _ENTRY.unpack_from(raw, entry)
    if place + length > len(raw):
        raise UnknownFile("a device image lies outside its file")
    texts: dict[bytes, bytes] = {}
    for number in range(count):
        if version == 1:
            name, value = _PAIR.unpack_from(raw, strings + number * _PAIR.size)
            texts[_text(raw, name)] = _text(raw, value)
        else:
            name, value, width = _PAIR_SIZED.unpack_from(raw, strings + number * _PAIR_SIZED.size)
            texts[_text(raw, name)] = raw[value : value + width]
    content = raw[place : place + length]
    alone = raw if version == 1 else _binary(image_kind, kind, flags, texts, content)
    triple, arch = (texts.get(name, b"").decode("utf-8", "surrogateescape") for name in (b"triple", b"arch"))
    return DeviceImage(triple, arch, kind, content.startswith(_BITCODE), alone)


def _binary(image_kind: int, kind: int, flags: int, texts: dict[bytes, bytes], content: bytes) -> bytes:
    """A binary of version 1 with that image alone."""
    strings = _HEADER.size + _ENTRY.size
    place = strings + len(texts) * _PAIR.size
    pairs, table = b"", b""
    for words in texts.items():
        places = []
        for word in words:
            places.append(place + len(table))
            table += word + b"\0"
        pairs += _PAIR.pack(*places)
    image = place + len(_aligned(table))
    body = pairs + _aligned(table) + _aligned(content)
    entry = _ENTRY.pack(image_kind, kind, flags, strings, len(texts), image, len(content))
    return _HEADER.pack(_MAGIC, 1, strings + len(body), _HEADER.size, _ENTRY.size) + entry + body


def _aligned(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)


def _text(raw: bytes, place: int) -> bytes:
    return raw[place : raw.index(b"\0", place)]
