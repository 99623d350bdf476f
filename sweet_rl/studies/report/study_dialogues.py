"""The report's dialogues: one task side by side, each turn with its verdict, score and candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Markup, tag
from sweet_rl.studies.report.parts import colour_of, section, swatch
from sweet_rl.studies.report.study_data import VERDICTS, Candidate, Dialogue, Turn


def dialogues_section(dialogues: Sequence[Dialogue], given: Mapping[str, str]) -> Markup:
    """Neighbours with the same request stand side by side; only the first list of candidates is open."""
    groups = []
    to_open = next((turn for each in dialogues for turn in each.turns if turn.candidates), None)
    for request, same in groupby(dialogues, key=lambda dialogue: (dialogue.request, dialogue.solution)):
        cards = [_card(dialogue, to_open, given) for dialogue in same]
        groups.append(tag("div", _task(*request), tag("div", cards, class_="cards"), class_="task"))
    button = tag("button", "Open all candidates", type="button", id="open-all", hidden="")
    return section(
        "dialogues",
        "Dialogues, turn by turn",
        "The critic's score says how much a turn helps: above zero it should be said more often, below zero "
        "less. Candidates are replies sampled at the same turn, sorted by score; the policy is trained to "
        "prefer the upper ones to the lower. The verdict is an oracle's, which the critic does not see.",
        button if to_open else None,
        groups,
    )


def _task(request: str, solution: str) -> Markup:
    hidden = [
        tag("dt", "Hidden solution"),
        tag("dd", tag("code", solution), " ", tag("span", "never shown to the agent", class_="interval")),
    ]
    return tag(
        "dl", tag("dt", "The human asks"), tag("dd", request), hidden if solution else None, class_="asked"
    )


def _card(dialogue: Dialogue, to_open: Turn | None, given: Mapping[str, str]) -> Markup:
    colour = colour_of(dialogue.method, given)
    scores = [turn.score for turn in dialogue.turns if turn.score is not None]
    along = _score_axis(scores)
    head = tag(
        "header", tag("h3", swatch(colour), dialogue.title or dialogue.method), _reward(dialogue.reward)
    )
    turns = [
        _turn(number, turn, along, is_open=turn is to_open) for number, turn in enumerate(dialogue.turns, 1)
    ]
    return tag("article", head, tag("ol", turns, class_="turns"), class_=f"dialogue edge {colour}")


def _reward(reward: float | None) -> Markup:
    if reward is None:
        return tag("span", "not graded", class_="verdict")
    tone = "good" if reward >= 1 else "bad"
    return tag("span", f"reward {charts.plain(reward)}", class_=f"verdict {tone}")


def _turn(number: int, turn: Turn, along: charts.Axis, *, is_open: bool) -> Markup:
    notes = [tag("span", str(number), class_="number"), verdict_chip(turn.verdict)]
    if turn.score is not None:
        notes.append(tag("span", "critic", class_="interval"))
        notes.append(_score_bar(turn.score, along))
    human = None if turn.human is None else tag("p", turn.human or "(nothing)", class_="said human")
    agent = tag("p", turn.agent or "(nothing)", class_="said agent")
    return tag("li", tag("div", notes, class_="notes"), agent, _candidates(turn, is_open=is_open), human)


def _candidates(turn: Turn, *, is_open: bool) -> Markup | None:
    if not turn.candidates:
        return None
    samples = sum(candidate.count or 1 for candidate in turn.candidates)
    ranked = sorted(turn.candidates, key=lambda each: -_known(each.score))
    along = _score_axis([each.score for each in ranked if each.score is not None])
    summary = (
        f"{samples} candidates, {len(ranked)} different"
        if samples != len(ranked)
        else f"{samples} candidates"
    )
    rows = [_candidate(each, along, said=each.text == turn.agent) for each in ranked]
    return tag(
        "details", tag("summary", summary), tag("ol", rows, class_="candidates"), open="" if is_open else None
    )


def _candidate(candidate: Candidate, along: charts.Axis, *, said: bool) -> Markup:
    count = f"\u00d7{candidate.count}" if candidate.count and candidate.count > 1 else ""
    words = [
        tag("span", candidate.text or "(nothing)", class_="words"),
        " ",
        tag("span", count, class_="interval"),
    ]
    if said:
        words += [" ", tag("span", "said", class_="mark")]
    score = tag("span", class_="score") if candidate.score is None else _score_bar(candidate.score, along)
    return tag("li", score, tag("span", words), verdict_chip(candidate.verdict))


def verdict_chip(verdict: str) -> Markup | None:
    """A verdict with a sign and a colour that say whether it is good."""
    if not verdict:
        return None
    good = VERDICTS.get(verdict)
    tone, sign = ("", "") if good is None else ("good", "\u2713 ") if good else ("bad", "\u2715 ")
    return tag("span", sign + verdict, class_=f"verdict {tone}".strip())


def _score_axis(scores: Sequence[float]) -> charts.Axis:
    """Zero in the middle, so that the side of a bar is the score's sign."""
    reach = max(map(abs, scores), default=0.0) or 1.0
    return charts.Axis(-reach, reach, (0.0,), charts.plain)


def _score_bar(score: float, along: charts.Axis) -> Markup:
    written = f"{score:+.2f}".replace("-", "\u2212")
    drawing = charts.track(
        along, charts.rail(), charts.bar(along, 0, score, height=8, colour="ink"), label=written, height=14
    )
    return tag("span", drawing, tag("span", written, class_="value"), class_="score")


def _known(score: float | None) -> float:
    return float("-inf") if score is None else score
