"""Module names and paths in the READMEs' command lines: each is a stage of ours."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
import yaml

from sweet_rl.cli.main import stages
from sweet_rl.published_names.reflect_rl import STAGES
from tests.conftest import ROOT


@pytest.mark.parametrize("name", STAGES)
def test_every_module_of_reflect_rl_is_a_stage(name):
    found = find_spec(f"sweet_rl.reflect_rl.{name}")
    assert f'run("reflect {STAGES[name]}")' in found.loader.get_source(found.name)
    assert f"reflect {STAGES[name]}" in stages()


def test_what_is_no_module_of_it_is_none_here():
    assert find_spec("sweet_rl.reflect_rl.data_gen").submodule_search_locations == []
    assert find_spec("sweet_rl.reflect_rl.data_gen.auto_explore.filter") is None
    assert find_spec("sweet_rl.reflect_rl.evaluate") is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-m", "sweet_rl.reflect_rl.visualization.plot"], "Name at least one run's folder"),
        (["-m", "sweet_rl.openrlhf.train_dpo"], "--pretrain is needed"),
        (["scripts/run.py", "--config-name", "archer_nothing"], "archer_nothing"),
    ],
)
def test_the_lines_reach_the_stages(words, says):
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}
    assert says in done.stderr


def test_both_paths_of_accelerates_file_resolve():
    paths = [ROOT / "scripts" / name for name in ("config/accelerate_config", "accelerate_config")]
    one, other = (yaml.safe_load((path / "default_config.yaml").read_text()) for path in paths)
    assert one == other
    assert one["num_processes"] == 1
    assert (ROOT / "scripts/config/archer_20q.yaml").is_file()
