"""The completions of shells: the first word is a subcommand, an option or a compiler."""

from __future__ import annotations

from hipcache import cli
from hipcache.config.files import NAMES_A_FILE
from hipcache.config.settings import SETTINGS
from subcommands import summaries

_KEYS = " ".join(setting.key for setting in SETTINGS if setting.key not in NAMES_A_FILE)
_VERBS = " ".join(cli.VERBS)
_HELP = "show the subcommands, or the options of one"


def _options() -> dict[str, list[str]]:
    found = {}
    for verb, _, actions in summaries():
        found[verb] = [*(word for action in actions for word in action.option_strings), "--help"]
    return found


def bash() -> str:
    options = _options()
    cases = "".join(f'        {verb}) words="{" ".join(words)}" ;;\n' for verb, words in options.items())
    first = " ".join([*cli.VERBS, "help", *(option for option in cli.OPTIONS if option.startswith("--"))])
    return f"""\
# bash completion for hipcache; made by scripts/manual.py.
_hipcache() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words= word last=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        if [[ $current = */* ]]; then
            _hipcache_files "$current"
            return
        fi
        mapfile -t COMPREPLY < <(
            compgen -W "{first}" -- "$current"
            compgen -c -- "$current" | grep -E '^(hipcc|(amd)?clang|iree-compile)'
        )
        return
    fi
    case ${{COMP_WORDS[1]}} in
        help) words="{_VERBS}" ;;
        config)
            for word in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do
                [[ $word = -* ]] || last=$word
            done
            case "$last $current" in
                "get -"* | "set -"* | "unset -"*) ;;
                "get "* | "set "* | "unset "*) words="{_KEYS}" ;;
                " "*) words="get set unset {" ".join(options["config"])}" ;;
            esac ;;
    esac
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}    esac
    _hipcache_files "$current"
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -W "$words" -- "$current")
}}
# Only a name of a file gets a slash or quotes: in a directory `report`, `hipcache rep` is not `hipcache report/`.
_hipcache_files() {{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}}
complete -F _hipcache hipcache
"""


def zsh() -> str:
    named = [*((verb, summary) for verb, summary, _ in summaries()), ("help", _HELP)]
    verbs = "".join(f"        {_quoted(f'{verb}:{summary}')}\n" for verb, summary in named)
    options = "".join(f"        {_quoted(f'{option}:{text}')}\n" for option, text in cli.OPTIONS.items() if text)
    cases = ""
    for verb, _, actions in summaries():
        words = "".join(
            " " + _quoted(f"{word}[{_bare(action.help or '')}]{'' if action.nargs == 0 else ':value:_files'}")
            for action in actions
            for word in action.option_strings
        )
        # The first argument is the subcommand itself.
        rest = f"'2:command:(get set unset)' '3:key:({_KEYS})'" if verb == "config" else "'*:file:_files'"
        cases += f"    {verb}) _arguments{words} {rest} ;;\n"
    cases += f"    help) compadd -- {_VERBS} ;;\n"
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
                name = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                required = "" if action.nargs == 0 else " -r"
                lines.append(
                    f"complete -c hipcache -n '__fish_seen_subcommand_from {verb}' {name}{required}"
                    f" -d {_quoted(action.help or '')}"
                )
    commands = "__fish_seen_subcommand_from get set unset"
    lines += [
        f"complete -c hipcache -n __fish_use_subcommand -a help -d {_quoted(_HELP)}",
        f"complete -c hipcache -n '__fish_seen_subcommand_from help' -f -a '{_VERBS}'",
        f"complete -c hipcache -n '__fish_seen_subcommand_from config; and not {commands}' -f -a 'get set unset'",
        f"complete -c hipcache -n '__fish_seen_subcommand_from config; and {commands}' -f -a '{_KEYS}'",
    ]
    for option, text in cli.OPTIONS.items():
        if text:
            lines.append(f"complete -c hipcache -n __fish_use_subcommand -l {option[2:]} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _bare(text: str) -> str:
    """For zsh's _arguments, to which brackets and colons mean something."""
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
