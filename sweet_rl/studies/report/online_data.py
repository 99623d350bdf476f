"""Input of an online study's report, as checked dataclasses.

Anything may be missing or null. Something of a wrong kind is refused by its dotted name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweet_rl.errors import DataError
from sweet_rl.studies.report.fields import Fields
from sweet_rl.studies.report.report_data import Points, ReportHead, read_head, read_points
from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class Measured:
    """A policy on the evaluation tasks: mean return, share of games solved, mean turns."""

    mean_return: float | None
    success: float | None
    turns: float | None


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One run of a method.

    `curve` is (environment steps, mean return) of its own games, `loss` (iteration, loss of the critic), each
    in rising order. `start` is the policy that it began with, `end` the one that it made.
    """

    seed: int
    start: Measured
    end: Measured
    greedy_start: Measured
    greedy_end: Measured
    curve: Points
    loss: Points


@dataclass(frozen=True, slots=True)
class OnlineMethod:
    """One way of learning online, and its runs in the order of their seeds."""

    name: str
    description: str
    seeds: tuple[SeedRun, ...]


@dataclass(frozen=True, slots=True)
class Game:
    """A game worth reading: what it was about, who played, (question, answer) by turn."""

    title: str
    method: str
    mean_return: float | None
    turns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OnlineStudy:
    """All data of the report page."""

    head: ReportHead
    methods: tuple[OnlineMethod, ...]
    games: tuple[Game, ...]


def read_online_study(study: Mapping[str, Json]) -> OnlineStudy:
    """The study with its kinds checked.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    fields = Fields(study, "")
    return OnlineStudy(
        head=read_head(fields),
        methods=tuple(map(_method, fields.rows("methods"))),
        games=tuple(map(_game, fields.rows("dialogues"))),
    )


def _method(row: Fields) -> OnlineMethod:
    return OnlineMethod(row.title(), row.text("description"), row.by_seed("seeds", _run))


def _run(seed: int, row: Fields) -> SeedRun:
    return SeedRun(
        seed=seed,
        start=_measured(row, "start"),
        end=_measured(row, "end"),
        greedy_start=_measured(row, "greedy_start"),
        greedy_end=_measured(row, "greedy_end"),
        curve=read_points(row, "curve"),
        loss=read_points(row, "loss"),
    )


def _measured(row: Fields, name: str) -> Measured:
    return Measured(row.number(name), row.number(f"{name}_success"), row.number(f"{name}_turns"))


def _game(row: Fields) -> Game:
    turns = []
    for turn in row.lists("turns"):
        if len(turn.values) != 2:
            raise DataError("must be a question and its answer", field=turn.name, value=turn.values)
        turns.append((turn.text("0"), turn.text("1")))
    return Game(row.text("title"), row.text("method"), row.number("return"), tuple(turns))
