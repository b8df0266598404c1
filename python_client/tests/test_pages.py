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


def test_the_help_of_solve_states_the_measured_size_of_a_table() -> None:
    text = generate.server_commands()["solve"]["discussion"]
    assert f"the table keeps {generate.gigabytes('3x3')}" in text


def test_a_measured_figure_is_distinguished_from_other_numbers() -> None:
    text = (
        "A step takes 4.2 µs, or 49\nmillion a day; 1,093 points in 65,536 steps, 4 times, two 4s."
    )
    assert measured(text) == {"4.2 µs", "49 million", "1,093"}


def test_a_command_publishes_its_rows_with_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    script = str(generate.ROOT / "python_client/benchmarks/some.py")
    monkeypatch.setattr(sys, "argv", [script, "--games", "3", "--report", "--publish"])
    figures.publish("some", [{"mean": 1.5}, {"mean": None}])
    content = figures.read("some")
    assert content["command"] == "python python_client/benchmarks/some.py --games 3"
    assert content["rows"] == [{"mean": 1.5}, {"mean": None}]
    assert "some.py --games 3` repeats the measurement" in generate.setting("some")
    for part in ([], [{"mean": 2.5}]):
        with pytest.raises(SystemExit, match="rows needed: 2"):
            figures.publish("some", part)
    assert figures.read("some") == content


def test_a_stale_figure_in_a_sentence_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Random play scores <!-- figure: random -->7<!-- end --> points.\n")
    text = generate.generated(page)
    assert text == "Random play scores <!-- figure: random -->1,093<!-- end --> points.\n"
    assert generate.typed(text) == "Random play scores  points.\n"


def test_a_figure_in_a_sentence_does_not_begin_a_line() -> None:
    """In Markdown, a line that begins with a comment ends the paragraph."""
    for page in PAGES:
        assert not re.search(r"^ *<!-- figure", page.read_text(), re.MULTILINE), page


def test_no_measured_figure_is_typed_into_a_page() -> None:
    """ALLOWED lists other numbers with a unit: limits, defaults, and other authors' results."""
    documents = [*generate.ROOT.glob("*.md"), *generate.ROOT.glob("docs/**/*.md")]
    documents.append(generate.ROOT / "python_client/README.md")
    typed = {
        f"{page.relative_to(generate.ROOT)}: {figure}"
        for page in documents
        for figure in measured(text_of(page)) - ALLOWED
    }
    assert not typed, "see `--publish` and `<!-- figure: … -->` in CONTRIBUTING.md"


def text_of(page: Path) -> str:
    """Returns a page's text without generated parts, code, and the table of published results."""
    text = generate.typed(page.read_text())
    text = re.sub(r"^( *)```.*?^\1```$|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^## Published$.*", "", text, flags=re.DOTALL | re.MULTILINE)


NUMBER = r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"%|(?:[µumn]?s|seconds?|minutes?|min|hours?|[kKMG]B|[a-z]+/s|million)\b"
ALLOWED = {
    # Intervals and levels of significance, and a rate that a test sets.
    *("95 %", "5 %", "10 %", "100 %"),
    # Limits, deadlines and waits.
    *("0.05 s", "0.1 s", "1 s", "2 s", "3 s", "5 s", "10 s", "16 s", "30 s", "60 s", "100 s"),
    *("80 us", "2 ms", "20 ms", "30 seconds", "10 minutes", "30 minutes", "60 minutes"),
    # The numbers of games that were counted, or that an example assumes, and sizes that follow.
    *("20 million", "2.5 MB", "268 MB", "51 MB", "661 MB", "2,147,483,647"),
    # Memory and disk for an installation, a build, or `twofold solve`.
    *("1 GB", "2 GB", "3 GB", "5.5 GB", "6 GB"),
    # Mean scores in a paper.
    *("51,321", "48,930", "20,505"),
}


def measured(text: str) -> set[str]:
    """Returns the numbers with a unit of time, size, share or rate, and all `long_numbers`."""
    units = re.findall(rf"{NUMBER}\s(?:{UNIT})", text)
    return {" ".join(each.split()) for each in units} | long_numbers(text)


def long_numbers(text: str) -> set[str]:
    """Returns the numbers with a comma that are neither round nor a power of two."""
    found = re.findall(rf"{NUMBER}(?!\d)", text)
    values = {number: float(number.replace(",", "")) for number in found if "," in number}
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
