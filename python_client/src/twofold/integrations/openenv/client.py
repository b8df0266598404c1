"""OpenEnv clients for the games, which reconnect and continue if a connection is lost."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from twofold._optional import optional_import
from twofold.errors import NotFound
from twofold.integrations.openenv.models import MODELS, GameModels

_PURPOSE = "clients of OpenEnv's games"
_EnvClient: Any = optional_import("openenv.core.env_client", _PURPOSE, "openenv").EnvClient
_StepResult: Any = optional_import("openenv.core.client_types", _PURPOSE, "openenv").StepResult
_closed: Any = optional_import("websockets.exceptions", _PURPOSE, "openenv").ConnectionClosed
_state: Any = optional_import("websockets.protocol", _PURPOSE, "openenv").State

_LOST = (OSError, asyncio.TimeoutError, _closed)
# The wait in seconds before each retry.
_PAUSES = (0.0, 0.1, 0.5, 2.0)


class GameClient(_EnvClient):  # type: ignore[misc]  # mypy does not see the library
    """The base class of both games' clients. OpenEnv's `EnvClient` documents the arguments.

    The client numbers its actions. If the connection is lost, the client continues the episode on a
    new connection and sends the last action again. The server plays the action only once.
    """

    models: ClassVar[GameModels]

    _last: Any = None
    """The last observation."""
    _episode_socket: Any = None
    """The connection that plays the episode."""

    async def _reset_async(self, **kwargs: Any) -> Any:
        """Starts an episode, or continues the one with the given `episode_id`."""
        return self._noted(await super()._reset_async(**kwargs))

    async def _step_async(self, action: Any, **kwargs: Any) -> Any:
        """Plays an action exactly once. Reconnects if the connection is lost.

        Raises:
            NotFound: The server no longer has the episode.
        """
        if self._last is None:
            return await super()._step_async(action, **kwargs)
        if action.step is None:
            action = action.model_copy(update={"step": self._last.step})
        return self._noted(await self._on_the_episode(super()._step_async, action, **kwargs))

    async def _state_async(self) -> Any:
        """Returns the state of the episode. Reconnects if the connection is lost."""
        if self._last is None:
            return await super()._state_async()
        return await self._on_the_episode(super()._state_async)

    async def _on_the_episode(self, ask: Any, *arguments: Any, **kwargs: Any) -> Any:
        """Sends a request about the episode. Reconnects and retries if the connection is lost."""
        for pause in _PAUSES:
            try:
                ws = self._ws  # None after a failed attempt to connect, or a late answer
                if ws is None or ws is not self._episode_socket or ws.state is not _state.OPEN:
                    await self._resume_episode()
                return await ask(*arguments, **kwargs)
            except _LOST:
                self._episode_socket = None
                await asyncio.sleep(pause)
        await self._resume_episode()
        return await ask(*arguments, **kwargs)

    async def _resume_episode(self) -> None:
        """Continues the episode on a new connection."""
        episode_id = self._last.episode_id
        result = await super()._reset_async(episode_id=episode_id)
        if not result.observation.resumed:
            self._last = None
            raise NotFound(
                f"the server no longer has episode {episode_id!r}; reset to start another"
            )
        self._episode_socket = self._ws

    def _noted(self, result: Any) -> Any:
        self._last, self._episode_socket = result.observation, self._ws
        return result

    def _step_payload(self, action: Any) -> dict[str, Any]:
        payload: dict[str, Any] = action.model_dump(exclude_defaults=True)
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        reward, done = payload["reward"], payload["done"]
        observation = self.models.observation(**payload["observation"], reward=reward, done=done)
        return _StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> Any:
        return self.models.state(**payload)


class Game2048Client(GameClient):
    """The client for 2048."""

    models = MODELS["2048"]


class ConcentrationClient(GameClient):
    """The client for Concentration."""

    models = MODELS["concentration"]
