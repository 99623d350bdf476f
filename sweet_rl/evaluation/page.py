"""A comparison as one page that needs neither network nor scripts: numbers, and dialogues side by side.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and the pictures in it, nothing else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from sweet_rl.evaluation import charts, words
from sweet_rl.evaluation.comparison import Comparison, Pairing, Row
from sweet_rl.evaluation.episodes import Episode, rows_at
from sweet_rl.evaluation.sources import Source, Training, facts_of
from sweet_rl.types import NO_ANSWER, Json
from sweet_rl.version import __version__
from sweet_rl.viewer.design import NOT_THERE, Picture, find_picture
from sweet_rl.viewer.report_page import from_template

_LONGEST: Final = 20_000
"""Characters of one message that are shown."""
_LARGEST: Final = 1_000_000
"""Bytes of a picture that becomes part of the page."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message; `code` for what is to stand in a fixed-width face."""

    role: str
    text: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """One run's dialogue about a task."""

    place: int
    label: str
    outcome: str
    good: bool | None
    messages: Sequence[Said]
    picture: str = ""
    no_picture: str = ""


@dataclass(frozen=True, slots=True)
class Both:
    """The dialogues of two runs about the same task."""

    task: str
    request: str
    hidden: str
    sides: Sequence[Side]


def comparison_page(found: Comparison, *, command: str, made: str, dialogues: int) -> str:
    """One HTML page.

    Args:
        found: what is shown.
        command: that makes the page again.
        made: the day.
        dialogues: so many tasks that only the one solves, and as many that only the other does.
    """
    pairs = [
        {
            "pairing": pairing,
            "other": found.labels[pairing.other],
            "headline": words.headline(found, pairing),
            "groups": list(_groups(found, pairing, dialogues)),
        }
        for pairing in found.pairings
    ]
    return _render(
        "comparison.html",
        title=" against ".join(found.labels),
        command=command,
        made=made,
        found=found,
        pairs=pairs,
        facts=_facts(found.sources),
        interval=partial(charts.interval, write=words.signed),
    )


def _facts(sources: Sequence[Source]) -> list[tuple[str, list[str]]]:
    each = [facts_of(source) for source in sources]
    names = dict.fromkeys(name for one in each for name in one)
    return [(name, [one.get(name, "") for one in each]) for name in names]


def trainings_page(trainings: Sequence[Training], labels: Sequence[str], *, command: str, made: str) -> str:
    """The numbers of trainings side by side, each as a chart."""
    step = words.common_step(trainings)
    panels = [
        {
            "name": name,
            "ends": ["" if one is None else f"{one:.4g}" for one in each],
            "chart": charts.curves([training.curves.get(name, []) for training in trainings], name),
        }
        for name, each in words.numbers_at(step, trainings).items()
    ]
    return _render(
        "trainings.html",
        title=" against ".join(labels),
        command=command,
        made=made,
        labels=labels,
        panels=panels,
        step=f"{step:,g}",
        steps=[f"{training.last_step:,g}" for training in trainings],
    )


def _render(template: str, **given: Any) -> str:
    return from_template(
        "sweet_rl.evaluation", template, style="comparison.css", version=__version__, words=words, **given
    )


def _groups(found: Comparison, pairing: Pairing, most: int) -> Iterator[dict[str, Any]]:
    """What only the first solves, and what only the other one does, with dialogues."""
    success = pairing.rows[0].unit == "success"
    reward = pairing.rows[1 if success else 0]
    sources = (found.sources[0], found.sources[pairing.other])
    labels = (found.labels[0], found.labels[pairing.other])
    for place, tasks in enumerate((pairing.only_ours, pairing.only_theirs)):
        if tasks:
            heading = f"Only {labels[place]} solves" if success else f"{labels[place]} is better"
            shown = list(_dialogues(sources, labels, (0, pairing.other), tasks[:most], reward, better=place))
            yield {"heading": heading, "number": len(tasks), "tasks": shown}


def _dialogues(
    sources: Sequence[Source],
    labels: Sequence[str],
    places: Sequence[int],
    tasks: Sequence[str],
    reward: Row,
    *,
    better: int,
) -> Iterator[Both]:
    chosen = [_best(source, tasks, best=side == better) for side, source in enumerate(sources)]
    rows = [_rows(source, one) for source, one in zip(sources, chosen, strict=True)]
    for task in tasks:
        if any(task not in one for one in rows):
            continue
        of_task = rows[0][task].get("task") or {}
        sides = [
            _side(place, label, one[task], episodes[task], reward, source.path.parent)
            for place, label, one, episodes, source in zip(places, labels, rows, chosen, sources, strict=True)
        ]
        hidden = of_task.get("hidden_information") or of_task.get("ground_truth") or ""
        yield Both(task, str(of_task.get("problem_description", "")), _short(hidden), sides)


def _best(source: Source, tasks: Sequence[str], *, best: bool) -> dict[str, Episode]:
    """Of each task the repeat with the highest reward, or the lowest."""
    wanted, chosen = set(tasks), dict[str, Episode]()
    for one in source.episodes.episodes:
        if one.task in wanted and one.reward is not None:
            known = chosen.get(one.task)
            if (
                known is None
                or known.reward is None
                or (one.reward > known.reward if best else one.reward < known.reward)
            ):
                chosen[one.task] = one
    return chosen


def _rows(source: Source, chosen: Mapping[str, Episode]) -> dict[str, Mapping[str, Json]]:
    return dict(zip(chosen, rows_at(source.path, [one.offset for one in chosen.values()]), strict=True))


def _side(
    place: int, label: str, row: Mapping[str, Json], episode: Episode, reward: Row, folder: Path
) -> Side:
    percent = "" if reward.unit == "number" else " %"
    text = f"{reward.name} {words.value(episode.reward, reward.unit)}{percent}, {words.turns(episode.turns)}"
    if episode.success is not None:
        text = f"{'solved' if episode.success else 'not solved'}, {text}"
    good = None if episode.success is None else bool(episode.success)
    messages = [_said(entry) for entry in row.get("dialogue_history") or [] if isinstance(entry, Mapping)]
    return Side(place, label, text, good, messages[1:], *_picture(row, folder))


def _said(entry: Mapping[str, Json]) -> Said:
    text = _short(entry.get("content", ""))
    return Said(
        str(entry.get("role", "")),
        text,
        code="\n" in text and ("def " in text or "<" in text or "```" in text),
    )


def _short(text: Json) -> str:
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return (
        shown
        if len(shown) <= _LONGEST
        else f"{shown[:_LONGEST]}\n[{len(shown) - _LONGEST:,} characters more]"
    )


def _picture(row: Mapping[str, Json], folder: Path) -> tuple[str, str]:
    """What was handed in as a picture, as a data URL, or why it is not shown; neither where it is none."""
    answer = row.get("answer")
    if not isinstance(answer, str) or answer == NO_ANSWER or not answer.endswith(".png"):
        return "", ""
    found = find_picture(answer, folder)
    data = found.read() if isinstance(found, Picture) else None
    if data is None:
        return "", found if isinstance(found, str) else NOT_THERE
    if len(data) > _LARGEST:
        return "", f"The picture is too large for this page: {len(data) / 1e6:.1f} MB."
    return f"data:image/png;base64,{base64.b64encode(data).decode()}", ""
