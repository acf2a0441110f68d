"""The manual: it builds as a site, its shell lines are run, and its lists are the code's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cmake_project import CHECKOUT
from hipcache import config
from hipcache.config.settings import VARIABLES
from hipcache_scons.tool import generate
from SCons.Environment import Environment
from test_ci import Machine

sys.path.insert(0, str(CHECKOUT / "scripts"))

import manual_settings

DOCS = CHECKOUT / "docs"
README = CHECKOUT / "README.md"
# Those whose shell lines are one session, in a directory with a small HIP project. docs/ci.md: test_ci.py.
SESSIONS = (
    "README",
    "start",
    "cmake",
    "from-ccache",
    "other-tools",
    "settings",
    "statistics",
    "troubleshooting",
    "packaging",
    "meson",
    "scons",
    "safe",
)
_BLOCK = re.compile(r"^(?:<!-- (not run|file): (.+?) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Languages of blocks that are looked at and not run.
DRAWN = ("text", "yaml", "dockerfile")


def text(page: str) -> str:
    return (README if page == "README" else DOCS / f"{page}.md").read_text()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="Sphinx' theme furo is not installed (the extra 'manual')")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "-c",
        "docs",
        ".",
        tmp_path / "site",
        "-d",
        tmp_path / "doctrees",
    ]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site/docs/ci.html").read_text()
    assert 'href="../packaging/containers/README.html"' in page
    for path in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'<(?:script|img|link)[^>]* (?:src|href)="([^"]*)"', path.read_text())
        assert not [url for url in fetched if "//" in url], "it needs no network"


@pytest.mark.parametrize("page", SESSIONS)
def test_the_lines_of_a_page_run(tmp_path: Path, page: str) -> None:
    machine = Machine(tmp_path)
    # A build that a page may speak of.
    script = ["export CMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    if page in ("README", "safe"):
        script.append("CMAKE_HIP_COMPILER_LAUNCHER=hipcache cmake -S . -B build; cmake --build build")
    for mark, told, language, content in _BLOCK.findall(text(page)):
        if mark == "file":
            script.append(f"cat > {told} <<'END'\n{content}END")
        elif mark != "not run" and language == "sh":
            script.append(content)
    output = machine.run("\n".join(script))
    assert "Traceback" not in output
    if page in ("start", "cmake", "other-tools", "meson", "scons"):
        counts = machine.compiles()
        assert counts["miss"] + counts["partial"] >= 1, output
    if page == "start":
        assert (counts["miss"], counts["partial"], counts["hit"]) == (1, 1, 2), output
    if page == "safe":
        assert "1 object recompiled: 1 same" in output


PAGES = sorted(path.stem for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", ["README", *PAGES])
def test_a_block_is_run_or_says_why_not(page: str) -> None:
    for mark, _, language, content in _BLOCK.findall(text(page)):
        run = language == "sh" and page in (*SESSIONS, "ci", "python")
        assert run or mark or language in DRAWN, content
    assert not re.search(r"\n\n    \S", re.sub(_BLOCK, "", text(page))), "blocks have fences"


def test_each_page_is_in_the_tree() -> None:
    tree = yaml.safe_load((DOCS / "_toc.yml").read_text())
    listed = {entry["file"] for part in tree["subtrees"] for entry in part["entries"]}
    assert {f"docs/{page}" for page in PAGES} <= {*listed, tree["root"]}


# Lists that are the code's


def rows(page: str, heading: str = "") -> set[str]:
    """The names in the first column of the tables behind that heading, or of the page."""
    part = text(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else text(page)
    firsts = re.findall(r"^\| (`[^|]*) \|", part, re.MULTILINE)
    return {name for first in firsts for name in re.findall(r"`(\w+)`", first)}


def test_cmakes_variables_are_those_of_the_module() -> None:
    module = (CHECKOUT / "cmake/HipCache.cmake").read_text().partition("Variables:")[2].partition("#]=")[0]
    assert rows("cmake", "Variables") == set(re.findall(r"^``(\w+)``$", module, re.MULTILINE))


def test_mesons_options_are_those_of_the_subproject() -> None:
    options = (CHECKOUT / "meson/meson_options.txt").read_text()
    assert rows("meson", "Options") == set(re.findall(r"^option\('(\w+)'", options, re.MULTILINE))
    head = (CHECKOUT / "meson/meson.build").read_text().partition("\nproject(")[0]
    named = set(re.findall(r"^# (\w+(?:, \w+)*)  +\w", head, re.MULTILINE))
    assert rows("meson", "Variables of the subproject") == {name for one in named for name in one.split(", ")}


def test_sconss_variables_are_those_of_the_tool() -> None:
    tool = "".join(path.read_text() for path in (CHECKOUT / "plugins/hipcache_scons").glob("*.py"))
    named = set(re.findall(r"\b((?:SH)?HIP(?:_ARCHS|CXX|FLAGS|LINKFLAGS|LINK|PATH|CACHE|COMSTR|COM))\b", tool))
    assert rows("scons", "Variables") >= named - {"HIP"}
    assert {name for name in rows("scons", "Variables") if name not in tool} <= {"SHHIPCOMSTR"}
    env = Environment(tools=["default"])
    known = set(env.Dictionary())
    generate(env, HIPCACHE=False)
    added = {name for name in set(env.Dictionary()) - known if name.isupper() and name[0] != "_"}
    assert "IREECOMPILE" in added
    assert added - {"LIBEMITTER", "PROGEMITTER"} <= rows("scons"), "those two are SCons' own"


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_example_of_a_setting_is_a_value_of_it(variable: str, tmp_path: Path) -> None:
    setting = VARIABLES[variable]
    example = manual_settings.EXAMPLES[setting.key]
    assert variable in rows("settings")
    if setting.key != "config_file":
        config.check(setting, example, {"HOME": str(tmp_path)})


def test_each_field_of_the_statistics_is_told(tmp_path: Path) -> None:
    fields = set(json.loads(Machine(tmp_path).run("hipcache stats --json")))
    assert fields <= rows("statistics")


def test_the_figures_of_links_and_warm_hits_are_those_that_were_measured() -> None:
    """Medians, rounded as the page shows them."""
    page = text("comparison").partition("## Figures")[2]
    warm = json.loads((CHECKOUT / "bench/results/warm.json").read_text())
    tools = ("hipcache", "ccache", "sccache")
    one, many = ([warm[form][tool]["median"] for tool in tools] for form in ("single", "ninja"))
    row = (
        f"| nothing changed, {warm['headers']} headers, 8 architectures |{''.join(f' {ms:.1f} ms |' for ms in one)} |\n"
    )
    assert row in page
    copying = f"(only copying: {warm['ninja']['copying']['median']:.0f} ms)"
    assert f"nothing changed {copying} |{''.join(f' {ms:.0f} ms |' for ms in many)} |\n" in page
    links = json.loads((CHECKOUT / "bench/results/link.json").read_text())["links"]
    edits = [link for link in links if link["link"] == "host-only edit"]
    assert len(edits) == 2
    seconds = [f"{link['hipcache']:.1f} s | | | {link['plain']:.0f} s" for link in edits]
    rows = [f"{link['driver'][:3]} offload driver | {told}" for link, told in zip(edits, seconds, strict=True)]
    link = "| a link of relocatable device code after an edit of host code, 8 architectures,"
    assert f"{link} {rows[0]} |\n| the same, {rows[1]} |\n" in page


# Rows of the benchmark, by what README's table calls them, and the columns of the manual's.
_CLAIMS = {
    "one architecture added": ("one architecture added to 4", 3),
    "a comment line in each source": ("comment line inserted in every source", 5),
    "another value of a macro that the source does not use": ("another -DGIT_SHA= on each command line", 6),
    "an edit of host code": ("host-only edit of all", 4),
    "an empty store": ("cold, 4 architectures", 1),
}


@pytest.mark.parametrize("claim", _CLAIMS)
def test_the_figures_of_programs_are_those_that_were_measured(claim: str) -> None:
    row, column = _CLAIMS[claim]
    compared, ours = (_cells(text(page)) for page in ("comparison", "README"))
    clangs = {cells[0]: cells for cells in compared.values() if "/programs-clang++-" in cells[0]}
    assert len(clangs) == 5
    for cells in clangs.values():
        page, measured = _measured(cells[0], row)
        assert measured in re.findall(r"[0-9.]+", cells[column]), (page, measured)
    [head] = (cells for cells in ours.values() if cells[1].startswith("ccache, sccache recompile"))
    for name, told in zip(head[3:], ours[claim][3:], strict=True):
        page, measured = _measured(next(cells[0] for cells in clangs.values() if f"[{name}]" in cells[0]), row)
        assert measured in re.findall(r"[0-9.]+", told), (page, measured)


@pytest.mark.parametrize("page", ["README", "comparison"])
def test_a_figure_that_leads_to_a_page_of_results_is_hipcaches_there(page: str) -> None:
    told = re.findall(r"\[([0-9]+\.[0-9]+)\]\([./]*(bench/results/[^)]+)\)", text(page))
    assert told
    assert not [(figure, path) for figure, path in told if figure not in _shares(path).values()]


def _cells(page: str) -> dict[str, list[str]]:
    """The cells of the rows of its tables, by the first; of two rows the first one."""
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|")
    return {cells[0]: cells for cells in reversed([*rows])}


def _measured(link: str, row: str) -> tuple[str, str]:
    """The page of results to which it leads, and hipcache's share of plain clang's CPU time in that row."""
    found = re.search(r"bench/results/[^)]+", link)
    assert found
    return found[0], _shares(found[0])[row]


def _shares(page: str) -> dict[str, str]:
    """hipcache's share of plain clang's CPU time in each row of a page of results."""
    rows = _cells((CHECKOUT / page).read_text())
    head = rows[""]
    return {name: row[head.index("hipcache")].partition(" ")[0] for name, row in rows.items() if len(row) == len(head)}
