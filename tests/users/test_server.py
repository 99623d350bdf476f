"""The simulator server as a client sees it: OpenAI's shapes, OpenAI's errors, and trouble on demand."""

import asyncio
import signal
import statistics
import time

import aiohttp
import pytest

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.prompts import load_prompt
from sweet_rl.prompts.simulator import simulator_prompt
from sweet_rl.types import Message, UserContext
from sweet_rl.users.faults import Fault, Weather, parse_faults
from sweet_rl.users.scripted import ScriptedHuman
from sweet_rl.users.server_process import start_server

HIDDEN = "def price(row):\n    return 20 if row < 5 else 12\n"
CONTEXT = UserContext(
    "Price a seat.", HIDDEN, (Message("user", "Price a seat."), Message("assistant", "What about row 5?"))
)
PROMPT = simulator_prompt(load_prompt("human_simulator_code_prompt"), CONTEXT)


@pytest.fixture(scope="module")
def server():
    with start_server() as running:
        yield running.base_url


def post(url, body, *, raw=None):
    async def main():
        async with aiohttp.ClientSession() as session, session.post(
            url, **({"data": raw} if raw is not None else {"json": body})
        ) as response:
            return response.status, dict(response.headers), await response.text(), await response.read()

    status, headers, text, _ = asyncio.run(main())
    if headers["Content-Type"].startswith("application/json"):
        import json

        return status, json.loads(text)
    return status, text


def chat(prompt, model="scripted", **more):
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": prompt}]
    return {"model": model, "messages": messages} | more


def test_the_human_over_http_says_what_it_says_in_process(server):
    said = ScriptedHuman().answer(CONTEXT.problem_description, CONTEXT.hidden_information, CONTEXT.messages)
    status, body = post(f"{server}/chat/completions", chat(PROMPT, max_tokens=4096, temperature=0))
    assert status == 200
    assert body["object"] == "chat.completion"
    assert body["model"] == "scripted"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": said}
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"] > 0


def test_plain_completions_and_several_of_them(server):
    status, body = post(f"{server}/completions", {"model": "echo", "prompt": ["a", "b"], "n": 2})
    assert status == 200
    assert body["object"] == "text_completion"
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    status, body = post(f"{server}/completions", {"model": "scripted", "prompt": PROMPT})
    assert body["choices"][0]["text"]


def test_typed_content_and_streaming(server):
    parts = [{"type": "text", "text": "hello"}]
    status, text = post(f"{server}/chat/completions", chat(parts, "echo", stream=True))
    assert status == 200
    events = text.strip().split("\n\n")
    assert '"delta": {"role": "assistant", "content": "hello"}' in events[0]
    assert events[-1] == "data: [DONE]"


def test_models_and_health(server):
    async def main():
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server}/models") as response:
                models = await response.json()
            async with session.get(server.removesuffix("/v1") + "/health") as response:
                return models, response.status

    models, health = asyncio.run(main())
    assert [model["id"] for model in models["data"]] == ["scripted", "echo"]
    assert health == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (chat("an unmarked prompt"), 400, "no <request>, <hidden_information>, <dialogue> section"),
        (chat("x", model="gpt-4o"), 404, "offers scripted, echo"),
        ({"model": "echo", "messages": []}, 400, "at least one message"),
        ({"model": "echo", "messages": [{"role": "assistant", "content": "x"}]}, 400, "user message"),
        ({"messages": [{"role": "user", "content": "x"}]}, 400, "model must be a string"),
        (chat("x", "echo", n=0), 400, "n must be"),
        ([1], 400, "must be a JSON object"),
    ],
)
def test_wrong_requests_get_openai_errors(server, body, status, words):
    got, answer = post(f"{server}/chat/completions", body)
    assert got == status
    assert words in answer["error"]["message"]
    assert answer["error"].keys() == {"message", "type", "param", "code"}


def test_what_is_not_json_is_said_to_be_so(server):
    status, answer = post(f"{server}/chat/completions", None, raw=b"{")
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    status, answer = post(f"{server}/completions", {"model": "echo", "prompt": [[1, 2]]})
    assert status == 400
    assert "token ids" in answer["error"]["message"]


def test_weather_is_as_asked_and_comes_again():
    weather = Weather(latency_median_ms=200, latency_sigma=1, fault_rate=0.2, seed=3)
    draws = [weather.draw(number) for number in range(4000)]
    assert draws == [weather.draw(number) for number in range(4000)]
    assert statistics.median(seconds for seconds, _ in draws) == pytest.approx(0.2, rel=0.1)
    faults = [fault for _, fault in draws if fault]
    assert len(faults) / len(draws) == pytest.approx(0.2, abs=0.03)
    assert set(faults) == set(Fault) - {Fault.BAD_REQUEST}
    assert Weather().draw(0) == (0.0, None)
    with pytest.raises(UsageError, match="Known are rate_limit"):
        parse_faults("rate_limit,earthquake")
    with pytest.raises(UsageError, match="fault_rate"):
        Weather(fault_rate=1.5)


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_is_what_it_says(fault):
    async def main(url):
        timeout = aiohttp.ClientTimeout(total=0.6)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.post(f"{url}/chat/completions", json=chat("hello", "echo")) as response:
                return response.status, dict(response.headers), await response.json()

    with start_server(fault_rate=1.0, faults=fault.value, hang_s=5) as running:
        try:
            status, headers, body = asyncio.run(main(running.base_url))
        except TimeoutError:
            seen = {Fault.TIMEOUT, Fault.SLOW_DRIP}
        except aiohttp.ClientConnectionError:
            seen = {Fault.RESET}
        except ValueError:
            seen = {Fault.MALFORMED_JSON}
        else:
            if status == 200:
                content = body["choices"][0]["message"]["content"] if body["choices"] else "none"
                seen = {"none": {Fault.EMPTY_CHOICES}, None: {Fault.NULL_CONTENT}}[content]
            else:
                seen = {429: {Fault.RATE_LIMIT}, 500: {Fault.SERVER_ERROR}, 400: {Fault.BAD_REQUEST}}[status]
                assert (status == 429) == ("Retry-After" in headers)
                assert body["error"]["message"]
    assert fault in seen


def test_it_ends_politely_and_says_why_it_cannot_start():
    with start_server() as running:
        port = int(running.base_url.rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(ServiceError, match=f"Cannot listen at 127.0.0.1:{port}"), start_server(port=port):
            pass
        started = time.perf_counter()
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=10) == 0
        assert time.perf_counter() - started < 5
