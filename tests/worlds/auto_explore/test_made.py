"""Made repositories: the same at any time, with questions that one file answers."""

import re

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.repositories import make_repository, repository_names
from sweet_rl.worlds.auto_explore.repositories import Library, is_allowed, optimal_path
from sweet_rl.worlds.auto_explore.sandbox import PIECES

NAMES = repository_names(40, seed=5)
DROPPED = ("LICENSE", "Makefile", "conf.py", "artwork", "requirements", "ci", "tests", "examples")
NO_QUESTION = (".*out.*", r".*\.git.*", ".*test.*", "__init__.py")


@pytest.mark.parametrize("name", NAMES)
def test_a_repository(name):
    made = make_repository(name)
    assert made == make_repository(name)
    assert 8 <= len(made.files) <= 20
    assert len(made.tasks) >= len(made.files)
    assert {path.count("/") for path in made.files} == {0, 1, 2}
    assert len({task.question for task in made.tasks}) == len(made.tasks)
    for task in made.tasks:
        answer = re.compile(rf"(?<![\w.]){re.escape(task.answer)}(?!\w)")
        assert [path for path, text in made.files.items() if answer.search(text)] == [task.filename]
        assert task.answer not in task.question
    for path, text in made.files.items():
        assert is_allowed(path)
        assert text.isascii()
        assert len(text) >= 10
        assert PIECES.count(text) >= 50  # gen_task asks nothing about shorter files
        assert text.count("\n") <= 10
        assert not any(word in part for part in path.split("/") for word in DROPPED)  # of filter_repo
        assert not any(re.match(pattern, path) for pattern in NO_QUESTION)  # of gen_task


def test_records():
    made = make_repository("service-17")
    rows = made.rows()
    assert len(rows) == len(made.tasks)
    for row, task in zip(rows, made.tasks, strict=True):
        assert row == {
            "question": task.question,
            "answer": task.answer,
            "optimal_path": optimal_path(task.filename),
            "filename": task.filename,
            "root": "service-17",
            "n_level": task.filename.count("/"),
            "model": "embedded",
        }


def test_names():
    names = repository_names(10)
    assert names == repository_names(10)
    assert len(set(names)) == 10
    assert repository_names(14)[:10] != repository_names(14, seed=1)[:10]
    assert [name.partition("-")[0] for name in names[:5]] == [
        "library",
        "service",
        "analysis",
        "installation",
        "library",
    ]


@pytest.mark.parametrize(
    "name", ["", "shop", "service", "service-", "service-01", "service-1000000", "../service-1"]
)
def test_no_such_repository(name):
    with pytest.raises(UsageError, match="no embedded repository"):
        Library().get(name)


def test_variety():
    questions = [task.question for name in NAMES for task in make_repository(name).tasks]
    assert len(set(questions)) > 0.6 * len(questions)
    assert len({re.sub(r"[0-9.]+", "#", question) for question in questions}) > 300
