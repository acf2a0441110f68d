"""A gRPC server of tests in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc


@contextmanager
def listening(handler: grpc.GenericRpcHandler, seconds: float) -> Iterator[str]:
    """Its address. `seconds`: in which it ends."""
    server = grpc.server(ThreadPoolExecutor(16), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(0).wait(seconds)
