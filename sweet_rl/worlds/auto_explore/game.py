"""AutoExplore: find the file of a repository that answers a question; every command that can be done has a
label. And who plays without a model.

The published code means to charge for errors and warnings, but never does; by default a step whose own
result is one costs more. Published behaviour: docs/published/reflect_rl.md#autoexplore.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from sweet_rl.chat.reflect_format import CHOICES, offered_commands, resolve_label
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.prompts import fill, packaged_text
from sweet_rl.text_game import GameStep, bad_task
from sweet_rl.types import Compat, Failure, Json, Observation, StopReason, Task, derive_seed
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories import (
    Library,
    is_allowed,
    next_command,
    optimal_path,
    split_command,
    unwrap,
    wrap,
)
from sweet_rl.worlds.auto_explore.sandbox import MAX_LISTED, PIECES, PieceCounter, Sandbox

SUCCESS_THRESHOLD: Final = 0.01
"""An episode is a success when it costs less: handing a target in with the last step costs nothing."""

FIRST_STEP_BONUS: Final = 100
"""What the right first command saves beside the turns where only that is played."""


class ExploreGame:
    """One game over shared repositories.

    `easy`: the question is replaced by the name of one target, drawn, and no other file is right.
    `first_step`: only one step is played, and judged by the first command of the task's `optimal_path`.
    Published: no charge for errors and warnings, running out of steps is an end of the world's own, quotes
    for blanks only, one random stream, a folder that offers too much raises.
    """

    head = ACTION_HEAD
    instruction = ""
    max_labels: Sequence[str] = CHOICES
    success_threshold = SUCCESS_THRESHOLD

    def __init__(
        self,
        library: Library,
        *,
        max_turns: int = 15,
        leaveout_prob: float = 0.0,
        shuffle_action: bool = False,
        easy: bool = False,
        first_step: bool = False,
        tokens: PieceCounter = PIECES,
        compat: Compat = "fixed",
    ) -> None:
        self._library, self._max_turns, self._leaveout = library, max_turns, leaveout_prob
        self._shuffle, self._easy, self._first_step = shuffle_action, easy, first_step
        self._tokens, self._compat = tokens, compat
        self._over = True
        self.text, self.labels = "", list[str]()

    def reset(self, task: Task, *, seed: int) -> str:
        self._over = True
        rng = Random(seed)
        self._labels_rng = rng if self._compat == "published" else Random(derive_seed(seed, "labels"))
        root, path = task.extra.get("root"), task.extra.get("optimal_path")
        if not isinstance(root, str) or not root:
            raise bad_task(task, f"'root' must name a repository, got {root!r}")
        try:
            index = self._library.get(root)
        except UsageError as error:
            raise bad_task(task, str(error), "no_repository") from error
        self.targets = [str(target) for target in task.extra.get("targets") or [task.ground_truth]]
        here = [target for target in self.targets if (found := index.find(target)) and not found.is_folder]
        if not here:
            raise bad_task(task, f"{root!r} has no file {', '.join(self.targets)!r}", "missing_target")
        self._question = task.problem_description
        if self._easy:  # before anything is left out: only the file that is asked for is sure to stay
            target = rng.choice(here)
            self._question, self.targets = f"Find {target}", [target]
            path = path if self._compat == "published" else optimal_path(target)
        steps = path if isinstance(path, list) else []
        self._first = next((command for command in steps if command != "ls"), None)
        self.sandbox = Sandbox(
            index,
            seed=rng if self._compat == "published" else seed,
            leaveout_prob=self._leaveout,
            keep=[*self.targets, *map(str, task.extra.get("clues") or ())],
            tokens=self._tokens,
            compat=self._compat,
        )
        self.history: list[str] = []
        self.steps, self._shown = 0, set[str]()
        self._result = ""
        self._show()
        self._over = False
        return self.text

    def step(self, label: str) -> GameStep:
        """Take the agent's text: a label, the command itself, or something that only costs a step."""
        if self._over:
            return GameStep(self.text, 0.0, terminated=True, truncated=False, info={"won": False})
        self.steps += 1
        chosen = resolve_label(label, self.offered)
        command = None if chosen is None else self.offered[chosen]
        identified = None
        if command is None:
            named = "cd, ls, cat, head, tail, id, exit"
            self._result = result = fill(packaged_text("explore_no_command"), commands=named)
        else:
            verb, before, name = command.partition(" ")[0], self.sandbox.cwd, self.name_of(command)
            result, identified = self.sandbox.run(split_command(command))
            self.history.append(command)
            if verb == "cat":
                self._shown.add(posixpath.join(before, name))
            elif verb == "cd" and self._compat == "fixed" and len(self._commands()) > len(CHOICES):
                self.sandbox.cwd = before
                result = f"Error: {name} offers more than the {len(CHOICES)} labels there are"
            self._result = f"Executing: {command}\n{result}"
        won = identified in self.targets
        out_of_steps = self.steps >= self._max_turns
        trouble = {"Error:": 3.0, "Warning:": 2.0}.get(result.partition(" ")[0], 1.0)
        cost = 1.0 if self._compat == "published" else trouble
        if self._first_step:
            won = command is not None and command == self._first
            cost = float(-FIRST_STEP_BONUS - self._max_turns) if won else cost
            out_of_steps = out_of_steps or self._compat == "fixed"
        elif identified is not None or out_of_steps:
            cost += -self._max_turns if won else self._max_turns
        terminated = identified is not None or (self._compat == "published" and out_of_steps)
        self._over = terminated or out_of_steps
        if not self._over:
            self._show()
        info: dict[str, Json] = {"won": won, "command": command, "result": result}
        if identified is not None:
            info["identified"] = identified
        elif self._over and not won:
            info["out_of_steps"] = True
        text = self._result if self._over and self._compat == "fixed" else self.text
        return GameStep(text, -cost, terminated, self._over and not terminated, info)

    def close(self) -> None:
        self._over = True

    def name_of(self, command: str) -> str:
        """The file or folder, in the folder where one is, that a command on offer is about."""
        words = [word for word in split_command(command) if word is not None]
        return unwrap(words[-1], compat=self._compat)

    def _commands(self) -> list[str]:
        """What can be done now, in order: never `exit`, and no file is opened twice."""
        return [
            command
            for command, name in all_commands(self.sandbox, compat=self._compat)
            if command != "exit"
            and not (command.startswith("cat ") and posixpath.join(self.sandbox.cwd, name) in self._shown)
        ]

    def _show(self) -> None:
        """Offer what can be done, and write the prompt."""
        commands = self._commands()
        if len(commands) > len(CHOICES):
            folder = self.sandbox.cwd or "the repository itself"
            detail = (
                f"{self.sandbox.index.name!r}: {folder} offers {len(commands)} commands, and there are "
                f"{len(CHOICES)} labels; leave files out, or spread them over folders"
            )
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("too_many_commands", detail))
        labels = list(CHOICES[: len(commands)])
        if self._shuffle:
            labels = self._labels_rng.sample(CHOICES, len(commands))
        self.offered, self.labels = dict(zip(labels, commands, strict=True)), labels
        sandbox, entries = self.sandbox, self.sandbox.entries()
        names = [wrap(entry.name, compat=self._compat) for entry in entries[:MAX_LISTED]]
        if len(entries) > MAX_LISTED:
            names.append(f"... and {len(entries) - MAX_LISTED} more")
        sections = {
            "# Task": self._question,
            "# Current working directory": f"{sandbox.cwd}/" if sandbox.cwd else "",
            "# Files under current working directory": "\n".join(names),
            "# Command history": "\n".join(self.history),
            "# Execution result of your last command": self._result,
            ACTION_HEAD.strip(): "\n".join(f"{label}. {offer}" for label, offer in self.offered.items()),
        }
        self.text = "\n\n".join(f"{header}\n{body}" for header, body in sections.items()) + "\n"


def all_commands(sandbox: Sandbox, *, compat: Compat = "fixed") -> list[tuple[str, str]]:
    """What can be done where one is, in the order of labels, each with the name it is about."""
    commands = [("cd ..", "..")] if sandbox.cwd else []
    commands.append(("exit", ""))
    for entry in sandbox.entries():
        word = wrap(entry.name, compat=compat)
        if entry.is_folder:
            commands.append((f"cd {word}", entry.name))
        elif is_allowed(entry.name):
            commands += [(f"cat {word}", entry.name), (f"id {word}", entry.name)]
    return commands


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
        where = re.search(r"\n\n# Current working directory\n(.*)\n\n# Files under", text)
        folder, offered = where[1].rstrip("/") if where else "", offered_commands(text, ACTION_HEAD)
        labels = {command: label for label, command in offered.items()}
        command = next_command(folder, target)
        if command.startswith("cat ") and command not in labels:  # no file is opened twice
            command = next_command(folder, target, opened=True)
        return labels.get(command, command)


class Wanderer(ScriptedPolicy):
    """Any of the commands on offer, each as likely; the same episode seed draws the same ones: the floor."""

    name = "wanderer"

    def _say(self, observation: Observation) -> str:
        labels = list(offered_commands(observation.messages[-1].content, ACTION_HEAD)) or ["0"]
        return Random(derive_seed(observation.seed, observation.turn, "wanderer")).choice(labels)
