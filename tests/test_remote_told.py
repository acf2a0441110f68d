"""What is told of a remote that is at fault: its cause, in a user's words, and nothing that acts on a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from remote_lab import HAS_CLIENTS

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

import grpc
from grpc_server import listening
from hipcache.helper import remotes


class Aborting(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Ends each call with that status, and those words."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details

    def service(self, details: Any) -> Any:
        def end(request: bytes, context: Any) -> None:
            context.abort(self.code, self.details)

        return grpc.unary_unary_rpc_method_handler(end)


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT])
def test_the_words_of_a_server_do_not_act_on_a_terminal(code: grpc.StatusCode) -> None:
    with listening(Aborting(code, "\x1b[2J\x1b]0;title\x07 instance\x9b2J\n\u202eover"), 20) as url:
        ((good, text, _),) = remotes.examine(f"{url}?timeout=10")
    assert not good
    assert text.isprintable()
    assert text.endswith(" [2J ]0;title  instance 2J  over")
