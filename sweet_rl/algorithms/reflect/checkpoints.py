"""Checkpoints of an online run: the published layout, and what going on exactly needs.

| in `checkpoint-N/` | holds |
|---|---|
| adapter_config.json, adapter_model.safetensors, README.md | the policy's adapter, as peft writes it |
| tokenizer files | the policy's |
| critic/score.pt | the critic's head, if there is one |
| logs.json | the iterations since the checkpoint before |
| trainer_state.json, state/ | optimizer, memory, place in the data; state/ of the newest checkpoint only |

A checkpoint appears at once or not at all, whenever the process is killed.

Published behaviour: docs/published/reflect_rl.md#online-loop, #file-formats.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sweet_rl.algorithms.reflect.models import save_agent
from sweet_rl.algorithms.reflect.trainer import Trainer
from sweet_rl.training import checkpoints
from sweet_rl.training.state_files import load_state, save_state
from sweet_rl.types import Json

STATE_FOLDER = "state"


class Checkpoints:
    """The checkpoints in a run's folder.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, done: int, trainer: Trainer, logs: Sequence[Json], state: Any) -> Path:
        """Write the checkpoint after `done` iterations.

        Raises:
            StorageError: the disk is full or read-only.
        """
        shutil.rmtree(self.folder / checkpoints.PARTIAL, ignore_errors=True)
        made = self.folder / checkpoints.PARTIAL / f"checkpoint-{done}"
        made.mkdir(parents=True)
        save_agent(trainer.agent.model, trainer.agent.tokenizer, made)
        if trainer.critic is not None:
            (made / "critic").mkdir()
            torch.save(trainer.critic.head.state_dict(), made / "critic" / "score.pt")
        (made / "logs.json").write_text(json.dumps(list(logs)), encoding="utf-8")
        (made / STATE_FOLDER).mkdir()
        save_state(made / STATE_FOLDER, state)
        (made / checkpoints.STATE).write_text(json.dumps({"iterations": done}), encoding="utf-8")
        published = checkpoints.publish(self.folder, made.name)
        for older in checkpoints.complete_checkpoints(self.folder):
            if older != published:
                shutil.rmtree(older / STATE_FOLDER, ignore_errors=True)
        return published

    def newest(self) -> Any:
        """The state of the newest checkpoint; None where there is none.

        Raises:
            UsageError: it is broken.
        """
        found = checkpoints.complete_checkpoints(self.folder)
        return load_state(found[-1] / STATE_FOLDER) if found else None
