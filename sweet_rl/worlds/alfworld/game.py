"""The household game as Reflect-RL shows it: the whole history and the commands as labels; and its tasks, the embedded
ones and those of a user's ALFWorld folder (`ALFWORLD_DATA`).

By default `expert_label` holds where labels are shuffled, too, and an episode that the engine fails at is
recorded as failed. Published behaviour: docs/published/reflect_rl.md#alfworld, #deviations.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from sweet_rl.chat.reflect_format import CHOICES, resolve_label
from sweet_rl.errors import EpisodeError, StorageError, UsageError
from sweet_rl.text_game import GameStep, bad_task
from sweet_rl.types import Compat, Failure, Json, StopReason, Task
from sweet_rl.worlds.text_games import ACTION_HEAD

if TYPE_CHECKING:
    from sweet_rl.worlds.alfworld.engine import Household

GAMES_FOLDER: Final = "json_2.1.1"  # in a user's ALFWorld folder

BLACKLIST: Final = "alfworld_blacklist.txt"
"""One problem a line, from `json_2.1.1` on: those that the engine failed at."""


def blacklist_name(place: str | Path) -> str:
    """A problem as the blacklist names it: from `json_2.1.1` on, with a slash at the end."""
    parts = Path(place).parts
    if GAMES_FOLDER in parts:
        parts = parts[parts.index(GAMES_FOLDER) :]
    return "/".join(parts) + "/"


class HouseholdGame:
    """One game; a `sweet_rl.text_game.TextGame`.

    A task's row names it by `game`: an embedded game's name, or a problem's folder. `info` has `outcome`
    ("acted", "no_such_action", "over"), `command` and `won`. As published, a problem that the engine fails at
    is added to the file `blacklist`.
    """

    head = ACTION_HEAD
    instruction = ""
    max_labels: Sequence[str] = CHOICES
    success_threshold: float = 0.0

    def __init__(
        self,
        engine: Household,
        *,
        max_turns: int = 15,
        shuffle_action: bool = False,
        compat: Compat = "fixed",
        blacklist: str | Path | None = None,
    ) -> None:
        self.max_turns = max_turns
        self._engine, self._shuffles, self._compat = engine, shuffle_action, compat
        self._blacklist = blacklist
        self._source = ""
        self._over = True

    def reset(self, task: Task, *, seed: int) -> str:
        source = task.row.get("game")
        if not isinstance(source, str) or not source:
            raise bad_task(task, f"'game' must name a household game, got {source!r}")
        return self.begin(source, seed=seed)

    def begin(self, source: str, *, seed: int = 0) -> str:
        """Begin a game by its source (see `sweet_rl.worlds.alfworld.engine.Household`)."""
        self._source, self._random = source, Random(seed)
        self._over = True  # should the engine fail
        with self._listing_failures():
            self._moment = self._engine.begin(source)
        self._introduction = self._moment.feedback
        self._path: list[tuple[str, str]] = []
        self.steps = 0
        self._terminated = self._truncated = self._over = False
        self._label()
        return self.text

    @property
    def text(self) -> str:
        path = "".join(
            f"--- Step: {number} ---\nAction: {command}\nObservation: {feedback}\n\n"
            for number, (command, feedback) in enumerate(self._path)
        )
        history = f"\n\nHere is the previous path:\n{path}" if path else ""
        actions = "\n".join(f"Action {label}: {self._offered[label]}" for label in self.labels)
        return f"{self._introduction}{history}\n{ACTION_HEAD}\n{actions}"

    @property
    def labels(self) -> Sequence[str]:
        return CHOICES[: len(self._offered)]

    @property
    def commands(self) -> tuple[str, ...]:
        """The actions so far, in the engine's words."""
        return tuple(command for command, _ in self._path)

    def step(self, label: str) -> GameStep:
        """Take one action. A label that is not on offer costs a step; after the end nothing changes."""
        if self._over:
            return self._moved(0.0, "over", None)
        self._over = True  # should the engine fail
        self.steps += 1
        found = resolve_label(label, self._offered)
        if found is None:
            self._truncated = self.steps >= self.max_turns
            return self._moved(0.0, "no_such_action", None)
        command = self._offered[found]
        try:
            with self._listing_failures():
                self._moment = self._engine.play(self._source, self.commands, command)
        except EpisodeError:
            self._terminated, self._truncated = False, True
            if self._compat == "fixed":
                raise
            return self._moved(0.0, "engine_failed", command)
        self._path.append((command, self._moment.feedback))
        self._terminated = self._moment.done
        self._truncated = self.steps >= self.max_turns
        if not self._moment.done or self._compat == "published":
            self._label()
        return self._moved(float(self._moment.score), "acted", command)

    def expert_plan(self) -> tuple[str, ...]:
        """The planner's commands from here; empty where it finds none."""
        return self._engine.plan(self._source, self.commands)

    def expert_label(self, plan: Sequence[str] | None = None) -> str | None:
        """The label of the planner's next command; None where there is no plan or it is not on offer.

        With `compat="published"` the command's place among the engine's, which is another one's label where
        labels are shuffled.
        """
        command = next(iter(self.expert_plan() if plan is None else plan), None)
        if self._compat == "published":
            commands = self._moment.commands
            return CHOICES[commands.index(command)] if command in commands else None
        return next((label for label in self.labels if self._offered[label] == command), None)

    def close(self) -> None:
        self._over = True

    def _label(self) -> None:
        """Give every command a label, anew at each step."""
        commands = self._moment.commands
        if len(commands) > len(CHOICES):
            detail = (
                f"{self._source}: {len(commands)} commands are on offer and there are {len(CHOICES)} labels"
            )
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("too_many_actions", detail))
        labels = list(CHOICES[: len(commands)])
        if self._shuffles:
            self._random.shuffle(labels)
        self._offered = dict(zip(labels, commands, strict=True))

    def _moved(self, reward: float, outcome: str, command: str | None) -> GameStep:
        self._over = outcome == "over" or self._terminated or self._truncated
        info = {"outcome": outcome, "command": command, "won": self._terminated and reward > 0}
        return GameStep(self.text, reward, self._terminated, self._truncated, info)

    @contextlib.contextmanager
    def _listing_failures(self) -> Iterator[None]:
        """Problems that the engine fails at are not to be played again, where a list of them is kept."""
        try:
            yield
        except EpisodeError:
            if self._blacklist is not None and self._compat == "published":
                try:
                    with open(self._blacklist, "a", encoding="utf-8") as file:
                        file.write(f"{blacklist_name(self._source)}\n")
                except OSError as error:
                    raise StorageError(f"Cannot write {str(self._blacklist)!r}: {error.strerror}.") from None
            raise


VARIABLE: Final = "ALFWORLD_DATA"
"""The environment variable that names a user's folder; it holds `json_2.1.1`, and maybe `logic`."""

TOMATO: Final = "pick_and_place_simple-Tomato-None-Microwave"
"""The published family: what a problem's path has to contain."""


def household_tasks(where: str = "", limit: int | None = None) -> list[dict[str, Json]]:
    """Embedded household games."""
    homes = import_module("sweet_rl.mini.homes")
    named, _, last = where.rpartition(":")
    wanted: range | None = None
    if found := re.fullmatch(r"(?:(\d+)-)?(\d+)", last):  # "250" or "250-499": homes of every goal
        wanted = range(int(found[1]), int(found[2]) + 1) if found[1] else range(int(found[2]))
    if wanted is None or not 0 < len(wanted) <= 100_000:
        named, wanted = where, None
    part, _, split = named.rpartition(":")
    if not part and split not in {"", "train", "test"}:
        part, split = split, ""
    known = split in {"", "train", "test"}
    names = homes.embedded_games(split, part, wanted) if known else ()
    if not names:
        raise UsageError(
            f"'alfworld:{where}' is no source of tasks. Use 'alfworld', 'alfworld:train' or 'alfworld:test', "
            f"and between them what names must contain: 'alfworld:{TOMATO}:train', or one of the "
            f"families {', '.join(homes.FAMILIES)}; at the end how many homes every goal has, or which: "
            f"'alfworld:{TOMATO}:train:250', 'alfworld:{TOMATO}:test:250-499'."
        )
    games = map(homes.game, names[:limit])
    return [
        {
            "task_id": f"alfworld/{game.name}",
            "problem_description": f"Your task is to: {game.sentence}.",
            "ground_truth": game.name,
            "hidden_information": ", ".join(game.way()),
            "game": game.name,
            "family": game.family,
        }
        for game in games
    ]


def alfworld_data_tasks(where: str = "", *, blacklist: str | Path = BLACKLIST) -> list[dict[str, Json]]:
    """Games of the folder that `ALFWORLD_DATA` names, sorted; of the published family, or of `all`."""
    part, _, split = where.rpartition(":")
    containing, split = "" if part == "all" else part or TOMATO, split or "train"
    folder = data_folder()
    if folder is None:
        raise _no_data("is not set. It")
    listed = Path(blacklist)
    bad = set(listed.read_text(encoding="utf-8").split("\n")) if listed.is_file() else set()
    found = {
        path.parent
        for top in (folder / GAMES_FOLDER).iterdir()
        if (top.name.startswith("valid") if split == "test" else top.name == split)
        for name in ("initial_state.pddl", "game.tw-pddl")
        for path in top.rglob(name)
        if containing in str(path.relative_to(folder)) and blacklist_name(path.parent) not in bad
    }
    if not found:
        raise UsageError(
            f"{folder / GAMES_FOLDER} has no problems of {split!r} whose path contains {containing!r}"
            f"{' that are not in ' + str(listed) if bad else ''}."
        )
    return [
        {
            "task_id": f"alfworld/{(name := blacklist_name(place).strip('/'))}",
            "problem_description": f"A task in a household: {place.parent.name}.",
            "ground_truth": name,
            "game": str(place.resolve()),
            "family": place.parent.name.partition("-")[0],
        }
        for place in sorted(found)
    ]


def published_household_tasks(split: str = "train") -> list[dict[str, Json]]:
    """The tomato-in-microwave family, which Reflect-RL plays: of `ALFWORLD_DATA`, else the embedded games."""
    return household_tasks(f"{TOMATO}:{split}") if data_folder() is None else alfworld_data_tasks(split)


def data_folder() -> Path | None:
    """The user's ALFWorld folder; None where nobody names one."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if (folder / GAMES_FOLDER).is_dir():
        return folder
    if (
        folder == Path("~/.cache/alfworld").expanduser()
    ):  # the package sets it when it is imported, folder or not
        return None
    raise _no_data(f"is {named!r}, and")


def _no_data(what: str) -> UsageError:
    return UsageError(
        f"No ALFWorld data: the environment variable {VARIABLE} {what} must name a folder that holds {GAMES_FOLDER}/train "
        "and so on (`alfworld-download` makes one). The embedded games need none: unset it, and use 'alfworld'."
    )
