"""How worlds of labels look to the two models of Reflect-RL: markers, labels, and the texts made of them.

A world's prompt ends with the list of actions, which begins at the world's action head. The reflection model
reads what stands before the head and writes after the analyse marker; the policy reads all of it and the
list, and writes one label after the action marker. Nothing here knows a
world or a model: training texts, training games and evaluation are all written by these functions.

Published behaviour: docs/published/reflect_rl.md#two-models, #episodes, #deviations.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Final, NamedTuple

CHOICES: Final[tuple[str, ...]] = (*map(str, range(200)), *string.ascii_lowercase, *string.ascii_uppercase)
"""The 252 action labels in their order; each is a single token of GPT-2, alone and after a line break."""

ANALYSE_MARKER: Final = " # Analyze:\n"
"""Behind it the reflection model writes. The leading blank keeps its tokens the same in every context."""

ACTION_MARKER: Final = " # Action:\n"
"""Behind it the policy writes its label."""

REFLECTION_END: Final = "# Action:"
"""A reflection that continues with an action is cut here."""

_OFFER: Final = re.compile(r"^(?:Action )?(\w+)[.:] (.+)$", re.MULTILINE)
"""A line of a list of actions: `3. cd lib`, or `Action 3: go to shelf 1`."""


class PromptParts(NamedTuple):
    """A prompt cut in two: what the reflection model may see, and the list of actions with its head, if any."""

    before: str
    after: str


class SftTexts(NamedTuple):
    """The three training texts of one step."""

    plain: str  # a policy's that acts without reflecting: prompt, action marker, label
    reflection: str  # the reflection model's: what stands before the list, analyse marker, reflection
    policy: str  # the policy's that reads a reflection: the text above, the list, action marker, label


def split_prompt(text: str, head: str | None) -> PromptParts:
    """Cut a state's prompt where its list of actions begins: at the last `head` (`World.learning.head`) in it."""
    at = text.rfind(head) if head else -1
    return PromptParts(text, "") if at < 0 else PromptParts(text[:at], text[at:])


def offered_commands(text: str, head: str | None) -> dict[str, str]:
    """The commands on offer in a prompt, or in its list of actions, by their labels, in order."""
    return dict(_OFFER.findall(split_prompt(text, head).after))


def reflection_prompt(text: str, head: str | None, *, instruction: str = "") -> str:
    """What the reflection model is given: an `instruction` on its own line, all but the actions, the analyse marker."""
    front = f"{instruction}\n" if instruction else ""
    return f"{front}{split_prompt(text, head).before}{ANALYSE_MARKER}"


def cut_reflection(written: str) -> str:
    """What of the reflection model's text is the reflection: all up to where it begins to act."""
    return written.partition(REFLECTION_END)[0]


def policy_prompt(
    text: str, head: str | None, reflection: str | None = None, *, instruction: str = ""
) -> str:
    """What the policy is given; behind it comes the label.

    The `reflection` is "" where none was asked for; None, without marker and instruction, where the agent has none.
    """
    if reflection is None:
        return f"{text}{ACTION_MARKER}"
    before = reflection_prompt(text, head, instruction=instruction)
    return f"{before}{reflection}{split_prompt(text, head).after}{ACTION_MARKER}"


def sft_texts(text: str, head: str | None, reflection: str, label: str, *, instruction: str = "") -> SftTexts:
    """The training texts of one step: exactly what games and evaluation show, and the target."""
    return SftTexts(
        plain=f"{policy_prompt(text, head)}{label}",
        reflection=f"{reflection_prompt(text, head, instruction=instruction)}{reflection}",
        policy=f"{policy_prompt(text, head, reflection, instruction=instruction)}{label}",
    )


def resolve_label(text: str, offered: Mapping[str, str]) -> str | None:
    """The label that an agent meant, by itself, as the list writes it (`1. id x`), or by its command; None for no label."""
    text = text.strip()
    known = next((label for label, command in offered.items() if text == command), None)
    label = text.strip(".").partition(".")[0].strip()
    return known if known is not None else label if label in offered else None
