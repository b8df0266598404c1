"""Games inside `jax.jit`, `jax.vmap` and `jax.lax.scan`: pure functions of arrays.

    env = twofold.jax.make("twofold/Game2048-v0", num_envs=4096)
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, actions)

A step is a pure function of the boards' states and the actions. JAX calls it natively, in
libtwofold.so, on the CPU. With the same arguments, seeds and actions, the vector environment
returns the same bytes.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold import _arguments
from twofold._optional import optional_import
from twofold.client.embedded import library
from twofold.client.payloads import DTYPES, make_space
from twofold.envs import BY_ID
from twofold.envs.episodes import EPISODE, RETURN
from twofold.envs.seeding import consecutive, seed_array
from twofold.envs.settings import Settings
from twofold.errors import InvalidArgument
from twofold.games.spec import full_id
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

_PURPOSE = "environments for JAX"
jax = optional_import("jax", _PURPOSE, "jax")
jnp = optional_import("jax.numpy", _PURPOSE, "jax")
ffi = optional_import("jax.ffi", _PURPOSE, "jax")
core = optional_import("jax.extend.core", _PURPOSE, "jax")
batching = optional_import("jax.interpreters.batching", _PURPOSE, "jax")
mlir = optional_import("jax.interpreters.mlir", _PURPOSE, "jax")

Array = Any
"""A `jax.Array`."""
# A `jax.ShapeDtypeStruct`: the shape of a board's row in an array, and the array's dtype.
_Spec = Any

__all__ = ["ConcentrationState", "Game2048State", "JaxEnv", "TimeStep", "make"]


class Game2048State(NamedTuple):
    """The states of boards of 2048: arrays (…), with an element for each board."""

    generator: Array
    """uint32 (…, 4): the state of the board's random stream."""
    phase: Array
    """uint8: 0 while the episode lasts, 1 terminated, 2 truncated."""
    episode_length: Array
    """int32: the number of steps in the episode, including illegal actions."""
    score: Array
    """int32: the sum of the values of all merged tiles."""
    moves: Array
    """int32: the number of legal actions in the episode."""
    board: Array
    """uint8 (…, rows, columns): exponents, 0 for an empty cell."""


class ConcentrationState(NamedTuple):
    """The states of tables of Concentration: arrays (…), with an element for each table.

    A set of cards is uint32 (…, 4): card c is bit c % 32 of word c // 32.
    """

    generator: Array
    """uint32 (…, 4): the state of the table's random stream."""
    phase: Array
    """uint8: 0 while the episode lasts, 1 terminated, 2 truncated."""
    episode_length: Array
    """int32: the number of steps in the episode, including illegal actions."""
    matched: Array
    """uint32 (…, 4): the matched cards."""
    visible: Array
    """uint32 (…, 4): the cards that are face up, excluding matched cards."""
    open_card: Array
    """int32: the first card of the current turn; -1 between turns."""
    turns: Array
    """int32: the number of turns in the episode."""
    peeks: Array
    """int32: the number of peeks in the episode."""
    last_action: Array
    """int32: the last action; -1 before the first one."""
    deck: Array
    """uint8 (…, rows, columns): the symbol of each card."""


_STATES: dict[str, Any] = {
    "twofold/Game2048-v0": Game2048State,
    "twofold/Concentration-v0": ConcentrationState,
}
# The names of a state's fields in the library's replies, where they differ.
_NAMES = {"board": "observation"}


class TimeStep(NamedTuple):
    """The results of a reset or a step: arrays (…), with an element for each board."""

    observation: Array
    """(…, *shape): the observation, in the form that `obs` requests. With SAME_STEP, the step that
    ends an episode returns the first observation of the next."""
    reward: Array
    """float32; 0 after a reset."""
    terminated: Array
    """bool: whether the step ended the episode by the rules."""
    truncated: Array
    """bool: whether the episode reached `max_episode_steps`."""
    action_mask: Array
    """int8 (…, actions): 1 for a legal action; all 0 once the game has ended."""
    info: dict[str, Array]
    """The infos of the vector environment, without their masks."""
    final_observation: Array | None
    """With SAME_STEP: the observation before any new episode started, including for boards whose
    episode continues. None in the other modes."""
    final_info: dict[str, Array] | None
    """With SAME_STEP: the infos that belong to `final_observation`. None in the other modes."""


def make(env: str, num_envs: int = 1, **arguments: Any) -> JaxEnv:
    """Returns the pure functions of an environment.

    Args:
        env: The environment's id, such as "twofold/Game2048-v0".
        num_envs: The number of boards that `reset` makes from one key.
        arguments: The arguments of `gymnasium.make_vec` for this environment that affect results:
            the game's own, `reward`, `max_episode_steps`, `obs` ("array", "one_hot",
            "one_hot_last" or "flat"), `extra_infos` (only infos that depend on the move alone) and
            `autoreset_mode`, by default SAME_STEP.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: The library was not found, or can't start.
    """
    env = _arguments.choice("env", full_id(str(env)), BY_ID)
    return JaxEnv(env, _arguments.integer("num_envs", num_envs, 1, 2**31 - 1), arguments)


_OF_MORE_THAN_A_MOVE = (EPISODE, RETURN, "optimal_value", "action_values", "regret")
_POINTLESS = ("copy", "endpoint", "keys", "mask_key", "observation_key", "recover", "timeout")


class JaxEnv:
    """Pure functions that reset and step boards, and expand them for a search.

    Make one with `twofold.jax.make`. Arrays may have any number of leading axes, including none: a
    state indexed by a board's number is the state of that board.

    Attributes:
        game: The game with its arguments.
        num_envs: The number of boards that `reset` makes from one key.
        num_actions: The number of actions.
        autoreset_mode: The autoreset mode. With DISABLED, a board whose episode has ended waits:
            a step returns its last observation again, with reward 0.
        reward_terms: The names of the reward's terms: the columns of the info `reward_terms`.
    """

    def __init__(self, env: str, num_envs: int, arguments: Mapping[str, Any]) -> None:
        for name in arguments:
            if name in _POINTLESS or name.startswith("render"):
                raise InvalidArgument(f"{name} does not apply to JAX; omit it", field=name)
        self.game, others = BY_ID[env].spec.split(arguments)
        others.setdefault("autoreset_mode", AutoresetMode.SAME_STEP)
        settings = Settings.read("twofold.jax.make", self.game, {**others, "endpoint": "embedded"})
        for name in settings.extra_infos:
            if name in _OF_MORE_THAN_A_MOVE:
                raise InvalidArgument(
                    f"extra_infos contains {name!r}, which depends on earlier steps or on a table; "
                    "for JAX, expected infos that depend on the move alone",
                    field="extra_infos",
                )
        if settings.form.keys is not None:
            raise InvalidArgument(
                "obs is 'dict'; expected 'array', 'one_hot', 'one_hot_last' or 'flat', because a "
                "TimeStep has the action mask",
                field="obs",
            )
        # A session with one board checks the arguments, and describes the arrays.
        session = settings.session(1)
        try:
            create, spec = environment.CreateRequest(), session.spec
            create.CopyFrom(session.create)
        finally:
            session.close()
        self.num_actions = int(spec.action_space.discrete.n)
        # Refuses planes for observations without rows and columns.
        settings.form.space(make_space(spec.observation_space), self.num_actions)
        create.client_arguments = ""
        request = envelope.Request(create=create).SerializeToString(deterministic=True)
        self._request = np.frombuffer(request, np.uint8)
        self.num_envs, self._form = num_envs, settings.form
        self._key = request, num_envs, settings.form, self.game.server_actions
        self.autoreset_mode = settings.autoreset_mode
        self.reward_terms = tuple(spec.reward_terms)
        self._reset_arrays = _specs(spec.reset)
        self._step_arrays = _specs(spec.step)
        self._afterstates = _specs(spec.afterstates)
        self._state_type = _STATES[env]
        self._state = self._state_specs()
        # The fields that are results of their own. The others are arrays of a reset.
        self._rest = {
            name: spec
            for name, spec in self._state.items()
            if self._reset_arrays.get(_NAMES.get(name, name)) != spec
        }
        # The names of the state's fields among the results of a step.
        self._results_of = {
            name: name if name in self._rest else _NAMES.get(name, name) for name in self._state
        }
        # Not while tracing, because a program that was compiled in another process is never traced.
        _register()

    # JAX keeps what it compiles for an environment forever, and uses it for equal environments too.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxEnv) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _register()  # a pickled environment arrives in another process

    def _state_specs(self) -> dict[str, _Spec]:
        words = jax.ShapeDtypeStruct((4,), np.uint32)
        board = jax.ShapeDtypeStruct((self.game.rows, self.game.columns), np.uint8)
        number = jax.ShapeDtypeStruct((), np.int32)
        specs = {
            "generator": words,
            "phase": jax.ShapeDtypeStruct((), np.uint8),
            "matched": words,
            "visible": words,
            "board": board,
            "deck": board,
        }
        return {name: specs.get(name, number) for name in self._state_type._fields}

    # ---- reset and step --------------------------------------------------------------------------

    def reset(self, key: Array | None = None, *, seeds: Any = None) -> tuple[Any, TimeStep]:
        """Starts new episodes, from a key of `jax.random` or from seeds.

        Args:
            key: A key, from which each of `num_envs` boards gets a seed of 64 bits.
            seeds: The seeds, as in `VectorEnv.reset`: an integer, from which board i gets
                `seeds + i`; or an array or list of any shape, one for each board, 0 ... 2^64 - 1.
                In compiled code, pass uint32 (…, 2) with the low word first, because JAX has no
                64-bit integers by default.

        Returns:
            The states, and the time step with the first observations.

        Raises:
            InvalidArgument: The seeds are wrong, or both or neither of the arguments are given.
        """
        state, timestep = self._reset(_seed_words("reset", key, seeds, (self.num_envs,)))
        return state, timestep

    @functools.partial(jax.jit, static_argnums=0)
    def _reset(self, words: Array) -> tuple[Any, TimeStep]:
        specs = {**self._rest, **self._reset_arrays}
        results = self._call("reset", specs, words.shape[:-1], words)
        lead = words.shape[:-1]
        for name, spec in self._step_arrays.items():
            if name not in results:
                none = -1 if name == "chance" else 0
                results[name] = jnp.full((*lead, *spec.shape), none, spec.dtype)
        return self._results(results, results)

    def step(self, state: Any, actions: Array) -> tuple[Any, TimeStep]:
        """Plays one action on each board.

        Args:
            state: The states that the last reset or step returned.
            actions: Integers (…), 0 ... `num_actions` - 1, one for each board. If a JAX array
                contains any other number, the program fails with an error from JAX. The message
                names the board and the number, or 255 for any number outside 0 ... 255.

        Returns:
            The next states, and the time step.

        Raises:
            InvalidArgument: An argument has a wrong dtype or shape, or an action is out of range
                and `actions` is not a JAX array; `lane` names the first such board.
        """
        self._check_type(state)
        if not all(isinstance(array, jax.Array) for array in state):
            named = zip(state._fields, state, strict=True)
            state = type(state)(*(_read(f"state.{name}", array) for name, array in named))
        if not isinstance(actions, jax.Array):
            actions = _read("actions", actions)
        if isinstance(actions, np.ndarray):
            # Compiled code may see only 32 of an action's 64 bits.
            numbers = actions.reshape(-1)
            is_bad = (numbers < 0) | (numbers >= self.num_actions)
            _arguments.refuse_lane("actions", numbers, is_bad, f"0 ... {self.num_actions - 1}")
        state, timestep = self._step(state, actions)
        return state, timestep

    @functools.partial(jax.jit, static_argnums=0)
    def _step(self, state: Any, actions: Array) -> tuple[Any, TimeStep]:
        arguments = self._check_state(state)
        actions = self._server_actions(actions, state.phase.shape)
        specs = {**self._rest, **self._step_arrays}
        finals = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            finals = {f"final {name}": spec for name, spec in self._reset_arrays.items()}
        places = {name: place for place, name in enumerate(specs)}
        # XLA may write a result where its argument was, which saves a copy in loops.
        aliases = {
            argument + 1: places[name] for argument, name in enumerate(self._results_of.values())
        }
        results = self._call(
            "step", {**specs, **finals}, state.phase.shape, actions, *arguments, aliases=aliases
        )
        last = {name: results[f"final {name}"] for name in self._reset_arrays} if finals else None
        return self._results(results, last)

    def _results(
        self, results: dict[str, Array], last: dict[str, Array] | None
    ) -> tuple[Any, TimeStep]:
        """Returns the states and the time step; `last` holds the final arrays, if any."""
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            last = None
        fields = {name: results[result] for name, result in self._results_of.items()}
        names = [
            name
            for name in self._step_arrays
            if name not in ("observation", "action_mask", "reward", "terminated", "truncated")
        ]
        lead = results["reward"].shape
        timestep = TimeStep(
            observation=self._observation(results["observation"], lead),
            reward=results["reward"],
            terminated=results["terminated"],
            truncated=results["truncated"],
            action_mask=self.game.in_user_order(results["action_mask"], -1),
            info={name: results[name] for name in names},
            final_observation=last and self._observation(last["observation"], lead),
            final_info=last
            and {
                **{name: last[name] for name in self._reset_arrays if name != "observation"},
                "action_mask": self.game.in_user_order(last["action_mask"], -1),
            },
        )
        return self._state_type(**fields), timestep

    def _check_type(self, state: Any) -> None:
        if not isinstance(state, self._state_type):
            raise InvalidArgument(
                f"state is of type {type(state).__name__}; expected {self._state_type.__name__}",
                field="state",
            )

    def _check_state(self, state: Any) -> list[Array]:
        lead = jnp.shape(state.phase)
        for name, spec in self._state.items():
            array = getattr(state, name)
            if array.dtype != spec.dtype or array.shape != (*lead, *spec.shape):
                raise InvalidArgument(
                    f"state.{name} has dtype {array.dtype} and shape {array.shape}; expected "
                    f"{spec.dtype} and {(*lead, *spec.shape)}",
                    field=f"state.{name}",
                )
        return list(state)

    def _server_actions(self, actions: Array, lead: tuple[int, ...]) -> Array:
        if actions.shape != lead or not jnp.issubdtype(actions.dtype, jnp.integer):
            raise InvalidArgument(
                f"actions have dtype {actions.dtype} and shape {actions.shape}; expected integers "
                f"of shape {lead}",
                field="actions",
            )
        order = self.game.server_order
        if order is None and actions.dtype == np.uint8:
            return actions
        if actions.dtype.itemsize < 4:
            actions = actions.astype(np.int32)  # int8 can't be compared with 256
        numbers = actions
        if order is not None:
            known = jnp.asarray(order, actions.dtype)[actions % len(order)]
            numbers = jnp.where(actions < len(order), known, actions)
        # The library refuses 255, so a number that is not a byte never becomes a legal action.
        return jnp.where((actions >= 0) & (actions < 256), numbers, 255).astype(np.uint8)

    def _observation(self, boards: Array, lead: tuple[int, ...]) -> Array:
        form = self._form.form
        if form == "array":
            return boards
        if form == "flat":
            shape = (*lead, math.prod(boards.shape[len(lead) :]))
            return boards.reshape(shape).astype(np.float32)
        planes = self._form.planes
        is_first = form == "one_hot"
        numbers = jnp.minimum(boards, planes - 1).astype(np.int32)
        axis = len(lead) if is_first else -1
        return jax.nn.one_hot(numbers, planes, dtype=np.float32, axis=axis)

    # ---- search ----------------------------------------------------------------------------------

    def afterstates(self, boards: Array) -> tuple[Array, Array, Array]:
        """Returns the boards after each action, before the new tile. 2048 only.

        Args:
            boards: uint8 (…, rows, columns): exponents up to 26.

        Returns:
            The afterstates, uint8 (…, 4, rows, columns); the scores of the merges, float32 (…, 4);
            and the legal actions, int8 (…, 4). An illegal action leaves the board unchanged.
        """
        after, rewards, mask = self._expand(self._check_boards(boards))
        return after, rewards, mask

    @functools.partial(jax.jit, static_argnums=0)
    def _expand(self, boards: Array) -> tuple[Array, Array, Array]:
        results = self._call("afterstates", self._afterstates, boards.shape[:-2], boards)
        axis = boards.ndim - 2
        results = {name: self.game.in_user_order(of, axis) for name, of in results.items()}
        return results["boards"], results["rewards"], results["mask"]

    def spawn(
        self, afterstates: Array, key: Array | None = None, *, seeds: Any = None
    ) -> tuple[Array, Array]:
        """Adds a random tile to each board. 2048 only. A full board stays unchanged.

        Args:
            afterstates: uint8 (…, rows, columns): exponents.
            key: A key of `jax.random`.
            seeds: Seeds instead of a key, as for `reset`. `twofold.rules.spawn` places the same
                tile for the same seed.

        Returns:
            The boards, uint8 (…, rows, columns); and the outcomes, int32 (…): the cell of a 2,
            cells + the cell of a 4, or -1 for a full board.
        """
        boards = self._check_boards(afterstates)
        lead = boards.shape[:-2]
        words = _seed_words("spawn", key, seeds, lead)
        if words.shape[:-1] != lead:
            raise InvalidArgument(
                f"seeds have shape {words.shape[:-1]}; expected {lead}", field="seeds"
            )
        spawned, outcomes = self._spawn(boards, words)
        return spawned, outcomes

    @functools.partial(jax.jit, static_argnums=0)
    def _spawn(self, boards: Array, words: Array) -> tuple[Array, Array]:
        specs = {
            "boards": jax.ShapeDtypeStruct(boards.shape[-2:], np.uint8),
            "outcomes": jax.ShapeDtypeStruct((), np.int32),
        }
        results = self._call("spawn", specs, boards.shape[:-2], boards, words)
        return results["boards"], results["outcomes"]

    def chance(self, afterstates: Array) -> Array:
        """Returns the probability of each outcome of `spawn`. 2048 only.

        Args:
            afterstates: uint8 (…, rows, columns): exponents.

        Returns:
            float32 (…, 2 * cells): entry `cell` for a 2 there, cells + `cell` for a 4. Each row
            sums to 1, or to 0 for a full board.
        """
        boards = self._check_boards(afterstates)
        cells = self.game.rows * self.game.columns
        empty = (boards.reshape(*boards.shape[:-2], cells) == 0).astype(np.float32)
        each = empty / jnp.maximum(empty.sum(-1, keepdims=True), 1)
        # As in the library, the probability has 32 bits.
        probability = self.game.request.game2048.four_probability
        four = math.floor(probability * 2**32 + 0.5) / 2**32
        return jnp.concatenate([each * (1 - four), each * four], axis=-1)

    def _check_boards(self, boards: Array) -> Array:
        if not self._afterstates:
            raise InvalidArgument(f"{self.game.name} has no afterstates", field="env")
        boards = jnp.asarray(_read("boards", boards))
        shape = (self.game.rows, self.game.columns)
        if boards.dtype != np.uint8 or boards.shape[-2:] != shape:
            raise InvalidArgument(
                f"boards have dtype {boards.dtype} and shape {boards.shape}; expected uint8 and "
                f"(…, {shape[0]}, {shape[1]})",
                field="boards",
            )
        return boards

    # ---- the call --------------------------------------------------------------------------------

    def _call(
        self,
        target: str,
        results: Mapping[str, _Spec],
        lead: tuple[int, ...],
        first: Array,
        *others: Array,
        aliases: Mapping[int, int] | None = None,
    ) -> dict[str, Array]:
        """Calls a function of the library; returns its results by name."""
        # In jax.shard_map, results vary over the devices over which any argument varies. XLA
        # removes these arrays. jax.eval_shape would lose the mesh if some of its axes are Auto.
        any_of = sum(jnp.zeros_like(array, np.int32, shape=()) for array in (first, *others))
        like = [
            jnp.zeros_like(any_of, spec.dtype, shape=(*lead, *spec.shape))
            for spec in results.values()
        ]
        call = ffi.ffi_call(
            f"twofold_{target}",
            like,
            vmap_method="broadcast_all",
            input_output_aliases=dict(aliases or {}),
        )
        arrays = call(_on_cpu.bind(first), *others, request=self._request)
        return dict(zip(results, arrays, strict=True))


def _specs(layout: environment.PayloadLayout) -> dict[str, _Spec]:
    """Returns the arrays of a reply, without the axis of the boards."""
    return {
        array.name: jax.ShapeDtypeStruct(array.shape[1:], DTYPES[array.dtype])
        for array in layout.arrays
    }


def _read(field: str, value: Any) -> Array:
    """Returns integers as a numpy or JAX array that jax.jit accepts."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
        try:
            return jnp.asarray(value)  # may be a list of arrays
        except _arguments.UNREADABLE as error:
            raise InvalidArgument(
                f"{field} can't be read as a JAX array: {error}", field=field
            ) from error
    array = _arguments.array(field, value)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{field} can't have dtype {array.dtype}; expected integers", field=field
        )
    # JAX refuses the other byte order.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _seed_words(method: str, key: Array | None, seeds: Any, lead: tuple[int, ...]) -> Array:
    """Returns the seeds from a method's arguments, as uint32 (…, 2), the low word first.

    A key or a single integer seeds boards (*lead,).
    """
    if (key is None) == (seeds is None):
        raise InvalidArgument(f"{method} needs either key or seeds", field="seeds")
    if key is not None:
        try:
            return jax.random.bits(key, (*lead, 2), "uint32")
        except (TypeError, ValueError):
            shown = f"an array of shape {np.shape(key)}" if np.ndim(key) else repr(key)
            raise InvalidArgument(
                f"key is {shown}; expected a single key of jax.random for all boards, or one "
                "integer for each board as seeds=",
                field="key",
            ) from None
    if isinstance(seeds, jax.Array):
        if seeds.dtype == np.uint32 and seeds.ndim and seeds.shape[-1] == 2:
            return seeds
        if seeds.dtype == np.uint64:
            return jnp.stack([seeds, seeds >> 32], -1).astype(np.uint32)
        raise InvalidArgument(
            f"seeds are a JAX array of dtype {seeds.dtype} and shape {seeds.shape}; expected "
            "uint32 (…, 2) with the low word first, or seeds that are not a JAX array",
            field="seeds",
        )
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        first = _arguments.integer("seeds", seeds, 0)
        numbers = consecutive(first, math.prod(lead)).reshape(lead)
    else:
        numbers = seed_array(seeds)
    words = np.stack([numbers & np.uint64(2**32 - 1), numbers >> np.uint64(32)], -1)
    return jnp.asarray(words.astype(np.uint32))


@functools.cache
def _register() -> None:
    """Registers the library's functions with XLA, once per process."""
    loaded = library()
    for name in ("reset", "step", "afterstates", "spawn"):
        function = getattr(loaded, f"twofold_xla_{name}")
        function.restype = ctypes.c_void_p
        ffi.register_ffi_target(f"twofold_{name}", ffi.pycapsule(function), platform="cpu")


# ---- programs that the library can't serve -------------------------------------------------------

_on_cpu: Any = core.Primitive("twofold_on_cpu")
"""Returns its argument. It only compiles in programs that run on one CPU device."""
_on_cpu.def_impl(lambda array: array)
_on_cpu.def_abstract_eval(lambda array: array)


def _batch(arrays: Any, axes: Any) -> Any:
    return _on_cpu.bind(*arrays), axes[0]


def _lower(context: Any, array: Any) -> list[Any]:
    module = context.module_context
    others = set(context.platforms or module.platforms) - {"cpu"}
    if others:
        raise InvalidArgument(
            f"this program is compiled for {', '.join(sorted(others))}, and Twofold's steps run on "
            "the CPU: compile it for the CPU (jax.default_device), or step outside of it with "
            "gymnasium.make_vec",
            field="platform",
        )
    devices = getattr(module.axis_context, "num_devices", 1) or 1
    if devices > 1:
        raise InvalidArgument(
            f"this program is sharded over {devices} devices, which Twofold's step does not split: "
            "use jax.shard_map, in which each device steps its own boards",
            field="sharding",
        )
    return [array]


batching.primitive_batchers[_on_cpu] = _batch
mlir.register_lowering(_on_cpu, _lower)
