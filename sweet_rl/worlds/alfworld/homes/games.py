"""The household games: the embedded ones by split, and those of a user's ALFWorld folder.

Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sweet_rl.errors import UsageError

VARIABLE: Final = "ALFWORLD_DATA"
"""The environment variable that names a user's folder; it holds `json_2.1.1`, and maybe `logic`."""

_OF_THE_PACKAGE: Final = "~/.cache/alfworld"
"""What the package sets the variable to when it is imported, whether there is such a folder or not."""

GAMES_FOLDER: Final = "json_2.1.1"
BLACKLIST: Final = "alfworld_blacklist.txt"
"""One problem a line, from `json_2.1.1` on: those that the engine failed at."""

TOMATO: Final = "pick_and_place_simple-Tomato-None-Microwave"
"""The published family: what a problem's path has to contain."""

_GOALS: Final = (
    *("pick_and_place_simple-Apple-None-Fridge", "pick_and_place_simple-Mug-None-CoffeeMachine"),
    *("pick_and_place_simple-SoapBar-None-Toilet", "pick_and_place_simple-Pen-None-Drawer"),
    *("pick_clean_then_place_in_recep-Fork-None-Drawer", "pick_clean_then_place_in_recep-Plate-None-Cabinet"),
    *(
        "pick_clean_then_place_in_recep-Cloth-None-Cabinet",
        "pick_clean_then_place_in_recep-Lettuce-None-DiningTable",
    ),
    *(
        "pick_heat_then_place_in_recep-Potato-None-Fridge",
        "pick_heat_then_place_in_recep-Egg-None-GarbageCan",
    ),
    *(
        "pick_heat_then_place_in_recep-Mug-None-Cabinet",
        "pick_cool_then_place_in_recep-Tomato-None-Microwave",
    ),
    *("pick_cool_then_place_in_recep-Bowl-None-Cabinet", "look_at_obj_in_light-Book-None-DeskLamp"),
    *("look_at_obj_in_light-CD-None-DeskLamp", "look_at_obj_in_light-AlarmClock-None-DeskLamp"),
)
_HOMES, _TOMATO_HOMES = 5, 20
_HELD_OUT: Final = 5
"""Every fifth home of a goal is held out."""


def embedded_games(split: str = "", containing: str = "", homes: range | None = None) -> tuple[str, ...]:
    """Names of the embedded games: 100 in five families, a fifth of them held out."""
    names = [f"{goal}-{home}" for goal, usual in _goals() for home in homes or range(usual)]
    return tuple(
        name
        for name in names
        if containing in name
        and (not split or (int(name.rpartition("-")[2]) % _HELD_OUT == _HELD_OUT - 1) == (split == "test"))
    )


def _goals() -> Iterator[tuple[str, int]]:
    yield TOMATO, _TOMATO_HOMES
    for goal in _GOALS:
        yield goal, _HOMES


def data_folder() -> Path | None:
    """The user's ALFWorld folder; None where nobody names one."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if (folder / GAMES_FOLDER).is_dir():
        return folder
    if folder == Path(_OF_THE_PACKAGE).expanduser():
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


def blacklist_name(place: str | Path) -> str:
    """A problem as the blacklist names it: from `json_2.1.1` on, with a slash at the end."""
    parts = Path(place).parts
    if GAMES_FOLDER in parts:
        parts = parts[parts.index(GAMES_FOLDER) :]
    return "/".join(parts) + "/"
