"""Concentration, the memory game: its arguments, its presets, and how its cards look."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold import _arguments
from twofold.envs.results import Array
from twofold.envs.single import TwofoldEnv
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.games.base import Game
from twofold.games.drawing import Colour, Grid, Picture, fill, striped_tile, tile
from twofold.games.rewards import Reward
from twofold.v1 import concentration_pb2 as concentration
from twofold.v1 import environment_pb2 as environment

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from twofold.envs.vector import BatchArguments

_MATCHED_CARDS = {
    "removed": concentration.MATCHED_CARDS_REMOVED,
    "face_up": concentration.MATCHED_CARDS_FACE_UP,
}
_ILLEGAL_ACTIONS = {
    "noop": concentration.UNTURNABLE_CARD_NOOP,
    "end_turn": concentration.UNTURNABLE_CARD_END_TURN,
    "terminate": concentration.UNTURNABLE_CARD_TERMINATE,
}
_FOUND_PAIR_WORDS = {
    _MATCHED_CARDS["removed"]: "taken out of play",
    _MATCHED_CARDS["face_up"]: "stay face up",
}
_ILLEGAL_ACTION_WORDS = {
    _ILLEGAL_ACTIONS["noop"]: "nothing happens",
    _ILLEGAL_ACTIONS["end_turn"]: "ends the turn",
    _ILLEGAL_ACTIONS["terminate"]: "ends the game",
}
_MAX_CARDS = 128


@dataclass(frozen=True)
class Preset:
    """What an argument is that is not given."""

    size: tuple[int, int]
    symbols: int | None
    peeks: int | Literal["unlimited"]
    matched_cards: Literal["removed", "face_up"]
    illegal_action: Literal["noop", "end_turn", "terminate"]
    max_episode_steps: int | None = None
    reward: dict[str, float] | None = None


def _popgym(size: tuple[int, int], steps: int) -> Preset:
    """POPGym's rules on so many cards, whose episodes have so many steps.

    Rewards and steps are those of popgym.envs.concentration in its release 1.0.7: for n cards,
    ceil(2 n - n / (2 n - 1)) steps; 2 / n for a pair; -1 / steps for each card turned in vain.
    """
    pairs = size[0] * size[1] // 2
    return Preset(
        size=size,
        symbols=2,
        peeks=0,
        matched_cards="face_up",
        illegal_action="end_turn",
        max_episode_steps=steps,
        reward={"match": 1 / pairs, "mismatch": -2 / steps, "face_up_touch": -1 / steps},
    )


PRESETS = {
    "playground": Preset(
        size=(4, 4),
        symbols=None,
        peeks="unlimited",
        matched_cards="removed",
        illegal_action="noop",
    ),
    "popgym-easy": _popgym((4, 13), 104),
    "popgym-medium": _popgym((8, 13), 208),
}


class Concentration(Game):
    """Concentration as the client has it: its request, its codes, and how its cards look."""

    environment_id = "twofold/Concentration-v0"
    board_numbers = "symbols"
    hidden = "cards"

    def __init__(self, config: concentration.ConcentrationConfig) -> None:
        super().__init__(
            environment.CreateRequest(environment_id=self.environment_id, concentration=config)
        )
        self.rows, self.columns, self.symbols = config.rows, config.columns, config.symbols
        self.cards = self.rows * self.columns

    def rules(self) -> dict[str, str | int]:
        """Size, deck, peeks, found pairs, illegal actions."""
        config = self.request.concentration
        peeks = "any number" if config.unlimited_peeks else config.peek_budget
        return {
            "size": f"{config.rows} x {config.columns}",
            "symbols": config.symbols,
            "peeks": peeks,
            "found pairs": _FOUND_PAIR_WORDS[config.matched_cards],
            "illegal action": _ILLEGAL_ACTION_WORDS[config.illegal_action],
        }

    @property
    def face_down(self) -> int:
        """How a card is observed that is face down."""
        return self.symbols

    @property
    def removed(self) -> int:
        """How a card is observed that is out of play, where its symbol is not."""
        return self.symbols + 1

    def _table(self, observation: Array) -> Array:
        """The cards (rows, columns), without the last action."""
        return observation.reshape(-1)[: self.cards].reshape(self.rows, self.columns)

    def text(self, observation: Array) -> str:
        """The cards as text: numbers from 1 on, `?` face down, `.` removed.

        ?  3  .  ?
        ?  ?  .  3
        """

        def card(code: int) -> str:
            if code < self.symbols:
                return str(code + 1)
            return "?" if code == self.face_down else "."

        width = len(str(self.symbols))
        rows = self._table(observation)
        return "\n".join("  ".join(card(int(code)).rjust(width) for code in row) for row in rows)

    def picture(self, observation: Array, size: int) -> Picture:
        """The cards on their table, each symbol a number in a colour of its own."""
        grid = Grid(self.rows, self.columns, size, gap=0.13)
        picture = fill(grid.height, grid.width, _TABLE)
        for (row, column), code in np.ndenumerate(self._table(observation)):
            if code < self.symbols:
                ink = _symbol_colour(int(code), self.symbols)
                card = tile(grid.cell, _TABLE, _FACE, str(code + 1), ink)
            elif code == self.face_down:
                card = striped_tile(grid.cell, _TABLE, _BACK, _BACK_PATTERN)
            else:
                card = tile(grid.cell, _TABLE, _GONE)
            grid.place(picture, row, column, card)
        return picture


_TABLE: Colour = (38, 92, 70)
_GONE: Colour = (34, 82, 62)
_FACE: Colour = (250, 248, 240)
_BACK: Colour = (45, 75, 130)
_BACK_PATTERN: Colour = (92, 128, 190)


def _symbol_colour(symbol: int, symbols: int) -> Colour:
    """Hues around the circle, alternately dark and less so."""
    lightness = 0.36 if symbol % 2 == 0 else 0.48
    red, green, blue = colorsys.hls_to_rgb(symbol / symbols, lightness, 0.75)
    return round(red * 255), round(green * 255), round(blue * 255)


class ConcentrationVectorEnv(TwofoldVectorEnv):
    """N games of Concentration; `gymnasium.make_vec("twofold/Concentration-v0", num_envs=N)`.

    Two cards of one symbol are a pair. An action turns one card, numbered row by row; the second
    card of a turn is visible in the observation that the step returns, and in the next both are
    face down again if they are no pair. The episode ends when all pairs are found. Where there are
    peeks, the last action shows all cards in play for one observation.

    Observations: uint8 (N, rows, columns), on each card its symbol 0 … symbols - 1 where visible,
    `symbols` where face down, `symbols + 1` where removed.

    Reward, float32, by default: 1 for a pair, -0.1 for two cards that are none and for touching a
    card that is not face down, -0.5 for a peek.

    Infos: `action_mask` int8 (N, actions), the cards that can be turned and the peek while any is
    left, all 0 on a finished game; `episode_length` int32; `pairs` int32, those found; `turns`
    int32, those ended; `peeks` int32, those used; `open_card` int32, the turn's first card, -1
    between turns.

    Infos of a step on request (`extra_infos`): `reward_terms` float32 (N, terms), each term's
    weighted part of the reward, before scale and clip; `flips` uint8 (N, rows, columns), what
    became of each card: 0 nothing, 1 turned face up, 2 turned back, 3 found its mate, 4 shown by a
    peek.

    Args:
        num_envs: Number of games N.
        preset: What the other arguments are where they are None: "playground", 4 x 4 cards, 8 pairs
            and peeks; "popgym-easy" and "popgym-medium", the observations, rewards, lengths and
            decks of POPGym's Concentration. POPGym's hard one is "popgym-easy" with symbols=13.
        size: Cards along both sides, or (rows, columns); each 1 ... 16, together an even number of
            at most 128.
        symbols: Different symbols, each on the same even number of cards; half the cards in the
            playground.
        peeks: Peeks in an episode; 0 for no such action, "unlimited" for any number.
        matched_cards: What is observed of a found pair from the next step on: "removed" or
            "face_up".
        illegal_action: What an action does that the mask forbids: "noop"; "end_turn", where an open
            card turns back too; or "terminate".
        observe_last_action: Observations become (N, cards + 1): behind the cards the last action,
            and the number of actions at the start.
        deck_info: Whether infos have `deck`, uint8 (N, rows, columns): the symbols of all cards.
        max_episode_steps: Steps after which the server truncates an episode; None for the preset's.
        autoreset_mode: As gymnasium's enum, its value or its name.
        reward: What a step earns, as a dict or a list of terms, or the path of a JSON file; None
            for the preset's. docs/rewards.md has all of them.
        copy: False for the same arrays from every reset and step, overwritten in place.
        batch: The other arguments of `TwofoldVectorEnv`: extra_infos, endpoint, obs, render_mode
            and so on.

    Raises:
        InvalidArgument: An argument is wrong; `field` tells which.
        TransportError: No server.
    """

    _game: Concentration

    def __init__(
        self,
        num_envs: int = 1,
        *,
        preset: str = "playground",
        size: int | tuple[int, int] | None = None,
        symbols: int | None = None,
        peeks: int | Literal["unlimited"] | None = None,
        matched_cards: Literal["removed", "face_up"] | None = None,
        illegal_action: Literal["noop", "end_turn", "terminate"] | None = None,
        observe_last_action: bool = False,
        deck_info: bool = False,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        reward: Reward = None,
        copy: bool = True,
        **batch: Unpack[BatchArguments],
    ) -> None:
        if not isinstance(preset, str) or preset not in PRESETS:
            raise InvalidArgument(
                f"preset is {preset!r}; expected one of {', '.join(map(repr, PRESETS))}",
                field="preset",
            )
        given = PRESETS[preset]
        config = _config(
            size=given.size if size is None else size,
            symbols=given.symbols if symbols is None else symbols,
            peeks=given.peeks if peeks is None else peeks,
            matched_cards=given.matched_cards if matched_cards is None else matched_cards,
            illegal_action=given.illegal_action if illegal_action is None else illegal_action,
            observe_last_action=observe_last_action,
            tell_deck=_arguments.boolean("deck_info", deck_info),
        )
        super().__init__(
            Concentration(config),
            num_envs,
            max_episode_steps=given.max_episode_steps
            if max_episode_steps is None
            else max_episode_steps,
            autoreset_mode=autoreset_mode,
            reward=given.reward if reward is None else reward,
            copy=copy,
            **batch,
        )


class ConcentrationEnv(TwofoldEnv):
    """One game of Concentration; `gymnasium.make("twofold/Concentration-v0")`.

    Arguments, observations, infos and errors are those of `ConcentrationVectorEnv`, for one game.
    The argument max_episode_steps truncates in the server; the one of `gymnasium.make` never gets
    here, and truncates in Gymnasium's TimeLimit.
    """

    def __init__(
        self,
        *,
        preset: str = "playground",
        size: int | tuple[int, int] | None = None,
        symbols: int | None = None,
        peeks: int | Literal["unlimited"] | None = None,
        matched_cards: Literal["removed", "face_up"] | None = None,
        illegal_action: Literal["noop", "end_turn", "terminate"] | None = None,
        observe_last_action: bool = False,
        deck_info: bool = False,
        max_episode_steps: int | None = None,
        reward: Reward = None,
        **batch: Unpack[BatchArguments],
    ) -> None:
        if "copy" in batch:
            raise TypeError("a single environment has no argument 'copy'")
        super().__init__(
            ConcentrationVectorEnv(
                1,
                preset=preset,
                size=size,
                symbols=symbols,
                peeks=peeks,
                matched_cards=matched_cards,
                illegal_action=illegal_action,
                observe_last_action=observe_last_action,
                deck_info=deck_info,
                max_episode_steps=max_episode_steps,
                reward=reward,
                autoreset_mode=AutoresetMode.DISABLED,
                **batch,
            )
        )


def _config(
    *,
    size: Any,
    symbols: Any,
    peeks: Any,
    matched_cards: Any,
    illegal_action: Any,
    observe_last_action: Any,
    tell_deck: bool,
) -> concentration.ConcentrationConfig:
    """The game's config, each argument checked."""
    sides = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2:
        raise InvalidArgument(
            f"size is {size!r}; expected an integer or (rows, columns)", field="size"
        )
    rows, columns = (_arguments.integer("size", side, 1, 16) for side in sides)
    cards = rows * columns
    if cards % 2 or cards > _MAX_CARDS:
        raise InvalidArgument(
            f"size is {size!r}, {cards} cards; expected an even number of at most {_MAX_CARDS}",
            field="size",
        )
    symbols = _arguments.integer("symbols", cards // 2 if symbols is None else symbols, 1)
    if cards % (2 * symbols):
        raise InvalidArgument(
            f"symbols is {symbols}; expected each on the same even number of the {cards} cards",
            field="symbols",
        )
    for name, value, known in (
        ("matched_cards", matched_cards, _MATCHED_CARDS),
        ("illegal_action", illegal_action, _ILLEGAL_ACTIONS),
    ):
        if not isinstance(value, str) or value not in known:
            raise InvalidArgument(
                f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}", field=name
            )
    config = concentration.ConcentrationConfig(
        rows=rows,
        columns=columns,
        symbols=symbols,
        matched_cards=_MATCHED_CARDS[matched_cards],
        illegal_action=_ILLEGAL_ACTIONS[illegal_action],
        observe_last_action=_arguments.boolean("observe_last_action", observe_last_action),
        tell_deck=tell_deck,
    )
    if isinstance(peeks, str) and peeks == "unlimited":
        config.unlimited_peeks = True
    else:
        config.peek_budget = _arguments.integer("peeks", peeks, 0, 2**31 - 1)
    return config
