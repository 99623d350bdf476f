"""The stages that only Frontend Design has: where its tasks come from, and runs compared page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.command_line.listing import StageEntry

_HERE: Final = "sweet_rl.worlds.frontend_design.stages"

STAGES: Final[Mapping[str, StageEntry]] = {
    "prepare_websight": StageEntry(
        f"{_HERE}.prepare_websight:prepare_websight",
        "Make frontend tasks of WebSight, from the hub or from files.",
    ),
    "filter_websites": StageEntry(
        f"{_HERE}.filter_websites:filter_websites",
        "Keep the frontend tasks whose page renders; say why the others do not.",
    ),
    "judge_html": StageEntry(
        f"{_HERE}.judge_html:judge_html",
        "Compare two runs of Frontend Design page by page; print the win rate.",
    ),
}
"""What is typed behind `sweet-rl`."""
