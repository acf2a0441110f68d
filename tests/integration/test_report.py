"""The report of a build: figures by architecture, target and cause; a page that a browser shows, with 5,000 objects."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.base.values import replace
from hipcache.cli import page
from hipcache.report import build, statistics, stats_log, store_history
from hipcache.report.outcome import CompileOutcome, UnitOutcome
from hipcache.store import StoreSize
from store_clock import HandClock

CHROMIUM = shutil.which("chromium")
ARCHS = ("gfx906", "gfx90a:xnack+", "gfx1030")
HEADER = "file '/src/lib/<value>.hpp' changed"


def a_log(path: Path, objects: int) -> Path:
    """Of a build by two at once: two of three objects are hits, the others compiled, for one header or for the first
    time."""
    dice, lines, free = random.Random(7), [], [1.7e9, 1.7e9]
    for number in range(objects):
        lane = free.index(min(free))
        hit = number % 3 != 0
        took = 0.001 if hit else 0.5 + dice.random()
        why = () if hit else (HEADER,) if number % 2 else (f"first compile of this object with this store; {number}",)
        units = tuple(UnitOutcome(name, hit, hit, hit, why, took) for name in (*ARCHS, "host"))
        end = CompileOutcome("hit" if hit else "miss", units=units, seconds_saved=4.0 * hit)
        place = f"lib{number % 40}/CMakeFiles/kernels{number % 40}.dir/k{number}.hip.o"
        began = free[lane]
        free[lane] += took
        lines.append(stats_log.line(end, began=began, now=began + took, cwd="/build", path=place))
    path.write_text("\n".join(lines) + "\n")
    return path


def report(tmp_path: Path, *words: str, status: int = 0) -> str:
    out, err = io.StringIO(), io.StringIO()
    environ = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "store"), "HIPCACHE_MAX_SIZE": "1GiB"}
    assert cli.run(["report", *words], environ, out, err) == status, err.getvalue()
    return out.getvalue() + err.getvalue()


def a_store(root: Path, days: int) -> None:
    """Whose bound is met every few weeks, for as many days up to now."""
    clock, dice, held, gone = HandClock(time.time() - days * 86400), random.Random(7), 0, 0
    root.mkdir()
    for day in range(days):
        held += dice.randrange(50 << 20)
        if held > 1 << 30:
            gone += 700
            held = 9 * held // 10
            statistics.count(root, statistics.EVICTED, {"entries": 700, "bytes": 100 << 20})
        for _ in range(dice.randrange(12)):
            statistics.record(root, CompileOutcome(dice.choice(("hit", "hit", "partial", "miss"))))
        store_history.record(root, None, StoreSize(held, day * 90, 1 << 30), clock)
        clock.tick(86400)
    assert gone


def page_of(tmp_path: Path, objects: int) -> Path:
    log, page = a_log(tmp_path / "log", objects), tmp_path / "report.html"
    a_store(tmp_path / "store", 100)
    report(tmp_path, "--stats-log", str(log), "--html", str(page))
    return page


def shot(page: Path, *words: str) -> Path:
    """A screenshot of the whole first screen."""
    assert CHROMIUM
    picture = page.with_suffix(".png")
    argv = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    argv += ["--window-size=1200,1600", "--hide-scrollbars", f"--screenshot={picture}", *words, page.as_uri()]
    environ = {**os.environ, "HOME": str(page.parent)}
    subprocess.run(argv, env=environ, capture_output=True, timeout=120, check=True)
    return picture


def first_pixel(picture: Path) -> tuple[int, ...]:
    """Of a PNG with 8 bits for each colour: the first one of a line has no neighbours that a filter could add."""
    content, at, data = picture.read_bytes(), 8, b""
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        data += content[at + 8 : at + 8 + size] if content[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + size
    return tuple(zlib.decompress(data)[1:4])


class Nesting(HTMLParser):
    """Whether each element that is opened is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "li"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag != "li":
            assert self.open.pop() == tag


def test_compiles_without_times_have_no_time_saved(tmp_path: Path) -> None:
    compiles = list(stats_log.read(a_log(tmp_path / "log", 3)))
    assert "compile time saved" in page.page(page.Told("", compiles))
    assert "compile time saved" not in page.page(page.Told("", [replace(one, seconds=0.0) for one in compiles]))


def test_causes_targets_and_lanes(tmp_path: Path) -> None:
    compiles = list(stats_log.read(a_log(tmp_path / "log", 120)))
    first, second = build.causes(compiles)
    assert {(first.name, first.units, len(first.objects)), (second.name, second.units, len(second.objects))} == {
        (HEADER, 80, 20),
        ("first compile of this object with this store", 80, 20),
    }
    groups = build.groups(compiles)
    assert {one.name for one in groups} == {f"kernels{number}" for number in range(40)}
    assert sum(one.served for one in groups) == 80
    assert sum(one.compiled for one in groups) == 40
    assert {lane for lane, _ in build.lanes(compiles)} == {0, 1}
    assert build.slowest(compiles, 3)[0][1].seconds == max(unit.seconds for one in compiles for unit in one.units)


def test_a_page_of_5000_objects_is_small_and_has_all_figures_and_no_address(tmp_path: Path) -> None:
    text = page_of(tmp_path, 5000).read_text()
    assert len(text) < 400_000
    assert text.count("<section>") == 6
    assert text.count('class="evicted"') > 3
    assert text.count('class="limit"') == 1
    assert "size limit (dashed)" in text
    assert "<td>6664</td><td>3336</td>" not in text, "figures are of units"
    assert re.search(r"gfx90a:xnack\+</th><td>3333</td><td>1667</td>", text)
    assert "&lt;value&gt;" in text
    assert "<value>" not in text
    assert not re.search(r"https?:|<script|@import|url\(", text)
    parser = Nesting()
    parser.feed(text)
    assert parser.open == []


def opened(text: str) -> list[str]:
    """What each line "and 15 more" unfolds."""
    return re.findall(r"<details><summary>and \d+ more</summary>(.*?)</details>", text)


def test_each_target_and_object_can_be_unfolded(tmp_path: Path) -> None:
    text = page_of(tmp_path, 5000).read_text()
    targets = [set(re.findall(r">(kernels\d+)<", part)) for part in text.split("By target or directory")[1:]]
    assert targets == [{f"kernels{number}" for number in range(40)}]
    assert "and 15 more" in text.partition("By target or directory")[2]
    missed = {number for number in range(5000) if number % 3 == 0}
    assert {int(number) for number in re.findall(r"<li>[^<]*/k(\d+)\.hip\.o</li>", text)} == missed
    assert sum(part.count("<li>") for part in opened(text)) == len(missed) - 2 * 20


def test_a_page_says_how_many_rows_it_leaves_out(tmp_path: Path) -> None:
    compiles = [build.Compile(1.7e9, 0.0, 0, "/b", f"/b/{at}/{at}.o", False, ("miss\t\t0",), (), "")
                for at in range(1030)]  # fmt: skip
    text = page.page(page.Told("here", compiles))
    assert [part.count("<tr>") - 1 for part in opened(text)] == [1000]
    assert "and 1005 more" in text
    assert "and 5 more, which this page leaves out" in text


def test_architectures_are_in_the_order_of_stats(tmp_path: Path) -> None:
    names = re.findall(r'scope="row">(gfx[^<]+|host)<', page_of(tmp_path, 20).read_text())
    assert names == ["gfx906", "gfx90a:xnack+", "gfx1030", "host"]


def test_the_page_counts_in_plain_words(tmp_path: Path) -> None:
    ends = ("hit", "partial", "partial", "miss", "miss", "passed_through")
    compiles = [build.Compile(1.7e9 + at, 0.5, 0, "/b", f"/b/{at}.o", False, (f"{end}\t\t0",), (), "")
                for at, end in enumerate(ends)]  # fmt: skip
    text = page.page(page.Told("here", compiles, used=[(0, 10), (1, 10), (2, 10)]))
    assert "compiles in 5.5 s: 1 hit, 2 partial hits, 2 misses, 1 passed through" in text
    assert "<title>1.o: partial hit, 0.5 s</title>" in text
    assert "<title>5.o: passed through, 0.5 s</title>" in text
    assert re.findall(r'scope="row">(today|\d.*?ago)<', text) == ["today", "1 day ago", "2 days ago"]
    said = report(tmp_path, "--stats-log", str(a_log(tmp_path / "log", 1)), "--html", str(tmp_path / "r.html"))
    assert said.startswith("report of 1 compile: ")


def test_a_trace_has_an_event_for_each_compile(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", 12)
    said = report(tmp_path, "--stats-log", str(log), "--chrome-trace", str(tmp_path / "trace.json"))
    assert "timeline of 12 compiles" in said
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 12
    assert {event["ph"] for event in events} == {"X"}
    assert (events[0]["ts"], events[1]["dur"]) == (0, 1000)
    assert events[0]["args"]["target"] == "kernels0"


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    assert "name a file: --html" in report(tmp_path, status=1)
    assert "build with HIPCACHE_STATS_LOG" in report(tmp_path, "--html", str(tmp_path / "r"), status=1)


@pytest.mark.skipif(not CHROMIUM, reason="no chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_it_light_and_dark(tmp_path: Path, dark: bool) -> None:
    page = page_of(tmp_path, 5000)
    picture = shot(page, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    assert first_pixel(picture) == ((0x14, 0x17, 0x1A) if dark else (255, 255, 255))


def missed(*causes: str, path: str = "/b/k.o") -> stats_log.Compile:
    units = tuple(UnitOutcome(name, False, why=causes, seconds=1.0) for name in ("gfx906", "host"))
    return stats_log.Compile(1.0, 1.0, 1, "/b", path, False, ("miss\t\t0",), units, "")


def test_causes_come_by_what_can_be_done_about_them() -> None:
    first, header = "first compile of this object with this store", "file '/a.h' changed"
    setting, tool = "variable 'CPATH' was not set, now '/x'", "the compiler changed, or a library that it loads"
    many = [missed(first, path=f"/b/{number}.o") for number in range(5)]
    assert [one.name for one in build.causes([*many, missed(header, "and 2 more files", tool, setting)])] == [
        *(setting, tool, header),
        first,
    ]


def test_files_that_made_the_same_units_miss_are_one_cause_for_people() -> None:
    compiles = [missed("file '/a.h' changed", "file '/b.h' is now read")]
    compiles += [missed(f"file '/{number}.hip' changed", path=f"/b/{number}.o") for number in range(6)]
    assert [(one.name, one.units, len(one.objects)) for one in build.summarized(build.causes(compiles))] == [
        ("file '/0.hip' changed", 2, 1),
        ("file '/1.hip' changed", 2, 1),
        ("file '/2.hip' changed", 2, 1),
        ("4 more such files", 8, 4),
    ]


def test_of_files_that_changed_together_one_is_named() -> None:
    """Of many a unit names the first few, so that nobody knows how many there are."""
    (cause,) = build.summarized(
        build.causes([missed("file '/a.h' changed", "file '/b.h' changed", "and 2 more files")])
    )
    assert cause.name == "file '/a.h' changed, and others"


def test_a_timeline_is_of_the_compiles_since_the_last_pause(tmp_path: Path) -> None:
    early, *late = stats_log.read(a_log(tmp_path / "log", 9))
    assert build.last_build([replace(early, began=early.began - 3600), *late]) == late
