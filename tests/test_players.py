"""Who plays, in a world of one's own: what its author wrote otherwise is taken, or said in one sentence."""

from contextlib import contextmanager

import pytest

import sweet_rl
from sweet_rl.errors import UsageError
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.types import Completion, Generation, UserReply
from sweet_rl.worlds import Answers
from tests.interface.test_simulation import Echo, EchoWorld, Repeating


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


def plain(self, options, user):
    yield Echo


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"user": Answers(by="human", scripted=type("Nameless", (), {"reply": Human.reply, "close": Human.close}))}, "human of echo is .*no `name`: "),
        ({"user": Answers(by="human", scripted=Mute)}, r"no `async def reply` and no `async def close`: write it \(sweet_rl.User\)"),
        ({"user": Answers(by="human", scripted=Sync)}, "no `async def reply`"),
        ({"make_agent": lambda self, wanted: Silent()}, r"agent parrot of echo is .*no `async def close`.*sweet_rl.Policy"),
        ({"open": plain}, "`open` of the world echo is no async context manager: write @asynccontextmanager"),
        ({"open": contextmanager(plain)}, "is no async context manager"),
    ],
)  # fmt: skip
def test_what_the_author_of_a_world_left_out_is_said(members, words):
    with pytest.raises(UsageError, match=words):
        sweet_rl.simulate(world(**members), agent="parrot")
