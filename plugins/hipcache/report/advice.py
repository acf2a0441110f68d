"""Advice for each reason why a command passes through to the compiler. For `explain` and the manual."""

from __future__ import annotations

_NOTHING = "nothing: there is no object to cache"
_ASK = "report it, with the command and the detail that 'hipcache explain' shows"
_LATER = "leave out that option if you want these compiles cached"

ADVICE = {
    "not_hip": "nothing: use ccache for plain C++; to use both, write 'hipcache ccache clang++ ...'",
    "link_or_not_hip": "nothing: the host linker always runs",
    "link": "nothing for host links; for relocatable device code, pass --hip-link and -fgpu-rdc to the link, too",
    "preprocess": "write to a file (-o FILE): hipcache caches that",
    "dependencies_only": "have the compile write its dependency file (-MD), which saves a command",
    "no_object": _NOTHING,
    "asks_driver": _NOTHING,
    "save_temps": "leave out -save-temps in cached builds",
    "new_driver": "link with clang 19, or leave out --offload-new-driver",
    "target_id": "do not mix such target IDs in one link (gfx90a and gfx90a:xnack+)",
    "lto": "use device LTO (-foffload-lto): hipcache caches it, but not host LTO",
    "side_output": "leave out the option that 'hipcache explain' names",
    "temporary_names": _LATER,
    "command_line": _LATER,
    "assembler": "use clang's own assembler: leave out -fno-integrated-as",
    "assembler_files": "preprocess such sources first, or ignore this",
    "pch": "leave out the precompiled header; hipcache's own preambles give a similar speed-up",
    "coverage": _LATER,
    "modules": "compile HIP without -fmodules",
    "plugin": "run the plugin in a separate build",
    "random_cuid": "leave out -fuse-cuid=random",
    "several_sources": "name one source in each command, as build tools do",
    "standard_streams": "name files for input and output",
    "linked_output": "name a regular file with -o, not a link",
    "output": "check that the directory of the output exists and may be written",
    "response_file": "check that the file after '@' exists and can be read",
    "iree_output": "write one module with -o; write dumps with a separate command",
    "wrapper": 'use clang++ itself, or end the script with: exec clang++ "$@"',
    "scons_spawn": "set the variable that 'hipcache explain' names for other commands only, or change ENV instead",
    "driver": "run the command with -### and read what the compiler says",
    "plan": _ASK,
    "compiler_option": "leave out that option, or report it: hipcache caches only if it knows every option",
    "linker_option": "leave out that option, or report it",
    "tool": "check that the compiler's own programs (lld, clang-offload-bundler) can be read",
    "named_file": "check that the file exists and can be read",
    "job_output": _ASK,
    "object_layout": _ASK,
    "unobserved": "allow seccomp and ptrace in the container or sandbox; 'hipcache doctor' shows what is missing",
    "store": "run 'hipcache doctor' to see what is wrong",
    "store_full": "free some space, lower HIPCACHE_MAX_SIZE, or move HIPCACHE_DIR to another disk",
    "limits": "raise the limit (ulimit -a), or start fewer compiles at once",
    "temporary_directory": "set TMPDIR to a writable directory",
    "internal": _ASK,
    "job_failed_alone": _ASK,
}
