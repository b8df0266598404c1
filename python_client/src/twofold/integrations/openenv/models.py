"""The messages between clients and the server: OpenEnv's actions, observations and states.

Clients read the descriptions of the fields in the server's schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from twofold._optional import optional_import
from twofold.games.game2048 import DIRECTIONS

_PURPOSE = "the games of twofold.integrations.openenv"
_types: Any = optional_import("openenv.core.env_server.types", _PURPOSE, "openenv")
Field: Any = optional_import("pydantic", _PURPOSE, "openenv").Field

_EPISODE_ID = (
    "The key to this episode. When the connection is lost, `reset` with this `episode_id` on a new "
    "connection goes on where the episode was, and shuts the old connection out. A `reset` without "
    "it, or with an id that the server does not know, starts another episode. The server keeps the "
    "episodes of lost connections for a limited time, and a limited number of them. Whoever knows "
    "the id can play on, so leave it out of `reset` to get one that can't be guessed."
)
_STEP = (
    "Steps that the episode has taken. Send it as the next action's `step`, and no action is "
    "carried out twice, however often it is sent"
)


class _Action(_types.Action):  # type: ignore[misc]  # mypy does not see the library
    """The fields of all actions."""

    step: int | None = Field(
        default=None,
        ge=0,
        strict=True,
        description=(
            "The number of steps that the episode has taken, as its last observation gave it. "
            "With the number before, the same action gets the stored observation again, and "
            "nothing is played. All other numbers are refused. Without `step` each action is "
            "played."
        ),
    )


class _Observation(_types.Observation):  # type: ignore[misc]  # mypy does not see the library
    """The fields of all observations."""

    text: str = Field(description="The board as text")
    message: str = Field(
        default="",
        description="Why an action did nothing, or how the episode ended; empty otherwise",
    )
    terminated: bool = Field(default=False, description="Whether the game is over")
    truncated: bool = Field(
        default=False, description="Whether the limit of steps has ended the episode"
    )
    step: int = Field(description=_STEP)
    episode_id: str = Field(description=_EPISODE_ID)
    resumed: bool = Field(
        default=False,
        description="Whether `reset` has gone on with a known episode. The observation is that of "
        "its last step, with that step's reward",
    )


class _State(_types.State):  # type: ignore[misc]  # mypy does not see the library
    """The fields of all states, which are empty without an episode."""

    episode_id: str | None = Field(default=None, description=_EPISODE_ID)
    step_count: int = Field(default=0, ge=0, description=_STEP)
    seed: int | None = Field(
        default=None,
        description="The seed of the episode, drawn by the server if `reset` had none. The same "
        "seed, arguments and actions give the same boards",
    )
    episode_return: float = Field(default=0.0, description="The sum of the episode's rewards")
    terminated: bool = Field(default=False, description="Whether the game is over")
    truncated: bool = Field(
        default=False, description="Whether the limit of steps has ended the episode"
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="The arguments of the game, where they are not its own"
    )


class Game2048Action(_Action):
    """One slide of all tiles."""

    direction: (
        Literal["up", "right", "down", "left"] | Annotated[int, Field(ge=0, le=3, strict=True)]
    ) = Field(
        description="Where the tiles slide: the word, or its number: 0 up, 1 right, 2 down, 3 left"
    )

    @property
    def word(self) -> str:
        """The direction's word."""
        given = self.direction
        return DIRECTIONS[given] if isinstance(given, int) else given


class Game2048Observation(_Observation):
    """A board of 2048."""

    board: list[list[int]] = Field(description="The tiles row by row, 0 for an empty cell")
    legal_actions: list[str] = Field(description="The directions that move a tile")
    score: int = Field(description="The sum of the values of all merged tiles")
    highest_tile: int = Field(description="The value of the highest tile")


class Game2048State(_State):
    """The state of an episode of 2048."""

    score: int = Field(default=0, description="The sum of the values of all merged tiles")
    highest_tile: int = Field(default=0, description="The value of the highest tile")
    goal_reached: bool = Field(
        default=False, description="Whether the highest tile is the goal or above"
    )


class ConcentrationAction(_Action):
    """One card flipped, or a peek."""

    card: Annotated[int, Field(ge=0, strict=True)] | Literal["peek"] = Field(
        description="The card to flip, numbered row by row from 0; or peek, where the game has "
        "peeks, to see all cards in play once"
    )

    @property
    def word(self) -> int | str:
        """The card's number, or "peek"."""
        return self.card


class ConcentrationObservation(_Observation):
    """The cards of Concentration, as they are visible now."""

    cards: list[list[int | Literal["?", "."]]] = Field(
        description="The cards row by row: the symbol of a visible one, from 1 on; ? for a card "
        "that is face down, and . for one out of play"
    )
    legal_actions: list[int | Literal["peek"]] = Field(
        description="The cards that can be flipped, and peek while one is left"
    )
    pairs: int = Field(description="Pairs found")
    turns: int = Field(description="Turns ended")
    peeks: int = Field(description="Peeks used")
    open_card: int | None = Field(description="The turn's first card, None between turns")


class ConcentrationState(_State):
    """The state of an episode of Concentration."""

    pairs: int = Field(default=0, description="Pairs found")
    turns: int = Field(default=0, description="Turns ended")
    peeks: int = Field(default=0, description="Peeks used")


class GameModels(NamedTuple):
    """The types of what is sent for a game."""

    action: Any
    observation: Any
    state: Any


MODELS = {
    "2048": GameModels(Game2048Action, Game2048Observation, Game2048State),
    "concentration": GameModels(ConcentrationAction, ConcentrationObservation, ConcentrationState),
}
