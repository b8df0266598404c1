"""One episode: its board, the number of its steps, and the answer to a repeated one."""

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
    """An episode that has begun.

    An illegal action, or one after the end, gets an observation with a `message` that says why.

    Args:
        id: The key to it.
        game: A game; the episode resets it.
        models: The types of its messages.
        seed: Its seed.

    Attributes:
        game: The argument.
        lock: Held while the game is stepped or read.
        last: The observation of the last step, or of the reset.
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
        self._steps = 0
        self._terminated = self._truncated = False
        self._action: int | None = None
        game.start(seed)
        self.last = self._observation("", None)

    def step(self, action: Any) -> Any:
        """Plays an action, or answers a repeated one from memory; returns the observation.

        Raises:
            InvalidArgument: This game has no such action.
            OutOfSequence: The action's number is neither the next step's nor the last step's.
            Conflict: The last step played another action.
            TransportError: No answer; the same action again collects it.
        """
        number = self.game.game.number(action.word)
        if action.step is not None and action.step != self._steps:
            return self._stored(action.step, number)
        if self._terminated or self._truncated:
            return self._observation(f"{self._end()} Nothing is played any more.", 0.0)
        is_legal = self.game.infos["action_mask"][number]
        refusal = "" if is_legal else self.game.game.refusal(number, self.game.board)
        reward, self._terminated, self._truncated = self.game.step(number)
        self._steps += 1
        self._action = number
        is_over = self._terminated or self._truncated
        if refusal and is_over:
            message = f"{refusal}. {self._end()}"
        elif refusal:
            message = f"{refusal}; legal are {', '.join(map(str, self.game.legal))}."
        else:
            message = self._end() if is_over else ""
        self.last = self._observation(message, reward)
        return self.last

    def resumed(self) -> Any:
        """Returns the last observation again, for a connection that comes back."""
        return self.last.model_copy(update={"resumed": True})

    def state(self) -> Any:
        """Returns the state."""
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
        """Returns the board as a picture for a web page."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.game.game.picture(self.game.board, 320)).save(file, "PNG")
        source = base64.b64encode(file.getvalue()).decode()
        return f'<img src="data:image/png;base64,{source}" alt="the board">'

    def close(self) -> None:
        """Ends the board's session, after the step that is being played."""
        with self.lock:
            self.game.env.close()

    def _stored(self, step: int, number: int) -> Any:
        """Returns the answer to an action whose number is not the next step's."""
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
                f"step {step} has played {self.game.game.actions[self._action]!r}, not "
                f"{self.game.game.actions[number]!r}; reset with the episode_id returns its "
                "observation",
                field="step",
            )
        return self.last

    def _end(self) -> str:
        if self._terminated:
            return f"The game is over after {_steps(self._steps)}."
        return f"The limit of {_steps(self._steps)} has ended the episode."

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
        """Returns the fields of a model that show the board and how the game stands."""
        game = self.game
        facts = game.game.facts(game.board, game.infos) | {"legal_actions": game.legal}
        shown = game.infos | facts
        return {name: shown[name] for name in model.model_fields if name in shown}


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
