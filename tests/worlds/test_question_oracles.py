"""Oracles with a model behind them: in this process, and behind servers of two kinds."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.serving import listening
from sweet_rl.types import Message, UserContext
from sweet_rl.worlds import world_of
from sweet_rl.worlds.question_games import question_of
from sweet_rl.worlds.question_games.oracles import GradioOracle, OpenAIOracle, Seq2SeqOracle, open_oracle

OBJECTS, CITIES = (world_of(name).user.oracle.__self__ for name in ("twenty_questions", "guess_my_city"))


def about(hidden, *turns):
    """What an oracle is told; the turns are question, answer, question, ..."""
    said = [Message(("assistant", "user")[i % 2], text) for i, text in enumerate(turns)]
    return UserContext("Questions:\n", hidden, (Message("user", "Questions:\n"), *said))


QUESTION = about("soccer ball", "Is it alive?", "No.", "Is it round?")


async def no_wait(_seconds):
    pass


async def slow(_request):
    await asyncio.sleep(5)


@asynccontextmanager
async def asked_of(make, handler, *how, **more):
    """An oracle of a server on a free port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with listening(app, "127.0.0.1", 0) as port:
        oracle = make(f"http://127.0.0.1:{port}", *how, **more)
        yield oracle
        await oracle.close()


def gradio(url, asking=OBJECTS, **more):
    return GradioOracle(asking, url, **more)


def openai(url, asking, *, attempts=1):
    retry = RetryPolicy(attempts=attempts)
    return OpenAIOracle(asking, OpenAIClient([url], retry=retry, sleep=no_wait), "some-model")


def test_the_published_prompts():
    assert OBJECTS.published(QUESTION) == "The object is soccer ball.Is it round?"
    assert CITIES.published(about("London, UK", "Is it hot?")) == "Your home town is London, UK.Is it hot?"
    assert (OBJECTS.max_new_tokens, CITIES.max_new_tokens) == (16, 64)
    assert question_of(about("x")) == ""
    with pytest.raises(UsageError, match="has no oracle that a model plays"):
        world_of("webshop").user.make_oracle("gradio", "http://x")


class Gradio:
    """A fake of the server, of one generation or another; answers with the last word of each item."""

    def __init__(self, generation, answer=lambda items: ",,,,,".join(item.split()[-1] for item in items)):
        self.prefix, self.queued = {
            "5": ("/gradio_api/call/predict", True),
            "4": ("/call/predict", True),
            "3": ("/run/predict", False),
        }[generation]
        self.answer = answer
        self.batches = []
        self.paths = []
        self.troubles = []

    async def handle(self, request):
        self.paths.append((request.method, request.path))
        if self.troubles and request.path.startswith(self.prefix):
            return self.troubles.pop(0)()
        if request.method == "POST" and request.path == self.prefix:
            (text,) = (await request.json())["data"]
            self.batches.append(text.split(",,,,,"))
            await asyncio.sleep(0.02)
            return web.json_response({"event_id": "e1"} if self.queued else {"data": [self.said()]})
        if self.queued and (request.method, request.path) == ("GET", f"{self.prefix}/e1"):
            events = f"event: heartbeat\ndata: null\n\nevent: complete\ndata: {json.dumps([self.said()])}\n\n"
            return web.Response(text=events, content_type="text/event-stream")
        return web.json_response({"detail": "Not Found"}, status=404)

    def said(self):
        return self.answer(self.batches[-1])


@pytest.mark.parametrize("generation", ["5", "4", "3"])
async def test_gradio_servers_of_every_generation(generation):
    fake = Gradio(generation)
    async with asked_of(gradio, fake.handle) as oracle:
        first = await oracle.reply(QUESTION)
        assert fake.batches == [["The object is soccer ball.Is it round?Yes or No"]]
        tried = len(fake.paths)
        second = await oracle.reply(about("dog", "Is it,,,,,, alive?"))
        assert fake.batches[1] == ["The object is dog.Is it, alive?Yes or No"]
        assert len(fake.paths) - tried == (1 if generation == "3" else 2)  # no route is tried again
    assert [(reply.content, reply.failure) for reply in (first, second)] == [("No", None)] * 2


async def test_questions_that_wait_for_gradio_share_a_batch():
    fake = Gradio("3", answer=lambda items: ",,,,,".join(item.split("?")[0][-1] for item in items))
    async with asked_of(gradio, fake.handle, CITIES, max_batch=4) as oracle:
        replies = await asyncio.gather(*(oracle.reply(about("Oslo", f"{n}?")) for n in range(10)))
    assert [reply.content for reply in replies] == [str(n) for n in range(10)]
    assert [len(batch) for batch in fake.batches] == [4, 4, 2]
    assert fake.batches[0][0] == "Your home town is Oslo.0?"


def events(text):
    return lambda: web.Response(text=text, content_type="text/event-stream")


def ACCEPTED():
    return web.json_response({"event_id": "e1"})


@pytest.mark.parametrize(
    ("troubles", "kind"),
    [
        ([lambda: web.Response(status=500, text="out of memory")], "server_error"),
        ([lambda: web.json_response({"event": 1})], "malformed_reply"),
        ([ACCEPTED, events("event: error\ndata: null\n\n")], "server_error"),
        ([ACCEPTED, events("event: heartbeat\n\n")], "malformed_reply"),
        ([ACCEPTED, events('event: complete\ndata: ["a,,,,,b"]\n\n')], "malformed_reply"),
        ([ACCEPTED, events("event: complete\ndata: [7]\n\n")], "malformed_reply"),
    ],
)
@pytest.mark.parametrize("attempts", [1, 2])
async def test_what_a_gradio_server_does_wrong_is_tried_again_and_then_recorded(troubles, kind, attempts):
    fake = Gradio("5")
    fake.troubles = list(troubles)
    retry = RetryPolicy(attempts=attempts)
    async with asked_of(gradio, fake.handle, retry=retry, sleep=no_wait) as oracle:
        reply = await oracle.reply(QUESTION)
    said = (reply.failure and reply.failure.kind, reply.content)
    assert said == ((kind, "No response.") if attempts == 1 else (None, "No"))


async def test_a_gradio_server_that_is_slow():
    patience = RetryPolicy(attempts=2, timeout_s=0.05)
    async with asked_of(gradio, slow, retry=patience, sleep=no_wait) as oracle:
        reply = await oracle.reply(QUESTION)
    assert (reply.failure.kind, reply.failure.attempts) == ("timeout", 2)


def test_a_gradio_server_that_is_not_there_ends_the_run():
    async def main():
        oracle = GradioOracle(OBJECTS, "http://127.0.0.1:9", sleep=no_wait)
        results = await asyncio.gather(*(oracle.reply(QUESTION) for _ in range(3)), return_exceptions=True)
        await oracle.close()
        return results

    for error in asyncio.run(main()):
        assert isinstance(error, ServiceError)
        assert "No oracle answers at http://127.0.0.1:9 (4 attempts" in str(error)


async def test_closing_cancels_who_still_waits():
    async with asked_of(gradio, slow) as oracle:
        asked = [asyncio.create_task(oracle.reply(QUESTION)) for _ in range(2)]
        await asyncio.sleep(0.05)
        await oracle.close()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(result, BaseException) for result in results)


async def test_an_openai_server_is_asked_one_question_at_a_time():
    asked = []

    async def chat(request):
        asked.append(await request.json())
        return web.json_response({"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]})

    async with asked_of(openai, chat, OBJECTS) as oracle:
        assert (await oracle.reply(QUESTION)).content == "Yes"
    (body,) = asked
    assert (body["model"], body["temperature"]) == ("some-model", 0)
    (message,) = body["messages"]
    assert "Your secret object is: soccer ball." in message["content"]
    assert "Question: Is it round?\n" in message["content"]
    assert "Is it alive?" not in message["content"]


async def test_an_openai_server_that_fails_is_a_recorded_failure():
    async def refuse(_request):
        return web.json_response({"error": {"message": "overloaded"}}, status=503)

    async with asked_of(openai, refuse, CITIES, attempts=2) as oracle:
        failure = (await oracle.reply(about("Oslo, Norway", "Is it cold?"))).failure
    assert (failure.kind, failure.status, failure.attempts) == ("server_error", 503, 2)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A random T5 of two layers with the tokenizer of the tiny models."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from tests.tiny_models import tiny_tokenizer

    folder = tmp_path_factory.mktemp("t5")
    tokenizer = tiny_tokenizer(chat_template=None)
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    size = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "initializer_factor": 3.0}
    ids = dict.fromkeys(("decoder_start_token_id", "pad_token_id", "eos_token_id"), tokenizer.pad_token_id)
    config = T5Config(vocab_size=len(tokenizer), **size, **ids)
    model = T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.save({"model_state_dict": model.state_dict()}, folder / "same.pt")
    other = T5ForConditionalGeneration(config)
    wrapped = {f"module.{key}": value for key, value in other.state_dict().items()}
    torch.save({"model_state_dict": wrapped}, folder / "other.pt")
    torch.save(wrapped, folder / "bare.pt")
    torch.save({"model_state_dict": {"a": torch.zeros(1)}}, folder / "foreign.pt")
    torch.save(other, folder / "pickled.pt")
    return folder


def ask_all(oracle, contexts):
    async def main():
        try:
            return [reply.content for reply in await asyncio.gather(*map(oracle.reply, contexts))]
        finally:
            await oracle.close()

    return asyncio.run(main())


HARD = [
    QUESTION,
    about("dog", "Is it alive?"),
    about("pen", "Would you find it in an office?"),
    about("dog", ""),
]


def test_seq2seq_answers_greedily_whatever_shares_the_batch(t5):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    together = ask_all(Seq2SeqOracle(OBJECTS, t5), HARD)
    alone = [ask_all(Seq2SeqOracle(OBJECTS, t5, max_batch=1), [context])[0] for context in HARD]
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(t5), AutoTokenizer.from_pretrained(t5)
    by_hand = []
    for context in HARD:
        prompt = f"The object is {context.hidden_information}.{context.messages[-1].content}"
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        by_hand.append(tokenizer.decode(model.generate(ids, max_new_tokens=16)[0], skip_special_tokens=True))
    assert together == alone == by_hand
    assert len(set(together)) > 1
    assert any(together)


def test_seq2seq_weights_replace_the_models_own(t5):
    def answers(weights):
        return ask_all(Seq2SeqOracle(CITIES, t5, weights=weights), HARD)

    assert answers(None) == answers(t5 / "same.pt") != answers(t5 / "other.pt")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("nowhere.pt", "There are no oracle weights at"),
        ("bare.pt", "has no 'model_state_dict' of this model"),
        ("foreign.pt", "has no 'model_state_dict' of this model.*Missing key"),
        ("pickled.pt", "cannot be read as plain weights"),
        ("config.json", "cannot be read as plain weights"),
    ],
)
def test_seq2seq_weights_that_do_not_fit(t5, weights, message):
    with pytest.raises(UsageError, match=message):
        Seq2SeqOracle(OBJECTS, t5, weights=t5 / weights)


async def test_opening_an_oracle(t5, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    oracles = [
        open_oracle(OBJECTS, "seq2seq", str(t5)),
        open_oracle(OBJECTS, "seq2seq", str(t5 / "other.pt"), model=str(t5)),
        open_oracle(CITIES, "openai", "http://x:8000/v1", model="m", api_key="key"),
        open_oracle(CITIES, "gradio", "http://127.0.0.1:7860/"),
    ]
    names = [str(t5), str(t5 / "other.pt"), "m", "gradio http://127.0.0.1:7860"]
    assert [oracle.name for oracle in oracles] == names

    for oracle in oracles:
        await oracle.close()


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("crystal ball", "x", "seq2seq, openai, gradio or embedded, got 'crystal ball'"),
        ("openai", "http://x/v1", "needs the name of a model"),
        ("gradio", "127.0.0.1", "looks like"),
        ("seq2seq", "no/such/folder", "No tokenizer could be loaded"),
    ],
)
def test_oracles_that_cannot_be_opened(kind, path, message):
    with pytest.raises(UsageError, match=message):
        open_oracle(OBJECTS, kind, path)
