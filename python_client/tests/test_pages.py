"""The generated parts of the documents agree with the sources: `make pages` writes them."""

import re
from pathlib import Path

import generate
import pytest

from twofold import cli
from twofold.errors import RequestError, TwofoldError

PAGES = generate.pages()


def test_the_pages_with_generated_parts_are_found() -> None:
    found = {page.name for page in PAGES}
    assert {"command_line.md", "troubleshooting.md", "rules.md"} <= found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(generate.ROOT)))
def test_a_page_is_current(page: Path) -> None:
    assert page.read_text() == generate.generated(page), "run `make pages`"


def test_a_stale_part_is_replaced_and_other_text_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- generated: commands -->\n\nold\n\n<!-- end -->\n\nText.\n")
    text = generate.generated(page)
    assert text.startswith("# A\n\n<!-- generated: commands -->\n\n| command |")
    assert text.endswith("|\n\n<!-- end -->\n\nText.\n")
    assert "\nold\n" not in text


def test_each_option_of_a_command_is_on_the_page() -> None:
    text = generate.options()
    for name in cli.SUBCOMMANDS:
        assert f"### twofold {name}\n" in text
    assert {"`--against POLICY`", "`--max-boards <max-boards>`"} <= set(re.findall("`.*?`", text))


def test_each_exception_says_how_to_fix_its_cause() -> None:
    without = {each for each in generate.exception_classes() if each.__name__ not in fixes()}
    assert without == {TwofoldError, RequestError}


def fixes() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", generate.exceptions(), re.MULTILINE))


def test_each_check_of_the_doctor_has_a_message_and_a_fix() -> None:
    rows = generate.checks().splitlines()[2:]
    assert len(rows) > 20
    for row in rows:
        _, message, fix, _ = (cell.strip() for cell in row.split("|"))
        assert re.fullmatch(r"[\w ]+: \S.*", message), row
        assert fix.endswith("."), row
