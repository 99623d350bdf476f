"""The prompt of a simulated human, written and read back.

Writing it is what a client does for any model behind any server (spec §3.2). Reading it back is what a
server without a model does to know what such a model would know: from the sections that the packaged prompt
marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

from sweet_rl.prompts import fill
from sweet_rl.types import Message, Role, UserContext

PLACEHOLDERS: Final = ("problem_description", "hidden_information", "dialogue_history")

_SEPARATOR: Final = "\n\n\n\n"
_CLOSING: Final = "agent:"
_SECTIONS: Final = ("request", "hidden_information", "dialogue")
_ENTRY: Final = re.compile(rf"(?:\A|(?<={_SEPARATOR}))(system|user|assistant):")


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

    Sections are taken in their order, so nothing in the dialogue, where an agent may have written anything,
    can pass for an earlier section. A message that itself contains four newlines and a role is read as two.

    Raises:
        ValueError: sections are missing; names them.
    """
    missing = [f"<{name}>" for name in _SECTIONS if f"<{name}>\n" not in text]
    if missing:
        raise ValueError(
            f"the prompt has no {', '.join(missing)} section. The scripted human knows only what stands in "
            "the marked sections of the packaged prompt: use that one (leave --user_prompt_path out) or mark "
            "request, hidden information and dialogue in your own in the same way."
        )
    request, rest = _section(text, "request")
    hidden, rest = _section(rest, "hidden_information")
    start = rest.index("<dialogue>\n") + len("<dialogue>\n")
    end = rest.rfind("\n</dialogue>")
    return UserContext(request, hidden, tuple(_messages(rest[start : end if end >= start else None])))


def _section(text: str, name: str) -> tuple[str, str]:
    _, _, rest = text.partition(f"<{name}>\n")
    content, _, rest = rest.partition(f"\n</{name}>\n")
    return content, rest


def _messages(dialogue: str) -> Iterable[Message]:
    _, *pieces = _ENTRY.split(dialogue.removesuffix(_CLOSING))
    for role, content in zip(pieces[::2], pieces[1::2], strict=True):
        yield Message(cast(Role, role), content.removesuffix(_SEPARATOR))
