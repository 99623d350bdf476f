"""A world of one's own that does not keep its word ends the run with a sentence on what to change."""

from contextlib import asynccontextmanager

import pytest

import sweet_rl
from sweet_rl import Message, Observation, StepResult, UserReply, World
from sweet_rl.errors import UsageError
from sweet_rl.learning.policy import split_tasks
from sweet_rl.worlds.options import Answers


class PlainEnv:
    def __init__(self, step, reset=None):
        self.answer, self.begin = step, reset

    async def reset(self, task, *, seed):
        self.seen = Observation(task.task_id, (Message("user", "Begin."),), seed)
        return self.seen if self.begin is None else self.begin()

    async def step(self, action):
        return self.answer(self)

    async def close(self):
        pass


def world_of(step=lambda env: StepResult("", "", None, 1.0, True), reset=None, **members):
    """A world of three members."""

    class Plain(World):
        name, max_turns = "plain", 3

        def rows(self, source, where, *, limit, seed):
            return [
                {"task_id": f"plain/{n}", "problem_description": f"Say {n}.", "ground_truth": str(n)}
                for n in range(12)
            ]

        @asynccontextmanager
        async def open(self, options, user):
            yield lambda: PlainEnv(step, reset)

    return type("Own", (Plain,), members)()


def goes_on(env):
    env.seen = Observation(
        "plain", (*env.seen.messages, Message("assistant", "a"), Message("user", "Go on.")), 0
    )
    return StepResult("a", "a", env.seen)


def raises(env):
    raise KeyError("lunch")


@pytest.mark.parametrize(
    ("step", "reset", "words"),
    [
        (lambda env: StepResult("", "", None, float("nan"), True), None, r"`step` of the Env of plain gave the reward nan: it must be a finite number"),
        (lambda env: StepResult("", "", None, float("-inf"), True), None, r"gave the reward -inf"),
        (goes_on, None, r"goes on after 17 turns, and its world says 3 at most \(`max_turns`\): return truncated=True there"),
        (lambda env: StepResult("", "", None), None, r"gave no observation and no end"),
        (lambda env: (env.seen, 1.0, True, {}), None, r"`step` of the Env of plain must return a sweet_rl.StepResult; got \(Observation"),
        (lambda env: None, lambda: "Begin.", r"`reset` of the Env of plain must return a sweet_rl.Observation; got 'Begin.'"),
        (raises, None, r"`step` of the Env of plain raised KeyError: 'lunch' \(file .*test_worlds_that_lie.py, line \d+, in raises: raise KeyError"),
    ],
)  # fmt: skip
def test_what_an_env_gives_is_looked_at(step, reset, words):
    with pytest.raises(UsageError, match=words):
        sweet_rl.simulate(world_of(step, reset), "plain:test", agent=lambda messages: "a", num_tasks=1)


def test_a_human_that_raises_is_named_with_its_line(worlds):
    class Human:
        name = "human"

        async def reply(self, context):
            return UserReply(context.hidden_information.split(": ")[99])

        async def close(self):
            pass

    world = type(worlds["meeting"])()
    world.user = Answers(by="human", scripted=Human)
    with pytest.raises(
        UsageError, match=r"raised IndexError: list index out of range \(file .*test_worlds_that_lie.py, line"
    ):
        sweet_rl.simulate(world, num_tasks=1)


def test_a_world_of_three_members_is_played_and_viewed(tmp_path):
    found = sweet_rl.evaluate(world_of(), "plain:test", agent=lambda messages: "a")
    assert found.report.means()["return"] == 1
    assert sweet_rl.view(found.trajectories, str(tmp_path / "page.html")).path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "plain:train is empty"),
        (
            [{"task_id": "plain/1", "problem_description": "a", "ground_truth": "b"}] * 2,
            "plain:train names 1 tasks twice",
        ),
    ],
)
def test_task_lists_that_cannot_be_learned_from_are_refused(rows, words, tmp_path):
    world = world_of(rows=lambda self, source, where, *, limit, seed: rows)
    with pytest.raises(
        UsageError, match=f"{words}. `rows` of plain must give tasks, each with a `task_id` of its own"
    ):
        split_tasks(world, tmp_path)
    assert not list(tmp_path.iterdir())


def test_tasks_without_the_name_of_their_world_are_refused_with_what_to_write():
    unnamed = world_of(
        rows=lambda self, source, where, *, limit, seed: [{"problem_description": "a", "ground_truth": "b"}]
    )
    with pytest.raises(UsageError, match=r"its `task_id` is '\w+', and theirs begin with 'plain/'"):
        sweet_rl.simulate(unnamed, "plain:test", agent=lambda messages: "a")
