"""The published simulator request, and what becomes of one that cannot be answered (goldens c_environment)."""

import asyncio
import json
import random

import pytest

from sweet_rl.openai_client import ChatReply, OpenAIClient, RequestFailed, RetryPolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.types import NO_RESPONSE, Failure, Message, UserContext
from sweet_rl.users.model import OpenAIUser
from sweet_rl.users.protocol import Fault, FaultProfile
from tests.users.serving import serving


class RecordingClient:
    def __init__(self, outcome="reply"):
        self.bodies, self.outcome = [], outcome

    async def chat(self, body):
        self.bodies.append(body)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return ChatReply(self.outcome, "stop")

    async def close(self):
        pass


def test_every_published_request_is_ours_to_the_letter(shared):
    folder = shared / "goldens/sweet_rl/c_environment"
    template = (folder / "simulator_prompt.txt").read_text()
    cases = json.loads((folder / "cases.json").read_text())
    calls = 0
    for case, want in zip(cases, json.loads((folder / "expected.json").read_text()), strict=True):
        history = [Message(m["role"], m["content"]) for m in want["dialogue_history"]]
        for number, published in enumerate(want["simulator_calls"]):
            client = RecordingClient()
            user = OpenAIUser(client, "simulator-model", prompt_template=template)
            context = UserContext(
                case["problem_description"], case["hidden_information"], tuple(history[: 2 * number + 2])
            )
            asyncio.run(user.reply(context))
            assert client.bodies == [published], case["id"]
            calls += 1
    assert calls == 23  # all that were recorded


@pytest.mark.parametrize(
    ("outcome", "text", "kind"),
    [
        ("Fine.", "Fine.", None),
        ("", "", None),
        (RequestFailed(Failure("bad_request", status=400)), NO_RESPONSE, "bad_request"),
        (RequestFailed(Failure("timeout", attempts=4)), NO_RESPONSE, "timeout"),
    ],
)
def test_replies(outcome, text, kind):
    user = OpenAIUser(RecordingClient(outcome), "m", prompt_template="x")
    reply = asyncio.run(user.reply(UserContext("p", "h", ())))
    assert reply.content == text
    assert (reply.failure and reply.failure.kind) == kind


async def replies_in(weather, *, count, attempts):
    """Ask for `count` replies at once; returns them and the client's counters."""

    async def sleep(_):
        pass

    context = UserContext("p", "def f(): return 1", (Message("user", "p"), Message("assistant", "q?")))
    async with serving(weather) as url:
        retry = RetryPolicy(attempts=attempts, timeout_s=0.5)
        client = OpenAIClient([url], retry=retry, sleep=sleep, jitter=random.Random(0))
        user = OpenAIUser(client, "scripted", prompt_template=load_prompt("human_simulator_code_prompt"))
        replies = await asyncio.gather(*(user.reply(context) for _ in range(count)))
        await user.close()
        return replies, client.stats


def test_faults_are_ridden_out_or_recorded():
    replies, stats = asyncio.run(replies_in(FaultProfile(fault_rate=0.2, hang_s=2), count=200, attempts=4))
    kinds = {"connection", "timeout", "rate_limited", "server_error", "malformed_reply", "empty_reply"}
    assert set(stats.retries) == kinds
    assert stats.requests == 200 + stats.retries.total()
    lost = [reply for reply in replies if reply.failure]
    assert {reply.failure.kind for reply in lost} <= kinds
    assert {reply.content for reply in lost} <= {NO_RESPONSE}
    assert len(lost) < 5
    assert all(reply.content != NO_RESPONSE for reply in replies if not reply.failure)


def test_without_further_attempts_every_failure_is_recorded_with_its_kind():
    weather = FaultProfile(fault_rate=1, faults=(Fault.BAD_REQUEST, Fault.SERVER_ERROR), seed=1)
    replies, _ = asyncio.run(replies_in(weather, count=4, attempts=1))
    assert {reply.content for reply in replies} == {NO_RESPONSE}
    assert {(reply.failure.kind, reply.failure.status) for reply in replies} == {
        ("bad_request", 400),
        ("server_error", 500),
    }
