"""AutoExplore's tasks, loaded and made: recorded inputs (goldens data_and_cli.json), and by hand."""

import asyncio
import json
import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.mini import repositories as embedded
from sweet_rl.mini.repositories import known_questions, make_repository
from sweet_rl.online.reflect.play import Level, chosen, starts_of
from sweet_rl.reflect_data.jobs import Job
from sweet_rl.reflect_data.texts import read_list, write_list
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.data_tasks import (
    ask_about,
    block_of,
    extract_questions,
    filter_repo,
    gen_task,
    plan_questions,
    why_left_out,
)
from sweet_rl.worlds.auto_explore.data_texts import task_of
from sweet_rl.worlds.auto_explore.options import Levels
from sweet_rl.worlds.auto_explore.tasks import (
    clean_tasks,
    explore_tasks,
    levels_of,
    load_dataset,
    split_tasks,
    targets_of,
    task_rows,
)

from .goldens import Scripted

PATHS = [
    ["cd docs", "cat a.md", "id a.md"],
    ["cd notes", 'cat "to do.md"', 'id "to do.md"'],  # quoted: published code looks at the last quote
    ["cd docs", "cd ..", "cat a.md"],
    ["cat logo.png"],
    ["ls", 'cd "my notes"', "ls", "cat a.md"],
    ["cd .git", "cat a.md"],
    ["cat .env.md"],
]


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


@pytest.fixture
def repositories(shared):
    return shared / "goldens/reflect_rl/fixtures/repos"


def record(path=PATHS[0], filename="docs/a.md", question="When?", **more):
    return {"question": question, "filename": filename, "root": "shop", "optimal_path": path, **more}


def test_what_is_loaded(tmp_path, golden):
    write_list(tmp_path / "data.json", [record(path, id=number) for number, path in enumerate(PATHS)])
    published = load_dataset(tmp_path / "data.json", compat="published")
    assert [row["id"] for row in published] == golden["load_dataset_kept"]
    assert [row["id"] for row in load_dataset(tmp_path / "data.json")] == [0, 1, 2, 4]
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="no task records"):
        load_dataset(tmp_path / "folder")
    for number, name in ((2, "b"), (1, "a")):
        write_list(tmp_path / f"folder/{name}.json", [record(id=number)])
    assert [row["id"] for row in load_dataset(tmp_path / "folder")] == [1, 2]
    with pytest.raises(UsageError, match="no task records"):
        load_tasks(f"auto-explore:{tmp_path}/nope.json")
    write_list(tmp_path / "data.json", [record(["cat a.md"], question="")])
    with pytest.raises(UsageError, match="no task that can be played"):
        load_tasks(f"auto-explore:{tmp_path}/data.json")


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ("{", "is not JSON"),
        ({}, "a list of records"),
        ([3], "number 0"),
        ([record(["ls"]), record("ls")], r"\[1\].optimal_path.*list of commands"),
        ([record([3])], r"\[0\].optimal_path.*list of commands"),
        ([record(trajectories=["abc"])], r"\[0\].trajectories.*list of objects"),
        ([record(trajectories={"a": 1})], r"\[0\].trajectories.*list of objects"),
        ([record(trajectories=[{"filename": ["a"]}])], r"\[0\].trajectories"),
        ([record(clues="MOVED.md")], r"\[0\].clues.*list of paths"),
        ([record(targets="a.md")], r"\[0\].targets.*list of paths"),
        ([{"root": "x", "optimal_path": []}], r"\[0\].filename.*string"),
    ],
)
def test_broken_files(tmp_path, records, problem):
    (tmp_path / "data.json").write_text(records if records == "{" else json.dumps(records))
    with pytest.raises(DataError, match=problem):
        load_dataset(tmp_path / "data.json")


def test_files_that_are_right():
    tried = {
        "positive0": "docs/b.md",
        "negative0": "docs/wrong.md",
        "positive1": None,
        "positive2": "docs/a.md",
    }
    ways = [{"info": info, "filename": name, "trajectory": []} for info, name in tried.items()]
    assert targets_of(record(trajectories=ways)) == ["docs/a.md", "docs/b.md"]
    published = targets_of(record(trajectories=ways), compat="published")
    assert published == ["docs/a.md", "docs/b.md", "docs/wrong.md"]
    for untried in (record(), record(trajectories=ways[2:3])):
        assert targets_of(untried) == ["docs/a.md"]
        assert targets_of(untried, compat="published") == []
    records = [record(answer="nine"), record(question=" ")]
    (row,) = task_rows(records)
    assert row["task_id"] == "auto_explore/0"
    assert (row["problem_description"], row["ground_truth"]) == ("When?", "docs/a.md")
    assert row["hidden_information"] == "The file is docs/a.md. It says: nine"
    assert (row["root"], row["targets"], row["optimal_path"]) == ("shop", ["docs/a.md"], PATHS[0])
    assert len(task_rows(records, easy=True)) == 2
    assert task_rows(records, compat="published") == []


def test_embedded_tasks():
    train, test, both = (explore_tasks(split) for split in ("train", "test", ""))
    roots = [{row["root"] for row in rows} for rows in (train, test)]
    assert [len(found) for found in roots] == [40, 10]
    assert not roots[0] & roots[1]
    assert len({row["task_id"] for row in both}) == len(both) == len(train) + len(test)
    assert len({row["root"] for row in train[:40]}) == 40
    few = load_tasks("auto-explore:test", num_tasks=3)
    assert [task.task_id for task in few] == [row["task_id"] for row in test[:3]]


def levels(dataset, compat="fixed", easy=False, **flags):
    tasks = [
        SimpleNamespace(
            id=item["id"], problem_description=item["question"], extra={"targets": item["filename"]}
        )
        for item in dataset
    ]
    found = levels_of(tasks, Levels(**flags), easy=easy, compat=compat)
    return [[item.id for item in level] for level in found]


def test_recorded_levels(golden):
    golden = golden["curriculum"]
    asked = [{**item, "question": "q"} for item in golden["dataset"]]
    for case in golden["cases"]:
        merged = {"merge_first_two": case["merge_first_two"], "merge_after_first_k": case["first_k"]}
        assert levels(asked, compat="published", depth_curriculum=True, **merged) == case["levels"]
    for case in golden["schedules"]:
        flags = dict(case["args"])
        max_steps, few = flags.pop("max_steps"), flags.pop("few_data", 0)
        wanted = SimpleNamespace(curriculum_index=flags.pop("curriculum_index", -1), few_data=few)
        made = [Level("", tuple(one)) for one in levels(golden["dataset"], compat="published", **flags)]
        found = [list(level.tasks) for level in chosen(made, wanted)]
        assert found == case["levels"]
        starts = starts_of([len(level) for level in found], max_steps, compat="published")
        assert starts == case["trigger_set"]
    found = levels(golden["dataset"], depth_curriculum=True)  # a task is learnt once
    assert found == [[0, 3, 5], [1], [2], [4, 6]]
    starts = starts_of([len(level) for level in found], 5)
    assert starts[0] == 0
    assert len(set(starts)) > 1  # published: all begin at 0, and only the first level is ever played


def test_levels_of_too_little():
    one = [{"id": 0, "filename": ["a"], "question": "q"}]
    assert levels(one, depth_curriculum=True, merge_first_two=True) == [[0]]  # published: an index error
    assert levels(one, depth_curriculum=True, merge_after_first_k=0) == [[0]]
    with pytest.raises(UsageError, match="below 1"):
        chosen([Level("", ())], SimpleNamespace(curriculum_index=1, few_data=0))


def listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_recorded_filter_of_repositories(golden, repositories, tmp_path, capsys):
    source = tmp_path / "in"  # the fixture and a few files that must go
    shutil.copytree(repositories / "shop", source / "shop")
    for name in golden["filter_repo"]["input"]:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes("é".encode("latin-1") * 20 if path.stem == "latin" else b"x = 1\n" * 10)
    assert listing(source) == golden["filter_repo"]["input"]
    filter_repo(str(source), output=str(tmp_path / "out"), compat="published")
    assert listing(tmp_path / "out") == golden["filter_repo"]["output"]
    assert f"1 repositories with {len(golden['filter_repo']['output'])} files" in capsys.readouterr().out
    filter_repo(str(source), output=str(tmp_path / "ours"))
    more = {"shop/pricing.py", "shop/docs/pricing.txt"}
    assert set(listing(tmp_path / "ours")) - set(golden["filter_repo"]["output"]) == more


def test_odd_entries_are_left_out_and_never_followed(tmp_path, capsys):
    source = tmp_path / "in/r"
    (source / "ci").mkdir(parents=True)
    for name in ("kept.md", "line\nbreak.md"):
        (source / name).write_text("a text that is long enough")
    (source / "loop").symlink_to(source)
    (source / "link.md").symlink_to("/etc/passwd")
    (source / "binary.py").write_bytes(bytes(range(256)))
    os.mkfifo(source / "pipe.txt")
    filter_repo(str(tmp_path / "in"), output=str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out/r").iterdir()] == ["kept.md"]
    _, _, left_out = capsys.readouterr().out.partition("Left out: ")
    odd = {"3 link or special file", "1 control character in name", "1 not UTF-8 text", "1 name"}
    assert {*left_out.strip().split(", ")} == odd
    with pytest.raises(UsageError, match="which is to be copied"):
        filter_repo(str(tmp_path / "in"), output=str(source / "out"))
    with pytest.raises(UsageError, match="no folder"):
        filter_repo(str(tmp_path / "gone"), output=str(tmp_path / "out"))
    kept = {"pricing": True, "ci": False, "build-ci": False, "social_ci_x": False, "circle": True}
    for name, stays in kept.items():
        assert (why_left_out(Path(__file__).parent / name) != "name") == stays
        assert why_left_out(Path(__file__).parent / name, compat="published") == "name"


def test_which_files_are_asked_about(tmp_path):
    names = ["a.py", "layout.md", "src/test_x.py", "src/__init__.py", "d/e/f/deep.txt", "logo.png", "x/y.csv"]
    with tempfile.TemporaryDirectory(prefix="apart") as plain:  # as published patterns see the whole path
        for folder in (tmp_path, Path(plain)):
            for name in [*(f"r/{name}" for name in names), *(f"s/{number}.md" for number in range(50))]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("word " * 80)
        planned, again, apart, nothing = (
            plan_questions(folder, compat=compat)
            for folder, compat in (
                (tmp_path, "fixed"),
                (Path(plain), "fixed"),
                (Path(plain), "published"),
                (tmp_path, "published"),
            )
        )
    few = {path for repository, path in planned.values() if repository == "r"}
    assert few == {"a.py", "src/__init__.py", "x/y.csv"}  # the last pattern is anchored
    assert len(planned) == 3 + 50
    assert (again, nothing) == (planned, {})
    many = [path for repository, path in apart.values() if repository == "s"]
    assert len(many) == 50 > len(set(many))  # with replacement


def test_the_block_of_a_file(golden, repositories):
    recorded = golden["random_block_stub_tokens"]
    table = (repositories / "shop/stock.csv").read_text()
    published = block_of(table, Random(0), len, max_tokens=40, compat="published")
    assert published == recorded["stock.csv max40 seed0"]
    assert block_of(table, Random(0), len, max_tokens=40) == published.replace("\n\n", "\n")
    for name, key in {"docs/hours.md": "hours.md (32 chars <50)", "README.md": "README"}.items():
        text = (repositories / "shop" / name).read_text()
        assert block_of(text, Random(0), len, compat="published") == recorded[key] == ""
    text = "".join(f"line {number}\n" for number in range(100))
    for seed in range(20):
        block = block_of(text, Random(seed), len, max_tokens=60)
        assert block in text
        assert 50 < len(block) <= 60  # it never begins too late


def test_questions_of_a_reply(golden):
    recorded = golden["extract_QAs"]
    assert [list(pair) for pair in extract_questions(recorded["in"])] == recorded["out"]
    reply = "- QUERY1: How many?\n- ANSWER1: 24 chairs\nANSWER2: 7"
    assert extract_questions(reply) == [("How many?", "24 chairs"), ("How many?", "7")]
    assert extract_questions(reply, compat="published") == [("How many?", "chairs"), ("How many?", "")]
    assert extract_questions("ANSWER1: without a question") == []


def test_the_embedded_teacher_asks_what_a_made_repository_knows_of_an_unchanged_file():
    made = make_repository("service-17")
    task = made.tasks[0]
    pairs = {(one.question, one.answer) for one in made.tasks if one.filename == task.filename}
    text = made.files[task.filename]
    asked = extract_questions(known_questions(made.name, task.filename, text, Random(1)))
    assert asked
    assert {*asked} <= pairs
    assert not extract_questions(known_questions(made.name, task.filename, f"{text} ", Random(1)))
    with pytest.raises(UsageError, match="not 'r': --teacher openai"):
        known_questions("r", "a.md", "", Random(1))


def ask(folder, teacher, path="r/a.md"):
    repository, _, name = path.partition("/")
    return asyncio.run(ask_about(Job(path, (repository, name)), teacher, source=folder))


def test_a_file_is_asked_about_in_the_published_form(tmp_path):
    (tmp_path / "r/docs").mkdir(parents=True)
    (tmp_path / "r/docs/a.csv").write_text("".join(f"{number},x\n" for number in range(40)))
    teacher = Scripted("- QUERY1: How many?\n- ANSWER1: 40")
    done = ask(tmp_path, teacher, "r/docs/a.csv")
    system, user = teacher.asked[0]
    assert (system.role, user.role) == ("system", "user")
    assert user.content.endswith("".join(f"{number},x\n" for number in range(20)) + "\n")
    assert "docs/a.csv" in user.content
    path = ["ls", "cd docs", "ls", "cat a.csv"]
    made = {"question": "How many?", "answer": "40", "optimal_path": path, "filename": "docs/a.csv"}
    assert done.result == [{**made, "root": "r", "n_level": 1, "model": "scripted"}]
    (tmp_path / "r/a.md").write_text("word " * 80)
    (tmp_path / "r/b.md").write_bytes(b"\xff\xfe" * 80)
    for name, kind in (("r/a.md", "malformed_reply"), ("r/b.md", "unreadable_file")):
        done = ask(tmp_path, Scripted("I would rather not."), name)
        assert (done.result, [failure.kind for failure in done.failures]) == (None, [kind])
        assert kind != "malformed_reply" or done.failures[0].detail == "I would rather not."


def test_a_repository_may_be_called_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = import_module("sweet_rl.mini.repositories")
    made.write_into(Path("repos"), [make_repository("service-1")])
    Path("repos/service-1").rename("repos/data")
    shutil.copytree("repos/data", "repos/r")
    monkeypatch.setattr(embedded, "known_questions", lambda name, *_: f"QUERY: {name}?\nANSWER: a")
    gen_task(repo_dir="repos", output="out", quiet=True)
    both = read_list(Path("out/data.json"))
    assert [task["root"] for task in both] == sorted(task["root"] for task in both)
    assert {task["question"] for task in both} == {"data?", "r?"}
    assert read_list(Path("out/r.json")) == [task for task in both if task["root"] == "r"]


def test_filter_task(golden, repositories):
    recorded = golden["filter_task"]
    published, dropped = clean_tasks(recorded["input"], repositories, compat="published")
    assert published == recorded["output"]
    assert dropped == {"no question": 1, "no such file": 1, "twice": 1, "target cannot be opened": 1}
    ours, _ = clean_tasks(recorded["input"], repositories)
    assert ours[:1] == recorded["output"]
    (noted,) = ours[1:]
    assert noted["optimal_path"] == ['cd "my notes"', 'cat "todo list.txt"', 'id "todo list.txt"']


def test_tasks_about_the_same(tmp_path):
    (tmp_path / "r/docs").mkdir(parents=True)
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / "r" / name).write_text("something")
    path = ["ls", "cd docs", "ls", "cd ..", "cat a.md"]
    back = {"question": "q", "root": "r", "filename": "a.md", "optimal_path": path}
    assert clean_tasks([back], tmp_path)[0][0]["optimal_path"] == [*path[1:2], *path[3:], "id a.md"]
    assert clean_tasks([back], tmp_path, compat="published")[1] == {"hidden target": 1}
    assert clean_tasks([{**back, "filename": "../r/a.md"}], tmp_path)[1] == {"no such file": 1}
    questions = {"a.md": "Who is it?", "b.md": "who is  it?", "c.md": "Who was it?"}
    tasks = [
        {"question": asked, "filename": name, "root": "r", "optimal_path": ["ls", f"cat {name}"]}
        for name, asked in questions.items()
    ]
    cleaned, _ = clean_tasks(tasks, tmp_path)
    both = [["a.md", "b.md"], ["b.md", "a.md"], ["c.md"]]  # one question about two files takes both
    assert [targets_of(task) for task in cleaned] == both
    assert [task_of(task).extra["targets"] for task in cleaned] == both
    assert not any("targets" in task for task in clean_tasks(tasks, tmp_path, compat="published")[0])
    write_list(tmp_path / "data.json", cleaned)
    assert load_dataset(tmp_path / "data.json") == cleaned


def test_splits(golden):
    recorded = golden["split"]
    tasks = [
        {"question": "q", "root": f"r{number % 11}", "number": number} for number in range(recorded["n"])
    ]

    def sizes(tasks, **how):
        return [len(part) for part in split_tasks(tasks, **{"seed": 0, **how}).values()]

    published = split_tasks(tasks, seed=0, compat="published")
    assert {name: len(part) for name, part in published.items()} == recorded["seed0_sizes"]
    for total, exact in (
        (1000, [700, 200, 100]),
        (0, [0, 0, 0]),
        (3, [2, 1, 0]),
        (10, [7, 2, 1]),
        (14, [10, 3, 1]),
    ):
        assert sizes(tasks[:total]) == exact
    one, same, other = (split_tasks(tasks[:100], seed=seed) for seed in (0, 0, 1))
    assert one == same != other
    numbers = [task["number"] for task in one["train"]]
    assert numbers == sorted(numbers) != list(range(70))
    assert sorted(task["number"] for part in one.values() for task in part) == list(range(100))
    whole = [*tasks[:220], {"question": " "}]  # repositories are not split when asked so
    parts = split_tasks(whole, seed=1, by_repo=True)
    roots = [{task["root"] for task in part} for part in parts.values()]
    assert sum(map(len, roots)) == 11 == len(set.union(*roots))
    assert sizes(whole, seed=1, by_repo=True) == [160, 40, 20]
    assert parts == split_tasks(whole, seed=1, by_repo=True) != split_tasks(whole, seed=2, by_repo=True)
    assert sizes(tasks[:3], by_repo=True) == [1, 1, 1]
