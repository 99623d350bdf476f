"""A study that comes with the package: its file is read whole, shown as what it is, and refused if it is not one."""

import dataclasses
import json

import pytest

from sweet_rl.errors import DataError
from sweet_rl.studies.outcome import table
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import ORIGIN, beside
from tests.studies.samples import sample_results
from tests.studies.test_page import Reader

FULL = sample_results((0.9, 0.8, 0.7))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "full_study.json"
    path.write_text(json.dumps(dataclasses.asdict(FULL)))
    return path


def test_its_numbers_are_those_of_its_file_and_stand_before_this_run(file):
    results = beside(sample_results(), file)
    full, own = results.comparisons
    assert (full.name, full.title, full.origin) == ("full-world", "Full study: the world", ORIGIN)
    assert (own.title, own.origin) == ("This run: the world", "")
    (written,) = FULL.comparisons
    assert (full.measures, full.curves, full.claims) == (written.measures, written.curves, written.claims)
    for method, other in zip(full.methods, written.methods, strict=True):
        assert [(run.seed, run.measures, run.curves) for run in method.runs] == [
            (run.seed, run.measures, run.curves) for run in other.runs
        ]
    assert "seeds: [0, 1, 2]" in results.notes[-1]
    text = Reader(results_page(results)).text
    assert "the own reaches 80.0 % success" in text
    assert "the own reaches 60.0 % success" in text
    assert ORIGIN in text
    assert "Full study" not in table(results)


def test_what_the_full_study_says_of_the_same_world_comes_first(file):
    (part,) = FULL.comparisons
    worlds = tuple(dataclasses.replace(part, name=name, title=name) for name in ("a", "b", "c"))
    file.write_text(json.dumps(dataclasses.asdict(dataclasses.replace(FULL, comparisons=worlds))))
    run = dataclasses.replace(FULL, comparisons=(worlds[1],))
    titles = [part.title for part in beside(run, file).comparisons]
    assert titles == ["Full study: b", "Full study: a", "Full study: c", "This run: b"]


def test_a_study_that_showed_an_earlier_one_brings_itself_along_alone(file):
    file.write_text(json.dumps(dataclasses.asdict(beside(FULL, file))))
    results = beside(sample_results(), file)
    assert [part.title for part in results.comparisons] == ["Full study: the world", "This run: the world"]


def test_without_a_file_there_is_this_run_alone(tmp_path):
    results = sample_results()
    assert beside(results, tmp_path / "none.json") is results


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "must have the format"), ('{"format": "sweet_rl.study/1"}', "is no whole study")],
)
def test_another_file_is_refused(tmp_path, content, message):
    (tmp_path / "full_study.json").write_text(content)
    with pytest.raises(DataError, match=message):
        beside(sample_results(), tmp_path / "full_study.json")
