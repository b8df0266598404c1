"""`twofold evaluate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twofold.cli import playing
from twofold.cli.common import Result, positive
from twofold.errors import InvalidArgument
from twofold.evaluation import Evaluation, evaluate
from twofold.evaluation.run import FIRST_SEED, PROTOCOLS
from twofold.judging.chat import PROMPT
from twofold.policies import ChatModel, Strategy
from twofold.policies.functions import PolicyLike
from twofold.policies.lookup import NAMES, load, resolve

FORMATS: dict[str, Callable[[Evaluation], str]] = {
    "table": str,
    "markdown": Evaluation.to_markdown,
    "tdl": Evaluation.to_tdl,
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
        help=f"{', '.join(NAMES)}; a function (observations, action_mask) -> actions, as "
        "module:function or file.py:function; or model.zip of Stable-Baselines3",
    )
    player.add_argument(
        "--strategy",
        metavar="FILE",
        help="judge a program with a function strategy(board) -> direction, in a sandbox",
    )
    player.add_argument(
        "--chat",
        metavar="URL",
        help="judge a chat model at an OpenAI-compatible endpoint, such as http://host:8000/v1; "
        "the key is that of $OPENAI_API_KEY",
    )
    add("--against", metavar="POLICY", help="compare with this policy")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--episodes", type=int, metavar="N", help="number of games (default: 1,000; with --chat 10)"
    )
    number.add_argument("--protocol", choices=PROTOCOLS, help=f"preset number of games: {presets}")
    add(
        "--first-seed",
        type=int,
        default=FIRST_SEED,
        metavar="N",
        help="first game's seed (default: 2^63)",
    )
    add("--save", type=Path, metavar="FILE", help="save every game as JSON")
    add(
        "--record",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHICH", "FILE"),
        help="save a recording of a game: best, worst, median or its number; repeatable",
    )
    add(
        "--regret",
        action="store_true",
        help="report what the moves cost against optimal play; needs a board of at most nine cells "
        "and the table of `twofold solve`",
    )
    add("--plot", type=Path, metavar="FILE", help="save a plot (.png, .svg, .pdf)")
    add(
        "--policy-timeout",
        type=positive,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one call of the policy (default: 60)",
    )
    lanes = "as many as games, at most 4,096; 16 with --strategy, 8 with --chat"
    playing.add_environment_arguments(parser, lanes, list(FORMATS))
    _add_judging_arguments(parser)


def _add_judging_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("with --strategy").add_argument
    defaults = Strategy("")
    for name, limited in (("move", "one move"), ("game", "all moves of a game")):
        add(
            f"--{name}-timeout",
            type=positive,
            default=getattr(defaults, f"{name}_timeout"),
            metavar="SECONDS",
            help=f"time limit of {limited} (default: %(default)g)",
        )
    add(
        "--memory",
        type=int,
        default=defaults.memory_mb,
        metavar="MB",
        help="memory of a game's process, in megabytes (default: %(default)s)",
    )
    add("--unsafe", action="store_true", help="run the program without a sandbox")
    add = parser.add_argument_group("with --chat").add_argument
    add("--model", metavar="NAME", help="the model's name at the endpoint; required")
    add("--prompt", type=Path, metavar="FILE", help="prompt of a move, with {board} and {legal}")
    add(
        "--options",
        type=_fields,
        metavar="JSON",
        help="""more fields of a request, such as '{"temperature": 0, "max_tokens": 500}'""",
    )
    add(
        "--retries",
        type=int,
        default=ChatModel.retries,
        metavar="N",
        help="corrections of one move before the game fails (default: %(default)s)",
    )
    add(
        "--chat-timeout",
        type=positive,
        default=ChatModel.timeout,
        metavar="SECONDS",
        help="time limit of one request (default: %(default)g)",
    )


def _fields(text: str) -> dict[str, Any]:
    """A JSON object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is no JSON object")
    return value


def _policies(arguments: argparse.Namespace) -> Iterator[PolicyLike]:
    """The policy to evaluate, and that of --against if there is one."""
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
            raise InvalidArgument("--chat needs --model NAME", field="model")
        prompt = PROMPT if arguments.prompt is None else arguments.prompt.read_text()
        yield ChatModel(
            arguments.chat,
            arguments.model,
            prompt=prompt,
            options=arguments.options or {},
            retries=arguments.retries,
            timeout=arguments.chat_timeout,
        )
    for name in (arguments.policy, arguments.against):
        if name is not None:
            yield load(name, trust_pickle=arguments.trust_pickle)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Evaluates one policy or two."""
    results: list[Evaluation] = []
    for policy in [resolve(each) for each in _policies(arguments)]:
        # The second plays as many games as the first.
        episodes = results[0].episodes if results else arguments.episodes
        with playing.progress(policy.name, "games", arguments) as update:
            result = evaluate(
                policy,
                episodes=episodes,
                protocol=None if results else arguments.protocol,
                first_seed=arguments.first_seed,
                policy_timeout=arguments.policy_timeout,
                progress=update,
                record=bool(arguments.record),
                regret=arguments.regret,
                num_envs=arguments.num_envs,
                env=arguments.env,
                **playing.environment_arguments(arguments),
            )
        results.append(result)
    _save(arguments, results)
    reports = [FORMATS[arguments.format](result) for result in results]
    documents = [json.loads(result.to_json()) for result in results]
    if len(results) == 1:
        yield Result(reports[0], documents[0])
    else:
        comparison = results[0].compare(results[1])
        yield Result(
            "\n\n".join([*reports, str(comparison)]),
            {"evaluations": documents, "comparison": json.loads(comparison.to_json())},
        )


def _save(arguments: argparse.Namespace, results: list[Evaluation]) -> None:
    """Writes the files that were asked for."""
    if arguments.save:
        paths = [arguments.save, arguments.save.with_suffix(f".against{arguments.save.suffix}")]
        for path, result in zip(paths, results, strict=False):
            path.write_text(result.to_json(games=True) + "\n")
    for which, file in arguments.record:
        results[0].recording(which).save(file)
    if arguments.plot:
        results[0].plot(arguments.plot, *results[1:])
