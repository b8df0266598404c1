"""The environments that OpenEnv's server creates, one for each connection."""

from __future__ import annotations

import contextlib
import secrets
import uuid
from dataclasses import dataclass
from typing import Any

from twofold import _arguments
from twofold._optional import optional_import
from twofold.client.lookup import VERSION
from twofold.envs.json_form import as_json
from twofold.errors import Conflict, FailedPrecondition, InvalidArgument
from twofold.games.spec import GameSpec
from twofold.integrations.openenv.episode import Episode
from twofold.integrations.openenv.guard import is_request
from twofold.integrations.openenv.models import GameModels
from twofold.integrations.openenv.registry import Registry
from twofold.integrations.text_games import LARGEST_SEED, TextGame

_PURPOSE = "the games of twofold.integrations.openenv"
_interfaces: Any = optional_import("openenv.core.env_server.interfaces", _PURPOSE, "openenv")
_types: Any = optional_import("openenv.core.env_server.types", _PURPOSE, "openenv")


@dataclass(frozen=True)
class Service:
    """The data that all connections share."""

    game: type[GameSpec]
    models: GameModels
    registry: Registry
    arguments: dict[str, Any]
    """The arguments of all boards."""
    allowed: frozenset[str]
    """The names of the game's arguments that `reset` may set."""


class GameEnvironment(_interfaces.Environment):  # type: ignore[misc]  # mypy does not see it
    """A connection's environment, which plays one episode at a time.

    OpenEnv gives each connection a thread, so a call that waits for a server does not delay other
    connections.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service
        self._is_request = is_request.get()
        self._episode: Episode | None = None

    def reset(self, seed: Any = None, episode_id: Any = None, **arguments: Any) -> Any:
        """Starts an episode, or continues one that the server knows.

        Args:
            seed: The seed of a new episode; None draws a random seed.
            episode_id: The id of a known episode, or an id for a new one; None draws a random id.
            arguments: The game's arguments for a new episode, where the operator allows them.

        Returns:
            The first observation of a new episode, or the last observation of a known one.

        Raises:
            InvalidArgument: An argument is wrong or not allowed; `field` names it.
            Conflict: The known episode has another seed or other arguments.
            TransportError: The service did not answer.
        """
        if seed is not None:
            seed = _arguments.integer("seed", seed, 0)
        self._check(episode_id, arguments)
        known = None if episode_id is None else self._service.registry.find(episode_id)
        if known is None:
            return self._start(seed, episode_id, arguments)
        return self._resume(known, {"seed": seed, **arguments})

    def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
        """Plays an action.

        Raises:
            FailedPrecondition: This connection has no episode. For other errors, see `Episode.step`
                and `Registry.check`.
        """
        episode = self._episode
        if episode is None:
            raise FailedPrecondition(
                "this connection has no episode; send reset first, with an episode_id to continue "
                "the episode of a lost connection. HTTP requests have no connection; play over "
                "the WebSocket at /ws"
            )
        with episode.lock:
            self._service.registry.check(episode, self)
            return episode.step(action)

    @property
    def state(self) -> Any:
        """The state of the episode; an empty state before the first reset."""
        episode = self._episode
        if episode is None:
            return self._service.models.state()
        self._service.registry.check(episode, self)
        return episode.state()

    def close(self) -> None:
        """Drops the episode, so that another connection can continue it."""
        episode, self._episode = self._episode, None
        if episode is not None:
            _close(self._service.registry.drop(episode, self))

    def get_metadata(self) -> Any:
        """Returns the game's name and description, and Twofold's version."""
        return _types.EnvironmentMetadata(
            name=self._service.game.__name__,
            description=self._service.game.description,
            version=VERSION,
        )

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """Returns the board as an HTML picture, for the page at /web."""
        return None if self._episode is None else self._episode.html()

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Returns the names and fields of the legal actions, for the page's buttons."""
        [name] = self._service.models.action.model_fields.keys() - {"step", "metadata"}
        return [(str(action), {name: action}) for action in observation["legal_actions"]]

    def _game(self, arguments: dict[str, Any]) -> TextGame:
        return TextGame(self._service.game.name, arguments)

    def _check(self, episode_id: object, arguments: dict[str, Any]) -> None:
        if episode_id is not None:
            text = _arguments.text("episode_id", episode_id)
            if not 1 <= len(text) <= 255:
                raise InvalidArgument(
                    f"episode_id has {len(text)} characters; expected 1 ... 255", field="episode_id"
                )
        for name, value in arguments.items():
            if name not in self._service.allowed:
                allowed = ", ".join(sorted(self._service.allowed)) or "none"
                raise InvalidArgument(
                    f"this server's reset does not accept {name!r}; accepted arguments: {allowed}",
                    field=name,
                )
            if name == "reward" and isinstance(value, str):
                # A string would be the path of a file on the server.
                raise InvalidArgument("reward is a string; expected an object", field="reward")

    def _start(self, seed: int | None, episode_id: str | None, changed: dict[str, Any]) -> Any:
        """Starts a new episode, reusing the last episode's board if the arguments are the same."""
        registry, last = self._service.registry, self._episode
        arguments = self._service.arguments | changed
        is_same = last is not None and last.game.arguments == arguments
        game = None if is_same else self._game(arguments)
        if last is not None and registry.forget(last, self):
            self._episode = None
            if is_same:
                game = last.game
            else:
                last.close()
        if game is None:  # another connection took over the last episode and its board
            game = self._game(arguments)
        with contextlib.ExitStack() as undo:
            undo.callback(game.env.close)
            seed = secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed
            episode = Episode(episode_id or uuid.uuid4().hex, game, self._service.models, seed)
            if self._is_request:  # nobody can play the episode, so its board is closed
                return episode.last
            gone = registry.hold(episode, self)
            undo.pop_all()
        self._episode = episode
        _close(gone)
        return episode.last

    def _resume(self, episode: Episode, asked: dict[str, Any]) -> Any:
        """Takes over a known episode and returns its last observation."""
        own = {"seed": episode.seed, **as_json(episode.game.game.arguments)}
        for name, value in asked.items():
            if value is not None and value != own.get(name):
                raise Conflict(
                    f"episode {episode.id!r} has {name} {own.get(name)!r}, not {value!r}; omit "
                    f"{name} to continue it, or the episode_id to start another",
                    field=name,
                )
        last = self._episode
        self._service.registry.take_over(episode, self)
        self._episode = episode
        if last is not None and last is not episode and self._service.registry.forget(last, self):
            last.close()
        with episode.lock:
            return episode.last.model_copy(update={"resumed": True})


class EmbeddedGameEnvironment(GameEnvironment):
    """The environment of a connection whose board is in this process."""

    # A single thread makes, resets and closes all boards. Each of these takes milliseconds.
    REQUIRES_SINGLE_THREAD_EXECUTOR = True

    async def step_async(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
        """Plays an action on this thread, which is faster than switching to another thread."""
        return self.step(action)


def _close(episodes: list[Episode]) -> None:
    for episode in episodes:
        episode.close()
