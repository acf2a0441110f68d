"""What every cache of results must do over every storage: what was published is found while it holds, and not after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.base.keys import digest_file, make_key
from hipcache.base.values import dataclass, field, replace
from hipcache.build import (
    Action,
    ActionId,
    ActionResult,
    Bound,
    Cache,
    Dependency,
    Held,
    Missing,
    PassTrace,
    Policy,
    Ran,
    Step,
    Trace,
)
from hipcache.build.loop import Caches
from hipcache.build.storage import ActionCache, ContentStore
from hipcache.cache.content import ContentCache, ReadSets, Shelf
from hipcache.cache.manifest import NEVER, ManifestCache
from hipcache.clang.frontend import FrontEnd, Pass
from hipcache.clang.jobs import Cc1Job
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.readset import ReadFile, ReadSet
from hipcache.iree.planner import ObservedCache
from memory_storage import MemoryActions, MemoryContents
from memory_world import made_of
from test_storage import ACTIONS, CONTENTS

KEY = make_key("test", [("option", "-O3")])
MADE, NAMED = b"an object" * 100, b"bitcode"
KINDS = (Cache.CONTENT, Cache.MANIFEST, Cache.OBSERVED)


@dataclass
class Room:
    """A storage, a directory with `k.hip`, and the files that a pass read there."""

    root: Path
    actions: ActionCache
    contents: ContentStore
    notes: list[str] = field(default_factory=list)

    def caches(self) -> Caches:
        """As of another compile: each looks at files anew."""
        shelf = Shelf(self.actions, self.contents, self.notes.append)
        reads, files = ReadSets(shelf), FileManager(str(self.root), 0.0, Basedir(""))

        def differs(trace: Trace) -> str:
            found = reads.get(trace.reads)
            return files.differs(trace.reads, found) if found else "no list"

        content = ContentCache(shelf)
        manifest = ManifestCache(shelf, reads, files, str(self.root))
        return Caches(
            {Cache.CONTENT: content, Cache.MANIFEST: manifest, Cache.OBSERVED: ObservedCache(content, differs)}
        )

    def look_up(self, kind: Cache) -> ActionResult | Missing:
        return self.caches().look_up([bound(kind)])[ActionId("one")]

    def publish(self, kind: Cache, made: bytes = MADE, why_not: str = "") -> ActionResult:
        """A result that k.hip as it is now has led to, and the absence of k.h."""
        caches = self.caches()
        source = self.root / "k.hip"
        one = ReadFile("k.hip", digest_file(source), None, False, "")
        reads = ReadSet((one,), (("", ("k.h",)),), ())
        ran = Ran({"out": Held(content=made), "named": Held(content=NAMED)}, "said\n", 2.5, why_not)
        if kind is Cache.MANIFEST:
            ran = replace(ran, pass_trace=PassTrace(reads, (Dependency("k.hip", False),), False))
        elif kind is Cache.OBSERVED:
            manifest = caches.by_policy[Cache.MANIFEST]
            assert isinstance(manifest, ManifestCache)
            ran = replace(ran, trace=Trace(manifest.reads.keep(reads)))
        return caches.publish(bound(kind), ran)

    def content(self, found: ActionResult | Missing) -> bytes | None:
        assert isinstance(found, ActionResult)
        return self.contents.read(found.outputs["out"].hash)

    def edit(self, text: str) -> None:
        (self.root / "k.hip").write_text(text)


def bound(kind: Cache) -> Bound:
    front = FrontEnd(Cc1Job("clang", ()), KEY, "")
    work = Pass(front, "one") if kind is Cache.MANIFEST else Step(lambda inputs: made_of({}))
    action = Action(ActionId("one"), "test", "one", work, outputs=("out", "named"), passing=("named",), missing=NEVER)
    return Bound(replace(action, policy=Policy(kind)), KEY)


@pytest.fixture(params=ACTIONS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    found = Room(tmp_path / "src", ACTIONS[request.param](tmp_path / "a"), CONTENTS[request.param](tmp_path / "c"))
    found.root.mkdir()
    found.edit("int first;\n")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_where_nothing_was_published(room: Room, kind: Cache) -> None:
    found = room.caches().look_up([bound(kind)]).get(ActionId("one")) or Missing(NEVER)
    assert found == Missing(NEVER)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_published_is_found_with_all_that_it_says(room: Room, kind: Cache) -> None:
    published, found = room.publish(kind), room.look_up(kind)
    assert isinstance(found, ActionResult)
    assert room.content(found) == MADE
    assert (found.outputs, found.passing) == (published.outputs, published.passing)
    assert set(found.outputs) == {"out"}
    assert (found.text, found.seconds) == ("said\n", 2.5)
    assert found.files == ((Dependency("k.hip", False),) if kind is Cache.MANIFEST else ())


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_not_be_stored_is_not_and_is_told(room: Room, kind: Cache) -> None:
    room.publish(kind, why_not="'k.hip' changed")
    assert room.notes == ["not stored: 'k.hip' changed"]
    assert not isinstance(room.caches().look_up([bound(kind)]).get(ActionId("one")), ActionResult)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_whose_content_is_lost_is_missing(room: Room, kind: Cache) -> None:
    room.publish(kind)
    lost = bytes.fromhex(room.look_up(kind).outputs["out"].hash)  # type: ignore[union-attr]

    class Without(MemoryContents):
        def sizes(self, hashes: object) -> dict[str, int]:
            found = room.contents.sizes(hashes)  # type: ignore[arg-type]
            return {hash: size for hash, size in found.items() if bytes.fromhex(hash) != lost}

        def read(self, hash: str) -> bytes | None:
            return None if bytes.fromhex(hash) == lost else room.contents.read(hash)

    without = replace(room, contents=Without())
    assert not isinstance(without.caches().look_up([bound(kind)]).get(ActionId("one")), ActionResult)


@pytest.mark.parametrize("change", ["an edit", "a header that appears", "a source that is gone"])
@pytest.mark.parametrize("kind", [Cache.MANIFEST, Cache.OBSERVED])
def test_a_result_is_missing_where_a_file_is_another_one(room: Room, kind: Cache, change: str) -> None:
    room.publish(kind)
    edits: dict[str, Callable[[], object]] = {
        "an edit": lambda: room.edit("int other;\n"),
        "a header that appears": (room.root / "k.h").touch,
        "a source that is gone": (room.root / "k.hip").unlink,
    }
    edits[change]()
    found = room.look_up(kind)
    assert isinstance(found, Missing)
    assert "k.h" in found.why


@pytest.mark.parametrize("kind", [Cache.MANIFEST, Cache.OBSERVED])
def test_results_of_several_contents_lie_side_by_side(room: Room, kind: Cache) -> None:
    """As after a change of branches."""
    room.publish(kind, b"first")
    room.edit("int second;\n")
    room.publish(kind, b"second")
    assert room.content(room.look_up(kind)) == b"second"
    room.edit("int first;\n")
    assert room.content(room.look_up(kind)) == b"first"


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_noise_is_missing(tmp_path: Path, kind: Cache) -> None:
    room = Room(tmp_path, MemoryActions(), MemoryContents())
    room.edit("int first;\n")
    room.publish(kind)
    for key in list(room.actions.records):  # type: ignore[attr-defined]
        room.actions.put(key, b"[1, {")
    assert not isinstance(room.caches().look_up([bound(kind)]).get(ActionId("one")), ActionResult)
