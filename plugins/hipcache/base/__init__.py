"""What every package stands on: errors, values, patterns, the features that are there; the native library (`native`,
`hashing`) and what it shares; files with their contents: written whole, locked, unpacked; what paths and times tell."""
