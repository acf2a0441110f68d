"""What every package stands on: errors, values, patterns, keys, the features that are there; the native library
(`native`, `hashing`) and what it shares; files: written whole, locked, unpacked, ELF; what paths and times tell."""
