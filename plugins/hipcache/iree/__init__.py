"""IREE: commands of iree-compile, and the modules that it makes.

command     the words of a command, and those of another kind, which pass through
targets     what a command asks for and IREE would silently make otherwise
script      which program compiles, behind the script of IREE's package
planner     the one action of a command, and its key
process     runs it under observation, which gives its trace
results     finds its result by what it was observed to read
module      a .vmfb as a value
fit         whether it fits a device
dlpack      which buffers the run time hands on
verb        `hipcache iree-check`
"""
