"""The part of try_container.py that runs inside the Debian system, with Docker.

the images of compose.yaml are built
the server alone, on a read-only root without capabilities: healthy, confined, stopped by SIGTERM
the server and the trainer of compose.yaml, with sessions that outlive the server's container
the same with keys, as docs/operations/container.md describes
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from build import output, run, start

PAGE = Path("docs/operations/container.md")
NETWORK = Path("/run/outside")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEBIAN, SWIFT = "debian:bookworm-slim", "swift:6.3-bookworm"
"""The base images of the Dockerfile."""


def main() -> None:
    """Starts Docker and tries everything. Raises an error if anything fails."""
    start_docker()
    find_images()
    docker("compose", "build")
    use_alone()
    use_compose()
    use_keys()
    print("everything works")


def start_docker() -> None:
    """Starts Docker in a separate network namespace that has access to the internet."""
    NETWORK.touch()
    run("unshare", f"--net={NETWORK}", "true")
    way = ("slirp4netns", "--configure", "--mtu=65520", "--netns-type=path", NETWORK, "tap0")
    subprocess.Popen(way, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    enter = ("nsenter", f"--net={NETWORK}", "dockerd")
    with open("/root/dockerd.log", "w") as log:
        subprocess.Popen(enter, stdout=log, stderr=log)
    wait_until(lambda: succeeds("docker", "info"), 60)
    docker("version", "--format", "Docker {{.Server.Version}}")
    # Removes containers left behind by an earlier failed run.
    for left in output("docker", "ps", "--all", "--quiet").split():
        docker("rm", "--force", "--volumes", left)
    docker("volume", "prune", "--all", "--force")
    docker("image", "prune", "--force")


def find_images() -> None:
    """Pulls the base images, and builds replacements for images that can't be pulled."""
    for image, make in ((DEBIAN, stand_in_for_debian), (SWIFT, stand_in_for_swift)):
        if succeeds("docker", "pull", image):
            print(f"{image}: pulled")
            continue
        if not succeeds("docker", "image", "inspect", image):
            make()
            docker("builder", "prune", "--all", "--force")
        print(f"{image} can't be pulled. {make.__doc__}")
    version = output("docker", "run", "--rm", SWIFT, "swift", "--version")
    print(version)
    assert "Swift version 6.3" in version, version


def stand_in_for_debian() -> None:
    """Replaces Debian's image with a base system from debootstrap and this machine's settings."""
    packed = subprocess.Popen(("tar", "-C", "/given/debian", "-c", "."), stdout=subprocess.PIPE)
    change = ("--change", f"ENV PATH={PATH}", "--change", 'CMD ["bash"]')
    command = ("docker", "import", *change, "-", "base")
    subprocess.run(command, check=True, stdin=packed.stdout, stdout=subprocess.DEVNULL)
    build(DEBIAN, "FROM base\nCOPY --from=site / /", "site")


def stand_in_for_swift() -> None:
    """Replaces Swift's image with Debian, swift-docker's packages and this machine's Swift."""
    packages = (
        "binutils libicu-dev libcurl4-openssl-dev libedit-dev libsqlite3-dev libncurses-dev "
        "libpython3-dev libxml2-dev pkg-config uuid-dev tzdata git gcc libstdc++-12-dev"
    )
    install = f"apt-get update && apt-get install --yes {packages} && rm -r /var/lib/apt/lists/*"
    build(SWIFT, f"FROM {DEBIAN}\nRUN {install}\nCOPY --from=swift usr /usr", "swift")


def build(image: str, dockerfile: str, folder: str) -> None:
    """Builds an image that copies files from a given folder."""
    context = f"{folder}=/given/{folder}"
    command = ("docker", "build", "--quiet", "--tag", image, "--build-context", context, "-")
    subprocess.run(command, check=True, input=dockerfile, text=True, stdout=subprocess.DEVNULL)


def use_alone() -> None:
    """Uses the server's image alone, as docs/operations/container.md describes."""
    [lines] = [block for block in blocks() if block.startswith("docker build --target server")]
    run("sh", "-euc", lines)
    look_at("twofold")
    ask = ("twofold", "ping", "--endpoint", "tcp://127.0.0.1:5555")
    docker("run", "--rm", "--network=host", "twofold-trainer", *ask)
    docker("stop", "twofold")
    assert inspect("twofold")["State"]["ExitCode"] == 0
    assert output("docker", "diff", "twofold") == "", output("docker", "diff", "twofold")
    docker("rm", "--volumes", "twofold")
    print("alone: healthy, confined, stopped")


def blocks() -> list[str]:
    """Returns the code blocks of docs/operations/container.md, which are commands and files."""
    return re.findall(r"^```\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def look_at(container: str) -> None:
    """Waits until a container is healthy. Checks that it has no privileges or writable files."""
    wait_until(lambda: inspect(container)["State"]["Health"]["Status"] == "healthy", 60)
    pid = inspect(container)["State"]["Pid"]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert status["Name"] == "twofold", status
    assert status["NSpid"].split()[-1] == "1", status
    assert set(status["Uid"].split()) == {"10001"}, status
    assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0, status
    assert status["NoNewPrivs"] == "1", status
    assert not succeeds("docker", "exec", container, "touch", "/tmp/file")


def use_compose() -> None:
    """Runs a trainer, checks a limit, and continues a session in a new server container."""
    play()
    stats = json.loads(in_trainer("twofold", "stats", "--json"))
    # Half of 2 GiB, minus half of the server's own memory.
    assert 2**30 - 2**26 < stats["limits"]["max_bytes"] < 2**30, stats
    token = in_trainer("python", "-c", BEGIN)
    docker("compose", "stop", "server")
    assert inspect(container("server"))["State"]["ExitCode"] == 0
    docker("compose", "rm", "--force", "server")
    docker("compose", "up", "--detach", "--wait", "server")
    played = in_trainer("python", "-c", CONTINUE, token)
    assert played == "5 steps", played
    docker("compose", "down", "--volumes")
    print("compose.yaml: played, limited, continued")


def use_keys() -> None:
    """Tests the keys and compose.override.yaml of container.md, then authorises another client."""
    [keys] = [block for block in blocks() if "keygen" in block]
    [override] = [block for block in blocks() if block.startswith("services:")]
    run("sh", "-euc", keys)
    Path("compose.override.yaml").write_text(override)
    play()
    ask = ("twofold", "ping", "--endpoint", "tcp://server:5555")
    assert succeeds(*TRAINER, "trainer", *ask), "the trainer's key was refused"
    without = ("env", "--unset=TWOFOLD_CURVE_SERVER", "--unset=TWOFOLD_CURVE_CLIENT")
    assert not succeeds(*TRAINER, "trainer", *without, *ask), "a client without keys was accepted"
    mount = ("--volume", f"{Path.cwd()}/keys:/keys")
    key = output("docker", "run", "--rm", *mount, "twofold", "keygen", "/keys/other")
    pair = ("--curve-server", "/keys/server.key", "--curve-client", "/keys/other.key_secret")
    other = (*TRAINER, *mount, "trainer", *ask, *pair)
    assert not succeeds(*other), "a client whose key is not listed was accepted"
    with open("keys/clients", "a") as clients:
        clients.write(key + "\n")
    docker("compose", "kill", "--signal", "SIGHUP", "server")
    wait_until(lambda: succeeds(*other), 30)
    docker("compose", "down", "--volumes")
    print("with keys: played, refused, authorised")


BEGIN = """
import gymnasium as gym, numpy as np, twofold
envs = gym.make_vec("twofold/Game2048-v0", num_envs=1000)
envs.reset(seed=0)
for _ in range(3):
    envs.step(np.zeros(1000, np.uint8))
print(envs.unwrapped.token, flush=True)
import os; os._exit(0)  # without closing it
"""

CONTINUE = """
import sys, numpy as np, twofold
envs = twofold.resume(sys.argv[1])
envs.step(np.zeros(1000, np.uint8))
*_, infos = envs.step(np.ones(1000, np.uint8))
print(infos["episode_length"].max(), "steps")
envs.close()
"""

TRAINER = ("docker", "compose", "run", "--rm", "--no-TTY", "--no-deps")


def in_trainer(*command: str) -> str:
    """Runs a command in a trainer's container and returns its output."""
    return output(*TRAINER, "trainer", *command)


def container(service: str) -> str:
    """Returns the id of a service's container, which may have stopped."""
    return output("docker", "compose", "ps", "--all", "--quiet", service)


def play() -> None:
    """Starts the services of compose.yaml, and waits until the trainer has ended."""
    docker("compose", "up", "--detach")
    look_at(container("server"))
    status = output("docker", "wait", container("trainer"))
    docker("compose", "logs", "trainer")
    assert status == "0", status


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "Docker took too long"
        time.sleep(0.2)


def docker(*arguments: str) -> None:
    """Runs a `docker` command and shows its output."""
    run("docker", *arguments)


def inspect(container: str) -> Any:
    """Returns Docker's description of a container."""
    return json.loads(output("docker", "inspect", container))[0]


def succeeds(*command: str | Path) -> bool:
    """Returns True if a command exits with 0. Discards its output."""
    return subprocess.run(command, capture_output=True).returncode == 0


if __name__ == "__main__":
    start(main)
