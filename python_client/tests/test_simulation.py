"""The whole system in a simulation: the package's clients, and the real ledger and service."""

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import figures
import plant
import pytest
import zmq
from campaign import ENOUGH_REQUESTS, EXPECTED_MARKS, Campaign
from clients import Player
from defects import DEFECTS, REPOSITORY
from processes import Process, SimulatedSocket, Simulation, Violation
from runs import Run, recorded
from servers import PATIENCE, Server
from shrinking import shrink
from unseen import UNSEEN
from world import KINDS, Faults, Report

from twofold.client.session import states
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rules_pb2 as rules


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = os.environ.get("TWOFOLD_THREADS")
    os.environ["TWOFOLD_THREADS"] = "1"
    yield
    os.environ.pop("TWOFOLD_THREADS")
    if before is not None:
        os.environ["TWOFOLD_THREADS"] = before


# `make test-long` runs many more seeds.
@pytest.mark.parametrize("first", range(0, 8, 4))
def test_no_fault_loses_a_call_or_makes_it_twice(first: int) -> None:
    total = Campaign()
    for seed in range(first, first + 4):
        run = Run(seed, steps=500)
        total.add(run, run.report())
    assert [(run.command(), violation) for run, violation in total.violations] == []
    # The events to observe are rare; this one happens all the time.
    for mark in ("interrupted", "step", "reset", "collected", "closed", "lost"):
        assert total.marks[mark] > 0, mark


def test_the_same_seed_gives_the_same_run() -> None:
    logs: list[list[str]] = [[], [], []]
    for log, seed in zip(logs, (5, 5, 6), strict=True):
        Run(seed, steps=150).report(log.append)
    assert logs[0] == logs[1]
    assert len(logs[0]) > 150
    assert logs[0] != logs[2]


@pytest.mark.parametrize("defect", recorded())
def test_a_run_that_finds_a_defect_passes_without_it(defect: str) -> None:
    assert recorded()[defect].report().violation is None


def test_each_recorded_run_names_a_defect_that_can_be_planted() -> None:
    known = {one.name for one in (*DEFECTS, *itertools.chain.from_iterable(UNSEEN.values()))}
    assert recorded().keys() - known == set()


def test_runs_of_modelled_clients_pass() -> None:
    for seed in range(4):
        report = Run(seed, steps=2000, has_models=True).report()
        assert report.violation is None
        assert report.requests >= 2000


# ---- the simulation finds defects ----------------------------------------------------------------


def first_violation(runs: int) -> str:
    """Returns the first violation in some runs; "" if there is none."""
    for seed in range(runs):
        violation = Run(seed, steps=300).report().violation
        if violation is not None:
            return violation
    return ""


def test_a_client_that_makes_an_answered_request_again_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(states.Unseen, "wants", lambda self, operation: states.Task.SEND)
    # The reply or the next snapshot shows the defect.
    assert "the shadow's" in first_violation(40)


def test_a_client_that_forgets_an_unanswered_request_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(states.Sent, "left", lambda self: states.Idle(self.seq - 1))
    assert first_violation(40) != ""


def test_a_client_that_raises_another_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(self: SimulatedSocket) -> bytes:
        raise zmq.ZMQError(zmq.ETERM)

    monkeypatch.setattr(SimulatedSocket, "recv", break_down)
    assert "raised ZMQError: Context was terminated" in first_violation(1)


def test_a_violation_in_a_finalizer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            raise Violation("found in a finalizer")

    monkeypatch.setattr(Player, "run", lambda self, process: [Finalized()].clear())
    assert first_violation(1) == "found in a finalizer"


def test_a_campaign_that_never_reaches_a_place_reports_it() -> None:
    total = Campaign()
    reached = dict.fromkeys(EXPECTED_MARKS, 1)
    del reached["forked"]
    total.add(Run(1), Report(requests=ENOUGH_REQUESTS - 1, marks=reached))
    assert total.missing_marks(has_models=False) == []
    total.add(Run(2), Report(requests=1, marks={"parked": 0}))
    assert total.missing_marks(has_models=False) == ["forked"]
    assert total.missing_marks(has_models=True) == ["parked"]


# ---- smaller runs --------------------------------------------------------------------------------

DROP, CUT = KINDS.index("dropReply"), KINDS.index("cut")


def test_a_failing_run_is_reduced_to_its_necessary_parts() -> None:
    def fails(run: Run) -> Report | None:
        """Fails runs of 37 steps or more with dropped replies and faults 3 and 11 of the 20."""
        is_enough = run.steps >= 37 and DROP not in run.faults.disabled
        if not is_enough or {3, 11} & run.faults.suppressed:
            return None
        return Report(violation="lost", faults=20)

    smallest, report = shrink(Run(1), 60, fails, lambda line: None)
    assert report.violation == "lost"
    assert smallest.steps == 37
    assert smallest.faults.disabled == set(range(len(KINDS))) - {DROP}
    assert smallest.faults.suppressed == set(range(20)) - {3, 11}
    assert Run.from_json(json.loads(json.dumps(smallest.as_json()))) == smallest


def test_a_run_is_repeated_by_its_command() -> None:
    run = Run(7, 40, Faults(frozenset({CUT}), frozenset({4, 2})))
    assert run.command() == (
        "make simulate SEED=7 STEPS=40 SIMULATE_ARGS='--without cut --suppress 2,4'"
    )
    assert replace(run, faults=Faults()).command() == "make simulate SEED=7 STEPS=40"


# ---- sockets -------------------------------------------------------------------------------------


class Talk:
    """A client that performs one action with a socket."""

    def __init__(self, deed: Any) -> None:
        self.deed, self.result = deed, None

    def run(self, process: Process) -> None:
        self.result = self.deed(process, SimulatedSocket(process))


def talk(deed: Any) -> Any:
    """Returns the result of an action on a socket, in a simulation without faults."""
    program = Talk(deed)
    quiet = Faults(frozenset(range(len(KINDS))))
    simulation = Simulation(1, 1, quiet, [program])
    report = simulation.run()
    simulation.destroy()
    assert report.violation is None
    return program.result


def error_of(function: Any, *arguments: Any) -> int:
    """Returns the errno that a socket's method raises."""
    with pytest.raises(zmq.ZMQError) as raised:
        function(*arguments)
    assert raised.value.errno is not None
    return raised.value.errno


def misuses(socket: Any) -> list[int]:
    """Returns the errnos of calls that are not a REQ socket's turn, or that follow its close."""
    expand = rules.ExpandRequest(environment_id="twofold/Game2048-v0", count=1)
    expand.operation = rules.EXPAND_OPERATION_LEGAL
    socket.set(zmq.RCVTIMEO, int(PATIENCE * 1000))
    found = [error_of(socket.recv)]
    socket.send(b"no request", zmq.DONTWAIT)
    found.append(error_of(socket.send, b"another"))
    assert len(socket.recv()) > 0
    assert not socket.get(zmq.RCVMORE)
    found.append(error_of(socket.recv))
    socket.send(envelope.Request(expand=expand).SerializeToString(), zmq.DONTWAIT | zmq.SNDMORE)
    socket.send(bytes(16), zmq.DONTWAIT)
    assert len(socket.recv()) > 0
    assert socket.get(zmq.RCVMORE)
    found.append(error_of(socket.send, b"another"))
    socket.close()
    found += [error_of(socket.recv), error_of(socket.send, b""), error_of(socket.get, zmq.RCVMORE)]
    return found


def test_a_simulated_socket_is_as_strict_as_libzmqs(server: Server) -> None:
    with zmq.Context() as context:
        socket = context.socket(zmq.REQ)
        socket.connect(server.ipc)
        expected = misuses(socket)
    assert expected == [zmq.EFSM] * 4 + [zmq.ENOTSOCK] * 3
    assert talk(lambda process, socket: misuses(socket)) == expected


def test_a_wait_ends_after_its_time() -> None:
    def deed(process: Process, socket: SimulatedSocket) -> int:
        before = process.simulation.time
        socket.send(b"no request", zmq.DONTWAIT)
        socket.set(zmq.RCVTIMEO, 0)
        with pytest.raises(zmq.Again):
            socket.recv()
        process.idle(1.5)
        return process.simulation.time - before

    assert talk(deed) == 1_500_000_000


def test_each_defect_that_can_be_planted_has_its_place_once() -> None:
    defects = [*DEFECTS, *itertools.chain.from_iterable(UNSEEN.values())]
    places = {one.name: (REPOSITORY / one.path).read_text().count(one.text) for one in defects}
    assert {name: count for name, count in places.items() if count != 1} == {}
    assert len(places) == len(defects)


def test_the_figures_of_unseen_defects_count_each_kind_and_name_the_missed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    found, missed, other = (UNSEEN[kind][0] for kind in ("ledger", "budget", "rules"))
    output = "12 runs, 1,234 requests in 5 s\nviolation: a reply differs\n"
    rows = [plant.row(found, output, 4.96), plant.row(missed, "1,234 requests in 60 s", 60.1)]
    rows.append(plant.row(other, output, 1.0))
    assert rows[0]["requests"] == 1234
    assert plant.line(rows[0]) == (
        f"found after 5.0 s, 1,234 requests: {found.name} ({rows[0]['in']}): a reply differs"
    )
    assert plant.line(rows[1]) == f"NOT FOUND: {missed.name} ({rows[1]['in']})"
    plant.publish(rows, is_unseen=True)
    assert figures.read("unseen")["rows"] == [
        {"kind": "ledger", "defects": 1, "missed": []},
        {"kind": "budget", "defects": 1, "missed": [missed.name]},
        {"kind": "rules", "defects": 1, "missed": []},
    ]
