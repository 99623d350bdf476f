"""The shared part of the two worlds of ColBench: an agent asks a simulated human, and submits an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from sweet_rl.flags import flag
from sweet_rl.types import Json
from sweet_rl.worlds.base import Answerer, World
from sweet_rl.worlds.options import Options

HUB_REPOSITORY: Final = "facebook/collaborative_agent_bench"
"""Where ColBench is."""


def published_data(path: Path) -> str:
    """The line that fetches ColBench, so that one of its files lies at the path."""
    folder = path.parent.parent if path.parent.name == "backend_tasks" else path.parent
    return f"hf download {HUB_REPOSITORY} --repo-type dataset --local-dir {folder} (docs/training.md)"


@dataclass(frozen=True, kw_only=True)
class DialogueOptions(Options):
    """Options of dialogues with a simulated human."""

    parser: Literal["published", "fixed"] = flag(
        "published",
        "how the agent's text is read: published (compares with released data) or fixed (an announced answer "
        "always counts).",
    )
    user_failure: Literal["stop", "reply"] = flag(
        "stop",
        "when the human cannot be asked: stop (the episode has failed: it has no score and can be played again) "
        'or reply (the published "No response.", recorded).',
    )

    def __post_init__(self) -> None:
        if str(self.parser) == "strict":  # its name in earlier command lines
            object.__setattr__(self, "parser", "fixed")
        super().__post_init__()


class Dialogue(World):
    """Subclasses define the answer."""

    max_turns = 10
    options = DialogueOptions
    answered_by: ClassVar[Answerer] = "human"

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        """Whether it passed all tests."""
        return reward == 1

    def settings(self, options: Options) -> dict[str, Json]:
        """As rows of these worlds have always had them."""
        settings: dict[str, Json] = {"task_type": self.name, "max_steps": self.turns(options)}
        if isinstance(options, DialogueOptions):
            settings |= {"parser": options.parser, "user_failure": options.user_failure}
        return settings
