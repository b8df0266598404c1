"""Tests of `twofold stats` with a real server."""

import json
import math
import re
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families
from raw import RawSession, statistics_of
from servers import Server

import twofold
from twofold._tables import table
from twofold.cli import main
from twofold.cli.stats import (
    as_prometheus,
    as_text,
    duration,
    head,
    requests_table,
    sessions_table,
    size,
)
from twofold.v1 import statistics_pb2 as statistics


@pytest.fixture
def stepped(own_server: Server) -> twofold.Game2048VectorEnv:
    """Steps ten boards twice, and makes one refused request."""
    envs = twofold.Game2048VectorEnv(10, endpoint=own_server.ipc)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step([0] * 10)
    with RawSession(own_server.ipc) as session:
        session.create()
        session.step(0, 0, 0)
        session.connection.send_frames(b"no delimiter")
        session.ask(observe={})  # after the message without a delimiter
    return envs


def test_the_steps_of_rollouts_are_counted(
    own_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    envs = twofold.Game2048VectorEnv(10, endpoint=own_server.ipc)
    envs.reset(seed=0)
    envs.step([0] * 10)
    envs.rollout(7, "random")
    main(["stats", "--json", "--endpoint", own_server.ipc])
    assert json.loads(capsys.readouterr().out)["counters"]["steps"] == 80
    envs.close()


@pytest.mark.parametrize("command", [["stats"], ["doctor"]])
def test_the_address_of_a_server_needs_no_option(
    command: list[str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, server.tcp]) == 0
    assert main([command[0], "tcp://127.0.0.1:1", "--timeout", "0.1"]) == 1
    assert "tcp://127.0.0.1:1" in "".join(capsys.readouterr())


@pytest.mark.parametrize("word", ["private", "embedded"])
def test_only_the_address_of_a_server_is_recommended(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", word]) == 2
    assert capsys.readouterr().err.strip().endswith("expected tcp://host:port or ipc:///path")


def test_json_has_every_number(
    own_server: Server, stepped: object, capsys: pytest.CaptureFixture[str]
) -> None:
    # Asked once: on a busy machine, the command repeats its request, and each copy is received.
    once = statistics_of(own_server.ipc).counters
    assert main(["stats", "--json", "--endpoint", own_server.ipc]) == 0
    stats = json.loads(capsys.readouterr().out)
    counters = stats["counters"]
    assert counters["steps"] == 20
    assert counters["dropped"] == 1
    assert (counters["sessions_created"], counters["sessions_closed"]) == (2, 1)
    # The request itself has been received, but not yet executed.
    parts = ("executed", "refused", "resent", "parked", "dropped")
    assert once.received == sum(getattr(once, part) for part in parts) + 1
    assert counters["received"] > sum(counters[part] for part in parts) >= once.received
    assert {row["code"]: row["count"] for row in stats["refusals"]} == {"FAILED_PRECONDITION": 2}
    requests = {row["name"]: row for row in stats["requests"]}
    assert requests["step"]["executed"] == 2
    assert requests["step"]["refused"] == 1
    assert 0 < requests["step"]["p50"] <= requests["step"]["p99"]
    assert requests["step"]["seconds"] > 0
    usage = stats["usage"]
    assert (usage["sessions"], usage["boards"]) == (1, 10)
    assert usage["resident_bytes"] > 1 << 20
    assert usage["descriptors"] > 5
    assert 0 < usage["session_bytes"] < 1 << 20
    [session] = stats["sessions"]
    assert (session["boards"], session["requests"], session["busy"]) == (10, 4, False)
    assert session["environment_id"] == "twofold/Game2048-v0"
    assert re.fullmatch(r"[0-9a-f]{8}", session["id"])
    assert stats["draining"] is False
    assert stats["uptime"] > 0
    assert stats["limits"]["max_sessions"] == 10_000


def test_the_table_is_readable(
    own_server: Server, stepped: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", "--endpoint", own_server.tcp]) == 0
    text = capsys.readouterr().out
    assert "serving" in text
    assert "1 of 10,000 sessions, 10 of 16,777,216 boards" in text
    assert re.search(r"^step +2 +1 +", text, re.MULTILINE)
    assert re.search(r"^FAILED_PRECONDITION +2$", text, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{8}  -  +Game2048-v0 +10 +4 ", text, re.MULTILINE)


def test_prometheus_can_read_the_statistics(
    own_server: Server, stepped: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", "--format", "prometheus", "--endpoint", own_server.ipc]) == 0
    text = capsys.readouterr().out
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) == text.count("# TYPE "), "each family stands once"
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert len(samples) == len([line for line in text.splitlines() if line[0] != "#"])
    for family in families.values():
        assert family.name.startswith("twofold_")
        assert family.documentation
        assert (family.type == "counter") == (f"# TYPE {family.name}_total counter" in text)
    assert samples["twofold_info", twofold.__version__] == 1
    assert samples["twofold_steps_total",] == 20
    assert samples["twofold_sessions",] == 1
    assert samples["twofold_request_seconds_count", "step"] == 2
    assert samples["twofold_request_seconds", "step", "0.99"] > 0
    assert math.isnan(samples["twofold_request_seconds", "observe", "0.99"])
    assert samples["twofold_limit", "max_sessions"] == 10_000
    assert samples["twofold_refusals_total", "FAILED_PRECONDITION"] == 2


def test_the_time_of_a_request_has_a_mean_and_quantiles() -> None:
    stats = statistics.StatsReply()
    stats.requests.add(name="step", executed=4, refused=2, seconds=0.008, p50=0.001, p99=0.003)
    stats.requests.add(name="observe", refused=1)
    assert [line.rstrip() for line in requests_table(stats).splitlines()] == [
        "request  executed  refused  mean  p50 now  p99 now",
        "step            4        2  2 ms     1 ms     3 ms",
        "observe         0        1",
    ]
    seconds = "twofold_request_seconds"
    assert [line for line in as_prometheus(stats).splitlines() if line.startswith(seconds)] == [
        f'{seconds}{{kind="step",quantile="0.5"}} 0.001',
        f'{seconds}{{kind="step",quantile="0.99"}} 0.003',
        f'{seconds}_sum{{kind="step"}} 0.008',
        f'{seconds}_count{{kind="step"}} 4.0',
        f'{seconds}{{kind="observe",quantile="0.5"}} NaN',
        f'{seconds}{{kind="observe",quantile="0.99"}} NaN',
        f'{seconds}_sum{{kind="observe"}} 0.0',
        f'{seconds}_count{{kind="observe"}} 0.0',
    ]


def test_the_time_of_a_resume_is_measured(own_server: Server) -> None:
    envs = twofold.Game2048VectorEnv(10, endpoint=own_server.ipc)
    twofold.resume(envs.token, timeout=30).close()
    [resumes] = [row for row in statistics_of(own_server.ipc).requests if row.name == "resume"]
    assert resumes.executed == 1
    assert resumes.seconds > 0


def test_the_statistics_do_not_reveal_session_ids(
    own_server: Server, stepped: twofold.Game2048VectorEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = stepped.token.partition("#")[2]
    for form in (["--json"], ["--format", "prometheus"], []):
        main(["stats", *form, "--endpoint", own_server.ipc])
        text = capsys.readouterr().out
        assert secret[:8] not in text
        assert secret[-8:] not in text


def test_the_most_recently_active_sessions_are_listed_first() -> None:
    stats = statistics.StatsReply()
    for index in range(100):
        stats.sessions.add(id=f"{index:08d}", idle=100 - index)
    text = as_text(stats)
    assert text.index("00000099") < text.index("00000050") < text.index("00000000")


def test_the_tables_fit_into_80_columns() -> None:
    now = statistics.StatsReply(uptime=1)
    now.sessions.add(
        id="6bfce2e7", client="alice", environment_id="twofold/Concentration-v0", boards=65_536,
        requests=1_234_567, age=9000, idle=0.953, bytes=44_134,
    )  # fmt: skip
    text = as_text(now)
    assert "43.1 KiB" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    own_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["stats", "--format", "prometheus", "--endpoint", own_server.ipc]) == 1
    said = "prometheus_client, which is not installed: pip install 'twofold[cli]'\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "--format", "xml"],
        ["stats", "--timeout", "-1"],
        ["stats", "--json", "--format", "prometheus"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: twofold" in capsys.readouterr().err


def test_a_server_that_is_about_to_stop_says_so() -> None:
    for draining, state in ((True, "about to stop"), (False, "serving")):
        assert f", {state}, up " in head(statistics.StatsReply(draining=draining))


def test_a_session_in_a_long_request_is_busy_and_not_idle() -> None:
    rows = [statistics.SessionStats(busy=busy, idle=7.0) for busy in (True, False)]
    busy, idle = sessions_table(rows).splitlines()[-2:]
    assert "busy" in busy
    assert "7 s" not in busy
    assert "7 s" in idle


def test_numbers_are_formatted_for_people() -> None:
    seconds = (0, 35e-6, 1.2e-3, 4.5, 99, 720, 5940, 12_240, 171_000, 181_440)
    assert [duration(t) for t in seconds] == [
        "0 us", "35 us", "1.2 ms", "4.5 s", "99 s", "12 min", "99 min", "3.4 h", "47.5 h", "2.1 d",
    ]  # fmt: skip
    assert size(1_040_000) == "1,016 KiB"
    assert [size(s) for s in (0, 512, 1 << 20, 3.25 * 2**30, 2**42)] == [
        "0 B", "512 B", "1 MiB", "3.25 GiB", "4 TiB",
    ]  # fmt: skip
    assert table(["name", "count"], [["step", "1,024"], ["a", "7"]], "lr") == (
        "name  count\nstep  1,024\na         7"
    )
