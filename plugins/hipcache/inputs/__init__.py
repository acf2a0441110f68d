"""The inputs that outputs depend on: the files that a pass reads, the tools that run, the variables."""
