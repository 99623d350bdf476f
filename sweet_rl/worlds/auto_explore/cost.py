"""The cost of a step: one, and more for errors.

The published code means to charge for messages that speak of errors and warnings, but asks whether a message
*is* the word, so nothing is ever charged. By default the step's own result is charged when it is an
error or a warning; what files say about errors costs nothing.

Published behaviour: docs/published/reflect_rl.md#autoexplore, #deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sweet_rl.types import Compat

KEYWORD_COSTS: Final[Mapping[str, float]] = {"Error": 2, "Warning": 1}
"""What a trouble costs beside the step."""

STEP_COST: Final = 1.0


def step_cost(result: str, *, compat: Compat = "fixed") -> float:
    """What a step with this execution result costs."""
    if compat == "published":
        return STEP_COST
    return STEP_COST + sum(cost for word, cost in KEYWORD_COSTS.items() if result.startswith(f"{word}:"))


def published_keyword_cost(messages: Sequence[tuple[str, str]]) -> float:
    """What the published code charges for messages of role and text: a text that is a keyword, no other."""
    return sum(cost * message.count(word) for word, cost in KEYWORD_COSTS.items() for message in messages)
