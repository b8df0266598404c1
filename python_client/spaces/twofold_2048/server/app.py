"""The Space's server. README.md lists its environment variables."""

import argparse
import os

from twofold.integrations.openenv.app import make_openenv_app
from twofold.integrations.serving import Runner

app = make_openenv_app(
    os.environ.get("TWOFOLD_GAME", "2048"),
    max_sessions=int(os.environ.get("MAX_CONCURRENT_ENVS", "1000")),
    allow=os.environ.get("TWOFOLD_ALLOW", "size,goal,max_episode_steps").split(","),
)


def main() -> None:
    """Serves until a signal arrives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    runner = Runner(app, arguments.host, arguments.port)
    print(f"listening on {runner.url}", flush=True)
    runner.run()


if __name__ == "__main__":
    main()
