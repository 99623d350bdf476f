"""Results of studies: differences by hand, the table, files that are read, joined and shown beside a run."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
from join_studies import joined

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


def test_the_interval_of_one_claim_among_several_is_wider():
    found = claim_over_seeds(
        "a", runs("a", {0: 0.4, 1: 0.5}), runs("b", {0: 0.1, 1: 0.1}), "success", among=3
    )
    alone = claim_over_seeds("a", runs("a", {0: 0.4, 1: 0.5}), runs("b", {0: 0.1, 1: 0.1}), "success")
    assert (found.among, alone.among, found.mean) == (3, 1, alone.mean)
    # differences 0.3 and 0.4: error 0.05; Student's t with one degree of freedom, outside 5 % and 5 % / 3
    assert alone.high - alone.mean == pytest.approx(12.706 * 0.05)
    assert found.high - found.mean == pytest.approx(38.188 * 0.05, rel=1e-4)


def test_a_claim_is_paired_over_the_seeds_that_both_have():
    # Differences of seeds 1 and 2: 0.4 and 0.2; half the interval is 12.706 * 0.1414 / sqrt(2).
    found = claim_over_seeds(
        "a beats b", runs("a", {0: 0.9, 1: 0.5, 2: 0.6}), runs("b", {1: 0.1, 2: 0.4, 3: 0.9}), "success"
    )
    assert found.mean == pytest.approx(0.3)
    assert [seed for seed, _ in found.each] == [1, 2]
    assert found.high - found.mean == pytest.approx(12.706 * 0.1)
    assert found.verdict == "open"


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
    ends = [(each.low, each.high) for each in found]
    assert ends[0] == (0.0, 1.0)
    assert ends[1][0] < 0
    assert ends[1][1] > 1


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


def test_its_numbers_are_those_of_its_file_and_stand_before_this_run(file):
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


def test_a_study_that_showed_an_earlier_one_brings_itself_along_alone(file):
    file.write_text(json.dumps(dataclasses.asdict(beside(PACKAGED, file))))
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


FOLDER = Path(studies.__file__).parent
REFLECT = FOLDER / "reflect/full_study.json"


@pytest.mark.parametrize(
    ("path", "with_claims"),
    [
        (FOLDER / "archer/full_study.json", claims_of_archer),
        (REFLECT, claims_of_reflect),
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


def part_of(tmp_path, name, seeds, worlds):
    """The file of a run of some seeds of some worlds."""
    study = json.loads(REFLECT.read_text())
    study["comparisons"] = [part for part in study["comparisons"] if part["name"] in worlds]
    for part in study["comparisons"]:
        part["claims"] = []
        for method in part["methods"]:
            method["runs"] = [run for run in method["runs"] if run["seed"] in seeds]
    study |= {"seconds": {"data": 1.5}, "provenance": {"command": name, "commit": name[0]}}
    path = tmp_path / name
    path.write_text(json.dumps(study))
    return path


def test_parts_are_joined_to_the_whole(tmp_path):
    parts = [
        part_of(tmp_path, "late", range(303, 308), {"taxi"}),
        part_of(tmp_path, "early", range(300, 303), {"taxi"}),
        part_of(tmp_path, "other", range(300, 308), {"two_hops", "alfworld"}),
    ]
    whole = joined(parts, claims_of_reflect)
    found = tmp_path / "whole.json"
    found.write_text(json.dumps(whole))
    assert read_study(found)[1] == read_study(REFLECT)[1]
    assert whole["seconds"] == {"data": 4.5}
    assert whole["provenance"]["command"] == "late; early; other"
    assert whole["provenance"]["commit"] == "l; e; o"


def test_studies_of_two_kinds_are_not_joined():
    with pytest.raises(DataError, match="is of another study, got 'archer'"):
        joined([REFLECT, FOLDER / "archer/full_study.json"], claims_of_reflect)


def test_a_seed_counts_once(tmp_path):
    parts = [part_of(tmp_path, name, range(300, 302), {"taxi"}) for name in ("one", "again")]
    with pytest.raises(DataError, match=r"again.*'sft' has a seed that was there before, got 300"):
        joined(parts, claims_of_reflect)
