"""The benchmarks of learners and of published networks, with whichever programs are available."""

import hashlib
import importlib
import json
import os
import re
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "training")]
downloads: Any = importlib.import_module("downloads")
compare: Any = importlib.import_module("compare")
publish: Any = importlib.import_module("publish")
published: Any = importlib.import_module("published")
score_per_second: Any = importlib.import_module("score_per_second")
tables: Any = importlib.import_module("tables")

# The parts of TDL2048-Demo's classes that tdl_demo.cpp uses. A game has ten moves, and a network's
# file contains the number of games that it has learnt from.
DEMO = """
#include <fstream>
#include <string>
#include <vector>
struct board { int moves = 0; void init() { moves = 0; } void popup() { ++moves; } };
struct move {
    board before;
    bool is_valid() const { return before.moves < 10; }
    board afterstate() const { return before; }
};
struct pattern { pattern(std::vector<int> cells) {} };
struct learning {
    int games = 0;
    void add_feature(pattern&& added) {}
    move select_best_move(const board& state) { move best; best.before = state; return best; }
    void learn_from_episode(std::vector<move>& path, float alpha) {
        if (path.size() == 11 && !path.back().is_valid() && path[9].is_valid()) ++games;
        path.clear();
    }
    void save(const std::string& path) { std::ofstream(path) << games; }
};
int main(int argc, const char* argv[]) { return 3; }
"""


# Plays one unit of games per thread, as TDL2048 does; a game has 100 moves and takes 5 ms, and 4 ms
# in the second thread. The summary has the mean of the threads' times, as TDL2048's. The network
# counts the games of a thread in one weight of each tuple, 012 and 5a.
TDL2048 = """
import os, struct, sys
words = sys.argv[1:]
assert words[:6] == ["-n", "4x6patt", "-a", "1.0", "-p", os.environ["WANTED_THREADS"]], words
option, file = words[-2:]
threads, games = map(int, words[words.index("-t") + 1].split("x"))
assert (words[-3], threads) == ("info", int(words[5]))
with open("calls.txt", "a") as calls:
    calls.write(f"{words[7]} {games} {option}\\n")
print(f"001/001 {4 * games}ms 25000.00ops [1]")
print(f"001/001 {5 * games}ms 20000.00ops [0]")
print(f"summary {4.5 * games:.0f}ms 44444.44ops (2x)")
if option == "-io":
    with open(file, "rb") as network:
        network.seek(5 + 9 + 10 + 4 * 7)
        games += int(struct.unpack("<f", network.read(4))[0])
with open(file, "wb") as network:
    network.write(struct.pack("<BI", 0, 2))
    for cells, size in [(0x012, 3), (0x5A, 2)]:
        weights = [0.0] * 16**size
        weights[7] = float(games)
        network.write(struct.pack("<BIHH", 4, cells, size, 0))
        network.write(struct.pack(f"<HQ{16**size}f", 4, 16**size, *weights))
        network.write(struct.pack("<HQ", 4, 2 * 16**size) + bytes(8 * 16**size))
        network.write(struct.pack("<H", 0))
"""


def options(out: Path, *words: str, cores: int = 1) -> Any:
    parsed = score_per_second.parse(["--out", str(out), *words])
    parsed.cores = cores
    return parsed


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the repository, of which only .build is used, with an empty folder."""
    monkeypatch.setattr(downloads, "REPOSITORY", tmp_path)
    monkeypatch.setattr(score_per_second, "REPOSITORY", tmp_path)
    return tmp_path / ".build"


# ---- downloads -----------------------------------------------------------------------------------


def test_a_file_is_fetched_once_and_verified(tmp_path: Path, build: Path) -> None:
    source = tmp_path / "network.bin"
    source.write_bytes(b"weights")
    right = hashlib.sha256(b"weights").hexdigest()
    download = downloads.Download(source.as_uri(), right, "networks")
    assert download.fetch() == build / "networks" / "network.bin"
    source.unlink()
    assert download.fetch().read_bytes() == b"weights"
    download.fetch().write_bytes(b"other weights")
    with pytest.raises(downloads.Unavailable, match=f"expected {right}"):
        download.fetch()


def test_a_file_with_another_digest_is_not_kept(tmp_path: Path, build: Path) -> None:
    (tmp_path / "network.bin").write_bytes(b"other weights")
    uri = (tmp_path / "network.bin").as_uri()
    with pytest.raises(downloads.Unavailable, match=r"network\.bin has the SHA-256 digest"):
        downloads.Download(uri, "0" * 64, "networks").fetch()
    assert not list(build.rglob("*"))


def test_a_published_network_is_evaluated_or_skipped_and_listed(
    tmp_path: Path, build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = b"2-tuple pattern 03"
    data = struct.pack(f"<Qi{len(name)}sQ256f", 1, len(name), name, 256, *range(256))
    (tmp_path / "small.bin").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    good = downloads.Download((tmp_path / "small.bin").as_uri(), digest, "published")
    gone = downloads.Download((tmp_path / "gone.bin").as_uri(), digest, "published")
    networks = [published.Network("good", "Good", good), published.Network("gone", "Gone", gone)]
    monkeypatch.setattr(published, "NETWORKS", networks)
    published.main(["--games", "30", "--out", str(tmp_path / "out")])
    shown = capsys.readouterr()
    assert shown.out.startswith("| network | games | mean score | 2048 | 4096 | 8192 |\n")
    assert shown.out.count("\n") == 3
    assert "| Good | 30 | " in shown.out
    assert "skipped gone: file://" in shown.err
    assert json.loads((tmp_path / "out" / "good.json").read_text())["episodes"] == 30


# ---- score per second ----------------------------------------------------------------------------


SMALL_TUPLES = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (5, 6, 9, 10))


@pytest.fixture
def _small_networks(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Makes the n-tuple learners train 4-tuples, whose agents are 256 times smaller."""
    example, run = score_per_second.EXAMPLES / "train_ntuple.py", score_per_second.run
    program, found = re.subn(r"(?m)^TUPLES = .*", f"TUPLES = {SMALL_TUPLES}", example.read_text())
    assert found == 1
    examples = tmp_path_factory.mktemp("examples")
    (examples / example.name).write_text(program)
    patterns = ["--patterns", *(",".join(map(str, cells)) for cells in SMALL_TUPLES)]

    def run_small(words: list[Any], out: Path) -> str:
        return str(run([*words, *patterns] if "twofold" in words else words, out))

    monkeypatch.setattr(score_per_second, "EXAMPLES", examples)
    monkeypatch.setattr(score_per_second, "run", run_small)


@pytest.mark.usefixtures("_small_networks")
@pytest.mark.parametrize("learner", ["train", pytest.param("ntuple", marks=pytest.mark.long)])
def test_an_ntuple_learner_is_measured_at_each_time_of_one_run(
    learner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    affinity = os.sched_getaffinity(0)
    words = ["--only", learner, "--minutes", "0.001", "0.02", "--games", "40"]
    score_per_second.main([*words, "--out", str(tmp_path), "--cores", "1"])
    assert os.sched_getaffinity(0) == affinity
    first = capsys.readouterr().out
    assert "| moves/s with learning | after 0.001 min | after 0.02 min |" in first
    result = json.loads((tmp_path / f"{learner}-1-1" / "result.json").read_text())
    assert result["cores"] == 1
    assert 0 < result["cores_used"] < 1.1
    early, late = result["points"]
    assert 0.06 <= early["seconds"] < late["seconds"]
    assert late["seconds"] >= 1.2
    assert 0 < early["moves"] < late["moves"]
    assert early["evaluation"]["episodes"] == late["evaluation"]["episodes"] == 40
    assert not list(tmp_path.rglob("*.npz"))
    # Existing results are printed, and not computed again.
    score_per_second.main(["--report", "--out", str(tmp_path), "--cores", "2", "1"])
    assert capsys.readouterr().out == first


def test_a_failed_evaluation_keeps_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(options: Any, out: Path) -> list[dict[str, Any]]:
        trained.append(out)
        return [{"file": "agent.npz", "seconds": 60.0, "moves": 600}]

    for python in (Path(sys.executable), Path("/bin/false")):
        learner = score_per_second.Learner("a", "A", "greedy", "train_ntuple", train, python=python)
        with pytest.raises(score_per_second.Unavailable, match=r"errors\.txt"):
            score_per_second.measure(learner, options(tmp_path, "--minutes", "1"), tmp_path / "a")
    assert trained == [tmp_path / "a"]
    assert "FileNotFoundError" in (tmp_path / "a" / "errors.txt").read_text()


def test_unavailable_learners_are_skipped_by_name(
    tmp_path: Path, build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(score_per_second, "TORCH", tmp_path / "nowhere" / "python")
    gone = downloads.Download((tmp_path / "2048.cpp").as_uri(), "0" * 64, "tdl2048-demo")
    monkeypatch.setattr(score_per_second, "TDL_DEMO", gone)
    missing = {
        "ppo": "is missing",
        "dqn": "is missing",
        "tdl-demo": "fetched",
        "tdl2048": "its source is needed",
    }
    score_per_second.main(["--only", *missing, "--out", str(tmp_path / "out")])
    shown = capsys.readouterr()
    assert shown.out == "no results yet\n"
    for name, reason in missing.items():
        [line] = [one for one in shown.err.splitlines() if one.startswith(f"skipped {name}: ")]
        assert reason in line
    (tmp_path / "2048.cpp").write_text("this is not C++")
    words = ["--only", "tdl-demo", "--tdl-demo", str(tmp_path / "2048.cpp")]
    score_per_second.main([*words, "--out", str(tmp_path / "out")])
    assert "skipped tdl-demo: " in capsys.readouterr().err


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs C++")
def test_the_demos_main_saves_the_network_at_each_time(tmp_path: Path, build: Path) -> None:
    (tmp_path / "2048.cpp").write_text(DEMO)
    words = ["--tdl-demo", str(tmp_path / "2048.cpp"), "--minutes", "0.001", "0.002"]
    saved = score_per_second.train_tdl_demo(options(tmp_path, *words), tmp_path)
    assert [one["file"] for one in saved] == ["agent-0.06.bin", "agent-0.12.bin"]
    assert saved[0]["seconds"] >= 0.06
    assert saved[1]["seconds"] >= 0.12
    assert saved[0]["games"] < saved[1]["games"]
    for one in saved:
        assert one["moves"] == 10 * one["games"] > 0
        assert int((tmp_path / one["file"]).read_text()) == one["games"]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_tdl2048_plays_rounds_of_games_until_each_time(
    tmp_path: Path, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "program.py").write_text(f"#!{sys.executable}\n{TDL2048}")
    (source / "makefile").write_text("default:\n\tinstall program.py $(OUTPUT)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANTED_THREADS", "2")
    words = ["--tdl2048", str(source), "--minutes", "0.05", "0.1", "--games", "5"]
    saved = score_per_second.train_tdl2048(options(tmp_path, *words, cores=2), tmp_path)
    calls = [line.split() for line in (tmp_path / "calls.txt").read_text().splitlines()]
    # At first it expects ten milliseconds for a game, then five, as measured.
    assert calls[:3] == [["1001", "150", "-o"], ["1002", "225", "-io"], ["1003", "113", "-io"]]
    assert {option for _, _, option in calls[1:]} == {"-io"}
    assert [one["file"] for one in saved] == ["agent-3.w", "agent-6.w"]
    for one, wanted in zip(saved, [3, 6], strict=True):
        assert 0.99 * wanted <= one["seconds"] <= wanted
        assert one["moves"] == pytest.approx(40_000 * one["seconds"])
    assert not (tmp_path / "agent.w").exists()
    network = importlib.import_module("greedy").tdl2048(tmp_path / "agent-6.w")
    assert [list(cells) for cells in network.tuples] == [[0, 1, 2], [5, 10]]
    games = sum(int(games) for _, games, _ in calls)
    assert [weights[7] for weights in network.weights] == [games, games]
    assert saved[1]["seconds"] == pytest.approx(0.005 * games)
    with pytest.raises(score_per_second.Unavailable, match="--tdl2048 names the folder"):
        score_per_second.train_tdl2048(options(tmp_path), tmp_path)


def test_the_table_omits_missing_measurements() -> None:
    def result(minutes: list[float], **others: Any) -> dict[str, Any]:
        score = {"mean": 1000.0, "mean_interval": [900.0, 1100.0]}
        points = [
            {"seconds": 60 * at, "moves": int(at * 6000), "evaluation": {"score": score}}
            for at in minutes
        ]
        about = {"machine": {"processor": "Abacus"}}
        used = {"machine": about, "cores_used": 0.95}
        return {**used, "minutes": minutes, "points": points, **others}

    learners = {learner.name: learner for learner in score_per_second.LEARNERS}
    results = [
        (learners["ppo"], result([1, 10], cores=2)),
        (learners["tdl-demo"], result([1], cores=1)),
    ]
    rows = tables.score_per_second(score_per_second.rows(results)).splitlines()
    assert len(rows) == 4
    assert rows[0].endswith("| after 1 min | after 10 min |")
    score = "1,000 (900 ... 1,100)"
    ppo, demo = rows[2:]
    assert ppo.endswith(f"| Abacus, 2 cores, 0.95 used | 100 | {score} | {score} |")
    assert demo.endswith(f"| Abacus, 1 core, 0.95 used | 100 | {score} |  |")


# ---- PPO in PyTorch and in JAX -------------------------------------------------------------------

LEARNER = """
import json, os, sys
from pathlib import Path

words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert (len(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]) == (1, "1")
seconds, out = float(words["--seconds"]), Path(words["--out"])
out.mkdir(parents=True)
shares = {0.01: (0, None), 0.03: (10, 100), 0.05: (30, 200), 0.2: (5, 300), 1.01: (5, 900)}
curve = [
    {"seconds": share * seconds, "steps": share * 6e6, "episodes": games, "score_mean": score}
    for share, (games, score) in shares.items()
]
(out / "curve.json").write_text(json.dumps({"curve": curve}))
score = {"mean": 1000, "mean_interval": [900, 1100]}
(out / "evaluation.json").write_text(json.dumps({"score": score}))
"""


def test_both_ppo_programs_learn_on_one_core_and_their_curves_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in publish.PPO:
        assert (compare.EXAMPLES / f"{program.name}.py").exists()
        (tmp_path / f"{program.name}.py").write_text(LEARNER)
    monkeypatch.setattr(compare, "EXAMPLES", tmp_path)
    monkeypatch.setattr(publish, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(compare, "version", lambda program: "1.0")
    monkeypatch.setattr(compare, "ENVIRONMENTS", tmp_path)
    with pytest.raises(SystemExit, match="is missing"):
        publish.ppo()
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(compare, "python_of", lambda program: sys.executable)
    affinity = os.sched_getaffinity(0)
    rows = publish.ppo()
    assert os.sched_getaffinity(0) == affinity
    assert [row["library"] for row in rows] == ["torch 1.0", "jax 1.0"]
    for row in rows:
        # A mean over games, not over rows of the curve. The last update may end late.
        assert row["scores"] == {"0.5": 175, "2": 300, "10": 900}
        assert row["steps_per_second"] == pytest.approx(10_000)
        assert row["cores_used"] > 0
    first = tables.ppo(rows).splitlines()[2]
    assert first.startswith("| PPO in PyTorch | torch 1.0 | ")
    assert first.endswith(" | 10,000 |  | 300 |  | 900 | 1,000 (900 ... 1,100) |")
