"""Every formula by hand, and held to scipy and statsmodels."""

import math
from itertools import combinations
from random import Random
from statistics import median

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
from statsmodels.stats.proportion import proportion_confint

from sweet_rl.statistics import (
    bootstrapped,
    difference,
    mcnemar,
    mean_of,
    mean_over_tasks,
    pass_all,
    pass_at,
    share_over_tasks,
    student,
)


def some_tasks(number, seed=0, most=4):
    random = Random(seed)
    return [[float(random.random() < 0.4) for _ in range(random.randint(1, most))] for _ in range(number)]


def test_a_mean_by_hand():
    # means 1, 0.5 and 0: 0.5, standard deviation 0.5, error 0.5 / sqrt 3; t with 2 degrees of freedom is 4.303
    found = mean_over_tasks([[1.0, 1.0], [0.0, 1.0], [0.0]])
    assert (found.mean, found.error) == (0.5, pytest.approx(0.5 / math.sqrt(3)))
    assert found.high == pytest.approx(0.5 + 4.303 * 0.5 / math.sqrt(3))
    # three tasks tell no less than three values of 0 and 1 with the same mean
    bounded = mean_over_tasks([[1.0, 1.0], [0.0, 1.0], [0.0]], low=0, high=1)
    assert (bounded.low, bounded.high) == pytest.approx(proportion_confint(1.5, 3, method="wilson"), abs=1e-6)
    # means 0.4, 0.5, 0.6: error 0.1 / sqrt 3, so as many as 0.25 * 3 / 0.01 / (4.303 / 1.96) ** 2 = 15.56
    bounded = mean_over_tasks([[-20 * 0.4], [-20 * 0.5], [-20 * 0.6]], low=-20, high=0)
    ends = proportion_confint(15.561 / 2, 15.561, method="wilson")
    assert (bounded.low, bounded.high) == pytest.approx([20 * end - 20 for end in ends], abs=1e-2)
    assert mean_of([7.0]) == mean_over_tasks([[6.0, 8.0]])
    assert mean_of([7.0]).low is None


def test_one_interval_among_several_by_hand():
    """Student's t with 2 and with 7 degrees of freedom, from a printed table: outside 1 %, outside 0.5 %."""
    found = mean_of([1.0, 2.0, 3.0], among=5)
    assert (found.high - found.low) / 2 == pytest.approx(9.925 / math.sqrt(3), rel=1e-4)
    found = mean_of([0.0, 1.0] * 4, among=10)
    assert (found.high - found.low) / 2 == pytest.approx(4.029 * math.sqrt(2 / 7) / math.sqrt(8), rel=1e-3)


def test_values_that_are_all_the_same_claim_no_certainty_by_hand():
    """Wilson's upper end of 0 of 4 is 3.8415 / (4 + 3.8415) = 0.4899: so many others, each 0 or 1."""
    found = mean_over_tasks([[0.0]] * 4, low=0, high=1)
    assert (found.mean, found.error) == (0, 0)
    assert (found.low, found.high) == pytest.approx((0, 0.4899), abs=1e-4)
    assert found.high == pytest.approx(proportion_confint(0, 4, method="wilson")[1])
    found = mean_over_tasks([[0.25, 0.75]] * 4, low=0, high=1)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.4899 / 2, 0.5 + 0.4899 / 2), abs=1e-4)
    found = mean_over_tasks([[1.0]] * 4, low=0, high=1)
    assert (found.low, found.high) == pytest.approx((1 - 0.4899, 1), abs=1e-4)
    assert mean_over_tasks([[0.1] * 3, [0.1]], low=0, high=1).low == pytest.approx(
        0.1 - 0.1 * 0.6576, abs=1e-4
    )
    wide = mean_of([0.0] * 4, among=5, low=0, high=1)  # 2.5758 ** 2 = 6.6349: outside 1 %
    assert wide.high == pytest.approx(6.6349 / 10.6349, abs=1e-4)
    found = mean_of([3.0] * 500)  # turns: there are no bounds
    assert (found.low, found.high, found.error) == (None, None, 0)


def test_the_error_is_that_of_a_regression_clustered_by_task():
    """Every task counts as one: a weighted least squares of the constant, weights 1 over the task's repeats."""
    tasks = some_tasks(40)
    values = [value for task in tasks for value in task]
    weights = [1 / len(task) for task in tasks for _ in task]
    groups = [place for place, task in enumerate(tasks) for _ in task]
    fit = sm.WLS(values, np.ones(len(values)), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    found = mean_over_tasks(tasks)
    assert found.mean == pytest.approx(fit.params[0])
    assert found.error == pytest.approx(fit.bse[0])
    assert (found.low, found.high) == pytest.approx(tuple(fit.conf_int()[0]), abs=1e-4)


def test_a_share_of_single_episodes_has_wilsons_interval():
    for successes, number in ((0, 5), (3, 7), (241, 500), (9, 9)):
        tasks = [[1.0]] * successes + [[0.0]] * (number - successes)
        found = share_over_tasks(tasks)
        assert (found.low, found.high) == pytest.approx(
            proportion_confint(successes, number, method="wilson"), abs=1e-6
        )


def test_repeats_that_agree_tell_no_more_than_one():
    once = share_over_tasks([[1.0]] * 30 + [[0.0]] * 70)
    agreeing = share_over_tasks([[1.0] * 5] * 30 + [[0.0] * 5] * 70)
    assert (agreeing.low, agreeing.high) == pytest.approx((once.low, once.high), abs=1e-3)
    mixed = share_over_tasks([[1.0, 0.0, 0.0, 1.0, 0.0]] * 100)  # no task tells more of itself than chance
    assert (mixed.low, mixed.high) == pytest.approx(proportion_confint(200, 500, method="wilson"), abs=1e-6)
    assert share_over_tasks([]) == share_over_tasks([[1.0]]).__class__(0.0)


def test_the_interval_of_a_share_holds_as_often_as_it_says():
    """Tasks that are always, never or sometimes solved, four repeats each: 95 % of intervals have the truth."""
    random, held = Random(1), 0
    for _ in range(400):
        tasks = []
        for _ in range(60):
            chance = random.choice((0.0, 0.3, 0.9))
            tasks.append([float(random.random() < chance) for _ in range(4)])
        found = share_over_tasks(tasks)
        held += found.low <= 0.4 <= found.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize("number", [3, 10, 40])
def test_the_interval_of_a_bounded_mean_holds_and_stays_between_its_bounds(number):
    """Shares of five tests, in tasks of which some are easy: with a few tasks, Student's interval holds too seldom."""
    random, held = Random(number), 0
    for _ in range(600):
        tasks = []
        for _ in range(number):
            chance = random.choice((0.0, 0.5, 0.95, 1.0))
            tasks.append([sum(random.random() < chance for _ in range(5)) / 5 for _ in range(2)])
        found = mean_over_tasks(tasks, low=0, high=1)
        assert 0 <= found.low <= found.mean <= found.high <= 1
        assert found.low < found.high
        held += found.low <= 0.6125 <= found.high
    assert held / 600 >= 0.93


@pytest.mark.parametrize("number", [3, 5, 20])
def test_few_tasks_with_many_repeats_do_not_make_a_share_certain(number):
    random, held = Random(number), 0
    for _ in range(400):
        chances = [random.betavariate(2, 2) for _ in range(number)]
        tasks = [[float(random.random() < chance) for _ in range(16)] for chance in chances]
        found = share_over_tasks(tasks)
        held += found.low <= 0.5 <= found.high
    assert held / 400 >= 0.93  # with z instead of t: 0.86 of three tasks


def test_pass_at_k_is_the_mean_over_all_choices_of_k():
    for repeats in (1, 4, 6):
        for successes in range(repeats + 1):
            values = [1] * successes + [0] * (repeats - successes)
            for k in range(1, repeats + 1):
                chosen = list(combinations(values, k))
                assert pass_at(k, successes, repeats) == pytest.approx(sum(map(max, chosen)) / len(chosen))
                assert pass_all(k, successes, repeats) == pytest.approx(sum(map(min, chosen)) / len(chosen))
    assert pass_at(2, 1, 3) == pytest.approx(2 / 3)
    assert pass_all(2, 2, 3) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="from 1 to 3"):
        pass_at(4, 1, 3)


def test_a_difference_by_hand():
    # means of tasks: 1 - 0, 0.5 - 0.5, 0 - 0.5: differences 1, 0 and -0.5
    found = difference([[1.0], [0.0, 1.0], [0.0]], [[0.0], [0.5], [0.5]])
    assert (found.tasks, found.wins, found.losses, found.ties, found.test) == (3, 1, 1, 1, "t")
    assert found.mean == pytest.approx(0.5 / 3)
    assert found.high - found.mean == pytest.approx(4.303 * found.error)


def test_a_difference_is_scipys_paired_t():
    random = Random(2)
    ours = [[random.random()] for _ in range(25)]
    theirs = [[one[0] * 0.7 + 0.1 * random.random()] for one in ours]
    found = difference(ours, theirs)
    test = stats.ttest_rel([one[0] for one in ours], [one[0] for one in theirs])
    assert found.p == pytest.approx(test.pvalue, rel=1e-6)
    ends = test.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-4)


def test_differences_that_are_all_the_same_by_hand():
    """Of four pairs 0.4899 may differ by something else, from -1 to 1; by chance all are of one sign in 2 of 16."""
    alike = difference([[1.0], [0.0]] * 2, [[1.0], [0.0]] * 2, low=-1, high=1)
    assert (alike.low, alike.high) == pytest.approx((-0.4899, 0.4899), abs=1e-4)
    assert (alike.p, alike.test, alike.sign) == (1, "McNemar", 0)
    found = difference([[0.5]] * 4, [[0.25]] * 4, low=-1, high=1, bootstrap=True)
    assert (found.low, found.high) == pytest.approx((0.25 - 1.25 * 0.4899, 0.25 + 0.75 * 0.4899), abs=1e-4)
    assert (found.p, found.test, found.sign) == (2 / 16, "sign", 0)
    found = difference([[4.0]] * 8, [[3.0]] * 8)  # returns, which have no bounds
    assert (found.low, found.high, found.p, found.sign) == (None, None, 2 / 2**8, 1)
    assert difference([[4.0]] * 8, [[3.0]] * 8, among=10).sign == 0
    found = difference(
        [[0.1] * 3, [0.2]], [[0.1], [0.2]]
    )  # the mean of three times 0.1 is not 0.1 to the last bit
    assert (found.wins, found.ties, found.p) == (0, 2, 1)


def test_of_single_successes_the_test_is_mcnemars():
    ours, theirs = [[1.0]] * 8 + [[0.0]] * 12, [[0.0]] * 7 + [[1.0]] * 1 + [[1.0]] * 2 + [[0.0]] * 10
    found = difference(ours, theirs)
    assert (found.wins, found.losses, found.ties, found.test) == (7, 2, 11, "McNemar")
    assert found.p == pytest.approx(2 * (1 + 9 + 36) / 2**9)
    assert found.p == pytest.approx(their_mcnemar([[1, 7], [2, 10]], exact=True).pvalue)
    assert difference([[1.0], [0.0]], [[1.0], [0.0]]).p == 1
    assert difference([[1.0, 1.0], [1.0]], [[0.0], [1.0]]).test == "t"


def test_mcnemar_of_many_pairs():
    for pair in ((0, 0), (3, 3), (460, 520), (5000, 5200), (50_000, 50_600), (0, 3000)):
        assert mcnemar(*pair) == pytest.approx(
            stats.binomtest(min(pair), sum(pair)).pvalue if sum(pair) else 1.0, rel=1e-6
        )


def test_a_bootstrap_is_near_scipys_and_the_same_every_time():
    random = Random(3)
    values = [random.gauss(0.1, 1) for _ in range(200)]
    ours = bootstrapped(values)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=0
    ).confidence_interval
    assert ours == pytest.approx(tuple(theirs), abs=0.01)
    assert ours == bootstrapped(values)
    medians = bootstrapped(values, lambda some: median(some) if values[0] in some else None, draws=1000)
    drawn = stats.bootstrap((values,), np.median, method="percentile", n_resamples=10_000, rng=0)
    assert medians == pytest.approx(tuple(drawn.confidence_interval), abs=0.05)
    wide = bootstrapped(values, among=10)
    assert wide[0] < ours[0] < ours[1] < wide[1]
    pairs = [[value] for value in values]
    found = difference(pairs, [[0.0]] * 200, bootstrap=True)
    assert (found.low, found.high) == pytest.approx(ours, abs=1e-9)


def test_students_t_is_scipys():
    for freedom in (1, 2, 3, 7, 30, 499, 10_000):
        for outside in (0.05, 0.01, 0.005):
            assert student(freedom, outside) == pytest.approx(stats.t.ppf(1 - outside / 2, freedom), abs=6e-4)
