"""The prompt of a simulated human, written and read back.

Writing it is what a client does for any model behind any server. Reading it back is what a
server without a model does to know what such a model would know: from the sections that the packaged prompt
marks.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

from sweet_rl.prompts.templates import fill
from sweet_rl.types import Message, Role, UserContext

PLACEHOLDERS: Final = ("problem_description", "hidden_information", "dialogue_history")

_SEPARATOR: Final = "\n\n\n\n"
_CLOSING: Final = "agent:"
_ENTRY: Final = re.compile(rf"(?:\A|(?<={_SEPARATOR}))(system|user|assistant):")
_SECTIONS: Final = ("request", "hidden_information", "dialogue")


def dialogue_string(messages: Iterable[Message]) -> str:
    """The dialogue as the published simulator is shown it: `role:content` entries, then `agent:`."""
    return "".join(f"{message.role}:{message.content}{_SEPARATOR}" for message in messages) + _CLOSING


def simulator_prompt(template: str, context: UserContext) -> str:
    """The template with everything that the human may know."""
    return fill(
        template,
        problem_description=context.problem_description,
        hidden_information=context.hidden_information,
        dialogue_history=dialogue_string(context.messages),
    )


def parse_simulator_prompt(text: str) -> UserContext:
    """Read back what `simulator_prompt` put into the packaged template.

    Sections are looked for in their order, each behind the one before it. A message that itself contains
    four newlines and then a role and a colon is read as two.

    Raises:
        ValueError: sections are missing; names them.
    """
    found: dict[str, str] = {}
    for name in _SECTIONS:
        _, opening, inside = text.partition(f"<{name}>\n")
        # A section ends at the first closing tag, but the dialogue, the last one, at the last: what an agent
        # writes can neither end it nor pass for an earlier section.
        if name == "dialogue":
            content, closing, behind = inside.rpartition(f"\n</{name}>")
        else:
            content, closing, behind = inside.partition(f"\n</{name}>\n")
        if opening and closing:
            found[name], text = content, behind
    missing = [f"<{name}>" for name in _SECTIONS if name not in found]
    if missing:
        raise ValueError(
            f"the prompt has no {', '.join(missing)} section. The scripted human knows only what is in "
            "the marked sections of the packaged prompt: use that one (leave --user_prompt_path out) or mark "
            "<request>, <hidden_information> and <dialogue> in your own, in this order, each opening and "
            "closing tag on a line of its own."
        )
    return UserContext(found["request"], found["hidden_information"], tuple(_messages(found["dialogue"])))


def _messages(dialogue: str) -> Iterable[Message]:
    _, *pieces = _ENTRY.split(dialogue.removesuffix(_CLOSING))
    for role, content in zip(pieces[::2], pieces[1::2], strict=True):
        yield Message(cast(Role, role), content.removesuffix(_SEPARATOR))
