"""Hooks for MkDocs that add the repository's documents and example programs to the site.

Documents outside `docs/` become pages of the site. Their links, and links to them and to the
example programs, work both in the repository and on the site. A link to a file that is not on the
site, such as source code, is replaced with the file's path.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "operations/security.md",
    "python_client/benchmarks/README.md": "reference/benchmarks.md",
}
"""Documents outside `docs/`, and their paths on the site."""

EXAMPLES = "python_client/examples/"
"""The folder of the example programs, which the site has in `examples/`."""

_SOURCES = {place: document for document, place in PAGES.items()}
# A link to a file, not to an address (https://…) or a heading on the same page.
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the documents outside `docs/` and the example programs."""
    from mkdocs.structure.files import File  # tests read PAGES without MkDocs

    added = {ROOT / document: place for document, place in PAGES.items()}
    added |= {path: f"examples/{path.name}" for path in (ROOT / EXAMPLES).glob("*.py")}
    for source, place in added.items():
        files.append(File.generated(config, place, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns a page with links that work on the site."""
    return with_links(markdown, page.file.src_uri)


def with_links(markdown: str, place: str) -> str:
    """Converts links for the site. Keeps links to missing files, so that MkDocs reports them.

    Args:
        markdown: The text, whose links work in the repository.
        place: The page's path on the site.
    """
    document = _SOURCES.get(place, f"docs/{place}")

    def replaced(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(document), target))
        if path in PAGES or path.startswith(("docs/", EXAMPLES)):
            to = PAGES.get(path, path.removeprefix("docs/").removeprefix("python_client/"))
            relative = posixpath.relpath(to, posixpath.dirname(place))
            return f"{picture}[{text}]({relative}{anchor})"
        if picture or not (ROOT / path).exists():
            return link[0]
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return _LINK.sub(replaced, markdown)
