"""Writes the manual pages (docs/man), three pages of the manual (settings, reasons, glossary) and the completions of
shells (completions/) from what `hipcache --help`, the tables of settings and reasons and ARCHITECTURE.md say. A test
holds the files to it.

    .venv/bin/python scripts/manual.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hipcache import __version__, cli, shared
from hipcache.report.advice import ADVICE
from hipcache.report.outcome import REASONS
from hipcache.settings import VARIABLES, Setting
from hipcache.settings_files import NAMES_A_FILE, PROJECT, STORE

ROOT = Path(__file__).parent.parent
# What a value may be, by kind of setting.
KINDS = {
    "directory": "an absolute path",
    "addresses": "server addresses, separated by spaces; in a config file also a list",
    "directories": "absolute paths, separated by colons",
    "file": "an absolute path",
    "flag": "1, yes, true or on; 0, no, false or off",
    "size": "bytes, or a number with K, M, G, T, KiB, MiB, GiB or TiB",
    "count": "0, 1, 2 ...",
    "share": "a fraction such as 1/100, or 0",
    "format": "text or json",
    "name": "up to 64 letters, digits, '.', '_', '+' and '-'",
    "mask": "a umask such as 002, 007 or 077",
}


# For each setting a value that somebody would write.
EXAMPLES = {
    "dir": "/var/cache/hipcache",
    "config_file": "/home/me/ci.yaml",
    "system_config": "/opt/site/hipcache.yaml",
    "disable": "1",
    "readonly": "1",
    "recache": "1",
    "max_size": "20GiB",
    "basedir": "/home/me/project",
    "namespace": "nightly",
    "key": "/home/me/.config/hipcache/key",
    "umask": "002",
    "log": "/tmp/hipcache.log",
    "log_format": "json",
    "stats_log": "/tmp/build.jsonl",
    "jobs": "8",
    "remote": "grpc://cache.example.com:9092",
    "executor": "grpc://build.example.com:8980/main?jobs=32",
    "prefetch": "0",
    "verify": "1/100",
    "preambles": "1",
    "preamble_checks": "64",
    "iree_checks": "0",
    "resident": "0",
    "system_paths": "/usr:/opt",
}


def main() -> int:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


def files() -> Mapping[Path, str]:
    """Each generated file, and its text."""
    return {
        ROOT / "docs/man/hipcache.1": hipcache_page(),
        ROOT / "docs/man/hipcache-engine.1": engine_page(),
        ROOT / "docs/man/hipcache.yaml.5": settings_page(),
        ROOT / "docs/settings.md": settings_manual(),
        ROOT / "docs/reasons.md": reasons_manual(),
        ROOT / "docs/glossary.md": glossary(),
        ROOT / "completions/hipcache.bash": bash(),
        ROOT / "completions/_hipcache": zsh(),
        ROOT / "completions/hipcache.fish": fish(),
    }


def summaries() -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """(name, sentence, its arguments) of each subcommand."""
    for verb in cli.VERBS:
        module = cli.module(verb)
        parser = argparse.ArgumentParser(f"hipcache {verb}", add_help=False)
        module.add_arguments(parser)
        yield verb, module.SUMMARY, [action for action in parser._actions if action.help != argparse.SUPPRESS]


# Manual pages: roff, as man-pages(7) has it.


def roff(text: str) -> str:
    """Text as it stands: backslashes, hyphens that are none, and dots at the beginning of a line are escaped."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def page(name: str, section: int, summary: str, body: list[str]) -> str:
    lines = [
        f'.TH {name.upper()} {section} "" "hipcache {__version__}" "hipcache manual"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(summary)}",
        *body,
    ]
    return "\n".join(lines) + "\n"


def entry(term: str, *paragraphs: str) -> list[str]:
    return [".TP", f".B {roff(term)}", *map(roff, paragraphs)]


def argument(action: argparse.Action) -> list[str]:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest).upper()
    term = ", ".join(action.option_strings) or value
    shown = f"{term} {value}".strip() if action.option_strings else term
    return entry(shown, (action.help or "").replace("%%", "%"))


def hipcache_page() -> str:
    body = [
        ".SH SYNOPSIS",
        ".B hipcache",
        r"\fICOMPILER\fR [\fIARGUMENT\fR ...]",
        ".br",
        ".B hipcache",
        r"\fISUBCOMMAND\fR [\fIOPTION\fR ...]",
        ".SH DESCRIPTION",
        "In the first form",
        ".B hipcache",
        "acts as that compiler (clang++, amdclang++, hipcc): same outputs, same messages, same exit status.",
        "It reuses the results of earlier compiles from its store, each GPU architecture on its own,",
        "and compiles only the rest.",
        "Commands that it cannot cache go to the compiler unchanged.",
        ".PP",
        "Use it as a compiler launcher:",
        ".PP",
        ".RS",
        ".nf",
        r"cmake \-DCMAKE_HIP_COMPILER_LAUNCHER=hipcache \-DCMAKE_CXX_COMPILER_LAUNCHER=hipcache ...",
        ".fi",
        ".RE",
        ".SH SUBCOMMANDS",
    ]
    for verb, summary, actions in summaries():
        body += entry(verb, f"{summary[0].upper()}{summary[1:]}.")
        if actions:
            body.append(".RS")
            for action in actions:
                body += argument(action)
            body.append(".RE")
    body.append(".SH OPTIONS")
    for option, summary in cli.OPTIONS.items():
        if summary:
            body += entry(option, f"{summary[0].upper()}{summary[1:]}.")
    body.append(".SH ENVIRONMENT")
    body += [r"Each variable is also a key of the configuration file, see \fBhipcache.yaml\fR(5)."]
    for variable, setting in VARIABLES.items():
        body += entry(variable, setting.sentence)
    body += [
        ".SH FILES",
        *entry("~/.config/hipcache/hipcache.yaml", "The user's configuration file."),
        *entry("/etc/hipcache.yaml", "The system-wide configuration file; the store and a project may have one, too."),
        *entry("~/.cache/hipcache", "The store. You can delete it whenever no compile is running."),
        ".SH EXIT STATUS",
        "The compiler's exit status. A subcommand returns 0, 1 for a fault, or 2 for wrong usage.",
        ".SH SEE ALSO",
        r".BR hipcache\-engine (1),",
        ".BR hipcache.yaml (5)",
    ]
    return page("hipcache", 1, "compile cache for AMD HIP that caches every GPU architecture on its own", body)


def engine_page() -> str:
    body = [
        ".SH SYNOPSIS",
        ".B hipcache\\-engine",
        r"\fICOMPILER\fR [\fIARGUMENT\fR ...]",
        ".br",
        ".B hipcache\\-engine",
        r"\fISUBCOMMAND\fR [\fIOPTION\fR ...]",
        ".SH DESCRIPTION",
        ".B hipcache\\-engine",
        "is the part of",
        ".BR hipcache (1)",
        "that is written in Python. The program",
        ".B hipcache",
        "serves direct hits itself, and starts the engine for all other commands.",
        "It looks for the engine in its own directory, then in ../libexec/hipcache.",
        "Arguments, environment and exit status are the same.",
        "Do not call it yourself.",
        ".SH SEE ALSO",
        ".BR hipcache (1)",
    ]
    return page("hipcache-engine", 1, "the part of hipcache that handles misses", body)


def settings_page() -> str:
    body = [
        ".SH SYNOPSIS",
        ".I ~/.config/hipcache/hipcache.yaml",
        ".SH DESCRIPTION",
        "A YAML mapping with the settings of",
        ".BR hipcache (1).",
        "If XDG_CONFIG_HOME is set, it replaces ~/.config; HIPCACHE_CONFIG can name another file.",
        "Environment variables override all files; an empty value counts as not set.",
        "A key may also have the name of its variable. 'hipcache config' shows each value and its origin.",
        ".SH FILES",
        "A later file overrides the files before it.",
        *entry(f"{shared.SYSTEM_CONFIG}, or HIPCACHE_SYSTEM_CONFIG", "System-wide: any key."),
        *entry("~/.config/hipcache/hipcache.yaml, or HIPCACHE_CONFIG", "The user's: any key."),
        *entry(f"{shared.STORE_SETTINGS} in the store's directory", f"The store's: {', '.join(STORE.allowed)}."),
        *entry(
            f"{shared.PROJECT_SETTINGS} in the working directory, or the nearest directory above it",
            f"A project's: {', '.join(PROJECT.allowed)}. A relative basedir is below the file's directory.",
        ),
        ".SH KEYS",
    ]
    for variable, setting in VARIABLES.items():
        if setting.key not in NAMES_A_FILE:
            body += entry(f"{setting.key} ({variable})", setting.sentence, f"Value: {_value(setting)}.")
    body += [
        ".SH EXAMPLE",
        ".nf",
        "max_size: 20GiB",
        "dir: /var/cache/hipcache",
        "umask: 002",
        ".fi",
        ".SH SEE ALSO",
        ".BR hipcache (1)",
    ]
    return page("hipcache.yaml", 5, "settings of hipcache", body)


def _value(setting: Setting) -> str:
    return f"{KINDS[setting.kind]}; default: {setting.default or 'not set'}"


# Pages of the manual: Markdown.

_SETTINGS = """\
# Settings

Each setting is an environment variable, and a key of the same name in config files. An empty value counts as not set.
`hipcache config` shows each value and its origin:

```sh
hipcache config
hipcache config set max_size 20GiB
hipcache config get max_size
hipcache config unset max_size
hipcache config --project set basedir .
```

## Config files

A later file overrides the files before it, and environment variables override all files:

| | file | `config set` | allowed keys |
|---|---|---|---|
| system-wide | `/etc/hipcache.yaml`, or what `HIPCACHE_SYSTEM_CONFIG` names | `--system` | all keys |
| the user's | `~/.config/hipcache/hipcache.yaml`, or what `HIPCACHE_CONFIG` names | | all keys |
| the store's | `hipcache.yaml` in `HIPCACHE_DIR` | `--store` | `max_size`, `readonly`, `umask` |
| a project's | `.hipcache.yaml` in the working directory, or above | `--project` | `basedir`, `disable`, `readonly` |

Somebody else may have written a checkout, and others may share a store. So these two files cannot say where hipcache
reads, writes or sends data (store, log, remote, executor), which programs run, whose records count, or how often hits
are checked. A key that is not allowed is an error that names it, and the build continues without the cache. A project's
`basedir` is the directory of its file, or one below it: with `basedir: .` all checkouts share. These two files count
only if they are not symbolic links, and belong to you, to root, or to the owner of their directory.

## All settings

| variable | key | meaning | default | example |
|---|---|---|---|---|
"""

_SETTINGS_END = """
## Namespaces

`HIPCACHE_NAMESPACE` is part of the key of every result, in the store and in a remote. So one namespace never serves
results of another, or results without a namespace; that holds for direct hits, too. Namespaces share contents (the
store keeps equal objects once), facts about tools, statistics and the size limit. `hipcache gc --namespace NAME`
removes the results of one namespace, and the contents that no other uses. A namespace is no protection; use
[`HIPCACHE_KEY`](../SECURITY.md) for that. A remote's instance or prefix is different: it is part of the remote's
address, and a separate area on that server.

## Values

"""

_REASONS = """\
# Reasons

hipcache passes a command that it does not understand to the compiler unchanged, and counts the reason. `hipcache stats`
shows the counts, and `hipcache explain OBJECT` shows the reason for one object. [Options](options.md) lists the
options.

| in `stats` | why hipcache did not cache it | what to do |
|---|---|---|
"""


def settings_manual() -> str:
    rows = [
        f"| `{variable}` | {'-' if setting.key in NAMES_A_FILE else f'`{setting.key}`'} | {_cell(setting.sentence)}"
        f" | {f'`{setting.default}`' if setting.default else 'not set'} | `{EXAMPLES[setting.key]}` |"
        for variable, setting in VARIABLES.items()
    ]
    used = {setting.kind: None for setting in VARIABLES.values()}
    kinds = [f"- {kind}: {_cell(KINDS[kind])}" for kind in used]
    return _SETTINGS + "\n".join(rows) + "\n" + _SETTINGS_END + "\n".join(kinds) + "\n"


def reasons_manual() -> str:
    return _REASONS + "".join(
        f"| `{name}` | {_cell(sentence)} | {_cell(ADVICE[name])} |\n" for name, sentence in REASONS.items()
    )


def glossary() -> str:
    """The words of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("\n## Words\n")[2].partition("\n## ")[0]
    return f"# Glossary\n\n{text.strip()}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


# Completions: the first word is a subcommand, an option or a compiler.


def _options() -> dict[str, list[str]]:
    found = {}
    for verb, _, actions in summaries():
        found[verb] = [word for action in actions for word in action.option_strings if word.startswith("--")] + [
            "--help"
        ]
    return found


def bash() -> str:
    cases = "".join(f'        {verb}) words="{" ".join(words)}" ;;\n' for verb, words in _options().items())
    first = " ".join([*cli.VERBS, *(option for option in cli.OPTIONS if option.startswith("--"))])
    return f"""\
# bash completion for hipcache; made by scripts/manual.py.
_hipcache() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{first}" -- "$current") $(compgen -c -- "$current" | grep -E '^(hipcc|(amd)?clang)'))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}        *) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -o filenames -F _hipcache hipcache
"""


def zsh() -> str:
    verbs = "".join(f"        {_quoted(f'{verb}:{summary}')}\n" for verb, summary, _ in summaries())
    options = "".join(f"        {_quoted(f'{option}:{text}')}\n" for option, text in cli.OPTIONS.items() if text)
    cases = ""
    for verb, _, actions in summaries():
        words = "".join(
            " " + _quoted(f"{word}[{_bare(action.help or '')}]{'' if action.nargs == 0 else ':value:_files'}")
            for action in actions
            for word in action.option_strings
            if word.startswith("--")
        )
        cases += f"    {verb}) _arguments{words} '*:file:_files' ;;\n"
    return f"""\
#compdef hipcache
# zsh completion for hipcache; made by scripts/manual.py.
local -a verbs options
if (( CURRENT == 2 )); then
    verbs=(
{verbs}    )
    options=(
{options}    )
    _describe subcommand verbs
    _describe option options
    _command_names -e
    return
fi
case $words[2] in
{cases}    *) _files ;;
esac
"""


def fish() -> str:
    lines = ["# fish completion for hipcache; made by scripts/manual.py."]
    for verb, summary, actions in summaries():
        lines.append(f"complete -c hipcache -n __fish_use_subcommand -a {verb} -d {_quoted(summary)}")
        for action in actions:
            for word in action.option_strings:
                if word.startswith("--"):
                    required = "" if action.nargs == 0 else " -r"
                    lines.append(
                        f"complete -c hipcache -n '__fish_seen_subcommand_from {verb}' -l {word[2:]}{required}"
                        f" -d {_quoted(action.help or '')}"
                    )
    for option, text in cli.OPTIONS.items():
        if text:
            lines.append(f"complete -c hipcache -n __fish_use_subcommand -l {option[2:]} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _bare(text: str) -> str:
    """For zsh's _arguments, to which brackets and colons mean something."""
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    sys.exit(main())
