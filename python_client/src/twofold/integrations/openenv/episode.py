"""One episode: its board, the number of its steps, and the answer to a repeated one."""

from __future__ import annotations

import threading
from typing import Any

from twofold.errors import Conflict, OutOfSequence
from twofold.integrations.openenv.boards import Board


class Episode:
    """An episode that has begun.

    An illegal action, or one after the end, gets an observation with a `message` that says why.

    Args:
        id: The key to it.
        board: A board; the episode resets it.
        seed: Its seed.

    Attributes:
        lock: Held while the board is stepped or read.
        last: The observation of the last step, or of the reset.
    """

    def __init__(self, id: str, board: Board, seed: int) -> None:  # noqa: A002 - its name
        self.id, self.board, self.seed = id, board, seed
        self.lock = threading.Lock()
        self._steps = 0
        self._return = 0.0
        self._terminated = self._truncated = False
        self._action: int | None = None
        board.reset(seed)
        self.last = self._observation("", None)

    def step(self, action: Any) -> Any:
        """Plays an action, or answers it from what has been played; the observation.

        Raises:
            InvalidArgument: This game has no such action.
            OutOfSequence: The action's number is neither that of the next step nor of the last.
            Conflict: The last step played another action.
            TransportError: No answer; the same action again collects it.
        """
        number = self.board.number(action)
        if action.step is not None and action.step != self._steps:
            return self._stored(action.step, number)
        if self._terminated or self._truncated:
            return self._observation(f"{self._end()} Nothing is played any more.", 0.0)
        refusal = "" if self.board.is_legal(number) else self.board.refusal(number)
        reward, self._terminated, self._truncated = self.board.step(number)
        self._steps += 1
        self._return += reward
        self._action = number
        is_over = self._terminated or self._truncated
        if refusal and is_over:
            message = f"{refusal}. {self._end()}"
        elif refusal:
            message = f"{refusal}; legal are {', '.join(map(str, self.board.legal))}."
        else:
            message = self._end() if is_over else ""
        self.last = self._observation(message, reward)
        return self.last

    def resumed(self) -> Any:
        """The last observation again, for a connection that comes back."""
        return self.last.model_copy(update={"resumed": True})

    def state(self) -> Any:
        """The state."""
        return self.board.state(
            episode_id=self.id,
            step_count=self._steps,
            seed=self.seed,
            episode_return=self._return,
            terminated=self._terminated,
            truncated=self._truncated,
            **self.board.state_fields(),
        )

    def close(self) -> None:
        """Ends the board's session, after the step that is being played."""
        with self.lock:
            self.board.close()

    def _stored(self, step: int, number: int) -> Any:
        """The answer to an action whose number is not that of the next step."""
        if step > self._steps:
            raise OutOfSequence(
                f"step is {step}, and the episode has taken {_steps(self._steps)}: send the step "
                "of the last observation",
                field="step",
            )
        if step < self._steps - 1:
            raise OutOfSequence(
                f"step {step} is over, and the episode has taken {_steps(self._steps)}; reset with "
                "its episode_id returns the last observation",
                field="step",
            )
        if number != self._action:
            assert self._action is not None
            raise Conflict(
                f"step {step} has played {self.board.name(self._action)!r}, not "
                f"{self.board.name(number)!r}; reset with the episode_id returns its observation",
                field="step",
            )
        return self.last

    def _end(self) -> str:
        if self._terminated:
            return f"The game is over after {_steps(self._steps)}."
        return f"The limit of {_steps(self._steps)} has ended the episode."

    def _observation(self, message: str, reward: float | None) -> Any:
        return self.board.observation(
            text=self.board.text(),
            message=message,
            reward=reward,
            done=self._terminated or self._truncated,
            terminated=self._terminated,
            truncated=self._truncated,
            step=self._steps,
            episode_id=self.id,
            **self.board.fields(),
        )


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
