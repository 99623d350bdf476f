"""What a run is worth, or which of two is better, as one page that needs neither network nor scripts.

Numbers, and dialogues of those tasks that explain them. What models wrote is escaped (`sweet_rl.viewer.export`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from sweet_rl.evaluation import comparison as words
from sweet_rl.evaluation.comparison import Comparison, Pairing, Row, facts_of
from sweet_rl.evaluation.episodes import Episode, Episodes, rows_at
from sweet_rl.evaluation.report import Report, Unit, value
from sweet_rl.types import FinishReason, Json, is_answer
from sweet_rl.version import __version__
from sweet_rl.viewer.design import NOT_THERE, Picture, find_picture
from sweet_rl.viewer.export import from_template

_LONGEST: Final = 20_000  # characters of one message that are shown
_LARGEST: Final = 1_000_000  # bytes of a picture that becomes part of the page
_EXAMPLES: Final = 3  # dialogues of each category of a report

_FLAWS: Final = {
    FinishReason.LENGTH: "cut off by the token limit",
    FinishReason.REFUSED: "refused",
    FinishReason.TOOL_CALLS: "a tool call instead of text",
}
_render = partial(from_template, "sweet_rl.evaluation", style="pages.css", version=__version__, words=words)


def report_page(report: Report, found: Episodes, *, command: str, made: str, folder: Path) -> str:
    """The report on one run as an HTML page, with some dialogues of each category; `folder` is the run's."""
    graded = next((line for line in report.lines if line.name not in {"success", "turns", "questions"}), None)
    groups = []
    for category in report.categories:
        shown = category.episodes[:_EXAMPLES]
        rows = [] if found.path is None else rows_at(found.path, [one.offset for one in shown])
        tasks = []
        for one, row in zip(shown, rows, strict=False):
            name, unit = ("reward", "number") if graded is None else (graded.name, graded.unit)
            side = _side(-1, category.name, row, one, name, unit, folder)
            tasks.append(_task(one.task, row, [side], one.why))
        groups.append({"category": category, "tasks": tasks})
    about = [
        (role, [(name, _fact(value)) for name, value in known.items() if value not in ("", None, [], {})])
        for role, known in report.about.items()
        if known
    ]
    first = report.lines[0]
    tables = (
        ("Numbers", [(one.name, one) for one in report.lines]),
        (f"{first.name.capitalize()} by family", list(report.families.items())),
        ("Floors and ceilings", report.of_bounds()),
    )
    return _render(
        "report.html",
        title=report.title,
        command=command,
        made=made,
        report=report,
        tables=[(heading, lines) for heading, lines in tables if lines],
        groups=groups,
        about=about,
        folder=folder,
        first=first,
        bar=_bar,
    )


def _fact(value: Json) -> str | list[str]:
    """A setting for people; a list of sentences stays one."""
    if isinstance(value, list):
        return [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in value]
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(one)}" for name, one in value.items() if one not in ("", None))
    return str(value)


def _bar(mean: float, low: float | None = None, high: float | None = None) -> Markup:
    """A share between 0 and 1, with its interval."""
    parts = [
        f'<svg class="bar" aria-hidden="true"><rect class="whole" width="100%" height="100%" rx="3"/>'
        f'<rect class="part" width="{100 * mean:.2f}%" height="100%" rx="3"/>'
    ]
    if low is not None and high is not None:
        parts.append(f'<line x1="{100 * low:.2f}%" x2="{100 * high:.2f}%" y1="50%" y2="50%"/>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - numbers


def comparison_page(found: Comparison, *, command: str, made: str, dialogues: int) -> str:
    """A comparison as an HTML page, with so many tasks that only the one solves, and as many of the other."""
    pairs = [
        {
            "pairing": pairing,
            "other": found.labels[pairing.other],
            "headline": words.headline(found, pairing),
            "groups": list(_groups(found, pairing, dialogues)),
        }
        for pairing in found.pairings
    ]
    facts = [facts_of(source) for source in found.sources]
    names = dict.fromkeys(name for one in facts for name in one)
    return _render(
        "comparison.html",
        title=" against ".join(found.labels),
        command=command,
        made=made,
        found=found,
        pairs=pairs,
        facts=[(name, [one.get(name, "") for one in facts]) for name in names],
        interval=partial(_interval, write=words.signed),
    )


# ---- dialogues


def _groups(found: Comparison, pairing: Pairing, most: int) -> Iterator[dict[str, Any]]:
    """What only the first solves, and what only the other one does, with dialogues."""
    success = pairing.rows[0].unit == "success"
    reward = pairing.rows[1 if success else 0]
    places = (0, pairing.other)
    for better, tasks in enumerate((pairing.only_ours, pairing.only_theirs)):
        if not tasks:
            continue
        shown, of_runs = tasks[:most], []
        for side, place in enumerate(places):
            source, wanted = found.sources[place], set(shown)
            chosen = dict[str, Episode]()  # of each task the repeat with the highest reward, or the lowest
            for one in source.episodes.episodes:
                if one.task in wanted and one.reward is not None:
                    known = chosen.setdefault(one.task, one).reward or 0.0
                    if one.reward > known if side == better else one.reward < known:
                        chosen[one.task] = one
            rows = rows_at(source.path, [one.offset for one in chosen.values()])
            of_runs.append({task: (chosen[task], row) for task, row in zip(chosen, rows, strict=True)})
        label = found.labels[places[better]]
        dialogues = []
        for task in shown:
            if all(task in one for one in of_runs):
                about = reward.name, reward.unit
                sides = [
                    _side(place, found.labels[place], row, one, *about, found.sources[place].path.parent)
                    for place, (one, row) in zip(places, (each[task] for each in of_runs), strict=True)
                ]
                dialogues.append(_task(task, of_runs[0][task][1], sides))
        heading = f"Only {label} solves" if success else f"{label} is better"
        yield {"heading": heading, "number": len(tasks), "tasks": dialogues}


def _task(name: str, row: Mapping[str, Json], sides: Sequence[Json], why: str = "") -> dict[str, Any]:
    """A task as `parts.html` shows it, with a dialogue of each run."""
    task = row.get("task") or {}
    hidden = task.get("hidden_information") or task.get("ground_truth") or ""
    request = _short(task.get("problem_description", ""))
    return {"task": name, "request": request, "hidden": _short(hidden), "sides": sides, "why": _short(why)}


def _side(
    place: int, label: str, row: Mapping[str, Json], episode: Episode, name: str, unit: str, folder: Path
) -> dict[str, Any]:
    """A dialogue as `parts.html` shows it."""
    text = words.turns(episode.turns)
    if episode.reward is not None:
        shown = value(episode.reward, "number" if unit == "number" else "share")
        text = f"{name} {shown}{'' if unit == 'number' else ' %'}, {text}"
    if episode.success is not None:
        text = f"{'solved' if episode.success else 'not solved'}, {text}"
    messages: list[dict[str, Any]] = []
    for entry in row.get("dialogue_history") or []:
        if isinstance(entry, Mapping):
            said = _short(entry.get("content", ""))
            flaw = _FLAWS.get(entry.get("finish_reason"), "")  # type: ignore[arg-type]
            if not said.strip() and entry.get("thoughts"):
                flaw = f"{flaw or 'no reply'} behind {len(str(entry['thoughts'])):,} characters of thoughts"
            code = "\n" in said and ("def " in said or "<" in said or "```" in said)
            messages.append({"role": entry.get("role"), "text": said, "code": code, "flaw": flaw})
    picture, no_picture = _picture(row, folder)
    return {
        "place": place,
        "label": label,
        "outcome": text,
        "tone": {1.0: " good", 0.0: " bad"}.get(episode.success, ""),  # type: ignore[arg-type]
        "messages": messages[1:],
        "picture": picture,
        "no_picture": no_picture,
    }


def _short(text: Json) -> str:
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    more = len(shown) - _LONGEST
    return shown if more <= 0 else f"{shown[:_LONGEST]}\n[{more:,} characters more]"


def _picture(row: Mapping[str, Json], folder: Path) -> tuple[str, str]:
    """What was handed in as a picture, as a data URL, or why it is not shown; neither where it is none."""
    answer = row.get("answer")
    if not is_answer(answer) or not answer.endswith(".png"):
        return "", ""
    found = find_picture(answer, folder)
    data = found.read() if isinstance(found, Picture) else None
    if data is None:
        return "", found if isinstance(found, str) else NOT_THERE
    if len(data) > _LARGEST:
        return "", f"The picture is too large for this page: {len(data) / 1e6:.1f} MB."
    return f"data:image/png;base64,{base64.b64encode(data).decode()}", ""


# ---- drawings


def _interval(row: Row, rows: Sequence[Row], write: Callable[[float | None, Unit], str]) -> Markup:
    """The difference of a row on the axis of all rows of its unit, which 0 is in the middle of."""
    each = row.difference
    ends = [
        abs(end)
        for one in rows
        if (one.unit == "number") == (row.unit == "number") and (row.unit != "number" or one is row)
        for end in (one.difference.low, one.difference.high, one.difference.mean)
        if end is not None
    ]
    most = max(ends, default=0.0) or 1.0

    def at(number: float) -> str:
        return f"{50 + 46 * number / most:.2f}%"

    label = escape(f"{row.name}: {write(each.mean, row.unit)}")
    parts = [f'<svg class="interval {row.verdict or "plain"}" role="img" aria-label="{label}">']
    parts.append('<line class="zero" x1="50%" x2="50%" y1="0" y2="100%"/>')
    if each.low is not None and each.high is not None:
        parts.append(f'<line class="span" x1="{at(each.low)}" x2="{at(each.high)}" y1="50%" y2="50%"/>')
    parts.append(f'<circle cx="{at(each.mean)}" cy="50%" r="4.5"/></svg>')
    return Markup("".join(parts))  # noqa: S704 - numbers, and a label that is escaped
