"""The registry of OpenEnv episodes, with a simulated clock and without OpenEnv."""

from types import SimpleNamespace
from typing import Any

import pytest

from twofold.errors import Conflict, FailedPrecondition, StaleEpoch
from twofold.integrations.openenv.registry import Registry

FIRST, SECOND = "first connection", "second connection"


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def registry(keep_seconds: float = 10, keep_episodes: int = 3) -> tuple[Any, Clock]:
    clock = Clock()
    return Registry(keep_seconds, keep_episodes, clock), clock


def new(name: str) -> Any:
    return SimpleNamespace(id=name, holder=None, dropped_at=0.0)


def held(episodes: Any, name: str, holder: object = FIRST) -> Any:
    episode = new(name)
    episodes.hold(episode, holder)
    return episode


def test_an_episode_is_found_by_its_id_while_it_is_held_and_after_it_was_dropped() -> None:
    episodes, clock = registry()
    episode = held(episodes, "a")
    assert episodes.find("a") is episode
    assert episodes.find("b") is None
    assert episodes.drop(episode, FIRST) == []
    clock.seconds = 9.9
    assert episodes.find("a") is episode


def test_a_dropped_episode_is_ended_when_its_time_is_up() -> None:
    episodes, clock = registry()
    first, second = held(episodes, "a"), held(episodes, "b")
    episodes.drop(first, FIRST)
    clock.seconds = 5
    episodes.drop(second, FIRST)
    clock.seconds = 10
    assert episodes.find("a") is None
    assert episodes.find("b") is second
    assert episodes.hold(new("c"), SECOND) == [first]
    assert episodes.find("b") is second


def test_a_held_episode_is_kept_at_any_age() -> None:
    episodes, clock = registry(keep_seconds=1, keep_episodes=0)
    episode = held(episodes, "a")
    clock.seconds = 1e9
    assert episodes.hold(new("b"), SECOND) == []
    assert episodes.find("a") is episode


def test_of_too_many_dropped_episodes_the_oldest_are_ended() -> None:
    episodes, _ = registry(keep_episodes=2)
    each = [held(episodes, name) for name in "abcd"]
    gone = [episodes.drop(episode, FIRST) for episode in reversed(each)]
    assert gone == [[], [], [each[3]], [each[2]]]
    assert [episodes.find(name) for name in "abcd"] == [*each[:2], None, None]


def test_without_room_for_episodes_a_dropped_episode_is_ended_immediately() -> None:
    episodes, _ = registry(keep_episodes=0)
    episode = held(episodes, "a")
    assert episodes.drop(episode, FIRST) == [episode]
    assert episodes.find("a") is None


def test_another_connection_takes_over_an_episode_and_shuts_the_first_one_out() -> None:
    episodes, _ = registry()
    episode = held(episodes, "a")
    episodes.check(episode, FIRST)
    episodes.take_over(episode, SECOND)
    episodes.check(episode, SECOND)
    with pytest.raises(StaleEpoch, match="another connection has taken over episode 'a'"):
        episodes.check(episode, FIRST)


def test_the_first_connection_can_take_its_episode_back() -> None:
    episodes, _ = registry()
    episode = held(episodes, "a")
    episodes.take_over(episode, SECOND)
    episodes.take_over(episode, FIRST)
    episodes.check(episode, FIRST)
    with pytest.raises(StaleEpoch):
        episodes.check(episode, SECOND)


def test_a_fenced_connection_neither_drops_nor_ends_the_episode() -> None:
    episodes, _ = registry(keep_episodes=0)
    episode = held(episodes, "a")
    episodes.take_over(episode, SECOND)
    assert episodes.drop(episode, FIRST) == []
    assert not episodes.forget(episode, FIRST)
    assert episodes.find("a") is episode


def test_an_episode_that_was_taken_over_is_kept_for_the_full_time_again() -> None:
    episodes, clock = registry()
    episode = held(episodes, "a")
    episodes.drop(episode, FIRST)
    clock.seconds = 9
    episodes.take_over(episode, SECOND)
    clock.seconds = 100
    assert episodes.find("a") is episode
    episodes.drop(episode, SECOND)
    clock.seconds = 109.9
    assert episodes.find("a") is episode
    clock.seconds = 110
    assert episodes.find("a") is None


def test_an_ended_episode_cannot_be_taken_over_and_its_id_is_free() -> None:
    episodes, _ = registry()
    episode = held(episodes, "a")
    assert episodes.forget(episode, FIRST)
    assert not episodes.forget(episode, FIRST)
    with pytest.raises(FailedPrecondition, match="has just ended"):
        episodes.take_over(episode, SECOND)
    another = held(episodes, "a", SECOND)
    assert episodes.find("a") is another


def test_an_id_is_given_to_one_episode_until_its_time_is_up() -> None:
    episodes, clock = registry()
    episode = held(episodes, "a")
    with pytest.raises(Conflict, match="another connection has just started episode"):
        held(episodes, "a", SECOND)
    episodes.drop(episode, FIRST)
    with pytest.raises(Conflict):
        held(episodes, "a", SECOND)
    clock.seconds = 10
    assert episodes.hold(new("a"), SECOND) == [episode]


def test_clearing_returns_held_and_dropped_episodes_once() -> None:
    episodes, _ = registry()
    first, second = held(episodes, "a"), held(episodes, "b")
    episodes.drop(first, FIRST)
    assert episodes.clear() == [second, first]
    assert episodes.clear() == []
    assert episodes.drop(first, FIRST) == []
