"""Networks from other programs: files that the tests write in their formats, and a real file."""

import json
import os
import struct
import tracemalloc
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twofold
from twofold import cli, errors, policies, rules

LINE, SQUARE, DIAGONAL, AXE = (0, 1, 2, 3), (5, 6, 9, 10), (0, 5, 10), (0, 1, 2, 4, 5, 6)
EXPONENTS = 5
IDENTITY, STANDARD = struct.pack(">i", 840142292), struct.pack(">ii", 121345704, 4)
DOWNLOADED = Path(__file__).resolve().parents[2] / ".build/published/best_standard_network.bin"


def some_tables(*tuples: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(0, 30, EXPONENTS ** len(cells)) for cells in tuples]


def java_tuple(cells: tuple[int, ...], table: Any, exponents: int = EXPONENTS) -> bytes:
    # A board has a margin of one cell, so each row has six places.
    places = [(cell // 4 + 1) * 6 + cell % 4 + 1 for cell in cells]
    head = struct.pack(f">iiii{len(places)}i", 570718399, exponents, 14, len(places), *places)
    return head + struct.pack(f">ii{len(table)}d", 1234, len(table), *table)


def java_file(*parts: bytes, expander: bytes = IDENTITY) -> bytes:
    head = struct.pack(">iii", 796418617, 123499, len(parts))
    return zlib.compress(head + b"".join(parts) + expander)


def java_value(board: Any, tuples: Any, tables: Any, is_expanded: bool) -> float:
    """Returns V as the Java program computes it."""
    value = 0.0
    for cells, table in zip(tuples, tables, strict=True):
        seen: list[list[tuple[int, int]]] = []
        for image in range(8 if is_expanded else 1):
            corners = []
            for cell in cells:
                row, column = divmod(cell, 4)
                if image & 4:
                    row, column = column, row
                corners.append((3 - row if image & 2 else row, 3 - column if image & 1 else column))
            if any(sorted(corners) == sorted(before) for before in seen):
                continue
            seen.append(corners)
            address = 0
            for row, column in corners:
                address = address * EXPONENTS + int(board[row, column])
            value += table[address]
    return value


def expect_the_same_actions(network: policies.NTuple, tuples: Any, tables: Any, all8: bool) -> None:
    """Checks that a network chooses the Java program's actions on many boards."""
    boards = np.random.default_rng(4).integers(0, EXPONENTS, (400, 4, 4), dtype=np.uint8)
    boards = boards[rules.legal(boards).any(axis=1)]
    assert len(boards) > 300
    envs = twofold.Game2048VectorEnv(len(boards))
    envs.reset(seed=1, options={"boards": boards})
    chosen = envs.rollout(1, network).actions[0]
    envs.close()
    after = rules.afterstates(boards)
    # Merges may exceed the table. The program's behaviour is then undefined; Twofold caps tiles.
    capped = np.minimum(after.boards, EXPONENTS - 1)
    for lane, mask in enumerate(after.mask):
        worth = {
            action: after.rewards[lane, action]
            + java_value(capped[lane, action], tuples, tables, all8)
            for action in np.flatnonzero(mask)
        }
        # Mirrored afterstates have the same value, except for rounding.
        assert worth[chosen[lane]] == pytest.approx(max(worth.values()), abs=1e-3)


@pytest.mark.parametrize("is_expanded", [False, True])
@pytest.mark.parametrize(
    "tuples", [[LINE], [(7, 2, 5, 8)], [AXE, (4, 5, 6, 7, 8, 9)], [LINE, SQUARE, DIAGONAL, AXE]]
)
def test_a_network_of_the_java_program_chooses_its_actions(
    tmp_path: Path, tuples: list[tuple[int, ...]], is_expanded: bool
) -> None:
    tables = some_tables(*tuples)
    path = tmp_path / "network.bin"
    parts = [java_tuple(*each) for each in zip(tuples, tables, strict=True)]
    path.write_bytes(java_file(*parts, expander=STANDARD if is_expanded else IDENTITY))
    network = policies.read_network(path)
    assert network.exponents == EXPONENTS
    expect_the_same_actions(network, tuples, tables, is_expanded)


def test_tables_are_shared_if_all_tuples_have_eight_images(tmp_path: Path) -> None:
    path = tmp_path / "network.bin"
    cases: Any = [([AXE], True, 1), ([AXE, LINE], False, 12), ([LINE], False, 4)]
    for tuples, symmetric, count in cases:
        parts = [java_tuple(*each) for each in zip(tuples, some_tables(*tuples), strict=True)]
        path.write_bytes(java_file(*parts, expander=STANDARD))
        network = policies.read_network(path)
        assert network.symmetric == symmetric
        assert len(network.tuples) == count


def demo_file(tuples: Any, tables: Any) -> bytes:
    data = struct.pack("<Q", len(tuples))
    for cells, table in zip(tuples, tables, strict=True):
        name = f"{len(cells)}-tuple pattern {''.join(f'{cell:x}' for cell in cells)}".encode()
        data += struct.pack(f"<i{len(name)}sQ", len(name), name, len(table)) + table.tobytes()
    return data


def test_a_network_of_tdl2048_demo_keeps_its_tables(tmp_path: Path) -> None:
    tuples = [(0, 1, 2, 3), (10, 11, 15)]
    rng = np.random.default_rng(5)
    tables = [rng.random(16 ** len(cells), np.float32) for cells in tuples]
    path = tmp_path / "2048.bin"
    path.write_bytes(demo_file(tuples, tables))
    network = policies.read_network(path)
    assert network.tuples == tuple(tuples)
    assert (network.exponents, network.symmetric) == (16, True)
    for table, read in zip(tables, network.weights, strict=True):
        np.testing.assert_array_equal(table, read)


def test_a_network_of_120_tuples_is_not_mistaken_for_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "2048.bin"
    path.write_bytes(demo_file([(0,)] * 120, [np.zeros(16, np.float32)] * 120))
    assert len(policies.read_network(path).tuples) == 120


GOOD = java_tuple((0, 1), [0.5] * 25)
TABLE = np.zeros(16, np.float32)


@pytest.mark.parametrize(
    ("data", "lane", "message"),
    [
        (b"", None, "ends at byte 0"),
        (b"nonsense, nonsense", None, "instead of 1 ... 256"),
        (b"\x78\x9cnonsense", None, "zlib|decompress|header"),
        (java_file(GOOD)[:-3], None, "incomplete"),
        (zlib.compress(b"\0" * 40), None, "instead of 796418617"),
        (zlib.compress(zlib.decompress(java_file(GOOD, GOOD))[:300]), 1, "ends at byte 300"),
        (java_file(GOOD, expander=b""), None, "inside a value"),
        (java_file(GOOD, expander=b"\0\0\0\1"), None, "symmetry type is 1"),
        (java_file(GOOD, expander=struct.pack(">ii", 121345704, 5)), None, "5 instead of 4"),
        (java_file(GOOD, expander=IDENTITY + b"more"), None, "extra bytes follow the network"),
        (java_file(GOOD) + b"x", None, "extra bytes follow its compressed data"),
        (java_file(GOOD) * 2, None, "extra bytes follow its compressed data"),
        (java_file(), None, "0 instead of 1 ... 256"),
        (java_file(GOOD, java_tuple((0, 1), [0.5] * 36, 6)), 1, "6 instead of 5"),
        (java_file(GOOD, java_tuple((0, 1), [0.5] * 24)), 1, "24 instead of 25"),
        (java_file(GOOD, java_tuple((0, 0), [0.5] * 25)), 1, "not all different"),
        (java_file(GOOD, java_tuple((0, -5), [0.5] * 25)), 1, "place -2 is not a cell"),
        (java_file(GOOD, java_tuple((0, 1), [1e39] * 25)), 1, "not a finite float32"),
        (demo_file([(3,)], [TABLE])[:-1], 0, "ends at byte"),
        (demo_file([(3,)], [TABLE]) + b"x", None, "extra bytes follow the network"),
        (demo_file([(3,), (4,)], [TABLE, TABLE + np.nan]), 1, "not a finite"),
        (demo_file([(3,), (4,)], [TABLE, TABLE]).replace(b"1-tuple", b"2-tuple"), 0, "its name"),
        (demo_file([(3,), (4,)], [TABLE, TABLE[:8]]), 1, "8 instead of 16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_file_is_refused_with_its_fault(
    tmp_path: Path, data: bytes, lane: int | None, message: str
) -> None:
    path = tmp_path / "network.bin"
    path.write_bytes(data)
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        policies.read_network(path)
    assert (caught.value.field, caught.value.lane) == ("path", lane)
    assert "network.bin" in str(caught.value)


def test_a_pipe_is_no_network_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.InvalidArgument, match="pipe is not a regular file") as caught:
        policies.read_network(tmp_path / "pipe")
    assert caught.value.field == "path"


def test_every_shortened_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.bin"
    for whole in (zlib.decompress(java_file(GOOD)), demo_file([(3,), (4,)], [TABLE, TABLE])):
        for size in range(len(whole)):
            path.write_bytes(zlib.compress(whole[:size]) if whole[0] else whole[:size])
            with pytest.raises(errors.InvalidArgument):
                policies.read_network(path)


def test_a_file_without_end_is_refused_with_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "network.bin"
    path.write_bytes(zlib.compress(bytes(1 << 26)))
    tracemalloc.start()
    with pytest.raises(errors.InvalidArgument, match=r"network.* more than 64 times as large"):
        policies.read_network(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24


def test_a_small_file_with_large_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.bin"
    path.write_bytes(java_file(GOOD, java_tuple((0, 1, 2, 3, 4, 5, 6), [0.0] * EXPONENTS**7)))
    with pytest.raises(errors.InvalidArgument, match="more than 64 times as large") as caught:
        policies.read_network(path)
    assert caught.value.field == "path"
    path.write_bytes(zlib.compress(zlib.decompress(path.read_bytes()), level=0))
    assert len(policies.read_network(path).tuples) == 2


def test_a_converted_network_is_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A weight of 2^exponent in the corner keeps the largest tile there.
    tuples = [tuple(pair) for pair in pairwise((0, 1, 2, 3))]
    tables = [[100.0 * (1 << high) + (1 << low) for high in range(5) for low in range(5)]] * 3
    (tmp_path / "a.bin").write_bytes(
        java_file(*[java_tuple(*each) for each in zip(tuples, tables, strict=True)])
    )
    command = ["convert-weights", str(tmp_path / "a.bin"), str(tmp_path / "a.npz"), "--json"]
    assert cli.main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["tuples"], document["exponents"], document["weights"]) == (3, 5, 75)
    assert document["bytes"] == (tmp_path / "a.npz").stat().st_size
    made, read = policies.NTuple.load(tmp_path / "a.npz"), policies.read_network(tmp_path / "a.bin")
    assert made.tuples == read.tuples == ((1, 0), (2, 1), (3, 2))
    assert cli.main(["evaluate", f"ntuple:{tmp_path / 'a.npz'}", "--episodes", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 20


def test_the_best_standard_network_of_szubert_and_jaskowski_scores_as_published(
    tmp_path: Path,
) -> None:
    path = Path(os.environ.get("TWOFOLD_PUBLISHED_NETWORK", DOWNLOADED))
    if not path.exists():
        pytest.skip(f"best_standard_network.bin is not at {path}; `make published` fetches it")
    network = policies.read_network(path)
    assert (len(network.tuples), network.exponents, network.symmetric) == (17, 14, False)
    result = twofold.evaluate(network, episodes=1000)
    # An independent evaluation: 51,577, and 2048 in 91.25 %. Standard deviation of a game: 19,700.
    assert abs(result.scores.mean() - 51_577) < 4 * 19_700 / 1000**0.5
    share = result.summary["reached"][2048]["share"]
    assert abs(share - 0.9125) < 4 * (0.9125 * 0.0875 / 1000) ** 0.5
