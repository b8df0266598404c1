"""Episodes by their id: who plays each, and which are kept for a connection to come back to.

```
      hold         drop             time or number is up
 new ──────► HELD ──────► DROPPED ───────────────────────► GONE
              │   ◄──────                                   ▲
              │  take_over                                  │
              └─────────────────── forget ──────────────────┘
```

A `take_over` of a held episode leaves it held, and shuts the last holder out.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twofold.errors import Conflict, FailedPrecondition, StaleEpoch

EpisodeT = TypeVar("EpisodeT")


class Phase(enum.Enum):
    """The phase of an episode."""

    HELD = "held"
    """A connection plays it."""
    DROPPED = "dropped"
    """Its connection has gone, and may come back."""
    GONE = "gone"
    """The episode can't be played any more."""


@dataclass(eq=False)
class Entry(Generic[EpisodeT]):
    """One episode of a registry.

    Attributes:
        id: The key to it.
        episode: The episode.
        phase: Its phase.
        holder: The connection that plays it; of a dropped one the last.
        dropped_at: When its connection went.
    """

    id: str
    episode: EpisodeT
    holder: object
    phase: Phase = Phase.HELD
    dropped_at: float = 0.0


class Registry(Generic[EpisodeT]):
    """The episodes of a process; threads may share it.

    Methods return the episodes that they let go, for the caller to close.

    Args:
        keep_seconds: How long a dropped episode is kept.
        keep_episodes: How many dropped episodes are kept; the oldest go first.
        clock: Counts the seconds.
    """

    def __init__(
        self,
        keep_seconds: float,
        keep_episodes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep_seconds = keep_seconds
        self._keep_episodes = keep_episodes
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, Entry[EpisodeT]] = {}
        # The oldest first.
        self._dropped: dict[str, Entry[EpisodeT]] = {}

    def hold(
        self, episode_id: str, episode: EpisodeT, holder: object
    ) -> tuple[Entry[EpisodeT], list[EpisodeT]]:
        """Returns a new episode in the hands of its first holder, and the episodes let go.

        Raises:
            Conflict: Another connection has just begun an episode of this id.
        """
        with self._lock:
            known = self._entries.get(episode_id)
            if known is not None and not self._is_over(known):
                raise Conflict(
                    f"episode {episode_id!r} has just been started by another connection",
                    field="episode_id",
                )
            gone = self._expired()
            entry = self._entries[episode_id] = Entry(episode_id, episode, holder)
            return entry, gone

    def find(self, episode_id: str) -> Entry[EpisodeT] | None:
        """Returns the episode of this id, if it is still there; changes nothing for its holder."""
        with self._lock:
            entry = self._entries.get(episode_id)
            return None if entry is None or self._is_over(entry) else entry

    def take_over(self, entry: Entry[EpisodeT], holder: object) -> None:
        """Gives a found episode to another holder; the last one is fenced from now on.

        Raises:
            FailedPrecondition: It has gone meanwhile.
        """
        with self._lock:
            if entry.phase is Phase.GONE:
                raise FailedPrecondition(f"episode {entry.id!r} has just ended for good")
            self._dropped.pop(entry.id, None)
            entry.phase, entry.holder = Phase.HELD, holder

    def check(self, entry: Entry[EpisodeT], holder: object) -> None:
        """Refuses a holder that has been fenced.

        Raises:
            StaleEpoch: Another connection has taken the episode over.
        """
        if entry.holder is not holder:
            raise StaleEpoch(
                f"another connection has taken over episode {entry.id!r}, and this one can't play "
                "it any more; reset starts another episode"
            )

    def drop(self, entry: Entry[EpisodeT], holder: object) -> list[EpisodeT]:
        """Keeps the episode of a lost connection; returns the episodes to close.

        Nothing happens if the holder was fenced or the episode has gone.
        """
        with self._lock:
            if entry.holder is holder and entry.phase is Phase.HELD:
                entry.phase, entry.dropped_at = Phase.DROPPED, self._clock()
                self._dropped[entry.id] = entry
            return self._expired()

    def forget(self, entry: Entry[EpisodeT], holder: object) -> bool:
        """Ends an episode whose holder starts another; False if the holder was fenced."""
        with self._lock:
            if entry.holder is not holder or entry.phase is not Phase.HELD:
                return False
            self._end(entry)
            return True

    def clear(self) -> list[EpisodeT]:
        """Ends all episodes, and returns them."""
        with self._lock:
            entries = list(self._entries.values())
            for entry in entries:
                self._end(entry)
            return [entry.episode for entry in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def _is_over(self, entry: Entry[EpisodeT]) -> bool:
        """Returns True if a dropped episode's time is up."""
        age = self._clock() - entry.dropped_at
        return entry.phase is Phase.DROPPED and age >= self._keep_seconds

    def _expired(self) -> list[EpisodeT]:
        """Ends the dropped episodes whose time or number is up."""
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
