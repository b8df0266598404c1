"""The checks, one module per theme."""

from __future__ import annotations

from collections.abc import Callable

from twofold.testing.checks import autoreset, infos, interface, memory, reset_mask, seeding
from twofold.testing.subject import Subject

CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        interface.spaces,
        interface.reset_returns,
        interface.step_returns,
        infos.infos,
        infos.action_mask,
        memory.data_not_reused,
        memory.data_is_the_users,
        memory.arguments_untouched,
        seeding.equal_seeds_agree,
        seeding.reseeding_starts_anew,
        seeding.reset_forgets_the_end,
        seeding.different_seeds_differ,
        seeding.lanes_differ,
        seeding.unseeded_goes_on,
        seeding.seeds_in_a_list,
        seeding.no_global_random_numbers,
        seeding.lanes_are_independent,
        autoreset.autoreset,
        autoreset.autoreset_ignores_the_action,
        autoreset.autoreset_begins_new_episodes,
        reset_mask.reset_mask,
        reset_mask.bad_reset_masks_are_refused,
        interface.close,
    )
}
"""The checks by name, in the order in which they run; each docstring states the requirement."""
