"""What all integrations share: a choice of a world, a world that is open, episodes played one turn at a time."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.integrations.worlds import SharedWorld, choice_of, open_world, tasks_of
from sweet_rl.types import UserReply
from tests.users.serving import serving

GAME = {"world": "twenty_questions", "num_tasks": 1}


class Pondering:
    """A human who answers when it is let."""

    name = "pondering"

    def __init__(self):
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def reply(self, context):
        self.asked.set()
        await self.may.wait()
        return UserReply("Because.")

    async def close(self):
        pass


def in_episode(work, user=None, **settings):
    """What `work` makes of an episode and of who answers in it."""

    async def main():
        human = user and user()
        async with open_world(choice_of(settings), user=human) as world, world.episode() as episode:
            return await work(episode, human)

    return asyncio.run(main())


@pytest.mark.parametrize("said", [None, 5, b"Is it alive?", ["Is it alive?"], {"text": "Is it alive?"}])
def test_a_turn_that_is_no_text_is_refused_and_the_episode_goes_on(said):
    async def work(episode, human):
        with pytest.raises(UsageError, match="A turn of the agent is a text, got"):
            await episode.step(said)
        await episode.step("Is it alive?")
        await episode.close()
        with pytest.raises(UsageError, match="or it was closed"):
            await episode.step("Is it alive?")
        return episode.rewards

    assert in_episode(work, **GAME) == [-1.0]


async def test_a_human_at_a_url():
    async with serving() as url:
        choice = {"world": "code", "tasks": "mini:test", "num_tasks": 1}
        choice |= {"human": "scripted", "human_url": url}
        async with open_world(choice_of(choice)) as world, world.episode() as episode:
            turn = await episode.step("What should it return?")
            assert turn.text and not turn.over
            assert episode.trajectory.provenance["env_model"] == "scripted"


@pytest.mark.parametrize("broken_off", [True, False])
def test_a_turn_beside_another_or_after_one_that_was_broken_off_is_refused(broken_off):
    """The dialogue would have two turns of the agent in a row, and the human's answer to the wrong one."""

    async def work(episode, human):
        first = asyncio.create_task(episode.step("Why?"))
        await human.asked.wait()
        if broken_off:  # as by a deadline
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        with pytest.raises(UsageError, match="one is under way or was broken off"):
            await episode.step("How?")
        human.may.set()
        if not broken_off:
            assert (await first).text == "Because."
            assert (await episode.step("How?")).text == "Because."
            assert [one.role for one in episode.observation.messages] == ["user", "assistant"] * 2 + ["user"]

    in_episode(work, Pondering, world="code", num_tasks=1)


async def test_a_task_or_repeat_that_is_not_there_is_named():
    async with open_world(choice_of(GAME)) as world:
        for task_id in (5, ["a"], "nothing"):
            with pytest.raises(UsageError, match="There is no task of twenty_questions"):
                await world.begin(task_id)
        for index in (-1, "x", 1.5):
            with pytest.raises(UsageError, match=r"sample_index must be a whole number from 0, got"):
                await world.begin(None, index)


def test_repeats_are_counted_on_when_a_shared_world_opens_again():
    shared = SharedWorld(choice_of(GAME))

    async def one():
        async with shared.open() as world, world.episode() as episode:
            return episode.trajectory.sample_index, episode.trajectory.provenance["seed"]

    async def three():
        return [await one() for _ in range(3)]

    played = asyncio.run(three())
    assert [index for index, _ in played] == [0, 1, 2]
    assert len({seed for _, seed in played}) == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"wrold": "code"}, "no setting of a world 'wrold' .did you mean world"),
        ({"world": "cod"}, "no world 'cod'"),
        ({"num_tasks": "abc"}, "--num_tasks must be a whole number, got 'abc'"),
        ({"num_tasks": 0}, "--num_tasks must be at least 1, got 0"),
        ({"seed": "x"}, "--seed must be a whole number, got 'x'"),
        ({"num_tasks": 2.0}, "--num_tasks must be a whole number, got 2.0"),
        ({"world": 5}, "--world must be a text, got 5"),
        ({"tasks": ["mini:test"]}, "--tasks must be a text, got .'mini:test'."),
        ({"human": 5}, "--human must be a text, got 5"),
        ({"human_url": 5}, "--human_url must be a text, got 5"),
        ({"options": "max_turns"}, "options of a world must be names with values, .* got 'max_turns'"),
        ({"grading": ["workers"]}, "grading of a world must be names with values"),
        ({"tasks": "nowhere.jsonl"}, "'nowhere.jsonl' does not exist"),
        ({"tasks": "twenty-questions"}, "'twenty-questions' holds tasks of a game: add --world twenty_questions"),
        ({"world": "twenty_questions", "tasks": "mini:test"}, "'mini:test' holds no tasks of twenty_questions"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(settings, says):
    with pytest.raises(UsageError, match=says):
        tasks_of(choice_of(settings))
