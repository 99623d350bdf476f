"""The client against a server that misbehaves, over real HTTP; no test here waits for a real back-off."""

import asyncio
import random
import time
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest
from aiohttp import web

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy, base_url_from

OK = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
KEY = "sk-very-secret"


@asynccontextmanager
async def serve(*answers):
    """A server that gives the answers in turn (the last one for ever); yields its URL and what it was asked."""
    asked = []

    async def handle(request):
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append((request.headers.get("Authorization"), await request.json()))
        return await answer(request) if callable(answer) else answer()

    async def models(request):
        return web.json_response({"data": [{"id": "m"}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handle)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", asked
    finally:
        await runner.cleanup()


def says(body=OK, status=200, headers=None, text=None):
    async def answer(request):
        if text is not None:
            return web.Response(text=text, status=status, headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return answer


async def resets(request):
    request.transport.abort()
    return web.Response()


async def hangs(request):
    await asyncio.sleep(30)
    return web.Response()


async def drips(request):
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.01)


def ask(*answers, attempts=3, timeout_s=0.3, urls=None):
    """One chat request; returns (reply or error, requests the server saw, waits between attempts, client)."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async def main():
        async with serve(*answers) as (url, asked):
            retry = RetryPolicy(attempts=attempts, timeout_s=timeout_s)
            client = OpenAIClient(
                urls(url) if urls else [url], api_key=KEY, retry=retry, sleep=sleep, jitter=random.Random(0)
            )
            try:
                return await client.chat({"model": "m"}), asked, waits, client
            except (RequestFailed, ServiceError) as error:
                return error, asked, waits, client
            finally:
                await client.close()

    return asyncio.run(main())


def test_a_reply_is_counted_and_the_key_is_sent():
    reply, asked, waits, client = ask(says())
    assert reply.content == "hello"
    assert asked == [(f"Bearer {KEY}", {"model": "m"})]
    assert waits == []
    assert (client.stats.requests, client.stats.completion_tokens) == (1, 2)


PASSING = {
    "rate_limited": says(status=429, body={"error": {"message": "slow down", "code": "rate_limit"}}),
    "server_error": says(status=503, text="<html>busy</html>"),
    "connection": resets,
    "timeout": hangs,
    "malformed_reply": says(text='{"choices": [{"mess'),
    "empty_reply": says({"choices": []}),
}


@pytest.mark.parametrize("kind", PASSING)
def test_what_can_pass_is_tried_again(kind):
    reply, asked, waits, client = ask(PASSING[kind], PASSING[kind], says())
    assert reply.content == "hello"
    assert len(asked) == 3
    assert client.stats.retries == {kind: 2}
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


@pytest.mark.parametrize("kind", PASSING)
def test_what_does_not_pass_is_said_with_kind_and_attempts(kind):
    error, asked, _, _ = ask(PASSING[kind])
    assert isinstance(error, RequestFailed)
    assert (error.failure.kind, error.failure.attempts) == (kind, 3)
    assert len(asked) == 3
    assert error.failure.detail


def test_a_slow_drip_ends():
    started = time.perf_counter()
    error, _, _, _ = ask(drips, attempts=1)
    assert error.failure.kind == "timeout"
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "bad_request"), (413, "bad_request"), (422, "bad_request"), (418, "refused"), (302, "refused")]
)
def test_what_the_request_itself_causes_is_not_tried_again(status, kind):
    async def first_good(request):
        return web.json_response(OK)

    async def main():
        async with serve(first_good, says(status=status, body={"error": {"message": "no"}})) as (url, asked):
            client = OpenAIClient([url])
            await client.chat({})
            with pytest.raises(RequestFailed) as caught:
                await client.chat({})
            await client.close()
            return caught.value.failure, asked

    failure, asked = asyncio.run(main())
    assert (failure.kind, failure.status, failure.attempts, len(asked)) == (kind, status, 1, 2)


def test_an_empty_account_is_not_waited_for():
    body = {"error": {"message": "You ran out", "code": "insufficient_quota"}}
    error, asked, _, _ = ask(says(status=429, body=body))
    assert isinstance(error, ServiceError)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("value", "least"), [("7", 7), ("0.2", 0.25), (None, 0.25), ("soon", 0.25), ("9999", 60)]
)
def test_retry_after_is_honoured_within_reason(value, least):
    headers = {} if value is None else {"Retry-After": value}
    _, _, waits, _ = ask(says(status=429, body={}, headers=headers), says())
    assert least <= waits[0] <= max(least, 0.5)


def test_retry_after_may_be_a_date():
    headers = {"Retry-After": formatdate(time.time() + 20, usegmt=True)}
    _, _, waits, _ = ask(says(status=503, body={}, headers=headers), says())
    assert 15 < waits[0] <= 20


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_from_the_start_ends_the_run(status):
    error, asked, _, _ = ask(says(status=status, body={"error": {"message": "who are you?"}}))
    assert isinstance(error, ServiceError)
    assert "who are you?" in str(error)
    assert str(status) in str(error)
    assert KEY not in str(error)
    assert len(asked) == 1


def test_a_dead_server_ends_the_run_with_a_clear_message():
    error, _, waits, _ = ask(says(), urls=lambda url: ["http://127.0.0.1:9/v1"])
    assert isinstance(error, ServiceError)
    assert "No server answers at http://127.0.0.1:9/v1 (3 attempts" in str(error)
    assert "--to_continue" in str(error)
    assert KEY not in str(error)
    assert len(waits) == 2


def test_another_endpoint_takes_over():
    reply, asked, _, client = ask(says(), urls=lambda url: ["http://127.0.0.1:9/v1", url])
    assert reply.content == "hello"
    assert len(asked) == 1
    assert client.stats.retries == {"connection": 1}


def test_endpoints_share_the_load():
    async def slow(request):
        await asyncio.sleep(0.05)
        return web.json_response(OK)

    async def main():
        async with serve(slow) as (first, asked_first), serve(slow) as (second, asked_second):
            client = OpenAIClient([first, second])
            await asyncio.gather(*(client.chat({}) for _ in range(10)))
            await client.close()
            return len(asked_first), len(asked_second)

    assert asyncio.run(main()) == (5, 5)


def test_null_content_is_an_answer_for_the_caller_to_judge():
    reply, asked, _, _ = ask(says({"choices": [{"message": {"content": None}}]}))
    assert reply.content is None
    assert len(asked) == 1


def test_models():
    async def main():
        async with serve(says()) as (url, _):
            client = OpenAIClient([url])
            models = await client.models()
            await client.close()
            return models

    assert asyncio.run(main()) == [{"id": "m"}]


def test_base_urls():
    assert base_url_from("gpu-3", 8000) == ["http://gpu-3:8000/v1"]
    assert base_url_from("x", 1, "https://a/v1/, http://b:2/v1") == ["https://a/v1", "http://b:2/v1"]
    with pytest.raises(UsageError, match="looks like http"):
        base_url_from("x", 1, "a:8000")
