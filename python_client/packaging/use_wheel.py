"""The part of try_wheel.py that runs in a virtual environment with an installed wheel.

If the argument is a server's address, the wheel is the pure one. It must work with that server, and
everything else must raise an error that lists the options.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np

import twofold
from twofold.testing import check_vector_env

ID = "twofold/Game2048-v0"
TWOFOLD = str(Path(sys.executable).parent / "twofold")


def use_all() -> None:
    """Uses each carrier, encryption and the checker, and plays a million steps."""
    for endpoint in ("embedded", "private"):
        gym.make_vec(ID, num_envs=4, endpoint=endpoint).close()
    subprocess.run([TWOFOLD, "bench", "--signature-only"], check=True)
    use_encrypted()
    report = check_vector_env(lambda: gym.make_vec(ID, num_envs=7))
    print(f"check_vector_env: {len(report.passed)} checks passed")
    envs = gym.make_vec(ID, num_envs=1000)
    envs.reset(seed=0)
    for actions in np.random.default_rng(0).integers(0, 4, (1000, 1000)):
        envs.step(actions)
    envs.close()
    print("a million steps")


def use_encrypted() -> None:
    """Uses a server that authorises one key, and a client with that key."""
    with tempfile.TemporaryDirectory() as name:
        keys = Path(name)
        for who in ("server", "client"):
            line = subprocess.check_output([TWOFOLD, "keygen", keys / who], text=True)
        (keys / "clients").write_text(line)
        command = [TWOFOLD, "serve", "--endpoint", "tcp://127.0.0.1:0"]
        command += ["--curve-secret-key", str(keys / "server.key_secret")]
        command += ["--curve-clients", str(keys / "clients")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[2]
            alice = twofold.CurveKeys.load(keys / "server.key", keys / "client.key_secret")
            envs = gym.make_vec(ID, num_envs=4, endpoint=address, keys=alice)
            envs.reset(seed=0)
            envs.step(np.zeros(4, np.uint8))
            envs.close()
            server.terminate()
    print("a step over CURVE")


def use_pure(address: str) -> None:
    """Uses the server at `address`. Expects an error that lists the options for other endpoints."""
    envs = gym.make_vec(ID, num_envs=4, endpoint=address)
    envs.reset(seed=0)
    envs.step(np.zeros(4, np.uint8))
    envs.close()
    for endpoint in (None, "embedded", "private"):
        text = ""
        try:
            gym.make_vec(ID, num_envs=4, endpoint=endpoint)
        except twofold.errors.ServerStartFailed as error:
            text = str(error)
        assert "endpoint=" in text, text
        assert "wheel" in text, text
    print("the pure wheel plays on a server elsewhere; without one, it lists the options")


if __name__ == "__main__":
    os.environ.pop("TWOFOLD_ENDPOINT", None)
    if len(sys.argv) > 1:
        use_pure(sys.argv[1])
    else:
        use_all()
