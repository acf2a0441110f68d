"""For each reason why a compile is left to the compiler: what its user can do. For `explain` and the manual."""

from __future__ import annotations

_NOTHING = "nothing: it is the compiler's work"
_ASK = "look at the detail that 'hipcache explain' gives, and report it with the command"
_LATER = "nothing now: compile without that option where the time counts"

ADVICE = {
    "not_hip": "nothing: plain C++ is ccache's work; put it behind hipcache ('hipcache ccache clang++ ...')",
    "link_or_not_hip": "nothing: the host's linker always runs",
    "link": "nothing for host links; for relocatable device code say --hip-link and -fgpu-rdc in the link, too",
    "preprocess": "give it an output (-o FILE): that is cached",
    "dependencies_only": "let the compile write its dependency file (-MD): one command less",
    "no_object": _NOTHING,
    "asks_driver": _NOTHING,
    "save_temps": "leave out -save-temps for builds that are to be cached",
    "new_driver": "link with clang 19, or leave out --offload-new-driver",
    "target_id": "link without mixing such target IDs (gfx90a and gfx90a:xnack+)",
    "lto": "use device LTO (-foffload-lto), which is cached; links with host LTO are not",
    "side_output": "leave out the option that 'hipcache explain' names",
    "temporary_names": _LATER,
    "command_line": _LATER,
    "assembler": "use clang's own assembler: leave out -fno-integrated-as",
    "assembler_files": "preprocess such sources before, or leave them",
    "pch": "leave out the precompiled header; HIPCACHE_PREAMBLES=1 does the like by itself",
    "coverage": _LATER,
    "modules": "compile HIP without -fmodules",
    "plugin": "leave the plugin to a build of its own",
    "random_cuid": "leave out -fuse-cuid=random",
    "several_sources": "name one source in each command, as build tools do",
    "standard_streams": "name files for input and output",
    "linked_output": "let -o name a file, not a link",
    "response_file": "look whether the file that '@' names can be read",
    "iree_output": "write one module with -o, and dumps by a command of their own",
    "wrapper": 'name clang++ itself, or let the script end in: exec clang++ "$@"',
    "driver": "run the command with -### and read what the compiler says",
    "plan": _ASK,
    "compiler_option": "leave out that option, or report it: hipcache must know each option whose output it keeps",
    "linker_option": "leave out that option, or report it",
    "tool": "look whether the compiler's own programs (lld, clang-offload-bundler) can be read",
    "named_file": "look whether the file exists and can be read",
    "job_output": _ASK,
    "object_layout": _ASK,
    "unobserved": "allow seccomp and ptrace in the container or sandbox: 'hipcache doctor' says what is missing",
    "store": "'hipcache doctor' says what is wrong with it",
    "store_full": "free some space, or lower HIPCACHE_MAX_SIZE, or put HIPCACHE_DIR on another disk",
    "limits": "raise the limit (ulimit -a), or start fewer compiles at once",
    "temporary_directory": "let TMPDIR name a directory that can be written",
    "internal": _ASK,
    "job_failed_alone": _ASK,
}
