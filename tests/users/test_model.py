"""The published simulator requests (goldens c_environment), with and without pictures, and what becomes of one that cannot be answered."""

import asyncio
import base64
import io
import json
import random
import re
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from PIL import Image

from sweet_rl.browsers import PageContext, RenderedPage
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import ChatReply, OpenAIClient, RequestFailed, RetryPolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.serving import listening
from sweet_rl.types import NO_RESPONSE, Failure, Message, UserContext
from sweet_rl.users.model import DRAFT_CAPTION, NO_DRAFT, TARGET_CAPTION, OpenAIUser, VisionUser
from sweet_rl.users.protocol import FaultProfile
from tests.test_openai_client import no_wait
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
        told = case["problem_description"], case["hidden_information"]
        for number, published in enumerate(want["simulator_calls"]):
            client = RecordingClient()
            user = OpenAIUser(client, "simulator-model", prompt_template=template)
            context = UserContext(*told, tuple(history[: 2 * number + 2]))
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
    assert (reply.content, reply.failure and reply.failure.kind) == (text, kind)


async def replies_in(weather, *, count, attempts):
    """Ask for `count` replies at once; returns them and the client's counters."""
    context = UserContext("p", "def f(): return 1", (Message("user", "p"), Message("assistant", "q?")))
    async with serving(weather) as url:
        retry = RetryPolicy(attempts=attempts, timeout_s=0.5)
        client = OpenAIClient([url], retry=retry, sleep=no_wait, jitter=random.Random(0))
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
    weather = FaultProfile(fault_rate=1, faults="bad_request,server_error", seed=1)
    replies, _ = asyncio.run(replies_in(weather, count=4, attempts=1))
    assert {reply.content for reply in replies} == {NO_RESPONSE}
    found = {(reply.failure.kind, reply.failure.status) for reply in replies}
    assert found == {("bad_request", 400), ("server_error", 500)}


def page(color):
    out = io.BytesIO()
    Image.new("RGB", (20, 10), color).save(out, "PNG")
    return RenderedPage(out.getvalue(), 20, 10)


def context(draft=True):
    messages = (Message("user", "a bakery"), Message("assistant", "<html>secret</html>"))
    pages = page("red"), page("blue") if draft else None
    return PageContext("a bakery", "<html>hidden</html>", messages, *pages)


@asynccontextmanager
async def strict_server(bodies, *, lenient_type=False, content="Bluer, please."):
    """Answers requests that OpenAI's reference allows, refuses the others with 400."""

    async def chat(request):
        body = await request.json()
        bodies.append(body)
        if wrong := problems(body, lenient_type=lenient_type):
            return web.json_response({"error": {"message": "; ".join(wrong)}}, status=400)
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", chat)
    async with listening(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/v1"


def ask(contexts, *, server=None, **settings):
    bodies = []

    async def main():
        async with strict_server(bodies, **(server or {})) as url:
            client = OpenAIClient([url], retry=RetryPolicy(attempts=1))
            settings.setdefault("prompt_template", load_prompt("human_simulator_html_prompt"))
            user = VisionUser(client, "qwen", **settings)
            replies = [await user.reply(one) for one in contexts]
            await user.close()
            return replies

    return asyncio.run(main()), bodies


def test_both_pictures_pass_the_strict_schema():
    wrong = {"messages": [{"role": "tool", "content": [{"type": "image"}]}], "n": 1}
    assert problems(wrong)  # it sees something
    replies, bodies = ask([context(), context(draft=False)])
    assert [reply.content for reply in replies] == ["Bluer, please."] * 2
    assert not any(reply.failure for reply in replies)
    first, second = (body["messages"][0]["content"] for body in bodies)
    assert [part["type"] for part in first] == ["text", "text", "image_url", "text", "image_url"]
    assert [part["type"] for part in second] == ["text", "text", "text", "image_url"]
    assert (first[1]["text"], first[3]["text"]) == (DRAFT_CAPTION, TARGET_CAPTION)
    assert second[1]["text"] == NO_DRAFT
    assert first[2] != first[4] == second[3]
    assert (bodies[0]["max_tokens"], bodies[0]["temperature"], bodies[0]["model"]) == (4096, 0, "qwen")
    assert "hidden" not in str(bodies)  # the source of the page is never sent


def test_the_strict_schema_refuses_what_the_published_forms_get_wrong():
    """What the published system sends to OpenAI and to vLLM; on request only."""
    replies, _ = ask([context()], image_url="jpeg")
    assert replies[0].content == NO_RESPONSE
    assert "image/jpeg is image/png" in replies[0].failure.detail
    replies, bodies = ask([context()], image_url="vllm")
    assert "is no data URL" in replies[0].failure.detail
    assert bodies[0]["messages"][0]["content"][2]["image_url"]["url"].startswith("data:image;base64,iVBOR")
    replies, _ = ask([context()], image_url="vllm", server={"lenient_type": True})
    assert replies[0].failure is None
    replies, _ = ask([context()], server={"content": None})
    assert (replies[0].content, replies[0].failure.kind) == (NO_RESPONSE, "empty_reply")


def test_a_prompt_may_show_the_dialogue_but_not_the_source():
    template = "For {problem_description}: {dialogue_history} {else}"
    _, bodies = ask([context()], prompt_template=template)
    text = bodies[0]["messages"][0]["content"][0]["text"]
    assert text.startswith("For a bakery: user:a bakery\n\n\n\nassistant:<html>secret</html>")
    assert text.endswith("agent: {else}")
    VisionUser.check_prompt(template, "own.txt")
    with pytest.raises(UsageError, match=r"own.txt' has \{hidden_information\}"):
        VisionUser.check_prompt("{hidden_information}", "own.txt")


def test_the_packaged_prompts_say_what_the_protocol_needs():
    human, agent = load_prompt("human_simulator_html_prompt"), load_prompt("llm_agent_html_prompt")
    VisionUser.check_prompt(human, "packaged")
    assert "{" not in human + agent  # never formatted
    words = ["OUTPUT:", "I WANT TO ANSWER:", "<html>", "Tailwind", "https://picsum.photos/id/48/W/H", "10"]
    assert all(word in agent for word in words)


DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")


def problems(body, *, lenient_type=False):
    """What is wrong with a request by OpenAI's reference; `lenient_type` allows what only vLLM does (no subtype)."""
    known = {"model": str, "max_tokens": int, "temperature": int, "messages": list}
    found = [name for name in body.keys() | known.keys() if type(body.get(name)) is not known.get(name)]
    for message in body["messages"]:
        parts = message["content"]
        if message.keys() != {"role", "content"} or message["role"] not in {"system", "user"}:
            found.append(f"no message: {message}")
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            match part:
                case {"type": "text", "text": str(text), **rest} if text and not rest:
                    pass
                case {"type": "image_url", "image_url": {"url": str(url), **more}, **rest} if not more | rest:
                    url = url.replace("data:image;", "data:image/png;", 1) if lenient_type else url
                    if picture := DATA_URL.fullmatch(url):
                        data = io.BytesIO(base64.b64decode(picture[2], validate=True))
                        kind = Image.open(data).get_format_mimetype()
                        found += [] if kind == picture[1] else [f"{picture[1]} is {kind}"]
                    else:
                        found.append(f"is no data URL of a picture: {url[:40]}")
                case _:
                    found.append(f"no content part: {part}")
    return found
