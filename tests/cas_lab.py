"""A server of contents in memory that speaks the Remote Execution API, with a bound for batches, and faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc_server import listening
from hipcache.remote import reapi_pb2 as pb

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_PIECE = 1 << 20


class Cas(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`most`: bytes of contents in one batch, and it says so; 0: any. `statuses`: of contents that it cannot read, by
    hash. `contents`: by hash; `asked`: the methods, in turn."""

    def __init__(self, most: int = 0, statuses: dict[str, grpc.StatusCode] | None = None) -> None:
        self.most = most
        self.statuses = statuses or {}
        self.contents: dict[str, bytes] = {}
        self.asked: list[str] = []

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        self.asked.append(name)
        if name == "Read":
            return grpc.unary_stream_rpc_method_handler(self._read)
        if name == "Write":
            return grpc.stream_unary_rpc_method_handler(self._write)
        answers = {
            "GetCapabilities": self._capabilities,
            "FindMissingBlobs": self._missing,
            "BatchReadBlobs": self._batch_read,
            "BatchUpdateBlobs": self._batch_update,
        }
        return grpc.unary_unary_rpc_method_handler(answers[name]) if name in answers else None

    def _capabilities(self, request: bytes, context: Any) -> bytes:
        found = pb.ServerCapabilities()
        found.cache_capabilities.digest_functions.append(1)
        found.cache_capabilities.max_batch_total_size_bytes = self.most
        return bytes(found.SerializeToString())

    def _missing(self, request: bytes, context: Any) -> bytes:
        digests = pb.FindMissingBlobsRequest.FromString(request).blob_digests
        missing = [one for one in digests if one.hash not in self.contents]
        return bytes(pb.FindMissingBlobsResponse(missing_blob_digests=missing).SerializeToString())

    def _batch_read(self, request: bytes, context: Any) -> bytes:
        digests = pb.BatchReadBlobsRequest.FromString(request).digests
        self._bound(sum(one.size_bytes for one in digests), context)
        answer = pb.BatchReadBlobsResponse()
        for digest in digests:
            one = answer.responses.add(digest=digest)
            one.status.code = self._status(digest.hash).value[0]
            if not one.status.code:
                one.data = self.contents[digest.hash]
        return bytes(answer.SerializeToString())

    def _batch_update(self, request: bytes, context: Any) -> bytes:
        requests = pb.BatchUpdateBlobsRequest.FromString(request).requests
        self._bound(sum(len(one.data) for one in requests), context)
        answer = pb.BatchUpdateBlobsResponse()
        for one in requests:
            self.contents[one.digest.hash] = one.data
            answer.responses.add(digest=one.digest)
        return bytes(answer.SerializeToString())

    def _read(self, request: bytes, context: Any) -> Iterator[bytes]:
        hash_ = pb.ReadRequest.FromString(request).resource_name.split("/")[-2]
        status = self._status(hash_)
        if status is not grpc.StatusCode.OK:
            context.abort(status, "it cannot be read")
        for start in range(0, len(self.contents[hash_]), _PIECE):
            piece = self.contents[hash_][start : start + _PIECE]
            yield bytes(pb.ReadResponse(data=piece).SerializeToString())

    def _write(self, requests: Iterator[bytes], context: Any) -> bytes:
        pieces = [pb.WriteRequest.FromString(one) for one in requests]
        content = b"".join(one.data for one in pieces)
        self.contents[pieces[0].resource_name.split("/")[-2]] = content
        return bytes(pb.WriteResponse(committed_size=len(content)).SerializeToString())

    def _status(self, hash_: str) -> grpc.StatusCode:
        there = grpc.StatusCode.OK if hash_ in self.contents else grpc.StatusCode.NOT_FOUND
        return self.statuses.get(hash_, there)

    def _bound(self, size: int, context: Any) -> None:
        if self.most and size > self.most:
            context.abort(_INVALID, f"{size} bytes in a batch, while a maximum of {self.most} bytes is permitted")


@contextmanager
def serving(cas: Cas) -> Iterator[str]:
    """Its address."""
    with listening(cas, 20) as url:
        yield f"{url}?timeout=30"
