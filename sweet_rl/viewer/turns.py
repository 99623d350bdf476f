"""The viewer for turns with sampled candidates, scored by a critic or not: what else might have been said."""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.types import Json
from sweet_rl.viewer.content import Contents, Kind, summary_of

Row = Mapping[str, Json]


class TurnContents(Contents[Row]):
    """Rows of a sampled or a ranked file; see `content.Contents`."""

    kind: Kind = "turns"

    @classmethod
    def entry(cls, item: Row) -> dict[str, Json]:
        """As in the contract; `spread` is the distance of the best score from the worst."""
        turn = read_turn(item)
        scores = [score for score in turn.scores or () if score is not None]
        return {
            "task": turn.key[0],
            "summary": summary_of(turn.before[0].content if turn.before else turn.prompt),
            "repeat": turn.key[1] if "sample_index" in item else None,
            "turn": turn.key[2],
            "reward": _number(item.get("reward")),
            "stop": "scored" if scores else "sampled",
            "turns": len(turn.candidates),
            "failures": int(item.get("error") is not None),
            "spread": max(scores) - min(scores) if scores else None,
        }

    @classmethod
    def text(cls, item: Row) -> str:
        """The dialogue before the turn, and what may follow."""
        turn = read_turn(item)
        said = [message.content for message in turn.before]
        return "\n".join([*said, *(candidate.text for candidate in turn.candidates)])

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract."""
        item = self.items[position]
        turn = read_turn(item)
        return {
            "task_id": turn.key[0],
            "repeat": turn.key[1],
            "turn": turn.key[2],
            "description": turn.before[0].content if turn.before else "",
            "messages": [{"role": one.role, "content": one.content} for one in turn.before],
            "prompt": turn.prompt,
            "taken": str(item.get("older_output") or ""),
            "hidden": turn.ground_truth,
            "reward": _number(item.get("reward")),
            "candidates": alternatives(turn),
            "error": item.get("error"),
            "provenance": {name: item[name] for name in ("ranking", "sampling") if name in item},
        }


def alternatives(turn: Candidates) -> list[dict[str, Json]]:
    """The candidates of a turn as the page shows them."""
    scores = turn.scores or [None] * len(turn.candidates)
    return [
        {"text": one.text, "score": score, "logprob": one.mean, "cut": one.cut}
        for one, score in zip(turn.candidates, scores, strict=True)
    ]


def read_turn(item: Row) -> Candidates:
    """A row of a sampled or ranked file.

    Raises:
        DataError: it is none.
    """
    (turn,) = candidates_from_rows([(0, item)])
    return turn


def _number(value: Json) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
