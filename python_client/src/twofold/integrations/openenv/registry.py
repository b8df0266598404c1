"""A registry of episodes and their connections. It keeps the episodes of lost connections.

```
      hold         drop             expired, or too many
 new ──────► HELD ──────► DROPPED ───────────────────────► GONE
              │   ◄──────                                   ▲
              │  take_over                                  │
              └─────────────────── forget ──────────────────┘
```

If an episode is already HELD, `take_over` replaces the connection that holds it. The old connection
can no longer play the episode.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twofold.errors import Conflict, FailedPrecondition, StaleEpoch

EpisodeT = TypeVar("EpisodeT")


class Phase(enum.Enum):
    """The phase of an episode."""

    HELD = "held"
    """A connection is playing the episode."""
    DROPPED = "dropped"
    """The connection is lost, and the client may come back."""
    GONE = "gone"
    """The episode can no longer be played."""


@dataclass(eq=False)
class Entry(Generic[EpisodeT]):
    """One episode in a registry.

    Attributes:
        holder: The connection that plays the episode, or last played it.
        dropped_at: The time when the connection was lost.
    """

    id: str
    episode: EpisodeT
    holder: object
    phase: Phase = Phase.HELD
    dropped_at: float = 0.0


class Registry(Generic[EpisodeT]):
    """The episodes of a process, by id. Threads may share a registry.

    Methods return the episodes that they removed. The caller must close these episodes. For the
    arguments, see `make_openenv_app`.
    """

    def __init__(self, keep_seconds: float, keep_episodes: int, clock: Callable[[], float]) -> None:
        self._keep_seconds = keep_seconds
        self._keep_episodes = keep_episodes
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, Entry[EpisodeT]] = {}
        # Oldest first.
        self._dropped: dict[str, Entry[EpisodeT]] = {}

    def hold(
        self, episode_id: str, episode: EpisodeT, holder: object
    ) -> tuple[Entry[EpisodeT], list[EpisodeT]]:
        """Adds a new episode that `holder` plays. Returns its entry and the removed episodes."""
        with self._lock:
            known = self._entries.get(episode_id)
            if known is not None and not self._is_over(known):
                raise Conflict(
                    f"another connection has just started episode {episode_id!r}; try again",
                    field="episode_id",
                )
            gone = self._expired()
            entry = self._entries[episode_id] = Entry(episode_id, episode, holder)
            return entry, gone

    def find(self, episode_id: str) -> Entry[EpisodeT] | None:
        """Returns the entry with this id, or None. Does not change the entry's holder."""
        with self._lock:
            entry = self._entries.get(episode_id)
            return None if entry is None or self._is_over(entry) else entry

    def take_over(self, entry: Entry[EpisodeT], holder: object) -> None:
        """Hands an episode to another holder. The previous holder can no longer play it."""
        with self._lock:
            if entry.phase is Phase.GONE:
                raise FailedPrecondition(f"episode {entry.id!r} has just ended; start another")
            self._dropped.pop(entry.id, None)
            entry.phase, entry.holder = Phase.HELD, holder

    def check(self, entry: Entry[EpisodeT], holder: object) -> None:
        """Checks that a connection still holds an episode.

        Raises:
            StaleEpoch: Another connection has taken over the episode.
        """
        if entry.holder is not holder:
            raise StaleEpoch(
                f"another connection has taken over episode {entry.id!r}, so this one can no "
                "longer play it; reset to start another episode"
            )

    def drop(self, entry: Entry[EpisodeT], holder: object) -> list[EpisodeT]:
        """Marks the episode of a lost connection as dropped. Removes and returns expired episodes.

        Does not mark the episode if another connection holds it, or if it has ended.
        """
        with self._lock:
            if entry.holder is holder and entry.phase is Phase.HELD:
                entry.phase, entry.dropped_at = Phase.DROPPED, self._clock()
                self._dropped[entry.id] = entry
            return self._expired()

    def forget(self, entry: Entry[EpisodeT], holder: object) -> bool:
        """Ends an episode, because its holder starts another one.

        If `holder` no longer holds the episode, does nothing and returns False.
        """
        with self._lock:
            if entry.holder is not holder or entry.phase is not Phase.HELD:
                return False
            self._end(entry)
            return True

    def clear(self) -> list[EpisodeT]:
        """Ends all episodes and returns them."""
        with self._lock:
            entries = list(self._entries.values())
            for entry in entries:
                self._end(entry)
            return [entry.episode for entry in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def _is_over(self, entry: Entry[EpisodeT]) -> bool:
        """Returns True if an episode was dropped at least `keep_seconds` ago."""
        age = self._clock() - entry.dropped_at
        return entry.phase is Phase.DROPPED and age >= self._keep_seconds

    def _expired(self) -> list[EpisodeT]:
        """Ends and returns dropped episodes that are too old or exceed the maximum number."""
        gone = []
        while self._dropped:
            oldest = next(iter(self._dropped.values()))
            if len(self._dropped) <= self._keep_episodes and not self._is_over(oldest):
                break
            self._end(oldest)
            gone.append(oldest.episode)
        return gone

    def _end(self, entry: Entry[EpisodeT]) -> None:
        entry.phase = Phase.GONE
        del self._entries[entry.id]
        self._dropped.pop(entry.id, None)
