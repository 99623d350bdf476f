"""The report of an online study as one page: what ArCHer and its rivals gained, in how many steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report.markup import Markup, join, tag
from sweet_rl.studies.report.online_data import OnlineMethod, OnlineStudy, read_online_study
from sweet_rl.studies.report.online_numbers import ahead, gained, mean_of
from sweet_rl.studies.report.online_sections import (
    archer,
    colours,
    critics_section,
    curve_section,
    differences_section,
    games_section,
    number,
    signed,
    table_section,
)
from sweet_rl.studies.report.report import Section, report_page
from sweet_rl.types import Json


def online_page(study: Mapping[str, Json]) -> str:
    """One self-contained HTML page for the result of an online study.

    Args:
        study: `title`, `subtitle`, `machine`, `settings`, `seconds` by stage, `notes`, and

            - `methods`: `name`, `description` and `seeds`, each of these with `seed`, `start` and `end` (mean
              returns, sampled actions), `curve` ([environment steps, mean return], ...) and `loss`
              ([iteration, loss of the critic], ...). Beside `start` and `end` may stand `start_success`
              (of 1), `start_turns`, `greedy_start` and so on.
            - `dialogues`: `title` (the hidden word), `method`, `return`, `turns` ([question, answer], ...).

            Whatever else is missing, null or empty is left out of the page. The first method whose name
            contains `archer` is ArCHer.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    known = read_online_study(study)
    return report_page(
        "online_idea.html",
        known.head,
        headline=_headline(known.methods),
        sections=_sections(known),
        styles=["online.css"],
        untitled="An online study",
    )


def _sections(study: OnlineStudy) -> list[Section]:
    """All that has something to show."""
    methods, given = study.methods, colours(study.methods)
    runs = [run for method in methods for run in method.seeds]
    found: list[Section] = []
    if any(run.curve for run in runs):
        found.append(("curve", "Learning", curve_section(methods, given)))
    if methods:
        found.append(("methods", "Methods", table_section(methods, given)))
    if any(gained(method) for method in methods):
        found.append(("differences", "Differences", differences_section(methods, given)))
    if any(run.loss for run in runs):
        found.append(("critics", "Critics", critics_section(methods, given)))
    if study.games:
        found.append(("games", "Games", games_section(study.games, given)))
    return found


def _headline(methods: Sequence[OnlineMethod]) -> Markup:
    """What ArCHer gained, as it is, and whether another method is ahead of it."""
    own = archer(methods)
    found = gained(own) if own else None
    if own is None or found is None:
        return tag("p", "ArCHer has not been measured yet.", class_="headline")
    end = mean_of([run.end.mean_return for run in own.seeds])
    said = [own.name, " ends at a mean return of ", tag("strong", number(end)), ", "]
    if round(found.mean, 2) == 0:
        said.append("where it began.")
    else:
        side = " above the policy it began with." if found.mean > 0 else " below the policy it began with."
        said += [tag("strong", number(abs(found.mean))), side]
    lines = [tag("p", said, class_="headline"), tag("p", _certainty(own), class_="verdict-line")]
    rivals = [told for other in methods if other is not own and (told := _rival(own, other))]
    if rivals:
        lines.append(tag("p", " ".join(rivals), class_="verdict-line"))
    return join(lines)


def _certainty(own: OnlineMethod) -> str:
    found = gained(own)
    if found is None or found.low is None or found.high is None:
        return "One seed: how far another would lie from it is not known."
    span = f"paired over {len(found.each)} seeds, 95 % interval {signed(found.low)} to {signed(found.high)}"
    if found.includes_zero:
        return f"End minus start, {span}: it includes 0, so this may be chance."
    if found.mean < 0:
        return f"End minus start, {span}: it excludes 0. The policy got worse."
    return f"End minus start, {span}: it excludes 0."


def _rival(own: OnlineMethod, other: OnlineMethod) -> str:
    """One sentence about another method beside ArCHer."""
    lead = ahead(own, other)
    if lead is None:
        return ""
    gain = gained(other)
    told = f" ({signed(gain.mean)} over its start)" if gain else ""
    if round(lead.mean, 2) == 0:
        return f"{other.name}{told} is level with it."
    side = "behind" if lead.mean > 0 else "ahead of"
    it = "" if lead.mean > 0 else " it"
    if lead.low is None or lead.high is None:
        return f"{other.name}{told} is {number(abs(lead.mean))} {side}{it}; one seed does not settle it."
    what = "includes 0: this may be chance" if lead.includes_zero else "excludes 0"
    span = f"95 % interval of the difference {signed(lead.low)} to {signed(lead.high)}, which {what}"
    return f"{other.name}{told} is {number(abs(lead.mean))} {side}{it} ({span})."
