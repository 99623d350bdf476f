"""Checkpoints of an online run: the published layout, and the state that exact resuming needs.

| in `checkpoint-N/` | holds |
|---|---|
| adapter_config.json, adapter_model.safetensors, README.md | the policy's adapter, as peft writes it |
| tokenizer files | the policy's |
| critic/score.pt | the critic's head, if there is one |
| pointing_head.safetensors | the pointing head, with `--pointing_head` |
| logs.json | the iterations since the checkpoint before |
| trainer_state.json | how far the run is, and the iterations with which levels begin |
| state/ | optimizer, memory, place in the data; of the newest checkpoint only |

A checkpoint appears at once or not at all, whenever the process is killed.

Published behaviour: docs/published/reflect_rl.md#online-loop, #file-formats.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sweet_rl.algorithms.reflect.agent import Agent
from sweet_rl.algorithms.reflect.models import save_agent
from sweet_rl.algorithms.reflect.pointing import save_head
from sweet_rl.errors import UsageError
from sweet_rl.training import checkpoints
from sweet_rl.training.state_files import load_state, save_state
from sweet_rl.types import Json

STATE_FOLDER = "state"


class Checkpoints:
    """The checkpoints in a run's folder.

    Args:
        folder: of the run.
        keep: how many are kept; None: all.
    """

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        self.folder, self._keep = folder, keep

    def save(
        self,
        done: int,
        agent: Agent,
        state: Any,
        *,
        summary: Mapping[str, Json],
        logs: Sequence[Json] | None = None,
        critic: nn.Module | None = None,
    ) -> None:
        """Write the checkpoint after `done` iterations or updates.

        Args:
            done: its number.
            agent: whose adapter and tokenizer are saved.
            state: what going on needs; that of older checkpoints goes.
            summary: what `trainer_state.json` says.
            logs: iterations for `logs.json`, if there is one.
            critic: the critic's head, if there is one.

        Raises:
            StorageError: the disk is full or read-only.
        """
        with checkpoints.writing(self.folder, done, summary) as made:
            save_agent(agent.model, agent.tokenizer, made)
            if agent.head is not None:
                save_head(agent.head, made)
            if critic is not None:
                (made / "critic").mkdir()
                torch.save(critic.state_dict(), made / "critic" / "score.pt")
            if logs is not None:
                (made / "logs.json").write_text(json.dumps(list(logs)), encoding="utf-8")
            (made / STATE_FOLDER).mkdir()
            save_state(made / STATE_FOLDER, state)
        if self._keep is not None:
            checkpoints.rotate(self.folder, keep=self._keep, max_gb=float("inf"))
        for older in checkpoints.complete_checkpoints(self.folder)[:-1]:
            shutil.rmtree(older / STATE_FOLDER, ignore_errors=True)

    def newest(self) -> Any:
        """The state of the newest checkpoint; None where there is none.

        Raises:
            UsageError: it is broken.
        """
        found = checkpoints.complete_checkpoints(self.folder)
        if not found:
            return None
        try:
            return load_state(found[-1] / STATE_FOLDER)
        except UsageError as error:  # the checkpoints before it have none any more
            raise UsageError(
                f"{str(found[-1] / STATE_FOLDER)!r} cannot be read ({error.__cause__}), so this run cannot "
                f"go on. Begin a new one with --load_dir {found[-1]}, whose policy is whole, or with the "
                "checkpoint before it."
            ) from error
