"""Servers as they are: what each refuses, in its own words, and what it is sent after that; over real HTTP.

The words are after public reports: OpenAI, Azure, Anthropic's and Google's compatible endpoints, Mistral, Groq,
Cerebras, xAI, Together, Fireworks, OpenRouter, TGI, SGLang, vLLM, llama.cpp, Ollama, LM Studio.
"""

import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import threading

import pytest
from aiohttp import web

from sweet_rl.errors import EpisodeError, ServiceError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.serving import listening
from sweet_rl.types import Message, Observation
from tests.test_openai_client import OK, ask, client_of, says

BODY = {"model": "m", "temperature": 0, "top_p": 1.0, "max_tokens": 4096, "seed": 7, "top_k": 0, "min_p": 0.0}
BODY["messages"] = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "Hi."}]
BODY["repetition_penalty"] = 1.0
FOLDED = [{"role": "user", "content": "Rules.\n\nHi."}]


def error(message, **more):
    return {"error": {"message": message, **more}}


def extra(*loc, msg="Extra inputs are not permitted"):
    return [{"type": "extra_forbidden", "loc": list(loc), "msg": msg, "input": 1}]


def has(field):
    return lambda body: field in body


def is_not(field, *values):
    return lambda body: field in body and body[field] not in values


def system(body):
    return any(message["role"] == "system" for message in body["messages"])


LEFT_OUT = "left out"
# name: what it refuses, status, its words, what differs in the request that it takes
DIALECTS = {
    "openai renames": (has("max_tokens"), 400,
        error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"),
        {"max_tokens": LEFT_OUT, "max_completion_tokens": 4096}),
    "openai takes the default alone": (is_not("temperature", 1), 400,
        error("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."),
        {"temperature": LEFT_OUT}),
    "azure does not know the argument": (has("seed"), 400,
        error("Unrecognized request argument supplied: seed", type="invalid_request_error"),
        {"seed": LEFT_OUT, "random_seed": 7}),
    "anthropic takes one of two": (lambda body: "temperature" in body and "top_p" in body, 400,
        error("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
        {"top_p": LEFT_OUT}),
    "anthropic has a maximum": (lambda body: body.get("max_tokens", 0) > 2048, 400,
        {"type": "error", **error("max_tokens: 4096 > 2048, which is the maximum allowed number of output tokens for m")},
        {"max_tokens": 2048}),
    "anthropic takes no system message": (system, 400,
        error('messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'),
        {"messages": FOLDED}),
    "google in a list, unknown name": (has("min_p"), 400,
        [error('Invalid JSON payload received. Unknown name "min_p": Cannot find field.', code=400, status="INVALID_ARGUMENT")],
        {"min_p": LEFT_OUT}),
    "google in camel case": (is_not("top_k", -1), 400,
        [error("Invalid value at 'generation_config.topK' (TYPE_INT32), 0", code=400)], {"top_k": -1}),
    "google's gemma": (system, 400,
        [error("Developer instruction is not enabled for models/gemma-3-27b-it", code=400)],
        {"messages": FOLDED}),
    "google points at a field": (has("seed"), 400,
        error("Request contains an invalid argument.", details=[{"fieldViolations": [{"field": "generation_config.seed", "description": "not supported"}]}]),
        {"seed": LEFT_OUT, "random_seed": 7}),
    "mistral, pydantic in a message": (has("seed"), 422,
        {"object": "error", "message": {"detail": extra("body", "seed")}, "type": "invalid_request_error"},
        {"seed": LEFT_OUT, "random_seed": 7}),
    "fastapi, two at once": (lambda body: "top_k" in body or "min_p" in body, 422,
        {"detail": [*extra("body", "top_k"), *extra("body", "min_p")]},
        {"top_k": LEFT_OUT, "min_p": LEFT_OUT}),
    "pydantic on roles": (system, 422,
        {"detail": [{"type": "literal_error", "loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user' or 'assistant'"}]},
        {"messages": FOLDED}),
    "vllm, written by Python": (has("min_p"), 400,
        {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'min_p'), 'msg': 'Extra inputs are not permitted'}]", "code": 400},
        {"min_p": LEFT_OUT}),
    "vllm of earlier days": (is_not("top_k", -1), 400,
        error("top_k must be -1 (disable), or at least 1, got 0."), {"top_k": -1}),
    "groq": (has("top_k"), 400, error("property 'top_k' is unsupported"), {"top_k": LEFT_OUT}),
    "cerebras": (has("repetition_penalty"), 400,
        {"message": "body.repetition_penalty: property 'body.repetition_penalty' is unsupported", "type": "invalid_request_error", "param": "validation_error"},
        {"repetition_penalty": LEFT_OUT, "repeat_penalty": 1.0}),
    "xai": (has("top_k"), 400,
        {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: topK"},
        {"top_k": LEFT_OUT}),
    "fireworks": (has("min_p"), 400, error("Extra inputs are not permitted, field: 'min_p', value: 0.0"),
        {"min_p": LEFT_OUT}),
    "openrouter passes an error on": (is_not("temperature", 1), 400,
        error("Provider returned error", code=400, metadata={"raw": json.dumps(error("`temperature` is deprecated for this model.")), "provider_name": "P"}),
        {"temperature": LEFT_OUT}),
    "tgi": (lambda body: body.get("temperature") == 0, 422,
        {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
        {"temperature": LEFT_OUT}),
    "a server in Rust": (has("repetition_penalty"), 422,
        "Failed to deserialize the JSON body into the target type: unknown field `repetition_penalty`, expected one of `temperature`, `repeat_penalty`",
        {"repetition_penalty": LEFT_OUT, "repeat_penalty": 1.0}),
    "a template without system role": (system, 400,
        error("System role not supported System role not supported"), {"messages": FOLDED}),
    "a template of two roles": (system, 400, error("Only user and assistant roles are supported!"),
        {"messages": FOLDED}),
    "llama.cpp's template fails": (system, 500,
        error("Jinja Exception: System role not supported", type="server_error"), {"messages": FOLDED}),
    "a template that alternates": (lambda body: body["messages"][0]["role"] != "user", 400,
        error("Conversation roles must alternate user/assistant/user/assistant/..."), {"messages": FOLDED}),
    "a range": (lambda body: body.get("max_tokens", 0) > 1024, 400,
        error("Range of max_tokens should be [1, 1024]", code="invalid_parameter_error"),
        {"max_tokens": 1024}),
    "seeds of 31 bits": (lambda body: body.get("seed", 0) > 5, 400,
        error("seed must be less than or equal to 5"), {"seed": 1}),
}  # fmt: skip


def talk(refuses, status, words, *, body=BODY):
    """The same request twice to a server that refuses; (last reply or error, bodies seen, what is said of it)."""
    words = {"text": words} if isinstance(words, str) else {"body": words}

    async def answer(request):
        refused = refuses(await request.json())
        return await (says(status=status, **words) if refused else says(OK))(request)

    result, asked, _, stats = ask(answer, body=body, attempts=2, timeout_s=60, times=2)
    return result, [seen for _, seen in asked], stats.changes


@pytest.mark.parametrize("name", DIALECTS)
def test_what_a_server_refuses_is_sent_as_it_takes_it(name, capsys):
    refuses, status, words, differs = DIALECTS[name]
    reply, bodies, changes = talk(refuses, status, words)
    assert reply.content == "hello"
    assert reply.sent == differs.get("messages")
    expected = {key: value for key, value in (BODY | differs).items() if value != LEFT_OUT}
    assert bodies[-1] == bodies[-2] == expected  # the second request is right at once
    assert len(bodies) - 2 == len(changes) <= 3
    said = capsys.readouterr().err
    assert all(change in said for change in changes)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, error("Your request was rejected by our safety system.")),
        (400, error("The model is not valid JSON mode.", param="messages")),
        (400, error("Invalid 'messages[1].content': string too short.", param="messages[1].content")),
        (422, {"detail": "Something went wrong"}),
        (403, error("The parameter `seed` is not permitted for your tier")),
        (500, error("`seed` is not supported")),
    ],
)
def test_a_refusal_that_names_no_field_of_ours_changes_nothing(status, words):
    failed, bodies, changes = talk(lambda _: True, status, words)
    assert isinstance(failed, RequestFailed | ServiceError)
    assert all(body == BODY for body in bodies)
    assert changes == []


def test_a_server_that_refuses_whatever_it_is_sent_ends():
    words = error("Invalid value: `temperature`, `top_p`, `seed`, `max_tokens`")
    failed, bodies, _ = talk(lambda _: True, 400, words)
    assert isinstance(failed, RequestFailed) and len(bodies) < 10


async def test_many_requests_at_once_teach_a_server_once():
    async def answer(request):
        body = await request.json()
        await asyncio.sleep(0.01)
        if "seed" in body:
            return await says(error("`seed`: Extra inputs are not permitted"), status=400)(request)
        return await says(OK)(request)

    async with client_of(answer) as (client, asked):
        replies = await asyncio.gather(*(client.chat({"model": "m", "seed": n}) for n in range(20)))
    assert [reply.content for reply in replies] == ["hello"] * 20
    assert len(asked) == client.stats.requests <= 40
    (change,) = client.stats.changes
    assert "seed is sent as random_seed" in change


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, error("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")),
        (400, error("Please reduce the length of the messages or completion.", code="context_length_exceeded")),
        (400, error("Your input is invalid.", code="context_length_exceeded")),
        (400, [error("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", code=400)]),
        (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens", "error_type": "validation"}),
        (422, {"error": "Input validation error: `inputs` must have less than 1000 tokens. Given: 1100"}),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum")),
        (400, error("input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000")),
        (400, error("the request exceeds the available context size. try increasing it", type="exceed_context_size_error")),
        (400, {"object": "error", "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}),
        (400, {"message": "Input is too long for requested model."}),
        (400, {"message": "too many tokens: size limit exceeded by 120 tokens. Try using shorter or fewer inputs."}),
        (413, error("Request body too large for gpt-4o model. Max size: 8000 tokens.", code="tokens_limit_reached")),
        (400, error("Range of input length should be [1, 30720]", code="invalid_parameter_error")),
        (400, error("The input (5000 tokens) is longer than the model's context length (4096 tokens).")),
        (400, error("This model's maximum prompt length is 131072 but the request contains 140000 tokens.")),
        (500, error("the input length exceeds the context window")),
    ],
)  # fmt: skip
def test_a_context_that_is_full_is_told_by_code_or_words(status, words):
    failed, bodies, changes = talk(lambda _: True, status, words)
    assert (failed.failure.kind, len(bodies), changes) == ("context_full", 1, [])


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (429, error("Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000"), "rate_limited"),
        (413, error("Request too large on tokens per minute (TPM): Limit 6000"), "bad_request"),
        (400, error("'max_tokens' is too large", param="other"), "bad_request"),
    ],
)  # fmt: skip
def test_a_limit_of_another_kind_is_no_full_context(status, words, kind):
    failed, _, _ = talk(lambda _: True, status, words, body={"model": "m", "messages": []})
    assert failed.failure.kind == kind


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (402, error("This request requires more credits")),
        (400, error("Your credit balance is too low to access the API.")),
        (429, error("You exceeded your current quota", code="insufficient_quota")),
    ],
)
def test_an_empty_account_ends_the_run(status, words):
    failed, bodies, _ = talk(lambda _: True, status, words)
    assert isinstance(failed, ServiceError) and len(bodies) == 1


def chat(*answers, any_reply=True, attempts=2, **more):
    """What one request comes to, and how often it was sent."""
    how = {"body": BODY, "any_reply": any_reply, "attempts": attempts, "timeout_s": 60, **more}
    reply, asked, *_ = ask(*answers, **how)
    if isinstance(reply, RequestFailed):
        return reply.failure.kind, len(asked)
    return (reply.content, reply.finish_reason.value, reply.thoughts), len(asked)


def choice(reason="stop", **message):
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason}]}


CALL = [{"id": "1", "type": "function", "function": {"name": "answer", "arguments": "{}"}}]
# a reply; what it is to the agent, and the failure that it is where words are needed (None: words)
REPLIES = {
    "text": (choice(content="Hi"), ("Hi", "stop", None), None),
    "text parts": (choice(content=[{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]), ("Hi", "stop", None), None),
    "a thinking part": (
        choice(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]),
        ("Hi", "stop", "hm"), None),
    "a reasoning part": (
        choice(content=[{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"type": "output_text", "text": "Hi", "annotations": ["x"]}]),
        ("Hi", "stop", "hm"), None),
    "a field of thoughts": (choice(content="Which?", reasoning_content="hm"), ("Which?", "stop", "hm"), None),
    "openrouter's field of thoughts": (choice(content="Which?", reasoning="hm"), ("Which?", "stop", "hm"), None),
    "thoughts between tags": (choice(content="<think>hm</think>\n\nWhich?", reasoning_content=None), ("Which?", "stop", "hm"), None),
    "thoughts that the prompt opened": (choice(content="hm\n</think>\n\nWhich?"), ("Which?", "stop", "hm"), None),
    "thoughts that never end": (choice("length", content="<think>on and on"), ("", "length", "on and on"), "only_thoughts"),
    "no reason": (choice(None, content="Hi"), ("Hi", "other", None), None),
    "google's reason": (choice("MAX_TOKENS", content="Hi"), ("Hi", "length", None), None),
    "silence": (choice(content=""), ("", "stop", None), "empty_reply"),
    "cut off before the first word": (choice("length", content=""), ("", "length", None), "empty_reply"),
    "cut off in its thoughts": (choice("length", content=None, reasoning="on and on"), ("", "length", "on and on"), "only_thoughts"),
    "refusal": (choice(content=None, refusal="I cannot."), ("I cannot.", "refused", None), "model_refused"),
    "a refusing part": (choice(content=[{"type": "refusal", "refusal": "I cannot."}]), ("I cannot.", "refused", None), "model_refused"),
    "content filter": (choice("content_filter", content=""), ("", "refused", None), "model_refused"),
    "content filter without content": (choice("SAFETY"), ("", "refused", None), "model_refused"),
    "tool call": (choice("tool_calls", content=None, tool_calls=CALL), ("", "tool_calls", None), "tool_call"),
    "tool call that stops": (choice("stop", content="", tool_calls=CALL), ("", "tool_calls", None), "tool_call"),
    "words beside a tool call": (choice("tool_calls", content="Hi", tool_calls=CALL), ("Hi", "other", None), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_what_an_agent_did_is_its_reply_and_is_not_asked_for_again(name):
    body, reply, failure = REPLIES[name]
    assert chat(says(body)) == (reply, 1)
    assert chat(says(body), any_reply=False) == ((reply if failure is None else failure), 1)


FAULTS = {
    "loading": choice("load", content=""),
    "aborted": choice("abort", content="I WANT TO ANS"),
    "out of resources": choice("insufficient_system_resource", content="I"),
    "an error in a choice": {"choices": [{"index": 0, "error": {"code": 502, "message": "Upstream"}, "finish_reason": "error"}]},
    "half a reply and an error": {"choices": [{"message": {"content": "I WANT"}, "error": {"code": 502, "message": "Upstream"}, "finish_reason": "stop"}]},
    "an error in place of choices": {"error": {"message": "Provider returned error", "code": 502}},
    "an error that is a text": {"error": "upstream connect error"},
    "no choices": {"choices": []},
    "null choices": {"choices": None},
    "a null message": {"choices": [{"message": None, "finish_reason": "stop"}]},
    "null content": choice(content=None),
    "nothing, for no reason": choice(None, content=""),
    "an unknown part": choice(content=[{"type": "hologram", "data": 1}]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("any_reply", [True, False])
def test_what_a_server_did_is_asked_for_again_and_then_a_failure(name, any_reply):
    kind, asked = chat(says(FAULTS[name]), any_reply=any_reply)
    assert kind in {"server_error", "empty_reply", "malformed_reply"} and asked == 2
    assert chat(says(FAULTS[name]), says(), any_reply=any_reply) == (("hello", "stop", None), 2)


def test_a_reply_in_pieces_is_put_together():
    pieces = [("role", "assistant"), ("reasoning", "h"), ("reasoning", "m")]
    pieces += [("content", "H"), ("content", "i")]
    frames = [{"choices": [{"index": 0, "delta": {name: value}}]} for name, value in pieces]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in [*frames, end])
    headers = {"Content-Type": "text/event-stream"}
    assert chat(says(text=f"{text}data: [DONE]\n\n", headers=headers)) == (("Hi", "length", "hm"), 1)
    half = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    assert chat(says(text=half, headers=headers)) == ("malformed_reply", 2)


async def test_fields_and_headers_of_ones_own_are_sent_and_null_leaves_a_field_out():
    heard = []

    async def answer(request):
        heard.append((dict(request.headers), await request.json()))
        return await says(OK)(request)

    fields, headers = {"top_p": None, "reasoning_effort": "low"}, {"api-key": "k", "X-Title": "t"}
    async with client_of(answer, request=fields, headers=headers) as (client, _):
        await client.chat(BODY)
    ((headers, body),) = heard
    assert body == {key: value for key, value in BODY.items() if key != "top_p"} | {"reasoning_effort": "low"}
    assert (headers["api-key"], headers["X-Title"]) == ("k", "t")


def test_a_server_that_loads_is_waited_for_and_one_that_never_comes_up_is_not(capsys):
    loading = says(error("Loading model", code=503), status=503)
    hello = ("hello", "stop", None)

    def after(wait_s, *answers, **settings):
        return chat(*answers, server_wait_s=wait_s, sleep_s=0.01, **settings)

    assert after(5, *[loading] * 8, says()) == (hello, 9)
    assert "waiting for it, at most 5 s (--server_wait_s)" in capsys.readouterr().err
    assert after(0, *[loading] * 8, says()) == ("server_error", 2)
    kind, asked = after(0.1, loading)
    assert (kind, asked > 3) == ("server_error", True)
    kind, asked = after(0.1, loading, attempts=100)
    assert (kind, asked < 60) == ("server_error", True)  # and when it is over, it is over


async def test_a_server_whose_process_starts_is_waited_for():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    retry = RetryPolicy(attempts=1, server_wait_s=20)
    url = f"http://127.0.0.1:{port}/v1"
    client = OpenAIClient([url], retry=retry, sleep=lambda _: asyncio.sleep(0.05))
    asking = asyncio.create_task(client.chat(BODY))
    await asyncio.sleep(0.3)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", says())
    async with listening(app, "127.0.0.1", port):
        assert (await asking).content == "hello"
        await client.close()


@pytest.mark.parametrize(
    ("variables", "through"),
    [
        ({"HTTP_PROXY": "PROXY"}, True), ({"http_proxy": "PROXY"}, True), ({"ALL_PROXY": "PROXY"}, True),
        ({"HTTPS_PROXY": "PROXY"}, False), ({"HTTP_PROXY": "PROXY", "NO_PROXY": "localhost,127.0.0.1"}, False),
        ({"HTTP_PROXY": "PROXY", "NO_PROXY": "example.org"}, True), ({}, False),
    ],
)  # fmt: skip
async def test_proxies_of_the_environment_are_honoured(variables, through, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    forwarded = []

    async def forward(request):
        forwarded.append(str(request.url))
        return await says()(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    async with listening(app, "127.0.0.1", 0) as port:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("PROXY", f"http://127.0.0.1:{port}"))
        async with client_of(says()) as (client, asked):
            await client.chat(BODY)
    assert (len(asked), bool(forwarded)) == (not through, through)


LEFT = "the server's own default holds"
# a quirk of the stub server among the inputs that failed once; what comes of one turn of an agent, and what is said of it
QUIRKS = {
    **dict.fromkeys("abort load or_choice_err or_err or_partial".split(), ("server_error",)),
    **dict.fromkeys(
        """alternate ctx_some_gemini ctx_some_groq ctx_some_tgi empty int32 list list_think
        loading nomodels nousage or_mixed textcompl usagenull vllm_lpinf vllm_lpnan
        vllm_lpnull vllm_lpok""".split(), ("stop",)
    ),
    **dict.fromkeys("content_filter refusal".split(), ("refused",)),
    **dict.fromkeys("ctx_all ctx_gemini ctx_groq ctx_tgi".split(), ("context_full",)),
    **dict.fromkeys("finishnull sse".split(), ("other",)),
    "html": ("malformed_reply",),
    **dict.fromkeys("lmstudio_nov1 redirect".split(), ("ServiceError",)),
    "toolcalls": ("tool_calls",),
    "claude": ("stop", f"top_p 1.0 is left out: {LEFT}"),
    "gemma": ("stop", "the system text opens the first user message"),
    "gpt5": ("stop", "max_tokens is sent as max_completion_tokens", f"temperature 0 is left out: {LEFT}"),
    "noseed": ("stop", "seed is sent as random_seed"),
    "vllm_topk": ("stop", "top_k 0 is sent as -1"),
}  # fmt: skip


async def one_turn(quirk, port):
    place = f"http://127.0.0.1:{port}" + ("" if quirk == "lmstudio_nov1" else "/v1")
    client = OpenAIClient([place], retry=RetryPolicy(server_wait_s=60), sleep=lambda _: asyncio.sleep(0.2))
    api = "completions" if quirk.startswith("vllm_lp") else "chat"
    temperature = 0.5 if quirk == "claude" else 0
    policy = OpenAIPolicy(client, "m", system_prompt="Rules.", api=api, temperature=temperature)
    try:
        turn = await policy.act(Observation("t", (Message("user", "Hi."),), 3))
        result = turn.completion.finish_reason.value
    except EpisodeError as error:
        result = error.failure.kind
    except ServiceError:
        result = "ServiceError"
    finally:
        await policy.close()
    return result, *[change.rpartition("): ")[2] for change in client.stats.changes]


def test_every_quirk_of_the_stub_server_has_its_cure(shared, monkeypatch):
    """A server in a thread for each quirk, all asked at once; one of them loads for a second, not for twenty."""
    text = (shared / "cases/servers/stub_server.py").read_text()
    assert set(re.findall(r"\b(?:q|quirk) == \"(\w+)\"", text)) <= QUIRKS.keys()
    code, ports = compile(text.partition("srv = ")[0].replace("< 20:", "< 1:"), "stub_server.py", "exec"), {}
    with contextlib.ExitStack() as stack:
        for quirk in QUIRKS:
            monkeypatch.setattr(sys, "argv", ["stub_server.py", quirk, os.devnull])
            exec(code, made := {})
            stack.callback(made["log"].close)
            server = stack.enter_context(made["S"](("127.0.0.1", 0), made["H"]))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
            ports[quirk] = server.server_address[1]

        async def main():
            return await asyncio.gather(*(one_turn(quirk, port) for quirk, port in ports.items()))

        found = dict(zip(QUIRKS, asyncio.run(main()), strict=True))
    assert found == QUIRKS
