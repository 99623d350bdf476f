"""One suite over all worlds that reward turns, and all oracles: what sweet_rl.contracts promises.

Worlds of installed packages are among them.
"""

import asyncio
import importlib.util

import pytest

from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.types import Completion, Generation, Message, StopReason, UserContext
from sweet_rl.worlds import load_tasks, names, world_of
from tests.worlds.playing import rolled

ACTIONS = {
    "twenty_questions": ["Is it alive?", "Is it bigger than a car?", "Is it made of metal?"],
    "guess_my_city": ["Is your city in Asia?", "What is it famous for?", "Is it hot?"],
    "detective": ["look", "west", "inventory"],
    "lantern": ["look", "north", "south"],
    "webshop": ["search[shoes]", "click[Back to Search]", "think[hm]"],
    "dangerous_taxi": ["0", "1", "7"],
    "alfworld": ["0", "1", "7"],
    "auto_explore": ["cat README.md", "cat CHANGES.md", "ls"],
}
ANY_ACTIONS = ["first", "second", "third"]
"""In worlds that are not in the table."""

GAMES = [name for name in names() if world_of(name).user.by != "human"]
QUESTION_GAMES = [name for name in GAMES if world_of(name).user.by == "oracle"]


@pytest.fixture(params=GAMES)
def game(request, monkeypatch):
    if request.param == "detective":
        shared = request.getfixturevalue("shared")
        if importlib.util.find_spec("jericho") is None:
            pytest.skip("needs jericho: pip install 'sweet_rl[detective]'")
        monkeypatch.setenv("SWEET_RL_DETECTIVE", str(shared / "data/games/detective.z5"))
    if request.param == "alfworld" and importlib.util.find_spec("textworld") is None:
        pytest.skip("needs its engine: pip install 'sweet_rl[alfworld]'")
    return request.param


def tasks_of(game):
    return load_tasks("webshop:2000-2002" if game == "webshop" else world_of(game).tasks.sources[0])


def in_world(game, work, **flags):
    """What `work` makes of the game's maker of worlds."""

    async def main():
        world = world_of(game)
        oracle = world.user.make() if game in QUESTION_GAMES else None
        async with world.open(world.options(**flags), oracle) as make:
            return await work(make)

    return asyncio.run(main())


def seen(step):
    said = step.observation and [message.content for message in step.observation.messages]
    return said, step.reward, step.terminated, step.truncated


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_world(game, compat):
    first_task, last_task = tasks_of(game)[0], tasks_of(game)[-1]
    actions = ACTIONS.get(game, ANY_ACTIONS)

    async def work(make):
        env = make()
        await env.close()  # may come at any time
        first = await env.reset(first_task, seed=7)
        assert [message.role for message in first.messages] == ["user"]
        assert (first.seed, first.task_id, first.turn) == (7, first_task.task_id, 0)
        if game in QUESTION_GAMES:
            assert first_task.ground_truth.lower() not in repr(first.messages).lower()
        steps, before = [], first
        for turn, action in enumerate(actions, start=1):
            step = await env.step(action)
            steps.append(step)
            assert isinstance(step.reward, float)
            assert step.over is (turn == len(actions))
            assert step.observation.messages[: len(before.messages)] == before.messages
            said, heard = step.observation.messages[-2:]
            assert (said.role, said.content, heard.role) == ("assistant", step.content, "user")
            before = step.observation
        assert (step.terminated, step.truncated, step.stop_reason) == (False, True, StopReason.TURN_LIMIT)
        after = await env.step(actions[0])
        assert (after.observation, after.terminated, after.reward) == (None, True, None)
        again = await env.reset(last_task, seed=8)  # nothing of the first episode is left
        assert (again.turn, again.task_id) == (0, last_task.task_id)
        other = make()
        await other.reset(first_task, seed=7)
        assert [seen(await other.step(action)) for action in actions] == [seen(step) for step in steps]
        for world in (env, env, other):
            await world.close()

    if (game, compat) == ("webshop", "published"):
        pytest.skip("ends with a hidden turn, as published: tests/envs/webshop holds it to the goldens")
    in_world(game, work, max_turns=len(actions), compat=compat)


BAD = ["", "\n", " ", "x" * 10_000, "\ud800 é 🐕", "]][[", "click[", "search[]", "a\nb\n", "\x00"]


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_odd_actions_have_a_defined_outcome(game, compat):
    (task, *_) = tasks_of(game)

    async def work(make):
        env = make()
        await env.reset(task, seed=1)
        for action in BAD:
            step = await env.step(action)
            assert step.output == action
            assert step.reward <= 0
            assert not step.over
            if compat == "fixed" and game in QUESTION_GAMES:
                step.content.encode()  # fit for a tokenizer
        await env.close()

    if (game, compat) == ("webshop", "published"):
        pytest.skip("an empty action ends a published run")
    in_world(game, work, max_turns=len(BAD) + 1, compat=compat)


class Looper:
    """A policy that says the same few things in turn."""

    name = "looper"

    def __init__(self, game):
        self.actions, self.text = ACTIONS.get(game, ANY_ACTIONS), world_of(game).transcript()

    async def act(self, observation):
        action = self.actions[observation.turn % len(self.actions)]
        return Generation(self.text.render(observation.messages), Completion(action))

    async def close(self):
        pass


def test_many_episodes_at_once_and_their_rows(game):
    tasks = tasks_of(game)[:3]

    done = in_world(game, lambda make: rolled(make, Looper(game), tasks, 4), max_turns=4)
    assert len(done) == 4 * len(tasks)
    for trajectory in done:
        assert trajectory.error is None
        turns = [message for message in trajectory.dialogue_history if message.role == "assistant"]
        assert trajectory.reward == sum(turn.reward for turn in turns)
        assert turns[1].input == world_of(game).transcript().render(trajectory.dialogue_history[:3])
        assert trajectory_from_row(trajectory_to_row(trajectory)) == trajectory
    by_task = {}
    for trajectory in done:  # the same actions in the same world: repeats are alike
        contents = [message.content for message in trajectory.dialogue_history]
        assert by_task.setdefault(trajectory.task.task_id, contents) == contents


@pytest.mark.parametrize("game", QUESTION_GAMES)
async def test_embedded_oracle(game):
    task = tasks_of(game)[5]
    context = UserContext(
        task.problem_description,
        task.hidden_information,
        (Message("user", task.problem_description), Message("assistant", "Is it very old?")),
    )

    oracle = world_of(game).user.make()
    assert oracle.name
    replies = await asyncio.gather(*(oracle.reply(context) for _ in range(5)))
    await oracle.close()
    await oracle.close()
    assert all(reply.failure is None and reply.content.strip() for reply in replies)
    assert len({reply.content for reply in replies}) == 1  # no state of one episode reaches another
    assert task.ground_truth.split(",")[0].lower() not in replies[0].content.lower()
