"""Plays POPGym's Concentration and records everything. Requires popgym.

    python popgym_games.py out.npz Easy 60 7     # output file, variant, episodes, seed

Three players alternate after each episode. The first player chooses any card at random. The second
chooses a random face-down card. The third has a perfect memory.
"""

import sys
from typing import Any

import numpy as np
import popgym.envs.concentration as peer  # type: ignore[import-not-found]


class PerfectMemory:
    """A player that remembers every card it has seen.

    If it knows a pair, it flips that pair. Otherwise it flips an unseen card and then its match, or
    another unseen card if the match is unknown.
    """

    def __init__(self, cards: int, face_down: int) -> None:
        self.cards, self.face_down = cards, face_down
        self.seen: dict[int, int] = {}

    def __call__(self, observation: Any, first: int | None, found: set[int]) -> int:
        """Returns the index of the next card to flip."""
        for card in range(self.cards):
            if observation[card] != self.face_down:
                self.seen[card] = int(observation[card])
        left = [card for card in range(self.cards) if card not in found and card != first]
        known = [card for card in left if card in self.seen]
        if first is not None:
            mates = [card for card in known if self.seen[card] == self.seen[first]]
        else:
            symbols = [self.seen[card] for card in known]
            mates = [card for card in known if symbols.count(self.seen[card]) >= 2]
        return (mates or [card for card in left if card not in self.seen])[0]


def play(name: str, episodes: int, seed: int) -> dict[str, Any]:
    """Plays `episodes` episodes and returns their transitions, in arrays of the same length.

    The entries after the end of an episode are meaningless; the actions there are -1.
    """
    env = getattr(peer, f"Concentration{name}")()
    cards, steps = int(env.action_space.n), int(env.episode_length)
    rng = np.random.default_rng(seed)
    decks = np.empty((episodes, cards), np.int64)
    lengths = np.zeros(episodes, np.int64)
    actions = np.full((episodes, steps), -1, np.int64)
    observations = np.empty((episodes, steps + 1, cards), np.int64)
    rewards = np.zeros((episodes, steps))
    terminated, truncated = (np.zeros((episodes, steps), np.bool_) for _ in range(2))
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        decks[episode] = env.state
        observations[episode, 0] = observation
        remember = PerfectMemory(cards, env.facedown_card)
        for step in range(steps):
            found = set(env.deck["face_up_idx"])
            in_turn = list(env.deck["in_play_idx"])
            if episode % 3 == 0:
                action = int(rng.integers(cards))
            elif episode % 3 == 1:
                action = int(rng.choice(list(set(range(cards)) - found - set(in_turn))))
            else:
                action = remember(observation, in_turn[0] if in_turn else None, found)
            observation, reward, is_terminated, is_truncated, _ = env.step(action)
            actions[episode, step] = action
            observations[episode, step + 1] = observation
            rewards[episode, step] = reward
            terminated[episode, step] = is_terminated
            truncated[episode, step] = is_truncated
            lengths[episode] = step + 1
            if is_terminated or is_truncated:
                break
    return {
        "decks": decks,
        "lengths": lengths,
        "actions": actions,
        "observations": observations,
        "rewards": rewards,
        "terminated": terminated,
        "truncated": truncated,
    }


if __name__ == "__main__":
    _, path, name, episodes, seed = sys.argv
    np.savez_compressed(path, **play(name, int(episodes), int(seed)))
