"""Google's and Azure's protocols: what one machine has compiled, and what is wrong with credentials or contents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud_servers import CLOUDS, Cloud
from remote_lab import HAS_CLIENTS, HIT, MISS, Team, remote_counts, running, uploaded

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

from hipcache.remote.address import parse
from hipcache.remote.backend import DENIED, RemoteError, blob_of, connect
from hipcache.remote.helper import remotes

CONTENT = b"what is looked at"


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    one = CLOUDS[request.param](tmp_path / "server")
    for name, value in one.environ.items():
        monkeypatch.setenv(name, value)
    with running(one):
        yield one


@pytest.fixture
def team(cloud: Cloud, tmp_path: Path) -> Iterator[Team]:
    found = Team(tmp_path, cloud.url, environ=cloud.environ)
    yield found
    found.end()


def test_what_one_machine_has_compiled_another_one_is_served(team: Team) -> None:
    first, second = team.machine(), team.machine()
    assert first.compile().outcome == MISS
    uploaded(first)
    assert second.compile().outcome == HIT
    assert (second.root / "out.o").read_bytes() == (first.root / "out.o").read_bytes()
    assert remote_counts(second)["received"] > 0
    assert remote_counts(second)["errors"] == 0


def test_the_doctor_has_a_content_back_from_it(cloud: Cloud) -> None:
    told = list(remotes.examine(cloud.url))
    assert told
    assert all(good for good, _, _ in told), told


def test_wrong_credentials_are_told_as_such(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    if cloud.url.startswith("az:"):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=")
    else:
        account = Path(cloud.environ["GOOGLE_SERVICE_ACCOUNT"])
        account.write_text('{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}')
    backend = connect(parse(cloud.url))
    with pytest.raises(RemoteError) as caught:
        backend.contents([blob_of(CONTENT)], lambda size: None)
    assert caught.value.kind == DENIED
    backend.close()


@pytest.mark.files
def test_contents_that_are_others_are_compiled_and_counted(team: Team, cloud: Cloud) -> None:
    first, second = team.machine(), team.machine()
    first.compile()
    uploaded(first)
    backend = connect(parse(cloud.url))
    contents = [path.read_bytes() for path in (first.store / "v2/blobs").iterdir()]
    assert contents
    backend.put_contents([(blob_of(content), content[:-1] + b"?") for content in contents if content])
    backend.close()
    assert second.compile().outcome == MISS
    assert (second.root / "out.o").read_bytes() == (first.root / "out.o").read_bytes()
    assert remote_counts(second)["errors"] > 0
    assert remote_counts(second)["hits"] == 0
