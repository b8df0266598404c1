"""Runs the whole system, clients and servers, in a simulated world with random faults.

    make simulate SEED=7 STEPS=1000                 # one run, the same each time
    make simulate SIMULATE_ARGS='--minutes 10'      # as many seeds as fit, on all cores
    make simulate SIMULATE_ARGS='--minutes 10 --models'    # faster, with clients modelled in Swift

After a violation, prints the command that repeats the run. Also prints a smaller run that fails, as
a command and as JSON for Tests/Fixtures/simulation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time

# One thread is enough: the shadows are small, and each core has its own process.
os.environ["TWOFOLD_THREADS"] = "1"

from campaign import Campaign, campaign, cores
from runs import STEPS, Run
from shrinking import shrink
from world import KINDS, Faults


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"total calls by all clients in a run ({STEPS})"
    )
    parser.add_argument("--minutes", type=float, help="minutes to spend on successive seeds")
    parser.add_argument("--models", action="store_true", help="use clients modelled in Swift")
    parser.add_argument("--without", default="", help="kinds of faults to leave out, as a,b,c")
    parser.add_argument("--suppress", default="", help="ordinals of faults to leave out, as 1,2,3")
    parser.add_argument("--log", action="store_true", help="print each event")
    parser.add_argument("--workers", type=int, default=cores(), help="processes (all cores)")
    parser.add_argument(
        "--shrink-seconds", type=float, default=120, help="seconds to search for a smaller run"
    )
    return parser.parse_args()


def main() -> int:
    """Runs the command. Returns 1 after a violation, or if an expected event never occurred."""
    arguments = _arguments()
    disabled = frozenset(KINDS.index(kind) for kind in arguments.without.split(",") if kind)
    suppressed = frozenset(int(one) for one in arguments.suppress.split(",") if one)
    faults = Faults(disabled, suppressed)

    def run(seed: int) -> Run:
        return Run(seed, arguments.steps, faults, arguments.models)

    began = time.monotonic()
    if arguments.minutes is None:
        total = Campaign()
        first = run(arguments.seed)
        total.add(first, first.report(print if arguments.log else None))
    else:
        seeds = map(run, itertools.count(arguments.seed))
        total = campaign(seeds, 60 * arguments.minutes, arguments.workers, _say)
    print(total.text(time.monotonic() - began))
    for failed, violation in total.violations[:1]:
        print(f"violation: {violation}\n  {failed.command()}")
        smallest = failed
        if arguments.shrink_seconds > 0:
            smallest, report = shrink(failed, arguments.shrink_seconds, say=_say)
            print(f"smallest: {report.violation}\n  {smallest.command()}")
        print(json.dumps(smallest.as_json()))
    missing = total.missing_marks(arguments.models)
    if missing:
        print(f"never reached: {', '.join(missing)}")
    return 1 if total.violations or missing else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
