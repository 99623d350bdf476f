"""Explorers of repositories without a model: one that is told the file, one that just walks about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from sweet_rl.chat import ChatFormat, PlainChat
from sweet_rl.chat.reflect_format import ACTION_HEADS, split_prompt
from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.repositories.quoting import wrap
from sweet_rl.types import Observation, derive_seed

_OFFERED: Final = re.compile(r"^(\w+)\. (.+)$", re.MULTILINE)
_FOLDER: Final = re.compile(r"\n\n# Current working directory\n(.*)\n\n# Files under")


def offered_commands(text: str) -> dict[str, str]:
    """Labels by command, from the list at the end of a prompt of AutoExplore."""
    listed = split_prompt(text, ACTION_HEADS["auto_explore"]).after
    return {command: label for label, command in _OFFERED.findall(listed)}


def current_folder(text: str) -> str:
    """Where a prompt of AutoExplore says that one is: a path without its last `/`, "" at the top."""
    found = _FOLDER.search(text)
    return found[1].rstrip("/") if found else ""


def next_command(folder: str, target: str, offered: Sequence[str] | Mapping[str, str]) -> str:
    """The next command on the way to a file: through the folders, open it, hand it in.

    Args:
        folder: where one is.
        target: path of the file.
        offered: commands; a file that was opened cannot be opened again.
    """
    above, _, name = target.rpartition("/")
    if above == folder:
        look = f"cat {wrap(name)}"
        return look if look in offered else f"id {wrap(name)}"
    inside = f"{folder}/" if folder else ""
    if not above.startswith(inside):
        return "cd .."
    return f"cd {wrap(above.removeprefix(inside).partition('/')[0])}"


class PlanningExplorer(ScriptedPolicy):
    """Is told the file of every task, goes there, opens it and hands it in: the ceiling.

    Args:
        targets: path by `task_id`.
        system_prompt: recorded as part of the input; changes nothing else.
        chat_format: how the input is recorded.
    """

    name = "planner"

    def __init__(
        self, targets: Mapping[str, str], *, system_prompt: str = "", chat_format: ChatFormat | None = None
    ) -> None:
        super().__init__(system_prompt)
        self.chat_format = chat_format or PlainChat()
        self._targets = targets

    def _say(self, observation: Observation) -> str:
        target = self._targets.get(observation.task_id)
        if target is None:
            raise UsageError(
                f"The planner was told no file for the task {observation.task_id!r}; give it those of "
                "exactly the tasks that are played."
            )
        text = observation.messages[-1].content
        offered = offered_commands(text)
        command = next_command(current_folder(text), target, offered)
        return offered.get(command, command)


class Wanderer(ScriptedPolicy):
    """Any of the commands on offer, each as likely; the same episode seed draws the same ones: the floor.

    Args:
        system_prompt: recorded as part of the input; changes nothing else.
        chat_format: how the input is recorded.
    """

    name = "wanderer"

    def __init__(self, *, system_prompt: str = "", chat_format: ChatFormat | None = None) -> None:
        super().__init__(system_prompt)
        self.chat_format = chat_format or PlainChat()

    def _say(self, observation: Observation) -> str:
        labels = list(offered_commands(observation.messages[-1].content).values()) or ["0"]
        return Random(derive_seed(observation.seed, observation.turn, "wanderer")).choice(labels)
