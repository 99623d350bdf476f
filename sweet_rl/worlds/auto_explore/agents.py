"""Explorers of repositories without a model: one that is given the file, one that walks about at random."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Final

from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Observation, derive_seed
from sweet_rl.worlds.auto_explore import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories.quoting import next_command

_FOLDER: Final = re.compile(r"\n\n# Current working directory\n(.*)\n\n# Files under")


def current_folder(text: str) -> str:
    """Where a prompt of AutoExplore says that one is: a path without its last `/`, "" at the top."""
    found = _FOLDER.search(text)
    return found[1].rstrip("/") if found else ""


class PlanningExplorer(ScriptedPolicy):
    """Is given the file of every task, goes there, opens it and hands it in: the ceiling."""

    name = "planner"

    def __init__(self, targets: Mapping[str, str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._targets = targets

    def _say(self, observation: Observation) -> str:
        target = self._targets.get(observation.task_id)
        if target is None:
            raise UsageError(
                f"The planner was given no file for the task {observation.task_id!r}; give it those of "
                "exactly the tasks that are played."
            )
        text = observation.messages[-1].content
        folder, offered = current_folder(text), offered_commands(text, ACTION_HEAD)
        labels = {command: label for label, command in offered.items()}
        command = next_command(folder, target)
        if command.startswith("cat ") and command not in labels:  # no file is opened twice
            command = next_command(folder, target, opened=True)
        return labels.get(command, command)


class Wanderer(ScriptedPolicy):
    """Any of the commands on offer, each as likely; the same episode seed draws the same ones: the floor."""

    name = "wanderer"

    def _say(self, observation: Observation) -> str:
        text = observation.messages[-1].content
        labels = list(offered_commands(text, ACTION_HEAD)) or ["0"]
        return Random(derive_seed(observation.seed, observation.turn, "wanderer")).choice(labels)
