"""The registry of OpenEnv episodes, with a simulated clock and without OpenEnv."""

import pytest

from twofold.errors import Conflict, FailedPrecondition, StaleEpoch
from twofold.integrations.openenv.registry import Entry, Phase, Registry

FIRST, SECOND = "first connection", "second connection"


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def registry(keep_seconds: float = 10, keep_episodes: int = 3) -> tuple[Registry[str], Clock]:
    clock = Clock()
    return Registry(keep_seconds, keep_episodes, clock), clock


def held(episodes: Registry[str], name: str, holder: object = FIRST) -> Entry[str]:
    entry, _ = episodes.hold(name, f"board {name}", holder)
    return entry


def test_an_episode_is_found_by_its_id_while_it_is_held_and_after_it_was_dropped() -> None:
    episodes, clock = registry()
    entry = held(episodes, "a")
    assert episodes.find("a") is entry
    assert episodes.find("b") is None
    assert episodes.drop(entry, FIRST) == []
    assert entry.phase is Phase.DROPPED
    clock.seconds = 9.9
    assert episodes.find("a") is entry


def test_a_dropped_episode_is_ended_when_its_time_is_up() -> None:
    episodes, clock = registry()
    first, second = held(episodes, "a"), held(episodes, "b")
    episodes.drop(first, FIRST)
    clock.seconds = 5
    episodes.drop(second, FIRST)
    clock.seconds = 10
    assert episodes.find("a") is None
    assert episodes.find("b") is second
    assert episodes.hold("c", "board c", SECOND)[1] == ["board a"]
    assert (first.phase, second.phase) == (Phase.GONE, Phase.DROPPED)
    assert len(episodes) == 2


def test_a_held_episode_is_kept_at_any_age() -> None:
    episodes, clock = registry(keep_seconds=1, keep_episodes=0)
    entry = held(episodes, "a")
    clock.seconds = 1e9
    assert episodes.hold("b", "board b", SECOND)[1] == []
    assert episodes.find("a") is entry


def test_of_too_many_dropped_episodes_the_oldest_are_ended() -> None:
    episodes, _ = registry(keep_episodes=2)
    entries = [held(episodes, name) for name in "abcd"]
    gone = [episodes.drop(entry, FIRST) for entry in reversed(entries)]
    assert gone == [[], [], ["board d"], ["board c"]]
    assert [episodes.find(name) for name in "abcd"] == [*entries[:2], None, None]


def test_without_room_for_episodes_a_dropped_episode_is_ended_immediately() -> None:
    episodes, _ = registry(keep_episodes=0)
    assert episodes.drop(held(episodes, "a"), FIRST) == ["board a"]
    assert len(episodes) == 0


def test_another_connection_takes_over_an_episode_and_shuts_the_first_one_out() -> None:
    episodes, _ = registry()
    entry = held(episodes, "a")
    episodes.check(entry, FIRST)
    episodes.take_over(entry, SECOND)
    episodes.check(entry, SECOND)
    with pytest.raises(StaleEpoch, match="another connection has taken over episode 'a'"):
        episodes.check(entry, FIRST)
    assert entry.phase is Phase.HELD


def test_the_first_connection_can_take_its_episode_back() -> None:
    episodes, _ = registry()
    entry = held(episodes, "a")
    episodes.take_over(entry, SECOND)
    episodes.take_over(entry, FIRST)
    episodes.check(entry, FIRST)
    with pytest.raises(StaleEpoch):
        episodes.check(entry, SECOND)


def test_a_fenced_connection_neither_drops_nor_ends_the_episode() -> None:
    episodes, _ = registry(keep_episodes=0)
    entry = held(episodes, "a")
    episodes.take_over(entry, SECOND)
    assert episodes.drop(entry, FIRST) == []
    assert not episodes.forget(entry, FIRST)
    assert entry.phase is Phase.HELD
    assert episodes.find("a") is entry


def test_an_episode_that_was_taken_over_is_kept_for_the_full_time_again() -> None:
    episodes, clock = registry()
    entry = held(episodes, "a")
    episodes.drop(entry, FIRST)
    clock.seconds = 9
    episodes.take_over(entry, SECOND)
    clock.seconds = 100
    assert episodes.find("a") is entry
    episodes.drop(entry, SECOND)
    clock.seconds = 109.9
    assert episodes.find("a") is entry
    clock.seconds = 110
    assert episodes.find("a") is None


def test_an_ended_episode_cannot_be_taken_over_and_its_id_is_free() -> None:
    episodes, _ = registry()
    entry = held(episodes, "a")
    assert episodes.forget(entry, FIRST)
    assert not episodes.forget(entry, FIRST)
    with pytest.raises(FailedPrecondition, match="has just ended"):
        episodes.take_over(entry, SECOND)
    assert episodes.hold("a", "another board", SECOND)[0] is not entry


def test_an_id_is_given_to_one_episode_until_its_time_is_up() -> None:
    episodes, clock = registry()
    entry = held(episodes, "a")
    with pytest.raises(Conflict, match="another connection has just started episode"):
        held(episodes, "a", SECOND)
    episodes.drop(entry, FIRST)
    with pytest.raises(Conflict):
        held(episodes, "a", SECOND)
    clock.seconds = 10
    assert episodes.hold("a", "another board", SECOND)[1] == ["board a"]


def test_clearing_returns_held_and_dropped_episodes_once() -> None:
    episodes, _ = registry()
    first, _ = held(episodes, "a"), held(episodes, "b")
    episodes.drop(first, FIRST)
    assert episodes.clear() == ["board a", "board b"]
    assert episodes.clear() == []
    assert episodes.drop(first, FIRST) == []
