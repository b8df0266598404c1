"""The episodes of a server and their connections. Keeps the episodes of lost connections.

```
      hold         drop             expired, or too many
 new ──────► held ──────► dropped ───────────────────────► gone
              │   ◄──────                                   ▲
              │  take_over                                  │
              └─────────────────── forget ──────────────────┘
```

If an episode is already held, `take_over` replaces the connection that holds it. The old connection
can no longer play the episode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from twofold.errors import Conflict, FailedPrecondition, StaleEpoch

if TYPE_CHECKING:
    from twofold.integrations.openenv.episode import Episode


class Registry:
    """The episodes of a process, by id. Threads may share a registry.

    An episode without a holder is dropped or gone. Methods return the episodes that they removed.
    The caller must close these episodes. For the arguments, see `make_openenv_app`.
    """

    def __init__(self, keep_seconds: float, keep_episodes: int, clock: Callable[[], float]) -> None:
        self._keep_seconds = keep_seconds
        self._keep_episodes = keep_episodes
        self._clock = clock
        self._lock = threading.Lock()
        # The dropped episodes are in the order in which they were dropped.
        self._episodes: dict[str, Episode] = {}

    def hold(self, episode: Episode, holder: object) -> list[Episode]:
        """Adds a new episode that `holder` plays. Returns the removed episodes."""
        with self._lock:
            known = self._episodes.get(episode.id)
            if known is not None and not self._is_over(known):
                raise Conflict(
                    f"another connection has just started episode {episode.id!r}; try again",
                    field="episode_id",
                )
            gone = self._expired()
            self._episodes[episode.id], episode.holder = episode, holder
            return gone

    def find(self, episode_id: str) -> Episode | None:
        """Returns the episode with this id, or None. Does not change the episode's holder."""
        with self._lock:
            episode = self._episodes.get(episode_id)
            return None if episode is None or self._is_over(episode) else episode

    def take_over(self, episode: Episode, holder: object) -> None:
        """Hands an episode to another holder. The previous holder can no longer play it."""
        with self._lock:
            if self._episodes.get(episode.id) is not episode:
                raise FailedPrecondition(f"episode {episode.id!r} has just ended; start another")
            episode.holder = holder

    def check(self, episode: Episode, holder: object) -> None:
        """Checks that a connection still holds an episode.

        Raises:
            StaleEpoch: Another connection has taken over the episode.
        """
        if episode.holder is not holder:
            raise StaleEpoch(
                f"another connection has taken over episode {episode.id!r}, so this one can no "
                "longer play it; reset to start another episode"
            )

    def drop(self, episode: Episode, holder: object) -> list[Episode]:
        """Marks the episode of a lost connection as dropped. Removes and returns expired episodes.

        Does not mark the episode if another connection holds it, or if it has ended.
        """
        with self._lock:
            if episode.holder is holder:
                episode.holder, episode.dropped_at = None, self._clock()
                self._episodes[episode.id] = self._episodes.pop(episode.id)
            return self._expired()

    def forget(self, episode: Episode, holder: object) -> bool:
        """Ends an episode, because its holder starts another one.

        If `holder` no longer holds the episode, does nothing and returns False.
        """
        with self._lock:
            if episode.holder is not holder:
                return False
            episode.holder = None
            del self._episodes[episode.id]
            return True

    def clear(self) -> list[Episode]:
        """Ends all episodes and returns them."""
        with self._lock:
            episodes = list(self._episodes.values())
            for episode in episodes:
                episode.holder = None
            self._episodes.clear()
            return episodes

    def _is_over(self, episode: Episode) -> bool:
        """Returns True if an episode was dropped at least `keep_seconds` ago."""
        age = self._clock() - episode.dropped_at
        return episode.holder is None and age >= self._keep_seconds

    def _expired(self) -> list[Episode]:
        """Ends and returns dropped episodes that are too old or exceed the maximum number."""
        dropped = [each for each in self._episodes.values() if each.holder is None]
        too_many = len(dropped) - self._keep_episodes
        gone = [each for i, each in enumerate(dropped) if i < too_many or self._is_over(each)]
        for episode in gone:
            del self._episodes[episode.id]
        return gone
