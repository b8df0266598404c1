"""The evaluation of a policy on whole games, from public or secret seeds."""

from __future__ import annotations

import contextlib
import math
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from twofold import _arguments
from twofold.client.lookup import VERSION
from twofold.envs import make_vec
from twofold.envs.playing import Source, play
from twofold.envs.seeding import consecutive
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.evaluation.action_log import ActionLog, ActionRecorder
from twofold.evaluation.observers import GameResults, Progress, ProgressReport
from twofold.evaluation.regret import INFOS, Regret, RegretMeter
from twofold.evaluation.results import ARRAYS, Evaluation
from twofold.evaluation.rule_card import environment_card, policy_card
from twofold.evaluation.schedule import Schedule, Segment
from twofold.evaluation.seeds import FIRST_SEED, Seeds
from twofold.evaluation.sources import Rollouts, Steps
from twofold.games.concentration import Concentration
from twofold.games.rewards import extra_info_names
from twofold.games.spec import full_id
from twofold.policies.choosers import Chooser, OpenChooser, PolicyLike, ServedChooser
from twofold.policies.lookup import resolve

PROTOCOLS = {
    # The numbers of games that tables in the literature are based on.
    "quick": 1_000,
    "1ply": 1_000_000,
    "search": 10_000,
    "deep": 100,
}
ProtocolName = Literal["quick", "1ply", "search", "deep"]


def evaluate(
    policy: PolicyLike,
    *,
    env: str | VectorEnv[Any, Any, Any] = "twofold/Game2048-v0",
    episodes: int | None = None,
    protocol: ProtocolName | None = None,
    num_envs: int | None = None,
    first_seed: int | None = None,
    secret: str | None = None,
    name: str | None = None,
    policy_timeout: float = 60.0,
    progress: Progress | None = None,
    record: bool = False,
    regret: bool = False,
    executor: Executor | None = None,
    **env_arguments: Any,
) -> Evaluation:
    """Plays whole games with a policy. Reports scores and tiles with 95 % intervals, and the speed.

    Episode k starts from seed `first_seed` + k, regardless of the number of boards. A board that
    finishes starts the next episode, and every started episode counts. Therefore, long games count
    as often as short ones. (Counting the first 1,000 games to finish would favour short games.)

    A program or a chat model that knew its game's seed could compute every tile. For these
    policies, the seeds are derived from a new secret, which the report contains. To repeat the
    games, pass the secret from the report as `secret`.

    If an error or an interrupt ends an evaluation early, the exception's attribute `evaluation`
    contains the finished games, if there are any, without log and regret. An executor may omit some
    of them.

    Args:
        policy: A function (observations, action_mask) -> actions, as `PolicyFunction` and
            `PolicyWithMemory` describe; an object from `twofold.policies`, such as a `Strategy` or
            a `ChatModel`; or a name: "random", "fixed-order", "greedy", "expectimax",
            "expectimax:3", "ntuple:agent.npz", "optimal", or, for Concentration, "perfect-memory"
            and "last-k-memory:4".
        env: An environment's id, or an open vector environment with NEXT_STEP autoreset, which
            stays open and must accept a list of seeds and options={"reset_mask": …}, as
            Gymnasium's SyncVectorEnv and AsyncVectorEnv do. If its infos contain `score`, `moves`,
            `max_exponent` or `action_mask`, the evaluation uses them.
        episodes: The number of games (default: 1,000, or 10 for a chat model).
        protocol: A preset for `episodes`: "quick" for 1,000, "1ply" for 1,000,000, "search" for
            10,000, "deep" for 100.
        num_envs: The number of boards played at once (default: one per episode; at most 4,096, or
            16 for a program, or 8 for a chat model).
        first_seed: The first episode's seed, 2^63 or more (default: 2^63). Not allowed for a
            `Strategy` or a `ChatModel`.
        secret: The `Evaluation.secret` of an earlier evaluation, to play the same games again, with
            any policy.
        name: The policy's name in reports (default: its own).
        policy_timeout: The time limit for one call of a Python function, in seconds. It is checked
            when the call returns.
        progress: A function called when episodes finish. Its arguments are three numbers: finished
            episodes, all episodes, and steps so far.
        record: Whether to keep every game's actions, two bits each, for `Evaluation.recording`.
        regret: Whether to report how much the moves lose compared with optimal play, on 2048 boards
            with at most nine cells. The service needs the table that `twofold solve` makes.
        executor: The executor that plays the games, such as
            `twofold.integrations.ray.RayExecutor()` (default: this process).
        **env_arguments: Arguments of the environment `env`, such as size=3 or endpoint="tcp://…".

    Raises:
        PolicyError: The policy raised an error, timed out, or did not return legal actions.
            The message names the call, the episode and its seed.
        InvalidArgument: An argument is wrong; `field` names it.
        FailedPrecondition: `regret` is True, but the service has no table from `twofold solve`.
        StrategyError, SandboxUnavailable: The program can't be judged, or no sandbox is available.
        TransportError: No server answered.
        ModelUnavailable: The chat model's endpoint did not answer.
        ResourceExhausted: The process can't start a thread for each board of a chat model.
    """
    _arguments.progress(progress)
    _arguments.executor(executor, "evaluate")
    chooser = resolve(policy, None if name is None else _arguments.text("name", name))
    plan = Plan(
        chooser=chooser,
        seeds=episode_seeds(chooser, episodes, protocol, first_seed, secret),
        env=env,
        num_envs=num_envs,
        policy_timeout=policy_timeout,
        record=record,
        regret=regret,
        env_arguments=env_arguments,
    )
    return plan.play(progress) if executor is None else executor.evaluate(plan, progress)


class _Setup:
    """Everything that an evaluation needs for this number of games. `stack` closes it afterwards.

    Attributes:
        opened: The open policy; None if the service plays it.
    """

    def __init__(
        self, plan: Plan, games: int, stack: contextlib.ExitStack, progress: Progress | None = None
    ) -> None:
        self.chooser = chooser = plan.chooser.for_env(plan.env)
        envs = stack.enter_context(plan.environment(chooser, min(games, chooser.lanes)))
        if not isinstance(chooser, ServedChooser):
            _check_autoreset(envs)
        self.results = GameResults(games)
        self.recorder = ActionRecorder(envs) if plan.record else None
        self.meter = RegretMeter(envs, games) if plan.regret else None
        report = None if progress is None else ProgressReport(progress)
        every = self.results, self.recorder, self.meter, report
        self.observers = [each.add for each in every if each is not None]
        infos = () if self.meter is None else self.meter.infos
        opened = chooser.open(envs, plan.policy_timeout)
        self.opened: OpenChooser | None = None
        self.source: Source[Schedule, Segment]
        if isinstance(opened, OpenChooser):
            stack.callback(opened.close)
            self.opened, self.source = opened, Steps(envs, opened, infos)
        else:
            self.source = Rollouts(envs, opened, infos)
        self.card = {
            **environment_card(envs),
            **policy_card(chooser),
            **chooser.conditions,
            "boards at once": envs.num_envs,
            "twofold": VERSION,
            "python": platform.python_version(),
        }

    def evaluation(self, seeds: Seeds, start: float) -> Evaluation:
        """Returns the evaluation of the finished games. Its regret requires all games.

        Args:
            seeds: The seeds of all games.
            start: The time when the first game started, from `time.perf_counter`.
        """
        return Evaluation(
            policy=self.chooser.name,
            card=self.card,
            seeds=seeds.games[self.results.finished],
            **self.results.fields(),
            seconds=time.perf_counter() - start,
            policy_seconds=math.nan if self.opened is None else self.opened.seconds,
            log=None if self.recorder is None else self.recorder.log,
            failures=self.results.sorted_failures() if self.chooser.may_fail else None,
            player={} if self.opened is None else dict(self.opened.summary()),
            regret=None if self.meter is None else self.meter.regret,
            secret=seeds.secret,
        )


@dataclass(frozen=True)
class Plan:
    """The arguments of an evaluation. `evaluate` describes the attributes.

    A plan can be pickled if its chooser can be pickled and `env` is an id.
    """

    chooser: Chooser
    seeds: Seeds
    env: str | VectorEnv[Any, Any, Any]
    num_envs: int | None
    policy_timeout: float
    record: bool
    regret: bool
    env_arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        _arguments.policy_timeout(self.policy_timeout)
        _arguments.boolean("record", self.record)
        _arguments.boolean("regret", self.regret)

    def play(self, progress: Progress | None, part: range | None = None) -> Evaluation:
        """Plays all episodes, or only those in the range `part`."""
        part = range(len(self.seeds)) if part is None else part
        seeds = self.seeds.of(np.arange(part.start, part.stop))
        with contextlib.ExitStack() as stack:
            setup = _Setup(self, len(part), stack, progress)
            card = setup.card
            if seeds.secret is not None:
                card["seeds"] = "drawn for these games" if seeds.is_new else "known before"
                if card.get("sandbox") == "off":
                    card["seeds"] += ", and readable by the program"
            start = time.perf_counter()
            schedule = Schedule(seeds, card["boards at once"], part.start)
            try:
                play(setup.source, schedule, setup.observers)
            except BaseException as error:
                if setup.results.finished.any() and len(part) == len(self.seeds):
                    keep(error, setup.evaluation(seeds, start), len(part))
                raise
            return setup.evaluation(seeds, start)

    def check(self) -> OpenChooser | None:
        """Checks whether the policy plays in the environment, without asking a function.

        Returns the policy, which has been closed; None if the service plays it.
        """
        with contextlib.ExitStack() as stack:
            setup = _Setup(self, 1, stack)
            if isinstance(setup.source, Rollouts):
                setup.source.check()
            return setup.opened

    def environment(
        self, chooser: Chooser, lanes: int
    ) -> contextlib.AbstractContextManager[VectorEnv[Any, Any, Any]]:
        """Returns a context manager that closes the environment only if it is new.

        An environment that the caller passed as `env` stays open.
        """
        arguments = dict(self.env_arguments)
        if isinstance(self.env, str):
            if self.regret and full_id(self.env) == Concentration.environment_id:
                raise InvalidArgument(
                    "regret requires 2048 on a board with at most nine cells; for Concentration, "
                    "twofold.ceilings computes the expected results of optimal play",
                    field="regret",
                )
            if isinstance(chooser, ServedChooser):
                arguments["autoreset_mode"] = AutoresetMode.DISABLED
            if self.regret:
                given = extra_info_names(arguments.get("extra_infos", ()))
                extras = dict.fromkeys([*given, *INFOS])
                arguments["extra_infos"] = tuple(extras)
            number = lanes if self.num_envs is None else self.num_envs
            number = _arguments.integer("num_envs", number, 1)
            try:
                return contextlib.closing(make_vec(self.env, num_envs=number, **arguments))
            except InvalidArgument as error:
                # A single environment of Twofold's also refuses it.
                is_refused = "'autoreset_mode'" in str(error)
                if not is_refused or not isinstance(chooser, ServedChooser):
                    raise
                raise InvalidArgument(
                    f"the policy {chooser.name} plays Twofold's environments only; {self.env} is "
                    "not one of them, or these arguments make another environment from it",
                    field="env",
                ) from None
        if not isinstance(self.env, VectorEnv):
            expected = "an environment's id or a gymnasium VectorEnv"
            raise _arguments.wrong("env", self.env, expected)
        extra = sorted([*arguments, *([] if self.num_envs is None else ["num_envs"])])
        if extra:
            raise InvalidArgument(
                f"{', '.join(extra)} can't be set on an open environment; pass env as an id",
                field=extra[0],
            )
        return contextlib.nullcontext(self.env)


class Executor(Protocol):
    """An object that runs evaluations outside this process, such as `RayExecutor`."""

    def evaluate(self, plan: Plan, progress: Progress | None, /) -> Evaluation:
        """Runs the evaluation and returns its result."""
        ...


def keep(error: BaseException, finished: Evaluation, games: int) -> None:
    """Attaches an evaluation of the finished games to the error that ended all `games` early."""
    note = (
        f"{finished.episodes:,} of {games:,} games finished; long games are more likely to be "
        "missing"
    )
    card = {**finished.card, "ended early": note}
    vars(error)["evaluation"] = replace(finished, card=card, log=None, regret=None)


def join(parts: Sequence[Evaluation], seconds: float) -> Evaluation:
    """Joins the consecutive parts of an evaluation, which were played in parallel.

    The result has the given `seconds`, the duration of the whole evaluation. Its `policy_seconds`
    is `seconds` times the fraction of the parts' total duration that was spent in the policy.
    Statistics of chat models are dropped.
    """
    first = parts[0]
    for part in parts:
        for key, value in first.card.items():
            if part.card[key] != value:
                raise FailedPrecondition(
                    f"the machines report different values for {key!r}: {value!r} and "
                    f"{part.card[key]!r}; use the same versions on all machines"
                )

    def joined(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    share = sum(part.policy_seconds for part in parts) / sum(part.seconds for part in parts)
    log = None
    if first.log is not None:
        logs = [part.log.games for part in parts if part.log is not None]
        log = ActionLog(first.log.rules, {seed: each[seed] for each in logs for seed in each})
    failures = None
    if first.failures is not None:
        failures = tuple(each for part in parts for each in part.failures or ())
    regrets = [part.regret for part in parts if part.regret is not None]
    return replace(
        first,
        **{name: joined(name) for name in ARRAYS},
        seconds=seconds,
        policy_seconds=share * seconds,
        log=log,
        failures=failures,
        player={},
        regret=Regret.join(regrets) if regrets else None,
    )


def episode_seeds(
    policy: Chooser,
    episodes: int | None,
    protocol: str | None,
    first_seed: int | None,
    secret: str | None,
) -> Seeds:
    """Returns the seeds of an evaluation's episodes. `evaluate` describes the arguments."""
    number = _number_of_episodes(episodes, protocol, policy.episodes)
    if secret is None and not policy.may_fail:
        first_seed = FIRST_SEED if first_seed is None else first_seed
        first_seed = _arguments.integer("first_seed", first_seed, FIRST_SEED, 2**64 - number)
        return Seeds(consecutive(first_seed, number))
    if first_seed is not None:
        raise InvalidArgument(
            f"first_seed={first_seed}, but these games have seeds derived from a secret; omit "
            "first_seed, and pass secret= to repeat the games of an earlier report",
            field="first_seed",
        )
    return Seeds.of_secret(number, secret)


def _number_of_episodes(episodes: int | None, protocol: str | None, default: int) -> int:
    if protocol is None:
        given = default if episodes is None else episodes
        return _arguments.integer("episodes", given, 1, 2**31)
    _arguments.choice("protocol", protocol, PROTOCOLS)
    if episodes is not None:
        raise InvalidArgument(
            f"episodes={episodes} and protocol={protocol!r} ({PROTOCOLS[protocol]:,} episodes) are "
            "both given; pass only one of them",
            field="episodes",
        )
    return PROTOCOLS[protocol]


def _check_autoreset(env: VectorEnv[Any, Any, Any]) -> None:
    mode = env.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.NEXT_STEP:
        raise InvalidArgument(
            f"env's autoreset_mode is {mode}; evaluation requires NEXT_STEP", field="env"
        )
    if getattr(env.unwrapped, "shared_memory", True) is False:
        raise InvalidArgument(
            "gymnasium's AsyncVectorEnv with shared_memory=False resets a board twice after a "
            "masked reset, so evaluation can't tell its episodes apart; omit shared_memory",
            field="env",
        )
