"""The subcommand `twofold evaluate`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from twofold import _arguments, _text
from twofold.cli import playing
from twofold.cli.common import Result, check_outputs, numeric, policy_files
from twofold.errors import InvalidArgument
from twofold.evaluation import Comparison, Evaluation
from twofold.evaluation.report import check_plot
from twofold.evaluation.run import PROTOCOLS, Plan, episode_seeds
from twofold.judging.chat import PROMPT
from twofold.policies import ChatModel, Strategy
from twofold.policies.choosers import PolicyLike
from twofold.policies.lookup import NAMES, load, resolve

FORMATS: dict[str, Callable[[Evaluation | Comparison], str]] = {
    "table": str,
    "markdown": lambda result: result.to_markdown(),
}
# The options that only one kind of player has.
_OPTIONS = {
    "strategy": ("move_timeout", "game_timeout", "memory", "unsafe"),
    "chat": ("model", "prompt", "options", "retries", "chat_timeout"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold evaluate expectimax --episodes 100 --against greedy"
    presets = ", ".join(f"{name} {number:,}" for name, number in PROTOCOLS.items())
    add = parser.add_argument
    player = parser.add_mutually_exclusive_group(required=True)
    player.add_argument(
        "policy",
        nargs="?",
        help=f"{', '.join(NAMES)} (the last two for Concentration); module:NAME or file.py:NAME "
        "for a Python function (observations, action_mask) -> actions; or a "
        "Stable-Baselines3 model.zip",
    )
    player.add_argument(
        "--strategy",
        metavar="FILE",
        help="judge a Python file's function strategy(board) -> direction on 2048, in a sandbox",
    )
    player.add_argument(
        "--chat",
        metavar="URL",
        help="judge a chat model on 2048 at an OpenAI-compatible endpoint, such as "
        "http://host:8000/v1; the API key comes from $OPENAI_API_KEY",
    )
    add("--against", metavar="POLICY", help="compare with this policy, specified like the first")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="number of games (default: 1,000, or 10 with --chat)",
    )
    number.add_argument("--protocol", choices=PROTOCOLS, help=f"preset number of games: {presets}")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--first-seed",
        type=int,
        metavar="N",
        help="first game's seed (default: 2^63); not with --strategy or --chat",
    )
    seeds.add_argument(
        "--secret",
        metavar="DIGITS",
        help="replay the games of the report that contains this secret (default with --strategy "
        "and --chat: a new secret)",
    )
    add("--save", type=Path, metavar="FILE", help="save every game as JSON")
    add(
        "--record",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHICH", "FILE"),
        help="save a recording of a game: best, worst, median or a game's number; repeatable",
    )
    add(
        "--regret",
        action="store_true",
        help="report how much each move loses compared with optimal play; needs a 2048 board "
        "of at most nine cells and its table from `twofold solve`",
    )
    add("--name", metavar="NAME", help="name of the first policy in the report and the plot")
    add("--plot", type=Path, metavar="FILE", help="save a plot (.png, .svg, .pdf)")
    add("--policy-timeout", **numeric(60.0, "time limit for one call of a Python function"))
    lanes = "as many as games, at most 4,096; 16 with --strategy, 8 with --chat"
    playing.add_environment_arguments(parser, lanes, list(FORMATS))
    _add_judging_arguments(parser)
    defaults = {name: parser.get_default(name) for names in _OPTIONS.values() for name in names}
    parser.set_defaults(defaults=defaults)


def _add_judging_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("with --strategy").add_argument
    add("--move-timeout", **numeric(Strategy.move_timeout, "time limit for one move"))
    game_timeout = "total time limit for all moves of one game"
    add("--game-timeout", **numeric(Strategy.game_timeout, game_timeout))
    memory = "memory limit of the process that plays one game, in megabytes"
    add("--memory", **numeric(Strategy.memory_mb, memory, "MB"))
    add("--unsafe", action="store_true", help="run the program without the sandbox")
    add = parser.add_argument_group("with --chat").add_argument
    add("--model", metavar="NAME", help="the model's name at the endpoint; required")
    add("--prompt", type=Path, metavar="FILE", help="prompt for a move, with {board} and {legal}")
    add(
        "--options",
        type=_fields,
        metavar="JSON",
        help="""more fields for each request, such as '{"temperature": 0, "max_tokens": 500}'""",
    )
    retries = "number of invalid answers per move that the model may correct"
    add("--retries", **numeric(ChatModel.retries, retries))
    add("--chat-timeout", **numeric(ChatModel.timeout, "time limit for one request"))


def _fields(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not JSON: {error}") from None


def _policies(arguments: argparse.Namespace) -> Iterator[PolicyLike]:
    """Yields the policy to evaluate and, if there is one, the policy of --against."""
    for player, names in _OPTIONS.items():
        for name in names if getattr(arguments, player) is None else ():
            if getattr(arguments, name) != arguments.defaults[name]:
                option = name.replace("_", "-")
                raise InvalidArgument(f"--{option} requires --{player}", field=name)
    if arguments.strategy is not None:
        yield Strategy.load(
            arguments.strategy,
            move_timeout=arguments.move_timeout,
            game_timeout=arguments.game_timeout,
            memory_mb=arguments.memory,
            unsafe=arguments.unsafe,
        )
    elif arguments.chat is not None:
        if arguments.model is None:
            raise InvalidArgument("--chat requires --model NAME", field="model")
        prompt = PROMPT if arguments.prompt is None else _text.read(arguments.prompt, "prompt")
        yield ChatModel(
            arguments.chat,
            arguments.model,
            prompt=prompt,
            options={} if arguments.options is None else arguments.options,
            retries=arguments.retries,
            timeout=arguments.chat_timeout,
        )
    for name in (arguments.policy, arguments.against):
        if name is not None:
            yield load(name, trust_pickle=arguments.trust_pickle)


_Outputs: TypeAlias = list[tuple[Path, Callable[[Path, Sequence[Evaluation]], object]]]
"""The files to write after the evaluations, and the functions that write them."""


def _outputs(arguments: argparse.Namespace) -> _Outputs:
    outputs: _Outputs = []
    if save := arguments.save:
        outputs.append((save, functools.partial(_save, 0)))
        if arguments.against is not None:
            path = save.parent / f"{save.stem}.against{save.suffix}"
            outputs.append((path, functools.partial(_save, 1)))
    for which, name in arguments.record:
        outputs.append((Path(name), functools.partial(_record, which)))
    if arguments.plot:
        plot = check_plot(arguments.plot)
        outputs.append((plot, lambda path, results: results[0].plot(path, *results[1:])))
    return outputs


def _save(index: int, path: Path, results: Sequence[Evaluation]) -> None:
    if index < len(results):  # the second evaluation may be missing
        with _text.whole_file(path) as file:
            file.write(results[index].to_json(games=True).encode() + b"\n")


def _record(which: str, path: Path, results: Sequence[Evaluation]) -> None:
    if results[0].log is not None:  # it is None if the evaluation ended early
        results[0].recording(which).save(path)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Evaluates one policy, or two to compare."""
    policies = [resolve(each) for each in _policies(arguments)]
    if arguments.name is not None:
        policies[0] = replace(policies[0], name=arguments.name)
    seeds = episode_seeds(
        # One player is enough to require secret seeds.
        next((policy for policy in policies if policy.may_fail), policies[0]),
        arguments.episodes,
        arguments.protocol,
        arguments.first_seed,
        arguments.secret,
    )
    # Everything that is used only after the games is checked before them.
    for which, _ in arguments.record:
        _arguments.game(which, len(seeds))
    outputs = _outputs(arguments)
    inputs = policy_files(arguments.policy, arguments.against)
    inputs += [each for each in (arguments.strategy, arguments.prompt) if each is not None]
    check_outputs([path for path, _ in outputs], *inputs)
    env_arguments = playing.environment_arguments(arguments, arguments.env)
    plans = [
        Plan(
            chooser=policy,
            seeds=seeds,
            env=arguments.env,
            num_envs=arguments.num_envs,
            policy_timeout=arguments.policy_timeout,
            record=bool(arguments.record),
            regret=arguments.regret,
            env_arguments=env_arguments,
        )
        for policy in policies
    ]
    # Policies that `check` has opened keep the solution of a game, which can take minutes.
    _checked = [replace(plan, num_envs=None).check() for plan in plans[1:]]
    results: list[Evaluation] = []
    try:
        for plan in plans:
            with playing.progress(plan.chooser.name, "games", arguments) as update:
                results.append(plan.play(update))
    except BaseException as error:
        unfinished = getattr(error, "evaluation", None)
        if isinstance(unfinished, Evaluation):
            results.append(unfinished)
        raise
    finally:
        # If a policy fails, all games that have finished are still reported.
        if results:
            yield from _report(arguments, outputs, results)


def _report(
    arguments: argparse.Namespace, outputs: _Outputs, results: Sequence[Evaluation]
) -> Iterator[Result]:
    """Yields the report and then writes the files, even if printing the report fails."""
    try:
        shown = FORMATS[arguments.format]
        reports = [shown(result) for result in results]
        documents = [json.loads(result.to_json()) for result in results]
        if len(results) == 1 or any("ended early" in result.card for result in results):
            for report, document in zip(reports, documents, strict=True):
                yield Result(report, document)
        else:
            comparison = results[0].compare(results[1])
            yield Result(
                "\n\n".join([*reports, shown(comparison)]),
                {"evaluations": documents, "comparison": json.loads(comparison.to_json())},
            )
    finally:
        # Writes all files, even if one of them fails, and raises the error of the first such file.
        with contextlib.ExitStack() as stack:
            for path, write in outputs:
                stack.callback(write, path, results)
