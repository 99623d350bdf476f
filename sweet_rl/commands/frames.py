"""A frame of `sweet-rl watch`: lines of text that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from sweet_rl.commands.runs import dollars, tokens
from sweet_rl.runs.live import CURVES
from sweet_rl.runs.prices import Price, cost_of
from sweet_rl.runs.watching import AT_WORK, Sight, duration, ended_at, seconds_since

_COLOURS: Final = {"running": "32", "still": "33", "gone": "31", "failed": "31", "interrupted": "33"}
_SPARK: Final = 12
_BAR: Final = 16


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show.

    Attributes:
        width: columns.
        colours: whether it has them.
        plain: ASCII only.
    """

    width: int = 80
    colours: bool = False
    plain: bool = False

    @property
    def marks(self) -> Mapping[str, str]:
        """A sign for each state."""
        signs = ">!x+-x" if self.plain else "●‖✗✓-✗"
        return dict(
            zip(("running", "still", "gone", "finished", "interrupted", "failed"), signs, strict=True)
        )

    def bar(self, share: float) -> str:
        """How much is done, as a bar."""
        full, empty = "#." if self.plain else "█░"
        done = int(_BAR * min(1.0, share))
        return full * done + empty * (_BAR - done)

    def spark(self, values: Sequence[float]) -> str:
        """A curve in one line; all at half height where it is flat."""
        if len(values) > _SPARK:
            values = [values[place * (len(values) - 1) // (_SPARK - 1)] for place in range(_SPARK)]
        steps = "_.-=*#" if self.plain else "▁▂▃▄▅▆▇█"
        low, span = min(values), max(values) - min(values)
        top = len(steps) - 1
        return "".join(steps[round(top * (value - low) / span) if span else top // 2] for value in values)

    def end_of(self, path: str, room: int) -> str:
        """The path, or its end where it is longer than so many columns."""
        if len(path) <= room:
            return path
        return ("~" if self.plain else "…") + path[len(path) - room + 1 :] if room > 1 else ""

    def line(self, text: str, state: str = "") -> str:
        """Text that fits the width and moves no cursor, in the colour of a state."""
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
        if self.plain:
            text = text.encode("ascii", "replace").decode()
        if len(text) > self.width:
            text = text[: self.width - 1] + ("~" if self.plain else "…")
        colour = _COLOURS.get(state) if self.colours else None
        return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def frame(
    sights: Sequence[Sight],
    folder: str,
    style: Style,
    *,
    ended: int,
    prices: Mapping[str, Price] | None = None,
    at: datetime | None = None,
) -> list[str]:
    """The lines of a frame.

    Args:
        sights: as `Watch.look` finds them.
        folder: as it was named.
        style: of the terminal.
        ended: so many runs that have ended are shown.
        prices: dollars of tokens, for runs whose records do not have their cost.
        at: the time.
    """
    at = at or datetime.now(UTC)
    every = list(_all(sights))
    states = [one.state for one in every]
    counted = [
        (states.count("running"), "at work"),
        (states.count("still"), "standing still"),
        (states.count("gone"), "gone"),
        (states.count("failed"), "failed"),
        (states.count("interrupted"), "interrupted"),
        (states.count("finished"), "finished"),
    ]
    head = ", ".join(f"{number} {words}" for number, words in counted if number)
    words = f"{at.astimezone():%H:%M:%S}  {head or 'no run has left a record here'}  "
    lines = [style.line(words + style.end_of(folder, style.width - len(words)))]
    over = sorted((one for one in every if not one.active), key=ended_at, reverse=True)
    newest = over[:ended]
    failed = next((one for one in over if one.state == "failed"), None)
    if newest and failed is not None and failed not in newest:
        newest[-1] = failed  # it is counted above, and looked for
    shown = {id(one) for one in (*newest, *(one for one in every if one.active))}
    for sight in sights:
        lines += _tree(sight, style, shown, prices, at, 0)
    if len(over) > ended:
        lines.append(style.line(f"{len(over) - ended} more have ended (--ended, or sweet-rl runs {folder})"))
    return lines


def _all(sights: Sequence[Sight]) -> Iterator[Sight]:
    for sight in sights:
        yield sight
        yield from _all(sight.parts)


def _tree(
    sight: Sight,
    style: Style,
    shown: set[int],
    prices: Mapping[str, Price] | None,
    at: datetime,
    depth: int,
) -> Iterator[str]:
    if any(id(one) in shown for one in _all([sight])):
        yield from _run(sight, style, prices, at, depth)
    for part in sight.parts:
        yield from _tree(part, style, shown, prices, at, depth + 1)


def _run(
    sight: Sight, style: Style, prices: Mapping[str, Price] | None, at: datetime, depth: int
) -> Iterator[str]:
    content, state = sight.content, sight.state
    outputs = [str(one.get("path")) for one in content.get("outputs") or []]
    begun = content.get("sessions") or [{}]
    took = float(content.get("wall_s") or 0.0)
    if state in AT_WORK:
        took = seconds_since(begun[-1].get("started"), at)
    words = f"{sight.why or state}  {duration(took)}"
    name = str((content.get("step") or {}).get("name") or content["stage"])
    left = f"{'  ' * depth}{style.marks[state]} {name}  "[: max(10, style.width - len(words) - 2)]
    left += style.end_of(outputs[0] if outputs else "", style.width - len(words) - 2 - len(left))
    yield style.line(f"{left:<{style.width - len(words)}}{words}", state)
    margin = "  " * depth + "    "
    if state != "finished" and (text := _progress(content, style, sight)):
        yield style.line(margin + text)
    if state in AT_WORK and (text := _spent(content, prices)):
        yield style.line(margin + text)
    if text := _numbers(content, style, style.width - len(margin)):
        yield style.line(margin + text)
    if state == "failed" and content.get("error"):
        yield style.line(margin + str(content["error"]).splitlines()[0], state)


def _progress(content: Mapping[str, Any], style: Style, sight: Sight) -> str:
    progress = content.get("progress")
    if not progress:
        return ""
    done, total, speed = progress["done"], progress["total"], progress.get("per_s")
    words = [f"{style.bar(done / total if total else 0)} {done:,}/{total:,} {progress['unit']}s"]
    if speed:
        words.append(f"{speed:.3g}/s" if speed >= 0.1 else f"{duration(1 / speed)} each")
        if sight.state == "running" and done < total:
            words.append(f"{duration((total - done) / speed)} left")
    if progress.get("failed"):
        words.append(f"{progress['failed']:,} failed")
    if progress.get("phase") and sight.state in AT_WORK:
        words.append(str(progress["phase"]))
    return "  ".join(words)


def _spent(content: Mapping[str, Any], prices: Mapping[str, Price] | None) -> str:
    """Tokens by role, requests that had to be sent again, money."""
    words, usage = [], content.get("usage") or {}
    for role, models in usage.items():
        rows = list(models.values())
        words.append(f"{role} {tokens(rows, 'prompt_tokens')} in {tokens(rows, 'completion_tokens')} out")
        if again := sum(row["retries"] for row in rows):
            words.append(f"{again:,} retries")
    cost = cost_of(usage, prices) if prices is not None and usage else content.get("cost")
    return ", ".join([*words, *([dollars(cost)] if cost is not None else [])])


def _numbers(content: Mapping[str, Any], style: Style, room: int) -> str:
    """The newest numbers that have a curve, as many as fit; else the first others."""
    numbers, curves = content.get("numbers") or {}, content.get("curves") or {}
    named = [name for name in CURVES if curves.get(name)]
    named = named or [name for name in numbers if name != "step"][:3]
    text = ""
    for place, name in zip(count(), named, strict=False):
        value = numbers.get(name)
        part = f"{name} {'not a number' if value is None else format(value, '.4g')}"
        if len(points := curves.get(name) or ()) > 1:
            part += f" {style.spark(points)}"
        if len(text) + len(part) + 2 > room and place:
            break
        text += f"{'  ' if text else ''}{part}"
    return text
