"""grpcs://: a remote behind TLS, with certificates of an authority of one's own, for the server and for the client."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from remote_lab import HAS_CLIENTS, SECONDS, Server, Team, casd, free_port, nginx, running, uploaded

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

from hip import HIT, MISS
from hipcache.base.errors import ConfigError
from hipcache.remote.address import parse
from hipcache.remote.backend import RemoteError, blob_of, connect
from hipcache.remote.helper import remotes

CONTENT = array("I", range(3 << 20)).tobytes()
_RULES = """\
listen 127.0.0.1:{port} ssl http2;
ssl_certificate {certs}/server.pem; ssl_certificate_key {certs}/server.key;
ssl_client_certificate {certs}/ca.pem; ssl_verify_client on;
if ($http_authorization != "Bearer of-the-team") {{ return 401; }}
location / {{ grpc_pass grpc://127.0.0.1:{behind}; }}
"""


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca, and signed by it: server, client; other: an authority that has signed nothing."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("certs")

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True, timeout=SECONDS)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    for name in ("ca", "other"):
        run("req", "-x509", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    (place / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        run("req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        run("x509", "-req", "-in", f"{name}.csr", *signer, "-extfile", "names", "-out", f"{name}.pem")
    run("x509", "-req", "-in", "server.csr", *signer, "-extfile", "names", "-days", "-1", "-out", "expired.pem")
    (place / "token").write_text("of-the-team\n")
    (place / "wrong-token").write_text("of-another\n")
    return place


@pytest.fixture(scope="module")
def address(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place, port = tmp_path_factory.mktemp("tls"), free_port()
    with running(casd(place / "casd")) as behind:
        rules = _RULES.format(port=port, certs=certs, behind=behind.port)
        with running(nginx(place / "nginx", rules)):
            yield f"grpcs://127.0.0.1:{port}?timeout=30"


def options(certs: Path, authority: str = "ca", client: str = "client", token: str = "token") -> str:
    files = f"&ca-file={certs}/{authority}.pem&token-file={certs}/{token}"
    return files + (f"&cert-file={certs}/{client}.pem&key-file={certs}/{client}.key" if client else "")


def test_contents_travel_by_tls_with_certificates_of_both_sides(address: str, certs: Path) -> None:
    backend = connect(parse(address + options(certs)))
    small = b"a content"
    backend.put_contents([(blob_of(small), small), (blob_of(CONTENT), CONTENT)])
    come = backend.contents([blob_of(small), blob_of(CONTENT)], lambda size: None)
    backend.close()
    assert come == {blob_of(small): small, blob_of(CONTENT): CONTENT}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"authority": "other"}, "its certificate is not trusted"),
        ({"client": ""}, ""),
        ({"client": "other"}, ""),
        ({"token": "wrong-token"}, "it denies access"),
    ],
    ids=str,
)
def test_without_the_right_certificates_and_token_it_is_an_error(
    address: str, certs: Path, wrong: dict[str, str], told: str
) -> None:
    backend = connect(parse(address.replace("timeout=30", "timeout=5") + options(certs, **wrong)))
    with pytest.raises(RemoteError) as raised:
        backend.describe()
    backend.close()
    assert told in str(raised.value)


def test_a_certificate_needs_its_key(address: str, certs: Path) -> None:
    """grpc ends the whole process for a lone one, also if the other file is there and empty."""
    (certs / "empty").touch()
    for lone in ("cert-file", "key-file"):
        with pytest.raises(ConfigError, match="only one of cert-file and key-file"):
            parse(f"{address}&{lone}={certs}/client.pem")
    both = f"{address}&ca-file={certs}/ca.pem&cert-file={certs}/client.pem&key-file={certs}"
    with pytest.raises(RemoteError, match=r"empty' \(key-file\) is empty"):
        connect(parse(f"{both}/empty"))
    wrong = list(remotes.examine(f"{both}/ca.key"))
    assert [(good, text.partition(": ")[2]) for good, text, _ in wrong] == [
        (False, "the certificates that its address names cannot be used")
    ]


def test_another_host_name_is_told(address: str, certs: Path) -> None:
    ((good, text, hint),) = remotes.examine(address.replace("127.0.0.1", "localhost") + options(certs))
    assert not good
    assert text.endswith("': its certificate is for another host name")
    assert hint == "write the host in the address as the certificate has it"


ASKING = ("-cert", "server.pem", "-CAfile", "ca.pem", "-Verify", "1", "-verify_return_error")


@pytest.mark.parametrize(
    ("scheme", "server", "told", "hinted"),
    [
        ("https", ("-cert", "expired.pem"), "its certificate has expired", "clock"),
        ("grpcs", ("-cert", "expired.pem", "-alpn", "h2"), "its certificate has expired", "clock"),
        ("https", ASKING, "it asks for a client's certificate", "grpcs://"),
        ("https", (*ASKING, "-tls1_2"), "it refuses the TLS connection", "grpcs://"),
        ("grpcs", (*ASKING, "-alpn", "h2"), "it refuses the TLS connection", "cert-file"),
        ("grpcs", (*ASKING, "-alpn", "h2", "-tls1_2"), "it refuses the TLS connection", "cert-file"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told(
    certs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    server: tuple[str, ...],
    told: str,
    hinted: str,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certs / "ca.pem"))
    port = free_port()
    paths = [f"{certs}/{word}" if word.endswith(".pem") else word for word in server]
    argv = ["openssl", "s_server", "-quiet", "-port", str(port), "-key", f"{certs}/server.key", *paths]
    with running(Server(tmp_path, port, argv, "")):
        file = f"&ca-file={certs}/ca.pem" if scheme == "grpcs" else ""
        ((good, text, hint),) = remotes.examine(f"{scheme}://127.0.0.1:{port}?timeout=10{file}")
    assert not good
    assert text.endswith(f": {told}")
    assert hinted in hint


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_a_web_server_that_asks_for_a_certificate_is_told(
    address: str, certs: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """nginx answers, with status 400."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certs / "ca.pem"))
    file = f"&ca-file={certs}/ca.pem" if scheme == "grpcs" else ""
    ((good, text, _),) = remotes.examine(address.replace("grpcs", scheme) + file)
    assert not good
    assert text.endswith("asks for a client's certificate")


def test_a_compile_of_one_machine_is_a_hit_on_another(address: str, certs: Path, tmp_path: Path) -> None:
    team = Team(tmp_path, address + options(certs))
    first = team.machine()
    assert first.compile("--offload-arch=gfx906").outcome == MISS
    uploaded(first)
    assert team.machine().compile("--offload-arch=gfx906").outcome == HIT
    team.end()
