"""The Backend Programming world of ColBench: a vague request, a human who knows the function.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

from sweet_rl.worlds.dialogue import DialogueEnv, ParsedAction


class BackendEnv(DialogueEnv):
    """One episode of Backend Programming: the answer is the text behind the marker, or the last turn's.

    Args:
        user: who answers; shared by many episodes.
        max_turns: agent turns at most; the last one counts as the answer whatever it says.
        parser: how the agent's text is read, one of `sweet_rl.worlds.dialogue.PARSERS`.
        stop_on_user_failure: end the episode when the human cannot be asked, instead of going on with the
            published "No response.".
    """

    reply_limit = 400

    def _hand_in(self, parsed: ParsedAction) -> str:
        return parsed.visible if parsed.answer is None else parsed.answer
