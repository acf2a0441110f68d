"""The records of ELF-64, little-endian (System V ABI, chapters 4 and 5), as all who read or write objects name them."""

from __future__ import annotations

import struct

IDENT = b"\x7fELF\x02\x01"
# e_ident type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
# sh_name type flags addr offset size link info addralign entsize
SECTION = struct.Struct("<IIQQQQIIQQ")
COMPRESSION = struct.Struct("<IIQQ")  # ch_type, reserved, ch_size, ch_addralign
SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
# Of a section whose content is compressed.
SHF_COMPRESSED = 0x800
