"""Task sources of the games: `twenty-questions:train` and the like, behind `load_tasks`."""

from __future__ import annotations

from collections.abc import Callable

from sweet_rl.types import Json

Rows = list[dict[str, Json]]


def _adventure(game: str) -> Callable[[str], Rows]:
    def rows(split: str) -> Rows:
        from sweet_rl.tasks.games import adventure  # noqa: PLC0415 - only those who play it

        made: Rows = adventure.adventure_tasks(game, split)
        return made

    return rows


def _twenty_questions(split: str) -> Rows:
    from sweet_rl.tasks.games import twenty_questions_tasks  # noqa: PLC0415

    return twenty_questions_tasks(split)


def _guess_my_city(split: str) -> Rows:
    from sweet_rl.tasks.games import guess_my_city_tasks  # noqa: PLC0415

    return guess_my_city_tasks(split)


def _webshop(split: str) -> Rows:
    from sweet_rl.tasks.webshop import webshop_split  # noqa: PLC0415 - makes the catalogue

    server = split.endswith("@server")
    return webshop_split(split.removesuffix("@server"), server=server)


def _taxi(where: str) -> Rows:
    from sweet_rl.tasks.games.taxi import taxi_tasks  # noqa: PLC0415 - works out its table

    return taxi_tasks(where)


def _auto_explore(where: str) -> Rows:
    from sweet_rl.tasks.explore import explore_tasks  # noqa: PLC0415 - makes repositories

    return explore_tasks(where)


def _alfworld(where: str) -> Rows:
    from sweet_rl.tasks.household import household_tasks  # noqa: PLC0415

    return household_tasks(where)


def _alfworld_data(where: str) -> Rows:
    from sweet_rl.tasks.household import alfworld_data_tasks  # noqa: PLC0415

    return alfworld_data_tasks(where)


GAME_SOURCES: dict[str, Callable[[str], Rows]] = {
    "twenty-questions": _twenty_questions,
    "guess-my-city": _guess_my_city,
    "webshop": _webshop,
    "detective": _adventure("detective"),
    "lantern": _adventure("lantern"),
    "taxi": _taxi,
    "dangerous-taxi": _taxi,
    "auto-explore": _auto_explore,
    "alfworld": _alfworld,
    "alfworld-data": _alfworld_data,
}
"""What stands before the colon, to the rows of what stands behind it (all of them where nothing does).

`webshop:2000-2100@server` are sessions of an external server, whose goals are unknown. `taxi` has a
curriculum before its split: `taxi:pickup:train`. Behind `auto-explore` may stand a path to task records,
behind `alfworld` and `alfworld-data` what games' names contain, before the split.
"""
