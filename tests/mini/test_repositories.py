"""Made repositories: the same at any time and on disk, with questions that one file answers; and the teacher that searches them."""

import asyncio
import re
import shutil

import pytest

from sweet_rl.chat.reflect_format import offered_commands, policy_prompt
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.mini.repositories import (
    INDEX,
    Explorer,
    alike,
    make_repository,
    repository_names,
    write_repositories,
)
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.tracking import is_record
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.data_tasks import make_repositories
from sweet_rl.worlds.auto_explore.data_texts import ExploreTalk
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories import Library, index_of, is_allowed, optimal_path
from sweet_rl.worlds.auto_explore.sandbox import PIECES
from sweet_rl.worlds.auto_explore.tasks import explore_tasks, load_dataset

NAMES = repository_names(20, seed=5)
MOVED = repository_names(12, seed=3, hops=2)
DROPPED = ("LICENSE", "Makefile", "conf.py", "artwork", "requirements", "ci", "tests", "examples")
NO_QUESTION = (".*out.*", r".*\.git.*", ".*test.*", "__init__.py")


def test_a_repository():
    for name in (*NAMES, *MOVED):
        check(name)


def check(name):
    made = make_repository(name)
    assert made == make_repository(name)
    if name in MOVED:
        assert (len(made.files), len(made.tasks)) == (16, 24)
    else:
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
        assert PIECES.count(text) >= 50  # gen_task asks nothing about shorter files
        assert not any(word in part for part in path.split("/") for word in DROPPED)  # of filter_repo
        assert not any(re.match(pattern, path) for pattern in NO_QUESTION)  # of gen_task


def test_records_names_and_variety():
    made = make_repository("service-17")
    for row, task in zip(made.rows(), made.tasks, strict=True):
        path, level = optimal_path(task.filename), task.filename.count("/")
        said = {"question": task.question, "answer": task.answer, "optimal_path": path}
        more = {"filename": task.filename, "root": "service-17", "n_level": level, "model": "embedded"}
        assert row == said | more
    names = repository_names(10)
    assert names == repository_names(10)
    assert len(set(names)) == 10
    assert repository_names(14)[:10] != repository_names(14, seed=1)[:10]
    kinds = ["library", "service", "analysis", "installation", "library"]
    assert [name.partition("-")[0] for name in names[:5]] == kinds
    questions = [task.question for name in NAMES for task in make_repository(name).tasks]
    assert len(set(questions)) > 0.6 * len(questions)
    assert len({re.sub(r"[0-9.]+", "#", question) for question in questions}) > 150
    for name in ("", "shop", "service", "service-", "service-01", "service-1000000", "../service-1"):
        with pytest.raises(UsageError, match="no embedded repository"):
            Library().get(name)


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and not is_record(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def names_in(folder):
    return {path.name for path in (folder / "repos").iterdir() if path.is_dir()}


def test_on_disk_they_are_as_in_memory(tmp_path):
    count = write_repositories(tmp_path / "a", num=5, seed=3)
    assert write_repositories(tmp_path / "b", num=5, seed=3) == count
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert write_repositories(tmp_path / "b", num=5, seed=4, overwrite=True) > 0
    library, names = Library(tmp_path / "a" / "repos"), names_in(tmp_path / "a")
    assert len(names) == 5
    for name in names:
        assert library.get(name).folders == make_repository(name).index().folders
    tasks = load_tasks(f"auto-explore:{tmp_path}/a/made_tasks.json")
    assert len(tasks) == count == len(load_dataset(tmp_path / "a" / "made_tasks.json", compat="published"))
    assert {task.row["root"] for task in tasks} == names
    with pytest.raises(UsageError, match="at least 1"):
        write_repositories(tmp_path, num=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        write_repositories(tmp_path / "file" / "x", num=1)


def test_what_is_there_stays(tmp_path, capsys):
    make_repositories(output_dir=str(tmp_path), num=2)
    assert "2 repositories are in" in capsys.readouterr().out
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"exists; pass --overwrite"):
        make_repositories(output_dir=str(tmp_path), num=2)
    (name, *_) = names_in(tmp_path)
    (tmp_path / "repos" / name / "README.md").write_text("changed")
    make_repositories(output_dir=str(tmp_path), num=2, overwrite=True)
    assert contents(tmp_path) == before
    assert not list((tmp_path / "repos").glob(".*"))


def test_a_link_is_replaced_not_followed(tmp_path):
    write_repositories(tmp_path / "a", num=1)
    (name,) = names_in(tmp_path / "a")
    (tmp_path / "b" / "repos").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine.md").write_text("stays")
    for target in ("outside", "nowhere"):
        shutil.rmtree(tmp_path / "b" / "repos" / name, ignore_errors=True)
        (tmp_path / "b" / "repos" / name).symlink_to(tmp_path / target)
        write_repositories(tmp_path / "b", num=1, overwrite=True)
        assert (tmp_path / "outside" / "mine.md").read_text() == "stays"
        assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_only_the_index_says_what_a_moved_file_is_about_in_lists_of_their_own():
    """Neither a name nor a text of a file has a word of the topic; two hops in the index lead to it."""
    for name in MOVED:
        made = make_repository(name)
        for task in made.tasks:
            folder, _, file = task.filename.rpartition("/")
            index = made.files[f"{folder}/{INDEX}"]
            lines = dict(re.findall(r"^(\w+): (\S+)$", index, re.MULTILINE))
            (topic,) = (key for key in lines if re.search(rf"\b{key}\b", task.question))
            assert lines[lines[topic]] == file
            assert topic not in made.files[task.filename].lower()
            assert topic not in task.filename
    train, test = (explore_tasks(f"hops=2:{split}") for split in ("train", "test"))
    assert (len(train), len(test)) == (960, 240)
    assert not {row["root"] for row in train} & {row["root"] for row in test}
    assert len(explore_tasks("hops=2:")) == 1200
    assert explore_tasks("hops=1:test") == explore_tasks("test")
    with pytest.raises(UsageError, match="hops must be 1 or 2"):
        explore_tasks("hops=3:test")


def played(row, seed=0, library=None):
    """The turns of the embedded teacher, each with the state before it."""
    game, task = ExploreGame(library or Library()), task_from_row({"hidden_information": "", **row})
    game.reset(task, seed=seed)
    talk = ExploreTalk(game, task.problem_description, EmbeddedTeacher(), seed=seed)

    async def play():
        turns = []
        while not turns or not turns[-1][0].moved.over:
            before = game.text, dict(game.offered)
            turns.append((await talk.turn(), *before))
        return turns

    return asyncio.run(play())


def test_the_teacher_reads_where_it_is_and_goes_there():
    """Its thought behind the index is a chain of what can be looked up, no word twice."""
    for number, row in enumerate(explore_tasks("hops=2:test")[::4]):
        turns = [turn for turn, *_ in played(row, number)]
        assert turns[-1].moved.info["won"]
        commands = [turn.command for turn in turns]
        name = row["ground_truth"].rpartition("/")[2]
        assert commands[-3:] == [f"cat {INDEX}", f"cat {name}", f"id {name}"]
        assert all(command.startswith("cd ") for command in commands[:-3])
        assert not any(name in turn.reflection for turn in turns[:-2])
        topic, owner, last = turns[-2].reflection.rpartition(" for ")[2].removesuffix(".").split(": ")
        assert last == name
        assert f" for {topic}" in row["problem_description"]
        assert f"\n{topic}: {owner}\n" in turns[-3].moved.text
        assert f"\n{owner}: {name}\n" in turns[-3].moved.text
        assert turns[-1].reflection.endswith(f"says: cat {name}.")
        assert f"Executing: cat {name}\n" in turns[-2].moved.text


def test_the_teacher_knows_what_the_index_says_and_not_what_is_right():
    """Told that another file is right, it does and says the same; nor does an opened right file show that it is."""
    row = explore_tasks("hops=2:test")[0]
    made, folder = make_repository(row["root"]), row["ground_truth"].rpartition("/")[0]
    known = {row["ground_truth"], f"{folder}/{INDEX}"}
    other = next(path for path in made.files if path.startswith(f"{folder}/") and path not in known)
    one, moved = (
        [(turn.reflection, turn.command) for turn, *_ in played({**row, **change}, 5)]
        for change in ({}, {"ground_truth": other, "targets": [other]})
    )
    assert one == moved
    explorer = Explorer(row["problem_description"], [other])
    explorer.look(folder, made.index().folders[folder])
    explorer.read(other, "Success: The content is:\nport: 3")
    assert explorer.search(folder).found is None
    assert explorer.search(folder).plan.command == f"cat {INDEX}"


def of_files(files):
    library = Library()
    library._known["r"] = index_of("r", files)
    return library


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_said_or_done_that_depends_on_an_unread_file(seed):
    """The same names and another right file: all is the same until one of the right ones was read."""
    days, told = ("monday", "tuesday", "wednesday", "thursday"), {}
    notes = of_files(
        {f"notes/{day}.md": f"On {day} it rained.\n" for day in days} | {"README.md": "Hello.\n"}
    )
    for day in days:
        row = {"root": "r", "problem_description": "Who promised in a meeting to bring the tea?"}
        turns = played({**row, "task_id": day, "ground_truth": f"notes/{day}.md"}, seed, notes)
        told[day] = [(turn.reflection, turn.command) for turn, *_ in turns]
        assert turns[-1][0].moved.info["won"]
        assert told[day][-1][1] == f"id {day}.md"
    reads = {day: [step[1] for step in steps].index(f"cat {day}.md") for day, steps in told.items()}
    assert sorted(reads.values()) == [1, 2, 3, 4]  # one after the other, in the seed's order
    longest = max(told.values(), key=len)
    for day, at in reads.items():
        assert told[day][: at + 1] == longest[: at + 1]


def test_what_is_said_for_a_name_can_be_seen():
    rows = [row for row in explore_tasks("test") if row["root"].startswith(("analysis", "library"))][:60]
    tried = 0
    for number, row in enumerate(rows):
        turns = played(row, number)
        assert turns[-1][0].moved.info["won"]
        for thought, command in ((turn.reflection, turn.command) for turn, *_ in turns):
            if speaks := re.search(r"its name speaks of ([\w.]+)\.", thought):
                name = re.findall(r"[a-z]+|\d+", command.partition(" ")[2])
                assert speaks[1] in row["problem_description"].lower()
                assert any(alike(speaks[1], word) for word in name)
            assert not re.search("fits best|fit less|likely", thought)
            tried += "the names do not tell" in thought
    assert tried > 5


def test_where_nothing_helps():
    """In folders without a clue the file's folder is no earlier; when all was read the likeliest name is handed in."""
    folders = [f"box{number}" for number in range(6)]
    library, first = of_files({f"{folder}/x.txt": "text\n" for folder in folders}), set()
    for folder in folders:
        row = {"root": "r", "problem_description": "Where is the ring?", "task_id": folder}
        turn, *_ = played({**row, "ground_truth": f"{folder}/x.txt"}, library=library)[0]
        first.add((turn.reflection, turn.command))
    assert len(first) == 1
    explorer = Explorer("When is the ferry due?", ["gone.md"])
    explorer.look("", index_of("r", {"a.md": "x", "ferries.md": "y"}).folders[""])
    explorer.read("ferries.md", "Success: The content of ferries.md is:\ny")
    explorer.read("a.md", "Success: The content of a.md is:\nx")
    search = explorer.search("")
    assert (search.found, search.plan.command) == (None, "id ferries.md")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        *(("map", "maps", True), ("config", "configured", True), ("licence", "licensed", True)),
        *(("save", "saved", True), ("to", "tomato", False), ("port", "portugal", False), ("3", "31", False)),
        *(("run", "runner", True), ("document", "documentation", False), ("data", "date", False)),
    ],
)
def test_forms_of_a_word(one, other, same):
    assert alike(one, other) is alike(other, one) is same


def lessons(hops, split, count):
    """States with the teacher's thought and choice: prompts without and with it, the label, the text."""
    found = []
    for number, row in enumerate(explore_tasks(f"hops={hops}:{split}")[:count]):
        for turn, text, offered in played(row, number):
            label = next(label for label, command in offered.items() if command == turn.command)
            prompts = policy_prompt(text, ACTION_HEAD), policy_prompt(text, ACTION_HEAD, turn.reflection)
            found.append((*prompts, label, text))
    return found


@pytest.mark.slow
def test_a_thought_is_worth_something_to_a_linear_policy_with_two_hops_and_hardly_with_one():
    """On repositories that it has not seen; chance is a sixth, where the index is shown."""
    from sweet_rl.online.reflect.agent import Sampling
    from sweet_rl.studies.linear_policy import LinearActor

    right = {}
    for hops, count in ((1, 150), (2, 300)):
        train, test = lessons(hops, "train", count), lessons(hops, "test", 60)
        test = [row for row in test if hops == 1 or "Where they keep them:" in row[3]]
        for thinks in (False, True):
            policy = LinearActor(ACTION_HEAD, Sampling())
            policy.fit([f"{row[thinks]}{row[2]}" for row in train], "texts", epochs=4)
            said = zip(policy.places([row[thinks] for row in test]), test, strict=True)
            hits = [list(offered_commands(row[3], ACTION_HEAD))[at] == row[2] for at, row in said]
            right[hops, thinks] = sum(hits) / len(test)
    assert right[2, False] < 0.35
    assert right[2, True] - right[2, False] > 0.5
    assert right[1, True] - right[1, False] < 0.2
