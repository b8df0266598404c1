"""The example that trains inside JAX, and the programs on the pages about JAX."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servers import PATIENCE

import twofold

pytest.importorskip("jax", reason="`make trainers` has it")
pytest.importorskip("optax")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import jax
import jax.numpy as jnp
import ppo_jax

DOCS = Path(__file__).resolve().parents[3] / "docs"
PROGRAM = re.compile(
    r"<!-- no-run: needs jax; .*? -->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
QUICK = ["--num-envs", "64", "--num-steps", "16", "--hidden", "64"]


def test_the_network_learns_to_prefer_better_moves(tmp_path: Path) -> None:
    words = [*QUICK, "--seconds", "inf", "--steps", "40000"]
    params = ppo_jax.train(ppo_jax.parse_arguments(words), tmp_path)
    with np.load(tmp_path / "model.npz") as saved:
        assert all(np.array_equal(saved[name], params[name]) for name in params)
        loaded = dict(saved)
    trained = twofold.evaluate(ppo_jax.policy_of(loaded), episodes=100)
    again = twofold.evaluate(ppo_jax.policy_of(params), episodes=100)
    assert trained.scores.tolist() == again.scores.tolist()
    random = twofold.evaluate("random", episodes=100)
    assert trained.scores.mean() > 1.3 * random.scores.mean()


def test_the_example_prints_a_curve_and_evaluates_what_it_saves(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, str(ppo_jax.__file__), *words, "--episodes", "50"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    printed = run(*QUICK, "--seconds", "12", "--out", str(tmp_path))
    report = json.loads((tmp_path / "curve.json").read_text(), parse_constant=pytest.fail)
    assert report["options"]["steps"] is None
    assert report["curve"][0]["episodes"] >= 0
    assert len(re.findall(r"^ *\d+ s .* steps/s  score", printed, re.M)) == len(report["curve"])
    score = re.compile(r"^score +([\d,.]+)", re.M)
    again = run("--evaluate", str(tmp_path / "model.npz"))
    assert score.findall(again) == score.findall(printed)
    assert json.loads((tmp_path / "evaluation.json").read_text())["episodes"] == 50


def test_illegal_actions_have_no_probability() -> None:
    params = ppo_jax.make_params(jax.random.key(0), 18 * 16, 8)
    mask = jnp.array([[1, 0, 1, 0], [0, 0, 0, 1]])
    log_probs, values = ppo_jax.forward(params, jnp.ones((2, 18, 4, 4)), mask)
    assert values.shape == (2,)
    np.testing.assert_array_equal(jnp.exp(log_probs) > 0, mask)
    np.testing.assert_allclose(jnp.exp(log_probs).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("page", ["guides/jax.md", "coming_from/pgx.md", "coming_from/jumanji.md"])
def test_the_programs_on_a_page_run(page: str) -> None:
    blocks = PROGRAM.findall((DOCS / page).read_text())
    assert blocks
    exec("\n".join(blocks), {})
