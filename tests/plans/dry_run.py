#!/usr/bin/env python3
"""Prints what the linker wrapper of a recorded plan prints in a dry run, and what the clangs plan that it would run."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

jobs = [shlex.split(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.startswith(' "')]
package = next(words for words in jobs if "llvm-offload-binary" in words[0])
wrapper = next(words for words in jobs if "clang-linker-wrapper" in words[0])
with tempfile.TemporaryDirectory() as place:
    images = ["--image=file=/dev/null" + word[word.index(",") :] for word in package[3:]]
    subprocess.run([package[0], "-o", "package.out", *images], cwd=place, check=True)
    at = wrapper.index("-o")
    words = [*wrapper[:at], *wrapper[at + 3 :], "-o", "fat.hipfb", "package.out", "--dry-run"]
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": place}
    done = subprocess.run(words, cwd=place, env=env, stderr=subprocess.PIPE, text=True, check=True)
printed = done.stderr.replace(f"{place}/", "")
print(printed, end="")
for line in printed.splitlines()[:-1]:
    clang, *words = shlex.split(line)
    code = words[words.index("-o") + 1]
    names = {code: "code object"}
    words = ["/dev/null" if word.startswith("package-") else names.get(word, word) for word in words]
    planned = subprocess.run([clang, "-###", *words], stderr=subprocess.PIPE, text=True, check=True)
    print(f"\n{planned.stderr}", end="")
