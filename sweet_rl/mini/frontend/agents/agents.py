"""Designers without a model: two floors, a ceiling, and one that does what the human says.

They bound what a model can score on a set of pages, and let the whole pipeline run anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.browsers.page import extract_html
from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend.agents.edits import apply_remarks
from sweet_rl.mini.frontend.agents.sketch import sketch
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import ANSWER_MARKER, Observation

BLANK: Final = "<html>\n<body></body>\n</html>"


class BlankDesigner(ScriptedPolicy):
    """Hands in an empty page: the floor."""

    name = "blank"

    def _say(self, _observation: Observation) -> str:
        return _answer("An empty page.", BLANK)


class TargetDesigner(ScriptedPolicy):
    """Is given the page that is wanted and hands it in at once: the ceiling.

    Args:
        pages: source by `task_id`.
        system_prompt: recorded as part of the input; changes nothing else.
    """

    name = "target"

    def __init__(self, pages: Mapping[str, str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._pages = pages

    def _say(self, observation: Observation) -> str:
        page = self._pages.get(observation.task_id)
        if page is None:
            raise UsageError(
                f"The {self.name} designer was given no page for the task {observation.task_id!r}; "
                "give it the pages of exactly the tasks that are played."
            )
        if extract_html(page)[1] is None:
            page = f"<html>\n{page}\n</html>"
        return _answer("I know what you want.", page)


class GenericDesigner(ScriptedPolicy):
    """Hands in a page made from the description alone: what can be had without talking."""

    name = "generic"

    def _say(self, observation: Observation) -> str:
        return _answer("A page from what you wrote.", sketch(_description(observation)).html())


class ImproverDesigner(ScriptedPolicy):
    """Begins like the generic one and changes its page as asked; knows nothing but the dialogue.

    Args:
        max_turns: the turn limit; in the last turn it answers, and before when it learns that nothing is
            left to do.
        system_prompt: recorded as part of the input; changes nothing else.
    """

    name = "improver"

    def __init__(self, *, max_turns: int, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._max_turns = max_turns

    def _say(self, observation: Observation) -> str:
        canvas = sketch(_description(observation))
        remarks = [message.content for message in observation.messages[1:] if message.role == "user"]
        understood = [apply_remarks(canvas, remark) for remark in remarks]
        page = canvas.html()
        if observation.turn >= self._max_turns - 1 or (remarks and "look alike" in remarks[-1]):
            return _answer("This is my last version.", page)
        thought = (
            f"I change {understood[-1]} things as you said." if remarks else "I begin with what you wrote."
        )
        return f"{thought}\nOUTPUT:\n{page}"


def _description(observation: Observation) -> str:
    return observation.messages[0].content if observation.messages else ""


def _answer(thought: str, page: str) -> str:
    return f"{thought}\nOUTPUT:\n{ANSWER_MARKER}\n{page}"
