"""The simulator server as a client sees it: OpenAI's shapes, OpenAI's errors, and trouble on demand."""

import asyncio
import json
import statistics

import aiohttp
import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.prompts import load_prompt, simulator_prompt
from sweet_rl.types import Message, UserContext
from sweet_rl.users.protocol import Fault, FaultProfile, parse_faults
from tests.users.serving import serving

HIDDEN = "def price(row):\n    return 20 if row < 5 else 12\n"
CONTEXT = UserContext(
    "Price a seat.", HIDDEN, (Message("user", "Price a seat."), Message("assistant", "What about row 5?"))
)
PROMPT = simulator_prompt(load_prompt("human_simulator_code_prompt"), CONTEXT)


async def request(url, body=None):
    """POST a body (or GET); returns status and what came: JSON as an object, anything else as text."""
    data = body if isinstance(body, bytes) else json.dumps(body)
    method = "GET" if body is None else "POST"
    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url, data=data) as response,
    ):
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
    assert status == 200
    assert body["object"] == "chat.completion"
    assert body["model"] == "scripted"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": said}
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["prompt_tokens"] == len(PROMPT.split()) + 1  # the system message
    assert usage["completion_tokens"] == len(said.split())
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_plain_completions_and_several_of_them():
    status, body = ask("/v1/completions", {"model": "echo", "prompt": ["a", "b"], "n": 2})
    assert status == 200
    assert body["object"] == "text_completion"
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    said = ScriptedHuman().answer(CONTEXT.problem_description, CONTEXT.hidden_information, CONTEXT.messages)
    _, body = ask("/v1/completions", {"model": "scripted", "prompt": PROMPT})
    assert [choice["text"] for choice in body["choices"]] == [said]


def test_typed_content_and_streaming():
    parts = [{"type": "text", "text": "hello you"}]
    status, text = ask("/v1/chat/completions", chat(parts, "echo", stream=True))
    assert status == 200
    *chunks, end, nothing = text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    chunks = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}, {"content": "hello"}, {"content": " you"}, {}]
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == deltas
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert not any("usage" in chunk for chunk in chunks)


def test_models_and_health():
    status, models = ask("/v1/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, ["scripted", "echo"])
    assert ask("/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (
            "chat/completions",
            chat("unmarked"),
            400,
            "no hidden function in the prompt. It looks for the sections <request>",
        ),
        (
            "chat/completions",
            chat("x", model="gpt-4o"),
            404,
            "'gpt-4o' does not exist; this server offers scripted, echo",
        ),
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
)
def test_wrong_requests_get_openai_errors(path, body, status, words):
    got, answer = ask(f"/v1/{path}", body)
    assert got == status
    assert words in answer["error"]["message"]
    assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert answer["error"]["type"] == "invalid_request_error"


def test_counters():
    async def main():
        weather = FaultProfile(
            latency_median_ms=50, latency_sigma=0, fault_rate=1, faults=(Fault.EMPTY_CHOICES,)
        )
        async with serving(weather) as url:
            await asyncio.gather(*(request(f"{url}/chat/completions", chat("x", "echo")) for _ in range(3)))
            await request(f"{url}/chat/completions", {})
            return await request(url.removesuffix("/v1") + "/stats")

    _, stats = asyncio.run(main())
    assert stats["requests"] == 4
    assert stats["faults"] == {"empty_choices": 3}  # a request that is refused has no room for a fault
    assert stats["max_concurrent"] == 3
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
    assert parse_faults("reset, bad_request,") == (Fault.RESET, Fault.BAD_REQUEST)
    with pytest.raises(UsageError, match=r"earthquake.*Known are rate_limit"):
        parse_faults("rate_limit,earthquake")
    for flags in (
        {"fault_rate": 1.5},
        {"fault_rate": 0.1, "faults": ()},
        {"hang_s": -1},
        {"latency_sigma": -1},
    ):
        with pytest.raises(UsageError, match="--" + next(iter(flags))):
            FaultProfile(**flags)


async def outcome(fault):
    """What one request meets at a server where this always happens."""
    timeout = aiohttp.ClientTimeout(total=0.4)
    weather = FaultProfile(fault_rate=1, faults=(fault,), hang_s=5)
    async with serving(weather) as url, aiohttp.ClientSession(timeout=timeout) as session:
        status = None
        try:
            async with session.post(f"{url}/chat/completions", json=chat("hello", "echo")) as response:
                status = response.status
                body = await response.json()
        except TimeoutError:
            return status, "timeout"
        except aiohttp.ClientConnectionError:
            return status, "connection"
        except ValueError:
            return status, "not JSON"
    if status != 200:
        return status, response.headers.get("Retry-After")
    return status, [choice["message"]["content"] for choice in body["choices"]]


@pytest.mark.parametrize(
    ("fault", "want"),
    [
        (Fault.RATE_LIMIT, (429, "0.05")),
        (Fault.SERVER_ERROR, (500, None)),
        (Fault.BAD_REQUEST, (400, None)),
        (Fault.RESET, (None, "connection")),
        (Fault.TIMEOUT, (None, "timeout")),
        (Fault.SLOW_DRIP, (200, "timeout")),  # the headers come, the body does not
        (Fault.MALFORMED_JSON, (200, "not JSON")),
        (Fault.EMPTY_CHOICES, (200, [])),
        (Fault.NULL_CONTENT, (200, [None])),
    ],
)
def test_every_fault_is_what_it_says(fault, want):
    assert asyncio.run(outcome(fault)) == want


def test_a_fault_reaches_streams_too():
    weather = FaultProfile(fault_rate=1, faults=(Fault.MALFORMED_JSON,))
    _, text = ask("/v1/chat/completions", chat("x", "echo", stream=True), weather)
    assert text.startswith("data: {")
    assert "[DONE]" not in text
