"""The embedded teacher of AutoExplore: it concludes from what an agent sees, and claims no more."""

import asyncio
import re

import pytest

from sweet_rl.mini.repository_teacher import Explorer, alike
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.worlds.auto_explore.data_texts import ExploreTalk
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, index_of
from sweet_rl.worlds.auto_explore.tasks import explore_tasks

DAYS = ("monday", "tuesday", "wednesday", "thursday")


def played(task, library, seed=0):
    """The steps of a talk: what was thought, and what was done; and whether the file was found."""
    game = ExploreGame(library)
    game.reset(task, seed=seed)
    talk = ExploreTalk(game, task.problem_description, EmbeddedTeacher(), seed=seed)

    async def play():
        turns = [await talk.turn()]
        while not turns[-1].moved.over:
            turns.append(await talk.turn())
        return turns

    turns = asyncio.run(play())
    return [(turn.reflection, turn.command) for turn in turns], turns[-1].moved.info["won"]


@pytest.fixture
def notes():
    files = {f"notes/{day}.md": f"On {day} it rained.\n" for day in DAYS} | {"README.md": "Hello there.\n"}
    known = Library()
    known._known["r"] = index_of("r", files)
    return known


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_said_or_done_that_depends_on_an_unread_file(notes, seed):
    """The same names and another right file: all is the same until one of the right ones was read."""
    told = {}
    for day in DAYS:
        row = {"root": "r", "problem_description": "Who promised in a meeting to bring the tea?"}
        task = task_from_row(
            {**row, "task_id": day, "ground_truth": f"notes/{day}.md", "hidden_information": ""}
        )
        told[day], won = played(task, notes, seed)
        assert won
        assert told[day][-1][1] == f"id {day}.md"
    reads = {day: [step[1] for step in steps].index(f"cat {day}.md") for day, steps in told.items()}
    assert sorted(reads.values()) == [1, 2, 3, 4]  # one after the other, in the seed's order
    longest = max(told.values(), key=len)
    for day, at in reads.items():
        assert told[day][: at + 1] == longest[: at + 1]


def test_what_is_said_for_a_name_can_be_seen():
    library = Library()
    rows = [row for row in explore_tasks("test") if row["root"].startswith(("analysis", "library"))][:60]
    tried = 0
    for number, row in enumerate(rows):
        steps, won = played(task_from_row(row), library, seed=number)
        assert won
        for thought, command in steps:
            speaks = re.search(r"its name speaks of ([\w.]+)\.", thought)
            if speaks:
                name = re.findall(r"[a-z]+|\d+", command.partition(" ")[2])
                assert speaks[1] in row["problem_description"].lower()
                assert any(alike(speaks[1], word) for word in name)
            assert not re.search("fits best|fit less|likely", thought)
            tried += "the names do not tell" in thought
    assert tried > 5


def test_a_file_that_nothing_shows_is_not_gone_to_at_once():
    """In many folders without a clue, the teacher looks like anybody: the file's folder is no earlier."""
    folders = [f"box{number}" for number in range(6)]
    library = Library()
    library._known["r"] = index_of("r", {f"{folder}/x.txt": "text\n" for folder in folders})
    row = {"root": "r", "problem_description": "Where is the ring?", "hidden_information": ""}
    first = set()
    for folder in folders:
        task = task_from_row({**row, "task_id": folder, "ground_truth": f"{folder}/x.txt"})
        first.add(played(task, library)[0][0])
    assert len(first) == 1


def test_when_all_is_read_and_nothing_answers_the_likeliest_name_is_handed_in():
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
