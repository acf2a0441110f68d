"""Records come back as they were packed, and whatever else stands there is none."""

from __future__ import annotations

import pytest
from hipcache.build.action import Action, ActionId, ActionResult, Bound, Digest, Step
from hipcache.cache import content, records
from hipcache.cache.content import ContentCache, Shelf
from hipcache.cache.entries import MOST, Entry, pack, unpack
from hipcache.inputs.readset import MessageLine
from memory_storage import MemoryActions, MemoryContents
from memory_world import made_of

PLACES = (MessageLine("k.hip", 1, 0, "q" * 16), MessageLine("x\udcff.h", 7, -1, ""))
ENTRY = Entry(
    *("r" * 64, ("o" * 64, ""), ("p" * 64,), "k.hip:1: warning: \udcff\n", "-fcolor-diagnostics", 1.25, "/src"),
    places=PLACES,
    source=("s" * 64, ""),
)
ACTION = Action(
    ActionId("one"), "test", "one", Step(lambda _: made_of({})), outputs=("code", "bitcode"), passing=("bitcode",)
)
# As this program has written them before.
OLD = [
    b'[{"reads":"","output":"","text":"","look":"","whole":true,"talks":false,"seconds":1.0}]',
    b'{"code":"","talks":false,"seconds":1.0,"only_warns":false}',
    b'{"object":""}',
]
NO_RECORDS = [
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"1",
    b'"text"',
    b"[1]",
    b'[{"reads": 1}]',
    b'{"code": 1}',
    b'[{"reads":"","outputs":[],"passing":[],"text":"","look":"","seconds":1.0,"places":[["k.hip","x",0,""]]}]',
    b"[[]]",
    b"\0",
]


def found(record: bytes) -> ActionResult | None:
    """What a cache finds that has the record, and all contents that it names."""
    contents = MemoryContents()
    digest = contents.write(b"code")
    bound = Bound(ACTION, ACTION.key({}))
    actions = MemoryActions({bound.key.digest: record.replace(b"CODE", digest.hash.encode())})
    result = ContentCache(Shelf(actions, contents, print)).look_up([bound]).get(ActionId("one"))
    return result if isinstance(result, ActionResult) else None


RECORD = content.pack(ACTION, ActionResult({"code": Digest("CODE", 4)}, "said\n", 2.5, {"bitcode": "b" * 64}))


def test_entries_come_back_in_order() -> None:
    other = Entry("", (), (), "", "", 0.0)
    assert unpack(pack([ENTRY, other])) == [ENTRY, other]


def test_the_format_of_messages_has_its_first_name_in_a_record() -> None:
    """Stores and remotes are full of records that have it."""
    assert b'"look":"-fcolor-diagnostics"' in pack([ENTRY])
    assert unpack(pack([ENTRY]).replace(b'"look"', b'"message_format"')) == []


def test_the_newest_entries_are_kept() -> None:
    entries = [Entry(str(number), (), (), "", "", 0.0) for number in range(MOST + 3)]
    assert unpack(pack(entries)) == entries[:MOST]


def test_a_result_comes_back() -> None:
    result = found(RECORD)
    assert result
    assert (result.text, result.seconds, result.passing) == ("said\n", 2.5, {"bitcode": "b" * 64})
    assert result.outputs["code"].size == 4


def test_nothing_is_no_record() -> None:
    assert unpack(None) == []


@pytest.mark.parametrize("raw", [*NO_RECORDS, *OLD])
def test_what_does_not_read_is_no_record(raw: bytes) -> None:
    assert unpack(raw) == []
    assert found(raw) is None


@pytest.mark.parametrize("seconds", ["Infinity", "-Infinity", "NaN", "-1", "1e300", "9" * 400, '"1"', "null"])
def test_a_record_whose_duration_is_none_is_none(seconds: str) -> None:
    record = b'{"outputs":["CODE"],"passing":["%b"],"text":"","seconds":%b}'
    digest = "p" * 64
    assert found(record % (digest.encode(), b"1.5")) is not None
    assert found(record % (digest.encode(), seconds.encode())) is None
    assert records.outputs(record.replace(b"CODE", b"a" * 64) % (b"b" * 64, b"1.5")) == ["a" * 64]
    assert records.outputs(record.replace(b"CODE", b"a" * 64) % (b"b" * 64, seconds.encode())) is None
    packed = pack([ENTRY])
    assert b'"seconds":1.25' in packed
    assert unpack(packed.replace(b'"seconds":1.25', b'"seconds":' + seconds.encode())) == []


def test_a_record_cut_at_any_length_is_none() -> None:
    entries = pack([ENTRY, ENTRY])
    for length in range(len(entries)):
        assert unpack(entries[:length]) == []
    for length in range(len(RECORD)):
        assert found(RECORD[:length]) is None


def test_a_record_with_more_outputs_is_none() -> None:
    assert found(RECORD.replace(b'["CODE"]', b'["CODE","CODE"]')) is None
