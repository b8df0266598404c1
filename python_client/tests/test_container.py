"""The names in the Dockerfile, compose.yaml and their page exist, and the server accepts them.

`make container-test` builds the images and runs them.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from twofold.client.lookup import find_program

ROOT = Path(__file__).resolve().parents[2]


class Stage(NamedTuple):
    """A stage of the Dockerfile: its base, and the values of each instruction in order."""

    base: str
    instructions: list[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        """Returns the values of this instruction here and in the base stages."""
        below = STAGES[self.base].values(name) if self.base in STAGES else []
        return below + [value for each, value in self.instructions if each == name]

    def last(self, name: str) -> str:
        return self.values(name)[-1]

    @property
    def environment(self) -> dict[str, str]:
        words = [word for value in self.values("ENV") for word in shlex.split(value)]
        return dict(word.split("=", 1) for word in words)


def read_stages() -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    stage = Stage("", [])
    for part in DockerfileParser(str(ROOT / "Dockerfile")).structure:
        if part["instruction"] == "FROM":
            base, name = part["value"].split(" AS ")
            found[name] = stage = Stage(base, [])
        elif part["instruction"] != "COMMENT":
            stage.instructions.append((part["instruction"], part["value"]))
    return found


STAGES = read_stages()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PAGE = (ROOT / "docs/operations/container.md").read_text()
SERVER = STAGES["server"]
ENDPOINTS = SERVER.environment["TWOFOLD_ENDPOINT"].split(",")
HEALTH = json.loads(SERVER.last("HEALTHCHECK").rpartition("CMD")[2])


def copied() -> list[str]:
    """Returns the paths in the checkout that the stages copy."""
    values = [value for stage in STAGES.values() for value in stage.values("COPY")]
    return [path for value in values if "--from" not in value for path in value.split()[:-1]]


@pytest.fixture(scope="module")
def context() -> set[str]:
    """The files that .dockerignore does not exclude."""
    from docker.utils.build import exclude_paths  # takes long, and only two tests need it

    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    paths = exclude_paths(str(ROOT), patterns, dockerfile="Dockerfile")
    return {path for path in paths if (ROOT / path).is_file()} - {"Dockerfile", ".dockerignore"}


def test_each_copied_path_reaches_docker(context: set[str]) -> None:
    for path in copied():
        assert any(Path(file).is_relative_to(path) for file in context), path
    needed = {"pyproject.toml", "hatch_build.py", "LICENSE", "README.md", "packaging/build.py"}
    assert {f"python_client/{name}" for name in needed} <= context


def test_only_files_under_version_control_reach_docker(context: set[str]) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a checkout")
    assert context - set(listed.stdout.splitlines()) == set()


@pytest.mark.parametrize("name", ["server", "trainer"])
def test_an_image_runs_as_a_numbered_user_and_without_a_shell(name: str) -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", STAGES[name].last("USER"))
    for instruction in ("ENTRYPOINT", "CMD"):
        for value in STAGES[name].values(instruction):
            assert json.loads(value)[0]


def test_the_server_takes_each_variable() -> None:
    command = [str(find_program()), "serve", "--help"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    services = [SERVICES, *(yaml.safe_load(text)["services"] for text in overrides())]
    variables = {
        *SERVER.environment,
        *re.findall(r"TWOFOLD_(?!CURVE_SERVER|CURVE_CLIENT\b)\w+", PAGE),
    }
    variables |= {name for each in services for name in each["server"].get("environment", {})}
    assert len(variables) >= 6
    for name in variables:
        flag = "--" + name.removeprefix("TWOFOLD_").lower().replace("_", "-")
        assert f"{flag} " in flags, name


def overrides() -> list[str]:
    """Returns the compose files shown on the page."""
    return re.findall(r"^```\n(services:.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_server_of_the_image_is_healthy_until_it_stops(tmp_path: Path) -> None:
    environment = {**os.environ}
    for name, value in SERVER.environment.items():
        for volume in json.loads(SERVER.last("VOLUME")):
            (tmp_path / volume[1:]).mkdir(parents=True, exist_ok=True)
            value = value.replace(volume, f"{tmp_path}{volume}")
        environment[name] = value.replace("0.0.0.0:5555", "127.0.0.1:0")
    program, *arguments = json.loads(SERVER.last("ENTRYPOINT")) + json.loads(SERVER.last("CMD"))
    assert program == HEALTH[0] == "twofold"
    probe = [find_program(), *HEALTH[1:]]
    with subprocess.Popen(
        [find_program(), *arguments, "--parent-pid", str(os.getpid())],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in ENDPOINTS]
        healthy = subprocess.run([*probe, "--timeout", "60"], env=environment, capture_output=True)
        server.send_signal(signal.SIGTERM)
    assert all(line.startswith("listening on ") for line in lines), lines
    assert healthy.returncode == 0, healthy.stderr
    assert server.returncode == 0
    assert subprocess.run(probe, env=environment, capture_output=True).returncode == 1


def test_the_server_writes_only_to_volumes() -> None:
    volumes = json.loads(SERVER.last("VOLUME"))
    [ipc] = [address for address in ENDPOINTS if address.startswith("ipc://")]
    for path in (ipc.removeprefix("ipc://"), SERVER.environment["TWOFOLD_STATE_DIR"]):
        assert any(Path(path).is_relative_to(volume) for volume in volumes), path
    service = SERVICES["server"]
    mounted = [each.split(":")[0] for each in service["tmpfs"]]
    mounted += [each.split(":")[1] for each in service["volumes"]]
    assert sorted(mounted) == sorted(volumes)
    assert {each.split(":")[0] for each in service["volumes"]} == set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["build"]["target"] in STAGES
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus"} <= service.keys()


def test_the_trainer_waits_for_the_server_and_runs_a_program_that_exists() -> None:
    service = SERVICES["trainer"]
    assert service["depends_on"] == {"server": {"condition": "service_healthy"}}
    port = SERVER.last("EXPOSE")
    assert service["environment"]["TWOFOLD_ENDPOINT"] == f"tcp://server:{port}"
    assert any(re.fullmatch(rf"tcp://\S+:{port}", address) for address in ENDPOINTS)
    [mount] = service["volumes"]
    source, target, _ = mount.split(":")
    assert (ROOT / source / Path(service["command"][1]).relative_to(target)).is_file()


def test_the_pod_of_the_page_mounts_the_volumes_and_asks_as_the_server_understands() -> None:
    [text] = re.findall(r"^```\n(terminationGracePeriod.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    pod = yaml.safe_load(text)
    [container] = pod["containers"]
    volumes = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert volumes.keys() == set(json.loads(SERVER.last("VOLUME")))
    assert {volume["name"] for volume in pod["volumes"]} == set(volumes.values())
    assert pod["securityContext"]["fsGroup"] == int(SERVER.last("USER").split(":")[1])
    usage = subprocess.run(
        [str(find_program()), "ping", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        program, command, *options = container[name]["exec"]["command"]
        assert [program, command] == HEALTH
        assert all(option in usage for option in options if option.startswith("--"))


def test_the_page_extends_services_that_exist() -> None:
    [text] = overrides()
    override = yaml.safe_load(text)
    assert override["services"].keys() <= SERVICES.keys()
    for service in override["services"].values():
        for secret in service["secrets"]:
            assert secret in override["secrets"]
        for path in service["environment"].values():
            assert path.removeprefix("/run/secrets/") in service["secrets"]
