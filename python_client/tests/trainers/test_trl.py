"""Games for TRL's `environment_factory` play like the environments, and TRL trains on them."""

import copy
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from twofold.envs.concentration import ConcentrationEnv
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.games.game2048 import DIRECTIONS, Game2048
from twofold.integrations.trl import ConcentrationTools, Game2048Tools, total_reward
from twofold.policies import PerfectMemory

pytest.importorskip("trl", reason="`make trainers` has it")

import torch
from transformers.utils import get_json_schema

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import grpo_2048

torch.set_num_threads(1)


def test_a_game_of_2048_equals_the_environments_game(endpoint: str) -> None:
    reward = {"merge_exponent": 0.1, "illegal_action": -1.0}
    env = gym.make("twofold/Game2048-v0", reward=reward).unwrapped
    board, infos = env.reset(seed=5)
    tools = Game2048Tools(reward=reward, endpoint=endpoint)
    assert Game2048.text(board) in tools.reset(seed=5, prompt=[{"role": "user", "content": ""}])
    generator = np.random.default_rng(1)
    total, illegal, is_over = 0.0, 0, False
    while not is_over:
        action = int(generator.integers(4))
        is_legal = infos["action_mask"][action] == 1
        board, step_reward, is_over, _, infos = env.step(action)
        total += float(step_reward)
        illegal += not is_legal
        answer = tools.move(DIRECTIONS[action])
        assert Game2048.text(board) in answer
        assert f"Score {infos['score']}, " in answer
        assert (f"Nothing moves {DIRECTIONS[action]}." in answer) == (not is_legal)
        assert tools.is_over == is_over
        legal = [DIRECTIONS[number] for number in np.flatnonzero(infos["action_mask"])]
        assert is_over or f"Legal directions: {', '.join(legal)}." in answer
    assert illegal > 5
    assert "The game is over: no tile can move." in answer
    assert total_reward([tools, Game2048Tools()], completions=[]) == [total, 0.0]
    with pytest.raises(FailedPrecondition, match=r"^the game is over: no tile can move$"):
        tools.move("up")
    assert tools.reward == total


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ({"max_episode_steps": 3}, "the step limit was reached"),
        ({"goal": 8, "stop_at_goal": True}, "8 is reached"),
        ({"illegal_action": "terminate"}, "that action was illegal"),
        ({"illegal_action": "terminate", "max_episode_steps": 12}, "that action was illegal"),
    ],
)
def test_the_end_of_a_game_is_explained(arguments: dict[str, Any], end: str) -> None:
    tools = Game2048Tools(**arguments)
    tools.reset(seed=3)
    while not tools.is_over:
        answer = tools.move("up")
    assert answer.endswith(f"The game is over: {end}.")


def test_a_reset_begins_a_new_episode_in_a_separate_paragraph() -> None:
    tools = Game2048Tools(max_episode_steps=20)
    first = tools.reset(seed=3)
    assert first == f"\n\n{tools._game.text()}"
    while not tools.is_over:
        tools.move(tools._game.legal[0])
    assert tools.reward > 0
    assert tools.reset(seed=3) == first
    assert (tools.reward, tools.is_over) == (0.0, False)
    answer = tools.move(tools._game.legal[0])
    assert answer.startswith(Game2048.text(tools._game.board))  # a legal move needs no sentence


def test_an_illegal_action_is_not_to_blame_if_a_start_tile_is_the_goal() -> None:
    tools = Game2048Tools(goal=4, stop_at_goal=True)
    for seed in range(1000):
        board = tools.reset(seed=seed)
        if tools.infos["goal_reached"] and not tools.infos["action_mask"][0]:
            break
    assert "4" in board
    answer = tools.move("up")
    assert answer.startswith("Nothing moves up.\n")
    assert answer.endswith("The game is over: 4 is reached.")


def test_directions_keep_their_meaning_in_another_packages_rules() -> None:
    ours, theirs = Game2048Tools(start_tiles=2), Game2048Tools(dialect="pgx")
    board = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]], np.uint8)
    for direction in DIRECTIONS:
        boards = []
        for tools in (ours, theirs):
            tools.reset(seed=1)
            game = tools._game
            game.board, game.infos = game.env.reset(seed=7, options={"board": board})
            tools.move(direction)
            boards.append(game.board)
        np.testing.assert_array_equal(boards[0], boards[1])


@pytest.mark.parametrize("preset", ["playground", "popgym-easy"])
def test_a_game_of_concentration_equals_the_environments_game(preset: str, endpoint: str) -> None:
    env: Any = ConcentrationEnv(preset=preset, peeks=0, max_episode_steps=1000)
    cards, infos = env.reset(seed=2)
    game, policy = env.game, PerfectMemory(env)
    tools = ConcentrationTools(preset=preset, endpoint=endpoint, max_episode_steps=1000)
    assert game.text(cards) in tools.reset(seed=2)
    answers, total, is_over = [], 0.0, False
    while not is_over:
        card = policy(cards, infos["action_mask"])
        cards, reward, is_over, _, infos = env.step(card)
        total += reward
        answers.append(tools.turn_card(card))
        assert game.text(cards) in answers[-1]
        assert tools.is_over == is_over
    pairs = infos["pairs"]
    assert sum(": a pair." in answer for answer in answers) == pairs == game.cards // 2
    assert sum("turned back" in answer for answer in answers) == infos["turns"] - pairs
    assert f"Pairs found: {pairs} of {pairs}. " in answers[-1]
    assert answers[-1].endswith("The game is over: all pairs are found.")
    assert tools.reward == total


def test_a_card_that_cannot_be_flipped_gets_a_sentence() -> None:
    tools = ConcentrationTools(size=2)
    tools.reset(seed=1)
    assert tools.turn_card(0).startswith("Card 0 shows ")
    answer = tools.turn_card(0)
    assert answer.startswith("Card 0 is face up already.\n")
    assert answer.endswith("Card 0 is face up: find its match.")
    ends_turn = ConcentrationTools(size=2, illegal_action="end_turn")
    ends_turn.reset(seed=1)
    ends_turn.turn_card(0)
    assert "face up already, and your turn ends.\n" in ends_turn.turn_card(0)
    mate = next(card for card in (1, 2, 3) if ": a pair." in fresh_pair(tools, card))
    tools.turn_card(next(card for card in (1, 2, 3) if card != mate))
    assert tools.turn_card(0).startswith("Card 0 is out of play.\n")


def fresh_pair(tools: ConcentrationTools, card: int) -> str:
    """Returns the answer to flipping card 0 and then this card, in the same deck."""
    tools.reset(seed=1)
    tools.turn_card(0)
    return tools.turn_card(card)


def test_seeds_decide_the_boards_and_no_seed_continues_the_stream() -> None:
    tools, others = Game2048Tools(), Game2048Tools()
    assert tools.reset(seed=4) == others.reset(seed=4)
    assert [tools.move(name) for name in DIRECTIONS] == [others.move(name) for name in DIRECTIONS]
    boards = {tools.reset(seed=seed) for seed in range(20)}
    assert len(boards) > 15
    assert len({tools.reset() for _ in range(20)}) > 15


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: Game2048Tools().reset(seed=-1), "seed"),
        (lambda: Game2048Tools(size=99), "size"),
        (lambda: Game2048Tools(obs="dict"), "obs"),  # type: ignore[call-arg]
        (lambda: Game2048Tools(mask_key="mask"), "mask_key"),
        (lambda: ConcentrationTools(peeks=3), "peeks"),
        (lambda: Game2048Tools().move("north"), "direction"),
        (lambda: Game2048Tools().move(3), "direction"),  # type: ignore[arg-type]
        (lambda: ConcentrationTools().turn_card(16), "card"),
        (lambda: ConcentrationTools().turn_card("2"), "card"),  # type: ignore[arg-type]
        (lambda: ConcentrationTools().turn_card(True), "card"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.field == field


def test_the_tools_have_schemas_that_name_every_choice() -> None:
    schema = get_json_schema(Game2048Tools().move)["function"]
    assert schema["name"] == "move"
    assert schema["parameters"]["required"] == ["direction"]
    assert schema["parameters"]["properties"]["direction"]["enum"] == list(DIRECTIONS)
    schema = get_json_schema(ConcentrationTools().turn_card)["function"]
    assert schema["name"] == "turn_card"
    assert schema["parameters"]["properties"]["card"]["type"] == "integer"


@pytest.fixture
def trainer(tmp_path: Path, endpoint: str) -> Any:
    """The example's trainer, with two boards and four completions of each."""
    words = ["--tiny", "--steps", "2", "--groups", "2", "--generations", "4", "--tokens", "600"]
    words += ["--learning-rate", "1e-3", "--out", str(tmp_path), "--endpoint", endpoint]
    return grpo_2048.make_trainer(grpo_2048.parse_arguments(words))


def test_grpo_trains_a_model_that_plays_by_tool_calls(trainer: Any) -> None:
    batches: list[dict[str, Any]] = []

    def watch(environments: Any, completions: Any, seed: Any, **_: Any) -> list[float]:
        rewards = total_reward(environments)
        boards = [game.infos["moves"] for game in environments]
        batches.append({"rewards": rewards, "moves": boards, "seeds": seed, "said": completions})
        return rewards

    trainer.reward_funcs[0] = watch
    assert [tool.__name__ for tool in trainer.tools] == ["move"]
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    after = trainer.model.state_dict()
    changed = [name for name, weights in before.items() if not torch.equal(weights, after[name])]
    assert len(changed) > len(before) / 2
    assert all(torch.isfinite(weights).all() for weights in after.values())

    rows = [row for row in trainer.state.log_history if "reward" in row]
    assert len(rows) == 2
    for row in rows:
        assert row["tools/call_frequency"] > 0
        assert row["grad_norm"] > 0
        assert np.isfinite(row["loss"])
        assert row["reward_std"] > 0
    for batch in batches:
        assert np.isfinite(batch["rewards"]).all()
        assert len(set(batch["rewards"])) > 1
        assert sum(batch["moves"]) > 0
        first_answers: dict[tuple[int, str], set[str]] = {}
        for messages, seed in zip(batch["said"], batch["seeds"], strict=True):
            answers = [message["content"] for message in messages if message["role"] == "tool"]
            calls = [call for message in messages for call in message.get("tool_calls") or []]
            if answers:
                direction = calls[0]["function"]["arguments"]["direction"]
                first_answers.setdefault((seed, direction), set()).add(answers[0])
        # A group plays the same board, so the same first move gets the same answer.
        assert first_answers
        assert all(len(answers) == 1 for answers in first_answers.values())
