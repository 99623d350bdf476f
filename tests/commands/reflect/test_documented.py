"""The commands of docs/train_reflect.md, in its order and with its flags, at the smallest numbers; what they say they write."""

import re
import shlex

import pytest

from sweet_rl import cli
from sweet_rl.runs.facts import runs_below
from tests.conftest import ROOT
from tests.states import without_record

SMALL = {
    r"--num_records \d+": "--num_records 12",
    r"--num \d+": "--num 2",
    r"--(runs|eval_reps) \d+": r"--\1 1",
    r"(--max_steps |checkpoint-)(\d)0+": r"\1\2",
}
WITH_MODELS = {"supervised_pretrain", "rl_finetune", "evaluate"}
QUICK = "--lora_r 2 --horizon 3 --reflect_max_new_tokens 4 --device cpu --no_use_8bit"
QUIET = {
    *WITH_MODELS, "taxi_reflection", "alfworld_reflection", "gen_task", "reflection_negative",
    "evaluate_gpt",
}  # fmt: skip


def documented(world):
    """Commands of a section, as words, and what each is said to write."""
    text = (ROOT / "docs/train_reflect.md").read_text()
    block = text.split(f"### {world}\n")[1].split("```sh\n")[1].split("```")[0]
    for pattern, small in SMALL.items():
        block = re.sub(pattern, small, block)
    folder = re.search(r"^T=(\S+)$", block, re.MULTILINE)
    if folder:
        block = block.replace("$T", folder.group(1))
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("sweet-rl reflect"):
            command, _, written = line.partition("# -> ")
            yield shlex.split(command)[2:], written.split()


@pytest.mark.parametrize("world", ["DangerousTaxi", "AutoExplore", "ALFWorld"])
def test_what_is_documented_works_in_order(world, tmp_path, monkeypatch, capfd):
    if world == "ALFWorld":
        for package in ("textworld", "fast_downward", "alfworld"):
            pytest.importorskip(package, reason="needs the extra 'alfworld'")
    monkeypatch.chdir(tmp_path)
    stages = []
    for (stage, *flags), written in documented(world):
        flags += QUICK.split() if stage in WITH_MODELS and "--resume" not in flags else []
        flags += ["--quiet"] if stage in QUIET else []
        cli.run(f"reflect {stage}", flags)
        said = capfd.readouterr()
        assert "arning" not in said.out + said.err
        assert written
        for path in written:
            assert (tmp_path / path).exists(), (stage, said)
            assert path in said.out, (stage, said)
        stages.append(stage)
    kept = runs_below(tmp_path)
    assert without_record(tmp_path) == []
    assert {run.content["stage"] for run in kept} == {f"reflect {stage}" for stage in stages}
    assert {run.status for run in kept} == {"finished"}
    assert {*WITH_MODELS, "plot", "ensemble_logs"} <= set(stages)
