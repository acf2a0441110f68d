"""The inputs that outputs depend on: the files that a pass reads, the tools that run, and the keys made of them."""
