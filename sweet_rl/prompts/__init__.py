"""Prompts of models: packaged templates, and the simulated human's prompt, written and read back."""

from sweet_rl.prompts.simulator import (
    PLACEHOLDERS,
    dialogue_string,
    parse_simulator_prompt,
    simulator_prompt,
)
from sweet_rl.prompts.templates import check_placeholders, fill, load_prompt, packaged_text, prompt_digest

__all__ = [
    "PLACEHOLDERS",
    "check_placeholders",
    "dialogue_string",
    "fill",
    "load_prompt",
    "packaged_text",
    "parse_simulator_prompt",
    "prompt_digest",
    "simulator_prompt",
]
