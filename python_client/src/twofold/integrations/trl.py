"""Games for TRL's `GRPOTrainer(environment_factory=...)`.

    GRPOTrainer(
        ...,
        environment_factory=functools.partial(Game2048Tools, reward={"merge_exponent": 0.1}),
        reward_funcs=total_reward,
    )

TRL makes an object for each rollout of a batch and resets it for the next batch. The public methods
except `reset` are the tools that the model may call. Their docstrings explain the tools to the
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import Unpack

from twofold.envs.concentration import ConcentrationEnvArguments
from twofold.envs.game2048 import Game2048EnvArguments
from twofold.integrations.text_games import TextGame


class GameTools:
    """The base class of both games' tools."""

    _game: TextGame

    def reset(self, seed: int | None = None, **columns: object) -> str:
        """Starts a new episode for a row of the dataset. TRL passes the row's columns.

        Args:
            seed: The board's seed. All completions of a row get the same seed, so they get the same
                board. None continues the board's random stream.
            columns: The row's other columns, which are ignored.

        Returns:
            The board as text, which TRL appends to the prompt.

        Raises:
            InvalidArgument: The seed is not an integer, or is negative.
            TransportError: No server answered.
        """
        self._game.start(seed)
        return f"\n\n{self._game.text()}"

    # Properties, because TRL would offer public methods to the model as tools.
    @property
    def reward(self) -> float:
        """The sum of the episode's rewards."""
        return self._game.reward

    @property
    def infos(self) -> dict[str, Any]:
        """The environment's infos (score, pairs …) from the last step."""
        return self._game.infos

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self._game.end)


class Game2048Tools(GameTools):
    """A game of 2048 for a language model.

    Args:
        arguments: Arguments of `Game2048Env` (size, goal, reward, max_episode_steps, endpoint …),
            except the ones for the form of observations.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """

    def __init__(self, **arguments: Unpack[Game2048EnvArguments]) -> None:
        self._game = TextGame.for_models("2048", arguments)

    def move(self, direction: str) -> str:
        """Slide all tiles of the 2048 board in one direction.

        Equal tiles that meet merge. If anything moved, a new tile then appears.

        Args:
            direction: The direction to slide the tiles. (choices: ["up", "right", "down", "left"])

        Returns:
            The board, with the score and the legal directions.
        """
        return self._game.play(direction)


class ConcentrationTools(GameTools):
    """A game of Concentration for a language model, without peeks.

    Args:
        arguments: Arguments of `ConcentrationEnv` (preset, size, reward, max_episode_steps,
            endpoint …), except peeks and the arguments for the form of observations.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """

    def __init__(self, **arguments: Unpack[ConcentrationEnvArguments]) -> None:
        self._game = TextGame.for_models("concentration", arguments)

    def turn_card(self, card: int) -> str:
        """Turn one card face up. Two cards with the same symbol, turned in succession, form a pair.

        Args:
            card: The card's number, counted row by row from 0.

        Returns:
            The cards: a symbol for a visible card, ? for a face-down card, . for one out of play.
        """
        return self._game.play(card)


def total_reward(environments: Sequence[GameTools], **columns: object) -> list[float]:
    """Returns each completion's total reward. TRL calls it as a reward function.

    Args:
        environments: The games of the batch, passed by TRL.
        columns: The completions and the dataset's columns, which are ignored.
    """
    return [game.reward for game in environments]
