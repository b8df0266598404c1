"""The OpenEnv app that serves a game."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twofold import _arguments
from twofold._optional import optional_import
from twofold.client.endpoints import EMBEDDED, resolve
from twofold.client.system import allow_open_files
from twofold.envs import BY_NAME
from twofold.errors import (
    InvalidArgument,
    ResourceExhausted,
    ShuttingDown,
    TransportError,
    TwofoldError,
)
from twofold.integrations import refuse_own
from twofold.integrations.openenv.environment import (
    EmbeddedGameEnvironment,
    GameEnvironment,
    Service,
)
from twofold.integrations.openenv.episode import Episode
from twofold.integrations.openenv.guard import Guard
from twofold.integrations.openenv.models import MODELS
from twofold.integrations.openenv.registry import Registry
from twofold.integrations.serving import MAX_BYTES
from twofold.integrations.text_games import TextGame

_PURPOSE = "servers of OpenEnv's games"
_server: Any = optional_import("openenv.core.env_server.http_server", _PURPOSE, "openenv")
_responses: Any = optional_import("starlette.responses", _PURPOSE, "openenv")

_CLOSING_THREADS = 1000
# The arguments that the adapter sets itself.
_OWN = {
    "deck_info",
    "extra_infos",
    "mask_key",
    "obs",
    "observation_key",
    "observe_last_action",
    "render_mode",
    "render_size",
}


def make_openenv_app(
    game: str = "2048",
    *,
    max_sessions: int = 1000,
    allow: Iterable[str] = (),
    keep_seconds: float = 600.0,
    keep_episodes: int = 1000,
    clock: Callable[[], float] = time.monotonic,
    **arguments: Any,
) -> Any:
    """Makes an ASGI app that serves one game. Each connection plays its own board.

    If the environment variable ENABLE_WEB_INTERFACE is "true", the app serves OpenEnv's web page at
    /web.

    Args:
        game: "2048" or "concentration".
        max_sessions: The maximum number of connections that play at once.
        allow: The names of the game's arguments that a client may set at `reset`, such as "size"
            and "goal".
        keep_seconds: The time in seconds for which the episode of a lost connection is kept.
        keep_episodes: The maximum number of episodes kept for lost connections. The oldest are
            removed first.
        clock: A function that returns the current time in seconds.
        arguments: The environment's arguments for all boards (size, goal, reward, endpoint …),
            except those for observations and pictures, which the adapter sets.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
        MissingDependency: OpenEnv is not installed.
    """
    models = MODELS[_arguments.choice("game", game, MODELS)]
    spec = BY_NAME[game].spec
    refuse_own(_OWN, arguments)
    offered = spec.known_arguments.keys() - _OWN
    for name in (allowed := frozenset(allow)):
        if name not in offered:
            raise InvalidArgument(
                f"allow contains {name!r}; expected some of {', '.join(sorted(offered))}",
                field="allow",
            )
    most = _arguments.integer("max_sessions", max_sessions, 1)
    kept = _arguments.integer("keep_episodes", keep_episodes, 0)
    registry = Registry(keep_seconds, kept, clock)
    TextGame(game, arguments).env.close()  # reports invalid arguments now, not at the first reset
    is_embedded = resolve(arguments.get("endpoint")) == EMBEDDED
    environment = EmbeddedGameEnvironment if is_embedded else GameEnvironment
    app = _server.create_app(
        functools.partial(environment, Service(spec, models, registry, arguments, allowed)),
        models.action,
        models.observation,
        env_name=f"twofold_{game}",
        max_concurrent_envs=most,
        state_cls=models.state,
    )

    def close_boards() -> None:
        # Each may wait a second for a server that is down.
        with ThreadPoolExecutor(_CLOSING_THREADS) as threads:
            list(threads.map(Episode.close, registry.clear()))

    app.router.on_shutdown.append(close_boards)
    app.add_exception_handler(TwofoldError, _answer)
    app.add_middleware(Guard, max_bytes=MAX_BYTES)
    # A connection has one file, and a board on a server has two.
    allow_open_files(3 * most + 2 * kept + 256)
    return app


async def _answer(_: Any, error: Exception) -> Any:
    status = 409
    if isinstance(error, InvalidArgument):
        status = 422
    elif isinstance(error, (ResourceExhausted, ShuttingDown, TransportError)):
        status = 503
    return _responses.JSONResponse({"detail": str(error)}, status)
