"""Datasets contain the environment's transitions, and `verify` detects any alteration."""

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import reference
import zmq
from servers import Server

import twofold
from twofold import cli, errors
from twofold.datasets import file_format

arrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_format, "GROUP_ROWS", 512)


def write(folder: Path, **arguments: Any) -> Path:
    path = folder / "data.parquet"
    given = {"transitions": 3000, "num_envs": 8, "seed": 3, **arguments}
    twofold.datasets.write(path, endpoint="embedded", **given)
    return path


def read(path: Path) -> dict[str, Any]:
    parts = list(twofold.datasets.read(path))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("arguments", [{}, {"size": (3, 4)}, {"size": 2, "max_episode_steps": 5}])
def test_a_dataset_contains_the_games_of_the_reference(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path, **arguments)
    data = read(path)
    rows, columns = arguments.get("size", 4), arguments.get("size", 4)
    if isinstance(rows, tuple):
        rows, columns = rows
    assert 3000 <= len(data["time"]) < 3008
    for lane in range(8):
        mine = {name: values[data["lane"] == lane] for name, values in data.items()}
        limit = arguments.get("max_episode_steps")
        game = reference.Game(3 + lane, rows, columns, max_episode_steps=limit)
        last = -1
        for i, action in enumerate(mine["action"]):
            time = int(mine["time"][i])
            if time == last + 2:  # the step between was only the next episode's first board
                game.step(0)
            else:
                assert time == last + 1
            last = time
            assert tuple(mine["observation"][i].ravel()) == game.board
            assert mine["action_mask"][i].tolist() == game.mask()
            assert mine["reward"][i] == game.step(int(action))
            assert tuple(mine["next_observation"][i].ravel()) == game.board
            assert mine["terminated"][i] == game.terminated
            assert mine["truncated"][i] == game.truncated
    metadata = twofold.datasets.verify(path, endpoint="embedded")
    assert metadata["transitions"] == len(data["time"])
    assert (metadata["seed"], metadata["num_envs"], metadata["policy"]) == (3, 8, "random")
    assert metadata["twofold"] == twofold.__version__


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    ("policy", "dialect"),
    [("random", None), ("greedy", "pgx"), (twofold.policies.Expectimax(1, 0), None)],
    ids=str,
)
def test_built_in_policies_write_the_same_as_stepping_their_actions(
    policy: Any, dialect: str | None, tmp_path: Path
) -> None:
    arguments = {"dialect": dialect, "max_episode_steps": 150}
    path = write(tmp_path, policy=policy, **arguments)
    data = read(path)
    played = iter(np.lexsort((data["lane"], data["time"])))

    def replay(observations: Any, action_mask: Any) -> Any:
        rows = [next(played) for _ in observations]
        np.testing.assert_array_equal(observations, data["observation"][rows])
        return data["action"][rows]

    other = tmp_path / "stepped"
    other.mkdir()
    again = read(write(other, policy=replay, **arguments))
    for name, values in data.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)
    twofold.datasets.verify(path, endpoint="embedded")
    write(other, policy=policy, **arguments)
    assert (other / "data.parquet").read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("small_groups")
def test_the_file_records_arguments_seed_and_versions(tmp_path: Path) -> None:
    path = write(tmp_path, size=(3, 4), four_probability=0.25)
    text = parquet.ParquetFile(path).metadata.metadata[b"twofold"]
    assert parquet.read_schema(path).metadata[b"twofold"] == text
    metadata = json.loads(text)
    assert metadata["arguments"] == {"size": [3, 4], "four_probability": 0.25}
    assert metadata["environment"] == "twofold/Game2048-v0"
    assert metadata["server"]
    assert parquet.ParquetFile(path).num_row_groups > 4


def test_a_file_of_another_environment_is_read_but_not_replayed(tmp_path: Path) -> None:
    path = write(tmp_path, size=3)
    data = read(path)
    rewrite(path, environment="Mine-v0")
    for name, values in read(path).items():
        np.testing.assert_array_equal(values, data[name], err_msg=name)
    with pytest.raises(errors.InvalidDataset, match="'Mine-v0'; expected twofold/Game2048-v0"):
        twofold.datasets.verify(path, endpoint="embedded")


def test_a_file_with_too_few_rows_is_found_without_a_replay(tmp_path: Path) -> None:
    path = write(tmp_path)
    rewrite(path, transitions=5000)
    with pytest.raises(errors.InvalidDataset, match="transitions; its metadata says 5000"):
        read(path)


def test_the_file_records_the_reward_itself_and_not_the_name_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "reward.json"
    file.write_text('{"merge_count": 0.5}')
    path = write(tmp_path, reward=file)
    metadata = json.loads(parquet.ParquetFile(path).metadata.metadata[b"twofold"])
    assert metadata["arguments"] == {"reward": {"merge_count": 0.5}}
    file.write_text('{"merge_count": 0.25}')
    twofold.datasets.verify(path, endpoint="embedded")
    file.unlink()
    twofold.datasets.verify(path, endpoint="embedded")


def test_arguments_are_written_as_plain_numbers_and_keys_are_not_written(
    tmp_path: Path, server: Server
) -> None:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    keys = twofold.CurveKeys(public, public, secret)
    arguments = {"size": np.int64(3), "max_episode_steps": np.uint8(9), "start_tiles": None}
    path = write(tmp_path, **arguments)
    metadata = json.loads(parquet.ParquetFile(path).metadata.metadata[b"twofold"])
    assert metadata["arguments"] == {"size": 3, "max_episode_steps": 9, "start_tiles": None}
    twofold.datasets.verify(path, endpoint="embedded")
    # A server without encryption does not admit them.
    with pytest.raises(errors.AuthenticationFailed):
        twofold.datasets.write(path, transitions=1, endpoint=server.tcp, keys=keys)


def rewrite(path: Path, **changes: Any) -> None:
    """Changes entries of a dataset's metadata; None removes the entry."""
    file = parquet.ParquetFile(path)
    groups = [file.read_row_group(group) for group in range(file.num_row_groups)]
    metadata = json.loads(file.metadata.metadata[b"twofold"]) | changes
    metadata = {name: value for name, value in metadata.items() if value is not None}
    with parquet.ParquetWriter(path, file.schema_arrow) as writer:
        for table in groups:
            writer.write_table(table)
        writer.add_key_value_metadata({b"twofold": json.dumps(metadata).encode()})


def spoil(path: Path, column: str, row: int, value: Any) -> None:
    file = parquet.ParquetFile(path)
    table = file.read()
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    values = table.column(column).to_pylist()
    values[row] = value
    place = table.schema.get_field_index(column)
    kind = table.schema.field(column)
    table = table.set_column(place, kind, arrow.array(values, kind.type))
    with parquet.ParquetWriter(path, table.schema) as writer:
        at = 0
        for size in groups:
            writer.write_table(table.slice(at, size))
            at += size
        metadata = file.metadata.metadata
        writer.add_key_value_metadata({b"twofold": metadata[b"twofold"]})


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("reward", 1.5, r"row 700 \(lane \d, time \d+\): reward is 1.5; the replay has"),
        ("next_observation", bytes(16), r"row 700 .*next_observation is \[0, 0"),
        ("observation", bytes(16), r"row 700 .*: observation is"),
        ("terminated", True, "row 700 .*: terminated is True; the replay has False"),
        ("truncated", True, "row 700 .*: truncated is True"),
        ("action_mask", 0, "row 700 .*: action_mask is 0"),
        ("action", 9, "row 700 has an invalid action"),
        ("lane", 8, "row 700 has an impossible lane or time"),
        ("time", 0, "row 700 has an impossible lane or time"),
    ],
)
def test_a_wrong_transition_is_reported_with_row_and_column(
    column: str, value: Any, text: str, tmp_path: Path
) -> None:
    path = write(tmp_path)
    spoil(path, column, 700, value)
    with pytest.raises(errors.InvalidDataset, match=text):
        twofold.datasets.verify(path, endpoint="embedded")


def test_a_lack_of_threads_or_descriptors_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    write(tmp_path)
    tmp_path.chmod(0o755)
    program = """
import os, resource, twofold
from twofold.datasets import file_format
file_format.pyarrow()
expected = [part["reward"].sum() for part in twofold.datasets.read("data.parquet")]
if os.getuid() == 0:
    os.setuid(65534)  # no limit on threads applies to root
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
found = [part["reward"].sum() for part in twofold.datasets.read("data.parquet")]
print(found == expected and len(found) > 0)
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
except OSError as error:
    full = error.errno
try:
    next(twofold.datasets.read("data.parquet"))
except OSError as error:
    print(error.errno == full)
"""
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -n 64; exec "$0" -c "$1"', sys.executable, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr


def test_a_lack_of_memory_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)

    def without_memory(*_: Any, **__: Any) -> Any:
        raise arrow.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", without_memory)
    with pytest.raises(MemoryError):
        next(twofold.datasets.read(path))


def test_a_failed_read_names_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Error reading bytes from file")

    for reader in ("read_row_group", "__init__"):
        with monkeypatch.context() as patch:
            patch.setattr(parquet.ParquetFile, reader, broken)
            with pytest.raises(OSError, match="Error reading bytes") as caught:
                next(twofold.datasets.read(path))
        assert caught.value.filename == str(path)


def test_rewards_are_compared_bit_by_bit(tmp_path: Path) -> None:
    path = write(tmp_path)
    rewards = parquet.ParquetFile(path).read(["reward"]).column("reward").to_pylist()
    row = rewards.index(0.0)
    spoil(path, "reward", row, -0.0)
    with pytest.raises(errors.InvalidDataset, match=rf"row {row} .*: reward is -0\.0; .* has 0\.0"):
        twofold.datasets.verify(path, endpoint="embedded")


@pytest.mark.usefixtures("small_groups")
def test_missing_transitions_and_other_metadata_are_found(tmp_path: Path) -> None:
    path = write(tmp_path)
    file = parquet.ParquetFile(path)
    metadata = json.loads(file.metadata.metadata[b"twofold"])
    for change, groups, text in (
        ({"seed": 4}, range(file.num_row_groups), r"row 0 \(lane 0, time 0\): observation"),
        ({}, range(file.num_row_groups - 1), "its metadata says 300"),
        ({"environment": "CartPole-v1"}, (), "its environment is 'CartPole-v1'; expected twofold/"),
        ({"version": None}, (), "its version is None; this program reads version 1"),
        ({"version": "1"}, (), "its version is '1'; this program reads version 1"),
        ({"arguments": {"vectorization_mode": "async"}}, (), "environment: .*vectorization_mode"),
        ({"arguments": {"wrappers": ["a"]}}, (), "its environment: .*wrappers"),
        ({"arguments": {"render_mode": 5}}, (), "not a Twofold dataset"),
        ({"arguments": []}, (), "not a Twofold dataset"),
        ({"arguments": "a"}, (), "not a Twofold dataset"),
        ({"arguments": {"env": 1}}, (), "its environment: "),
        ({"arguments": {"endpoint": "tcp://a:1"}}, (), "not a Twofold dataset"),
        ({"policy": None}, (), "not a Twofold dataset"),
        ({"num_envs": 0}, (), "not a Twofold dataset"),
        ({"num_envs": 513}, (), "not a Twofold dataset"),
        ({"seed": -1}, (), "not a Twofold dataset"),
        ({"transitions": 3000.0}, (), "not a Twofold dataset"),
        ({"steps": True}, (), "not a Twofold dataset"),
        ({"steps": 0}, range(file.num_row_groups), r"it contains \d+ steps; its metadata says 0"),
        ({"note": math.nan}, (), "not a Twofold dataset"),
        ({"arguments": {"reward": "/etc/passwd"}}, (), "not a Twofold dataset"),
        ({"arguments": {"size": "abc"}}, (), "its environment: size is 'abc'"),
        ({"arguments": {"size": [4]}}, (), "its environment: size is"),
        ({"arguments": {"size": [2**40, 2**40]}}, (), "its environment: size is"),
        ({"arguments": {"size": {"a": 1}}}, (), "its environment: size is"),
    ):
        other = tmp_path / "other.parquet"
        with parquet.ParquetWriter(other, file.schema_arrow) as writer:
            for group in groups:
                writer.write_table(file.read_row_group(group))
            writer.add_key_value_metadata({b"twofold": json.dumps(metadata | change).encode()})
        with pytest.raises(errors.InvalidDataset, match=text):
            twofold.datasets.verify(other, endpoint="embedded")


def test_a_file_with_other_columns_is_not_replayed(tmp_path: Path) -> None:
    path = write(tmp_path)
    file = parquet.ParquetFile(path)
    table = file.read().drop_columns("truncated")
    with parquet.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"twofold": file.metadata.metadata[b"twofold"]})
    with pytest.raises(errors.InvalidDataset, match=r"its columns are \['lane', .* expected \["):
        twofold.datasets.verify(path, endpoint="embedded")


@pytest.mark.usefixtures("small_groups")
def test_progress_is_reported_after_each_row_group(tmp_path: Path) -> None:
    written: list[Any] = []
    verified: list[Any] = []
    path = write(tmp_path, transitions=3001, progress=lambda *counts: written.append(counts))
    twofold.datasets.verify(
        path, endpoint="embedded", progress=lambda *counts: verified.append(counts)
    )
    rows = np.cumsum([len(part["time"]) for part in twofold.datasets.read(path)])
    assert 3001 < rows[-1] < 3009
    assert written == [(min(count, 3001), 3001) for count in rows]  # as requested
    assert verified == [(count, rows[-1]) for count in rows]


def test_an_argument_that_the_file_can_not_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="the file can't record an argument: "):
        write(tmp_path, wrappers=[gym.Wrapper])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("service", "error"),
    [
        ({"timeout": 0}, errors.InvalidArgument),
        ({"endpoint": "ipc:///nowhere/s", "timeout": 0.1}, errors.DeadlineExceeded),
    ],
)
def test_a_verification_does_not_blame_the_file_for_the_service(
    service: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    path = write(tmp_path)
    with pytest.raises(error):
        twofold.datasets.verify(path, **service)


def test_a_verification_does_not_blame_the_file_for_its_other_arguments(tmp_path: Path) -> None:
    path = write(tmp_path)
    for name in ("size", "endpoints"):
        arguments: Any = {name: 4}
        with pytest.raises(TypeError, match=f"'{name}'.*; expected endpoint, keys or timeout"):
            twofold.datasets.verify(path, **arguments)
    with pytest.raises(errors.InvalidArgument, match="progress is 1; expected a function"):
        twofold.datasets.verify(path, progress=1)  # type: ignore[arg-type]


def test_a_file_without_a_version_is_not_a_dataset(tmp_path: Path) -> None:
    path = write(tmp_path)
    rewrite(path, version=None)
    with pytest.raises(errors.InvalidDataset, match="not a Twofold dataset"):
        next(twofold.datasets.read(path))


def test_a_damaged_name_of_a_column_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"truncated", b"truncate\xff"))
    with pytest.raises(errors.InvalidDataset, match="not a Parquet file, or incomplete"):
        next(twofold.datasets.read(path))


def test_a_dataset_can_not_name_a_module_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_a_file.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = write(tmp_path)
    rewrite(path, environment="named_by_a_file:twofold/Game2048-v0")
    with pytest.raises(errors.InvalidDataset, match="its environment is 'named_by_a_file:"):
        twofold.datasets.verify(path, endpoint="embedded")


def test_a_dataset_with_a_deeply_nested_reward_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    rewrite(path, arguments="HERE")
    file = parquet.ParquetFile(path)
    metadata = file.metadata.metadata[b"twofold"].decode()
    for depth in range(880, 1000):  # around Python's limit on recursion
        nested = '{"goal": ' * depth + "1" + "}" * depth
        other = tmp_path / "other.parquet"
        with parquet.ParquetWriter(other, file.schema_arrow) as writer:
            writer.write_table(file.read())
            text = metadata.replace('"HERE"', '{"reward": ' + nested + "}")
            writer.add_key_value_metadata({b"twofold": text.encode()})
        with pytest.raises(errors.InvalidDataset):
            list(twofold.datasets.read(other))


def test_text_of_a_dataset_does_not_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    rewrite(path, policy="\x1b]0;owned\x07p")
    assert cli.main(["verify", str(path)]) == 0
    assert "(?]0;owned?p on twofold/Game2048-v0" in capsys.readouterr().out
    for changes in (
        {"environment": "\x1b[31m"},
        {"arguments": {"\x1b[31m": 1}},
        {"version": "\x1b"},
    ):
        rewrite(path, **changes)
        assert cli.main(["verify", str(path)]) == 1
        assert capsys.readouterr().err[:-1].isprintable()


def test_steps_in_which_every_board_is_reset_are_written_without_a_row_group(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, transitions=168, max_episode_steps=10)
    file = parquet.ParquetFile(path)
    groups = range(file.num_row_groups)
    assert [file.metadata.row_group(group).num_rows for group in groups] == [160, 8]
    data = read(path)
    assert data["time"][data["lane"] == 0].tolist() == [*range(10), *range(11, 21), 22]
    metadata = twofold.datasets.verify(path, endpoint="embedded")
    assert (metadata["transitions"], metadata["steps"]) == (168, 23)


def test_an_empty_row_group_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path)
    file = parquet.ParquetFile(path)
    with parquet.ParquetWriter(tmp_path / "other", file.schema_arrow) as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.schema_arrow.empty_table())
            writer.write_table(file.read_row_group(group))
        writer.add_key_value_metadata({b"twofold": file.metadata.metadata[b"twofold"]})
    assert (read(tmp_path / "other")["time"] == read(path)["time"]).all()
    twofold.datasets.verify(tmp_path / "other", endpoint="embedded")


def test_a_row_group_larger_than_a_dataset_has_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path)
    file = parquet.ParquetFile(path)
    rows = file.read().slice(0, 1).take([0] * (file_format.GROUP_ROWS + 1))
    with parquet.ParquetWriter(tmp_path / "other", file.schema_arrow) as writer:
        writer.write_table(rows, row_group_size=file_format.GROUP_ROWS + 1)
        writer.add_key_value_metadata({b"twofold": file.metadata.metadata[b"twofold"]})
    with pytest.raises(errors.InvalidDataset, match="row group 0 has 262145 rows"):
        next(twofold.datasets.read(tmp_path / "other"))


def test_other_files_are_not_datasets(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(FileNotFoundError):
        twofold.datasets.verify(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.InvalidDataset, match="pipe: not a regular file"):
        twofold.datasets.verify(tmp_path / "pipe")
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(errors.InvalidDataset, match="not a Parquet file, or incomplete"):
        twofold.datasets.verify(path)
    for store_schema in (True, False):  # without it, the file has no metadata at all
        parquet.write_table(arrow.table({"a": [1]}), path, store_schema=store_schema)
        with pytest.raises(errors.InvalidDataset, match="not a Twofold dataset"):
            next(twofold.datasets.read(path))
    metadata = {file_format.METADATA_KEY: b"[" * 100_000}
    parquet.write_table(arrow.table({"a": [1]}).replace_schema_metadata(metadata), path)
    with pytest.raises(errors.InvalidDataset, match="not a Twofold dataset"):
        next(twofold.datasets.read(path))


@pytest.mark.parametrize("column", range(9))
def test_a_flipped_bit_in_any_column_is_found_without_a_replay(column: int, tmp_path: Path) -> None:
    path = write(tmp_path)
    place = parquet.ParquetFile(path).metadata.row_group(0).column(column)
    start = place.dictionary_page_offset or place.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + place.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.InvalidDataset, match=r"row group 0: .*CRC"):
        read(path)


def test_a_file_that_must_not_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: bytes) -> None:  # as for a user who isn't root
        raise PermissionError(13, f"Failed to open local file '{path.decode()}'")

    monkeypatch.setattr(arrow, "OSFile", refused)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(PermissionError, match=r"a\.parquet"):
        next(twofold.datasets.read(tmp_path / "a.parquet"))


def test_a_file_that_was_not_finished_does_not_appear(tmp_path: Path) -> None:
    def breaks(observations: Any, action_mask: Any) -> Any:
        if len(list(tmp_path.iterdir())) and observations.max() > 5:
            raise RuntimeError("enough")
        return action_mask.argmax(axis=1)

    path = tmp_path / "data.parquet"
    with pytest.raises(errors.PolicyError, match=r"call .*: raised RuntimeError: enough"):
        twofold.datasets.write(path, breaks, transitions=10**6, num_envs=4, endpoint="embedded")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_with_a_memory_learns_which_boards_begin_an_episode(tmp_path: Path) -> None:
    class Remembering:
        begun = 0

        def reset(self, lanes: Any) -> None:
            self.is_first = lanes | getattr(self, "is_first", lanes)
            self.begun += int(lanes.sum())

        def __call__(self, observations: Any, action_mask: Any) -> Any:
            # A first board has two tiles.
            is_first = (observations > 0).sum(axis=(1, 2)) == 2
            assert not (self.is_first & ~is_first).any()
            self.is_first[:] = False
            return action_mask.argmax(axis=1)

    policy = Remembering()
    path = write(tmp_path, policy=policy, size=2)
    ends = read(path)["terminated"].sum()
    assert ends <= policy.begun <= ends + 8
    twofold.datasets.verify(path, endpoint="embedded")


def test_an_illegal_action_is_reported_with_lane_and_step(tmp_path: Path) -> None:
    def worst(observations: Any, action_mask: Any) -> Any:
        return action_mask.argmin(axis=1)

    with pytest.raises(errors.PolicyError, match=r"in row \d \(lane \d, step \d+\)"):
        twofold.datasets.write(
            tmp_path / "a", worst, transitions=100, num_envs=8, seed=0, endpoint="embedded"
        )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"transitions": 0}, "transitions"),
        ({"transitions": 2**31 + 1, "num_envs": 1}, "transitions"),
        ({"num_envs": 0}, "num_envs"),
        ({"autoreset_mode": "disabled"}, "autoreset_mode"),
        ({"obs": "dict"}, "obs"),
        ({"policy": "clever"}, "policy"),
        ({"progress": 5}, "progress"),
        ({"executor": 5}, "executor"),
        ({"policy_timeout": 0}, "policy_timeout"),
        ({"policy_timeout": None}, "policy_timeout"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], field: str, tmp_path: Path) -> None:
    given = {"policy": "random", "transitions": 10, **arguments}
    with pytest.raises(errors.InvalidArgument) as info:
        twofold.datasets.write(tmp_path / "a", given.pop("policy"), **given)
    assert info.value.field == field


def test_an_unknown_argument_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("env", "vectorization_mode"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            write(tmp_path, **{name: "twofold/Game2048-v0"})
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_same_file_as_the_function(tmp_path: Path) -> None:
    file, same = tmp_path / "a", tmp_path / "b"
    words = "--transitions 90 --seed 5 --num-envs 3 --size 2x3 --goal 16 --max-episode-steps 9"
    assert cli.main(["write-dataset", "greedy", "--out", str(file), *words.split()]) == 0
    rules: dict[str, Any] = {"goal": 16, "max_episode_steps": 9, "size": (2, 3)}
    twofold.datasets.write(same, "greedy", transitions=90, seed=5, num_envs=3, **rules)
    assert file.read_bytes() == same.read_bytes()


def test_the_commands_write_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "data.parquet")
    command = [
        "write-dataset",
        "random",
        "--out",
        path,
        "--transitions",
        "2000",
        "--num-envs",
        "16",
    ]
    assert cli.main([*command, "--endpoint", "embedded", "--size", "3x4"]) == 0
    assert "transitions, " in capsys.readouterr().out
    assert cli.main(["verify", path, "--endpoint", "embedded"]) == 0
    assert "transitions are correct (random on twofold/Game2048-v0" in capsys.readouterr().out
    spoil(Path(path), "reward", 12, 3.0)
    assert cli.main(["verify", path, "--endpoint", "embedded"]) == 1
    assert "row 12 " in capsys.readouterr().err
