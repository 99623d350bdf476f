"""Input of a study's report: the JSON of one run, or of several seeds, as checked dataclasses.

Anything may be missing or null. Something of a wrong kind is refused by its dotted name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweet_rl.studies.report.fields import Fields
from sweet_rl.studies.report.report_data import ReportHead, read_head
from sweet_rl.types import Json

VERDICTS = {
    "useful question": True,
    "right answer": True,
    "useless question": False,
    "repeated question": False,
    "needless question": False,
    "early answer": False,
    "incomplete last answer": False,
    "miscopied answer": False,
    "neither question nor answer": False,
}
"""What an oracle can say of a turn, and whether it is good."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval; shares of 1."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TurnCount:
    """Episodes that ended after `turns` turns of the agent, and how many of them succeeded."""

    turns: int
    episodes: int
    successes: int


@dataclass(frozen=True, slots=True)
class Method:
    """One way of training and what came of it; `verdicts` are mean counts per episode."""

    name: str
    title: str
    explanation: str
    examples: int | None
    updates: int | None
    episodes: int | None
    success: Interval
    tests_passed: Interval
    seeds: tuple[tuple[int | None, float], ...]
    by_turns: tuple[TurnCount, ...]
    verdicts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Critic:
    """How well a critic tells good turns from bad ones: areas under the ROC curve, 0.5 is chance."""

    name: str
    title: str
    auc_questions: float | None
    auc_answering: float | None
    turns_questions: int | None
    turns_answering: int | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A training run: for each metric (update, value) in the order given, gaps left out."""

    name: str
    title: str
    loss: tuple[tuple[int, float], ...]
    accuracy: tuple[tuple[int, float], ...]
    margin: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One reply that the model could have given at a turn, `count` times among its samples."""

    text: str
    score: float | None
    count: int | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What the agent said, what the human answered, and what oracle and critic say of it."""

    agent: str
    human: str | None
    verdict: str
    score: float | None
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """An episode that the report shows turn by turn."""

    title: str
    method: str
    reward: float | None
    request: str
    solution: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Designer:
    """One designer of pages and its grades, by metric."""

    name: str
    title: str
    explanation: str
    metrics: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture (a data URL) of one draft, or of the target, which has no score."""

    label: str
    score: float | None
    picture: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A dialogue about a page, in pictures."""

    request: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Pages:
    """Frontend Design: grades by designer, floors by name and metric, (turn, grade) of each dialogue."""

    tasks: int | None
    designers: tuple[Designer, ...]
    floors: Mapping[str, Mapping[str, float]]
    curves: tuple[tuple[tuple[int, float], ...], ...]
    strips: tuple[Strip, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """All data of the report page."""

    head: ReportHead
    methods: tuple[Method, ...]
    critics: tuple[Critic, ...]
    curves: tuple[Curve, ...]
    dialogues: tuple[Dialogue, ...]
    pages: Pages


def read_study(study: Mapping[str, Json]) -> Study:
    """The study with its kinds checked.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    fields = Fields(study, "")
    return Study(
        head=read_head(fields),
        methods=tuple(map(_method, fields.rows("methods"))),
        critics=tuple(map(_critic, fields.rows("critics"))),
        curves=tuple(map(_curve, fields.rows("curves"))),
        dialogues=tuple(map(_dialogue, fields.rows("dialogues"))),
        pages=_pages(fields.fields("pages")),
    )


def _interval(fields: Fields) -> Interval:
    return Interval(fields.number("mean"), fields.number("low"), fields.number("high"))


def _method(row: Fields) -> Method:
    seeds = [(seed.whole("seed"), seed.number("success")) for seed in row.rows("seeds")]
    by_turns = [
        TurnCount(turns, count.whole("episodes") or 0, count.whole("successes") or 0)
        for count in row.rows("by_turns")
        if (turns := count.whole("turns")) is not None
    ]
    return Method(
        name=row.text("name"),
        title=row.title(),
        explanation=row.text("explanation"),
        examples=row.whole("examples"),
        updates=row.whole("updates"),
        episodes=row.whole("episodes"),
        success=_interval(row.fields("success")),
        tests_passed=_interval(row.fields("tests_passed")),
        seeds=tuple((seed, success) for seed, success in seeds if success is not None),
        by_turns=tuple(sorted(by_turns, key=lambda count: count.turns)),
        verdicts=row.fields("verdicts").numbers(),
    )


def _critic(row: Fields) -> Critic:
    return Critic(
        name=row.text("name"),
        title=row.title(),
        auc_questions=row.number("auc_questions"),
        auc_answering=row.number("auc_answering"),
        turns_questions=row.whole("turns_questions"),
        turns_answering=row.whole("turns_answering"),
    )


def _curve(row: Fields) -> Curve:
    points = list(row.rows("points"))

    def series(metric: str) -> tuple[tuple[int, float], ...]:
        pairs = ((point.whole("update"), point.number(metric)) for point in points)
        return tuple((update, value) for update, value in pairs if update is not None and value is not None)

    return Curve(row.text("name"), row.title(), series("loss"), series("accuracy"), series("margin"))


def _dialogue(row: Fields) -> Dialogue:
    return Dialogue(
        title=row.text("title"),
        method=row.text("method"),
        reward=row.number("reward"),
        request=row.text("request"),
        solution=row.text("solution"),
        turns=tuple(map(_turn, row.rows("turns"))),
    )


def _turn(row: Fields) -> Turn:
    return Turn(
        agent=row.text("agent"),
        human=row.text_or_none("human"),
        verdict=row.text("verdict"),
        score=row.number("score"),
        candidates=tuple(
            Candidate(
                candidate.text("text"),
                candidate.number("score"),
                candidate.whole("count"),
                candidate.text("verdict"),
            )
            for candidate in row.rows("candidates")
        ),
    )


def _grades(row: Fields) -> tuple[tuple[int, float], ...]:
    pairs = ((point.whole("turn"), point.number("grade")) for point in row.rows("points"))
    return tuple((turn, grade) for turn, grade in pairs if turn is not None and grade is not None)


def _pages(fields: Fields) -> Pages:
    return Pages(
        tasks=fields.whole("tasks"),
        designers=tuple(
            Designer(
                row.text("name"),
                row.title(),
                row.text("explanation"),
                {name: _interval(metric) for name, metric in row.fields("metrics").inner().items()},
            )
            for row in fields.rows("designers")
        ),
        floors={name: floor.numbers() for name, floor in fields.fields("floors").inner().items()},
        curves=tuple(map(_grades, fields.rows("curves"))),
        strips=tuple(
            Strip(
                strip.text("request"),
                tuple(
                    Frame(frame.text("label"), frame.number("score"), frame.data_url("picture"))
                    for frame in strip.rows("frames")
                ),
            )
            for strip in fields.rows("strips")
        ),
    )
