"""The Backend Programming world of ColBench: a vague request, a human who knows the function.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

from collections.abc import Callable

from sweet_rl.contracts import User
from sweet_rl.worlds.dialogue.env import DialogueEnv
from sweet_rl.worlds.dialogue.parsing import ParsedAction, parse_published

REPLY_LIMIT = 400
"""Unicode characters of the human's reply that reach the agent."""


class BackendEnv(DialogueEnv):
    """One episode of Backend Programming: the answer is the text behind the marker, or the last turn's.

    Args:
        user: who answers; shared by many episodes.
        max_steps: agent turns at most; the last one counts as the answer whatever it says.
        parser: how the agent's text is read, one of `sweet_rl.worlds.dialogue.parsing.PARSERS`.
        reply_limit: characters of a reply that the agent gets to see.
        stop_on_user_failure: end the episode when the human cannot be asked, instead of going on with the
            published "No response.".
    """

    def __init__(
        self,
        user: User,
        *,
        max_steps: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        reply_limit: int = REPLY_LIMIT,
        stop_on_user_failure: bool = False,
    ) -> None:
        super().__init__(
            user,
            max_steps=max_steps,
            parser=parser,
            reply_limit=reply_limit,
            stop_on_user_failure=stop_on_user_failure,
        )

    def _hand_in(self, parsed: ParsedAction) -> str:
        return parsed.visible if parsed.answer is None else parsed.answer
