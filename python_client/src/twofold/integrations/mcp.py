"""An MCP server that offers both games as tools to language models.

    make_mcp_server().run()     # over standard input and output, as `twofold mcp` does

If the client has a session, its games belong to that session. Newer clients have no sessions over
HTTP, so any client at the same address can play a game if it knows the game's id. Ids are therefore
random and unguessable.
"""

# ruff: noqa: E402 - `optional_import` comes first, because its error says what to install

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from typing_extensions import Unpack

from twofold import _arguments
from twofold._optional import optional_import
from twofold.client.embedded import EmbeddedCarrier
from twofold.client.endpoints import EMBEDDED, check_keys, resolve
from twofold.client.lookup import VERSION
from twofold.envs import BY_NAME
from twofold.envs.arguments import ServiceArguments
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.errors import InvalidArgument, NotFound, ResourceExhausted, TwofoldError
from twofold.games.game2048 import DIRECTIONS
from twofold.integrations.text_games import LARGEST_SEED, TextGame
from twofold.policies.baselines import PerfectMemory

optional_import("mcp.server.mcpserver", "MCP servers", "mcp")

import anyio
from jsonschema import Draft202012Validator
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import WithJsonSchema

# The tool that plays each game.
_TOOLS = {"2048": "move", "concentration": "turn_card"}
# The limits for all sessions together, and the idle time after which a game may be closed.
_MAX_GAMES = 1000
_MAX_CALLS = 1000
_IDLE_SECONDS = 30 * 60

_INSTRUCTIONS = (
    "Play 2048 or Concentration (the memory game): start with new_game, then call move (2048) or "
    "turn_card (Concentration) with its game_id until the game is over."
)


def _described(description: str, **schema: Any) -> Any:
    """Returns an argument's JSON schema, which the server checks."""
    return WithJsonSchema({"description": description, **schema})


_Kind = Annotated[str, _described("Which game.", type="string", enum=list(_TOOLS))]
_Side = "2 ... 8 for 2048; 1 ... 16 for Concentration, with an even number of cards, at most 128."
_Rows = Annotated[int, _described(f"Rows of the board: {_Side}", type="integer")]
_Columns = Annotated[int, _described(f"Columns of the board: {_Side}", type="integer")]
_Seed = Annotated[
    int | None,
    _described(
        "The same seed starts the same game (default: random).",
        type="integer",
        minimum=0,
        maximum=LARGEST_SEED,
    ),
]
_GameId = Annotated[str, _described("The game_id from new_game.", type="string")]
_Direction = Annotated[
    str, _described("The direction in which tiles slide.", type="string", enum=list(DIRECTIONS))
]
_Card = Annotated[int, _described("The card's number, row by row from 0.", type="integer")]


class _Owner(NamedTuple):
    """The owner of a game: a session, or all clients at an address."""

    name: str
    is_session: bool = True


@dataclass
class _Game:
    """A game and its owner. A call that makes or uses the game holds `lock`."""

    owner: _Owner
    text: TextGame | None = None
    memory: PerfectMemory | None = None
    used: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _answered(
    tool: Callable[..., CallToolResult],
) -> Callable[..., Coroutine[Any, Any, CallToolResult]]:
    """Wraps a tool so that it runs in a thread and returns its errors as text for the model."""

    @functools.wraps(tool)
    async def answered(games: ServedGames, context: Context, **named: Any) -> CallToolResult:
        call = functools.partial(tool, games, context, **named)
        try:
            result: CallToolResult = await anyio.to_thread.run_sync(
                call,
                # On stdio, the end of the input must end the server, even if a call waits for
                # another server. Over HTTP, clients could start any number of threads by
                # cancelling calls.
                abandon_on_cancel=context.request_context.request is None,
                limiter=games._threads,
            )
            return result
        except TwofoldError as error:
            return _refusal(str(error))

    return answered


def _refusal(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=True)


def _checked(service: ServiceArguments) -> ServiceArguments:
    """Checks the arguments that choose the service, without connecting to a server."""
    for name in service:
        if name not in ServiceArguments.__optional_keys__:
            raise TypeError(f"make_mcp_server() got an unexpected keyword argument {name!r}")
    endpoint = resolve(service.get("endpoint"))
    check_keys(endpoint, service.get("keys"))
    if endpoint == EMBEDDED:
        EmbeddedCarrier()  # reports a wrong variable now, not in the first game
    _arguments.seconds("timeout", service.get("timeout", _arguments.DEFAULT_TIMEOUT))
    return service


def _result(text: str, **facts: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structuredContent=facts)


class ServedGames:
    """The open games of an MCP server, and the tools that play them.

    Takes the arguments of `make_mcp_server`.
    """

    def __init__(self, max_games: int = 16, **service: Unpack[ServiceArguments]) -> None:
        self._max_games = _arguments.integer("max_games", max_games, 1)
        self._service = _checked(service)
        self._games: dict[str, _Game] = {}
        self._lock = threading.Lock()
        # The default is 40 threads, which could all be waiting for a server that is down.
        self._threads = anyio.CapacityLimiter(_MAX_CALLS)

    @_answered
    def new_game(
        self,
        context: Context,
        game: _Kind = "2048",
        rows: _Rows = 4,
        columns: _Columns = 4,
        seed: _Seed = None,
    ) -> CallToolResult:
        """Start a game of 2048 or Concentration. The answer contains its game_id and its board.

        2048: slide all tiles with move. Equal tiles that meet merge, and their sum is added to the
        score. Concentration: find pairs of cards by turning two at a time with turn_card.
        """
        sides = [("rows", rows), ("columns", columns)]
        span = BY_NAME[game].spec.sides
        size = tuple(_arguments.integer(side, value, *span) for side, value in sides)
        if seed is None:
            seed = secrets.randbelow(LARGEST_SEED + 1)
        new = _Game(_owner(context))
        with new.lock, contextlib.ExitStack() as undo:
            game_id = self._add(new)
            undo.callback(self._remove, game_id)
            text = TextGame.for_models(game, {"size": size, "recover": True, **self._service})
            # Otherwise the garbage collector closes it on the thread that serves all clients.
            undo.callback(text.env.close)
            text.start(seed)
            new.text = text
            new.memory = PerfectMemory(text.env) if game == "concentration" else None
            if game_id not in self._games:
                raise NotFound("the session has ended, and its games were closed")
            undo.pop_all()
        facts = {"game_id": game_id, "seed": seed, **text.facts()}
        return _result(f"Game {game_id}, seed {seed}.\n{text.text()}", **facts)

    @_answered
    def move(self, context: Context, game_id: _GameId, direction: _Direction) -> CallToolResult:
        """Slide all tiles in a game of 2048 up, right, down or left."""
        return self._play(context, game_id, "move", direction)

    @_answered
    def turn_card(self, context: Context, game_id: _GameId, card: _Card) -> CallToolResult:
        """Turn one card face up in a game of Concentration.

        In the answer, a number is the symbol of a visible card, ? is a card that is face down, and
        . is a card out of play.
        """
        return self._play(context, game_id, "turn_card", card)

    @_answered
    def look(self, context: Context, game_id: _GameId) -> CallToolResult:
        """Show the board and the possible actions again. This changes nothing."""
        with self._game(context, game_id) as game:
            return _result(game.text.text(), game_id=game_id, **game.text.facts())

    @_answered
    def hint(self, context: Context, game_id: _GameId) -> CallToolResult:
        """Suggest the next action. This changes nothing.

        In 2048 (4 x 4 only), the hint comes from an expectimax search. In Concentration, it comes
        from a player with a perfect memory of the cards seen so far.
        """
        with self._game(context, game_id) as game:
            if game.text.end:
                raise InvalidArgument(f"the game is over: {game.text.end}", field="game_id")
            board = game.text.board
            if game.memory is None:
                action = self._expectimax(board)
                reason = "Expectimax moves"
            else:
                action = game.memory(board, game.text.infos["action_mask"])
                reason = "With a perfect memory, turn card"
            name = game.text.game.actions[action]
            return _result(f"{reason} {name}.", game_id=game_id, hint=name)

    @_answered
    def end_game(self, context: Context, game_id: _GameId) -> CallToolResult:
        """End a game that is no longer needed, to make room for others."""
        with self._game(context, game_id) as game:
            self._remove(game_id)
            game.text.env.close()
            return _result(f"Game {game_id} is closed.", game_id=game_id)

    def end(self, session_id: str) -> None:
        """Closes the games of a session that has ended, including games that are being started."""
        owner = _Owner(session_id)
        with self._lock:
            own = [game_id for game_id, game in self._games.items() if game.owner == owner]
            _close([self._games.pop(game_id) for game_id in own])

    def _play(self, context: Context, game_id: str, tool: str, action: object) -> CallToolResult:
        with self._game(context, game_id) as game:
            own = _TOOLS[game.text.game.name]
            if tool != own:
                raise InvalidArgument(f"game {game_id} is played with {own}", field="game_id")
            answer = game.text.play(action)
            if game.memory is not None:
                game.memory(game.text.board, game.text.infos["action_mask"])  # sees each card
            return _result(answer, game_id=game_id, **game.text.facts())

    def _expectimax(self, board: np.ndarray[Any, Any]) -> int:
        """Returns the action that expectimax chooses on a copy of the board."""
        if board.shape != (4, 4):
            raise InvalidArgument("hints in 2048 need a 4 x 4 board", field="game_id")
        with contextlib.closing(Game2048VectorEnv(1, **self._service)) as envs:
            envs.reset(options={"boards": board[np.newaxis]})
            return int(envs.rollout(1, policy="expectimax").actions[0, 0])

    def _add(self, game: _Game) -> str:
        """Stores a new game, closes idle games to make room, and returns the game's id."""
        game_id = secrets.token_hex(8)
        with self._lock:
            idle = [
                other_id
                for other_id, other in self._games.items()
                if other.used < game.used - _IDLE_SECONDS and not other.lock.locked()
            ]
            _close([self._games.pop(other_id) for other_id in idle])
            own = [other_id for other_id, other in self._games.items() if other.owner == game.owner]
            if len(own) < self._max_games and len(self._games) < _MAX_GAMES:
                self._games[game_id] = game
                return game_id
        if len(own) < self._max_games:
            raise ResourceExhausted(f"the server already has {_MAX_GAMES:,} games; try again later")
        # The ids are not listed for clients without sessions: any client with an id can play and
        # end the game.
        others = f" ({', '.join(own)})" if game.owner.is_session else ", or try again later"
        raise ResourceExhausted(
            f"{len(own)} games are open, which is the maximum; close one with end_game{others}"
        )

    def _remove(self, game_id: str) -> None:
        with self._lock:
            self._games.pop(game_id, None)

    @contextlib.contextmanager
    def _game(self, context: Context, game_id: str) -> Any:
        """Yields a game of the call's owner, and blocks other calls that use the game."""
        with self._lock:
            game = self._games.get(game_id)
        refusal = NotFound(f"there is no game {game_id!r}; start one with new_game")
        if game is None or game.owner != _owner(context):
            raise refusal
        with game.lock:
            if game_id not in self._games:  # another call has ended the game in the meantime
                raise refusal
            game.used = time.monotonic()
            yield game


class _Server(MCPServer):  # type: ignore[misc]  # mypy does not see the library
    """An MCP server that checks the names of arguments, and closes the games of ended sessions."""

    def __init__(self, games: ServedGames) -> None:
        super().__init__(
            "twofold", version=VERSION, instructions=_INSTRUCTIONS, log_level="WARNING"
        )
        self._games = games

    async def list_tools(self) -> Any:
        """Returns the tools, with schemas that forbid additional arguments."""
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema["additionalProperties"] = False
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Calls a tool if the arguments fit its schema. An argument that is null counts as missing.

        The SDK ignores arguments that a tool does not have.
        """
        given = {key: value for key, value in arguments.items() if value is not None}
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        error = next(Draft202012Validator(schemas.get(name, {})).iter_errors(given), None)
        if error is not None:
            return _refusal(f"{error.json_path}: {error.message[:500]}")
        return await super().call_tool(name, given, context)

    def streamable_http_app(self, **options: Any) -> Any:
        """Returns the ASGI app for HTTP. Accepts the options of the SDK's method."""
        app = super().streamable_http_app(**options)
        app.add_middleware(_SessionEnds, games=self._games)
        return app


class _SessionEnds:
    """An ASGI middleware that closes a session's games when the client ends the session.

    The SDK does not notify tools when a session ends. It also ends sessions that were idle for 30
    minutes, but the games of such a session are idle too, so the next new game closes them.
    """

    def __init__(self, app: Any, games: ServedGames) -> None:
        self._app, self._games = app, games

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "DELETE":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        session_id = headers.get(b"mcp-session-id", b"").decode("latin-1")

        async def send_and_end(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._games.end(session_id)
            await send(message)

        await self._app(scope, receive, send_and_end)


def _close(games: list[_Game]) -> None:
    """Closes games in a thread, because closing may wait for a server that is down."""

    def close() -> None:
        for game in games:
            with game.lock:
                if game.text is not None:
                    game.text.env.close()

    if games:
        threading.Thread(target=close, daemon=True).start()


def _owner(context: Context) -> _Owner:
    """Returns the owner of a call's games: the session or, without one, the client's address."""
    of_call = context.request_context
    if of_call.request is None:
        return _Owner("stdio")
    client = of_call.request.client
    address = _Owner(client.host if client else "", is_session=False)
    # Newer clients have no sessions, and the SDK does not check the id that they send.
    if of_call.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return address
    session_id = of_call.request.headers.get("mcp-session-id")
    return _Owner(session_id) if session_id else address


def make_mcp_server(max_games: int = 16, **service: Unpack[ServiceArguments]) -> MCPServer:
    """Makes an MCP server with tools for both games. Its `run()` uses standard input and output.

    Args:
        max_games: The maximum number of open games per session. Without sessions, all clients at
            the same address share this maximum.
        service: The arguments of the service that runs the boards; see `ServiceArguments`.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TypeError: An argument is unknown.
        ServerStartFailed: The service in this process can't start, for example because a variable
            is wrong.
    """
    tools = ServedGames(max_games, **service)
    server = _Server(tools)
    for tool in (tools.new_game, tools.move, tools.turn_card, tools.end_game):
        server.add_tool(tool)
    for tool in (tools.look, tools.hint):
        server.add_tool(tool, annotations=ToolAnnotations(readOnlyHint=True))
    return server
