"""`serve_simulator` beside the API that it imitates: the real client's requests are served or refused, never ignored."""

import asyncio
import json

import aiohttp
import pytest

from tests.users.serving import serving
from tests.users.test_server_endpoints import ask, chat

openai = pytest.importorskip("openai", reason="the client is an extra (dev)")


def with_client(work, **flags):
    async def main():
        async with serving(**flags) as url:
            client = openai.AsyncOpenAI(base_url=url, api_key="sk-1", max_retries=0, timeout=20)
            async with client:
                return await work(client)

    return asyncio.run(main())


def create(content="one two  three\nfour", **more):
    messages = [{"role": "user", "content": content}]
    return lambda client: client.chat.completions.create(model="echo", messages=messages, **more)


@pytest.mark.parametrize(
    ("more", "text", "reason"),
    [
        ({}, "one two  three\nfour", "stop"),
        ({"max_tokens": 3}, "one two  three", "length"),
        ({"max_tokens": 4}, "one two  three\nfour", "stop"),
        ({"max_completion_tokens": 1}, "one", "length"),
        ({"stop": "three"}, "one two  ", "stop"),
        ({"stop": ["four", "two"]}, "one ", "stop"),
        ({"stop": "four", "max_tokens": 2}, "one two", "length"),
        ({"temperature": 0, "top_p": 0.5, "seed": 3, "user": "me", "presence_penalty": 1}, "one two  three\nfour", "stop"),
        ({"metadata": {"run": "1"}, "tools": [], "response_format": {"type": "text"}}, "one two  three\nfour", "stop"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_comes(more, text, reason):
    reply = with_client(create(**more))
    (choice,) = reply.choices
    assert (choice.message.content, choice.finish_reason) == (text, reason)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, len(text.split()))


def test_several_choices_and_pieces_with_usage():
    assert [c.message.content for c in with_client(create("a", n=3)).choices] == ["a"] * 3

    async def pieces(client):
        options = {"include_usage": True}
        stream = await create("one two three", n=2, max_tokens=2, stream=True, stream_options=options)(client)
        return [piece async for piece in stream]

    *told, last = with_client(pieces)
    assert (last.choices, last.usage.completion_tokens) == ([], 4)
    for index in range(2):
        own = [piece.choices[0] for piece in told if piece.choices[0].index == index]
        assert "".join(choice.delta.content or "" for choice in own) == "one two"
        assert own[-1].finish_reason == "length"

    async def texts(client):
        stream = await client.completions.create(model="echo", prompt=["a b", "c"], stream=True)
        return [piece.choices[0] async for piece in stream]

    told = with_client(texts)
    assert ["".join(c.text for c in told if c.index == index) for index in range(2)] == ["a b", "c"]


def test_models():
    assert with_client(lambda client: client.models.retrieve("scripted")).id == "scripted"
    with pytest.raises(openai.NotFoundError) as raised:
        with_client(lambda client: client.models.retrieve("gpt-4o"))
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError) as raised:
        with_client(
            lambda client: client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "x"}]
            )
        )
    assert raised.value.code == "model_not_found"


def test_a_key_where_one_is_asked_for():
    assert with_client(create("x"), api_key="sk-1").choices
    for work in (
        create("x"),
        lambda client: client.models.list(),
        lambda client: client.models.retrieve("echo"),
    ):
        with pytest.raises(openai.AuthenticationError) as raised:
            with_client(work, api_key="sk-2")
        assert raised.value.code == "invalid_api_key"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"audio": {"voice": "ash"}}, "audio"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"extra_body": {"guided_json": {}}}, "guided_json"),
        ({"n": 129}, "n"),
        ({"n": True}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(more, param):
    with pytest.raises(openai.BadRequestError) as raised:
        with_client(create("x", **more))
    assert raised.value.param == param
    assert raised.value.body.keys() == {"message", "type", "param", "code"}


def test_pictures_are_refused_and_many_prompts_too():
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    status, body = ask("/v1/chat/completions", chat([part], "echo"))
    assert (status, body["error"]["param"]) == (400, "messages[1].content")
    status, body = ask("/v1/completions", {"model": "echo", "prompt": ["x"] * 1000, "n": 2})
    assert (status, body["error"]["param"]) == (400, "n")
    status, body = ask("/v1/completions", {"model": "echo", "prompt": "x" * 2**18, "n": 128})
    assert (status, body["error"]["param"]) == (400, "n")


def test_another_content_type_is_refused():
    """A page of a foreign site may post plain text to a loopback address without asking; JSON it may not."""

    async def main():
        async with serving() as url, aiohttp.ClientSession() as session:
            data = json.dumps(chat("x", "echo"))
            async with session.post(f"{url}/chat/completions", data=data) as response:
                return response.status, await response.json()

    status, body = asyncio.run(main())
    assert status == 415
    assert "application/json" in body["error"]["message"]
