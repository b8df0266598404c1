"""One episode: its board, its step count, and the stored answer to a repeated step."""

from __future__ import annotations

import base64
import io
import threading
from typing import Any

from twofold.envs.json_form import as_json
from twofold.errors import Conflict, OutOfSequence
from twofold.integrations.openenv.models import GameModels
from twofold.integrations.text_games import TextGame


class Episode:
    """An episode, which starts when this object is created.

    For an illegal action, or an action after the episode's end, `step` returns an observation whose
    `message` explains the problem.

    Attributes:
        lock: The lock that callers hold while they step or read the game.
        last: The observation of the last step, or of the reset.
        holder: The connection that plays the episode. The registry sets this and `dropped_at`.
        dropped_at: The time when the last holder's connection was lost.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - its name
        game: TextGame,
        models: GameModels,
        seed: int,
    ) -> None:
        self.id, self.game, self.seed = id, game, seed
        self._models = models
        self.lock = threading.Lock()
        self.holder: object = None
        self.dropped_at = 0.0
        self._steps = 0
        self._terminated = self._truncated = False
        self._action: int | None = None
        game.start(seed)
        self.last = self._observation("", None)

    def step(self, action: Any) -> Any:
        """Plays an action. If it repeats the last action, returns the stored observation.

        Raises:
            InvalidArgument: This game has no such action.
            OutOfSequence: The action's `step` is neither the next step's number nor the last one's.
            Conflict: The action has the last step's number, but is not the same action.
            FailedPrecondition: The last action got no answer and must be repeated first.
            PermissionDenied, ShuttingDown, TransportError: The service did not answer.
                Repeating the same action is safe.
        """
        number = self.game.game.number(action.word)
        if action.step is not None and action.step != self._steps:
            return self._stored(action.step, number)
        if self._terminated or self._truncated:
            return self._observation(f"{self._end()} The action was not played.", 0.0)
        is_legal = self.game.infos["action_mask"][number]
        refusal = "" if is_legal else self.game.game.refusal(number, self.game.board)
        reward, self._terminated, self._truncated = self.game.step(number)
        self._steps += 1
        self._action = number
        is_over = self._terminated or self._truncated
        if refusal and is_over:
            message = f"{refusal}. {self._end()}"
        elif refusal:
            message = f"{refusal}; legal actions: {', '.join(map(str, self.game.legal))}."
        else:
            message = self._end() if is_over else ""
        self.last = self._observation(message, reward)
        return self.last

    def state(self) -> Any:
        """Returns the state of the episode."""
        return self._models.state(
            episode_id=self.id,
            step_count=self._steps,
            seed=self.seed,
            episode_return=self.game.reward,
            terminated=self._terminated,
            truncated=self._truncated,
            arguments=as_json(self.game.game.arguments),
            **self._shown(self._models.state),
        )

    def html(self) -> str:
        """Returns the board as an HTML picture."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.game.game.picture(self.game.board, 320)).save(file, "PNG")
        source = base64.b64encode(file.getvalue()).decode()
        return f'<img src="data:image/png;base64,{source}" alt="the board">'

    def close(self) -> None:
        """Closes the board's environment, after a step in progress has finished."""
        with self.lock:
            self.game.env.close()

    def _stored(self, step: int, number: int) -> Any:
        """Returns the stored observation if this action repeats the last one; otherwise raises."""
        if step > self._steps:
            raise OutOfSequence(
                f"step is {step}, but the episode has taken {_steps(self._steps)}; send the step "
                "of the last observation",
                field="step",
            )
        if step < self._steps - 1:
            raise OutOfSequence(
                f"step is {step}, but the episode has already taken {_steps(self._steps)}; pass "
                "the episode_id to reset, which returns the last observation",
                field="step",
            )
        if number != self._action:
            assert self._action is not None
            raise Conflict(
                f"step {step} played {self.game.game.actions[self._action]!r}, not "
                f"{self.game.game.actions[number]!r}; reset with the episode_id to get its "
                "observation",
                field="step",
            )
        return self.last

    def _end(self) -> str:
        if self._terminated:
            return f"The game is over after {_steps(self._steps)}."
        return f"The limit of {_steps(self._steps)} ended the episode."

    def _observation(self, message: str, reward: float | None) -> Any:
        return self._models.observation(
            text=self.game.game.text(self.game.board),
            message=message,
            reward=reward,
            done=self._terminated or self._truncated,
            terminated=self._terminated,
            truncated=self._truncated,
            step=self._steps,
            episode_id=self.id,
            **self._shown(self._models.observation),
        )

    def _shown(self, model: Any) -> dict[str, Any]:
        """Returns the fields of `model` that describe the board and the game, with their values."""
        game = self.game
        facts = game.game.facts(game.board, game.infos) | {"legal_actions": game.legal}
        shown = game.infos | facts
        return {name: shown[name] for name in model.model_fields if name in shown}


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
