"""A world of one's own that does not keep its word ends the run with a sentence on what to change."""

import sys
from contextlib import asynccontextmanager
from functools import partial
from random import random

import pytest

import sweet_rl
from sweet_rl import (
    BaseEnv,
    Completion,
    Generation,
    Message,
    Observation,
    StepResult,
    UserContext,
    World,
    worlds,
)
from sweet_rl.errors import DataError, UsageError
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


def raises(*given):
    raise KeyError("lunch")


def ends(**changes):
    """A last step, with something in it that is not as it has to be."""
    return lambda env: StepResult(
        **({"content": "", "output": "", "observation": None, "reward": 1.0, "terminated": True} | changes)
    )


def played(world, agent=lambda messages: "a", **settings):
    return sweet_rl.simulate(world, "plain:test", agent=agent, num_tasks=2, **settings)


@pytest.mark.parametrize(
    ("step", "reset", "words"),
    [
        (ends(reward=float("nan")), None, r"`step` of the Env of plain gave the reward nan \(float\): it must be a finite int or float"),
        (ends(reward=float("-inf")), None, r"gave the reward -inf"),
        (ends(reward="1"), None, r"gave the reward '1' \(str\)"),
        (ends(reward=True), None, r"gave the reward True \(bool\)"),
        (goes_on, None, r"goes on after 17 turns, and its world says 3 at most \(`max_turns`\): return truncated=True there"),
        (ends(terminated=False), None, r"gave no observation and no end"),
        (ends(content=None), None, r"`step` of the Env of plain must return sweet_rl.StepResult.*; got StepResult\(content=None"),
        (ends(terminated=False, observation="Go on."), None, r"must return sweet_rl.StepResult.*observation='Go on.'"),
        (lambda env: (env.seen, 1.0, True, {}), None, r"must return sweet_rl.StepResult.*; got \(Observation.*\(tuple\)"),
        (lambda env: None, None, r"must return sweet_rl.StepResult.*; got None \(NoneType\). A way through it ends without `return`"),
        (lambda env: None, lambda: "Begin.", r"`reset` of the Env of plain must return sweet_rl.Observation.*; got 'Begin.' \(str\)"),
        (lambda env: None, lambda: Observation("plain/0", (), 0), r"`reset` .* must return sweet_rl.Observation.*; got Observation\(task_id='plain/0', messages=\(\)"),
        (lambda env: None, raises, r"`reset` of the Env of plain raised KeyError: 'lunch'"),
        (raises, None, r"`step` of the Env of plain raised KeyError: 'lunch' \(file .*test_worlds_that_lie.py, line \d+, in raises: raise KeyError"),
    ],
)  # fmt: skip
def test_what_an_env_gives_is_looked_at(step, reset, words):
    with pytest.raises(UsageError, match=words):
        played(world_of(step, reset))


class NotAsync(PlainEnv):
    def step(self, action):
        return ends()(self)


@asynccontextmanager
async def nothing_yielded(self, options, user):
    if False:
        yield


async def not_decorated(self, options, user):
    yield lambda: PlainEnv(ends())


async def a_coroutine(self, options, user):
    return None


def yielding(made):
    @asynccontextmanager
    async def opened(self, options, user):
        yield made

    return opened


def agent_that(act):
    """A scripted agent with this `act`."""

    async def make_agent(self, wanted):
        return type("Agent", (), {"name": "agent", "act": act, "close": PlainEnv.close})()

    return {"agents": {"agent": {}}, "make_agent": make_agent}


def human_that(reply):
    return type("Human", (), {"name": "human", "reply": reply, "close": PlainEnv.close})


class Talking(PlainEnv):
    def __init__(self, user):
        super().__init__(ends())
        self.user = user

    async def step(self, action):
        await self.user.reply(UserContext("", "", (Message("user", "Begin."),)))
        return ends()(self)


@asynccontextmanager
async def talking(self, options, user):
    yield lambda: Talking(user)


async def says_text(self, seen):
    return "a"


async def says_an_action(self, seen):
    return Generation("", "a")


async def says_a_coroutine(self, seen):
    return Generation("", Completion(Later()))


async def raising(self, seen):
    raises()


class Later:
    """As a coroutine is, but that it minds when nobody awaits it."""

    def __repr__(self):
        return "<coroutine object Own.word at 0x7f>"

    def __await__(self):
        yield


async def not_awaited(self, action):
    return self.respond(Later())


async def not_awaited_in_text(self, action):
    return self.respond(f"They say {Later()}.")


async def not_awaited_flag(self, action):
    return self.respond("a", 0.0, terminated=Later())


def own_env(**members):
    return {"open": World.open, "make_env": lambda self, options, user: type("Own", (BaseEnv,), members)(3)}


ROW = {"task_id": "plain/1", "problem_description": "a", "ground_truth": "b"}


def rows(*given):
    return {"rows": lambda self, source, where, *, limit, seed: list(given)}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"name": "a plain one"}, r"`name` of the world Own is 'a plain one': it must be one word of letters"),
        ({"name": "a:b"}, r"`name` of the world Own is 'a:b'"),
        ({"name": None}, r"`name` of the world Own is None"),
        ({"max_turns": 0}, r"`max_turns` of the world Own is 0: it must be a whole number, at least 1"),
        ({"max_turns": "3"}, r"`max_turns` of the world Own is '3'"),
        ({"agents": ["good", "hasty"]}, r"`agents` of the world Own is \['good', 'hasty'\]: it must be .*\{'good': \{\}"),
        ({"tasks": ["plain:train"]}, r"`tasks` of the world Own is .* must be a sweet_rl.worlds.TaskLists"),
        ({"system_prompt": lambda self: "a"}, r"`system_prompt` of the world Own is .*: it must be a text"),
        ({"user": "human"}, r"`user` of the world Own is 'human': it must be a sweet_rl.worlds.Answers"),
        ({"open": lambda self, options, user: raises()}, r"`open` of the world plain raised KeyError"),
        ({"open": not_decorated}, r"`open` of the world plain is not an async context manager: write @asynccontextmanager above"),
        ({"open": a_coroutine}, r"`open` of the world plain has no `yield`: write @asynccontextmanager"),
        ({"open": asynccontextmanager(a_coroutine)}, r"`open` of the world plain has no `yield`"),
        ({"open": nothing_yielded}, r"`open` of the world plain raised RuntimeError: generator didn't yield"),
        ({"open": yielding(PlainEnv(ends()))}, r"What makes an Env of plain raised TypeError: 'PlainEnv' object is not callable"),
        ({"open": yielding(lambda: None)}, r"The Env of plain is None, which has no `async def reset` and no `async def step`"),
        ({"open": yielding(lambda: NotAsync(ends()))}, r"The Env of plain is .*, which has no `async def step`: write it"),
        ({"rows": raises}, r"`rows` of the world plain raised (KeyError|TypeError)"),
        ({"rows": lambda self, source, where, *, limit, seed: None}, r"`rows` of the world plain raised TypeError"),
        (rows(), r"'plain:test' holds no tasks"),
        (rows("a"), r"plain:test of the world plain, line 1: the line must hold one JSON object"),
        (rows({"task_id": "plain/2", "ground_truth": "b"}), r"line 1: field 'problem_description' must be a string"),
        (rows({"task_id": "plain/2", "problem_description": "b"}), r"field 'ground_truth' must be a string, got 'nothing \(the row has task_id, problem_description\)'. It is the hidden solution"),
        (rows(ROW | {"task_id": 3}), r"`rows` of the world plain gives the `task_id` 3 for plain:test: every task needs one of its own that begins with 'plain/'"),
        (rows(ROW | {"task_id": None}), r"gives the `task_id` None for plain:test"),
        (rows(ROW, ROW), r"gives the `task_id` 'plain/1' twice for plain:test"),
        (own_env(turn=lambda self, action: self.respond("a")), r"`turn` of Own must be written `async def turn`"),
        (own_env(opening=lambda self: "Begin."), r"`opening` of Own must be written `async def opening`"),
        (own_env(respond=says_text), r"`respond` of Own must be written `def respond`"),
        (own_env(turn=not_awaited_in_text), r"`respond` of Own must have a str as its text; got 'They say <coroutine object Own.word at .*>.': write `await` in front of it"),
        (own_env(turn=not_awaited_flag), r"`step` of the Env of plain must return sweet_rl.StepResult.* Write `await` before the call of `Own.word`"),
        ({"rows": says_text}, r"`rows` of Own must be written `def rows`"),
        ({"make_env": says_text}, r"`make_env` of Own must be written `def make_env`"),
        ({"open": yielding(partial(says_text, 0, 0))}, r"The Env of plain is a coroutine: what makes it must be written `def`"),
        (own_env(turn=not_awaited), r"`respond` of Own must have a str as its text; got <coroutine object Own.word at .*>: write `await` in front of it"),
        (agent_that(says_text), r"`act` of the agent agent of plain must return sweet_rl.Generation.*; got 'a' \(str\)"),
        (agent_that(says_an_action), r"must return sweet_rl.Generation\(prompt, sweet_rl.Completion\(text\)\); got Generation\(input='', completion='a'"),
        (agent_that(raising), r"`act` of the agent agent of plain raised KeyError: 'lunch'"),
        ({"user": Answers(by="human", scripted=human_that(says_text)), "open": talking}, r"`reply` of the human of plain must return sweet_rl.UserReply\(text\); got 'a'"),
        (agent_that(says_a_coroutine), r"`act` of the agent agent of plain must return .* Write `await` before the call of `Own.word`"),
        (agent_that(lambda self, seen: None), r"The agent agent of plain is .*, which has no `async def act`"),
        ({"user": Answers(by="human", scripted=human_that(raising)), "open": talking}, r"`reply` of the human of plain raised KeyError: 'lunch' \(file .*, in raises"),
    ],
)  # fmt: skip
def test_what_a_world_says_and_makes_is_looked_at(members, words):
    with pytest.raises((UsageError, DataError), match=words):
        played(world_of(**members), agent="auto" if "make_agent" in members else lambda messages: "a")


def test_step_is_not_written_where_turn_is_meant():
    with pytest.raises(UsageError, match=r"Own writes `step`, which BaseEnv has: write `async def turn"):
        type("Own", (BaseEnv,), {"step": says_text})


def test_a_scripted_agent_is_given_the_instructions_of_its_world(worlds):
    (episode,) = sweet_rl.simulate(worlds["number"], num_tasks=1)
    assert worlds["number"].system_prompt in episode.dialogue_history[1].input


def test_rows_may_come_one_by_one():
    world = world_of(rows=lambda self, source, where, *, limit, seed: iter([ROW]))
    assert [one.reward for one in played(world)] == [1.0]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "nowhere_at_all:WORLD", r"there is no module 'nowhere_at_all'. It was looked for in the current folder \(.*\), on PYTHONPATH"),
        ("import nowhere_at_all", "own:WORLD", r"its module own raised ModuleNotFoundError: No module named 'nowhere_at_all' \(file .*own.py, line 1"),
        ("from tests.learning.test_worlds_that_lie import world_of\nWORLD = world_of()", "own:WRLD", r"own has no attribute 'WRLD' \(did you mean WORLD\?\). It has the world WORLD."),
        ("\ndef x(:", "own:WORLD", r"its module own raised SyntaxError: invalid syntax \(file .*own.py, line 2: def x\(:\)"),
        ("1 / 0", "own:WORLD", r"its module own raised ZeroDivisionError: division by zero \(file .*own.py, line 1, in <module>: 1 / 0\)"),
        ("from sweet_rl import World\nclass Own(World):\n    name = 'own'", "own:Own", r"not a world but <class 'own.Own'>.* Make one: WORLD = Own\(\), and name that"),
        ("", "here/own.py:WORLD", r"write module:ATTRIBUTE, .* PYTHONPATH=FOLDER before the command"),
    ],
)  # fmt: skip
def test_a_world_that_cannot_be_imported_says_where_and_why(text, place, words, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own", raising=False)
    with pytest.raises(UsageError, match=words):
        sweet_rl.simulate(place)
    sys.modules.pop("own", None)


def test_a_list_that_is_nearly_right_is_not_played_where_any_name_is_taken():
    with pytest.raises(
        UsageError,
        match=r"There is no list 'plain:tst': did you mean plain:test\? plain has plain:train and plain:test",
    ):
        sweet_rl.simulate(world_of(), "plain:tst", agent=lambda messages: "a")
    own_first = r"'plian:test' does not exist \(did you mean plain:test\?\) .* such as plain:train or plain:test \(there are plain:"
    with pytest.raises(UsageError, match=own_first):
        sweet_rl.simulate(world_of(), "plian:test", agent=lambda messages: "a")
    worlds.world_of("tests.learning.letters:WORLD")
    with pytest.raises(
        UsageError, match=r"\(did you mean letters:test\?\) .* \(there are .*letters:train.* webshop:train"
    ):
        worlds.load_tasks("leters:test")
    for source in ("plain:dev", "plain:test2", "plain"):
        assert sweet_rl.simulate(world_of(), source, agent=lambda messages: "a", num_tasks=1)


def test_a_world_of_three_members_is_played_and_viewed(tmp_path):
    found = sweet_rl.evaluate(world_of(), "plain:test", agent=lambda messages: "a")
    assert found.report.means()["return"] == 1
    assert sweet_rl.view(found.trajectories, str(tmp_path / "page.html")).path.stat().st_size > 1000


def test_a_list_without_tasks_is_refused(tmp_path):
    world = world_of(rows=lambda self, source, where, *, limit, seed: [])
    with pytest.raises(UsageError, match="plain:train is empty: `rows` of plain must give tasks"):
        split_tasks(world, tmp_path)
    assert not list(tmp_path.iterdir())


def test_tasks_that_are_others_each_time_are_refused(tmp_path):
    world = world_of(rows=lambda self, source, where, *, limit, seed: [ROW | {"ground_truth": str(random())}])
    split_tasks(world, tmp_path)
    with pytest.raises(
        UsageError, match=r"`rows` of plain gives other tasks than it gave before \(.*train.jsonl\)"
    ):
        split_tasks(world, tmp_path)
    split_tasks(world, tmp_path, overwrite=True)
