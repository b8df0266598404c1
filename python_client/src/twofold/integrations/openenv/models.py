"""The messages between clients and the server: OpenEnv's actions, observations and states.

The server's schema contains the fields' descriptions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from twofold._optional import optional_import
from twofold.games.game2048 import DIRECTIONS

_PURPOSE = "the games of twofold.integrations.openenv"
_types: Any = optional_import("openenv.core.env_server.types", _PURPOSE, "openenv")
Field: Any = optional_import("pydantic", _PURPOSE, "openenv").Field

_EPISODE_ID = (
    "The episode's id. If the connection is lost, `reset` with this `episode_id` on a new "
    "connection continues the episode, and the old connection can no longer play it. A `reset` "
    "without an id, or with an id that the server does not know, starts another episode. The "
    "server keeps a limited number of lost connections' episodes, for a limited time. Anyone "
    "who knows the id can continue the episode; omit it from `reset` to get an unguessable id."
)
_STEP = (
    "The number of steps taken in the episode. Send it as the next action's `step`, and that "
    "action is executed at most once, however often it is sent"
)


class _Action(_types.Action):  # type: ignore[misc]  # mypy does not see the library
    """The fields that all actions have."""

    step: int | None = Field(
        default=None,
        ge=0,
        strict=True,
        description=(
            "The number of steps taken in the episode, from the last observation. If the number "
            "is one less and the action is the same, it is a repeat, which returns the stored "
            "observation and plays nothing. Other numbers are refused. An action without `step` "
            "is always played."
        ),
    )


class _Observation(_types.Observation):  # type: ignore[misc]  # mypy does not see the library
    """The fields that all observations have."""

    text: str = Field(description="The board as text")
    message: str = Field(
        default="",
        description="The reason why an action did nothing or the episode ended; otherwise empty",
    )
    terminated: bool = Field(default=False, description="Whether the game is over")
    truncated: bool = Field(default=False, description="Whether the step limit ended the episode")
    step: int = Field(description=_STEP)
    episode_id: str = Field(description=_EPISODE_ID)
    resumed: bool = Field(
        default=False,
        description="Whether `reset` continued a known episode. Then this is the observation of "
        "its last step, with that step's reward",
    )


class _State(_types.State):  # type: ignore[misc]  # mypy does not see the library
    """The fields that all states have. The fields are empty before the first episode."""

    episode_id: str | None = Field(default=None, description=_EPISODE_ID)
    step_count: int = Field(default=0, ge=0, description=_STEP)
    seed: int | None = Field(
        default=None,
        description="The seed of the episode, drawn by the server if `reset` gave none. The same "
        "seed, arguments and actions give the same boards",
    )
    episode_return: float = Field(default=0.0, description="The sum of the episode's rewards")
    terminated: bool = Field(default=False, description="Whether the game is over")
    truncated: bool = Field(default=False, description="Whether the step limit ended the episode")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="The game's arguments that differ from its defaults"
    )


class Game2048Action(_Action):
    """A slide of all tiles."""

    direction: (
        Literal["up", "right", "down", "left"] | Annotated[int, Field(ge=0, le=3, strict=True)]
    ) = Field(
        description="The direction to slide the tiles, or its number: 0 up, 1 right, 2 down, 3 left"
    )

    @property
    def word(self) -> str:
        """The direction's name."""
        given = self.direction
        return DIRECTIONS[given] if isinstance(given, int) else given


class Game2048Observation(_Observation):
    """A 2048 board."""

    board: list[list[int]] = Field(description="The tiles row by row, 0 for an empty cell")
    legal_actions: list[str] = Field(description="The directions that move a tile")
    score: int = Field(description="The sum of the values of all merged tiles")
    highest_tile: int = Field(description="The value of the highest tile")


class Game2048State(_State):
    """The state of a 2048 episode."""

    score: int = Field(default=0, description="The sum of the values of all merged tiles")
    highest_tile: int = Field(default=0, description="The value of the highest tile")
    goal_reached: bool = Field(
        default=False, description="Whether the highest tile has reached the goal"
    )


class ConcentrationAction(_Action):
    """A flip of one card, or a peek."""

    card: Annotated[int, Field(ge=0, strict=True)] | Literal["peek"] = Field(
        description="The number of the card to flip, row by row from 0; or peek, if the game has "
        "peeks, to see all cards in play once"
    )

    @property
    def word(self) -> int | str:
        """The card's number, or "peek"."""
        return self.card


class ConcentrationObservation(_Observation):
    """The visible state of the cards in Concentration."""

    cards: list[list[int | Literal["?", "."]]] = Field(
        description="The cards row by row: the symbol (from 1) of a visible card, ? for a card "
        "that is face down, . for a card out of play"
    )
    legal_actions: list[int | Literal["peek"]] = Field(
        description="The cards that can be flipped, and peek while peeks are left"
    )
    pairs: int = Field(description="The number of pairs found")
    turns: int = Field(description="The number of turns ended")
    peeks: int = Field(description="The number of peeks used")
    open_card: int | None = Field(description="The turn's first card; None between turns")


class ConcentrationState(_State):
    """The state of a Concentration episode."""

    pairs: int = Field(default=0, description="The number of pairs found")
    turns: int = Field(default=0, description="The number of turns ended")
    peeks: int = Field(default=0, description="The number of peeks used")


class GameModels(NamedTuple):
    """The types of a game's messages."""

    action: Any
    observation: Any
    state: Any


MODELS = {
    "2048": GameModels(Game2048Action, Game2048Observation, Game2048State),
    "concentration": GameModels(ConcentrationAction, ConcentrationObservation, ConcentrationState),
}
