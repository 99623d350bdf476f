"""Results of studies: differences by hand, the table, files that are read, joined and shown beside a run."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from sweet_rl import studies
from sweet_rl.errors import DataError
from sweet_rl.studies.archer.results import with_claims as claims_of_archer
from sweet_rl.studies.reflect.results import with_claims as claims_of_reflect
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import (
    ORIGIN,
    Claim,
    Comparison,
    Counted,
    Measure,
    Method,
    Results,
    Run,
    beside,
    claim_over_seeds,
    claim_over_tasks,
    read_study,
)
from sweet_rl.studies.runner import table
from tests.conftest import ROOT
from tests.studies.samples import sample_results
from tests.studies.test_page import Reader


def runs(name, values):
    return Method(
        name, name, runs=tuple(Run(seed, {"success": Counted(value)}) for seed, value in values.items())
    )


def test_a_claim_is_paired_over_the_seeds_that_both_have_and_wider_among_several():
    ours, theirs = runs("a", {0: 0.9, 1: 0.5, 2: 0.6}), runs("b", {1: 0.1, 2: 0.4, 3: 0.9})
    alone, among = (claim_over_seeds("a", ours, theirs, "success", among=count) for count in (1, 3))
    # differences 0.4 and 0.2: error 0.1; Student's t with one degree of freedom, outside 5 % and 5 % / 3
    assert alone.mean == among.mean == pytest.approx(0.3)
    assert [seed for seed, _ in alone.each] == [1, 2]
    assert alone.high - alone.mean == pytest.approx(12.706 * 0.1)
    assert among.high - among.mean == pytest.approx(38.188 * 0.1, rel=1e-4)
    assert (among.among, alone.verdict) == (3, "open")


def test_a_claim_over_tasks_is_paired_task_by_task():
    ours, theirs = {"t1": 1.0, "t2": 0.0, "t3": 1.0}, {"t1": 0.0, "t2": 0.0, "t4": 1.0}
    found = claim_over_tasks("a beats b", ("a", ours), ("b", theirs))
    assert (found.mean, found.over, found.each) == (0.5, "tasks", ())
    assert claim_over_tasks("a beats b", ("a", ours), ("b", {})).mean is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.2, "holds"), (-0.2, -0.1, "reversed"), (-0.1, 0.1, "open"), (0.0, 0.1, "open"),
        (None, None, "unknown"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_claim_follows_from_its_interval(low, high, verdict):
    assert Claim("c", "a", "b", mean=0.1, low=low, high=high).verdict == verdict


def test_the_interval_of_a_method_is_over_its_seeds_or_that_of_its_only_run():
    alone = Method("a", "a", runs=(Run(0, {"success": Counted(0.5, 0.4, 0.6)}),))
    assert alone.estimate("success") == Counted(0.5, 0.4, 0.6)
    three = runs("a", {0: 0.1, 1: 0.2, 2: 0.3}).estimate("success")
    assert three.mean == pytest.approx(0.2)
    assert three.high == pytest.approx(0.2 + 4.303 * 0.1 / math.sqrt(3))
    assert alone.estimate("nothing") is alone.mean("nothing") is None
    wide = runs("a", {0: 0.1, 1: 0.9})
    found = [Measure("success", "", unit).of(wide) for unit in ("share", "number")]
    assert (found[0].low, found[0].high) == (0.0, 1.0)
    assert found[1].low < 0 < 1 < found[1].high


def test_the_table_in_full():
    one = Method("a", "A", runs=(Run(0, {"success": Counted(0.5, 0.25, 0.75), "auc": Counted(0.85)}),))
    other = Method("b", "method B", runs=(Run(0, {"success": Counted(0.25)}),))
    measures = (Measure("success", "success"), Measure("auc", "AUC", "number", "critic"))
    claims = (Claim("A beats B", "a", "b", "tasks", 0.25, 0.1, 0.4), Claim("A is good", "a", "b"))
    unmeasured = Method("c", "curves only", runs=(Run(0),))
    part = Comparison(
        "w", "world", own="a", measures=measures, methods=(one, other, unmeasured), claims=claims
    )
    assert table(Results("sweet", "t", comparisons=(part,))).splitlines() == [
        "world                    success        AUC",
        "A          50.0 % [25.0 to 75.0]       0.85",
        "method B                  25.0 %          \u2013",
        "  A beats B: +25.0 points, 95 % interval [+10.0, +40.0]: holds here",
        "  A is good: not measured",
    ]


PACKAGED = sample_results((0.9, 0.8, 0.7))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "full_study.json"
    path.write_text(json.dumps(dataclasses.asdict(PACKAGED)))
    return path


def test_its_numbers_are_those_of_its_file_and_stand_before_this_run(file, no_charts):
    results = beside(sample_results(), file)
    full, own = results.comparisons
    assert (full.name, full.title, full.origin) == ("full-world", "Full study: the world", ORIGIN)
    assert (own.title, own.origin) == ("This run: the world", "")
    (written,) = PACKAGED.comparisons
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
    (part,) = PACKAGED.comparisons
    worlds = tuple(dataclasses.replace(part, name=name, title=name) for name in ("a", "b", "c"))
    file.write_text(json.dumps(dataclasses.asdict(dataclasses.replace(PACKAGED, comparisons=worlds))))
    run = dataclasses.replace(PACKAGED, comparisons=(worlds[1],))
    titles = [part.title for part in beside(run, file).comparisons]
    assert titles == ["Full study: b", "Full study: a", "Full study: c", "This run: b"]


def test_a_study_that_showed_an_earlier_one_brings_itself_along_alone(file, tmp_path):
    file.write_text(json.dumps(dataclasses.asdict(beside(PACKAGED, file))))
    results = beside(sample_results(), file)
    assert [part.title for part in results.comparisons] == ["Full study: the world", "This run: the world"]
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


FOLDER = Path(studies.__file__).parent


@pytest.mark.parametrize(
    ("path", "with_claims"),
    [
        (FOLDER / "archer/full_study.json", claims_of_archer),
        (FOLDER / "reflect/full_study.json", claims_of_reflect),
        (ROOT / "benchmarks/results/archer_other_seeds.json", claims_of_archer),
        (ROOT / "benchmarks/results/reflect_taxi_other_seeds.json", claims_of_reflect),
        (ROOT / "benchmarks/results/reflect_once_more.json", claims_of_reflect),
    ],
)
def test_the_claims_of_a_study_are_those_of_its_runs(path, with_claims):
    _, comparisons = read_study(path)
    assert with_claims(comparisons) == comparisons
    claims = [claim for part in comparisons for claim in part.claims]
    assert {claim.among for claim in claims} == {len(claims)}
