"""`sweet_rl.environments.human_interaction_env`: a dialogue about a function (docs/export_and_credit.md).

Published behaviour: docs/published/sweet_rl.md#backend-programming, with the published parser.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Final

from sweet_rl.prompts import dialogue_string, fill
from sweet_rl.types import NO_ANSWER, NO_RESPONSE, Json, Message
from sweet_rl.users.model import SYSTEM_PROMPT
from sweet_rl.worlds.dialogue import ParsedAction, parse_published

HUMAN_RESPONSE_CHARACTER_LIMIT = 400
"""Characters of a reply that the agent gets to see."""

ATTEMPTS: Final = 3
"""How often the human is asked where a server is down or busy."""

View = list[dict[str, str]]
"""Messages with `role` and `content`."""


class HumanInteractionEnv:
    """One episode at a time; several environments may be stepped in several threads.

    Of the `client`, an `openai.OpenAI` or an object like it, `chat.completions.create` is called, for `model_id`. The
    `human_prompt` has the places `{problem_description}`, `{hidden_information}`, `{dialogue_history}`. The last of
    `max_steps` agent turns is the answer whatever it says; before, `answer` is "No answer". In `dialogue_history` the
    agent's entries have its `input` and `output`, too.
    """

    def __init__(
        self, client: Any, human_prompt: str, model_id: str, env_id: int = 0, max_steps: int = 10
    ) -> None:
        self.client, self.human_prompt, self.model_id = client, human_prompt, model_id
        self.env_id, self.max_steps = env_id, max_steps
        self.problem_description = self.hidden_information = ""
        self.answer: str | None = NO_ANSWER
        self.steps, self.done = 0, False
        self.dialogue_history: list[dict[str, Json]] = []

    def reset(self, problem_description: str, hidden_information: str) -> View:
        """Begin an episode; returns the agent's view of it: the request."""
        self.problem_description = str(problem_description)
        self.hidden_information = str(hidden_information)
        self.answer, self.steps, self.done = NO_ANSWER, 0, False
        self.dialogue_history = [{"role": "user", "content": problem_description}]
        return self.get_dialogue_history()

    def step(self, response: str, formatted_prompt: str | None = None) -> tuple[View | None, int, bool]:
        """One agent turn (None does where the episode is over) and, unless it was the last, the human's reply.

        Returns the dialogue, or None when it is over; the reward, 0 until it is graded; whether it is over.
        """
        self.steps += 1
        if self.done:
            return None, 0, True
        parsed = parse_published(response)
        self.done = parsed.answer is not None or self.steps >= self.max_steps
        self._consider(parsed)
        self.dialogue_history.append(
            {
                "role": "assistant",
                "content": parsed.visible,
                "input": formatted_prompt,
                "output": parsed.output,
            }
        )
        if self.done:
            return None, 0, True
        self.dialogue_history.append({"role": "user", "content": self._reply(parsed)})
        return self.get_dialogue_history(), 0, False

    def get_dialogue_history(self) -> View:
        """The dialogue as the agent sees it."""
        return [{"role": entry["role"], "content": entry["content"]} for entry in self.dialogue_history]

    def str_dialogue_history(self) -> str:
        """The dialogue as one text, as the human's prompt has it; ends in `agent:`."""
        return dialogue_string(Message(entry["role"], entry["content"]) for entry in self.dialogue_history)

    def invoke_model(self) -> str:
        """Ask the human; "No response." where that fails."""
        prompt = _filled(
            self.human_prompt,
            problem_description=self.problem_description,
            hidden_information=self.hidden_information,
            dialogue_history=self.str_dialogue_history(),
        )
        messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": prompt}]
        return ask(self.client, self.model_id, messages)

    def _consider(self, parsed: ParsedAction) -> None:
        if self.done:
            self.answer = parsed.visible if parsed.answer is None else parsed.answer

    def _reply(self, _parsed: ParsedAction) -> str:
        return self.invoke_model()[:HUMAN_RESPONSE_CHARACTER_LIMIT]


def _filled(template: str, **values: str) -> str:
    """By `str.format`, as published; a template that it refuses has its three places filled."""
    try:
        return template.format(**values)
    except (LookupError, ValueError, AttributeError):
        return fill(template, **values)


def ask(client: Any, model: str, messages: Sequence[Json]) -> str:
    """One chat completion as published; "No response.", with a warning, where the server gives none.

    A server that is down or busy is asked `ATTEMPTS` times. A request that it refuses as bad is not asked
    again. Anything else, a wrong key or a wrong name of a model, is raised.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            reply = client.chat.completions.create(
                model=model, messages=messages, max_tokens=4096, temperature=0
            )
            break
        except Exception as error:
            bad = getattr(error, "status_code", None) == 400
            if not bad and not _may_pass(error):
                raise
            if bad or attempt == ATTEMPTS:
                warnings.warn(f"The human was asked {attempt} times in vain: {error}", stacklevel=2)
                return NO_RESPONSE
        time.sleep(attempt)
    text = reply.choices[0].message.content if reply.choices else None
    if isinstance(text, str):
        return text
    warnings.warn("The human was asked in vain: the server's reply has no text.", stacklevel=2)
    return NO_RESPONSE


def _may_pass(error: Exception) -> bool:
    """Whether asking again may help, told without the package of the client."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in {408, 409, 425, 429} or status >= 500
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, (ConnectionError, TimeoutError)) or "APIConnectionError" in names
