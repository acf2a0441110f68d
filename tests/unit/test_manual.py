"""The manual pages and the completions say what `hipcache --help` and the table of settings say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.config.files import NAMES_A_FILE
from hipcache.config.settings import SETTINGS, VARIABLES

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

import man_pages  # noqa: E402
import manual  # noqa: E402

FILES = manual.files()
KEYS = [setting.key for setting in SETTINGS if setting.key not in NAMES_A_FILE]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_lies_there_is_what_is_generated_now(path: Path) -> None:
    assert path.read_text() == FILES[path], "run .venv/bin/python scripts/manual.py"


def test_each_subcommand_option_and_variable_is_in_the_manual() -> None:
    page = FILES[CHECKOUT / "docs/man/hipcache.1"].replace("\\-", "-")
    for word in (*cli.VERBS, *VARIABLES, *(option for option, text in cli.OPTIONS.items() if text)):
        assert f".B {word}" in page, word


def test_a_line_of_text_is_no_request_of_roff() -> None:
    assert man_pages.roff(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert man_pages.roff("C:\\x -o") == "C:\\ex \\-o"


@pytest.mark.parametrize(
    ("shell", "name"), [("bash", "hipcache.bash"), ("zsh", "_hipcache"), ("fish", "hipcache.fish")]
)
def test_each_shell_reads_its_completion(shell: str, name: str) -> None:
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [program, "-n", CHECKOUT / "completions" / name], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def completed(*words: str, cwd: Path | None = None) -> list[str]:
    """What bash offers for the last of the words."""
    line = f"source {CHECKOUT}/completions/hipcache.bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    done = subprocess.run(
        ["bash", "-c", f'{line}; _hipcache; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=cwd,
    )
    return done.stdout.splitlines()


def test_bash_completes_subcommands_and_their_options() -> None:
    assert completed("hipcache", "expl") == ["explain"]
    assert completed("hipcache", "--cm") == ["--cmakedir"]
    assert completed("hipcache", "stats", "--j") == ["--json"]
    assert completed("hipcache", "help", "expl") == ["explain"]


def test_bash_completes_the_words_of_config() -> None:
    assert completed("hipcache", "config", "s") == ["set"]
    assert completed("hipcache", "config", "--store", "u") == ["unset"]
    assert completed("hipcache", "config", "--js") == ["--json"]
    assert completed("hipcache", "config", "set", "max_") == ["max_size"]
    assert completed("hipcache", "config", "get", "''") == KEYS
    assert completed("hipcache", "config", "set", "--store", "max_") == ["max_size"]
    assert completed("hipcache", "config", "set", "--st") == ["--store"]


def test_bash_completes_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "my file.o").touch()
    (tmp_path / "report").mkdir()
    assert completed("hipcache", "explain", "my", cwd=tmp_path) == ["my file.o"]
    assert completed("hipcache", "clang++", "-c", "my", cwd=tmp_path) == ["my file.o"]
    assert completed("hipcache", "./re", cwd=tmp_path) == ["./report"]


def test_bash_offers_no_directory_where_a_subcommand_stands(tmp_path: Path) -> None:
    """`hipcache rep` would become `hipcache report/`: readline asks whether what is offered is a directory."""
    text = FILES[CHECKOUT / "completions/hipcache.bash"]
    assert "complete -F _hipcache hipcache\n" in text
    told = "compopt() { echo $*; }; COMP_WORDS=(hipcache %s); COMP_CWORD=%d; _hipcache"
    for words, said in (("rep", ""), ("explain rep", "-o filenames\n")):
        line = f"source {CHECKOUT}/completions/hipcache.bash; {told % (words, len(words.split()))}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
        )
        assert done.stdout == said


def test_bash_completes_short_options_and_help() -> None:
    assert completed("hipcache", "verify", "-p") == ["-p"]
    assert completed("hipcache", "hel") == ["help"]


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_the_words_of_config_and_help() -> None:
    def offered(line: str) -> list[str]:
        script = f"source {CHECKOUT}/completions/hipcache.fish; complete -C '{line}'"
        words = ["fish", "--no-config", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    assert offered("hipcache config s") == ["set"]
    assert offered("hipcache config set max_") == ["max_size"]
    assert sorted(offered("hipcache config get ")) == sorted(KEYS)
    assert offered("hipcache help expl") == ["explain"]
    assert offered("hipcache hel") == ["help"]
    assert "-p" in offered("hipcache verify -")


def test_zsh_knows_the_words_of_config_and_help() -> None:
    text = FILES[CHECKOUT / "completions/_hipcache"]
    assert f"'2:command:(get set unset)' '3:key:({' '.join(KEYS)})'" in text
    assert f"help) compadd -- {' '.join(cli.VERBS)} ;;" in text
    assert "'help:" in text
    assert "'-p[" in text
