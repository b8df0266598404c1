"""Tests that Minari and Hugging Face's `datasets` read every exported transition."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twofold
from twofold import cli, errors
from twofold.datasets import file_format

minari: Any = pytest.importorskip("minari", reason="`make trainers` has it")
os.environ["HF_HUB_OFFLINE"] = "1"  # read when `datasets` is imported
parquet: Any = pytest.importorskip("pyarrow.parquet")
load_dataset: Any = pytest.importorskip("datasets").load_dataset

ID = "twofold/2048/random-v0"
GAMES: list[dict[str, Any]] = [
    {},
    {"size": (3, 4), "max_episode_steps": 40, "reward": {"merge_exponent": 0.1}},
    {"dialect": "pgx", "max_episode_steps": 25},
    {"goal": 32, "stop_at_goal": True, "copy": False},
]


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setattr(file_format, "GROUP_ROWS", 512)  # an episode spans several groups


def write(folder: Path, **arguments: Any) -> Path:
    def policy(observations: Any, action_mask: Any) -> Any:
        return (generator.random(action_mask.shape) * action_mask).argmax(axis=1)

    generator = np.random.default_rng(0)
    path = folder / "data.parquet"
    # The seeds wrap around at the end of their range.
    given = {"transitions": 3000, "num_envs": 8, "seed": 2**64 - 3, **arguments}
    twofold.datasets.write(path, policy, endpoint="embedded", **given)
    return path


def read(path: Path) -> dict[str, Any]:
    parts = list(twofold.datasets.read(path))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def export(path: Path) -> Any:
    details: Any = {"author": "A", "author_email": "a@b.c", "code_permalink": "https://b.c"}
    return twofold.datasets.to_minari(path, ID, **details)


def episodes_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the episodes of each lane in turn; unfinished episodes are truncated."""
    order = np.lexsort((data["time"], data["lane"]))
    data = {name: values[order] for name, values in data.items()}
    is_last = np.append(np.diff(data["lane"]) > 0, True)
    is_end = data["terminated"] | data["truncated"]
    data["truncated"] = data["truncated"] | (is_last & ~is_end)
    ends = np.flatnonzero(is_last | is_end) + 1
    split = {name: np.split(values, ends[:-1]) for name, values in data.items()}
    return [{name: split[name][i] for name in split} for i in range(len(ends))]


def as_bytes(*arrays: Any) -> tuple[bytes, ...]:
    return tuple(array.tobytes() for array in arrays)


@pytest.mark.parametrize("arguments", GAMES, ids=str)
def test_minari_has_every_episode_once(arguments: dict[str, Any], tmp_path: Path) -> None:
    data = read(path := write(tmp_path, **arguments))
    episodes = episodes_of(data)
    export(path)
    made = minari.load_dataset(ID)
    assert (made.total_steps, made.total_episodes) == (len(data["time"]), len(episodes))
    expected = Counter(
        as_bytes(
            *(each["observation"], each["next_observation"][-1:], each["action"].astype(np.int64)),
            *(each["reward"], each["terminated"], each["truncated"], each["action_mask"]),
        )
        for each in episodes
    )
    found = Counter(
        as_bytes(
            *(each.observations[:-1], each.observations[-1:], each.actions),
            *(each.rewards, each.terminations, each.truncations, each.infos["action_mask"][:-1]),
        )
        for each in made
    )
    assert found == expected
    for each in made:
        assert each.observations.dtype == np.uint8
        assert each.observations[0] in made.observation_space
        assert each.actions[0] in made.action_space
        assert (each.terminations | each.truncations)[-1]
        assert len(each.observations) == len(each.infos["action_mask"]) == len(each) + 1


@pytest.mark.parametrize("arguments", GAMES, ids=str)
def test_the_recovered_environment_replays_the_episodes_with_a_seed(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    made = export(write(tmp_path, **arguments))
    metadata = list(made.storage.get_episode_metadata(made.episode_indices))
    seeds = {each["seed"]: index for index, each in enumerate(metadata) if "seed" in each}
    assert seeds.keys() == {(2**64 - 3 + lane) % 2**64 for lane in range(8)}
    env = made.recover_environment()
    assert env.observation_space == made.observation_space
    ended = 0
    for seed, index in seeds.items():
        episode = made[index]
        observations, infos = env.reset(seed=seed)
        for step, action in enumerate(episode.actions):
            np.testing.assert_array_equal(observations, episode.observations[step])
            np.testing.assert_array_equal(infos["action_mask"], episode.infos["action_mask"][step])
            observations, reward, terminated, truncated, infos = env.step(action)
            assert np.float32(reward) == episode.rewards[step]
            assert terminated == episode.terminations[step]
            assert truncated == episode.truncations[step]
        np.testing.assert_array_equal(observations, episode.observations[-1])
        np.testing.assert_array_equal(infos["action_mask"], episode.infos["action_mask"][-1])
        ended += terminated | truncated
    assert ended == 8
    env.close()


def test_an_unfinished_episode_is_truncated_and_has_the_last_action_mask(tmp_path: Path) -> None:
    made = export(write(tmp_path, transitions=80))
    assert made.total_episodes == 8
    for each in made:
        assert each.truncations.tolist() == [False] * 9 + [True]
        assert not each.terminations.any()
        legal = twofold.rules.legal(each.observations)
        np.testing.assert_array_equal(each.infos["action_mask"], legal)


def test_the_metadata_names_the_policy_and_the_environment(tmp_path: Path) -> None:
    made = export(write(tmp_path, size=(3, 4), max_episode_steps=40))
    found = made.storage.metadata
    assert found["algorithm_name"] == "policy"
    assert (found["author"], found["author_email"]) == ({"A"}, {"a@b.c"})
    assert found["code_permalink"] == "https://b.c"
    assert f"8 lanes from seed {2**64 - 3}" in found["description"]
    assert found["requirements"] == [f"twofold>={twofold.__version__}"]
    spec = made.env_spec
    assert (spec.id, spec.max_episode_steps) == ("twofold/Game2048-v0", 40)
    assert spec.kwargs == {"size": [3, 4]}


@pytest.mark.parametrize("wrong", ["../a-v0", "a", "twofold/a", "t/a-v0", "a b-v0", ""])
def test_a_malformed_id_is_refused_and_makes_no_folder(wrong: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(errors.InvalidArgument, match="expected namespace/name-v0") as info:
        twofold.datasets.to_minari(path, wrong)
    assert info.value.field == "dataset_id"
    assert not list((tmp_path / "minari").rglob("*"))


def test_a_used_id_is_refused_and_its_dataset_stays(tmp_path: Path) -> None:
    total = len(export(path := write(tmp_path)))
    with pytest.raises(errors.InvalidArgument, match="already"):
        export(path)
    assert len(minari.load_dataset(ID)) == total


def test_an_export_that_fails_leaves_no_dataset(tmp_path: Path) -> None:
    path = write(tmp_path)

    def fails(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        twofold.datasets.to_minari(path, ID, progress=fails)
    with pytest.raises(FileNotFoundError):
        minari.load_dataset(ID)
    assert len(export(path)) > 8


@pytest.mark.filterwarnings("ignore:Misconfigured dataset named twofold/2048/part-")
def test_an_export_that_is_killed_leaves_no_dataset(tmp_path: Path) -> None:
    path = write(tmp_path)
    program = (
        "import os, sys, twofold\n"
        "kill = lambda done, total: os.kill(os.getpid(), 9)\n"
        "twofold.datasets.to_minari(*sys.argv[1:], progress=kill)\n"
    )
    found = subprocess.run([sys.executable, "-c", program, str(path), ID], check=False)
    assert found.returncode == -signal.SIGKILL
    assert minari.list_local_datasets() == {}
    total = len(export(path))
    assert list(minari.list_local_datasets()) == [ID]
    assert len(minari.load_dataset(ID)) == total > 8


def test_the_first_of_two_exports_with_one_id_wins(tmp_path: Path) -> None:
    def export_again(done: int, total: int) -> None:
        if done == total:
            made.append(export(path))

    made: list[Any] = []
    path = write(tmp_path)
    with pytest.raises(errors.InvalidArgument, match="already") as info:
        twofold.datasets.to_minari(path, ID, progress=export_again)
    assert info.value.field == "dataset_id"
    assert minari.load_dataset(ID).total_steps == made[0].total_steps >= 3000
    assert [each.name for each in (tmp_path / "minari/twofold/2048").glob("*v0")] == ["random-v0"]


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "CartPole-v1"},
        {"arguments": {"vectorization_mode": "async"}},
        {"arguments": {"goal": 3}},
    ],
)
def test_an_environment_that_cannot_be_made_is_reported(
    change: dict[str, Any], tmp_path: Path
) -> None:
    file = parquet.ParquetFile(write(tmp_path))
    metadata = json.loads(file.metadata.metadata[b"twofold"]) | change
    other = tmp_path / "other.parquet"
    with parquet.ParquetWriter(other, file.schema_arrow) as writer:
        writer.write_table(file.read())
        writer.add_key_value_metadata({b"twofold": json.dumps(metadata).encode()})
    with pytest.raises(errors.InvalidDataset, match=r"other\.parquet: its environment"):
        export(other)
    assert not list((tmp_path / "minari").rglob("*v0"))


@pytest.mark.parametrize("arguments", GAMES, ids=str)
def test_hugging_face_reads_every_transition(arguments: dict[str, Any], tmp_path: Path) -> None:
    data = read(path := write(tmp_path, **arguments))
    twofold.datasets.to_huggingface(path, tmp_path / "folder")
    loaded = load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))["train"]
    assert loaded.column_names == list(data)
    rows = loaded.with_format("numpy")
    assert rows[0]["observation"].shape == arguments.get("size", (4, 4))
    assert loaded.features["observation"].shape == arguments.get("size", (4, 4))
    assert loaded.features["observation"].dtype == "uint8"
    for name, values in rows[:].items():
        np.testing.assert_array_equal(values, data[name], err_msg=name)


def test_hugging_face_reads_the_files_that_replaced_others(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for seed in (0, 1):
        data = read(path := write(tmp_path, seed=seed))
        shutil.rmtree(folder, ignore_errors=True)
        twofold.datasets.to_huggingface(path, folder)
        loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))["train"]
        observations = loaded.with_format("numpy")["observation"][:]
        np.testing.assert_array_equal(observations, data["observation"])


@pytest.mark.filterwarnings("error")
def test_the_command_exports_to_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path))
    assert cli.main(["export", path, "--minari", ID]) == 0
    assert f"exported to {tmp_path}/minari/{ID}/data: " in capsys.readouterr().out
    assert cli.main(["export", path, "--minari", ID]) == cli.WRONG_USAGE
    folder = str(tmp_path / "folder")
    assert cli.main(["export", path, "--huggingface", folder]) == 0
    assert f"exported to {folder}: " in capsys.readouterr().out
