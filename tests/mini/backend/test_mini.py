"""The mini benchmark: schema, determinism, disjoint splits, and that every hidden constant matters."""

import ast
import collections
import copy
import itertools
import json
import subprocess
import sys

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.mini.backend.families import Problem

FAMILIES = mini.WORLDS["families"].families
NAMES = tuple(FAMILIES)


def run_published(source, call):
    """Definition and call as the published grader runs them: globals and locals apart, in a function."""
    names = {}
    exec(source, {"__builtins__": __builtins__}, names)
    return eval(call, {"__builtins__": __builtins__}, names)


def drawn(family, n=5, split="train"):
    return list(itertools.islice(mini.problems("families", family, split, 0), n))


def values(source, calls):
    """What each call gives; an error is a value of its own."""
    names = {}
    exec(source, names)
    results = []
    for call in calls:
        try:
            results.append(repr(eval(call, dict(names))))
        except Exception as error:  # noqa: BLE001 - whatever a mutant raises is what it gives
            results.append(repr(error))
    return results


class Perturb(ast.NodeTransformer):
    """Change the constant number `index`."""

    def __init__(self, index, step):
        self.index, self.step, self.seen = index, step, -1

    def visit_Constant(self, node):
        self.seen += 1
        if self.seen != self.index:
            return node
        if isinstance(node.value, bool):
            return ast.Constant(not node.value)
        if isinstance(node.value, int | float):
            return ast.Constant(node.value + self.step)
        return ast.Constant(node.value + "Q")


def test_there_are_at_least_eight_families():
    assert len(NAMES) >= 8


def test_rows_have_exactly_the_fields_of_a_colbench_row(shared):
    with (shared / "data/colbench/backend_tasks_500.jsonl").open() as file:
        real = json.loads(next(file))
    for row in mini.generate("test", 24, world="families"):
        assert list(row) == list(real)
        assert [type(value) for value in row.values()] == [type(value) for value in real.values()]
        assert list(row["test_cases"]) == list(real["test_cases"])
        assert all(type(call) is str for call in row["test_cases"].values())
        assert row["ground_truth"] == row["hidden_information"]


def test_the_description_ends_with_the_signature_of_the_function():
    for row in mini.generate("train", 48, world="families"):
        first_line = row["ground_truth"].partition("\n")[0].removesuffix(":")
        assert row["problem_description"].endswith(f"The signature of the function is: {first_line}")


@pytest.mark.parametrize("family", NAMES)
def test_every_constant_matters(family):
    for problem in drawn(family):
        tree = ast.parse(problem.source)
        expected = values(problem.source, problem.calls)
        count = sum(isinstance(node, ast.Constant) for node in ast.walk(tree))
        for index, step in itertools.product(range(count), (1, -1)):
            changed = ast.unparse(ast.fix_missing_locations(Perturb(index, step).visit(copy.deepcopy(tree))))
            assert values(changed, problem.calls) != expected, f"no test notices:\n{changed}"


@pytest.mark.parametrize("family", NAMES)
def test_inclusive_and_exclusive_thresholds_differ(family):
    other = {" >= ": " > ", " <= ": " < ", " < ": " <= "}  # `x > 5: … (x - 5)` is the same either way
    for problem in drawn(family):
        expected = values(problem.source, problem.calls)
        for line in problem.source.splitlines():
            for one, swapped in other.items():
                if one in line:
                    changed = problem.source.replace(line, line.replace(one, swapped))
                    assert values(changed, problem.calls) != expected, f"no test notices:\n{changed}"


@pytest.mark.parametrize("family", NAMES)
def test_references_run_under_the_published_exec_and_give_plain_data(family):
    for problem in drawn(family, 4, "test"):
        assert len(problem.calls) == 10
        for call in problem.calls:
            value = run_published(problem.source, call)
            assert value is not None
            assert ast.literal_eval(repr(value)) == value
        module = ast.parse(problem.source)
        assert [type(node) for node in module.body] == [ast.FunctionDef]


def test_a_constant_answer_passes_few_tests():
    passed = successes = 0
    rows = mini.generate("test", 240, world="families")
    for row in rows:
        outputs = values(row["ground_truth"], row["test_cases"].values())
        best = collections.Counter(outputs).most_common(1)[0][1]
        passed += best / len(outputs)
        successes += best == len(outputs)
    assert passed / len(rows) < 0.25
    assert successes == 0


def test_what_comes_back_is_of_many_kinds():
    kinds = {type(ast.literal_eval(values(p.source, p.calls)[0])) for name in NAMES for p in drawn(name, 1)}
    assert {str, tuple, dict, list, int} <= kinds


def test_the_first_tasks_of_a_longer_list_are_the_shorter_list():
    assert mini.generate("train", 60, world="families")[:25] == mini.generate("train", 25, world="families")


def test_splits_share_no_function_and_repeat_none():
    train = [row["ground_truth"] for row in mini.generate("train", 1500, world="families")]
    test = [row["ground_truth"] for row in mini.generate("test", 900, world="families")]
    other = [row["ground_truth"] for row in mini.generate("test", 900, seed=7, world="families")]
    assert len(set(train)) == len(train)
    assert len(set(test)) == len(test)
    assert not set(train) & (set(test) | set(other))


@pytest.mark.parametrize("family", NAMES)
def test_the_split_is_decided_by_the_rules_not_by_the_wording(family):
    sides = [{p.rules for p in drawn(family, 40, split)} for split in ("train", "test")]
    assert not sides[0] & sides[1]


def test_another_seed_gives_other_tasks():
    assert mini.generate("train", 12, seed=1, world="families") != mini.generate(
        "train", 12, seed=2, world="families"
    )


def test_another_process_draws_the_same_tasks():
    code = "import json; from sweet_rl.mini.backend import tasks as mini; print(json.dumps(mini.generate('test', 24, seed=3, world='families')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == mini.generate("test", 24, seed=3, world="families")


def test_the_tasks_of_seed_0_never_change():
    """Published figures name these tasks; a change here needs a new name for the benchmark."""
    import hashlib

    text = json.dumps(
        [mini.generate("train", 120, world="families"), mini.generate("test", 120, world="families")]
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "35b8ea54e48a2fa1"


def test_an_exhausted_family_says_so(monkeypatch):
    tiny = Problem("def f(x):\n    return x", "Do it.", (1,), ((1,),) * 10)
    monkeypatch.setitem(FAMILIES, "parcel", lambda rng: tiny)
    monkeypatch.setattr(mini, "_GIVE_UP_AFTER", 50)
    with pytest.raises(UsageError, match="'parcel' of the mini benchmark has no more than"):
        list(mini.problems("families", "parcel", "train", 0))


def test_an_unknown_split_is_refused():
    with pytest.raises(UsageError, match="not 'valid'"):
        mini.generate("valid", 3)
