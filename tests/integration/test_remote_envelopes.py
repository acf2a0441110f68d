"""Records as a remote has them: in envelopes, which count as they were packed, and otherwise not at all."""

from __future__ import annotations

import importlib.util
import json

import pytest
from hipcache.store.seal import Seal

KEY, OTHER = "a" * 64, "b" * 64

needs_protobuf = pytest.mark.skipif(not importlib.util.find_spec("grpc"), reason="the extra 'remote' is not installed")


@needs_protobuf
def test_an_envelope_that_is_cut_or_changed_anywhere_is_damaged() -> None:
    from hipcache.remote import envelope
    from hipcache.remote.backend import blob_of
    from hipcache.remote.envelope import Damaged, Envelope

    kept = Envelope(KEY, json.dumps({"outputs": [OTHER]}).encode(), {OTHER: blob_of(b"x")}, (OTHER,))
    raw = envelope.pack(kept, Seal())
    assert envelope.unpack(KEY, raw, Seal()) == kept
    for size in range(len(raw)):
        with pytest.raises(Damaged):
            envelope.unpack(KEY, raw[:size], Seal())
        flipped = raw[:size] + bytes([raw[size] ^ 1]) + raw[size + 1 :]
        try:
            assert envelope.unpack(KEY, flipped, Seal()) == kept, "a part that means nothing"
        except Damaged:
            continue


@needs_protobuf
def test_an_envelope_counts_under_its_key_and_with_its_secret_alone() -> None:
    from hipcache.remote import envelope
    from hipcache.remote.envelope import Damaged, Envelope

    raw = envelope.pack(Envelope(KEY, b"{}", {}), Seal(b"s" * 32))
    assert envelope.unpack(KEY, raw, Seal(b"s" * 32)).record == b"{}"
    for key, seal in ((OTHER, Seal(b"s" * 32)), (KEY, Seal()), (KEY, Seal(b"o" * 32))):
        with pytest.raises(Damaged):
            envelope.unpack(key, raw, seal)
