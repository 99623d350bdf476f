"""One turn of a text game: place, inventory, what happened, possible actions.

The four parts and their order are those of the text game of ArCHer; `Scene.published` joins
them as published, `Scene.text` so that they can be distinguished. Both end with the list of actions, which
`listed_actions` reads back.

Published behaviour: docs/published/archer.md (text games).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_LIST = re.compile(r"\[[^\[\]]*\]\s*\Z")


@dataclass(frozen=True, slots=True)
class Scene:
    """One observation of a text game.

    `look` and `inventory` are what those commands would say now; `narrative` is what the last action brought;
    `actions` are commands that change something here.
    """

    look: str
    inventory: str
    narrative: str
    actions: tuple[str, ...]

    def published(self) -> str:
        """The parts with nothing between them, the list as Python writes it."""
        return f"{self.look}{self.inventory}{self.narrative}{list(self.actions)}"

    def text(self) -> str:
        """The non-empty parts with blank lines between them."""
        parts = (self.look, self.inventory, self.narrative, f"Actions: {list(self.actions)}")
        return "\n\n".join(part.strip() for part in parts if part.strip())


def listed_actions(text: str) -> tuple[str, ...]:
    """The actions at the end of an observation, however it was joined; none where there is no list."""
    found = _LIST.search(text)
    if not found:
        return ()
    try:
        actions = ast.literal_eval(found.group().strip())
    except (SyntaxError, ValueError):
        return ()
    return tuple(action for action in actions if isinstance(action, str))
