"""Concentration, the memory game: its arguments, presets, texts and pictures."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.drawing import Colour, Picture, draw_board, striped_tile, tile
from twofold.games.spec import (
    SHARED_ARGUMENTS,
    Argument,
    GameArguments,
    GameSpec,
    Infos,
    Measure,
    read_arguments,
)
from twofold.v1 import concentration_pb2 as concentration

PEEK = "peek"
"""The word for the action that shows all cards."""

# The number of each value on the wire, and its words on the rule card.
_MATCHED_CARDS = {
    "removed": (concentration.MATCHED_CARDS_REMOVED, "taken out of play"),
    "face_up": (concentration.MATCHED_CARDS_FACE_UP, "stay face up"),
}
_ILLEGAL_ACTIONS = {
    "noop": (concentration.UNTURNABLE_CARD_NOOP, "nothing happens"),
    "end_turn": (concentration.UNTURNABLE_CARD_END_TURN, "ends the turn"),
    "terminate": (concentration.UNTURNABLE_CARD_TERMINATE, "ends the game"),
}
_SIDES = (1, 16)
_MAX_CARDS = 128
_UNLIMITED = "unlimited"


class ConcentrationArguments(GameArguments, total=False):
    """The arguments of Concentration; None means the preset's value, if the preset has one."""

    preset: str
    """"playground" (the default: 4 x 4 cards, 8 pairs and peeks), or "popgym-easy", "popgym-medium"
    or "popgym-hard": the observations, rewards, lengths and decks of POPGym's Concentration."""
    size: int | tuple[int, int] | None
    """The number of rows and of columns, or (rows, columns): each 1 ... 16. The total number of
    cards is even and at most 128."""
    symbols: int | None
    """The number of different symbols. Each is on the same even number of cards. By default, the
    preset's number, or half the number of cards."""
    peeks: int | Literal["unlimited"] | None
    """The number of peeks in an episode; 0 removes the action, "unlimited" allows any number."""
    matched_cards: Literal["removed", "face_up"] | None
    """The appearance of a matched pair in later observations."""
    illegal_action: Literal["noop", "end_turn", "terminate"] | None
    """The effect of an illegal action; "end_turn" also turns an open card face down."""
    observe_last_action: bool
    """Whether observations are (N, cards + 1), where the last entry is the last action or, at the
    start of an episode, the number of actions. False by default."""
    deck_info: bool
    """Whether infos contain `deck`, uint8 (N, rows, columns): the symbols of all cards. False by
    default."""


def _popgym(size: tuple[int, int], symbols: int, steps: int) -> ConcentrationArguments:
    """Returns POPGym's rules for this size, number of symbols and number of steps.

    They are the rules of popgym.envs.concentration in release 1.0.7. An episode with n cards has
    ceil(2 n - n / (2 n - 1)) steps. The reward is 2 / n for a pair, and -1 / steps for each card
    turned without finding a pair. In ConcentrationEasy (one deck of 52 cards) and
    ConcentrationMedium (two decks), the symbols are the two colours. In ConcentrationHard (one
    deck), they are the 13 ranks.
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


def _size(_: str, value: object) -> tuple[int, int]:
    rows, columns = _arguments.sides(value, *_SIDES)
    cards = rows * columns
    if cards % 2 or cards > _MAX_CARDS:
        raise InvalidArgument(
            # Avoids the word "size", because the tools for language models have rows and columns.
            f"{rows} rows of {columns} are {cards} cards; expected an even number of cards, at "
            f"most {_MAX_CARDS}",
            field="size",
        )
    return rows, columns


def _peeks(name: str, value: object) -> int | str:
    if isinstance(value, str) and value == _UNLIMITED:
        return value
    if isinstance(value, (str, float)):
        raise _arguments.wrong(name, value, f'an integer, 0 or more, or "{_UNLIMITED}"')
    return _arguments.integer(name, value, 0, 2**31 - 1)


def peeks(text: str) -> int | str:
    """Parses the value of --peeks; an error shows the name of this function."""
    return text if text == _UNLIMITED else int(text)


@dataclass(frozen=True)
class Concentration(GameSpec):
    """Concentration with its arguments.

    Attributes:
        symbols: The number of different symbols.
        cards: The number of cards.
    """

    symbols: int = 0
    cards: int = 0

    environment_id = "twofold/Concentration-v0"
    name = "concentration"
    description = "Concentration: flip two cards a turn, and find all pairs from memory"
    known_arguments: ClassVar[dict[str, Argument]] = {
        "preset": Argument(
            "playground",
            lambda name, value: _arguments.choice(name, value, PRESETS),
            {
                "metavar": "NAME",
                "help": "playground, popgym-easy, popgym-medium or popgym-hard (default: "
                "playground)",
            },
        ),
        "size": Argument(None, _size),
        "symbols": Argument(
            None,
            lambda name, value: _arguments.integer(name, value, 1),
            {
                "type": int,
                "metavar": "N",
                "help": "number of different symbols (default: the preset's, or half the cards)",
            },
        ),
        "peeks": Argument(
            None,
            _peeks,
            {
                "type": peeks,
                "metavar": "N",
                "help": "peeks per episode, or unlimited (default: the preset's)",
            },
        ),
        "matched_cards": Argument(
            None, lambda name, value: _arguments.choice(name, value, _MATCHED_CARDS)
        ),
        "illegal_action": Argument(
            None, lambda name, value: _arguments.choice(name, value, _ILLEGAL_ACTIONS)
        ),
        "observe_last_action": Argument(False, _arguments.boolean),
        "deck_info": Argument(False, _arguments.boolean),
        **SHARED_ARGUMENTS,
    }
    sides = _SIDES
    board_numbers = "symbols"
    measures = (Measure("turns_mean", "turns", np.add), Measure("pairs_mean", "pairs", np.add))
    unseen = "cards"
    endless = "turns the same two cards"
    text_arguments: ClassVar[dict[str, Any]] = {"peeks": 0}

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """Returns the game with these arguments; `ConcentrationArguments` lists them."""
        arguments = read_arguments(arguments)
        values = cls._checked(arguments)
        for name, value in cls._checked(PRESETS[values["preset"]]).items():
            if values[name] is None:
                values[name] = value
        rows, columns = values["size"]
        cards = rows * columns
        symbols = cards // 2 if values["symbols"] is None else values["symbols"]
        if cards % (2 * symbols):
            expected = f"a divisor of {cards // 2}, the number of pairs"
            raise _arguments.wrong("symbols", symbols, expected)
        peeks, matched_cards = values["peeks"], values["matched_cards"]
        config = concentration.ConcentrationConfig(
            rows=rows,
            columns=columns,
            symbols=symbols,
            **({"unlimited_peeks": True} if peeks == _UNLIMITED else {"peek_budget": peeks}),
            matched_cards=_MATCHED_CARDS[matched_cards][0],
            illegal_action=_ILLEGAL_ACTIONS[values["illegal_action"]][0],
            observe_last_action=values["observe_last_action"],
            tell_deck=values["deck_info"],
        )
        return cls(
            arguments=arguments,
            request=cls._request(values, concentration=config),
            rows=rows,
            columns=columns,
            planes=symbols + (2 if matched_cards == "removed" else 1),
            actions=(*range(cards), *((PEEK,) if peeks else ())),
            symbols=symbols,
            cards=cards,
        )

    def rules(self) -> dict[str, str | int]:
        """Returns the size, symbols, peeks, found pairs and illegal action for the rule card."""
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
        """Returns the cards (rows, columns) in an observation, without the last action."""
        return observation.reshape(-1)[: self.cards].reshape(self.rows, self.columns)

    @property
    def _signs(self) -> list[int | str]:
        """The sign of each code: symbols as numbers from 1, `?` face down, `.` out of play."""
        return [*range(1, self.symbols + 1), "?", "."]

    def text(self, observation: NDArray[np.uint8]) -> str:
        """Returns the cards as text: symbols as numbers from 1, `?` face down, `.` out of play.

        ?  3  .  ?
        ?  ?  .  3
        """
        width = len(str(self.symbols))
        signs = [f"{sign:>{width}}" for sign in self._signs]
        rows = self._table(observation)
        return "\n".join("  ".join(signs[code] for code in row) for row in rows)

    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """Draws the cards on a table; each symbol is a number in its own colour."""

        def card(code: int, side: int) -> Picture:
            if code < self.symbols:
                ink = _symbol_colour(code, self.symbols)
                return tile(side, _TABLE, _FACE, str(code + 1), ink)
            if code == self.symbols:
                return striped_tile(side, _TABLE, _BACK, _BACK_PATTERN)
            return tile(side, _TABLE, _GONE)

        return draw_board(self._table(observation), size, _TABLE, card)

    def number(self, action: object) -> int:
        """Returns the number of the action for a card's number or for the word "peek"."""
        if isinstance(action, str) and action in self.actions:
            return self.cards
        return _arguments.integer("card", action, 0, self.cards - 1)

    def facts(self, board: NDArray[Any], infos: Infos) -> dict[str, Any]:
        """Returns the cards, the numbers of pairs and turns, and the open card."""
        signs = self._signs
        open_card = infos["open_card"]
        return {
            "cards": [[signs[code] for code in row] for row in self._table(board).tolist()],
            "pairs": infos["pairs"],
            "turns": infos["turns"],
            "open_card": None if open_card < 0 else open_card,
        }

    def standing(self, infos: Infos) -> str:
        """Returns a sentence that counts the pairs found and the turns ended."""
        pairs = self.cards // 2
        return f"Pairs found: {infos['pairs']} of {pairs}. Turns ended: {infos['turns']}."

    def choices(self, legal: list[Any], infos: Infos) -> str:
        """Returns a sentence that asks for the next card."""
        open_card = infos["open_card"]
        if open_card >= 0:
            return f"Card {open_card} is face up: find its match."
        return f"Turn a card, 0 ... {self.cards - 1}, numbered row by row."

    def refusal(self, number: int, board: NDArray[Any]) -> str:
        """Returns why flipping the card, or peeking, is illegal."""
        if number == self.cards:
            return "No peek is left"
        is_gone = board.flat[number] > self.symbols
        return f"Card {number} is {'out of play' if is_gone else 'face up already'}"

    def outcome(self, number: int, board: NDArray[Any], before: Infos, infos: Infos) -> str:
        """Returns a sentence that names the card's symbol and compares it with the open card."""
        if not before["action_mask"][number]:
            turned_back = before["open_card"] >= 0 > infos["open_card"]
            end = ", and your turn ends" if turned_back else ""
            return f"{self.refusal(number, board)}{end}."
        if number == self.cards:
            return ""
        symbol, first = board.flat[number] + 1, f"card {before['open_card']}"
        if before["open_card"] < 0:
            return f"Card {number} shows {symbol}."
        if infos["pairs"] > before["pairs"]:
            return f"Card {number} shows {symbol}, and so does {first}: a pair."
        return f"Card {number} shows {symbol}, unlike {first}: both are turned back after this."

    def end(self, infos: Infos, is_legal: bool) -> str:
        """Returns why the game ended: all pairs are found, or an illegal action."""
        return "all pairs are found" if is_legal else "that action was illegal"


_TABLE: Colour = (38, 92, 70)
_GONE: Colour = (34, 82, 62)
_FACE: Colour = (250, 248, 240)
_BACK: Colour = (45, 75, 130)
_BACK_PATTERN: Colour = (92, 128, 190)


def _symbol_colour(symbol: int, symbols: int) -> Colour:
    """Returns a symbol's colour. Hues go round the colour wheel, alternately dark and light."""
    lightness = 0.36 if symbol % 2 == 0 else 0.48
    red, green, blue = colorsys.hls_to_rgb(symbol / symbols, lightness, 0.75)
    return round(red * 255), round(green * 255), round(blue * 255)
