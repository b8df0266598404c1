"""`twofold doctor`: each test breaks an installation, and a finding names the problem and fix."""

import contextlib
import errno
import importlib.metadata
import io
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from keys import Keys
from servers import PATIENCE, Server
from typing_extensions import Self

import twofold
from twofold import cli, errors
from twofold.client.lookup import find_program
from twofold.client.zeromq import ZeroMQCarrier
from twofold.doctor import machine, machine_findings, network_findings, service
from twofold.doctor.findings import ok, warning
from twofold.v1 import envelope_pb2 as envelope

COMMAND = ("doctor", "--json", "--timeout", str(PATIENCE))


@pytest.fixture(autouse=True)
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.doctor.machine._sandbox", lambda: ok("sandbox", "not started"))


def doctor(*arguments: str, **variables: str) -> tuple[int, Any]:
    """Returns the exit status, and the findings by the name of their check."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        for name, value in variables.items():
            patch.setenv(name, value)
        patient = COMMAND[:2] if "--timeout" in arguments else COMMAND
        status = cli.main([*patient, *arguments])
    return found(status, output.getvalue())


def found(status: int, output: str) -> tuple[int, Any]:
    document = json.loads(output)
    assert document["works"] is (status == 0)
    assert all(
        bool(finding["fix"]) is (finding["status"] != "ok") for finding in document["findings"]
    )
    return status, {finding["check"]: finding for finding in document["findings"]}


def fails(findings: Any, check: str, found: str, fix: str) -> None:
    """Asserts that a check failed, and that its finding and its fix contain these words."""
    finding = findings[check]
    assert finding["status"] == "failed"
    assert found in finding["found"]
    assert fix in finding["fix"]


def test_a_working_installation_has_no_failures(server: Server) -> None:
    status, findings = doctor("--endpoint", server.tcp)
    assert status == 0
    assert list(findings) == [
        *("python", "packages", "extras", "processor", "memory", "open files", "temporary files"),
        *("clock", "sandbox", "library", "step", "server program", "libzmq"),
        *("endpoint", "keys", "reach", "protocol", "server", "limits"),
    ]
    assert findings["step"]["found"] == "four boards were stepped at 'embedded'"
    assert findings["server program"]["status"] == "ok"
    libraries = f"libzmq {zmq.zmq_version()}, pyzmq {zmq.pyzmq_version()}"
    assert findings["libzmq"]["found"] == libraries


def test_a_servers_threads_and_limits_are_named() -> None:
    limits = ("--max-sessions", "1000", "--max-boards", "3000", "--max-boards-per-session", "2000")
    with Server("--threads", "3", "--max-bytes", str(5 << 30), *limits) as server:
        findings = {each.check: each for each in network_findings(server.ipc, None, PATIENCE)}
    assert findings["server"] == ok("server", f"version {twofold.__version__}, 3 threads")
    assert findings["limits"].found == (
        "1,000 sessions; 3,000 boards, 2,000 of them in one session; 5,120 MiB"
    )


@pytest.mark.parametrize("endpoint", ["embedded", "private"])
def test_an_endpoint_on_this_machine_needs_no_checks_of_a_server(endpoint: str) -> None:
    text = f"{endpoint!r}: boards run on this machine, without another server"
    assert list(network_findings(endpoint, None, PATIENCE)) == [ok("endpoint", text)]


def test_optional_packages_are_listed_with_their_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "torch":
            return "2.13.0+cpu"
        raise importlib.metadata.PackageNotFoundError(name)

    def extras() -> str:
        return {each.check: each for each in machine_findings()}["extras"].found

    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", version)
        assert extras() == "torch 2.13.0+cpu"
        patch.setattr(importlib.metadata, "version", lambda name: version("none"))
        assert extras() == "none"


def test_findings_are_printed_with_their_fixes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_SERVER", "/nowhere/twofold-server")
    assert cli.main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "FAILED   server program" in output
    assert "Unset TWOFOLD_SERVER" in output
    assert output.splitlines()[-1] == "Something does not work; see FAILED above."


def test_a_missing_library_is_named() -> None:
    status, findings = doctor(TWOFOLD_LIBRARY="/nowhere/libtwofold.so")
    assert status == 1
    fails(findings, "library", "/nowhere/libtwofold.so", "Unset TWOFOLD_LIBRARY")
    assert "step" not in findings


@pytest.mark.usefixtures("_unstarted")
def test_a_library_that_cannot_be_loaded_is_named() -> None:
    _, findings = doctor(TWOFOLD_LIBRARY=__file__)
    fails(findings, "step", "can't be loaded", "Reinstall the wheel")


def test_a_private_server_does_not_hide_that_the_wheel_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "twofold"
    shutil.copytree(Path(twofold.__file__).parent, package, ignore=shutil.ignore_patterns("_bin"))
    (package / "_bin").mkdir()
    (package / "_bin" / "libtwofold.so").touch()
    monkeypatch.setenv("TWOFOLD_SERVER", str(find_program()))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("TWOFOLD_LIBRARY", raising=False)
    monkeypatch.delenv("TWOFOLD_ENDPOINT", raising=False)
    ran = subprocess.run(
        [sys.executable, "-m", "twofold", *COMMAND],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    _, findings = found(ran.returncode, ran.stdout)
    fails(findings, "step", "can't be loaded", "Reinstall the wheel")


@pytest.mark.usefixtures("_unstarted")
def test_a_library_of_another_version_is_named(tmp_path: Path) -> None:
    source, library = tmp_path / "old.c", tmp_path / "libtwofold.so"
    source.write_text(
        'const char *twofold_version(void) { return "0.0.1"; }\n'
        "int twofold_interface(void) { return 1; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    _, findings = doctor(TWOFOLD_LIBRARY=str(library))
    fails(findings, "step", "version 0.0.1", "Reinstall the wheel")


@pytest.mark.usefixtures("_unstarted")
def test_an_invalid_setting_of_the_library_is_named() -> None:
    _, findings = doctor(TWOFOLD_MAX_BYTES="many")
    fails(findings, "step", "TWOFOLD_MAX_BYTES", "environment variable")


def test_without_a_library_the_boards_of_a_private_server_are_stepped() -> None:
    found = service._step(warning("library", "no library", "Install it."))
    assert found == ok("step", "four boards were stepped at 'private'")


def test_a_full_server_in_the_environment_variable_is_named() -> None:
    with Server("--max-sessions", "1") as server:
        envs = twofold.Game2048VectorEnv(1, endpoint=server.tcp)
        status, findings = doctor(TWOFOLD_ENDPOINT=server.tcp)
        envs.close()
    assert status == 1
    fails(findings, "step", "max_sessions", "TWOFOLD_ENDPOINT")


@pytest.mark.parametrize(
    ("check", "file"), [("library", "libtwofold.so"), ("server program", "twofold-server")]
)
def test_a_package_without_the_service_gets_a_warning_with_the_ways_to_get_it(
    check: str, file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("TWOFOLD_LIBRARY", "TWOFOLD_SERVER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("twofold.client.lookup._candidates", lambda name: [tmp_path / name])
    # An earlier test's private server may still be running.
    monkeypatch.setattr("twofold.client.private_server._current", None)
    _, findings = doctor()
    finding = findings[check]
    assert finding["status"] == "warning"
    assert finding["found"].startswith(f"{file} was not found at {tmp_path / file}")
    assert "make server" not in finding["found"], "that is in the fix"
    assert "make server" in finding["fix"]
    assert findings["step"]["fix"] == finding["fix"]


def test_a_server_program_that_is_not_there_is_named() -> None:
    _, findings = doctor(TWOFOLD_SERVER="/nowhere/twofold-server")
    fails(findings, "server program", "/nowhere/twofold-server", "Unset TWOFOLD_SERVER")


@pytest.mark.parametrize(
    ("version", "found"), [(b"0.0.1", "0.0.1"), (b"\xff", "\N{REPLACEMENT CHARACTER}")]
)
def test_a_server_program_of_another_version_is_named(
    version: bytes, found: str, tmp_path: Path
) -> None:
    program = tmp_path / "twofold-server"
    program.write_bytes(b"#!/bin/sh\necho " + version + b"\n")
    program.chmod(0o755)
    _, findings = doctor(TWOFOLD_SERVER=str(program))
    fails(findings, "server program", f"version {found}", "Reinstall the wheel")


def test_a_server_program_that_lacks_a_library_is_named(tmp_path: Path) -> None:
    program = tmp_path / "twofold-server"
    program.write_text(
        "#!/bin/sh\necho 'libzmq.so.5: cannot open shared object file' >&2\nexit 127\n"
    )
    program.chmod(0o755)
    _, findings = doctor(TWOFOLD_SERVER=str(program))
    fails(findings, "server program", "libzmq.so.5", "Reinstall the wheel")


def test_a_server_program_that_the_system_can_not_start_is_named(tmp_path: Path) -> None:
    program = tmp_path / "twofold-server"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    _, findings = doctor(TWOFOLD_SERVER=str(program))
    fails(findings, "server program", "Exec format error", "Reinstall the wheel")


def test_a_server_program_that_fails_without_a_message_is_named(tmp_path: Path) -> None:
    program = tmp_path / "twofold-server"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    _, findings = doctor(TWOFOLD_SERVER=str(program))
    fails(findings, "server program", "exit status 3", "Reinstall the wheel")


@pytest.mark.parametrize("address", ["tcp://localhost", "http://localhost:5555", "tcp://*:5555"])
def test_an_invalid_address_is_named(address: str) -> None:
    _, findings = doctor(TWOFOLD_ENDPOINT=address)
    fails(findings, "endpoint", address, "TWOFOLD_ENDPOINT")


def test_a_port_without_a_listener_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
    _, findings = doctor("--endpoint", address)
    fails(findings, "reach", "refused", f"twofold serve --endpoint {address}")


def test_the_clients_own_address_may_precede_that_of_the_server(server: Server) -> None:
    status, _ = doctor("--endpoint", server.tcp.replace("tcp://", "tcp://127.0.0.1:0;"))
    assert status == 0


@pytest.mark.parametrize("host", ["host.invalid", "a..b", "a" * 64])
def test_a_host_without_an_address_is_named(host: str) -> None:
    _, findings = doctor("--endpoint", f"tcp://{host}:5555")
    fails(findings, "reach", host, "Correct the host's name")


def test_a_host_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: tuple[str, int], timeout: float) -> None:
        assert (address, timeout) == (("::1", 5555), 2.5)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    *_, finding = network_findings("tcp://[::1]:5555", None, 2.5)
    assert (finding.check, finding.status) == ("reach", "failed")
    assert finding.found == "tcp://[::1]:5555 does not answer within 2.5 s"
    assert "firewall" in finding.fix


def test_a_path_without_a_server_is_named(tmp_path: Path) -> None:
    _, findings = doctor("--endpoint", f"ipc://{tmp_path}/s")
    fails(findings, "reach", str(tmp_path), "twofold serve")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(f"{tmp_path}/s")
    _, findings = doctor("--endpoint", f"ipc://{tmp_path}/s")
    fails(findings, "reach", "Connection refused", "twofold serve")


def test_a_socket_of_another_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden:
        def __init__(self, family: int) -> None:
            assert family == socket.AF_UNIX

        def connect(self, path: str) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", path)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(socket, "socket", Forbidden)
    *_, finding = network_findings("ipc:///run/s", None, 1.0)
    assert (finding.status, finding.found) == ("failed", "ipc:///run/s: no permission")
    assert "Ask the owner" in finding.fix


def test_a_server_of_another_version_gets_a_warning(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.doctor.network.VERSION", "99.0")
    findings = {each.check: each for each in network_findings(server.ipc, None, PATIENCE)}
    assert findings["server"].status == "warning"
    assert findings["server"].found.endswith("; this package has 99.0")


def test_a_key_that_is_removed_meanwhile_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise errors.PermissionDenied("the key was removed")

    monkeypatch.setattr(ZeroMQCarrier, "hello", refuse)
    *_, finding = network_findings(server.ipc, None, PATIENCE)
    assert (finding.check, finding.found) == ("handshake", "the key was removed")
    assert "--curve-clients" in finding.fix


def test_a_program_that_is_not_a_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _, findings = doctor(
            *("--endpoint", f"tcp://127.0.0.1:{silent.getsockname()[1]}"), *("--timeout", "0.5")
        )
    fails(findings, "protocol", "no reply to hello", "Another program listens there")


@contextlib.contextmanager
def server_of_another_protocol() -> Iterator[str]:
    """Runs a server that refuses every hello, as if it had another protocol version."""
    error = envelope.Error(code=envelope.ERROR_CODE_UNSUPPORTED_VERSION, message="protocol 2 only")
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        port = router.bind_to_random_port("tcp://127.0.0.1")
        is_done = threading.Event()

        def answer() -> None:
            while not is_done.is_set():
                if router.poll(50):
                    *route, _ = router.recv_multipart()
                    router.send_multipart([*route, envelope.Reply(error=error).SerializeToString()])

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{port}"
        finally:
            is_done.set()
            thread.join()


def test_a_server_of_another_protocol_is_named() -> None:
    with server_of_another_protocol() as address:
        _, findings = doctor("--endpoint", address)
    fails(findings, "protocol", "protocol 2 only", "the same version of Twofold")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def encrypted(keys: Keys) -> Iterator[Server]:
    with Server(*keys.arguments) as server:
        yield server


@pytest.mark.parametrize(
    ("server_key", "client_key", "found", "fix"),
    [
        (None, None, "requires a key", "name both files"),
        (
            "server.key",
            "eve.key_secret",
            "refuses this client's key",
            "Ask the operator to add your",
        ),
        ("eve.key", "alice.key_secret", "disconnects during the handshake", "Ask the operator for"),
    ],
)
def test_keys_that_are_not_accepted_are_named(
    encrypted: Server,
    keys: Keys,
    server_key: str | None,
    client_key: str | None,
    found: str,
    fix: str,
) -> None:
    given: list[str] = []
    if server_key and client_key:
        given = [
            "--curve-server",
            str(keys.directory / server_key),
            "--curve-client",
            str(keys.directory / client_key),
        ]
    _, findings = doctor("--endpoint", encrypted.tcp, *given)
    fails(findings, "handshake", found, fix)


def test_keys_for_a_server_that_does_not_encrypt_are_named(keys: Keys) -> None:
    with Server() as server:
        _, findings = doctor(
            *("--endpoint", server.tcp, "--curve-server", str(keys.directory / "server.key")),
            *("--curve-client", str(keys.directory / "alice.key_secret")),
        )
    fails(findings, "handshake", "does not encrypt", "Without encryption, pass no keys")


def test_accepted_keys_are_not_a_failure(encrypted: Server, keys: Keys) -> None:
    status, findings = doctor(
        *("--endpoint", encrypted.tcp, "--curve-server", str(keys.directory / "server.key")),
        *("--curve-client", str(keys.directory / "alice.key_secret")),
    )
    assert status == 0
    assert findings["keys"]["found"] == "encrypted with CURVE"
    assert findings["limits"]["found"].startswith("10,000 sessions, 1,000 of them for one key; ")


def test_a_file_without_a_key_is_named(keys: Keys) -> None:
    _, findings = doctor(
        *("--endpoint", "tcp://127.0.0.1:5555", "--curve-server", str(keys.directory / "clients")),
        *("--curve-client", str(keys.directory / "alice.key_secret")),
    )
    fails(findings, "keys", "clients", "--curve-server")


@pytest.mark.parametrize(
    ("requirement", "status"),
    [
        ("numpy >=1.24", "ok"),
        ("numpy >=1.20,<1.21", "failed"),
        ("numpy ~=0.9", "failed"),
        ("numpy >=1.24; python_version >= '3'", "ok"),
        ("not-there >=1", "failed"),
        ("not-there >=1; extra == 'dev'", None),
        ("not-there >=1; python_version < '3'", None),
    ],
)
def test_packages_are_compared_with_what_the_metadata_require(
    requirement: str, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [requirement])
    findings = {each.check: each for each in machine_findings()}
    if status is None:
        assert "packages" not in findings
    else:
        assert findings["packages"].status == status
        assert bool(findings["packages"].fix) == (status == "failed")


def test_an_early_release_of_a_package_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["numpy >=1.24"])
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "99.0rc1")
    assert list(machine._packages()) == [ok("packages", "numpy 99.0rc1")]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_the_processors_that_a_process_may_use_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for usable, end in ((8, "8 processors"), (2, "of which this process may use 2")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=usable: set(range(n)))
        assert machine._processor().found.removesuffix(", no AVX2").endswith(f", {end}")


@pytest.mark.parametrize(
    ("architecture", "flags", "status"),
    [
        ("x86_64", "sse4_2 avx avx2", "ok"),
        ("x86_64", "sse4_2 avx", "warning"),
        ("x86_64", None, "ok"),
        ("aarch64", "fp asimd", "ok"),
    ],
)
def test_an_x86_processor_that_lacks_avx2_gets_a_warning(
    architecture: str,
    flags: str | None,
    status: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "cpuinfo"
    if flags is not None:
        file.write_text(f"flags : {flags}\n")
    monkeypatch.setattr(machine, "Path", lambda _: file)
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    finding = machine._processor()
    assert finding.status == status
    assert finding.found.startswith(f"{architecture}, ")


def test_a_python_of_32_bits_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "sys", types.SimpleNamespace(maxsize=2**31 - 1))
    finding = machine._python()
    assert finding.status == "failed"
    assert finding.found.endswith(", 32 bits")


def test_a_coarse_clock_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = types.SimpleNamespace(resolution=0.05)
    monkeypatch.setattr("twofold.doctor.machine.time.get_clock_info", lambda _: coarse)
    finding = machine._clock()
    assert finding.status == "warning"
    assert finding.found == "the monotonic clock has a resolution of 50 ms"


def test_a_libzmq_without_encryption_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq, "has", lambda capability: capability != "curve")
    finding = service._zeromq()
    assert finding.status == "warning"
    assert finding.found.endswith(", without CURVE")


def test_a_missing_packaging_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    findings = {each.check: each for each in machine_findings()}
    assert findings["packages"].found == "packaging is not installed"


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_on_memory_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, limit = getattr(resource, name), resource.getrlimit
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda each: (100 << 20, resource.RLIM_INFINITY) if each == number else limit(each),
    )
    _, findings = doctor()
    fails(findings, "memory", "100 MiB", "ulimit -d")


@pytest.mark.parametrize(
    ("name", "limit", "status", "found"),
    [
        ("memory.max", "max", "ok", "no limit on this process"),
        ("memory.max", str(128 << 20), "failed", "may use 128 MiB"),
        ("memory/memory.limit_in_bytes", str(2**63 - 4096), "ok", "no limit on this process"),
        ("memory/memory.limit_in_bytes", str(512 << 20), "ok", "may use 512 MiB"),
    ],
)
def test_the_limit_on_a_containers_memory_is_named(
    name: str,
    limit: str,
    status: str,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{limit}\n")
    monkeypatch.setattr(machine, "Path", lambda _, name: tmp_path / name)
    monkeypatch.setattr(machine, "_own_limits", list)
    finding = machine._memory()
    assert finding.status == status
    assert found in finding.found


def test_the_smallest_of_several_limits_on_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_own_limits", lambda: [512 << 20, 100 << 20])
    monkeypatch.setattr(machine, "_cgroup_limits", lambda: [300 << 20])
    finding = machine._memory()
    assert (finding.status, finding.found) == ("failed", "this process may use 100 MiB")


def test_too_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = resource.getrlimit
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda name: (100, 100) if name == resource.RLIMIT_NOFILE else limit(name),
    )
    _, findings = doctor()
    fails(findings, "open files", "100 files", "ulimit -n")


@pytest.mark.skipif(sys.platform != "linux", reason="programs are judged on Linux")
def test_the_sandbox_plays_a_move_or_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # starts a sandbox
    status, findings = doctor()
    assert status == 0
    if findings["sandbox"]["status"] == "ok":
        monkeypatch.setattr("twofold.doctor.machine.os.geteuid", lambda: 1000)
        _, findings = doctor()
        assert findings["sandbox"]["found"] == "a sandboxed program plays"
        monkeypatch.setattr("twofold.doctor.machine.os.geteuid", lambda: 0)
        _, findings = doctor()
        assert findings["sandbox"]["found"].endswith("; judge as an ordinary user, not as root")
        monkeypatch.setattr("twofold.judging.sandbox.Sandbox.ask", lambda *_: None)
        _, findings = doctor()
        assert findings["sandbox"]["status"] == "warning"
        assert findings["sandbox"]["found"] == "a sandboxed program does not answer"

    def refuse(*_: object, **__: object) -> None:
        raise errors.SandboxUnavailable("no", missing="user namespaces: unshare: No")

    monkeypatch.setattr("twofold.judging.sandbox.Sandbox.__init__", refuse)
    status, findings = doctor()
    assert status == 0
    assert findings["sandbox"]["status"] == "warning"
    assert findings["sandbox"]["found"] == "refused: user namespaces: unshare: No"
    assert "only for programs that you have read" in findings["sandbox"]["fix"]


def test_a_missing_folder_for_temporary_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    finding = machine._temporary_files()
    assert finding.status == "failed"
    assert "/proc/none" in finding.found
    assert "TMPDIR" in finding.fix


def test_a_long_path_for_temporary_files_is_not_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this case, a private server puts its socket in /tmp."""
    directory = tmp_path / ("long" * 25)
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    status, findings = doctor()
    assert status == 0
    assert findings["temporary files"]["found"] == "/tmp"
