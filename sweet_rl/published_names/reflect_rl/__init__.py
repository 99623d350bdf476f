"""Reflect-RL's command lines: `python -m X`, as its README prints it, is `python -m sweet_rl.reflect_rl.X` here.

A module for each of its 16 names would hold nothing but the name of one of our stages; so they are made of this table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

STAGES = {
    "data_gen.auto_explore.filter_repo": "filter_repo",
    "data_gen.auto_explore.gen_task": "gen_task",
    "data_gen.auto_explore.filter_task": "filter_task",
    "data_gen.auto_explore.reflection_negative": "reflection_negative",
    "data_gen.auto_explore.split_data": "split_data",
    "data_gen.auto_explore.gen_sft": "gen_sft",
    "data_gen.taxi.reflection": "taxi_reflection",
    "data_gen.taxi.gen_sft": "taxi_gen_sft",
    "data_gen.alfworld.reflection": "alfworld_reflection",
    "data_gen.alfworld.gen_sft": "alfworld_gen_sft",
    "supervised_pretrain": "supervised_pretrain",
    "rl_finetune": "rl_finetune",
    "visualization.plot": "plot",
    "evaluation.evaluate": "evaluate",
    "evaluation.auto_explore_gpt": "auto_explore_gpt",
    "evaluation.evaluate_gpt": "evaluate_gpt",
}


class _Stages(MetaPathFinder, InspectLoader):
    """Finds the modules of the table and the packages above them; run as a program, one is its stage."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{__name__}.")
        if name == fullname or not any(f"{stage}.".startswith(f"{name}.") for stage in STAGES):
            return None
        return ModuleSpec(fullname, self, is_package=name not in STAGES)

    def get_source(self, fullname: str) -> str:
        stage = STAGES.get(fullname.removeprefix(f"{__name__}."))
        if stage is None:
            return ""
        return f'if __name__ == "__main__":\n    from sweet_rl.cli import run\n\n    run("reflect {stage}")\n'


sys.meta_path.append(_Stages())
