"""Tests of the replay page in a real, offline Chromium, run by `make test-browser`."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.recordings import Recording, RecordingRules, replay
from twofold.recordings.replay import Generator

sync_api: Any = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


def record(rows: int = 4, columns: int = 4, steps: int = 10**6) -> Recording:
    rules = RecordingRules(rows, columns)
    generator = Generator.seeded(78)
    board = [0] * rules.cells
    actions: list[int] = []
    threshold = replay.threshold_of(0.1)
    for _ in range(2):
        replay.place(board, generator.spawn(board, threshold), "")
    while len(actions) < steps and (choice := replay.legal(board, rows, columns)):
        actions.append(next(a for a in (0, 3, 1, 2) if a in choice))
        replay.move(board, rows, columns, actions[-1])
        replay.place(board, generator.spawn(board, threshold), "")
    return Recording.of_seed(rules, 78, actions)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """A page in the browser, with its requests and errors."""

    def __init__(self, browser: Any, recording: Recording, folder: Path) -> None:
        path = folder / "game.html"
        path.write_text(recording.to_html())
        self.recording = recording
        self.page = browser.new_page(offline=True, viewport={"width": 640, "height": 900})
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def step(self) -> int:
        return int(self.page.get_attribute("#board", "data-step"))

    def score(self) -> int:
        return int(self.page.inner_text("#score").replace(",", ""))

    def shown(self) -> Any:
        """Returns the drawn tiles by their positions on the screen."""
        rules = self.recording.rules
        found = self.page.evaluate(
            """() => { const board = document.getElementById("board").getBoundingClientRect();
            return [...document.querySelectorAll(".tile:not(.old)")].map(tile => {
              const box = tile.getBoundingClientRect();
              return [(box.left + box.width / 2 - board.left) / board.width,
                      (box.top + box.height / 2 - board.top) / board.height,
                      Number(tile.textContent)]; }); }"""
        )
        board = np.zeros((rules.rows, rules.columns), int)
        for x, y, value in found:
            cell = int(y * rules.rows), int(x * rules.columns)
            assert board[cell] == 0
            board[cell] = value
        return board


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Page]:
    page = Page(browser, record(), tmp_path)
    yield page
    assert page.troubles == []
    assert all(url.startswith("file:") for url in page.requests)
    page.page.close()


def values(exponents: Any) -> Any:
    exponents = np.asarray(exponents, int)
    return np.where(exponents > 0, 2**exponents, 0)


def test_the_page_ends_with_the_recorded_board_and_score(opened: Page) -> None:
    opened.press("End")
    assert opened.page.evaluate("document.body.dataset.verified") == "true"
    assert opened.step() == len(opened.recording.actions)
    assert opened.score() == opened.recording.score
    np.testing.assert_array_equal(opened.shown(), values(opened.recording.board))
    assert "every new tile follows" in opened.page.inner_text("#verdict")


def test_single_steps_show_each_board_of_the_game(opened: Page) -> None:
    opened.page.select_option("#speed", "16")
    score = 0
    for number, step in enumerate(opened.recording.steps()):
        if number == 40:
            break
        opened.press("ArrowRight")
        score += step.reward
        assert (opened.step(), opened.score()) == (number + 1, score)
        opened.page.wait_for_function(
            "document.getAnimations().every(each => each.playState === 'finished')"
        )
        np.testing.assert_array_equal(opened.shown(), values(step.board).reshape(4, 4))
    opened.press("ArrowLeft")
    assert opened.step() == 39


def test_keys_buttons_and_scrubber_reach_every_step(opened: Page) -> None:
    opened.press("PageDown")
    assert opened.step() == 50
    opened.press("PageUp")
    assert opened.step() == 0
    opened.page.fill("#scrubber", "33")
    assert opened.step() == 33
    for button, step in (("#on", 34), ("#back", 33), ("#first", 0)):
        opened.page.click(button)
        assert opened.step() == step
    opened.page.click("#last")
    assert opened.step() == len(opened.recording.actions)


def test_the_page_plays_automatically_to_the_end_and_stops(opened: Page) -> None:
    opened.press("+", "+", "+", "+")
    assert opened.page.input_value("#speed") == "500"
    opened.press(" ")
    assert opened.page.inner_text("#play") == "pause"
    while opened.page.inner_text("#play") == "pause":
        opened.page.wait_for_timeout(50)
    assert opened.step() == len(opened.recording.actions)
    assert opened.score() == opened.recording.score


def test_a_board_of_another_shape_also_fits(browser: Any, tmp_path: Path) -> None:
    page = Page(browser, record(3, 5, 60), tmp_path)
    page.press("End")
    np.testing.assert_array_equal(page.shown(), values(page.recording.board))
    assert page.troubles == []


def test_a_damaged_page_reports_the_damage(browser: Any, tmp_path: Path) -> None:
    recording = record()
    path = tmp_path / "bad.html"
    text = recording.to_html()
    changed = text.replace(f'"score": {recording.score}', f'"score": {recording.score + 4}')
    assert changed != text
    path.write_text(changed)
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.body.dataset.verified") == "false"
    assert "damaged" in page.inner_text("#verdict")
