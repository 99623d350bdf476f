"""The wheel as it is installed by those who have nothing else: `make test-dist` builds it and names it here."""

import json
import os
import re
import sys
import tomllib

import pytest

from tests.conftest import ROOT, ran

WHEEL = os.environ.get("SWEET_RL_WHEEL", "")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
INSTALLED_BY_CI = {"alfworld", "dev"}
"""`.ci/run` does it anyway; the planner of alfworld is compiled for minutes before it says what it needs."""

WITHOUT = pytest.mark.skipif(not WHEEL, reason="needs a wheel: run `make test-dist`")
pytestmark = [WITHOUT, pytest.mark.timeout(600)]


def run(*command, **settings):
    done = ran(*command, timeout=590, **settings)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def pip(environment, *words):
    quiet = ("--quiet", "--disable-pip-version-check")
    return run(environment / "bin/python", "-m", "pip", "install", *quiet, *words)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An environment with nothing but pip."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", str(folder))
    return folder


@pytest.fixture(scope="module")
def light(empty):
    """The same with the wheel, as `pip install sweet_rl` makes it."""
    pip(empty, WHEEL)
    return empty


def test_the_light_core_plays_grades_and_shows(light, tmp_path):
    sweet_rl = str(light / "bin/sweet-rl")
    assert "simulate_interactions" in run(sweet_rl, "--help")
    assert run(sweet_rl, "--version").strip() in WHEEL
    agent = ("--agent_model", "oracle", "--env_model", "scripted", "--num_tasks", "2", "--quiet")
    run(sweet_rl, "simulate_interactions", "mini:test", "a.jsonl", *agent, cwd=tmp_path)
    run(sweet_rl, "evaluate_code", "a.jsonl", "--quiet", cwd=tmp_path)
    run(sweet_rl, "view", "a.jsonl", "--export", "a.html", cwd=tmp_path)
    assert [json.loads(row)["reward"] for row in (tmp_path / "a.jsonl").read_text().splitlines()] == [1, 1]
    assert (tmp_path / "a.html").stat().st_size > 100_000


def test_the_light_core_is_light(light):
    listed = run(light / "bin/python", "-m", "pip", "list", "--disable-pip-version-check").lower()
    assert "aiohttp" in listed
    assert not re.search(r"^(torch|transformers|numpy|pandas) ", listed, re.MULTILINE)


@pytest.mark.parametrize(
    "line",
    [
        "simulate_interactions mini:test a.jsonl --agent transformers --agent_model none --env_model scripted",
        "make_embedded_agent agent",
    ],
)
def test_what_is_missing_is_named(light, tmp_path, line):
    done = ran(light / "bin/sweet-rl", *line.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'sweet_rl[transformers]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - INSTALLED_BY_CI))
def test_an_extra_can_be_installed(empty, tmp_path, extra):
    """Resolved, not downloaded as a whole: all of them are several GB."""
    (torch,) = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    (tmp_path / "torch.txt").write_text(torch)
    pip(empty, "--dry-run", "--ignore-installed", "-c", str(tmp_path / "torch.txt"), f"{WHEEL}[{extra}]")
