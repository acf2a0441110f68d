#!/usr/bin/env bash
# Writes the messages of the Remote Execution API that hipcache uses (plugins/hipcache/remote/reapi_pb2.py) anew.
#
# The generator must not be newer than the oldest protobuf that pyproject.toml allows: what is generated runs with that
# version and later ones.
set -euo pipefail
cd "$(dirname "$0")/.."
gen=$(mktemp -d)
trap 'rm -rf "$gen"' EXIT
python3 -m venv "$gen" && "$gen/bin/pip" install -q --disable-pip-version-check "grpcio-tools==1.62.3" "setuptools<80"
"$gen/bin/python" -m grpc_tools.protoc -Iplugins --python_out=plugins --pyi_out=plugins hipcache/remote/reapi.proto
