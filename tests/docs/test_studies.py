"""The pages of the studies: every figure of their tables is that of the file that comes with the package."""

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


@pytest.mark.parametrize(
    ("page", "heading", "path"),
    [
        ("archer_demo", "The study", FULL / "archer/full_study.json"),
        ("reflect_demo", "The study", FULL / "reflect/full_study.json"),
        ("archer_demo", "Run once more", MEASURED / "archer_other_seeds.json"),
        ("reflect_demo", "Other seeds", MEASURED / "reflect_taxi_other_seeds.json"),
        ("reflect_demo", "Run once more", MEASURED / "reflect_once_more.json"),
    ],
)
def test_the_tables_of_a_page_are_those_of_the_study(page, heading, path):
    text = (ROOT / f"docs/{page}.md").read_text()
    section = re.search(rf"^## {heading}$(.*?)^## ", text, re.MULTILINE | re.DOTALL)[1]
    for part in beside(sample_results(), path).comparisons[:-1]:
        title = part.title.removeprefix("Full study: ")
        under = re.search(rf"^### {title}$(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL)
        rows = dict(_rows(under[1] if under else section))
        assert {claim.text: rows.get(claim.text) for claim in part.claims} == {
            claim.text: [_interval(claim, part.measures[0].unit, "+"), VERDICTS[claim.verdict]]
            for claim in part.claims
        }
        if part.measures[0].unit != "count":
            trained = {method.title for method in part.methods if not method.bound}
            assert trained - rows.keys() == set()
            _check_methods(part, rows)


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
