"""The checked arguments of an environment."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium.vector import AutoresetMode

from twofold import _arguments
from twofold.client.session import Session
from twofold.envs.arguments import RENDER_MODES, VectorEnvArguments
from twofold.envs.episodes import EPISODE, RETURN
from twofold.envs.json_form import as_json
from twofold.envs.observations import ObservationForm
from twofold.errors import InvalidArgument
from twofold.games.rewards import extra_info_names
from twofold.games.spec import GameSpec
from twofold.v1 import environment_pb2 as environment


@dataclass(frozen=True)
class Settings:
    """The checked arguments of a vector environment, except its number of boards.

    Attributes:
        render_size: The longer side of a board's picture in pixels.
        extra_infos: The names of the infos to add to each step.
        given: The arguments by name, except the game's own; all but `extra_infos` are unchecked.
    """

    game: GameSpec
    form: ObservationForm
    copy: bool
    autoreset_mode: AutoresetMode
    render_mode: str | None
    render_size: int
    extra_infos: tuple[str, ...]
    given: Mapping[str, Any]

    @classmethod
    def read(cls, owner: str, game: GameSpec, arguments: Mapping[str, Any]) -> Settings:
        """Creates the settings from arguments of `owner`, a function or an environment.

        Raises:
            TypeError: An argument is unknown.
            InvalidArgument: An argument is wrong; `field` names it.
        """
        known = {"obs", *VectorEnvArguments.__optional_keys__}
        for name in arguments:
            if name not in known:
                close = difflib.get_close_matches(name, [*known, *game.known_arguments], 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"{owner} got an unexpected keyword argument {name!r}{hint}")
        get = arguments.get
        copy = _arguments.boolean("copy", get("copy", True))
        mode = _arguments.autoreset(get("autoreset_mode", AutoresetMode.NEXT_STEP))
        render_mode = get("render_mode")
        if render_mode is not None:
            _arguments.choice("render_mode", render_mode, RENDER_MODES)
        extra_infos = tuple(extra_info_names(get("extra_infos", ())))
        return cls(
            game=game,
            copy=copy,
            autoreset_mode=mode,
            render_mode=render_mode,
            render_size=_arguments.integer("render_size", get("render_size", 512), 32, 4096),
            form=ObservationForm.read(
                get("obs", "array"), get("observation_key"), get("mask_key"), game.planes
            ),
            extra_infos=extra_infos,
            given={**arguments, "extra_infos": extra_infos},
        )

    def session(self, num_envs: object) -> Session:
        """Creates a session with this number of boards.

        Raises:
            InvalidArgument: An argument is wrong; `field` names it.
            TransportError: No server answered.
        """
        create = environment.CreateRequest()
        create.CopyFrom(self.game.request)
        create.num_envs = _arguments.integer("num_envs", num_envs, 1, 2**63 - 1)
        create.autoreset_mode = getattr(environment, f"AUTORESET_MODE_{self.autoreset_mode.name}")
        for name in self.extra_infos:
            if name != EPISODE:
                create.extra_infos.append(name)
            elif RETURN not in self.extra_infos:
                create.extra_infos.append(RETURN)
        create.client_arguments = self._as_text()
        get = self.given.get
        try:
            return Session(
                create,
                endpoint=get("endpoint"),
                keys=get("keys"),
                timeout=_arguments.seconds("timeout", get("timeout", _arguments.DEFAULT_TIMEOUT)),
                recover=_arguments.boolean("recover", get("recover", False)),
            )
        except InvalidArgument as error:
            if error.field != "extra_infos":
                raise
            # The message ends with the names of the server's infos. The client adds one more.
            raise InvalidArgument(f"{error}, {EPISODE}", field=error.field) from None

    def _as_text(self) -> str:
        """Returns the arguments as JSON for a client that resumes the session; "" if impossible."""
        try:
            return json.dumps(as_json({**self.game.arguments, **self.given}))
        except TypeError:
            return ""
