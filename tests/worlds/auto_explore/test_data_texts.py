"""AutoExplore's trajectories and training texts: recorded inputs (goldens data_and_cli.json), and by hand."""

import asyncio
import json

import pytest

from sweet_rl.prompts import load_prompt
from sweet_rl.reflect_data.jobs import Job
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.worlds.auto_explore.data_texts import ExploreTalk, explore_texts, plan_lessons, task_of, teach
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, index_of

from .goldens import CharacterCounter, Scripted, shop_folder


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


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
LIBRARY = Library()
LIBRARY._known["shop"] = index_of("shop", FILES)


def game(**flags):
    return ExploreGame(LIBRARY, **flags)


def taught(lesson, teacher, **flags):
    return asyncio.run(teach(Job("k", lesson), teacher, make_game=game, **flags))


def lessons_of(tasks, teacher, **flags):
    planned = plan_lessons(tasks, teacher.name)

    async def make():
        return {
            key: await teach(Job(key, lesson), teacher, make_game=game, **flags)
            for key, lesson in planned.items()
        }

    return planned, asyncio.run(make())


def test_the_published_talk(golden, shared):
    recorded = golden["gen_data_flow"]
    player = ExploreGame(Library(shop_folder(shared)), tokens=CharacterCounter(), compat="published")
    player.reset(task_of(TASK), seed=0)
    teacher = Scripted(*recorded["replies"])
    talk = ExploreTalk(player, TASK["question"], teacher, seed=0)

    async def play():
        turns = [await talk.turn()]
        while not turns[-1].moved.over:
            turns.append(await talk.turn())
        return turns

    turns = asyncio.run(play())
    assert [[message.role for message in call] for call in teacher.asked] == recorded["roles_per_call"]
    tags = {"analyse": "<REQ_ANALYSE>", "choose": "<REQ_CHOICE>"}
    for call, tail in zip(teacher.asked, recorded["last_user_message_tail"], strict=True):
        text = call[-1].content
        for name, tag in tags.items():
            text = text.replace(load_prompt(f"explore_teacher_{name}").strip(), tag)
        assert text[-len(tail) :] == tail
    assert player.history == recorded["cmd_history"]
    assert [turn.reflection for turn in turns] == recorded["reflections_extracted"]
    assert [turn.moved.cost for turn in turns] == recorded["costs"]


def test_a_markov_teacher_sees_nothing_of_earlier_steps():
    teacher, player = Scripted("a", "1", "b", "1", "c", "1"), game()
    player.reset(task_of(TASK), seed=0)
    talk = ExploreTalk(player, TASK["question"], teacher, seed=0, markov=True)
    asyncio.run(talk.turn())
    asyncio.run(talk.turn())
    assert [len(call) for call in teacher.asked] == [2, 4, 2, 4]


def test_the_embedded_teacher_knows_the_way_and_the_ways_back():
    planned, done = lessons_of([TASK], EmbeddedTeacher(), seed=3)
    assert not [failure for one in done.values() for failure in one.failures]
    right, *wrong = (one.result for one in done.values())
    whole = ("positive", "embedded", "docs/hours.md")
    assert (right["info"], right["model_name"], right["filename"]) == whole
    assert [step["cmd"] for step in right["trajectory"]] == TASK["optimal_path"]
    assert all(step["reflection"] for step in right["trajectory"])
    for number, one in enumerate(wrong):
        assert (one["info"], one["filename"]) == (f"negative{number}", None)
        lead, opened, back = one["trajectory"]
        assert lead == {"reflection": "", "cmd": "cd docs"}
        assert opened["reflection"] == ""
        assert opened["cmd"] in {"cat pricing.txt", 'cat "team list.md"'}
        assert back["cmd"] == "cat hours.md"
        assert "hours.md" in back["reflection"]
    assert len(wrong) == 2
    assert wrong[0]["trajectory"][1] != wrong[1]["trajectory"][1]  # two wrong files, as there are two
    complete = {**TASK, "trajectories": [right, *wrong]}
    assert plan_lessons([complete], "embedded") == {}
    assert list(plan_lessons([complete], "another")) == [next(iter(planned))]
    texts = explore_texts([complete], lambda steps: game(max_turns=steps))  # of a wrong way its last step
    assert {name.removesuffix(".jsonl"): len(lines) for name, lines in texts.files.items()} == {
        **dict.fromkeys(("sft", "sft_reflection", "sft_policy"), 5),
        **dict.fromkeys(("sft_reflection_positive", "sft_policy_positive"), 3),
    }
    assert not texts.skipped
    seeds = [lessons_of([TASK], EmbeddedTeacher(), seed=seed)[1] for seed in (3, 3, 4)]
    again, same, other = ([one.result for one in made.values()] for made in seeds)
    assert again == same == [right, *wrong] != other


def test_a_reply_that_cannot_be_read_is_a_failure_with_its_text_and_no_step():
    """The reflections stay with their commands; as published they slip."""
    replies = ["I go to docs.", "2", "Look at hours.", "hmm, difficult", "Really look.", "1", "Done.", "1"]
    (lesson, *_) = plan_lessons([TASK], "scripted").values()
    for compat, reflections in {
        "fixed": ["I go to docs.", "Really look.", "Done."],
        "published": ["I go to docs.", "Look at hours.", "Really look."],
    }.items():
        done = taught(lesson, Scripted(*replies), compat=compat)
        (failure,) = done.failures
        assert (failure.kind, failure.detail, failure.turn) == ("malformed_reply", "hmm, difficult", 1)
        assert [step["cmd"] for step in done.result["trajectory"]] == TASK["optimal_path"]
        assert [step["reflection"] for step in done.result["trajectory"]] == reflections
    done = taught(lesson, Scripted(*["well", "nothing"] * 15))  # never chooses: no trajectory
    assert (done.result, len(done.failures)) == (None, 15)


def test_odd_lessons():
    alone = {**TASK, "optimal_path": ["cat README.md", "id README.md"], "filename": "README.md"}
    _, done = lessons_of([alone], EmbeddedTeacher())  # no other file, no wrong way
    assert [one.result for one in done.values()][1:] == [{}, {}]
    blank = {**TASK, "filename": "docs/team list.md", "optimal_path": ["cd docs", 'cat "team list.md"']}
    (lesson, *_) = plan_lessons([blank], "embedded").values()
    for compat, filename in {"fixed": "docs/team list.md", "published": 'docs/"team list.md"'}.items():
        assert taught(lesson, EmbeddedTeacher(), compat=compat).result["filename"] == filename
    gone, other = {**TASK, "filename": "docs/gone.md"}, {**TASK, "optimal_path": ["cd doc", "cat hours.md"]}
    for task, kind in ((gone, "missing_target"), (other, "not_on_offer")):
        *_, lesson = plan_lessons([task], "embedded").values()
        done = taught(lesson, EmbeddedTeacher())
        assert (done.result, [failure.kind for failure in done.failures]) == (None, [kind])


def test_recorded_texts(golden, shared, tmp_path):
    recorded, library = golden["gen_sft_auto_explore"], Library(shop_folder(shared))
    texts = explore_texts(
        recorded["input"],
        lambda steps: ExploreGame(library, max_turns=steps, tokens=CharacterCounter(), compat="published"),
    )
    texts.write(tmp_path)
    for name in (name for name in recorded if name.endswith(".jsonl")):
        written = (tmp_path / name).read_text()
        assert not written.endswith("\n")
        assert [json.loads(line) for line in written.split("\n")] == recorded[name], name
    assert len(texts.files) == 5
    odd = {"task without trajectory": 1, "trajectory with a command that is not on offer": 1}
    assert texts.skipped == odd
    steps = [{"reflection": "r", "cmd": "id README.md"}, {"reflection": "r", "cmd": "cat README.md"}]
    task = {**TASK, "trajectories": [{"info": "positive", "trajectory": steps}]}
    texts = explore_texts([task], lambda steps: game(max_turns=steps))
    assert texts.skipped == {"trajectory that continues after its end": 1}
    assert texts.files["sft.jsonl"] == []
