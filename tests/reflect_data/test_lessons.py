"""Trajectories of AutoExplore: the published talk, right ways, wrong ways, replies that cannot be read."""

import asyncio
import json

import pytest

from sweet_rl.prompts import load_prompt
from sweet_rl.reflect_data.jobs import Job
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.worlds.auto_explore.data_texts import (
    ExploreTalk,
    add_lessons,
    explore_texts,
    plan_lessons,
    task_of,
    teach,
)
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, index_of
from tests.worlds.auto_explore.goldens import CharacterCounter

TASK = {
    "question": "Which opening hours does the documentation give?",
    "optimal_path": ["cd docs", "cat hours.md", "id hours.md"],
    "filename": "docs/hours.md",
    "root": "shop",
}
FILES = {
    "README.md": "# Shop\n",
    "docs/hours.md": "The shop is open from nine to five.\n",
    "docs/pricing.txt": "A chair costs ten.\n",
    "docs/team list.md": "Ann and Bob.\n",
    "src/tax.py": "TAX = 0.1\n",
}


class OneRepository(Library):
    def _embedded(self, name):
        assert name == "shop"
        return index_of(name, FILES)


class Scripted:
    """A teacher that reads its replies from a list."""

    name = "scripted"

    def __init__(self, replies):
        self.replies, self.asked = list(replies), []

    async def say(self, asked):
        self.asked.append(list(asked.messages))
        return self.replies.pop(0)

    async def close(self):
        pass


def game(**flags):
    return ExploreGame(OneRepository(), **flags)


def lessons_of(tasks, teacher, **flags):
    planned = plan_lessons(tasks, teacher.name)

    async def make():
        return {key: await teach(Job(key, lesson), game, teacher, **flags) for key, lesson in planned.items()}

    return planned, asyncio.run(make())


def test_the_published_talk(shared):
    golden = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["gen_data_flow"]
    library = Library(shared / "goldens/reflect_rl/fixtures/repos")
    player = ExploreGame(library, tokens=CharacterCounter(), compat="published")
    player.reset(task_of(TASK), seed=0)
    teacher = Scripted(golden["replies"])
    talk = ExploreTalk(player, TASK["question"], teacher, seed=0)

    async def play():
        turns = [await talk.turn()]
        while not turns[-1].moved.over:
            turns.append(await talk.turn())
        return turns

    turns = asyncio.run(play())
    assert [[message.role for message in call] for call in teacher.asked] == golden["roles_per_call"]
    tags = {"analyse": "<REQ_ANALYSE>", "choose": "<REQ_CHOICE>"}
    for call, tail in zip(teacher.asked, golden["last_user_message_tail"], strict=True):
        text = call[-1].content
        for name, tag in tags.items():
            text = text.replace(load_prompt(f"explore_teacher_{name}").strip(), tag)
        assert text[-len(tail) :] == tail
    assert player.history == golden["cmd_history"]
    assert [turn.reflection for turn in turns] == golden["reflections_extracted"]
    assert [turn.moved.cost for turn in turns] == golden["costs"]


def test_a_markov_teacher_sees_nothing_of_earlier_steps():
    teacher = Scripted(["a", "1", "b", "1", "c", "1"])
    player = game()
    player.reset(task_of(TASK), seed=0)
    talk = ExploreTalk(player, TASK["question"], teacher, seed=0, markov=True)
    asyncio.run(talk.turn())
    asyncio.run(talk.turn())
    assert [len(call) for call in teacher.asked] == [2, 4, 2, 4]


def test_the_embedded_teacher_knows_the_way_and_the_ways_back():
    planned, done = lessons_of([TASK], EmbeddedTeacher(), seed=3)
    assert not [failure for one in done.values() for failure in one.failures]
    right, first, second = (one.result for one in done.values())
    assert (right["info"], right["model_name"], right["filename"]) == (
        "positive",
        "embedded",
        "docs/hours.md",
    )
    assert [step["cmd"] for step in right["trajectory"]] == TASK["optimal_path"]
    assert all(step["reflection"] for step in right["trajectory"])
    for number, wrong in enumerate((first, second)):
        assert wrong["info"] == f"negative{number}"
        assert wrong["filename"] is None
        lead, opened, back = wrong["trajectory"]
        assert lead == {"reflection": "", "cmd": "cd docs"}
        assert opened["reflection"] == ""
        assert opened["cmd"] in {"cat pricing.txt", 'cat "team list.md"'}
        assert back["cmd"] == "cat hours.md"
        assert "hours.md" in back["reflection"]
    assert first["trajectory"][1] != second["trajectory"][1]  # two wrong files, as there are two
    (complete,) = add_lessons([TASK], planned, {key: one.result for key, one in done.items()})
    assert complete["trajectories"] == [right, first, second]
    assert plan_lessons([complete], "embedded") == {}
    assert list(plan_lessons([complete], "another")) == [next(iter(planned))]


def test_lessons_depend_on_the_seed_alone():
    results = [
        [one.result for one in lessons_of([TASK], EmbeddedTeacher(), seed=seed)[1].values()]
        for seed in (3, 3, 4)
    ]
    assert results[0] == results[1] != results[2]


def test_a_task_without_another_file_has_no_wrong_way():
    task = {**TASK, "optimal_path": ["cat README.md", "id README.md"], "filename": "README.md"}
    _, done = lessons_of([task], EmbeddedTeacher())
    assert [one.result for one in done.values()][1:] == [{}, {}]


def test_a_reply_that_cannot_be_read_is_a_failure_with_its_text_and_no_step():
    """The reflections stay with their commands; as published they slip."""
    replies = ["I go to docs.", "2", "Look at hours.", "hmm, difficult", "Really look.", "1", "Done.", "1"]
    (lesson, *_) = plan_lessons([TASK], "scripted").values()
    for compat, reflections in {
        "fixed": ["I go to docs.", "Really look.", "Done."],
        "published": ["I go to docs.", "Look at hours.", "Really look."],
    }.items():
        done = asyncio.run(teach(Job("k", lesson), game, Scripted(replies), compat=compat))
        (failure,) = done.failures
        assert (failure.kind, failure.detail, failure.turn) == ("malformed_reply", "hmm, difficult", 1)
        assert [step["cmd"] for step in done.result["trajectory"]] == TASK["optimal_path"]
        assert [step["reflection"] for step in done.result["trajectory"]] == reflections


def test_a_teacher_that_never_chooses_gives_no_trajectory():
    (lesson, *_) = plan_lessons([TASK], "scripted").values()
    done = asyncio.run(teach(Job("k", lesson), game, Scripted(["well", "nothing"] * 15)))
    assert done.result is None
    assert len(done.failures) == 15


def test_names_with_blanks_are_found_unquoted_and_as_published_quoted():
    task = {**TASK, "filename": "docs/team list.md", "optimal_path": ["cd docs", 'cat "team list.md"']}
    (lesson, *_) = plan_lessons([task], "embedded").values()
    for compat, filename in {"fixed": "docs/team list.md", "published": 'docs/"team list.md"'}.items():
        done = asyncio.run(teach(Job("k", lesson), game, EmbeddedTeacher(), compat=compat))
        assert done.result["filename"] == filename


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ({**TASK, "filename": "docs/gone.md"}, "missing_target"),
        ({**TASK, "optimal_path": ["cd doc", "cat hours.md"]}, "not_on_offer"),
    ],
)
def test_a_task_that_cannot_be_played_is_a_failure(task, kind):
    *_, lesson = plan_lessons([task], "embedded").values()
    done = asyncio.run(teach(Job("k", lesson), game, EmbeddedTeacher()))
    assert done.result is None
    assert [failure.kind for failure in done.failures] == [kind]


def test_a_wrong_way_teaches_its_last_step_only():
    planned, done = lessons_of([TASK], EmbeddedTeacher())
    tasks = add_lessons([TASK], planned, {key: one.result for key, one in done.items()})
    texts = explore_texts(tasks, lambda steps: game(max_turns=steps))
    assert {name: len(lines) for name, lines in texts.files.items()} == {
        "sft.jsonl": 5,
        "sft_reflection.jsonl": 5,
        "sft_policy.jsonl": 5,
        "sft_reflection_positive.jsonl": 3,
        "sft_policy_positive.jsonl": 3,
    }
    assert not texts.skipped


def test_a_trajectory_that_goes_on_after_its_end_is_passed_over():
    steps = [{"reflection": "r", "cmd": "id README.md"}, {"reflection": "r", "cmd": "cat README.md"}]
    task = {**TASK, "trajectories": [{"info": "positive", "trajectory": steps}]}
    texts = explore_texts([task], lambda steps: game(max_turns=steps))
    assert texts.skipped == {"trajectory that continues after its end": 1}
    assert texts.files["sft.jsonl"] == []
