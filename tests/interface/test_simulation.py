"""Episodes from Python: the user's own agent, human and world, plainly and where an event loop runs."""

import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import pytest

import sweet_rl
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.interface.parts import wait_for
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.policies.reflective import Recap, ReflectivePolicy
from sweet_rl.policies.scripted import MarkovPolicy
from sweet_rl.records import read_rows
from sweet_rl.runs.facts import read_record
from sweet_rl.types import (
    Completion,
    Failure,
    Generation,
    Message,
    Observation,
    StepResult,
    StopReason,
    UserReply,
)
from sweet_rl.worlds import world_of
from tests.stub_server import model_server
from tests.stub_server import said as reply

ROWS = [
    {
        "problem_description": f"Write f, which adds {n}.",
        "ground_truth": f"def f(x):\n    return x + {n}\n",
        "hidden_information": f"def f(x):\n    return x + {n}\n",
        "test_cases": {"a": "f(1)", "b": "f(5)"},
    }
    for n in range(3)
]


class Asking:
    """Asks once, answers with what it was told."""

    name = "asking"

    def __init__(self):
        self.loops, self.turns, self.closed = set(), 0, False

    async def act(self, observation):
        self.loops.add(asyncio.get_running_loop())
        self.turns += 1
        told = observation.messages[-1].content
        said = (
            "How much?" if observation.turn == 0 else f"I WANT TO ANSWER:\ndef f(x):\n    return x + {told}"
        )
        return Generation(f"<{told}>", Completion(said))

    async def close(self):
        self.closed = True


class Telling:
    """Reads the number from the hidden function."""

    name = "telling"

    async def reply(self, context):
        return UserReply(context.hidden_information.split("+ ")[1].strip())

    async def close(self):
        pass


class Echo:
    """A world that gives 1 for its own word."""

    def __init__(self):
        self._word = ""

    async def reset(self, task, *, seed):
        self._word = task.ground_truth
        return Observation(task.task_id, (Message("user", f"Say {self._word}"),), seed)

    async def step(self, action):
        return StepResult(
            action, action, None, float(action == self._word), True, stop_reason=StopReason.ENDED
        )

    async def close(self):
        pass


class EchoWorld(sweet_rl.World):
    name, max_turns = "echo", 1
    tasks = sweet_rl.worlds.TaskLists("words:train", "words:test")

    def rows(self, source, where, *, limit, seed):
        return [
            {
                "task_id": f"echo/{where}{n}",
                "problem_description": "Say it.",
                "ground_truth": f"w{n}",
                "test_cases": {},
            }
            for n in range(4)
        ]

    @asynccontextmanager
    async def open(self, options, user):
        yield Echo


class Repeating(Asking):
    async def act(self, observation):
        return Generation("", Completion(observation.messages[-1].content.removeprefix("Say ")))


def said(episodes):
    return [[message.content for message in one.dialogue_history] for one in episodes]


def test_an_agent_and_a_human_of_ones_own():
    agent = Asking()
    episodes = sweet_rl.simulate("code", ROWS, agent=agent, human=Telling(), repeats=2)
    assert [one.answer.strip()[-1] for one in episodes] == ["0", "1", "2"] * 2
    assert [one.sample_index for one in episodes] == [0, 0, 0, 1, 1, 1]
    assert said(episodes[1:2]) == [
        ["Write f, which adds 1.", "How much?", "1", episodes[1].dialogue_history[-1].content]
    ]
    assert episodes[0].provenance["agent_model"] == "asking"
    assert not agent.closed  # its owner closes it


def test_the_same_where_an_event_loop_runs():
    plain = sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())

    async def cell():
        waited = sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())
        agent = Asking()
        awaited = await sweet_rl.asimulate("code", ROWS, agent=agent, human=Telling())
        assert agent.loops == {asyncio.get_running_loop()}
        assert (await sweet_rl.aplay("code", ROWS[2], agent=agent, human=Telling())).answer == plain[2].answer
        return waited, awaited

    waited, awaited = asyncio.run(cell())
    assert waited == awaited == plain


def test_all_calls_share_a_loop_so_that_connections_live_on():
    agent = Asking()
    for _ in range(2):
        sweet_rl.play("code", ROWS[0], agent=agent, human=Telling())
    assert len(agent.loops) == 1


def test_an_agent_that_would_wait_for_itself_is_told():
    class Nested(Asking):
        async def act(self, observation):
            sweet_rl.play("code", ROWS[0])

    with pytest.raises(UsageError, match=r"`act` of the agent asking raised RuntimeError: .*awaits aplay"):
        sweet_rl.play("code", ROWS[0], agent=Nested(), human=Telling())


def test_ctrl_c_cancels_and_cleans_up():
    ended = []

    async def work():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        wait_for(work(), instead="")
    assert ended


def test_a_forked_process_has_a_loop_of_its_own():
    code = (
        "import os, sweet_rl; sweet_rl.play(); child = os.fork()\n"
        "if not child: os._exit(0 if sweet_rl.play().answer else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_names_stand_for_the_worlds_own():
    (one,) = sweet_rl.simulate("code", "mini:test", agent="oracle", human="scripted", num_tasks=1)
    assert one.answer.strip() == one.task.ground_truth.strip()
    assert sweet_rl.play("lantern").stop_reason is StopReason.ENDED
    assert sweet_rl.play("lantern", options={"max_turns": 1}).stop_reason is StopReason.TURN_LIMIT


def test_a_place_stands_for_an_agent_and_a_human():
    places = {"agent": f"{__name__}:Asking", "human": f"{__name__}:Telling"}
    assert said(sweet_rl.simulate("code", ROWS, **places)) == said(
        sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())
    )


def test_a_world_of_ones_own_by_its_own_list():
    episodes = sweet_rl.simulate(EchoWorld(), agent=Repeating(), num_tasks=3)
    assert [(one.task.task_id, one.reward) for one in episodes] == [(f"echo/test{n}", 1.0) for n in range(3)]
    with pytest.raises(UsageError, match="no tasks of echo"):
        sweet_rl.simulate(EchoWorld(), ROWS, agent=Repeating())


def test_a_stopped_run_is_finished_in_its_file(tmp_path):
    path = tmp_path / "runs/episodes.jsonl"
    path.parent.mkdir()

    class Failing(Asking):
        async def act(self, observation):
            if self.turns == 5:
                raise ServiceError("the server is down")
            return await super().act(observation)

    settings = {"human": Telling(), "repeats": 2, "output_path": path}
    with pytest.raises(ServiceError):
        sweet_rl.simulate("code", ROWS, agent=Failing(), concurrency=1, **settings)
    assert len(list(read_rows(path))) == 2
    assert read_record(tmp_path / "runs/episodes.jsonl.run.json")["status"] == "failed"
    with pytest.raises(UsageError, match="already holds a run"):
        sweet_rl.simulate("code", ROWS, agent=Asking(), **settings)
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        sweet_rl.simulate("code", ROWS, agent=Asking(), to_continue=True, seed=1, **settings)
    agent = Asking()
    episodes = sweet_rl.simulate("code", ROWS, agent=agent, to_continue=True, **settings)
    assert agent.turns == 2 * 4  # of six episodes two were there
    assert said(episodes) == said(sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling(), repeats=2))
    record = read_record(tmp_path / "runs/episodes.jsonl.run.json")
    assert (record["status"], record["stage"], len(record["sessions"])) == ("finished", "simulate", 2)


def test_a_run_that_was_begun_here_is_finished_by_the_command(tmp_path):
    """The same settings put the same players together."""
    path = tmp_path / "episodes.jsonl"
    for world, source in (("code", "mini:test"), ("twenty_questions", "twenty-questions:ten")):
        sweet_rl.simulate(world, source, num_tasks=2, output_path=path, overwrite=path.exists())
        human = {"env_model": "scripted"} if world == "code" else {}
        simulate_interactions(
            source, str(path), world=world, num_tasks=3, to_continue=True, quiet=True, **human
        )
        assert len(list(read_rows(path))) == 3


ANSWER = "I WANT TO ANSWER:\ndef f(x):\n    return x + 1\n"
RULES = world_of("code").system_prompt


@pytest.fixture
def server():
    """Its address, and what it was asked: the agent answers at once, the human says 1."""
    with model_server(lambda body: reply(ANSWER if body["model"] == "org/agent" else "1")) as found:
        yield found


def test_an_agent_by_its_address(server, monkeypatch, tmp_path):
    url, sent = server
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    episodes = sweet_rl.simulate(
        "code", ROWS, agent="openai/org/agent", base_url=url, num_tasks=2, concurrency=1
    )
    assert [one.stop_reason for one in episodes] == [StopReason.ANSWERED] * 2
    headers, body = sent[0]
    assert body["messages"] == [
        {"role": "system", "content": RULES},
        {"role": "user", "content": ROWS[0]["problem_description"]},
    ]
    assert (body["model"], headers["Authorization"], body["temperature"]) == ("org/agent", "Bearer k", 1.0)
    settings = episodes[0].provenance["settings"]
    assert (settings["agent_model"], settings["temperature"], settings["max_tokens"]) == (
        "org/agent",
        1.0,
        1024,
    )
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    result = sweet_rl.evaluate("code", ROWS, agent="openai/org/agent", repeats=2)
    assert len(result.trajectories) == 6
    assert "org/agent in code x 2" in str(result.report)
    prompt = tmp_path / "rules.txt"
    prompt.write_text("Answer at once.")
    sweet_rl.play("code", ROWS[0], agent="org/agent", base_url=[url], agent_prompt=prompt)
    assert sent[-1][1]["messages"][0]["content"] == "Answer at once."


@pytest.mark.parametrize(("name", "model"), [("openai/h", "h"), ("h", "h"), (None, "m"), ("auto", "m")])
def test_a_human_by_its_address(server, name, model):
    url, sent = server
    (one,) = sweet_rl.simulate("code", ROWS[:1], agent="questioner", human=name, human_base_url=url)
    assert {body["model"] for _, body in sent} == {model}
    assert one.dialogue_history[2].content == "1"
    assert one.provenance["env_model"] == model
    assert {"user_prompt", "env_model"} <= one.provenance["settings"].keys()


def test_an_oracle_by_its_address(server):
    url, sent = server
    sweet_rl.play("twenty_questions", agent=lambda _: "Is it alive?", human="openai/m", human_base_url=url)
    assert {body["model"] for _, body in sent} == {"m"}


@pytest.mark.parametrize("way", ["plain", "async", "object"])
def test_functions_of_the_dialogue(way):
    seen = []

    def agent(messages):
        seen.append(messages)
        told = messages[-1]["content"]
        return f"I WANT TO ANSWER:\ndef f(x):\n    return x + {told}" if told.isdigit() else "How much?"

    def human(messages):
        seen.append(messages)
        return messages[0]["content"].split("+ ")[1].strip()

    async def later(messages):
        return agent(messages)

    class Callable:
        async def __call__(self, messages):
            return agent(messages)

    speaker = {"plain": agent, "async": later, "object": Callable()}[way]
    (one,) = sweet_rl.simulate("code", ROWS[2:], agent=speaker, human=human)
    assert sweet_rl.grade([one])[0].reward == 1
    request = {"role": "user", "content": ROWS[2]["problem_description"]}
    asked = {"role": "assistant", "content": "How much?"}
    rules = {"role": "system", "content": RULES}
    assert seen == [
        [rules, request],
        [{"role": "system", "content": ROWS[2]["hidden_information"]}, request, asked],
        [rules, request, asked, {"role": "user", "content": "2"}],
    ]
    assert json.loads(one.dialogue_history[-1].input) == seen[2]
    assert one.provenance["agent_model"] == {"plain": "agent", "async": "later", "object": "Callable"}[way]


def test_a_function_that_waits_stops_no_other():
    together = threading.Barrier(3, timeout=20)

    def agent(_):
        together.wait()
        return ANSWER

    assert len(sweet_rl.simulate("code", ROWS, agent=agent)) == 3


def next_word(words):
    return next(words)


@pytest.mark.parametrize("role", ["agent", "human"])
@pytest.mark.parametrize(("kind", "fails"), [("KeyError", lambda m: m[0]["contents"]), ("StopIteration", lambda _: next_word(iter(())))])  # fmt: skip
def test_an_error_in_a_function_points_at_it(kind, fails, role):
    players = {"agent": lambda _: "How much?"} | {role: fails}
    with pytest.raises(
        UsageError, match=rf"{role} <lambda> raised {kind}.*test_simulation.py, line \d+, in "
    ) as error:
        sweet_rl.simulate("code", ROWS, **players)
    assert type(error.value.__cause__).__name__ == kind


def test_an_episode_that_a_function_gives_up_has_no_score():
    def agent(messages):
        if "adds 1" in messages[-1]["content"]:
            raise EpisodeError(StopReason.POLICY_FAILED, Failure("timeout", "too slow"))
        return ANSWER

    graded = sweet_rl.grade(sweet_rl.simulate("code", ROWS, agent=agent))
    assert [one.failed for one in graded] == [False, True, False]
    assert graded[1].reward is None


class Noting:
    """A policy that takes instructions, and notes those that it acted by."""

    name = "noting"

    def __init__(self, system_prompt=None):
        self.system_prompt, self.noted = system_prompt, []

    async def act(self, observation):
        self.noted.append(self.system_prompt)
        return Generation("", Completion(ANSWER))

    async def close(self):
        pass


@pytest.mark.parametrize(
    "wrapped", [lambda one: one, MarkovPolicy, lambda one: ReflectivePolicy(one, Recap())]
)
def test_a_policy_without_instructions_plays_by_the_worlds(wrapped):
    agent = Noting()
    sweet_rl.play("code", ROWS[0], agent=wrapped(agent))
    one = sweet_rl.play("twenty_questions", agent=wrapped(agent), options={"max_turns": 1})
    assert agent.noted == [RULES, world_of("twenty_questions").system_prompt]
    assert agent.system_prompt is None
    assert one.provenance["settings"].keys() >= {"agent_prompt"}
    for own in ("", "My own."):
        agent = Noting(own)
        one = sweet_rl.play("code", ROWS[0], agent=wrapped(agent))
        assert agent.noted == [own]
        assert "agent_prompt" not in one.provenance["settings"]
        with pytest.raises(UsageError, match="has its own instructions"):
            sweet_rl.play("code", ROWS[0], agent=wrapped(agent), agent_prompt="llm_agent_mini_prompt")


def test_two_worlds_at_once_do_not_share_their_instructions():
    agent = Noting()

    async def both():
        await asyncio.gather(
            sweet_rl.asimulate("code", ROWS, agent=agent), sweet_rl.asimulate("twenty_questions", agent=agent)
        )

    with pytest.raises(UsageError, match="is playing another world"):
        asyncio.run(both())
    assert agent.system_prompt is None


def test_a_client_is_its_owners_and_closed_at_the_latest_with_the_process(server):
    url, sent = server
    code = f"""
import asyncio, sweet_rl
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.openai import OpenAIPolicy
kept = OpenAIPolicy(OpenAIClient({url!r}), "org/agent", api="chat")
for _ in range(2):
    sweet_rl.simulate("code", {ROWS!r}, agent=kept)
assert not kept._client._session.closed
sweet_rl.simulate("code", {ROWS!r}, agent="openai/org/agent", base_url={url!r})
asyncio.run(sweet_rl.asimulate("code", {ROWS!r}, agent=OpenAIPolicy(OpenAIClient([{url!r}]), "org/agent", api="chat")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", code],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert len(sent) == 12


def test_an_address_in_a_text_is_one_server(server):
    url, sent = server
    agent = OpenAIPolicy(OpenAIClient(url), "org/agent", api="chat")
    assert sweet_rl.play("code", ROWS[0], agent=agent, human=Telling()).answer == ANSWER.split(":", 1)[1]
    assert [message["role"] for message in sent[0][1]["messages"]] == ["system", "user"]


def test_what_is_offered_is_there_and_nothing_else():
    assert {name for name in sweet_rl.__all__ if getattr(sweet_rl, name, None) is None} == set()
    assert dir(sweet_rl) == sorted(sweet_rl.__all__)
    assert not {"import_module", "Any", "TYPE_CHECKING", "annotations"} & set(dir(sweet_rl))
    assert "code" in sweet_rl.worlds.names()
    assert inspect.signature(sweet_rl.evaluate).parameters == inspect.signature(sweet_rl.simulate).parameters
    for name in ("simulate", "play", "evaluate", "grade", "pairs", "view", "credit", "compare", "load_tasks"):
        offered = inspect.unwrap(
            getattr(sweet_rl, name)
        )  # `credit` is a package, too, which is called as the function
        told = inspect.getdoc(offered)
        unexplained = [
            one for one in inspect.signature(offered).parameters if not re.search(rf"\b{one}\b", told)
        ]
        assert unexplained == [] or name in {"evaluate", "grade"}, name
    with pytest.raises(AttributeError, match="simulat'"):
        sweet_rl.simulat  # noqa: B018
