"""Tasks of the household games: the embedded ones, and those of a user's ALFWorld folder (`ALFWORLD_DATA`).

Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Json
from sweet_rl.worlds.alfworld.game import BLACKLIST, GAMES_FOLDER, blacklist_name

VARIABLE: Final = "ALFWORLD_DATA"
"""The environment variable that names a user's folder; it holds `json_2.1.1`, and maybe `logic`."""

TOMATO: Final = "pick_and_place_simple-Tomato-None-Microwave"
"""The published family: what a problem's path has to contain."""

homes = import_module("sweet_rl.mini.homes")


def household_tasks(where: str = "", limit: int | None = None) -> list[dict[str, Json]]:
    """Embedded household games."""
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


def alfworld_data_tasks(where: str = "") -> list[dict[str, Json]]:
    """Games of the folder that `ALFWORLD_DATA` names; of the published family, or of `all`."""
    part, _, split = where.rpartition(":")
    containing = "" if part == "all" else part or TOMATO
    games = data_games(split or "train", containing)
    return [
        {
            "task_id": f"alfworld/{(name := blacklist_name(place).strip('/'))}",
            "problem_description": f"A task in a household: {place.parent.name}.",
            "ground_truth": name,
            "game": str(place.resolve()),
            "family": place.parent.name.partition("-")[0],
        }
        for place in games
    ]


def published_household_tasks(split: str = "train") -> list[dict[str, Json]]:
    """The tomato-in-microwave family, which Reflect-RL plays: of the folder of `ALFWORLD_DATA`, else of the
    embedded games."""
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


def data_games(
    split: str = "train", containing: str = TOMATO, *, blacklist: str | Path = BLACKLIST
) -> tuple[Path, ...]:
    """Problem folders of a user's ALFWorld data, sorted."""
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
        if containing in str(path.relative_to(folder))
    }
    games = tuple(sorted(place for place in found if blacklist_name(place) not in bad))
    if not games:
        raise UsageError(
            f"{folder / GAMES_FOLDER} has no problems of {split!r} whose path contains {containing!r}"
            f"{' that are not in ' + str(listed) if bad else ''}."
        )
    return games
