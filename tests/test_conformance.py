"""One suite over all worlds, all humans and all agents: what sweet_rl.contracts promises, each of them keeps.

Humans and agents that installed packages offer are among them.
"""

import asyncio

import pytest

from sweet_rl.browsers import PageContext
from sweet_rl.chat import PlainChat
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.mini.frontend.agents import BlankDesigner, GenericDesigner, ImproverDesigner, TargetDesigner
from sweet_rl.mini.frontend.human import ScriptedViewer
from sweet_rl.openai_client import ChatReply, OpenAIClient
from sweet_rl.policies import POLICIES as OTHER_POLICIES
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.policies.scripted import ConstantPolicy, OraclePolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Generation, Message, Observation, StopReason, UserContext, UserReply
from sweet_rl.users import USERS as OTHER_USERS
from sweet_rl.users.model import OpenAIUser, VisionUser
from sweet_rl.users.server import start_server
from sweet_rl.worlds import AgentRequest, load_tasks, world_of
from sweet_rl.worlds.backend_programming.world import BackendEnv, QuestionerPolicy
from sweet_rl.worlds.frontend_design.world import FrontendEnv, PictureFolder
from tests.browsers.fake_renderer import FakeRenderer, draw

TASKS = load_tasks("mini:test", num_tasks=4)
TASK = TASKS[0]
ANSWERS = {task.task_id: task.ground_truth for task in TASKS}


@pytest.fixture(scope="module")
def server():
    with start_server() as running:
        yield running.base_url


class Seeing(OpenAIClient):
    """A model with eyes: the simulator server has none, and refuses pictures."""

    async def chat(self, body):
        pictures = [part for part in body["messages"][0]["content"] if part["type"] == "image_url"]
        return ChatReply(f"I see {len(pictures)} pages.", "stop")


ENVS = {
    "backend": lambda folder: BackendEnv(ScriptedHuman(), max_turns=4),
    "frontend": lambda folder: FrontendEnv(
        ScriptedViewer(), FakeRenderer(), PictureFolder(folder, beside=folder), max_turns=4
    ),
}
USERS = {
    "scripted": lambda url: ScriptedHuman(),
    "openai": lambda url: OpenAIUser(
        OpenAIClient([url]), "scripted", prompt_template=load_prompt("human_simulator_code_prompt")
    ),
    "scripted viewer": lambda url: ScriptedViewer(),
    "vision": lambda url: VisionUser(
        Seeing([url]), "eyes", prompt_template=load_prompt("human_simulator_html_prompt")
    ),
} | {
    name: lambda url, name=name: OTHER_USERS.make(name, world_of("code"), flag="env_model")
    for name in OTHER_USERS.names()
}
POLICIES = {
    "oracle": lambda url: OraclePolicy(ANSWERS, system_prompt="rules"),
    "constant": lambda url: ConstantPolicy(ANSWERS, system_prompt="rules"),
    "questioner": lambda url: QuestionerPolicy(system_prompt="rules", num_questions=2),
    "blank": lambda url: BlankDesigner("rules"),
    "generic": lambda url: GenericDesigner("rules"),
    "target": lambda url: TargetDesigner(ANSWERS, system_prompt="rules"),
    "improver": lambda url: ImproverDesigner(max_turns=4, system_prompt="rules"),
    "openai completions": lambda url: OpenAIPolicy(
        OpenAIClient([url]), "echo", system_prompt="rules", chat_format=PlainChat()
    ),
    "openai chat": lambda url: OpenAIPolicy(OpenAIClient([url]), "echo", system_prompt="rules", api="chat"),
} | {
    name: lambda url, name=name: OTHER_POLICIES.make(
        name, AgentRequest(name="auto", tasks=TASKS, system_prompt="rules"), flag="agent_model"
    )
    for name in OTHER_POLICIES.names()
}


def observation(*turns):
    roles = ["user", "assistant"]
    messages = [Message(roles[i % 2], text) for i, text in enumerate((TASK.problem_description, *turns))]
    return Observation(TASK.task_id, tuple(messages), seed=1)


@pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)
async def test_world(make, tmp_path):
    env = make(tmp_path)
    await env.close()  # may come at any time
    first = await env.reset(TASK, seed=7)
    assert [m.role for m in first.messages] == ["user"]
    assert (first.seed, first.task_id, first.turn) == (7, TASK.task_id, 0)
    assert TASK.ground_truth not in repr(first)  # nothing hidden in what an agent sees
    seen = first
    for turn in range(1, 4):
        step = await env.step(f"Question {turn}?")
        assert (step.terminated, step.truncated, step.stop_reason) == (False, False, None)
        assert step.observation.messages[: len(seen.messages)] == seen.messages
        assert step.observation.turn == turn
        assert step.observation.messages[-1].role == "user"
        seen = step.observation
    last = await env.step("no answer, but the turns are used up")
    assert (last.terminated, last.truncated, last.observation) == (False, True, None)
    assert last.stop_reason is StopReason.TURN_LIMIT
    assert last.stop_reason.truncated
    after = await env.step("more")
    assert after.observation is None
    again = await env.reset(TASKS[1], seed=8)  # nothing of the first episode is left
    assert again.messages[0].content == TASKS[1].problem_description
    end = await env.step("I WANT TO ANSWER:\nx")
    assert (end.terminated, end.truncated, end.stop_reason) == (True, False, StopReason.ANSWERED)
    await env.close()
    await env.close()


@pytest.mark.parametrize("make", USERS.values(), ids=USERS)
async def test_human(make, server):
    context = PageContext(  # what a human without eyes knows is part of it
        TASK.problem_description,
        TASK.hidden_information,
        (Message("user", TASK.problem_description), Message("assistant", "What exact numbers go in?")),
        draw("<html><h1>Bakery</h1></html>"),
        draw("<html><h1>Cakes</h1></html>"),
    )

    user = make(server)
    assert user.name
    replies = await asyncio.gather(*(user.reply(context) for _ in range(5)))
    await user.close()
    assert all(isinstance(reply, UserReply) and reply.failure is None for reply in replies)
    assert len({reply.content for reply in replies}) == 1  # no state of one episode reaches another
    assert replies[0].content.strip()
    assert TASK.ground_truth not in replies[0].content


def test_both_humans_are_the_same_person(server):
    contexts = [
        UserContext(
            task.problem_description,
            task.hidden_information,
            (Message("user", task.problem_description), Message("assistant", question)),
        )
        for task in TASKS
        for question in ("What should it return?", "Is there a limit?")
    ]

    async def ask(make):
        user = make(server)
        replies = [await user.reply(context) for context in contexts]
        await user.close()
        return [reply.content for reply in replies]

    assert asyncio.run(ask(USERS["scripted"])) == asyncio.run(ask(USERS["openai"]))


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
async def test_agent(make, server):
    policy = make(server)
    assert policy.name
    turns = [observation(), observation("Why?", "Because.")]
    generations = await asyncio.gather(*(policy.act(turn) for turn in turns for _ in range(2)))
    await policy.close()
    assert all(isinstance(generation, Generation) for generation in generations)
    for first, second in (generations[:2], generations[2:]):
        assert first == second  # the same observation, the same turn
    for generation in generations:
        assert "rules" in generation.input
        assert TASK.problem_description[:20] in generation.input
        assert isinstance(generation.completion.text, str)
    assert "Because." in generations[2].input
