"""Files and their contents: written whole, locked, unpacked; what paths and times tell."""
