"""The games, for tests that run with every game."""

from typing import Any, Protocol, cast

from twofold import TwofoldVectorEnv, envs


class MakeBatch(Protocol):
    """A function that makes a batch of one game, with the arguments that all games have."""

    def __call__(
        self,
        num_envs: int,
        *,
        endpoint: str | None = ...,
        timeout: float = ...,
        autoreset_mode: Any = ...,
        max_episode_steps: int | None = ...,
        recover: bool = ...,
    ) -> TwofoldVectorEnv: ...


GAMES: dict[str, MakeBatch] = {
    game.spec.__name__: cast("MakeBatch", game.vector) for game in envs.GAMES
}
