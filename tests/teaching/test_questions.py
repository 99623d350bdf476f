"""Files to ask about, splits, filters and the embedded questions, by hand."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.repositories import index_of
from sweet_rl.repositories.made import make_repository
from sweet_rl.teaching.jobs import Job
from sweet_rl.teaching.known_questions import known_questions
from sweet_rl.teaching.question_jobs import ask_about, plan_questions, write_questions
from sweet_rl.teaching.questions import (
    SourceFile,
    block_of,
    draw_files,
    extract_questions,
    files_to_ask_about,
)
from sweet_rl.teaching.repositories import filter_repositories, why_left_out
from sweet_rl.teaching.splits import split_tasks
from sweet_rl.teaching.task_filter import clean_tasks
from sweet_rl.teaching.teachers import EmbeddedTeacher
from sweet_rl.teaching.texts import read_list


def test_which_files_are_asked_about():
    names = ["a.py", "layout.md", "src/test_x.py", "src/__init__.py", "d/e/f/deep.txt", "logo.png", "x/y.csv"]
    found = files_to_ask_about(index_of("r", dict.fromkeys(names, "text")))
    assert found == ["a.py", "d/e/f/deep.txt", "src/__init__.py", "x/y.csv"]  # the last pattern is anchored
    assert sorted(draw_files(found, random.Random(0))) == ["a.py", "src/__init__.py", "x/y.csv"]
    assert len(set(draw_files(found * 1, random.Random(0)))) == 3


def test_with_replacement_some_files_come_twice():
    files = [f"{number}.md" for number in range(50)]
    assert sorted(draw_files(files, random.Random(0))) == sorted(files)
    published = draw_files(files, random.Random(0), strict=True)
    assert len(published) == 50
    assert len(set(published)) < 50


def test_a_folder_above_rules_everything_out_as_published_only(tmp_path):
    (tmp_path / "latest/r").mkdir(parents=True)
    (tmp_path / "latest/r/a.md").write_text("word " * 80)
    assert list(plan_questions(tmp_path / "latest")) == ["r/a.md"]
    assert list(plan_questions(tmp_path / "latest", strict=True)) == []


def test_a_long_file_never_begins_too_late():
    text = "".join(f"line {number}\n" for number in range(100))
    for seed in range(20):
        block = block_of(text, random.Random(seed), len, max_tokens=60)
        assert block in text
        assert 50 < len(block) <= 60


def test_an_answer_keeps_its_number():
    reply = "- QUERY1: How many?\n- ANSWER1: 24 chairs\nANSWER2: 7"
    assert extract_questions(reply) == [("How many?", "24 chairs"), ("How many?", "7")]
    assert extract_questions(reply, strict=True) == [("How many?", "chairs"), ("How many?", "")]
    assert extract_questions("ANSWER1: without a question") == []


@pytest.mark.parametrize(
    ("path", "content", "question", "answer"),
    [
        ("a.md", "The shop is open from nine to five every day.\n", "What is the shop?", "The shop is open"),
        ("a.py", "def open_door(key):\n    return key\n", "open door", "`open_door`"),
        ("a.csv", "name,price\nchair,10\n", "What is the price of chair?", "10"),
        ("a.csv", "1,chair,10\n", "What is the number of chair?", "1"),
    ],
)
def test_embedded_questions_are_answered_by_the_file(path, content, question, answer):
    reply = known_questions(SourceFile("r", path), content, content, random.Random(1))
    (pair,) = extract_questions(reply)
    assert question in pair.question
    assert pair.answer.startswith(answer) or answer in pair.answer


def test_a_made_repository_brings_its_own_questions():
    made = make_repository("service-17")
    task = made.tasks[0]
    text = made.files[task.filename]
    reply = known_questions(SourceFile(made.name, task.filename), text, text, random.Random(0))
    own = {(one.question, one.answer) for one in made.tasks if one.filename == task.filename}
    assert {tuple(pair) for pair in extract_questions(reply)} <= own


class Saying(EmbeddedTeacher):
    name = "m"

    def __init__(self, reply):
        self.reply = reply

    async def say(self, asked):
        self.messages = asked.messages
        return self.reply


def ask(folder, teacher, path="r/a.md"):
    repository, _, name = path.partition("/")
    job = Job(path, SourceFile(repository, name))
    return asyncio.run(ask_about(job, folder, teacher, len))


def test_a_file_is_asked_about_in_the_published_form(tmp_path):
    (tmp_path / "r/docs").mkdir(parents=True)
    (tmp_path / "r/docs/a.csv").write_text("".join(f"{number},x\n" for number in range(40)))
    teacher = Saying("- QUERY1: How many?\n- ANSWER1: 40")
    done = ask(tmp_path, teacher, "r/docs/a.csv")
    system, user = teacher.messages
    assert (system.role, user.role) == ("system", "user")
    assert user.content.endswith("".join(f"{number},x\n" for number in range(20)) + "\n")
    assert "docs/a.csv" in user.content
    assert done.result == [
        {
            "question": "How many?",
            "answer": "40",
            "optimal_path": ["ls", "cd docs", "ls", "cat a.csv"],
            "filename": "docs/a.csv",
            "root": "r",
            "n_level": 1,
            "model": "m",
        }
    ]
    planned = plan_questions(tmp_path)
    assert write_questions(tmp_path / "out", planned, {"r/docs/a.csv": done.result}) == 1
    assert read_list(tmp_path / "out/data.json") == read_list(tmp_path / "out/r.json") == done.result


def test_a_reply_without_questions_and_a_file_without_text_are_failures(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r/a.md").write_text("word " * 80)
    (tmp_path / "r/b.md").write_bytes(b"\xff\xfe" * 80)
    done = ask(tmp_path, Saying("I would rather not."))
    assert done.result is None
    assert [(failure.kind, failure.detail) for failure in done.failures] == [
        ("malformed_reply", "I would rather not.")
    ]
    assert [failure.kind for failure in ask(tmp_path, Saying("x"), "r/b.md").failures] == ["unreadable_file"]


def test_odd_entries_are_left_out_and_never_followed(tmp_path):
    source = tmp_path / "in/r"
    source.mkdir(parents=True)
    (source / "kept.md").write_text("a text that is long enough")
    (source / "loop").symlink_to(source)
    (source / "link.md").symlink_to("/etc/passwd")
    (source / "line\nbreak.md").write_text("a text that is long enough")
    (source / "binary.py").write_bytes(bytes(range(256)))
    (source / "ci").mkdir()
    os.mkfifo(source / "pipe.txt")
    *_, totals = filter_repositories(tmp_path / "in", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out/r").iterdir()] == ["kept.md"]
    assert totals.left_out == {
        "link or special file": 3,
        "control character in name": 1,
        "not UTF-8 text": 1,
        "name": 1,
    }
    with pytest.raises(UsageError, match="being copied"):
        list(filter_repositories(tmp_path / "in", source / "out"))
    with pytest.raises(UsageError, match="no folder"):
        list(filter_repositories(tmp_path / "gone", tmp_path / "out"))


@pytest.mark.parametrize(
    ("name", "kept"),
    [("pricing", True), ("ci", False), ("build-ci", False), ("social_ci_x", False), ("circle", True)],
)
def test_ci_is_a_word_unless_strict(name, kept):
    assert (why_left_out(Path(__file__).parent / name) != "name") == kept
    assert why_left_out(Path(__file__).parent / name, strict=True) == "name"


def test_repositories_are_not_split_when_asked_so():
    tasks = [{"question": "q", "root": f"r{number % 11}"} for number in range(220)] + [{"question": " "}]
    parts = split_tasks(tasks, seed=1, by_repo=True)
    roots = [{task["root"] for task in part} for part in parts.values()]
    assert sum(map(len, roots)) == 11 == len(set.union(*roots))
    assert [len(part) for part in parts.values()] == [160, 40, 20]
    assert parts == split_tasks(tasks, seed=1, by_repo=True) != split_tasks(tasks, seed=2, by_repo=True)
    three = split_tasks(tasks[:3], seed=0, by_repo=True)
    assert [len(part) for part in three.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("total", "sizes"), [(0, [0, 0, 0]), (3, [2, 1, 0]), (10, [7, 2, 1]), (14, [10, 3, 1])]
)
def test_exact_shares(total, sizes):
    tasks = [{"question": "q", "number": number} for number in range(total)]
    parts = split_tasks(tasks, seed=0)
    assert [len(part) for part in parts.values()] == sizes
    assert sorted(task["number"] for part in parts.values() for task in part) == list(range(total))


def test_a_split_is_drawn_from_its_seed():
    tasks = [{"question": "q", "number": number} for number in range(100)]
    one, same, other = (split_tasks(tasks, seed=seed) for seed in (0, 0, 1))
    assert one == same != other
    assert [task["number"] for task in one["train"]] != list(range(70))
    assert [task["number"] for task in one["train"]] == sorted(task["number"] for task in one["train"])


def test_a_path_may_go_back_unless_strict(tmp_path):
    (tmp_path / "r/docs").mkdir(parents=True)
    (tmp_path / "r/a.md").write_text("text")
    path = ["ls", "cd docs", "ls", "cd ..", "cat a.md"]
    task = {"question": "q", "root": "r", "filename": "a.md", "optimal_path": path}
    assert clean_tasks([task], tmp_path).tasks[0]["optimal_path"] == [*path[1:2], *path[3:], "id a.md"]
    assert clean_tasks([task], tmp_path, strict=True).dropped == {"hidden target": 1}
    outside = {**task, "filename": "../r/a.md"}
    assert clean_tasks([outside], tmp_path).dropped == {"no such file": 1}
