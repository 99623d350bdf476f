"""The client against a server that misbehaves, over real HTTP; no test here waits for a real back-off."""

import asyncio
import pickle
import random
import time
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest
from aiohttp import web

from sweet_rl.concurrency import for_each, place_in_order
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy, base_url_from
from sweet_rl.openai_client.retries import limiter_of
from sweet_rl.serving import listening
from sweet_rl.types import Failure

HELLO = {"message": {"content": "hello"}, "finish_reason": "stop"}
OK = {"choices": [HELLO], "usage": {"completion_tokens": 2}}
KEY = "sk-very-secret"
NOBODY = "http://127.0.0.1:9/v1"  # the discard port: the connection is refused


@asynccontextmanager
async def serve(*answers):
    """A server that gives the answers in turn (the last one for ever); yields its URL and what it was asked."""
    asked = []

    async def handle(request):
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append((request.headers.get("Authorization"), await request.json()))
        return await answer(request)

    async def models(request):
        return web.json_response({"data": [{"id": "m"}, {"id": "n"}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handle)
    app.router.add_post("/v1/completions", handle)
    app.router.add_get("/v1/models", models)
    async with listening(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/v1", asked


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


async def no_wait(_):
    """In place of a back-off."""


@asynccontextmanager
async def client_of(*answers, urls=lambda url: [url], **settings):
    """A client of a server that gives the answers, and what that was asked."""
    async with serve(*answers) as (url, asked):
        client = OpenAIClient(urls(url), **settings)
        try:
            yield client, asked
        finally:
            await client.close()


def ask(*answers, body=None, any_reply=False, times=1, sleep_s=0, urls=lambda url: [url], **policy):
    """Chat requests, one after the other; returns (last reply or error, requests seen, waits, counters)."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)
        await asyncio.sleep(sleep_s)

    async def main():
        retry = RetryPolicy(**{"attempts": 3, "timeout_s": 0.2} | policy)
        more = {"urls": urls, "api_key": KEY, "retry": retry, "sleep": sleep, "jitter": random.Random(0)}
        async with client_of(*answers, **more) as (client, asked):
            try:
                for _ in range(times):
                    result = await client.chat(body or {"model": "m"}, any_reply=any_reply)
            except (RequestFailed, ServiceError) as error:
                result = error
            return result, asked, waits, client.stats

    return asyncio.run(main())


async def all_at_once(client, times):
    return await asyncio.gather(*(client.chat({"n": n}) for n in range(times)), return_exceptions=True)


async def burst(times, *answers, **settings):
    """Results of so many requests at once, and the client's counters."""
    async with client_of(*answers, **settings) as (client, _):
        return await all_at_once(client, times), client.stats


def test_a_reply_is_counted_and_the_key_is_sent():
    reply, asked, waits, stats = ask(says())
    assert (reply.content, reply.finish_reason, waits) == ("hello", "stop", [])
    assert asked == [(f"Bearer {KEY}", {"model": "m"})]
    assert (stats.requests, stats.completion_tokens, stats.prompt_tokens) == (1, 2, 0)
    assert 0 < stats.service_s < 5


PASSING = {
    "rate_limited": says(status=429, body={"error": {"message": "slow down", "code": "rate_limit"}}),
    "server_error": says(status=503, text="<html>busy</html>"),
    "connection": resets,
    "timeout": hangs,
    "malformed_reply": says(text='{"choices": [{"mess'),
    "empty_reply": says({"choices": []}),
    "null content": says({"choices": [{"message": {"content": None}}]}),
    "no content": says({"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]}),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_can_pass_is_tried_again_and_given_up_with_kind_and_attempts(name):
    kind = "empty_reply" if "content" in name else name
    reply, asked, waits, stats = ask(PASSING[name], PASSING[name], says())
    assert (reply.content, len(asked), stats.requests, stats.retries) == ("hello", 3, 3, {kind: 2})
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0
    if name != "rate_limited":
        error, asked, _, _ = ask(PASSING[name])
        assert isinstance(error, RequestFailed)
        assert (error.failure.kind, error.failure.attempts, len(asked)) == (kind, 3, 3)
        assert "null" in error.failure.detail if "content" in name else error.failure.detail


def test_lone_surrogates_of_a_server_become_readable():
    text = '{"choices": [{"message": {"content": "a \\ud83d b \\ud83d\\ude00"}, "finish_reason": "stop"}]}'
    assert ask(says(text=text))[0].content == "a \ufffd b \N{GRINNING FACE}"


@pytest.mark.parametrize(
    "answer",
    [
        says(status=429, body={"error": {"message": "slow down"}}),
        says(status=529, body={}, headers={"Retry-After": "1"}),
    ],
)
def test_being_turned_away_uses_up_no_attempts_but_patience(answer):
    reply, asked, _, stats = ask(*[answer] * 9, says(), attempts=1)
    assert (reply.content, len(asked), stats.retries.total(), stats.failed) == ("hello", 10, 9, {})
    error, asked, waits, stats = ask(answer, attempts=1, patience_s=100)
    assert error.failure.attempts == len(asked) == len(waits) + 1
    assert sum(waits) <= 100 < sum(waits) + 30
    assert (stats.failed, stats.first_failure) == ({error.failure.kind: 1}, error.failure)


def refusing_above(capacity, refuse, seconds=0.005):
    """An answer that takes some time; what comes while `capacity` are in work is refused. And the counts."""
    seen = {"now": 0, "most": 0, "refused": 0, "answered": 0}

    async def answer(request):
        if seen["now"] >= capacity:
            seen["refused"] += 1
            return await refuse(request)
        seen["now"] += 1
        seen["most"] = max(seen["most"], seen["now"])
        try:
            await asyncio.sleep(seconds)
        finally:
            seen["now"] -= 1
        seen["answered"] += 1
        return web.json_response(OK)

    return answer, seen


OVERLOADS = {
    "429": says(status=429, body={}),
    "429 with Retry-After": says(status=429, body={}, headers={"Retry-After": "0.1"}),
    "503": says(status=503, body={}, headers={"Retry-After": "0.05"}),
    "reset": resets,
}


@pytest.mark.parametrize("refuse", OVERLOADS.values(), ids=OVERLOADS)
async def test_a_server_that_takes_few_at_once_answers_all(refuse):
    """Four attempts each, 200 requests at once, 8 that the server takes: nothing is lost."""
    answer, seen = refusing_above(8, refuse)
    results, stats = await burst(200, answer, retry=RetryPolicy(first_wait_s=0.05))
    assert [getattr(result, "content", result) for result in results] == ["hello"] * 200
    assert (seen["most"], seen["refused"] < 100, stats.failed) == (8, True, {})


async def test_two_clients_of_one_server_share_its_places():
    answer, seen = refusing_above(8, OVERLOADS["429"])
    refused = []
    async with serve(answer) as (url, _):
        for address in (url, f"{url}/"):
            client = OpenAIClient([address])
            await all_at_once(client, 100)
            await client.close()
            refused.append(seen["refused"])
            assert 2 <= limiter_of(url).level < 10
    assert refused[1] - refused[0] < refused[0] + 20  # the second began at the level that the first had found


async def test_waiting_for_a_place_counts_against_no_time_out():
    answer, _ = refusing_above(1, OVERLOADS["429"], seconds=0.05)
    retry = RetryPolicy(attempts=1, timeout_s=0.6, first_wait_s=0.01)
    results, _ = await burst(16, answer, retry=retry)  # 0.8 s of work for the server, one after the other
    assert [getattr(result, "content", result) for result in results] == ["hello"] * 16


async def test_a_server_without_limits_gets_all_there_is():
    arrived = answered = most = 0

    async def answer(request):
        nonlocal arrived, answered, most
        arrived, seen = arrived + 1, 0
        while seen < arrived:  # answers when no more requests come, however slow this machine is
            seen = arrived
            await asyncio.sleep(0.02)
        most, answered = max(most, arrived - answered), answered + 1
        return web.json_response(OK)

    urls = []
    async with client_of(answer, urls=lambda url: urls.append(url) or [url]) as (client, _):
        await all_at_once(client, 500)
        assert limiter_of(*urls).level > 150
    assert most > 150


async def test_replies_that_take_much_of_their_time_keep_the_level_down():
    limiter = limiter_of("http://here/v1")
    async with limiter.place(limiter.ticket()) as sent_at:
        limiter.served(31.0, 120.0, sent_at)
        assert limiter.level == 32
        limiter.served(61.0, 120.0, sent_at)
    assert limiter.level == 1  # of the one that was in flight


async def test_who_is_cancelled_leaves_its_place():
    limiter = limiter_of("http://here/v1")
    limiter.level = 1.0

    async def hold():
        async with limiter.place(limiter.ticket()):
            return "held"

    async with limiter.place(limiter.ticket()):
        waiting = [asyncio.create_task(hold()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    await asyncio.sleep(0)
    waiting[1].cancel()  # its place has been given to it at this moment
    async with asyncio.timeout(5):
        first, _, last = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert last == "held"


async def test_those_who_wait_are_served_in_the_order_of_their_episodes():
    limiter, served = limiter_of("http://here/v1"), []
    limiter.level = 1.0

    async def episode(name):
        for _ in range(3):
            async with limiter.place(limiter.ticket()):
                served.append(name)
                await asyncio.sleep(0)

    await for_each("abcdef", episode, at_once=6)
    assert len(served) == 18
    for early, late in zip("abcd", "cdef", strict=True):  # one is answered while the other asks
        assert max(place for place, name in enumerate(served) if name == early) < served.index(late)


def test_within_an_episode_its_own_place_is_kept():
    seen = []

    async def inner(name):
        seen.append((name, place_in_order()))

    async def episode(name):
        await asyncio.sleep(0)
        await for_each([f"{name}0", f"{name}1"], inner, at_once=2)

    asyncio.run(for_each("ab", episode, at_once=2))
    assert sorted(seen) == [("a0", 0), ("a1", 0), ("b0", 1), ("b1", 1)]
    assert place_in_order() == -1


UNKNOWN = "Unknown model 'gpt'"


@pytest.mark.parametrize(
    "answer",
    [says(status=400, body={"error": {"message": UNKNOWN}}), says(text=f"<html>Log in, {UNKNOWN}</html>")],
)
async def test_a_server_that_never_accepts_anything_ends_the_run_after_a_handful(answer):
    errors, _ = await burst(4, answer, retry=RetryPolicy(attempts=1))
    assert all(isinstance(error, RequestFailed) for error in errors)
    errors, _ = await burst(5, answer, retry=RetryPolicy(attempts=1))
    assert isinstance(errors[-1], ServiceError)
    assert UNKNOWN in str(errors[-1]) and "It offers m, n." in str(errors[-1])


async def test_what_says_nothing_about_the_others_does_not_end_the_run():
    """One reply that is still to come may be the first; requests that are too long are no refusals."""

    async def answer(request):
        if (await request.json())["n"] == 0:
            await asyncio.sleep(0.3)
            return web.json_response(OK)
        return web.json_response({"error": {"message": "no"}}, status=400)

    (reply, *errors), _ = await burst(20, answer)
    assert reply.content == "hello"
    body = {"error": {"message": "This model's maximum context length is 64 tokens."}}
    errors += (await burst(9, says(status=400, body=body)))[0]
    assert all(isinstance(error, RequestFailed) for error in errors)


@pytest.mark.parametrize(
    "body",
    [
        "null", "[]", "{}", '{"choices": 1}', '{"choices": [1]}', '{"choices": [{"message": []}]}',
        '{"choices": [{"message": {"content": 1}}]}', "[" * 100_000, "\ufffd",
    ],
)  # fmt: skip
def test_nonsense_is_a_malformed_reply(body):
    failure = ask(says(text=body), attempts=1)[0].failure
    assert failure.kind == "malformed_reply"
    assert "the reply begins" in failure.detail and len(failure.detail) < 300


@pytest.mark.parametrize("usage", [None, 3, {"prompt_tokens": "many", "completion_tokens": None}])
def test_odd_usage_does_no_harm(usage):
    reply, _, _, stats = ask(says(OK | {"usage": usage}))
    assert (reply.content, stats.prompt_tokens, stats.completion_tokens) == ("hello", 0, 0)


def test_a_slow_drip_ends():
    started = time.perf_counter()
    error = ask(drips, attempts=1)[0]
    assert (error.failure.kind, error.failure.detail) == ("timeout", "no whole answer within 0.2 s")
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("status", "kind"),
    [*((status, "bad_request") for status in (400, 413, 422)), (403, "refused"), (302, "refused")],
)
def test_what_the_request_itself_causes_is_not_tried_again(status, kind):
    error, asked, _, _ = ask(says(), says(status=status, body={"error": {"message": "no"}}), times=2)
    assert error.failure == Failure(kind, "no", status, attempts=1)
    assert len(asked) == 2


async def test_the_key_is_not_carried_to_where_a_server_points():
    async with serve(says()) as (elsewhere, asked):
        moved = says(status=307, body={}, headers={"Location": f"{elsewhere}/chat/completions"})
        async with client_of(moved, api_key=KEY) as (client, _):
            with pytest.raises(ServiceError, match="refused 307"):
                await client.chat({})
    assert asked == []


@pytest.mark.parametrize(
    ("value", "least"), [("7", 7), (None, 0.25), ("soon", 0.25), ("-5", 0.25), ("9999", 60), ("in 20 s", 15)]
)
def test_retry_after_is_honoured_within_reason_and_may_be_a_date(value, least):
    value = formatdate(time.time() + 20, usegmt=True) if value == "in 20 s" else value
    headers = {} if value is None else {"Retry-After": value}
    _, _, waits, _ = ask(says(status=429, body={}, headers=headers), says())
    assert least <= waits[0] <= max(least + 5 * (least == 15), 0.5)


def test_waits_double_up_to_a_limit_and_are_repeatable():
    retry = RetryPolicy(first_wait_s=1, max_wait_s=10)
    waits = [retry.wait_s(failed, None, random.Random(7)) for failed in (1, 2, 3, 4, 5, 5000)]
    assert [round(wait / waits[0], 6) for wait in waits] == [1, 2, 4, 8, 10, 10]
    jitter = random.Random(0)
    spread = [retry.wait_s(1, None, jitter) for _ in range(100)]
    assert 0.5 <= min(spread) < 0.6 and 0.9 < max(spread) <= 1
    for flags in ({"attempts": 0}, {"timeout_s": 0}):
        with pytest.raises(UsageError, match="at least 1 attempt"):
            RetryPolicy(**flags)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_from_the_start_ends_the_run(status):
    error, asked, _, _ = ask(says(status=status, body={"error": {"message": "who are you?"}}))
    assert isinstance(error, ServiceError) and len(asked) == 1
    assert f"refuses our requests (refused {status}: who are you?)" in str(error)
    assert str(error).endswith("It offers m, n.")


async def test_a_list_of_models_proves_nothing_and_need_not_be_there():
    async with client_of(says(status=404, body={})) as (client, _):
        assert await client.models() == [{"id": "m"}, {"id": "n"}]
        with pytest.raises(ServiceError):
            await client.chat({})
    async with client_of(says(), urls=lambda url: [url + "/nowhere"]) as (client, _):
        assert await client.models(needed=False) == []
        with pytest.raises(ServiceError, match=r"/nowhere refuses our requests \(refused 404"):
            await client.models()


def test_an_empty_account_ends_the_run_at_any_time():
    body = {"error": {"message": "You ran out", "code": "insufficient_quota"}}
    error, asked, _, _ = ask(says(), says(status=429, body=body), times=2)
    assert isinstance(error, ServiceError) and len(asked) == 2
    assert "used up (quota 429: You ran out)" in str(error)


def test_a_dead_server_ends_the_run_with_a_clear_message():
    error, _, waits, stats = ask(says(), urls=lambda url: [NOBODY])
    assert isinstance(error, ServiceError)
    assert str(error).startswith(f"No server answers at {NOBODY} (3 attempts; the last one: connection: ")
    assert "--to_continue" in str(error)
    assert (len(waits), stats.retries) == (2, {"connection": 2})


@pytest.mark.parametrize(
    "answer",
    [
        says(status=400, body={"error": {"message": f"your key {KEY} is odd"}}),
        says(status=500, text="x" * 285 + f"Bearer {KEY}"),  # would be cut in the middle of the key
        says(text=f"not JSON: {KEY}"),
        says(status=401, body={"error": {"message": f"wrong key {KEY}"}}),
    ],
)
def test_the_key_is_never_repeated(answer):
    error, _, _, _ = ask(answer, attempts=1)
    assert "[key]" in str(error) or "[ke" in str(error)
    assert KEY[:9] not in str(error)


async def test_keys_come_from_files_with_line_ends():
    async with serve(says()) as (url, asked):
        for key in (" abc\n", None, ""):
            client = OpenAIClient([url], api_key=key)
            await client.chat({})
            await client.close()
        assert [authorization for authorization, _ in asked] == ["Bearer abc", "Bearer EMPTY", "Bearer EMPTY"]
    with pytest.raises(UsageError, match="API key") as caught:
        OpenAIClient([NOBODY], api_key="ab\nSet-Cookie: c")
    assert "ab" not in str(caught.value).split()


def test_another_endpoint_takes_over_and_the_dead_one_rests():
    reply, asked, _, stats = ask(says(), urls=lambda url: [NOBODY, url], times=5)
    assert (reply.content, len(asked), stats.retries) == ("hello", 5, {"connection": 1})


async def test_every_endpoint_is_tried_before_one_is_tried_again():
    bad = says(status=500, body={})
    retry = RetryPolicy(attempts=6, first_wait_s=0)
    async with serve(bad) as (a, at_a), serve(bad) as (b, at_b):
        async with client_of(bad, says(), urls=lambda url: [a, b, url], retry=retry) as (client, at_c):
            await client.chat({})
        assert (len(at_a), len(at_b), len(at_c)) == (2, 2, 2)


async def test_endpoints_share_the_load():
    async def slow(request):
        await asyncio.sleep(0.05)
        return web.json_response(OK)

    async with serve(slow) as (first, asked_first):
        async with client_of(slow, urls=lambda url: [first, url]) as (client, asked_second):
            await all_at_once(client, 10)
        assert (len(asked_first), len(asked_second)) == (5, 5)


async def test_completions_are_raw_choices():
    choices = [{"text": "a", "token_ids": [1]}, {"text": "b", "finish_reason": "MAX_TOKENS"}]
    async with client_of(says({"choices": choices})) as (client, _):
        assert await client.complete({"prompt": "p", "n": 2}) == [
            {"text": "a", "token_ids": [1], "finish_reason": "other"},
            {"text": "b", "finish_reason": "length"},
        ]


def test_base_urls():
    assert base_url_from("gpu-3", 8000) == ["http://gpu-3:8000/v1"]
    assert base_url_from("x", 1, "https://a/v1/, http://b:2/v1") == ["https://a/v1", "http://b:2/v1"]
    for url in ("a:8000", "http://", "http://a:b/v1", "ftp://a/v1", "http://http://a:1/v1", "http://a,"):
        with pytest.raises(UsageError, match="looks like http"):
            base_url_from("x", 1, url)
    with pytest.raises(UsageError) as caught:
        base_url_from("x", 1, "http://me:secret@host/v1")
    assert "secret" not in str(caught.value)


def test_failures_travel_between_processes():
    error = RequestFailed(Failure("timeout", "late", attempts=4))
    assert pickle.loads(pickle.dumps(error)).failure == error.failure
