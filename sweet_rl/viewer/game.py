"""The viewer for worlds that reward turns: games, shops, adventures, with every turn's reward."""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.types import AgentTurn, Json, Trajectory
from sweet_rl.viewer.content import Contents, Kind, entry_of, row_of, summary_of, text_of


class GameContents(Contents[Trajectory]):
    """Trajectories whose turns carry rewards; see `content.Contents`."""

    kind: Kind = "game"

    @classmethod
    def entry(cls, item: Trajectory) -> dict[str, Json]:
        """As in the contract; `truncated` says whether a row was cut short, None where that is unknown.

        A task goes by its `name_of`: descriptions are often the same in all of them.
        """
        return entry_of(item) | {
            "summary": summary_of(name_of(item)),
            "truncated": None if item.stop_reason is None else item.stop_reason.truncated,
        }

    @classmethod
    def text(cls, item: Trajectory) -> str:
        """The dialogue, the name and the answer of one trajectory."""
        return f"{text_of(item)}\n{name_of(item)}\n{item.answer or ''}"

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract; `name` is the task's, `answer` what the agent ended with, if anything."""
        trajectory = self.items[position]
        return row_of(trajectory) | {"name": name_of(trajectory), "answer": trajectory.answer}


def rewards_turns(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any of them comes from a world that rewards turns."""
    return any(
        isinstance(message, AgentTurn) and message.reward is not None
        for trajectory in trajectories
        for message in trajectory.dialogue_history
    )


def name_of(trajectory: Trajectory) -> str:
    """The title of a task: the errand, or the hidden information; without either, the description."""
    task = trajectory.task
    errand = task.row.get("instruction") or trajectory.extra.get("instruction")
    for text in (errand, task.row.get("hidden_information")):
        if isinstance(text, str) and text.strip():
            return text
    return f"{task.task_id}: {task.problem_description}"
