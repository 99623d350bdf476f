"""`sweet_rl.environments.human_design_interaction_env`: a dialogue about a page (docs/export_and_credit.md).

Published behaviour: docs/published/sweet_rl.md#frontend-design, #in-episodes.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from sweet_rl.prompts import fill
from sweet_rl.types import is_answer
from sweet_rl.users.model import DATA_URLS, vision_content
from sweet_rl.worlds.dialogue import ParsedAction

from ..utils.webpage_utils import extract_html_snippet, get_driver, render_full_html
from .human_interaction_env import HumanInteractionEnv, View, ask

HUMAN_RESPONSE_CHARACTER_LIMIT = 1000
"""Characters of a reply that the agent gets to see."""


class HumanDesignInteractionEnv(HumanInteractionEnv):
    """As `HumanInteractionEnv`; the human sees the agent's page beside the one that is wanted.

    The answer is the picture of the agent's last page: None where that one could not be drawn, as published. The
    model has to see pictures, and its prompt has no `{hidden_information}`. Pictures stay in `temp_path`, under names
    that begin with `env_id`; with `gpt_client` they are written as OpenAI's servers take them, not as vLLM's. `driver`
    draws the pages: `driver.quit()` when the environment is no longer needed.
    """

    def __init__(
        self,
        client: Any,
        human_prompt: str,
        model_id: str,
        env_id: int = 0,
        max_steps: int = 10,
        temp_path: str = "~/.cache",
        gpt_client: bool = False,
    ) -> None:
        super().__init__(client, human_prompt, model_id, env_id, max_steps)
        self.temp_path, self.gpt_client = temp_path, gpt_client
        self.driver = get_driver()
        self._target: str | None = None

    def reset(self, problem_description: str, hidden_information: str) -> View:
        """Begin an episode about the page whose source is given; returns the agent's view: the request."""
        view = super().reset(problem_description, hidden_information)
        target = render_full_html(self.driver, hidden_information, self.temp_path, self.env_id)
        self._target = encode_image(target, self.gpt_client) if target else None
        return view

    def step(self, response: str, formatted_prompt: str | None = None) -> tuple[View | None, int, bool]:
        """As in `HumanInteractionEnv`; over at once where the page that is wanted could not be drawn."""
        self.done = self.done or self._target is None
        return super().step(response, formatted_prompt)

    def invoke_model(self, agent_output: str = "", agent_image: str | None = None) -> str:
        """Show the human the pictures and ask what it says; "No response." where that fails.

        `agent_image` is a PNG file; None: there is none yet. The published human is not told what the agent said.
        """
        prompt = fill(
            self.human_prompt,
            problem_description=self.problem_description,
            dialogue_history=self.str_dialogue_history(),
        )
        draft = encode_image(agent_image, self.gpt_client) if agent_image else None
        content = vision_content(prompt, target=self._target or "", draft=draft)
        return ask(self.client, self.model_id, [{"role": "user", "content": content}])

    def _consider(self, parsed: ParsedAction) -> None:
        html = extract_html_snippet(parsed.visible)[1]
        if html is not None:
            self.answer = render_full_html(self.driver, html, self.temp_path, self.env_id)

    def _reply(self, parsed: ParsedAction) -> str:
        image = self.answer if is_answer(self.answer) else None
        return self.invoke_model(parsed.visible, image)[:HUMAN_RESPONSE_CHARACTER_LIMIT]


def encode_image(image_path: str, gpt_client: bool = False) -> str:
    """A PNG file as the address of a picture in a request, as published for vLLM or for OpenAI."""
    data = base64.b64encode(Path(image_path).read_bytes()).decode("ascii")
    return DATA_URLS["jpeg" if gpt_client else "vllm"] + data
