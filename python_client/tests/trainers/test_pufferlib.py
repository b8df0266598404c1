"""Tests of the PufferLib program in docs/guides/training.md, exactly as printed there.

PufferLib 3.0 requires a Gymnasium older than Twofold's, so `make trainers` has no environment for
it. These tests run if it can be imported, each in a separate process and folder, because importing
it makes a link in the folder, and its trainer takes over signals and warnings.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("pufferlib") is None:
    pytest.skip("PufferLib is not installed", allow_module_level=True)

PAGE = (Path(__file__).resolve().parents[3] / "docs/guides/training.md").read_text()
(PROGRAM,) = re.findall(r"^## PufferLib\n.*?^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
DEFINITIONS = PROGRAM.partition("\nconfig = ")[0]

SAME = """
import numpy as np

arguments = {"max_episode_steps": 150, "reward": {"merge_exponent": 0.1}}
envs = gym.make_vec(
    "twofold/Game2048-v0", num_envs=12, obs="one_hot", autoreset_mode="SameStep", **arguments
)
boards = Boards(12, **arguments)
generator = np.random.default_rng(0)
planes, infos = envs.reset(seed=5)
observations, _ = boards.reset(seed=5)
scores, found, cut = [], [], 0
for _ in range(400):
    np.testing.assert_array_equal(observations[:, :-4], planes.reshape(12, -1))
    np.testing.assert_array_equal(observations[:, -4:], infos["action_mask"])
    actions = generator.integers(0, 4, 12)
    planes, *expected, infos = envs.step(actions)
    observations, *arrays, logs = boards.step(actions)
    for array, other in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, other)
    if "final_info" in infos:
        scores += infos["final_info"]["score"][infos["_final_info"]].tolist()
        cut += expected[2].sum()
    found += [score for log in logs for score in log["score"]]
assert found == scores
assert 0 < cut < len(scores)
boards.close()
"""
PLAY = """
def play(boards, mask):
    planes = torch.from_numpy(twofold.one_hot(boards)).flatten(1)
    with torch.no_grad():
        logits, _ = policy.forward_eval(torch.cat([planes, torch.from_numpy(mask)], dim=1))
    return logits.argmax(1).numpy()

print("mean", twofold.evaluate(play, episodes=EPISODES).scores.mean())
"""


def run(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "program.py"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_boards_match_gymnasium(tmp_path: Path) -> None:
    run(f"{DEFINITIONS}\n{SAME}", tmp_path)


@pytest.mark.timeout(1200)
def test_the_program_learns(tmp_path: Path) -> None:
    output = run(f"import torch\ntorch.manual_seed(1)\n{PROGRAM}\nEPISODES = 200\n{PLAY}", tmp_path)
    # Random play scores 1,095.
    assert float(output.rsplit("mean ", 1)[1]) > 1.5 * 1095
