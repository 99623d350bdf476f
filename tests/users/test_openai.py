"""The published simulator request, and what becomes of one that cannot be answered (goldens c_environment)."""

import asyncio
import json

import pytest

from sweet_rl.openai_client import ChatReply, RequestFailed
from sweet_rl.types import NO_RESPONSE, Failure, Message, UserContext
from sweet_rl.users.openai import OpenAIUser


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
        if "raises" in want:  # the golden stops at the moment of the exception, before the turn is recorded
            history = [Message("user", case["problem_description"]), Message("assistant", case["agent_responses"][0])]
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
        (None, NO_RESPONSE, "empty_reply"),
        (RequestFailed(Failure("bad_request", status=400)), NO_RESPONSE, "bad_request"),
        (RequestFailed(Failure("timeout", attempts=4)), NO_RESPONSE, "timeout"),
    ],
)
def test_replies(outcome, text, kind):
    user = OpenAIUser(RecordingClient(outcome), "m", prompt_template="x")
    reply = asyncio.run(user.reply(UserContext("p", "h", ())))
    assert reply.text == text
    assert (reply.failure and reply.failure.kind) == kind
