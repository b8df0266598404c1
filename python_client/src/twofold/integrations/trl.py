"""TRL: games for `GRPOTrainer(environment_factory=...)`.

    GRPOTrainer(
        ...,
        environment_factory=functools.partial(Game2048Tools, reward={"merge_exponent": 0.1}),
        reward_funcs=total_reward,
    )

TRL makes an object for each rollout of a batch and resets it for the next; its public methods but
`reset` are the tools that the model may call, described to it by their docstrings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import Unpack

from twofold.envs.concentration import ConcentrationEnvArguments
from twofold.envs.game2048 import Game2048EnvArguments
from twofold.integrations.text_games import TextGame


class GameTools:
    """The common part of both games' tools."""

    _game: TextGame

    def reset(self, seed: int | None = None, **columns: object) -> str:
        """Starts a new episode; TRL calls it with the columns of the dataset's row.

        Args:
            seed: The board's seed. All completions of a row get the same seed, and so the same
                board. None continues the board's own stream of random numbers.
            columns: The others, which are not used.

        Returns:
            The board as text, which TRL appends to the prompt.

        Raises:
            InvalidArgument: The seed is not an integer from 0 on.
            TransportError: No server.
        """
        self._game.start(seed)
        return f"\n\n{self._game.text()}"

    # Properties, because functions would be tools.
    @property
    def reward(self) -> float:
        """The sum of the episode's rewards."""
        return self._game.reward

    @property
    def infos(self) -> dict[str, Any]:
        """The environment's infos (score, pairs …) of the last step."""
        return self._game.infos

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self._game.end)


class Game2048Tools(GameTools):
    """A game of 2048 for a language model.

    Args:
        arguments: See `Game2048Env` (size, goal, reward, max_episode_steps, endpoint …)
            without the form of its observations.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server.
    """

    def __init__(self, **arguments: Unpack[Game2048EnvArguments]) -> None:
        self._game = TextGame.for_models("2048", arguments)

    def move(self, direction: str) -> str:
        """Slide all tiles of the 2048 board in one direction.

        Equal tiles that meet merge. Then a new tile appears, if anything has moved.

        Args:
            direction: Where the tiles slide. (choices: ["up", "right", "down", "left"])

        Returns:
            The board, with the score and the legal directions.
        """
        return self._game.play(direction)


class ConcentrationTools(GameTools):
    """A game of Concentration for a language model, without peeks.

    Args:
        arguments: See `ConcentrationEnv` (preset, size, reward, max_episode_steps, endpoint …)
            without peeks and the form of its observations.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server.
    """

    def __init__(self, **arguments: Unpack[ConcentrationEnvArguments]) -> None:
        self._game = TextGame.for_models("concentration", arguments)

    def turn_card(self, card: int) -> str:
        """Turn one card face up. Two cards of one symbol, turned one after the other, are a pair.

        Args:
            card: The number of the card, counted row by row from 0.

        Returns:
            The cards: the symbol of a visible one, ? for face down, . for out of play.
        """
        return self._game.play(card)


def total_reward(environments: Sequence[GameTools], **columns: object) -> list[float]:
    """Returns for each completion the sum of its episode's rewards, as a reward function.

    Args:
        environments: The games of the batch; TRL passes them.
        columns: The completions, and the dataset's columns, which are not used.
    """
    return [game.reward for game in environments]
