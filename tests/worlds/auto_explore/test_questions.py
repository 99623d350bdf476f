"""Files to ask about, splits, filters and the embedded questions, by hand."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.mini.repositories import make_repository
from sweet_rl.mini.repository_teacher import known_questions
from sweet_rl.reflect_data.jobs import Job
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.reflect_data.texts import read_list, write_list
from sweet_rl.worlds.auto_explore.data_tasks import (
    SourceFile,
    ask_about,
    block_of,
    clean_tasks,
    draw_files,
    extract_questions,
    files_to_ask_about,
    filter_repositories,
    plan_questions,
    split_tasks,
    why_left_out,
    write_questions,
)
from sweet_rl.worlds.auto_explore.data_texts import task_of
from sweet_rl.worlds.auto_explore.repositories import index_of
from sweet_rl.worlds.auto_explore.tasks import load_dataset, targets_of


def test_which_files_are_asked_about():
    names = ["a.py", "layout.md", "src/test_x.py", "src/__init__.py", "d/e/f/deep.txt", "logo.png", "x/y.csv"]
    found = files_to_ask_about(index_of("r", dict.fromkeys(names, "text")))
    assert found == ["a.py", "d/e/f/deep.txt", "src/__init__.py", "x/y.csv"]  # the last pattern is anchored
    assert sorted(draw_files(found, random.Random(0))) == ["a.py", "src/__init__.py", "x/y.csv"]
    assert len(set(draw_files(found * 1, random.Random(0)))) == 3


def test_with_replacement_some_files_come_twice():
    files = [f"{number}.md" for number in range(50)]
    assert sorted(draw_files(files, random.Random(0))) == sorted(files)
    published = draw_files(files, random.Random(0), compat="published")
    assert len(published) == 50
    assert len(set(published)) < 50


def test_a_folder_above_rules_everything_out_as_published_only(tmp_path):
    (tmp_path / "latest/r").mkdir(parents=True)
    (tmp_path / "latest/r/a.md").write_text("word " * 80)
    assert list(plan_questions(tmp_path / "latest")) == ["r/a.md"]
    assert list(plan_questions(tmp_path / "latest", compat="published")) == []


def test_a_long_file_never_begins_too_late():
    text = "".join(f"line {number}\n" for number in range(100))
    for seed in range(20):
        block = block_of(text, random.Random(seed), len, max_tokens=60)
        assert block in text
        assert 50 < len(block) <= 60


def test_an_answer_keeps_its_number():
    reply = "- QUERY1: How many?\n- ANSWER1: 24 chairs\nANSWER2: 7"
    assert extract_questions(reply) == [("How many?", "24 chairs"), ("How many?", "7")]
    assert extract_questions(reply, compat="published") == [("How many?", "chairs"), ("How many?", "")]
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
    reply = known_questions("r", path, content, content, random.Random(1), others=[])
    (pair,) = extract_questions(reply)
    assert question in pair[0]
    assert pair[1].startswith(answer) or answer in pair[1]


@pytest.mark.parametrize(
    ("path", "content", "other"),
    [
        ("a.py", "def open_door(key):\n    return key\n", "class Door:\n    def openDoor(self): ...\n"),
        ("a.py", "WAIT_S = 3\n", "def send(client, wait_s=4): ...\n"),
        ("a.yaml", "port: 3000\n", '{"port": 4000}\n'),
        ("a.md", "The shop is open from nine to five.\n", "Where the\nshop is, nobody knows.\n"),
        ("a.md", "Never feed a sleeping crocodile twice.\n", "Do not feed it twice: a sleeping crocodile.\n"),
        ("a.md", "# Prices\n", "prices: none\n"),
        ("a.csv", "name,price\nchair,10\n", "name,colour\nchair,red\n"),
    ],
)
def test_what_another_file_could_answer_is_not_asked(path, content, other):
    def asked(*others):
        reply = known_questions("r", path, content, content, random.Random(1), others=others)
        return extract_questions(reply)

    assert asked("Nothing about it.\n")
    assert not asked("Nothing about it.\n", other)


def test_questions_are_about_what_is_shown_and_no_other_file_on_the_disk_says(tmp_path):
    common, own = "def common():\n    return 1\n\n\n", "def own_{}():\n    return 2\n"
    hidden = "# nothing\n" * 1000 + "def far_below():\n    return 3\n"  # 1,000 lines of code are shown
    (tmp_path / "r/lib").mkdir(parents=True)
    for number, path in enumerate(("r/a.py", "r/lib/b.py")):
        (tmp_path / path).write_text(common + own.format("ab"[number]) + hidden)
    for path, name in (("r/a.py", "own a"), ("r/lib/b.py", "own b")):
        (record,) = ask(tmp_path, EmbeddedTeacher(), path).result
        assert name in record["question"]


def test_a_made_repository_brings_its_own_questions():
    made = make_repository("service-17")
    task = made.tasks[0]
    text = made.files[task.filename]
    reply = known_questions(made.name, task.filename, text, text, random.Random(0), others=[])
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
    *_, left_out = filter_repositories(tmp_path / "in", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out/r").iterdir()] == ["kept.md"]
    assert left_out == {
        "link or special file": 3,
        "control character in name": 1,
        "not UTF-8 text": 1,
        "name": 1,
    }
    with pytest.raises(UsageError, match="being copied"):
        filter_repositories(tmp_path / "in", source / "out")
    with pytest.raises(UsageError, match="no folder"):
        filter_repositories(tmp_path / "gone", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "kept"),
    [("pricing", True), ("ci", False), ("build-ci", False), ("social_ci_x", False), ("circle", True)],
)
def test_ci_is_a_word_unless_strict(name, kept):
    assert (why_left_out(Path(__file__).parent / name) != "name") == kept
    assert why_left_out(Path(__file__).parent / name, compat="published") == "name"


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
    assert clean_tasks([task], tmp_path)[0][0]["optimal_path"] == [*path[1:2], *path[3:], "id a.md"]
    assert clean_tasks([task], tmp_path, compat="published")[1] == {"hidden target": 1}
    outside = {**task, "filename": "../r/a.md"}
    assert clean_tasks([outside], tmp_path)[1] == {"no such file": 1}


def test_one_question_about_two_files_takes_both(tmp_path):
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / "r").mkdir(exist_ok=True)
        (tmp_path / "r" / name).write_text("something")
    questions = {"a.md": "Who is it?", "b.md": "who is  it?", "c.md": "Who was it?"}
    tasks = [
        {"question": asked, "filename": name, "root": "r", "optimal_path": ["ls", f"cat {name}"]}
        for name, asked in questions.items()
    ]
    cleaned = clean_tasks(tasks, tmp_path)[0]
    assert [targets_of(task) for task in cleaned] == [["a.md", "b.md"], ["b.md", "a.md"], ["c.md"]]
    assert [task_of(task).extra["targets"] for task in cleaned] == [
        ["a.md", "b.md"],
        ["b.md", "a.md"],
        ["c.md"],
    ]
    assert all("targets" not in task for task in clean_tasks(tasks, tmp_path, compat="published")[0])
    write_list(tmp_path / "data.json", cleaned)
    assert load_dataset(tmp_path / "data.json") == cleaned
    write_list(tmp_path / "data.json", [{**cleaned[0], "targets": "a.md"}])
    with pytest.raises(DataError, match="must be a list of paths"):
        load_dataset(tmp_path / "data.json")
