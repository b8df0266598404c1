"""Tests that the documents' generated parts, from `make pages`, agree with the sources."""

import re
import sys
from pathlib import Path

import figures
import generate
import pytest

from twofold import cli
from twofold.errors import RequestError, TwofoldError

PAGES = generate.pages()


def test_the_pages_with_generated_parts_are_found() -> None:
    found = {page.name for page in PAGES}
    assert {"README.md", "results.md", "command_line.md", "troubleshooting.md", "rules.md"} <= found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(generate.ROOT)))
def test_the_generated_parts_of_a_page_are_current(page: Path) -> None:
    assert page.read_text() == generate.generated(page), "run `make pages`"


def test_a_stale_part_is_replaced_and_other_text_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- generated: commands -->\n\nold\n\n<!-- end -->\n\nText.\n")
    text = generate.generated(page)
    assert text.startswith("# A\n\n<!-- generated: commands -->\n\n| command |")
    assert text.endswith("|\n\n<!-- end -->\n\nText.\n")
    assert "\nold\n" not in text


def test_each_file_of_figures_names_its_command_and_is_shown_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for path in figures.FOLDER.iterdir():
        content = figures.read(path.stem)
        assert list(content) == ["command", "date", "commit", "machine", "rows"], path
        assert path.read_text() == figures.as_text(content), path
        assert generate.setting(path.stem) in text, path


def test_a_command_publishes_its_rows_with_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    script = str(generate.ROOT / "python_client/benchmarks/some.py")
    monkeypatch.setattr(sys, "argv", [script, "--games", "3", "--publish"])
    figures.publish("some", [{"mean": 1.5}, {"mean": None}])
    content = figures.read("some")
    assert content["command"] == "python python_client/benchmarks/some.py --games 3"
    assert content["rows"] == [{"mean": 1.5}, {"mean": None}]
    assert "some.py --games 3` repeats the measurement" in generate.setting("some")


def test_a_figure_stands_in_generated_parts_only() -> None:
    """Only figures of more than three digits count, because shorter ones mean other things too."""
    shown = {number for make in generate.FIGURES.values() for number in long_numbers(make())}
    assert {"66,888", "1,093.4"} <= shown
    typed = {
        f"{page.relative_to(generate.ROOT)}: {number}"
        for page in [*generate.ROOT.glob("*.md"), *generate.ROOT.glob("docs/**/*.md")]
        for number in shown & long_numbers(generate.PART.sub("", page.read_text()))
    }
    assert not typed


def long_numbers(text: str) -> set[str]:
    """Returns the numbers with a comma that are neither round nor a power of two."""
    found = re.findall(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])", text)
    values = {number: float(number.replace(",", "")) for number in found}
    return {number for number, value in values.items() if value % 1000 and not is_power(value)}


def is_power(value: float) -> bool:
    return value.is_integer() and int(value).bit_count() == 1


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
