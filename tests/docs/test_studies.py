"""What is written of the studies: every figure of the full tables, and of those of docs/results.md, is that of the study's file."""

import re
from pathlib import Path

import pytest

from sweet_rl import studies
from sweet_rl.studies.results import beside
from tests.conftest import ROOT
from tests.studies.samples import sample_results

VERDICTS = {"holds": "holds", "reversed": "the other way round", "open": "not settled"}

DIGITS = {"share": 1, "number": 2, "count": 0}


FULL = Path(studies.__file__).parent
MEASURED = ROOT / "benchmarks/results"


STUDIES = [  # Section of the full tables, file, what heads its column of docs/results.md
    ("ArCHer, seeds 300 to 307", FULL / "archer/full_study.json", "300-307"),
    ("ArCHer, seeds 500 to 507", MEASURED / "archer_other_seeds.json", "500-507"),
    ("Reflect-RL, seeds 300 to 307", FULL / "reflect/full_study.json", "{} 300-307"),
    ("Reflect-RL, seeds 400 to 407", MEASURED / "reflect_taxi_other_seeds.json", "{} 400-407"),
    ("Reflect-RL, seeds 500 to 507", MEASURED / "reflect_once_more.json", "{} 500-507"),
]
WORLDS = {"DangerousTaxi": "taxi", "AutoExplore, two hops": "two hops", "ALFWorld": "ALFWorld"}
FEW = {"RL only"}  # Only in the full tables
RERUNS = {
    "taxi 500-507",
    "two hops 500-507",
}  # Their claims, too: docs/results.md says only how they came out


@pytest.mark.parametrize(("heading", "path", "column"), STUDIES)
def test_the_full_tables_are_those_of_the_study(heading, path, column):
    section = _section((MEASURED / "README.md").read_text(), heading)
    for part in beside(sample_results(), path).comparisons[:-1]:
        under = re.search(rf"^### {part.title}$(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL)
        rows = dict(_rows(under[1] if under else section))
        if column.format(WORLDS.get(part.title)) in RERUNS:  # docs/results.md has the others
            assert {claim.text: rows.get(claim.text) for claim in part.claims} == {
                claim.text: [_interval(claim, part.measures[0].unit, "+"), VERDICTS[claim.verdict]]
                for claim in part.claims
            }
        if part.measures[0].unit != "count":
            trained = {method.title for method in part.methods if not method.bound}
            assert trained - rows.keys() == set()
            _check_methods(part, rows)


@pytest.mark.parametrize(("heading", "path", "column"), STUDIES)
def test_the_page_says_what_the_studies_said(heading, path, column):
    study = "ArCHer on sixteen words" if "ArCHer" in heading else "Reflect-RL"
    section = _section((ROOT / "docs/results.md").read_text(), study)
    for part in beside(sample_results(), path).comparisons[:-1]:
        head = column.format(WORLDS.get(part.title))
        cells, unit = _column(section, head), part.measures[0].unit
        claims = {
            claim.text: f"**{shown}**" if claim.verdict != "open" else shown
            for claim in part.claims
            for shown in [_interval(claim, unit, "+")]
        }
        if head in RERUNS:
            first = _column(section, head.replace("500-507", "300-307"))
            assert {text for text in claims if first[text].startswith("**")} == {
                text for text, shown in claims.items() if shown.startswith("**")
            }
        else:
            assert {text: cells.get(text) for text in claims} == claims
        if unit != "count":
            measured = {method.title: _interval(part.measures[0].of(method), unit) for method in part.methods}
            trained = {method.title for method in part.methods if not method.bound} - FEW
            assert {title: cells.get(title) for title in trained} == {
                title: measured[title] for title in trained
            }
            assert {title: cells[title] for title in measured if title in cells} == {
                title: shown for title, shown in measured.items() if title in cells
            }


def _section(text, heading):
    return re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


def _column(section, head):
    """What stands below a heading of tables, by first cell."""
    found, place = {}, None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            place = None
        elif place is None:
            place = cells.index(head) if head in cells else -1
        elif place > 0:
            found[cells[0]] = cells[place]
    return found


def _check_methods(part, rows):
    measure = part.measures[0]
    for method in part.methods:
        if method.title in rows:
            values = [run.measures[measure.name].mean for run in method.runs]
            each = [_written(value, measure.unit, DIGITS[measure.unit] - 1) for value in values]
            assert rows[method.title][:2] == [_interval(measure.of(method), measure.unit), ", ".join(each)]


def _rows(text):
    """First cell, the other cells; without emphasis."""
    for line in text.splitlines():
        if line.startswith("| ") and line.endswith(" |"):
            first, *others = (cell.strip() for cell in line.replace("**", "").strip("|").split("|"))
            yield first, others


def _interval(found, unit, sign=""):
    known = (value for value in (found.mean, found.low, found.high) if value is not None)
    mean, *ends = (_written(value, unit, DIGITS[unit], sign) for value in known)
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _written(value, unit, digits, sign=""):
    return f"{value * (100 if unit == 'share' else 1):{sign}.{digits}f}"
