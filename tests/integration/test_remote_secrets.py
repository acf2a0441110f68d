"""What must be seen by nobody is in no log, whether the remote serves, denies access or is no address."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, Lab, explained, kernel
from remote_lab import Team, nginx, running, uploaded

SECRET = "not-to-be-seen"
pytestmark = pytest.mark.archs(1)


def logging(lab: Lab, form: str) -> tuple[Path, Path]:
    logs = lab.root / "log", lab.root / "stats-log"
    lab.environ |= {"HIPCACHE_LOG": str(logs[0]), "HIPCACHE_LOG_FORMAT": form, "HIPCACHE_STATS_LOG": str(logs[1])}
    return logs


def unseen(lab: Lab, logs: tuple[Path, Path], said: bytes, compiles: int) -> None:
    """The secret is nowhere in what was said and written of so many compiles."""
    assert SECRET.encode() not in said
    for log in logs:
        text = log.read_text()
        assert text.count("out.o") >= compiles, "it is no log of them: the test shows nothing"
        assert SECRET not in text
    assert SECRET not in explained(lab.environ)
    for words in (["stats"], ["stats", "--json"], ["stats", "--stats-log", str(logs[1])], ["config"], ["doctor"]):
        told = lab.hipcache(*words)
        assert SECRET.encode() not in told.out + told.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_token_is_in_no_log(tmp_path: Path, form: str) -> None:
    rules = f'if ($http_authorization != "Bearer {SECRET}") {{ return 403; }}'
    token, wrong = tmp_path / "token", tmp_path / "wrong"
    token.write_text(f"{SECRET}\n")
    wrong.write_text(f"{SECRET}-either\n")
    with running(nginx(tmp_path / "server", rules)) as server:
        team = Team(tmp_path, f"{server.url}?timeout=30&token-file={token}")
        first, second = team.machine(), team.machine()
        first.compile()
        uploaded(first)
        logs = logging(second, form)
        assert second.compile().outcome == HIT, "the server has seen the token"
        denied = team.machine(f"{server.url}?timeout=30&token-file={wrong}")
        logs_of_denied = logging(denied, form)
        ended = denied.run([*LAUNCHER, *denied.words()])
        assert b"it denies access" in ended.err
        unseen(second, logs, b"", 1)
        unseen(denied, logs_of_denied, ended.err, 1)
        team.end()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", ["HIPCACHE_REMOTE", "HIPCACHE_EXECUTOR"])
def test_a_password_in_an_address_is_refused_and_is_in_no_log(tmp_path: Path, name: str, form: str) -> None:
    team = Team(tmp_path, "")
    lab = team.machine()
    logs = logging(lab, form)
    said = b""
    for number, place in enumerate(
        (f"user:{SECRET}@127.0.0.1:9", f"{SECRET}@127.0.0.1:9", f"127.0.0.1:9?token={SECRET}")
    ):
        lab.environ[name] = f"grpc://{place}"
        lab.write("k.hip", kernel(str(number)))
        ended = lab.run([*LAUNCHER, *lab.words()])
        assert ended.status == 0
        said += ended.err
        unseen(lab, logs, said, number + 1)
    assert b"contains a user or a password" in said
    assert b"unknown option 'token'" in said
    team.end()
