"""OpenEnv's client with the types of these games."""

from __future__ import annotations

from typing import Any, ClassVar

from twofold._optional import optional_import
from twofold.integrations.openenv import models

_PURPOSE = "clients of OpenEnv's games"
_EnvClient: Any = optional_import("openenv.core.env_client", _PURPOSE, "openenv").EnvClient
_StepResult: Any = optional_import("openenv.core.client_types", _PURPOSE, "openenv").StepResult


class GameClient(_EnvClient):  # type: ignore[misc]  # mypy does not see the library
    """A connection to a server of one of the games; its arguments are those of `EnvClient`."""

    observation: ClassVar[Any]
    state_model: ClassVar[Any]

    def _step_payload(self, action: Any) -> dict[str, Any]:
        payload: dict[str, Any] = action.model_dump(exclude_defaults=True)
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        reward, done = payload["reward"], payload["done"]
        observation = self.observation(**payload["observation"], reward=reward, done=done)
        return _StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> Any:
        return self.state_model(**payload)


class Game2048Client(GameClient):
    """A connection to a server of 2048."""

    observation = models.Game2048Observation
    state_model = models.Game2048State


class ConcentrationClient(GameClient):
    """A connection to a server of Concentration."""

    observation = models.ConcentrationObservation
    state_model = models.ConcentrationState
