"""Prompts of models: packaged templates, and the simulated human's prompt, written and read back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, cast

from sweet_rl.errors import UsageError
from sweet_rl.types import Message, Role, UserContext


def load_prompt(name_or_path: str) -> str:
    """The text of a packaged template (with or without `.txt`; "reflect/react_act") or of a file.

    Packaged are those here and those in the worlds' folders; no two have the same name.
    """
    package = resources.files("sweet_rl")
    folders = [package / "prompts", package / "prompts/reflect"]
    folders += [folder / "prompts" for folder in (package / "worlds").iterdir()]
    packaged = {
        f"reflect/{file.name}" if folder.name == "reflect" else file.name: file
        for folder in folders
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".txt")
    }
    for name in (name_or_path, f"{name_or_path}.txt"):
        if name in packaged:
            return packaged[name].read_text(encoding="utf-8")
    try:
        return Path(name_or_path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"There is no prompt file {name_or_path!r}. Give a path, or one of the packaged templates: "
            f"{', '.join(sorted(packaged))}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the prompt file {name_or_path!r}: {error}.") from error


@cache
def packaged_text(name: str) -> str:
    """A packaged template without blank ends, looked for once: for texts that every step needs."""
    return load_prompt(name).strip()


def prompt_digest(text: str) -> str:
    """The first 12 hexadecimal digits of a text's SHA-256, which identify a prompt."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fill(template: str, **values: str) -> str:
    """Replace `{name}` by its value for exactly the given names, in one pass.

    Values are inserted as they are, braces and placeholders in them included; all other braces of the
    template stay (the published `str.format` fails on them).
    """
    if not values:
        return template
    pattern = "|".join(re.escape("{" + name + "}") for name in values)
    return re.sub(pattern, lambda match: values[match.group()[1:-1]], template)


def check_placeholders(template: str, names: Sequence[str], path: str) -> None:
    """Make sure that a template has all places it is going to be filled at."""
    if missing := [f"{{{name}}}" for name in names if f"{{{name}}}" not in template]:
        raise UsageError(
            f"The prompt {path!r} lacks {', '.join(missing)}. Put each placeholder where its text belongs."
        )


PLACEHOLDERS: Final = ("problem_description", "hidden_information", "dialogue_history")

_SEPARATOR, _CLOSING = "\n\n\n\n", "agent:"
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
    """
    found: dict[str, str] = {}
    for name in _SECTIONS:
        _, opening, inside = text.partition(f"<{name}>\n")
        content, closing, behind = inside.partition(f"\n</{name}>\n")
        if name == "dialogue":  # ends at the last closing tag: what an agent writes can neither end it ...
            content, closing, behind = inside.rpartition(
                f"\n</{name}>"
            )  # ... nor pass for an earlier section
        if opening and closing:
            found[name], text = content, behind
    if missing := [f"<{name}>" for name in _SECTIONS if name not in found]:
        raise ValueError(
            f"the prompt has no {', '.join(missing)} section. The scripted human knows only what is in "
            "the marked sections of the packaged prompt: use that one (leave --user_prompt_path out) or mark "
            "<request>, <hidden_information> and <dialogue> in your own, in this order, each opening and "
            "closing tag on a line of its own."
        )
    _, *pieces = _ENTRY.split(found["dialogue"].removesuffix(_CLOSING))
    messages = (
        Message(cast(Role, role), content.removesuffix(_SEPARATOR))
        for role, content in zip(pieces[::2], pieces[1::2], strict=True)
    )
    return UserContext(found["request"], found["hidden_information"], tuple(messages))
