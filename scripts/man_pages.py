"""The manual pages: roff, as man-pages(7) has it."""

from __future__ import annotations

import argparse

from hipcache import __version__, cli
from hipcache.base import shared
from hipcache.config.files import NAMES_A_FILE, PROJECT, STORE
from hipcache.config.settings import VARIABLES, Setting
from manual_settings import KINDS
from subcommands import summaries


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
        "The compiler's exit status; 126 if the compiler cannot be run, 127 if there is no such compiler. A subcommand"
        " returns 0, 1 for a fault, 2 for wrong usage, or 130 if it is interrupted. A first word that is neither a"
        " subcommand nor a program gives 2 if it is nearly a subcommand, and 127 otherwise.",
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
        "It looks for the engine in its own directory, then in ../libexec/hipcache and ../lib/hipcache.",
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
