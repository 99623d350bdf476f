"""Tasks of the WebShop world: sessions of a shop, by number.

A shop sends the visitor of session `fixed_2000` for its goal 2000. The embedded shop's goals are known, and
their rows hold them as hidden information; a server's are only on its start page.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Json
from sweet_rl.worlds.webshop.shop import EmbeddedShop

PUBLISHED_SESSIONS: Final = (2000, 2100)
SPLITS: Final = {"": PUBLISHED_SESSIONS, "train": PUBLISHED_SESSIONS, "test": (2100, 2200)}
"""Goals are drawn one by one, so that any other hundred is held out."""


def webshop_tasks(
    lower: int = PUBLISHED_SESSIONS[0],
    upper: int = PUBLISHED_SESSIONS[1],
    *,
    shop: EmbeddedShop | None = None,
) -> list[dict[str, Json]]:
    """Rows of the sessions `lower` to `upper` - 1."""
    if not 0 <= lower < upper:
        raise UsageError(
            f"Sessions go from a first number to a greater one, got {lower} and {upper}. Write 2000-2100."
        )
    return list(_rows(lower, upper, shop))


def webshop_split(split: str, *, server: bool = False, limit: int | None = None) -> list[dict[str, Json]]:
    """Rows for the part after `webshop:` in a task source."""
    numbers = re.fullmatch(r"(\d{1,9})-(\d{1,9})", split)
    if numbers is None and split not in SPLITS:
        raise UsageError(
            f"'webshop:{split}' is no split of the shop. Use 'webshop:train', 'webshop:test', or sessions "
            "like 'webshop:2000-2100'."
        )
    lower, upper = (int(numbers[1]), int(numbers[2])) if numbers else SPLITS[split]
    if limit and lower < upper:
        upper = min(upper, lower + limit)
    if server:
        return webshop_tasks(lower, upper)
    shop = EmbeddedShop()
    try:
        return webshop_tasks(lower, upper, shop=shop)
    finally:
        shop.close()


def _rows(lower: int, upper: int, shop: EmbeddedShop | None) -> Iterator[dict[str, Json]]:
    for number in range(lower, upper):
        session = f"fixed_{number}"
        row = {"task_id": f"webshop/{number}", "session": session}
        if shop is None:
            description = f"Buy what the shop's first page asks for (session {session})."
            yield row | {"problem_description": description, "ground_truth": "", "hidden_information": ""}
        else:
            goal = shop.goal(session)
            yield row | {
                "problem_description": goal.instruction,
                "ground_truth": goal.to_json(),
                "hidden_information": goal.to_json(),
                "instruction": goal.instruction,
                "shop": shop.name,
            }
