"""Tests that the documentation site builds without a warning and that its links work.

A document is read in two ways: in the repository, where links are paths and anchors follow GitHub's
rules, and as a page of the site.
"""

import html
import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from servers import PATIENCE

import twofold

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("", "docs/**/", "python_client/", "python_client/benchmarks/")
    for path in ROOT.glob(f"{folder}*.md")
)
HOOKS = SimpleNamespace(**runpy.run_path(str(ROOT / "python_client" / "mkdocs_hooks.py")))
# The documents of the site, each with its page.
PAGES = {
    document: HOOKS.PAGES.get(document, document.removeprefix("docs/"))
    for document in DOCUMENTS
    if document not in ("README.md", "python_client/README.md")
}
PUBLIC_MODULES = [
    "ceilings",
    "datasets",
    "errors",
    "evaluation",
    "learning",
    "policies",
    "recordings",
    "rules",
    "testing",
]

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
LINK = re.compile(r"(?<!\\)\]\(<?([^)\s>]+)>?\)|(?:src|href)=\"([^\"]+)\"")
EXTERNAL = re.compile(r"\w+:")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Builds the site, and returns its directory and the build's output."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    build = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    return directory, build.stdout + build.stderr


@pytest.fixture
def site(built: tuple[Path, str]) -> Path:
    return built[0]


def without_code(text: str) -> str:
    return FENCE.sub("", text)


def anchors(document: Path) -> set[str]:
    """Returns the anchors of a document's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for title in HEADING.findall(without_code(document.read_text())):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = found.get(name, 0)
        found[name] = number + 1
        names.add(f"{name}-{number}" if number else name)
    return names


def links(document: Path) -> list[str]:
    """Returns the links and pictures of a document, except in code."""
    text = re.sub(r"`[^`\n]*`", "", without_code(document.read_text()))
    return [markdown or tag for markdown, tag in LINK.findall(text)]


def broken(document: Path) -> list[str]:
    """Returns the links of a document that lead nowhere in the repository."""
    found = []
    for link in links(document):
        if EXTERNAL.match(link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or not target.is_relative_to(ROOT):
            found.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            found.append(f"{link}: no such heading")
    return found


# ---- In the repository ---------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_links_and_pictures_of_a_document_work(document: str) -> None:
    assert broken(ROOT / document) == []


def test_each_page_is_linked_from_another_document() -> None:
    linked = {
        (ROOT / document).parent.joinpath(link.partition("#")[0]).resolve()
        for document in DOCUMENTS
        for link in links(ROOT / document)
        if not EXTERNAL.match(link) and not link.startswith("#")
        if (ROOT / document).parent.joinpath(link.partition("#")[0]).resolve() != ROOT / document
    }
    assert [page for page in PAGES if ROOT / page not in linked] == []


def test_each_example_that_a_page_names_with_its_path_is_a_link() -> None:
    """Users of a wheel have no folder of examples, but the site has copies."""
    named = {
        document: re.findall(
            r"`(?:python_client/)?examples/\w+\.py`", without_code((ROOT / document).read_text())
        )
        for document in DOCUMENTS
        if document.startswith("docs/")
    }
    assert {document: names for document, names in named.items() if names} == {}


def test_each_document_that_the_sources_name_exists() -> None:
    sources = [
        *ROOT.glob("Sources/**/*.swift"),
        *ROOT.glob("proto/**/*.proto"),
        *ROOT.glob("python_client/src/**/*.py"),
    ]
    named = {name for path in sources for name in re.findall(r"docs/[\w/]+\.md", path.read_text())}
    assert len(named) > 2
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []


def test_the_package_names_pages_by_their_titles() -> None:
    """Users of a wheel have the site, but no folder docs/."""
    sources = {path: path.read_text() for path in ROOT.glob("python_client/src/**/*.py")}
    assert [
        str(path) for path, text in sources.items() if re.search(r"docs/[\w/]+\.md", text)
    ] == []
    named = {
        re.sub(r"\s+", " ", title)
        for text in sources.values()
        for title in re.findall(r'\bpage\s+\\?"([^"\\]+)', text)
    }
    titles = {(ROOT / page).read_text().partition("\n")[0].removeprefix("# ") for page in PAGES}
    assert len(named) > 5
    assert named - titles == set()


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Rows & `columns`\n\n## Again\n\n## Again\n")
    page = tmp_path / "page.md"
    good = "[a](other.md#rows--columns) [b](other.md#again-1) [c](#top) [d](https://x.y/z)\n"
    page.write_text("# Top\n\n" + good)
    assert broken(page) == []
    page.write_text(
        "# Top\n\n[a](none.md) [b](other.md#again-2) [c](#bottom) ![d](none.png)\n"
        '<img src="none.gif">\n\n```\n[e](code.md)\n```\n'
    )
    assert [problem.split(":")[0] for problem in broken(page)] == [
        "none.md",
        "other.md#again-2",
        "#bottom",
        "none.png",
        "none.gif",
    ]


# ---- In the site ---------------------------------------------------------------------------------


def test_the_site_is_built_without_a_warning(built: tuple[Path, str]) -> None:
    _, printed = built
    assert "Documentation built" in printed
    assert [line for line in printed.splitlines() if not line.startswith("INFO ")] == []


def test_every_document_is_a_page_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    navigation = home[home.index('data-md-component="sidebar"') : home.index("<article")]
    reached = {html.unescape(link) for link in re.findall(r'href="([^":#]+)"', navigation)}
    reached = reached - {"."} | {"index.html"}
    pages = {str(page.relative_to(site)) for page in site.glob("**/*.html")} - {"404.html"}
    assert pages == reached
    assert {place.replace(".md", ".html") for place in PAGES.values()} == reached


def test_nothing_in_the_site_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source|video)[^>]*\ssrc=\"?(?:https?:)?//[^>]*>"
        r"|<link[^>]*rel=\"?(?:stylesheet|preconnect|icon|preload)[^>]*href=\"?(?:https?:)?//[^>]*>"
        r"|@import\s+(?:url\()?[\"']?(?:https?:)?//|url\([\"']?(?:https?:)?//"
    )
    files = [*site.glob("**/*.html"), *site.glob("**/*.css")]
    assert len(files) > 20
    assert [
        (str(file), load[0]) for file in files for load in loads.finditer(file.read_text())
    ] == []


def test_links_to_other_sites_are_kept(site: Path) -> None:
    for document, place in PAGES.items():
        page = html.unescape((site / place).with_suffix(".html").read_text())
        for link in links(ROOT / document):
            assert not EXTERNAL.match(link) or f'href="{link}"' in page, f"{document}: {link}"


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("guides/loops.md", "[a](rules.md#x)", "[a](rules.md#x)"),
        ("guides/loops.md", "[a](../../SECURITY.md#x)", "[a](../operations/security.md#x)"),
        ("operations/server.md", "[a](../../SECURITY.md)", "[a](security.md)"),
        ("operations/security.md", "[a](docs/operations/server.md#x)", "[a](server.md#x)"),
        ("operations/security.md", "![a](docs/pictures/b.png)", "![a](../pictures/b.png)"),
        (
            "guides/loops.md",
            "[`a.py`](../../python_client/examples/a.py)",
            "[`a.py`](../examples/a.py)",
        ),
        ("guides/loops.md", "[`LICENSE`](../../LICENSE)", "`LICENSE`"),
        ("guides/loops.md", "[our licence](../../LICENSE)", "our licence (`LICENSE`)"),
        ("guides/loops.md", "[a](https://x.y/z)", "[a](https://x.y/z)"),
        ("guides/loops.md", "[a](#x)", "[a](#x)"),
        ("guides/loops.md", "[a](../../none.md)", "[a](../../none.md)"),
    ],
)
def test_a_link_leads_to_the_page_in_the_site(place: str, text: str, expected: str) -> None:
    assert HOOKS.with_links(text, place) == expected


# ---- The API reference ---------------------------------------------------------------------------


def public_names() -> list[str]:
    """Returns the paths of all public names, such as `twofold.rules.move`."""
    names = [
        f"twofold.{name}" for name in twofold.__all__ if not inspect.ismodule(vars(twofold)[name])
    ]
    for module in PUBLIC_MODULES:
        contents = vars(importlib.import_module(f"twofold.{module}"))
        all_names = contents.get("__all__") or [
            name
            for name, value in contents.items()
            if isinstance(value, type) and value.__module__ == f"twofold.{module}"
        ]
        names += [f"twofold.{module}.{name}" for name in all_names]
    return names


def test_every_public_module_has_its_names_in_the_reference() -> None:
    modules = {name for name in twofold.__all__ if inspect.ismodule(vars(twofold)[name])}
    assert modules <= set(PUBLIC_MODULES)
    assert len(public_names()) > 70


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages_of_it = "".join(page.read_text() for page in site.glob("api/*.html"))
    shown = set(re.findall(r'id="(twofold\.[\w.]+)"', pages_of_it))
    paths: dict[int, set[str]] = {}
    for path in public_names():
        module, _, name = path.rpartition(".")
        value = vars(importlib.import_module(module))[name]
        paths.setdefault(id(value), set()).add(path)
    assert [names for names in paths.values() if not names & shown] == []
