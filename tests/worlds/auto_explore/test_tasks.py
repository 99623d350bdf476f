"""Records of AutoExplore: what is loaded, which files are right, levels and their beginnings."""

import json
from types import SimpleNamespace

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.reflect.play import Level, chosen, starts_of
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.options import Levels
from sweet_rl.worlds.auto_explore.tasks import explore_tasks, levels_of, load_dataset, targets_of, task_rows


@pytest.fixture
def golden(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


def record(path, filename="docs/a.md", question="When?", **more):
    return {"question": question, "filename": filename, "root": "shop", "optimal_path": path, **more}


def write(folder, records, name="data.json"):
    (folder / name).write_text(json.dumps(records))
    return folder / name


PATHS = [
    ["cd docs", "cat a.md", "id a.md"],
    ["cd notes", 'cat "to do.md"', 'id "to do.md"'],  # quoted: published code looks at the last quote
    ["cd docs", "cd ..", "cat a.md"],
    ["cat logo.png"],
    ["ls", 'cd "my notes"', "ls", "cat a.md"],
    ["cd .git", "cat a.md"],
    ["cat .env.md"],
]


def test_what_is_loaded(tmp_path, golden):
    file = write(tmp_path, [record(path, id=number) for number, path in enumerate(PATHS)])
    assert [row["id"] for row in load_dataset(file, compat="published")] == golden["load_dataset_kept"]
    assert [row["id"] for row in load_dataset(file)] == [0, 1, 2, 4]


def test_a_folder_of_records(tmp_path):
    write(tmp_path, [record(PATHS[0], id=2)], "b.json")
    write(tmp_path, [record(PATHS[0], id=1)], "a.json")
    assert [row["id"] for row in load_dataset(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no JSON file"),
        ("{}", "a list of task records"),
        ("[3]", r"\[0\]"),
        (json.dumps([record(["ls"]), record("ls")]), r"\[1\].optimal_path.*list of commands"),
        (json.dumps([record([3])]), r"\[0\].optimal_path.*list of strings"),
        (json.dumps([record(["ls"], trajectories=["abc"])]), r"\[0\].trajectories.*list of objects"),
        (json.dumps([record(["ls"], trajectories={"a": 1})]), r"\[0\].trajectories.*list of objects"),
        (json.dumps([record(["ls"], trajectories=[{"filename": ["a"]}])]), r"\[0\].trajectories"),
        (json.dumps([record(["ls"], clues="MOVED.md")]), r"\[0\].clues.*list of paths"),
        (json.dumps([{"root": "x", "optimal_path": []}]), r"\[0\].filename.*string"),
    ],
)
def test_broken_files(tmp_path, text, problem):
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(DataError, match=problem):
        load_dataset(tmp_path / "data.json")


def test_no_records(tmp_path):
    with pytest.raises(UsageError, match="no task records"):
        load_dataset(tmp_path)
    with pytest.raises(UsageError, match="no task records"):
        load_tasks(f"auto-explore:{tmp_path}/nope.json")
    with pytest.raises(UsageError, match="no task that can be played"):
        load_tasks(f"auto-explore:{write(tmp_path, [record(['cat a.md'], question='')])}")


def shown(info, filename):
    return {"info": info, "filename": filename, "trajectory": []}


def test_files_that_are_right():
    tried = record(
        PATHS[0],
        trajectories=[
            shown("positive0", "docs/b.md"),
            shown("negative0", "docs/wrong.md"),
            shown("positive1", None),
            shown("positive2", "docs/a.md"),
        ],
    )
    assert targets_of(tried) == ["docs/a.md", "docs/b.md"]
    assert targets_of(tried, compat="published") == ["docs/a.md", "docs/b.md", "docs/wrong.md"]
    for untried in (record(PATHS[0]), record(PATHS[0], trajectories=[shown("positive0", None)])):
        assert targets_of(untried) == ["docs/a.md"]
        assert targets_of(untried, compat="published") == []


def test_rows():
    records = [record(PATHS[0], answer="nine"), record(PATHS[0], question=" ")]
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
    assert [task.task_id for task in load_tasks("auto-explore:test", num_tasks=3)] == [
        row["task_id"] for row in test[:3]
    ]


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


def test_a_task_is_learnt_once_and_every_level_has_its_turn(golden):
    dataset = golden["curriculum"]["dataset"]
    found = levels(dataset, depth_curriculum=True)
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
