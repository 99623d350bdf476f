"""What is sent to a server, what is made of its answers, and what becomes of its refusals."""

import asyncio
import json

import pytest
from tokenizers.processors import TemplateProcessing

from sweet_rl.chat import PlainChat, TokenizerChat
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.openai_client import ChatReply, RequestFailed
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.types import Failure, FinishReason, StopReason
from tests.tiny_models import BEGIN, tiny_tokenizer

VLLM = [{"id": "M", "owned_by": "vllm", "max_model_len": 64}]
OTHER = [{"id": "M", "owned_by": "somebody"}]


class Server:
    """A client of nobody: remembers bodies, gives one prepared choice for each completion asked for."""

    def __init__(self, models=OTHER, choice=None, chat=None, error=None, choices_at_most=99):
        self.bodies, self.asked_for_models, self.closed = [], 0, False
        self._models, self._error, self._choices_at_most = models, error, choices_at_most
        self._choice = choice or {"text": "Fine.", "finish_reason": "stop", "logprobs": None}
        self._chat = chat or ChatReply("Fine.", FinishReason.STOP)

    async def complete(self, body):
        self.bodies.append(body)
        if self._error:
            raise RequestFailed(self._error)
        return [self._choice] * min(body["n"], self._choices_at_most)

    async def chat(self, body, *, any_reply):
        assert any_reply
        self.bodies.append(body)
        return self._chat

    async def models(self, *, needed):
        assert not needed
        self.asked_for_models += 1
        await asyncio.sleep(0)
        return self._models

    async def close(self):
        self.closed = True


def act(client, *observations, **options):
    async def main():
        policy = OpenAIPolicy(client, "M", **options)
        try:
            return await asyncio.gather(*map(policy.act, observations))
        finally:
            await policy.close()

    return asyncio.run(main())


def test_the_string_that_is_sent_is_the_one_recorded(observe):
    server = Server()
    (generation,) = act(server, observe("Hi."), system_prompt="Rules.", temperature=0.7, max_tokens=9)
    (body,) = server.bodies
    assert body.pop("seed") >= 0
    prompt = "### system:\nRules.\n\n### user:\nHi.\n\n### assistant:\n"
    assert body == {"model": "M", "prompt": prompt, "temperature": 0.7, "top_p": 1.0, "max_tokens": 9, "n": 1}
    said = generation.completion
    assert (generation.input, said.text, said.token_ids, said.logprobs) == (prompt, "Fine.", None, None)
    assert server.closed


def test_vllm_is_told_to_add_no_begin_token_and_asked_for_tokens(observe):
    choice = {"text": "Fine.", "finish_reason": FinishReason.LENGTH, "token_ids": [5, 3]}
    server = Server(VLLM, choice | {"logprobs": {"token_logprobs": [-1.5, -0.5]}})
    (generation,) = act(server, observe("Hi."), chat_format=TokenizerChat(tiny_tokenizer()), max_tokens=5)
    (body,) = server.bodies
    assert body["prompt"] == generation.input and body["prompt"].startswith(BEGIN)
    expected = {"add_special_tokens": False, "logprobs": 0, "return_token_ids": True}
    expected |= {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert {name: body[name] for name in expected} == expected
    said = generation.completion
    assert (said.token_ids, said.logprobs, said.finish_reason) == ((5, 3), (-1.5, -0.5), FinishReason.LENGTH)
    act(server, observe("Hi."), chat_format=PlainChat())  # there it adds its own begin token
    assert "add_special_tokens" not in server.bodies[1]


def test_a_server_that_adds_a_begin_token_gets_no_second_one(observe):
    def sent(tokenizer, models=OTHER):
        server = Server(models)
        (generation,) = act(server, observe("Hi."), chat_format=TokenizerChat(tokenizer))
        return server.bodies[0]["prompt"], generation.input

    ids, text = sent(tiny_tokenizer())
    assert ids == tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]
    assert ids.count(tiny_tokenizer().bos_token_id) == 1
    assert sent(tiny_tokenizer("{{ messages[0].content }}")) == ("Hi.", "Hi.")
    given, text = sent(tiny_tokenizer(), [{"id": "M", "owned_by": "me"}])  # llama-cpp-python takes no ids
    assert BEGIN + given == text and BEGIN not in given
    adds_none = tiny_tokenizer()  # as ChatML models: the template writes the begin token
    adds_none.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    given, text = sent(adds_none)
    assert given == text and text.startswith(BEGIN)


@pytest.mark.parametrize("owner", ["llamacpp", "me"])
def test_llama_cpp_is_asked_to_sample_by_temperature_alone(observe, owner):
    """Its server and llama-cpp-python's; left to themselves they take the 40 likeliest tokens and penalize repetitions."""
    server = Server([{"id": "M", "owned_by": owner}])
    act(server, observe("Hi."))
    (body,) = server.bodies
    assert (body["top_k"], body["min_p"], body["repeat_penalty"]) == (0, 0.0, 1.0)


@pytest.mark.parametrize(("words", "expected"), [(1, 5), (45, 3), (99, 1)])
def test_the_room_that_is_left_limits_the_turn(observe, words, expected):
    """A context of 64 tokens, 16 of them the template's; beyond it vLLM says so itself."""
    server = Server(VLLM)
    chat = TokenizerChat(tiny_tokenizer())
    (generation,) = act(server, observe("ab" * words), chat_format=chat, max_tokens=5)
    used = len(tiny_tokenizer()(generation.input, add_special_tokens=False)["input_ids"])
    assert server.bodies[0]["max_tokens"] == expected == max(1, min(5, 64 - used))


@pytest.mark.parametrize("taken", [None, [{"role": "user", "content": "Rules.\n\nHé."}]])
def test_chat_sends_messages_and_records_what_the_server_took_and_thought(observe, taken):
    server = Server(chat=ChatReply("Yes?", FinishReason.LENGTH, "hm", taken))
    (generation,) = act(server, observe("Hé."), api="chat", system_prompt="Rules.")
    sent = [{"content": "Rules.", "role": "system"}, {"content": "Hé.", "role": "user"}]
    assert server.bodies[0]["messages"] == sent
    assert json.loads(generation.input) == (taken or sent) and "é" in generation.input
    assert "prompt" not in server.bodies[0]
    said = generation.completion
    assert (said.text, said.finish_reason, said.thoughts) == ("Yes?", FinishReason.LENGTH, "hm")


@pytest.mark.parametrize(
    ("detail", "kind", "reason"),
    [
        ("This model's maximum context length is 512 tokens.", "context_full", StopReason.CONTEXT_FULL),
        ("temperature must be a number", "bad_request", StopReason.POLICY_FAILED),
        ("maximum context length", "server_error", StopReason.POLICY_FAILED),
    ],
)
def test_refusals(observe, detail, kind, reason):
    failure = Failure(kind, detail, 400, attempts=3)
    with pytest.raises(EpisodeError) as caught:
        act(Server(error=failure), observe("Hi."))
    assert (caught.value.stop_reason, caught.value.failure) == (reason, failure)
    with pytest.raises(EpisodeError, match="malformed_reply"):  # no empty turn
        act(Server(choice={"text": 5, "finish_reason": "stop"}), observe("Hi."))


def test_the_server_is_looked_at_once_and_a_wrong_name_is_told(observe):
    server, told = Server(VLLM), Server()
    act(server, observe("Hi."), observe("You."), observe("There."))
    act(told, observe("Hi."), server="other")
    assert (server.asked_for_models, told.asked_for_models) == (1, 0)
    with pytest.raises(UsageError, match="does not serve 'M', but 'other/name'"):
        act(Server([{"id": "other/name", "owned_by": "vllm"}]), observe("Hi."))
    with pytest.raises(UsageError, match="api must be"):
        OpenAIPolicy(Server(), "M", api="complete")


def test_every_turn_has_a_seed_of_its_own(observe):
    server = Server()
    act(server, observe("Hi."), observe("Hi.", seed=1), observe("Hi.", "What?", "That."), observe("Hi."))
    seeds = [body["seed"] for body in server.bodies]
    assert seeds[0] == seeds[3] and len(set(seeds)) == 3


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), None])
def test_a_log_probability_that_is_no_number_costs_the_log_probabilities_alone(observe, value):
    choice = {"text": "Fine.", "finish_reason": "stop", "token_ids": [5, 6]}
    choice["logprobs"] = {"token_logprobs": [-0.5, value]}
    (generation,) = act(Server(VLLM, choice=choice), observe("Hi."))
    completion = generation.completion
    assert (completion.text, completion.token_ids, completion.logprobs) == ("Fine.", (5, 6), None)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_sample_gives_as_many_as_asked_for_whatever_the_server_gives_at_once(api):
    server = Server(choices_at_most=2)
    prompts = ['[{"content":"a","role":"user"}]', '[{"content":"b","role":"user"}]']
    sampled = asyncio.run(OpenAIPolicy(server, "M", api=api).sample(prompts, 3))
    assert [len(completions) for completions in sampled] == [3, 3]
    seeds = {body["seed"] for body in server.bodies}
    assert len(seeds) == len(server.bodies) == (4 if api == "completions" else 6)
    if api == "chat":
        assert [body["messages"][0]["content"] for body in server.bodies].count("a") == 3
    else:
        assert sorted(body["n"] for body in server.bodies) == [1, 1, 3, 3]
