"""The request with two pictures: strictly OpenAI's, through the real HTTP client, and what becomes of it."""

import asyncio
import io
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from PIL import Image

from sweet_rl.browsers import PageContext, RenderedPage
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.types import NO_RESPONSE, Message
from sweet_rl.users.model import DRAFT_CAPTION, NO_DRAFT, TARGET_CAPTION, VisionUser, check_vision_prompt
from tests.users.openai_schema import problems


def page(color):
    out = io.BytesIO()
    Image.new("RGB", (20, 10), color).save(out, "PNG")
    return RenderedPage(out.getvalue(), 20, 10)


def context(draft=True):
    messages = (Message("user", "a bakery"), Message("assistant", "<html>secret</html>"))
    return PageContext(
        "a bakery", "<html>hidden</html>", messages, page("red"), page("blue") if draft else None
    )


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
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


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


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "no content part"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]}]},
            "no content",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"temperature": 3}, "temperature"),
        ({"n": 1}, "unknown field n"),
    ],
)
def test_the_schema_check_itself(change, word):
    good = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "temperature": 0}
    assert problems(good) == []
    assert word in str(problems(good | change))


def test_null_content_is_no_response():
    replies, _ = ask([context()], server={"content": None})
    assert (replies[0].content, replies[0].failure.kind) == (NO_RESPONSE, "empty_reply")


def test_a_prompt_may_show_the_dialogue_but_not_the_source():
    template = "For {problem_description}: {dialogue_history} {else}"
    _, bodies = ask([context()], prompt_template=template)
    text = bodies[0]["messages"][0]["content"][0]["text"]
    assert text.startswith("For a bakery: user:a bakery\n\n\n\nassistant:<html>secret</html>")
    assert text.endswith("agent: {else}")
    check_vision_prompt(template, "own.txt")
    with pytest.raises(UsageError, match=r"own.txt' has \{hidden_information\}"):
        check_vision_prompt("{hidden_information}", "own.txt")


def test_the_packaged_prompts_say_what_the_protocol_needs():
    human, agent = load_prompt("human_simulator_html_prompt"), load_prompt("llm_agent_html_prompt")
    check_vision_prompt(human, "packaged")
    assert "{" not in human + agent  # never formatted
    for word in (
        "OUTPUT:",
        "I WANT TO ANSWER:",
        "<html>",
        "Tailwind",
        "https://picsum.photos/id/48/W/H",
        "10",
    ):
        assert word in agent
