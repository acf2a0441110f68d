"""A server that stands before a real executor and forwards all that it is asked, but for what it tampers with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from grpc_server import listening
from hipcache.remote import reapi_pb2 as pb

_STREAMS_IN, _STREAMS_OUT = ("Write",), ("Read", "Execute")
_LONGEST = 60.0

Answer = Callable[[Any, Any], Iterator[bytes]]


class Liar(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`tampers`: by the last part of a method's name: the answer as it came -> that which is given. `instead`: answers
    of a method that is not forwarded. `refused`: methods whose questions are called invalid. `lacks`: those that it
    does not have. `asked`: the methods, in turn."""

    def __init__(
        self,
        port: int,
        tampers: dict[str, Callable[[bytes], bytes]],
        instead: dict[str, Answer] | None = None,
        refused: Sequence[str] = (),
        lacks: Sequence[str] = (),
    ) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._tampers = tampers
        self._instead = instead or {}
        self._refused = refused
        self._lacks = lacks
        self.asked: list[str] = []
        self.ended = threading.Event()

    def service(self, details: Any) -> Any:
        method = details.method
        name = method.rpartition("/")[2]
        self.asked.append(name)
        tamper = self._tampers.get(name, bytes)
        if name in self._lacks:
            return None
        if name in self._refused:
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such digest")
            )
        if name in self._instead:
            return grpc.unary_stream_rpc_method_handler(self._instead[name])
        if name in _STREAMS_OUT:
            call = self._channel.unary_stream(method)
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: map(tamper, call(request, timeout=_LONGEST))
            )
        if name in _STREAMS_IN:
            write = self._channel.stream_unary(method)
            return grpc.stream_unary_rpc_method_handler(
                lambda requests, context: tamper(write(requests, timeout=_LONGEST))
            )
        one = self._channel.unary_unary(method)

        def forwarded(request: bytes, context: Any) -> bytes:
            try:
                return tamper(one(request, timeout=_LONGEST))
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
                raise  # abort does

        return grpc.unary_unary_rpc_method_handler(forwarded)

    def close(self) -> None:
        self.ended.set()
        self._channel.close()


@contextmanager
def lying(liar: Liar) -> Iterator[str]:
    """Its address."""
    with listening(liar, _LONGEST) as url:
        try:
            yield url
        finally:
            liar.close()


def result(change: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    """Tampers with the ExecuteResponse."""

    def tamper(answer: bytes) -> bytes:
        operation = pb.Operation.FromString(answer)
        if operation.done:
            response = pb.ExecuteResponse.FromString(operation.response.value)
            change(response)
            operation.response.value = response.SerializeToString()
        return bytes(operation.SerializeToString())

    return tamper


def contents(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Tampers with what is read in a batch."""

    def tamper(answer: bytes) -> bytes:
        found = pb.BatchReadBlobsResponse.FromString(answer)
        for one in found.responses:
            one.data = change(one.data)
        return bytes(found.SerializeToString())

    return tamper


def staying(liar: list[Liar], stage: int) -> Answer:
    """An action that never comes to an end, and says once at which stage it is."""

    def answer(request: Any, context: Any) -> Iterator[bytes]:
        metadata = pb.ExecuteOperationMetadata(stage=stage).SerializeToString()
        yield pb.Operation(name="one", metadata=pb.Any(value=metadata)).SerializeToString()
        while context.is_active() and not liar[0].ended.wait(0.05):
            pass

    return answer
