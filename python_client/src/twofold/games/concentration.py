"""Concentration, the memory game: its arguments, presets, and how its cards look."""

from __future__ import annotations

import colorsys
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.spec import Game, GameArguments, Measure
from twofold.games.drawing import Colour, Picture, draw_board, striped_tile, tile
from twofold.v1 import concentration_pb2 as concentration
from twofold.v1 import environment_pb2 as environment

# The wire's number of each, and the words for the rule card.
_MATCHED_CARDS = {
    "removed": (concentration.MATCHED_CARDS_REMOVED, "taken out of play"),
    "face_up": (concentration.MATCHED_CARDS_FACE_UP, "stay face up"),
}
_ILLEGAL_ACTIONS = {
    "noop": (concentration.UNTURNABLE_CARD_NOOP, "nothing happens"),
    "end_turn": (concentration.UNTURNABLE_CARD_END_TURN, "ends the turn"),
    "terminate": (concentration.UNTURNABLE_CARD_TERMINATE, "ends the game"),
}
_MAX_CARDS = 128


class ConcentrationArguments(GameArguments, total=False):
    """The arguments of Concentration; None for the preset's where it has the argument."""

    preset: str
    """"playground", 4 x 4 cards, 8 pairs and peeks, by default; "popgym-easy", "popgym-medium" and
    "popgym-hard", the observations, rewards, lengths and decks of POPGym's Concentration."""
    size: int | tuple[int, int] | None
    """Cards along both sides, or (rows, columns); each 1 ... 16, together an even number of at most
    128."""
    symbols: int | None
    """Different symbols, each on the same even number of cards; half the cards by default."""
    peeks: int | Literal["unlimited"] | None
    """Peeks in an episode; 0 removes the action, "unlimited" allows any number."""
    matched_cards: Literal["removed", "face_up"] | None
    """How the cards of a found pair are observed from the next step on."""
    illegal_action: Literal["noop", "end_turn", "terminate"] | None
    """The effect of an action that the mask forbids; "end_turn" turns an open card back too."""
    observe_last_action: bool
    """Whether observations become (N, cards + 1): behind the cards the last action, and at the
    start the number of actions. False by default."""
    deck_info: bool
    """Whether infos have `deck`, uint8 (N, rows, columns): the symbols of all cards. False by
    default."""


def _popgym(size: tuple[int, int], symbols: int, steps: int) -> ConcentrationArguments:
    """POPGym's rules on so many cards with so many symbols, in episodes of so many steps.

    As in popgym.envs.concentration of its release 1.0.7. For n cards: ceil(2 n - n / (2 n - 1))
    steps; 2 / n for a pair; -1 / steps for each card turned in vain. ConcentrationEasy has one deck
    of 52 cards and ConcentrationMedium two, with the two colours as symbols; ConcentrationHard has
    one, with the 13 ranks.
    """
    pairs = size[0] * size[1] // 2
    return {
        "size": size,
        "symbols": symbols,
        "peeks": 0,
        "matched_cards": "face_up",
        "illegal_action": "end_turn",
        "max_episode_steps": steps,
        "reward": {"match": 1 / pairs, "mismatch": -2 / steps, "face_up_touch": -1 / steps},
    }


PRESETS: dict[str, ConcentrationArguments] = {
    "playground": {
        "size": (4, 4),
        "peeks": "unlimited",
        "matched_cards": "removed",
        "illegal_action": "noop",
    },
    "popgym-easy": _popgym((4, 13), 2, 104),
    "popgym-medium": _popgym((8, 13), 2, 208),
    "popgym-hard": _popgym((4, 13), 13, 104),
}


class Concentration(Game):
    """Concentration as the client has it: its request, its codes, and how its cards look."""

    environment_id = "twofold/Concentration-v0"
    argument_names = frozenset(ConcentrationArguments.__optional_keys__)
    board_numbers = "symbols"
    measures = (Measure("turns_mean", "turns", np.add), Measure("pairs_mean", "pairs", np.add))
    unseen = "cards"

    def __init__(self, **arguments: Unpack[ConcentrationArguments]) -> None:
        preset = arguments.get("preset", "playground")
        chosen: dict[str, Any] = dict(arguments)
        for name, value in PRESETS[_arguments.choice("preset", preset, PRESETS)].items():
            if chosen.get(name) is None:
                chosen[name] = value
        config = _config(chosen)
        super().__init__(
            environment.CreateRequest(environment_id=self.environment_id, concentration=config),
            max_episode_steps=chosen.get("max_episode_steps"),
            reward=chosen.get("reward"),
        )
        self.rows, self.columns, self.symbols = config.rows, config.columns, config.symbols
        self.cards = self.rows * self.columns
        self.planes = self.symbols + (2 if chosen["matched_cards"] == "removed" else 1)

    def rules(self) -> dict[str, str | int]:
        """Size, deck, peeks, found pairs, illegal actions."""
        config = self.request.concentration
        peeks = "any number" if config.unlimited_peeks else config.peek_budget
        return {
            "size": f"{config.rows} x {config.columns}",
            "symbols": config.symbols,
            "peeks": peeks,
            "found pairs": dict(_MATCHED_CARDS.values())[config.matched_cards],
            "illegal action": dict(_ILLEGAL_ACTIONS.values())[config.illegal_action],
        }

    def _table(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The cards (rows, columns), without the last action."""
        return observation.reshape(-1)[: self.cards].reshape(self.rows, self.columns)

    def text(self, observation: NDArray[np.uint8]) -> str:
        """The cards as text: numbers from 1 on, `?` face down, `.` out of play.

        ?  3  .  ?
        ?  ?  .  3
        """

        def card(code: int) -> str:
            if code < self.symbols:
                return str(code + 1)
            return "?" if code == self.symbols else "."

        width = len(str(self.symbols))
        rows = self._table(observation)
        return "\n".join("  ".join(card(int(code)).rjust(width) for code in row) for row in rows)

    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """The cards on their table, each symbol a number in a colour of its own."""

        def card(code: int, side: int) -> Picture:
            if code < self.symbols:
                ink = _symbol_colour(code, self.symbols)
                return tile(side, _TABLE, _FACE, str(code + 1), ink)
            if code == self.symbols:
                return striped_tile(side, _TABLE, _BACK, _BACK_PATTERN)
            return tile(side, _TABLE, _GONE)

        return draw_board(self._table(observation), size, _TABLE, card)


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


def _config(arguments: dict[str, Any]) -> concentration.ConcentrationConfig:
    """The game's config, each argument checked."""
    size = arguments["size"]
    rows, columns = _arguments.sides(size, 1, 16)
    cards = rows * columns
    if cards % 2 or cards > _MAX_CARDS:
        raise InvalidArgument(
            f"size is {size!r}, {cards} cards; expected an even number of at most {_MAX_CARDS}",
            field="size",
        )
    symbols = arguments.get("symbols")
    symbols = _arguments.integer("symbols", cards // 2 if symbols is None else symbols, 1)
    if cards % (2 * symbols):
        raise InvalidArgument(
            f"symbols is {symbols}; expected each on the same even number of the {cards} cards",
            field="symbols",
        )
    matched_cards = _arguments.choice("matched_cards", arguments["matched_cards"], _MATCHED_CARDS)
    illegal_action = arguments["illegal_action"]
    _arguments.choice("illegal_action", illegal_action, _ILLEGAL_ACTIONS)
    observe_last_action = arguments.get("observe_last_action", False)
    config = concentration.ConcentrationConfig(
        rows=rows,
        columns=columns,
        symbols=symbols,
        matched_cards=_MATCHED_CARDS[matched_cards][0],
        illegal_action=_ILLEGAL_ACTIONS[illegal_action][0],
        observe_last_action=_arguments.boolean("observe_last_action", observe_last_action),
        tell_deck=_arguments.boolean("deck_info", arguments.get("deck_info", False)),
    )
    peeks = arguments["peeks"]
    if isinstance(peeks, str) and peeks == "unlimited":
        config.unlimited_peeks = True
    else:
        config.peek_budget = _arguments.integer("peeks", peeks, 0, 2**31 - 1)
    return config
