"""The viewer for preference pairs: what was preferred beside what was rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sweet_rl.errors import DataError
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
