"""What a browser is shown of pairs, and of turns with their candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sweet_rl.errors import DataError
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.types import Json, digest
from sweet_rl.viewer.content import Contents, Kind, summary_of

Row = Mapping[str, Json]
_SHOWN = ("prompt", "chosen", "rejected")
_MARKS = re.compile(r"<\|[^|<>]{1,40}\|>")  # of chat templates


class PairContents(Contents[Row]):
    """Rows of a file of preference pairs; see `content.Contents`."""

    kind: Kind = "pairs"

    @classmethod
    def entry(cls, item: Row) -> dict[str, Json]:
        """As in the contract; `guard` says why a row stands in the file that is no pair of two candidates."""
        before, chosen, rejected = _sides(item)
        return {
            "task": str(item.get("task_id") or digest([before])),
            "summary": summary_of(_MARKS.sub(" ", f"{chosen[:1000]} ↔ {rejected[:1000]}")),
            "repeat": None,
            "reward": None,
            "stop": str(item.get("guard") or "pair"),
            "turns": len(chosen) - len(rejected),
            "failures": 0,
        }

    @classmethod
    def text(cls, item: Row) -> str:
        """All of it."""
        return "\n".join(_sides(item))

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract; `before` is what both sides begin with."""
        item = self.items[position]
        before, chosen, rejected = _sides(item)
        return {
            "task_id": str(item.get("task_id") or digest([before])),
            "repeat": 0,
            "description": "",
            "before": before,
            "chosen": chosen,
            "rejected": rejected,
            "reward": None,
            "provenance": {name: value for name, value in item.items() if _is_small(name, value)},
        }


def _sides(item: Row) -> tuple[str, str, str]:
    """What comes before, and the two sides behind it; with what both begin with taken out of these."""
    chosen, rejected = _text(item, "chosen"), _text(item, "rejected")
    if item.get("prompt"):
        return _text(item, "prompt"), chosen, rejected
    shared = next(
        (place for place, (one, other) in enumerate(zip(chosen, rejected, strict=False)) if one != other),
        min(len(chosen), len(rejected)),
    )
    cut = chosen.rfind("\n", 0, shared) + 1
    return chosen[:cut], chosen[cut:], rejected[cut:]


def _text(item: Row, side: str) -> str:
    """A side as a text; it may be a list of messages, or an object of input and output."""
    value = item.get(side)
    if isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
        value = "\n\n".join(f"{message.get('role')}: {_content(message.get('content'))}" for message in value)
    if isinstance(value, Mapping):
        value = f"{value.get('input', '')}{value.get('output', '')}"
    if not isinstance(value, str):
        raise DataError(
            "must be a string", field=side, value=value, repair="A pair has two texts, or lists of messages."
        )
    return value


def _content(content: Json) -> str:
    """A message's text; a picture in it is named."""
    if not isinstance(content, list):
        return str(content)
    return "".join(
        str(part.get("text", "[picture]")) if isinstance(part, Mapping) else str(part) for part in content
    )


def _is_small(name: str, value: Json) -> bool:
    return name not in _SHOWN and not isinstance(value, (list, dict))


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
