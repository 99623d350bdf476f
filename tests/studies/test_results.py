"""The one model of results: differences by hand, and the table."""

import math

import pytest

from sweet_rl.studies.outcome import table
from sweet_rl.studies.results import (
    Claim,
    Comparison,
    Counted,
    Measure,
    Method,
    Results,
    Run,
    claim_over_seeds,
    claim_over_tasks,
)


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
        (0.1, 0.2, "holds"),
        (-0.2, -0.1, "reversed"),
        (-0.1, 0.1, "open"),
        (0.0, 0.1, "open"),
        (None, None, "unknown"),
    ],
)
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
