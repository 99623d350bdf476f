"""Repositories in which a file says where the answer is: topic, then owner, then file."""

import asyncio
import posixpath
import re

import pytest

from sweet_rl.chat.reflect_format import policy_prompt
from sweet_rl.errors import UsageError
from sweet_rl.mini.repositories import INDEX, make_repository, repository_names
from sweet_rl.mini.repository_teacher import Explorer
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.worlds.auto_explore.data_texts import ExploreTalk
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, is_allowed
from sweet_rl.worlds.auto_explore.sandbox import PIECES
from sweet_rl.worlds.auto_explore.tasks import explore_tasks

NAMES = repository_names(12, seed=3, hops=2)


@pytest.mark.parametrize("name", NAMES)
def test_a_repository(name):
    made = make_repository(name)
    assert made == make_repository(name)
    assert len(made.files) == 16
    assert len(made.tasks) == 24
    assert len({task.question for task in made.tasks}) == 24
    for task in made.tasks:
        answer = re.compile(rf"(?<![\w.]){re.escape(task.answer)}(?!\w)")
        assert [path for path, text in made.files.items() if answer.search(text)] == [task.filename]
    for path, text in made.files.items():
        assert is_allowed(path)
        assert PIECES.count(text) >= 50


def test_only_the_index_says_what_a_file_is_about():
    """Neither a name nor a text of a file has a word of the topic; two hops in the index lead to it."""
    for name in NAMES:
        made = make_repository(name)
        for task in made.tasks:
            folder, _, file = task.filename.rpartition("/")
            index = made.files[f"{folder}/{INDEX}"]
            lines = dict(re.findall(r"^(\w+): (\S+)$", index, re.MULTILINE))
            (topic,) = (key for key in lines if re.search(rf"\b{key}\b", task.question))
            assert lines[lines[topic]] == file
            assert topic not in made.files[task.filename].lower()
            assert topic not in task.filename


def test_the_place_in_a_list_tells_nothing():
    """The two lists have orders of their own: the n-th topic has the n-th file no more often than by chance."""
    alike = total = 0
    for name in repository_names(60, hops=2):
        for path, text in make_repository(name).files.items():
            if path.endswith(INDEX):
                topics, files = (part.splitlines()[1:7] for part in re.split(r"\n\n", text)[1:])
                owners = [line.split(": ")[1] for line in topics]
                alike += sum(file.startswith(f"{owner}:") for file, owner in zip(files, owners, strict=True))
                total += 6
    assert total == 720
    assert 0.1 < alike / total < 0.24  # a sixth


def played(task, seed):
    game = ExploreGame(Library())
    game.reset(task, seed=seed)
    talk = ExploreTalk(game, task.problem_description, EmbeddedTeacher(), seed=seed)

    async def play():
        turns = [await talk.turn()]
        while not turns[-1].moved.over:
            turns.append(await talk.turn())
        return turns

    return asyncio.run(play())


def test_the_teacher_reads_where_it_is_and_goes_there():
    for number, row in enumerate(explore_tasks("hops=2:test")[::4]):
        turns = played(task_from_row(row), number)
        assert turns[-1].moved.info["won"]
        commands = [turn.command for turn in turns]
        name = row["ground_truth"].rpartition("/")[2]
        assert commands[-3:] == [f"cat {INDEX}", f"cat {name}", f"id {name}"]
        assert all(command.startswith("cd ") for command in commands[:-3])
        assert turns[-2].reflection.endswith(f": {name}.")
        assert not any(name in turn.reflection for turn in turns[:-2])


def test_a_thought_behind_the_index_is_a_chain_of_what_can_be_looked_up():
    """No word twice: each stands in the state behind the one that the thought has before it."""
    for number, row in enumerate(explore_tasks("hops=2:test")[::16]):
        turns = played(task_from_row(row), number)
        shown = next(turn for turn in turns if turn.command == f"cat {INDEX}").moved.text
        topic, owner, name = turns[-2].reflection.rpartition(" for ")[2].removesuffix(".").split(": ")
        assert f" for {topic}" in row["problem_description"]
        assert f"\n{topic}: {owner}\n" in shown
        assert f"\n{owner}: {name}\n" in shown
        assert turns[-1].reflection.endswith(f"says: cat {name}.")
        assert f"Executing: cat {name}\n" in turns[-2].moved.text


def test_the_teacher_knows_what_the_index_says_and_not_what_is_right():
    """Told that another file is right, it does and says the same; nor does an opened right file show that it is."""
    row = explore_tasks("hops=2:test")[0]
    folder = row["ground_truth"].rpartition("/")[0]
    other = next(
        path
        for path in make_repository(row["root"]).files
        if path.startswith(f"{folder}/") and path not in {row["ground_truth"], f"{folder}/{INDEX}"}
    )
    one, moved = (
        [(turn.reflection, turn.command) for turn in played(task_from_row({**row, **change}), 5)]
        for change in ({}, {"ground_truth": other, "targets": [other]})
    )
    assert one == moved
    explorer = Explorer(row["problem_description"], [other])
    explorer.look(folder, make_repository(row["root"]).index().folders[folder])
    explorer.read(other, "Success: The content is:\nport: 3")
    assert explorer.search(folder).found is None
    assert explorer.search(folder).plan.command == f"cat {INDEX}"


def test_lists_of_tasks():
    train, test = (explore_tasks(f"hops=2:{split}") for split in ("train", "test"))
    assert (len(train), len(test)) == (960, 240)
    assert not {row["root"] for row in train} & {row["root"] for row in test}
    assert len(explore_tasks("hops=2:")) == 1200
    assert explore_tasks("hops=1:test") == explore_tasks("test")
    with pytest.raises(UsageError, match="hops must be 1 or 2"):
        explore_tasks("hops=3:test")


def lessons(hops, split, count):
    """States with the teacher's thought and choice: prompts without and with it, the label."""
    from sweet_rl.worlds.auto_explore.options import ACTION_HEAD

    found = []
    for number, row in enumerate(explore_tasks(f"hops={hops}:{split}")[:count]):
        game, task = ExploreGame(Library()), task_from_row(row)
        game.reset(task, seed=number)
        talk = ExploreTalk(game, task.problem_description, EmbeddedTeacher(), seed=number)
        over = False
        while not over:
            text, offered = game.text, dict(game.offered)
            turn = asyncio.run(talk.turn())
            label = next(label for label, command in offered.items() if command == turn.command)
            found.append(
                (
                    policy_prompt(text, ACTION_HEAD),
                    policy_prompt(text, ACTION_HEAD, turn.reflection),
                    label,
                    text,
                )
            )
            over = turn.moved.over
    return found


def test_a_thought_is_worth_something_to_a_linear_policy_with_two_hops_and_hardly_with_one():
    """On repositories that it has not seen; chance is a sixth, where the index is shown."""
    from sweet_rl.chat.reflect_format import offered_commands
    from sweet_rl.online.reflect.agent import Sampling
    from sweet_rl.studies.linear_policy import LinearActor
    from sweet_rl.worlds.auto_explore.options import ACTION_HEAD

    right = {}
    for hops, count in ((1, 150), (2, 300)):
        train, test = lessons(hops, "train", count), lessons(hops, "test", 60)
        for thinks in (False, True):
            policy = LinearActor(ACTION_HEAD, Sampling())
            policy.fit([f"{row[thinks]}{row[2]}" for row in train], "texts", epochs=4)
            if hops == 2:
                test = [row for row in test if "Where they keep them:" in row[3]]
            places = policy.places([row[thinks] for row in test])
            chosen = [
                list(offered_commands(row[3], ACTION_HEAD))[at] for row, at in zip(test, places, strict=True)
            ]
            right[hops, thinks] = sum(label == row[2] for label, row in zip(chosen, test, strict=True)) / len(
                test
            )
    assert right[2, False] < 0.35
    assert right[2, True] - right[2, False] > 0.5
    assert right[1, True] - right[1, False] < 0.2


def test_what_says_where_the_answer_is_stays_where_files_are_left_out():
    game = ExploreGame(Library(), leaveout_prob=0.9)
    left_out = 0
    for seed, row in enumerate(explore_tasks("hops=2:train")[:60]):
        game.reset(task_from_row(row), seed=seed)
        (clue,) = row["clues"]
        folder = game.sandbox.entries(posixpath.dirname(clue))
        names = {entry.name for entry in folder}
        assert {posixpath.basename(clue), posixpath.basename(row["filename"])} <= names
        left_out += 7 - len(names)
    assert left_out > 200
