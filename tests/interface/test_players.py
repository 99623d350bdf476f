"""Agents and humans from Python: by address, as functions of the dialogue, with the world's instructions."""

import asyncio
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import sweet_rl
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.markov import MarkovPolicy
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.policies.reflective import Recap, ReflectivePolicy
from sweet_rl.types import Completion, Failure, Generation, StopReason
from sweet_rl.worlds import world_of
from tests.interface.test_simulation import ROWS, Telling

ANSWER = "I WANT TO ANSWER:\ndef f(x):\n    return x + 1\n"
RULES = world_of("code").system_prompt()


@pytest.fixture
def server():
    """Its address, and the requests that it was sent: the agent answers at once, the human says 1."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

        def do_GET(self):
            self.answer({"data": [{"id": "first"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append(body | {"key": self.headers["Authorization"]})
            said = ANSWER if body["model"] == "org/agent" else "1"
            self.answer({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})

        def answer(self, data):
            text = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    sent = []
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}/v1", sent
    listening.shutdown()
    listening.server_close()


def test_an_agent_by_its_address(server, monkeypatch, tmp_path):
    url, sent = server
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    episodes = sweet_rl.simulate("code", ROWS, agent="openai/org/agent", base_url=url, num_tasks=2)
    assert [one.stop_reason for one in episodes] == [StopReason.ANSWERED] * 2
    assert sent[0]["messages"] == [
        {"role": "system", "content": RULES},
        {"role": "user", "content": ROWS[0]["problem_description"]},
    ]
    assert (sent[0]["model"], sent[0]["key"], sent[0]["temperature"]) == ("org/agent", "Bearer k", 1.0)
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
    assert sent[-1]["messages"][0]["content"] == "Answer at once."


@pytest.mark.parametrize(
    ("name", "model"), [("openai/m", "m"), ("m", "m"), (None, "first"), ("auto", "first")]
)
def test_a_human_by_its_address(server, name, model):
    url, sent = server
    (one,) = sweet_rl.simulate("code", ROWS[:1], agent="questioner", human=name, human_base_url=url)
    assert {body["model"] for body in sent} == {model}
    assert one.dialogue_history[2].content == "1"
    assert one.provenance["env_model"] == model
    assert {"user_prompt", "env_model"} <= one.provenance["settings"].keys()


def test_an_oracle_by_its_address(server):
    url, sent = server
    sweet_rl.play("twenty_questions", agent=lambda _: "Is it alive?", human="openai/m", human_base_url=url)
    assert {body["model"] for body in sent} == {"m"}


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
        UsageError, match=rf"{role} <lambda> raised {kind}.*test_players.py, line \d+, in "
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
    assert agent.noted == [RULES, world_of("twenty_questions").system_prompt()]
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

    with pytest.raises(UsageError, match="plays another world at the moment"):
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
    assert [message["role"] for message in sent[0]["messages"]] == ["system", "user"]
