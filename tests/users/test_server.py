"""`serve_simulator` beside the API that it imitates: the real client's requests are served or refused, never ignored."""

import asyncio
import json
import signal
import statistics
import time
import urllib.request

import aiohttp
import pytest

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.prompts import load_prompt, simulator_prompt
from sweet_rl.types import Message, UserContext
from sweet_rl.users.protocol import Fault, FaultProfile
from sweet_rl.users.server import start_server
from tests.users.serving import serving

openai = pytest.importorskip("openai", reason="the client is an extra (dev)")


def with_client(work, **flags):
    async def main():
        async with serving(**flags) as url:
            client = openai.AsyncOpenAI(base_url=url, api_key="sk-1", max_retries=0, timeout=20)
            async with client:
                return await work(client)

    return asyncio.run(main())


def create(content="one two  three\nfour", model="echo", **more):
    messages = [{"role": "user", "content": content}]
    return lambda client: client.chat.completions.create(model=model, messages=messages, **more)


@pytest.mark.parametrize(
    ("more", "text", "reason"),
    [
        ({}, "one two  three\nfour", "stop"),
        ({"max_tokens": 3}, "one two  three", "length"),
        ({"max_completion_tokens": 4}, "one two  three\nfour", "stop"),
        ({"stop": ["four", "two"]}, "one ", "stop"),
        ({"stop": "four", "max_tokens": 2, "n": 3}, "one two", "length"),
        ({"temperature": 0, "seed": 3, "user": "me", "metadata": {"run": "1"}, "tools": [], "stream": False}, "one two  three\nfour", "stop"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_comes(more, text, reason):
    reply = with_client(create(**more))
    count = more.get("n", 1)
    assert [(c.message.content, c.finish_reason) for c in reply.choices] == [(text, reason)] * count
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, count * len(text.split()))


def test_a_reply_in_pieces_with_usage():
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


def test_models_and_health():
    assert with_client(lambda client: client.models.retrieve("scripted")).id == "scripted"
    for work in (lambda client: client.models.retrieve("gpt-4o"), create("x", model="gpt-4o")):
        with pytest.raises(openai.NotFoundError, match="this server offers scripted, echo") as raised:
            with_client(work)
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
    status, models = ask("/v1/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, ["scripted", "echo"])
    assert ask("/health") == (200, {"status": "ok"})


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
        ({"logprobs": True, "top_logprobs": 3}, "logprobs"), ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"), ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"audio": {"voice": "ash"}}, "audio"), ({"extra_body": {"guided_json": {}}}, "guided_json"), ({"n": 129}, "n"), ({"n": True}, "n"),
        ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"), ({"stop": ""}, "stop"),
    ],
)  # fmt: skip
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


async def test_another_content_type_is_refused():
    """A page of a foreign site may post plain text to a loopback address without asking; JSON it may not."""
    async with serving() as url, aiohttp.ClientSession() as session:
        data = json.dumps(chat("x", "echo"))
        async with session.post(f"{url}/chat/completions", data=data) as response:
            assert response.status == 415
            assert "application/json" in (await response.json())["error"]["message"]


HIDDEN = "def price(row):\n    return 20 if row < 5 else 12\n"
ASKED = (Message("user", "Price a seat."), Message("assistant", "What about row 5?"))
CONTEXT = UserContext("Price a seat.", HIDDEN, ASKED)
PROMPT = simulator_prompt(load_prompt("human_simulator_code_prompt"), CONTEXT)


async def request(url, body=None):
    """POST a body (or GET); returns status and what came: JSON as an object, anything else as text."""
    data = body if isinstance(body, bytes) else json.dumps(body)
    method = "GET" if body is None else "POST"
    session = aiohttp.ClientSession(headers={"Content-Type": "application/json"})
    async with session, session.request(method, url, data=data) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.content_type == "application/json" else text


def ask(path, body=None, weather=None):
    async def main():
        async with serving(weather) as url:
            return await request(url.removesuffix("/v1") + path, body)

    return asyncio.run(main())


def chat(prompt, model="scripted", **more):
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": prompt}]
    return {"model": model, "messages": messages} | more


def test_the_human_over_http_says_what_it_says_in_process():
    said = ScriptedHuman().answer(CONTEXT.problem_description, CONTEXT.hidden_information, CONTEXT.messages)
    status, body = ask("/v1/chat/completions", chat(PROMPT, max_tokens=4096, temperature=0))
    assert (status, body["object"], body["model"]) == (200, "chat.completion", "scripted")
    (choice,) = body["choices"]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant", "content": said}, "stop")
    asked, given = len(PROMPT.split()) + 1, len(said.split())  # with the system message
    usage = {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}
    assert body["usage"] == usage
    _, body = ask("/v1/completions", {"model": "scripted", "prompt": PROMPT})
    assert (body["object"], body["choices"][0]["text"]) == ("text_completion", said)
    _, body = ask("/v1/completions", {"model": "echo", "prompt": ["a", "b"], "n": 2})
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]


def test_typed_content_and_streaming():
    body = chat([{"type": "text", "text": "hello you"}], "echo", stream=True)
    status, text = ask("/v1/chat/completions", body)
    *chunks, end, nothing = text.split("\n\n")
    assert (status, end, nothing) == (200, "data: [DONE]", "")
    chunks = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    assert {(chunk["object"], "usage" in chunk) for chunk in chunks} == {("chat.completion.chunk", False)}
    deltas = [{"role": "assistant", "content": ""}, {"content": "hello"}, {"content": " you"}, {}]
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == deltas
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("chat/completions", chat("unmarked"), 400, "no hidden function in the prompt. It looks for the sections <request>"),
        ("chat/completions", {"model": "echo", "messages": []}, 400, "at least one message"),
        ("chat/completions", {"model": "echo", "messages": [{"role": "assistant"}]}, 400, "user message"),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}]}, 400, "model must be a string"),
        ("chat/completions", chat("x", "echo", n=0), 400, "n must be"),
        ("chat/completions", [1], 400, "must be a JSON object"),
        ("chat/completions", b"{", 400, "not JSON"),
        ("completions", {"model": "echo", "prompt": [[1, 2]]}, 400, "token ids"),
        ("completions", {"model": "scripted", "prompt": "x"}, 400, "Cannot play the human"),
        ("embeddings", {}, 404, "POST /v1/embeddings: Not Found"),
        ("models", {}, 405, "Method Not Allowed"),
    ],
)  # fmt: skip
def test_wrong_requests_get_openai_errors(path, body, status, words):
    got, answer = ask(f"/v1/{path}", body)
    error = answer["error"]
    assert (got, error["type"]) == (status, "invalid_request_error")
    assert words in error["message"] and error.keys() == {"message", "type", "param", "code"}


async def test_counters():
    weather = FaultProfile(latency_median_ms=50, latency_sigma=0, fault_rate=1, faults="empty_choices")
    async with serving(weather) as url:
        await asyncio.gather(*(request(f"{url}/chat/completions", chat("x", "echo")) for _ in range(3)))
        await request(f"{url}/chat/completions", {})
        _, stats = await request(url.removesuffix("/v1") + "/stats")
    assert (stats["requests"], stats["max_concurrent"]) == (4, 3)
    assert stats["faults"] == {"empty_choices": 3}  # a request that is refused has no room for a fault
    assert 0.15 <= stats["service_s"] < 1


def test_weather_is_as_asked_and_comes_again():
    weather = FaultProfile(latency_median_ms=200, latency_sigma=1, fault_rate=0.2, seed=3)
    draws = [weather.draw(number) for number in range(4000)]
    assert draws == [weather.draw(number) for number in range(4000)]
    assert draws != [FaultProfile(latency_median_ms=200, fault_rate=0.2, seed=4).draw(n) for n in range(4000)]
    latencies = [seconds for seconds, _ in draws]
    assert statistics.median(latencies) == pytest.approx(0.2, rel=0.1)
    assert statistics.mean(latencies) == pytest.approx(0.2 * 1.6487, rel=0.1)  # exp(sigma ** 2 / 2)
    faults = [fault for _, fault in draws if fault]
    assert len(faults) / len(draws) == pytest.approx(0.2, abs=0.03)
    assert set(faults) == set(Fault) - {Fault.BAD_REQUEST}
    assert FaultProfile().draw(0) == (0.0, None)


def test_weather_that_makes_no_sense_is_refused():
    drawn = {FaultProfile(fault_rate=1, faults="reset, bad_request,").draw(number)[1] for number in range(9)}
    assert drawn == {Fault.RESET, Fault.BAD_REQUEST}
    with pytest.raises(UsageError, match=r"earthquake.*Known faults: rate_limit"):
        FaultProfile(faults="rate_limit,earthquake")
    for flags in ({"fault_rate": 1.5}, {"fault_rate": 0.1, "faults": ""}, {"hang_s": -1}):
        with pytest.raises(UsageError, match="--" + next(iter(flags))):
            FaultProfile(**flags)


TROUBLES = (TimeoutError, aiohttp.ClientConnectionError, ValueError)


async def outcome(fault):
    """What one request meets at a server where this always happens."""
    timeout, status = aiohttp.ClientTimeout(total=0.4), None
    weather = FaultProfile(fault_rate=1, faults=fault, hang_s=5)
    async with serving(weather) as url, aiohttp.ClientSession(timeout=timeout) as session:
        try:
            async with session.post(f"{url}/chat/completions", json=chat("hello", "echo")) as response:
                status = response.status
                body = await response.json()
        except TROUBLES as error:
            return status, next(kind for kind in TROUBLES if isinstance(error, kind))
    if status != 200:
        return status, response.headers.get("Retry-After")
    return status, [choice["message"]["content"] for choice in body["choices"]]


@pytest.mark.parametrize(
    ("fault", "want"),
    [
        (Fault.RATE_LIMIT, (429, "0.05")),
        (Fault.SERVER_ERROR, (500, None)),
        (Fault.BAD_REQUEST, (400, None)),
        (Fault.RESET, (None, aiohttp.ClientConnectionError)),
        (Fault.TIMEOUT, (None, TimeoutError)),
        (Fault.SLOW_DRIP, (200, TimeoutError)),  # the headers come, the body does not
        (Fault.MALFORMED_JSON, (200, ValueError)),
        (Fault.EMPTY_CHOICES, (200, [])),
        (Fault.NULL_CONTENT, (200, [None])),
    ],
)
def test_every_fault_is_what_it_says(fault, want):
    assert asyncio.run(outcome(fault)) == want


def test_a_fault_reaches_streams_too():
    weather = FaultProfile(fault_rate=1, faults="malformed_json")
    _, text = ask("/v1/chat/completions", chat("x", "echo", stream=True), weather)
    assert text.startswith("data: {") and "[DONE]" not in text


def test_a_server_for_a_while():
    with start_server(latency_median_ms=1.5) as server:
        with urllib.request.urlopen(server.base_url + "/models") as response:
            assert b'"scripted"' in response.read()
        port = int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        words = rf"did not start: error: Cannot listen on 127.0.0.1, port {port}"
        with pytest.raises(ServiceError, match=words), start_server(port=port):
            pass
    assert server.process.returncode == 0


def test_ctrl_c_ends_it_although_a_request_is_held():
    with start_server(fault_rate=1.0, faults="timeout") as server:
        body, kind = json.dumps(chat("x", "echo")).encode(), {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{server.base_url}/chat/completions", body, kind)
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(asked, timeout=0.2)
        started = time.perf_counter()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=10) == 0
        assert time.perf_counter() - started < 5
