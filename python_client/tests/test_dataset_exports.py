"""The dataset exports that require only pyarrow; tests/trainers tests the others."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import twofold
from twofold import errors
from twofold.datasets import file_format, minari
from twofold.datasets.reader import DatasetFile

parquet: Any = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_format, "GROUP_ROWS", 512)
    path = tmp_path / "data.parquet"
    arguments: Any = {"size": (2, 3), "dialect": None, "endpoint": "embedded"}
    twofold.datasets.write(path, "random", transitions=2500, num_envs=8, seed=3, **arguments)
    return path


def flip(path: Path, group: int) -> None:
    """Flips a bit of a row group."""
    content = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(group).column(2)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)


def test_a_minari_export_keeps_few_parts_of_each_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_format, "GROUP_ROWS", 8)
    path = tmp_path / "data.parquet"
    twofold.datasets.write(path, "random", transitions=2400, num_envs=4, endpoint="embedded")
    episodes: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(minari, "_episodes", lambda _, ended: episodes.extend(ended))
    list(minari._buffers(DatasetFile(path), None))
    assert max(map(len, episodes)) <= 8, "about the logarithm of the number of row groups"
    whole = [minari._join(parts) for parts in episodes]
    assert max(len(each["reward"]) for each in whole) > 100
    read = list(twofold.datasets.read(path))
    for name in ("observation", "reward"):
        column, lanes = (np.concatenate([each[key] for each in read]) for key in (name, "lane"))
        for lane in range(4):
            own = [each for each in whole if each["lane"][0] == lane]
            own.sort(key=lambda each: int(each["time"][0]))
            np.testing.assert_array_equal(
                np.concatenate([each[name] for each in own]), column[lanes == lane]
            )


def test_each_row_group_is_in_the_file_as_lists(path: Path, tmp_path: Path) -> None:
    file = twofold.datasets.to_huggingface(path, tmp_path / "folder")
    assert list((tmp_path / "folder").rglob("*.parquet")) == [file]
    assert file.name == "train-00000-of-00001.parquet"
    assert parquet.ParquetFile(path).num_row_groups == 7
    assert parquet.ParquetFile(file).num_row_groups == 7
    table = parquet.read_table(file)
    for name in table.column_names:
        own = np.concatenate([part[name] for part in twofold.datasets.read(path)])
        np.testing.assert_array_equal(table.column(name).to_pylist(), own, err_msg=name)


def test_a_flipped_bit_in_an_exported_file_is_found(path: Path, tmp_path: Path) -> None:
    file = twofold.datasets.to_huggingface(path, tmp_path / "folder")
    flip(file, 1)
    read = parquet.ParquetFile(file, page_checksum_verification=True).read_row_group
    read(0)
    with pytest.raises(OSError, match="CRC"):
        read(1)


def test_the_card_names_the_file_the_columns_and_the_seed(path: Path, tmp_path: Path) -> None:
    file = twofold.datasets.to_huggingface(path, tmp_path / "folder")
    _, head, text = (tmp_path / "folder/README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(head)
    assert "configs" not in card, "the library would not notice that the files have changed"
    features = {each.pop("name"): each for each in card["dataset_info"]["features"]}
    assert list(features) == parquet.read_schema(file).names
    assert features["observation"] == {"dtype": {"array2_d": {"shape": [2, 3], "dtype": "uint8"}}}
    assert features["action_mask"] == {"sequence": "int8", "length": 4}
    assert features["reward"] == {"dtype": "float32"}
    assert '"seed": 3,' in text
    assert "0 up, 1 right, 2 down, 3 left" in text


def test_the_card_has_the_order_of_actions_of_a_dialect(tmp_path: Path) -> None:
    arguments: Any = {"dialect": "pgx", "endpoint": "embedded"}
    path = tmp_path / "data.parquet"
    twofold.datasets.write(path, "random", transitions=10, num_envs=8, **arguments)
    twofold.datasets.to_huggingface(path, tmp_path / "folder")
    assert "0 left, 1 up, 2 right, 3 down" in (tmp_path / "folder/README.md").read_text()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\N{GAME DIE}.py", "\N{GAME DIE}.py"),
        ('a "quoted" \\u00e9', 'a "quoted" \\u00e9'),
        ("\u00e9\udcff\u2028\x85\x7f\ufffe\n---", "\u00e9??????---"),
    ],
    ids=ascii,
)
def test_the_card_has_the_name_of_any_policy(tmp_path: Path, name: str, shown: str) -> None:
    def policy(_: Any, mask: Any) -> Any:
        return mask.argmax(1)

    policy.__name__ = name
    path = tmp_path / "data.parquet"
    arguments: Any = {"endpoint": "embedded"}
    twofold.datasets.write(path, policy, transitions=10, num_envs=8, **arguments)
    twofold.datasets.to_huggingface(path, tmp_path / "folder")
    card = (tmp_path / "folder/README.md").read_text("utf-8")
    _, head, text = card.split("---\n", 2)
    assert yaml.safe_load(head)["pretty_name"] == f"2048 by {shown}"
    assert text.startswith(f"\n# 2048 by {shown}\n")
    assert f"the policy `{shown}` on" in text


def test_a_folder_that_exists_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="exists already") as info:
        twofold.datasets.to_huggingface(path, tmp_path)
    assert info.value.field == "folder"


def test_a_damaged_file_leaves_no_folder(path: Path, tmp_path: Path) -> None:
    flip(path, 3)
    with pytest.raises(errors.InvalidDataset, match="row group 3"):
        twofold.datasets.to_huggingface(path, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_of_two_exports_to_a_folder_wins(path: Path, tmp_path: Path) -> None:
    def export_again(done: int, total: int) -> None:
        if done == total:
            files.append(twofold.datasets.to_huggingface(path, tmp_path / "folder"))

    files: list[Path] = []
    with pytest.raises(errors.InvalidArgument, match="exists already") as info:
        twofold.datasets.to_huggingface(path, tmp_path / "folder", progress=export_again)
    assert info.value.field == "folder"
    assert files == list((tmp_path / "folder").rglob("*.parquet"))
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "folder"]


@pytest.mark.parametrize("package", ["minari", "h5py"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.MissingDependency, match=r"pip install 'twofold\[minari\]'"):
        twofold.datasets.to_minari(path, "twofold/random-v0")
