"""Checks that equal seeds give equal runs, and that different seeds give different runs."""

from __future__ import annotations

from collections.abc import Iterator

from twofold._comparison import first_difference
from twofold.testing.subject import Result, Subject, Violation, all_equal, expect_equal


def equal_seeds_agree(subject: Subject) -> None:
    """Equal seeds and actions give equal runs, even while another environment is in use."""
    first, other = subject.player(), subject.player()

    def interleaved() -> Iterator[Result]:
        disturbing = other.play(subject.steps, subject.seed + 1000)
        for result in first.play(subject.steps, subject.seed):
            yield result
            next(disturbing)

    subject.compare_with_recording(
        interleaved(),
        f"two environments with seed {subject.seed} to agree under the same actions, "
        "regardless of a third environment",
    )


def reseeding_starts_anew(subject: Subject) -> None:
    """reset(seed=s) repeats a run, even on a used environment in the middle of an episode."""
    player = subject.player()
    for _ in player.play(7, subject.seed + 5):
        pass
    subject.compare_with_recording(
        player.play(min(subject.steps, 100), subject.seed),
        f"reset(seed={subject.seed}) on a used environment to begin the same run as on a new "
        "environment",
    )


def reset_forgets_the_end(subject: Subject) -> None:
    """A reset right after an episode's end leaves no autoreset pending."""
    player = subject.player()
    for _ in player.play(subject.ends[0], subject.seed):
        pass
    subject.compare_with_recording(
        player.play(min(subject.steps, 30), subject.seed),
        f"reset(seed={subject.seed}) right after an episode's end to begin the same run "
        "as on a new environment; is the autoreset still pending?",
    )


def different_seeds_differ(subject: Subject) -> None:
    """Different seeds give different runs."""
    subject.need_chance()
    player = subject.player()
    seeds = subject.seeds(4)
    if all_equal([subject.transcript(player, seed) for seed in seeds]):
        raise Violation(
            f"expected different runs from the seeds {seeds}; all were equal. Is the seed used? "
            "(pass stochastic=False if nothing is random)"
        )


def lanes_differ(subject: Subject) -> None:
    """With a single seed, each lane gets its own random stream."""
    subject.need_chance()
    subject.need_lanes()
    subject.need_random_actions("the same action on all lanes")
    player = subject.player()
    player.reset(subject.seed)
    for _ in range(min(subject.steps, 100)):
        player.reset_finished()
        if not all_equal(subject.lanes_of(player.last.observations)):
            return
        player.step(subject.batch([player.action(0)] * subject.lanes))
    raise Violation(
        f"expected the lanes to differ after reset(seed={subject.seed}); with the same action on "
        "all lanes they stay equal. Do all lanes get the same seed?"
    )


def unseeded_goes_on(subject: Subject) -> None:
    """reset() without a seed continues the random streams instead of seeding them again."""
    player = subject.player()
    runs = []
    for _ in range(2):
        player.reset(subject.seed)
        runs.append(subject.transcript(player))
    expect_equal(
        runs[0],
        runs[1],
        f"reset() after reset(seed={subject.seed}) to continue the seeded stream, the "
        "same each time",
    )
    if not subject.stochastic:
        return
    for seed in range(subject.seed, subject.seed + 4):
        seeded = subject.transcript(player, seed)
        player.reset(seed)
        if first_difference(seeded, subject.transcript(player)) is not None:
            break
    else:
        raise Violation(
            "expected reset() after reset(seed=s) to continue the stream; it repeated the run of "
            "seed s"
        )
    if all_equal([subject.transcript(subject.player()) for _ in range(3)]):
        raise Violation(
            "expected different runs from an environment that was never seeded; three runs were "
            "equal"
        )
