"""Chat models as players, with a separate conversation for each move."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.system import allow_open_files
from twofold.errors import InvalidArgument
from twofold.games.encoding import tile_values
from twofold.games.game2048 import Game2048
from twofold.judging.players import Choice, Failure, game_of, in_thread
from twofold.judging.runner import DIRECTIONS

if TYPE_CHECKING:
    from twofold.judging.chat_api import Message

PROMPT = """\
You are playing 2048. A move slides all tiles up, right, down or left as far as they go. Two equal \
tiles that meet become one tile of twice their value, and that value is added to the score; a tile \
merges once in a move. Then a new tile, a 2 or a 4, appears in an empty cell. The game ends when \
no move changes the board. Play for the highest score.

The board, row by row from the top, 0 for an empty cell:
{board}

Moves that change the board: {legal}.
Choose one of them. End your reply with its name; the last direction that you name is your move."""
"""The prompt for each move, with the fields {board} and {legal}."""

# ASCII only, because Unicode has two more letters that match "i" regardless of case. Not \b, which
# treats the underscores of Markdown's emphasis as letters.
_WORD = re.compile(rf"(?<![^\W_])((?ai:{'|'.join(DIRECTIONS)}))(?![^\W_])")

_LONGEST_REPEATED = 1_000  # characters


def read_move(text: str) -> str | None:
    r"""Returns the move in a reply: the last of the words up, right, down and left, in any case.

    For example, "left", {"move": "left"} and \boxed{left} mean the same. Text up to the last
    </think> is ignored. A reply with an unclosed <think> names no move.
    """
    answer = _answer(text)
    if "<think>" in answer:
        return None
    words = _WORD.findall(answer)
    return words[-1].lower() if words else None


def _answer(reply: str) -> str:
    return reply.rpartition("</think>")[2]


@dataclass(frozen=True)
class ChatModel:
    """A chat model at an OpenAI-compatible endpoint. Pass it to `twofold.evaluate` to play 2048.

    Each move is a separate conversation: the prompt shows the board, and `read_move` reads the move
    from the reply. If a reply names no move (malformed) or a move that changes nothing (illegal),
    the model is corrected and asked again, at most `retries` times. After that, the game fails.

    Attributes:
        url: The endpoint's URL without /chat/completions, such as http://127.0.0.1:8000/v1.
        model: The model's name at the endpoint.
        prompt: The prompt for each move, with {board} and {legal}.
        options: Additional request fields, such as {"temperature": 0, "max_tokens": 500}.
        retries: The maximum number of corrections per move.
        timeout: The time limit in seconds for one request, from connecting to the reply's last
            byte.
        api_key: The API key. Defaults to the environment variable OPENAI_API_KEY, if it is set.
    """

    url: str = field(repr=False)
    model: str
    prompt: str = PROMPT
    options: Mapping[str, Any] = field(default_factory=dict)
    retries: int = 2
    timeout: float = 120.0
    api_key: str | None = field(default=None, repr=False)

    episodes = 10
    """The default number of games. It is small because each game costs money."""
    lanes = 8
    """The default number of boards played at once, which is also the number of open requests."""
    card: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        _arguments.text("model", self.model)
        _check_options(self.options)
        _arguments.integer("retries", self.retries, 0, 100)
        _arguments.seconds("timeout", self.timeout)
        if "{board}" not in _arguments.text("prompt", self.prompt):
            raise InvalidArgument("prompt lacks the field {board}; add it", field="prompt")

    @property
    def name(self) -> str:
        """The model's name, for reports."""
        return self.model

    def conditions(self) -> dict[str, Any]:
        """Returns the rule card's entry about illegal actions."""
        corrections = "1 correction" if self.retries == 1 else f"{self.retries} corrections"
        return {"illegal action": f"the game ends after {corrections}"}

    def make(self, envs: VectorEnv[Any, Any, Any]) -> ChatPlayer:
        """Returns the player for a 2048 environment.

        Raises:
            InvalidArgument: The environment's game is not 2048, or the URL is malformed.
        """
        # Each board has a connection, and perhaps an earlier one whose time limit has passed.
        allow_open_files(2 * envs.num_envs + 256)
        return ChatPlayer(self, game_of(envs))


def _check_options(options: object) -> None:
    """Raises InvalidArgument if `options` can't be sent as request fields."""
    try:
        if not isinstance(options, Mapping) or options.get("stream"):
            raise ValueError("expected a mapping that does not set `stream`")
        for name in ("model", "messages"):
            if name in options:
                raise ValueError(f"Twofold itself sets {name!r}")
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"options can't be sent as request fields: {error}", field="options"
        ) from None


class ChatPlayer:
    """A player that asks a chat model for each move."""

    def __init__(self, chat: ChatModel, game: Game2048) -> None:
        # because: HTTP and TLS would take a tenth of the time to import twofold
        from twofold.judging.chat_api import ChatEndpoint

        key = os.environ.get("OPENAI_API_KEY", "") if chat.api_key is None else chat.api_key
        self._chat, self._game = chat, game
        self._endpoint = ChatEndpoint(chat.url, key, chat.timeout)
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ("moves", "requests", "completions", "malformed", "illegal", "without_usage"), 0
        )
        self._tokens = {"prompt_tokens": 0, "completion_tokens": 0}
        self._seconds = 0.0

    def begin(self, lanes: NDArray[np.intp], seeds: NDArray[np.uint64]) -> None:
        """Does nothing, because a move's conversation does not depend on earlier moves."""

    def choose(
        self, boards: NDArray[Any], action_mask: NDArray[Any], lanes: NDArray[np.intp]
    ) -> list[Choice]:
        """Requests the moves for all boards at once, each in its own daemon thread.

        The first error is raised immediately, without waiting for the other threads.

        Raises:
            ModelUnavailable, ResourceExhausted: See `ChatEndpoint.complete`.
        """
        moves = [
            in_thread("twofold-chat", self._move, board, mask)
            for board, mask in zip(boards, action_mask, strict=True)
        ]
        for move in futures.wait(moves, return_when=futures.FIRST_EXCEPTION).done:
            move.result()  # raises the error, if any
        return [move.result() for move in moves]

    def _move(self, board: NDArray[Any], mask: NDArray[Any]) -> Choice:
        """Chooses the move for one board. Runs in a separate thread for each board."""
        # In the order of DIRECTIONS, not of the environment's action numbers.
        legal = [each for each in DIRECTIONS if mask[self._game.number(each)] == 1]
        start = time.perf_counter()
        messages: list[Message] = [{"role": "user", "content": self._question(board, legal)}]
        for _ in range(self._chat.retries + 1):
            direction, reply, failure = self._ask(messages, legal)
            if failure is None:
                break
            correction = f"{failure.detail}. Moves that change the board: {', '.join(legal)}."
            correction += " Reply with one of them."
            if reply:
                messages.append({"role": "assistant", "content": reply})
            else:
                # Some models' templates refuse two user messages in a row.
                correction = f"{messages.pop()['content']}\n\n{correction}"
            messages.append({"role": "user", "content": correction})
        with self._lock:
            self._counts["moves"] += 1
            self._seconds += time.perf_counter() - start
        return failure or self._game.number(direction)

    def _question(self, board: NDArray[Any], legal: list[str]) -> str:
        rows = "\n".join(" ".join(map(str, row)) for row in tile_values(board))
        prompt = self._chat.prompt.replace("{legal}", ", ".join(legal))
        return prompt.replace("{board}", rows)

    def _ask(self, messages: list[Message], legal: list[str]) -> tuple[str, str, Failure | None]:
        """Asks the model once. Returns the direction that it names, and the text to repeat to it.

        If the reply is cut off, or names no direction or an illegal one, also returns a failure.
        Only the end of the reply's answer is repeated, and nothing of an empty or cut-off reply,
        because services refuse requests that contain an empty message or exceed the model's
        context.
        """
        reply = self._endpoint.complete(messages, {**self._chat.options, "model": self._chat.model})
        direction, failure = read_move(reply.text), None
        if reply.is_cut:
            failure = Failure("malformed", "The reply was cut off by its limit on tokens")
        elif direction is None:
            failure = Failure("malformed", "The reply names no direction")
        elif direction not in legal:
            failure = Failure("illegal", f"The move {direction} does not change the board")
        with self._lock:
            self._counts["completions"] += 1
            self._counts["requests"] += reply.attempts
            if failure is not None:
                self._counts[failure.reason] += 1
            used = reply.prompt_tokens, reply.completion_tokens
            self._counts["without_usage"] += None in used
            for name, tokens in zip(self._tokens, used, strict=True):
                self._tokens[name] += tokens or 0
        repeated = "" if reply.is_cut else _answer(reply.text).strip()[-_LONGEST_REPEATED:]
        return direction or "", repeated, failure

    def summary(self) -> Mapping[str, Any]:
        """Returns the numbers of requests, bad replies and tokens, and the mean time per move."""
        counts = dict(self._counts)
        without, completions = counts.pop("without_usage"), counts["completions"]
        tokens = {name: None if without == completions else n for name, n in self._tokens.items()}
        return {
            **counts,
            **tokens,
            "completions_without_tokens": without,
            "seconds_per_move": self._seconds / max(1, counts["moves"]),
            "options": dict(self._chat.options),
            "prompt": self._chat.prompt,
        }

    def close(self) -> None:
        """Prevents further requests. The threads end with their open requests."""
        self._endpoint.close()
