"""Who plays, in a world of one's own: what its author wrote otherwise is taken, or said in one sentence."""

from contextlib import contextmanager

import pytest

import sweet_rl
from sweet_rl.errors import UsageError
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.types import Completion, Generation, UserReply
from sweet_rl.worlds import Answers, BaseEnv, World
from tests.interface.test_simulation import Echo, EchoWorld, Repeating
from tests.stub_server import model_server, said


class Human:
    name = "grandmother"

    async def reply(self, context):
        return UserReply("Yes.")

    async def close(self):
        pass


class Talk(EchoWorld):
    agents, user = {"parrot": {}}, Answers(by="human", scripted=Human)

    def make_agent(self, wanted):  # not async
        return Repeating()


class Mute(Human):
    reply = close = None


class Sync(Human):
    def reply(self, context):
        return UserReply("Yes.")


def test_a_world_whose_human_no_model_plays_has_the_scripted_one_under_auto():
    cast = Cast(world=Talk(), human=HumanFlags())
    assert not cast.human_served
    cast.check_human()
    assert Cast(world=Talk(), human=HumanFlags(env_model="auto", port=8000)).human_served
    episodes = sweet_rl.simulate(Talk(), agent="parrot")
    assert [one.reward for one in episodes] == [1.0] * 4
    assert {one.provenance["env_model"] for one in episodes} == {"grandmother"}


def world(**members):
    return type("Own", (Talk,), members)()


class Silent:
    name = "silent"

    async def act(self, observation):
        return Generation("", Completion(""))


class Asking(BaseEnv):
    async def turn(self, action):
        return self.respond(await self.ask())


def own(env):
    return {"open": World.open, "make_env": lambda self, options, user: env(self.turns(options), user)}


def plain(self, options, user):
    yield Echo


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"user": Answers(by="human", scripted=type("Nameless", (), {"reply": Human.reply, "close": Human.close}))}, "human of echo is .*no `name`: "),
        ({"user": Answers(by="human", scripted=Mute)}, r"no `async def reply` and no `async def close`: write it \(sweet_rl.User\)"),
        ({"user": Answers(by="human", scripted=Sync)}, "no `async def reply`"),
        ({"make_agent": lambda self, wanted: Silent()}, r"agent parrot of echo is .*no `async def close`.*sweet_rl.Policy"),
        ({"open": World.open}, r"^echo has no Env: write `def make_env\(self, options, user\)`"),
        ({"rows": World.rows}, r"^echo has no tasks: write `def rows\(self, source, where, \*, limit, seed\)`"),
        ({"rows": lambda self, source, where, *, limit, seed: {"train": []}[where]}, r"`rows` of the world echo raised KeyError: 'test' \(file .*test_players.py, line \d+, in <lambda>: .*\)\.$"),
        ({"user": Answers(by="human")}, r"echo has no human or oracle that works without a model \(`user=Answers\(scripted=...\)`\)"),
        (own(BaseEnv), r"BaseEnv has no turns: write `async def turn\(self, action\)`"),
        (own(type("Env", (BaseEnv,), {"turn": Human.reply})), r"`turn` of Env must return `self.respond\(...\)`; got UserReply"),
        (own(Asking) | {"user": Answers()}, r"asks `user`, and there is none: write `user = Answers\(by=\"human\", scripted=CLASS\)`"),
        ({"open": plain}, "`open` of the world echo is not an async context manager: write @asynccontextmanager"),
        ({"open": contextmanager(plain)}, "is not an async context manager"),
    ],
)  # fmt: skip
def test_what_the_author_of_a_world_left_out_is_said(members, words):
    with pytest.raises(UsageError, match=words):
        sweet_rl.simulate(world(**members), agent="parrot")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "Own has no name: write `name = "),
        ({"name": "own", "max_turn": 3}, "Own has `max_turn`, and no World has: write `max_turns`"),
        ({"name": "own", "score": None}, "write `scores`"),
        ({"name": "own", "make_envs": None}, "write `make_env`"),
    ],
)
def test_what_is_wrong_with_the_members_of_a_world_is_said_when_it_is_made(members, words):
    with pytest.raises(UsageError, match=words):
        type("Own", (World,), members)()


def test_a_model_behind_a_server_plays_the_human_of_any_world(tmp_path):
    prompt = tmp_path / "human.txt"
    prompt.write_text("{problem_description} {hidden_information} {dialogue_history}")
    with model_server(lambda body: said("Hm.")) as (url, asked):
        how = {"agent": "parrot", "num_tasks": 1, "human": "openai/m", "human_base_url": url}
        with pytest.raises(UsageError, match=r"`user=Answers\(prompt=FILE\)`\)\.$"):
            sweet_rl.simulate(world(**own(Asking)), **how)
        prompted = world(**own(Asking), user=Answers(by="human", scripted=Human, prompt=str(prompt)))
        (one,) = sweet_rl.simulate(prompted, **how, options={"max_turns": 2})
    assert [message.content for message in one.dialogue_history[2::2]] == ["Hm."] * 2
    assert len(asked) == 2 and one.provenance["env_model"] == "m"
