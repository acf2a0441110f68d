"""Adds the compiles of HIP to compile_commands.json: Meson writes there what its languages compile, no generator's.

    python compile-commands.py COMPILER NINJA...

After each configure, in $MESON_BUILD_ROOT: Ninja tells its commands, and those that run COMPILER with `-x hip` are put
in, from the compiler on, so that clangd sees no launcher. Format: https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

import json
import os
import shlex
import subprocess
import sys

compiler, *ninja = sys.argv[1:]
build = os.environ["MESON_BUILD_ROOT"]
path = os.path.join(build, "compile_commands.json")
asked = subprocess.run([*ninja, "-t", "compdb", "CUSTOM_COMMAND_DEP"], cwd=build, stdout=subprocess.PIPE, check=False)
try:
    commands = json.loads(asked.stdout)
except ValueError:
    # Only editors miss them: the project can be built all the same.
    print(f"hipcache: '{ninja[0]}' tells no commands: compile_commands.json has no HIP sources")
    sys.exit()
entries = {}
try:
    with open(path, encoding="utf-8") as file:
        entries = {entry.get("output", entry["file"]): entry for entry in json.load(file)}
except FileNotFoundError:
    pass
for entry in commands:
    words = shlex.split(entry["command"])
    if compiler in words and " -x hip " in entry["command"]:
        entries[entry["output"]] = {**entry, "command": shlex.join(words[words.index(compiler) :])}
with open(path + ".part", "w", encoding="utf-8") as file:
    json.dump(list(entries.values()), file, indent=2)
os.replace(path + ".part", path)
