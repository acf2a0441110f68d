"""What every package stands on: errors, values, patterns, what is shared with C, the features that are there; and files
with their contents: written whole, locked, unpacked; what paths and times tell."""
