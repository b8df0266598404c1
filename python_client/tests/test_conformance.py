"""The conformance cases: our server and our client pass, and each faulty one fails its own case."""

import contextlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import faulty_clients
import faulty_servers
import pytest
from cases import ROOT, Failed, Undecided, load
from client_cases import MisbehavingServer
from faulty_clients import PlainClient
from faulty_servers import Relay
from make_program import PROGRAM, program
from raw import statistics_of
from run import report
from server_cases import ServerPlayer
from servers import PATIENCE, Server

from twofold import Game2048VectorEnv, TwofoldError

FOR_SERVERS = {case["name"]: case for case in load("server")}
FOR_CLIENTS = {case["name"]: case for case in load("client")}
RUN = [sys.executable, str(ROOT / "python_client" / "conformance" / "run.py")]


# ---- servers -------------------------------------------------------------------------------------


def test_our_server_keeps_the_contract_over_ipc_and_the_cases_leave_no_session_behind(
    own_server: Server,
) -> None:
    for case in FOR_SERVERS.values():
        ServerPlayer(own_server.ipc).play(case)
    assert statistics_of(own_server.ipc).usage.sessions == 0


FAULTY_SERVERS: list[tuple[type[Relay], str]] = [
    (faulty_servers.ExecutesRepeats, "a repeated step is applied once"),
    (faulty_servers.EncodesAnew, "a repeat gets the same bytes over any connection"),
    (faulty_servers.LooksAtSeqsAlone, "a used seq with other bytes is a conflict"),
    (
        faulty_servers.LooksAtSeqsAlone,
        "the kept reply is gone once the next request was executed",
    ),
    (faulty_servers.CountsRefusals, "a refused request changes nothing and uses no seq"),
    (faulty_servers.KeepsTheNextSeq, "a seq beyond the next is refused with the expected one"),
    (faulty_servers.WithoutFence, "a stale holder is refused, repeats and close included"),
    (
        faulty_servers.WithoutHolders,
        "another holder raises the epoch, and the same one gets it again",
    ),
    (faulty_servers.KeepsTheLastReply, "a resume brings the last reply, byte for byte"),
    (faulty_servers.ForgetsCloses, "a repeated close gets its reply"),
    (
        faulty_servers.AnswersEachRepeat,
        "a repeat of the request in progress is parked, and the newest connection gets the reply",
    ),
    (faulty_servers.IgnoresGarbage, "a header that can't be read is refused with seq 0"),
]


def test_a_relay_without_a_fault_keeps_the_contract(server: Server) -> None:
    with Relay(server.tcp) as relay:
        for _, name in FAULTY_SERVERS:
            ServerPlayer(relay.endpoint).play(FOR_SERVERS[name])


@pytest.mark.parametrize(("fault", "name"), FAULTY_SERVERS)
def test_a_wrong_server_fails_the_case_that_is_meant_for_it(
    server: Server, fault: type[Relay], name: str
) -> None:
    is_silent = fault is faulty_servers.IgnoresGarbage
    with fault(server.tcp) as relay, pytest.raises(Failed) as caught:
        ServerPlayer(relay.endpoint, patience=2 if is_silent else PATIENCE).play(FOR_SERVERS[name])
    assert ("no reply arrived" in str(caught.value)) == is_silent


def test_an_undecided_attempt_leaves_no_session_behind(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = ServerPlayer._play
    undecided: list[dict[str, Any]] = []

    def undecided_once(self: ServerPlayer, step: dict[str, Any]) -> None:
        if step.get("still") and not undecided:
            undecided.append(step)
            raise Undecided
        play(self, step)

    monkeypatch.setattr(ServerPlayer, "_play", undecided_once)
    cases = iter(FOR_SERVERS.values())
    while not undecided:
        ServerPlayer(own_server.ipc).play(next(cases))
    assert statistics_of(own_server.ipc).usage.sessions == 0


# ---- clients -------------------------------------------------------------------------------------


@pytest.fixture
def bad_server() -> Iterator[MisbehavingServer]:
    # A tcp port could be one that the client of an earlier, failed case still asks.
    with tempfile.TemporaryDirectory(prefix="twofold-test-") as directory:
        server = MisbehavingServer(f"ipc://{directory}/s")
        yield server
        server.close()


def play_with(client: Callable[[str], Any], server: MisbehavingServer, name: str) -> None:
    """Plays a case with a client in a separate thread."""
    thread = threading.Thread(target=client, args=(server.endpoint,), daemon=True)
    thread.start()
    server.play(FOR_CLIENTS[name], lambda: not thread.is_alive())
    thread.join()


def our_client(endpoint: str) -> None:
    """Plays the program with this package; an error ends it."""
    with contextlib.suppress(TwofoldError):
        envs = Game2048VectorEnv(4, endpoint=endpoint)
        try:
            boards, _ = envs.reset(seed=0)
            for step in range(10):
                boards, *_ = envs.step((boards.reshape(4, -1).sum(1) + step) % 4)
        finally:
            envs.close()


@pytest.mark.parametrize("name", FOR_CLIENTS)
def test_our_client_keeps_the_contract(bad_server: MisbehavingServer, name: str) -> None:
    play_with(our_client, bad_server, name)


LOST = "the first reply to a step is lost"


@pytest.mark.parametrize(
    ("fault", "name", "why"),
    [
        (faulty_clients.EncodesRepeatsAnew, LOST, "differs in its bytes from the request"),
        (faulty_clients.CountsRepeats, LOST, "came after 4 requests were answered"),
        (faulty_clients.BeginsAnew, LOST, "does not belong to the created session"),
        (faulty_clients.TakesSilenceForSuccess, LOST, "came after 4 requests were answered"),
        (faulty_clients.AsksOnce, LOST, "differs in its bytes from the request"),
        (
            faulty_clients.TakesAnyReply,
            "the reply to the request before comes in place of this one's",
            "came after 2 requests were answered",
        ),
        (
            faulty_clients.TakesAnyReply,
            "the header of a reply can't be read",
            "came after 4 requests were answered",
        ),
        (
            faulty_clients.CountsRefusedRequests,
            "a step is refused",
            "came after 4 requests were answered",
        ),
        (
            faulty_clients.RepeatsWhatWasRefused,
            "a step is refused",
            "was repeated .*INVALID",
        ),
        (
            faulty_clients.RepeatsWhatWasRefused,
            "another client has resumed the session",
            "was repeated .*STALE",
        ),
        (faulty_clients.ResetsAfterwards, "the session is gone", "came after .*NOT_FOUND"),
        (
            faulty_clients.DoesNotWait,
            "the server is about to stop, and then there again",
            "was repeated .*SHUTTING_DOWN",
        ),
    ],
)
def test_a_wrong_client_fails_the_case_that_is_meant_for_it(
    bad_server: MisbehavingServer, fault: type[PlainClient], name: str, why: str
) -> None:
    withheld = {int(seq) for seq in FOR_CLIENTS[name]["faults"]}
    with pytest.raises(Failed, match=why):
        play_with(lambda endpoint: fault(endpoint, withheld).play(), bad_server, name)


# ---- what the cases are made of ------------------------------------------------------------------


def test_the_program_has_the_replies_of_a_server(server: Server) -> None:
    assert json.loads(PROGRAM.read_text())["requests"] == program(server.ipc)


def test_each_reply_of_the_program_asks_for_other_actions_than_the_reply_before() -> None:
    requests = json.loads(PROGRAM.read_text())["requests"]
    boards = [bytes.fromhex(each["reply_payload"])[:64] for each in requests[1:-2]]
    for step, (old, new) in enumerate(itertools.pairwise(boards), 1):
        actions = [
            [(step + sum(each[16 * board : 16 * board + 16])) % 4 for board in range(4)]
            for each in (old, new)
        ]
        assert actions[0] != actions[1]


# ---- the command ---------------------------------------------------------------------------------


def test_the_command_needs_nothing_of_the_package_but_the_messages() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import run; print(*sys.modules)"
    command = [sys.executable, "-c", code, RUN[1].rpartition("/")[0]]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(ran.stdout.split())
    assert "twofold.v1.envelope_pb2" in modules
    assert {name for name in modules if re.match(r"numpy|gymnasium|twofold\.(?!v1)", name)} == set()


def test_the_command_passes_our_server(server: Server) -> None:
    ran = subprocess.run([*RUN, "server", "--endpoint", server.tcp], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert ran.stdout.splitlines()[-1] == f"{len(FOR_SERVERS)} passed, 0 FAILED, 0 undecided"


def test_the_command_starts_a_client_for_each_case() -> None:
    ran = subprocess.run([*RUN, "client", "--command", "true"], capture_output=True, text=True)
    failed = [case for case in FOR_CLIENTS.values() if case["ends"] in ("complete", "closed")]
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"{len(failed)} FAILED" in ran.stdout


def test_the_command_waits_for_a_client_that_is_started_by_hand() -> None:
    command = [*RUN, "client", "--patience", "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        names = []
        for line in runner.stdout:
            if start := re.match(r"start your client at (\S+) for: (.*)", line):
                names.append(start[2])
                threading.Thread(target=lambda at=start[1]: PlainClient(at).play()).start()
            last = line
            print(line, end="")  # shown where the test fails
    assert runner.returncode == 0
    assert names == list(FOR_CLIENTS)
    assert last.strip() == f"{len(FOR_CLIENTS)} passed, 0 FAILED, 0 undecided"


def test_a_report_has_a_line_for_each_case_and_says_what_was_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def play(case: Any) -> None:
        if case["name"] == "b":
            raise Failed("it was late")

    cases = [{"name": "a", "holds": ["S1"]}, {"name": "b", "holds": ["C2", "C3"]}]
    assert report(cases, play) == 1
    assert report(cases[:1], play) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "passed    a [S1]"
    assert printed[1:3] == ["FAILED    b [C2, C3]", "          it was late"]
