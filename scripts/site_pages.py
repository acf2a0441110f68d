"""A hook of MkDocs: pages of the repository outside of docs/ become pages of the site, below `repository/`.

The same links work where the Markdown is read in the repository and on the site: `../SECURITY.md` in a page of docs/ is
rewritten to the page's place on the site. A link to a directory leads to its README.md; one to a file that is no page
(a source, a recipe) becomes text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")
_PLACES = ("*.md", "packaging/**/README.md", "examples/**/README.md", "bench/README.md", "bench/results/*.md")


def outside() -> Iterator[Path]:
    """The pages that are not in docs/, relative to the repository."""
    for pattern in _PLACES:
        for path in sorted(ROOT.glob(pattern)):
            if not any(part in ("build", "subprojects") for part in path.relative_to(ROOT).parts):
                yield path.relative_to(ROOT)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in outside():
        files.append(File.generated(config, f"repository/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, page: str) -> str:
    """`page`: its name on the site."""
    here = page.removeprefix("repository/") if page.startswith("repository/") else f"docs/{page}"

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        place = Path(os.path.normpath(Path(here).parent / target))
        if (ROOT / place).is_dir():
            place /= "README.md"
        name = _name(place)
        if not name:
            return text
        return f"[{text}]({os.path.relpath(name, os.path.dirname(page) or '.')}{anchor})"

    return _LINK.sub(link, markdown)


def _name(place: Path) -> str:
    """On the site; empty where it is no page of it."""
    if place.parts[:1] == ("docs",) and place.suffix == ".md":
        return str(place.relative_to("docs"))
    return f"repository/{place}" if place in set(outside()) else ""
