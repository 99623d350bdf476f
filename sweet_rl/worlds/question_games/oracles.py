"""Models as oracles of the question games: in this process (an encoder-decoder), behind a server, or behind
the published gradio server.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from sweet_rl import tracking
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import load_tokenizer
from sweet_rl.contracts import User
from sweet_rl.errors import ServiceError, UsageError, missing_package
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy, base_url_from, shown
from sweet_rl.openai_client.client import not_answered, tried
from sweet_rl.openai_client.replies import failed_status
from sweet_rl.openai_client.retries import AttemptFailed
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.types import NO_RESPONSE, Json, UserContext, UserReply
from sweet_rl.users.model import ask
from sweet_rl.worlds.question_games import Asking, question_of

KINDS: Final = ("seq2seq", "openai", "gradio")

BASE_MODEL: Final = "google/flan-t5-small"  # what the published weights were fine-tuned from
MAX_PROMPT_TOKENS: Final = 512  # what T5 was trained to read; a longer prompt loses its end
WEIGHTS_KEY: Final = "model_state_dict"  # where the published file keeps the weights
SEPARATOR: Final = ",,,,,"  # between the items of a batch of the gradio server, and between their answers

# Gradio 5 and 6, and from 4.20 on: a POST gives an event's id, a GET of that id its events. Before: a POST answers.
_QUEUED_ROUTES: Final = ("/gradio_api/call/predict", "/call/predict")
_DIRECT_ROUTES: Final = ("/run/predict", "/api/predict")
_PATIENCE: Final = RetryPolicy(timeout_s=120.0)


def open_oracle(
    asking: Asking,
    kind: str,
    path: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    concurrency: int = 64,
    **client: Any,
) -> User:
    """Who answers: one of `KINDS`, from a folder, a file of weights or a server's address."""
    if kind == "seq2seq":
        if Path(path).suffix in {".pt", ".pth", ".bin"}:
            return Seq2SeqOracle(asking, model or BASE_MODEL, weights=path, max_batch=concurrency)
        return Seq2SeqOracle(asking, path, max_batch=concurrency)
    if kind == "openai":
        if not model:
            raise UsageError(f"The server at {path!r} needs the name of a model: give one.")
        urls = base_url_from("", 0, path)
        asked = OpenAIClient(urls, api_key=api_key, max_connections=concurrency, **client)
        return OpenAIOracle(asking, asked, model)
    if kind == "gradio":
        return GradioOracle(asking, path, max_batch=concurrency)
    raise UsageError(f"An oracle is one of {', '.join(KINDS)} or embedded, got {kind!r}.")


class OpenAIOracle:
    """Asks a model each question by itself, as the published oracles are."""

    def __init__(self, asking: Asking, client: OpenAIClient, model: str) -> None:
        self.name, self._client = model, client
        self._template = load_prompt(asking.template)

    async def reply(self, context: UserContext) -> UserReply:
        """One chat completion at temperature 0; `UserReply.failure` says why there is none."""
        prompt = fill(self._template, hidden=context.hidden_information, question=question_of(context))
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.name, "messages": messages, "max_tokens": 64, "temperature": 0}
        return await ask(self._client, body)

    async def close(self) -> None:
        await self._client.close()


class Seq2SeqOracle:
    """Answers greedily with the published prompt, in batches. A file of weights is read as data, never run."""

    def __init__(
        self, asking: Asking, model: str | Path, *, weights: str | Path | None = None, max_batch: int = 64
    ) -> None:
        try:
            import torch
            from transformers import AutoModelForSeq2SeqLM
        except ImportError as error:
            raise missing_package(
                "transformers", "transformers", needed_for="an oracle in process"
            ) from error
        self.name = str(weights or model)
        self._asking = asking
        self._tokenizer = load_tokenizer(model)
        try:
            self._model = AutoModelForSeq2SeqLM.from_pretrained(str(model)).eval()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"No encoder-decoder could be loaded from {str(model)!r}: {str(error).splitlines()[0]} Name a "
                "folder with such a model, or one that is in the local cache or on the hub."
            ) from error
        if weights is not None:
            _put_weights(self._model, Path(weights).expanduser())
        self._model = self._model.to("cuda" if torch.cuda.is_available() else "cpu")
        self._usage = tracking.meter(self.name, "user")
        self._batcher = MicroBatcher(self._engine, max_batch=max_batch)

    async def reply(self, context: UserContext) -> UserReply:
        return UserReply(await self._batcher.submit(self._asking.published(context)))

    async def close(self) -> None:
        await self._batcher.close()

    def _engine(self, prompts: Sequence[str]) -> Generator[list[tuple[int, str]], None, None]:
        """In the batcher's thread: all answers of a batch."""
        import torch

        self._usage.requests += len(prompts)
        batch = self._tokenizer(
            list(prompts), padding=True, truncation=True, max_length=MAX_PROMPT_TOKENS, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            written = self._model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=self._asking.max_new_tokens,
                do_sample=False,
                num_beams=1,
            )
        padding = self._tokenizer.pad_token_id
        for read, wrote in zip(batch["attention_mask"].sum(dim=1).tolist(), written.tolist(), strict=True):
            self._usage.add(read, sum(token != padding for token in wrote))
        yield list(enumerate(self._tokenizer.batch_decode(written, skip_special_tokens=True)))


def _put_weights(model: Any, path: Path) -> None:
    """Replace the model's weights by those of a file."""
    import torch

    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        state = saved[WEIGHTS_KEY]
        model.load_state_dict({str(key).removeprefix("module."): value for key, value in state.items()})
    except FileNotFoundError:
        raise UsageError(
            f"There are no oracle weights at {str(path)!r} (from {str(Path.cwd())!r})."
        ) from None
    except (pickle.UnpicklingError, EOFError, OSError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as plain weights: {str(error).splitlines()[0]} Save it again "
            f"with torch.save({{{WEIGHTS_KEY!r}: model.state_dict()}}, path)."
        ) from error
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise UsageError(
            f"{str(path)!r} has no {WEIGHTS_KEY!r} of this model: {' '.join(str(error).split())[:300]} Name the "
            "model that they were trained from."
        ) from error


class GradioOracle:
    """The published server: `predict(text)`, where a batch is one string, its items joined by five commas.

    Questions that wait are one batch; while it is answered, others gather. Spoken here without gradio's client, to
    servers old and new.
    """

    def __init__(
        self,
        asking: Asking,
        url: str,
        *,
        max_batch: int = 32,
        retry: RetryPolicy = _PATIENCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._asking, self._retry, self._sleep = asking, retry, sleep
        (self._url,) = base_url_from("", 0, url)
        self.name = f"gradio {shown(self._url)}"
        self._routes: tuple[str, ...] = (*_QUEUED_ROUTES, *_DIRECT_ROUTES)
        self._session: aiohttp.ClientSession | None = None
        self._batcher = MicroBatcher(self._engine, max_batch=max_batch)
        self._under_way: Future[list[UserReply]] | None = None

    async def reply(self, context: UserContext) -> UserReply:
        self._loop = asyncio.get_running_loop()
        item = re.sub(",{2,}", ",", self._asking.published(context)) + self._asking.suffix
        return await self._batcher.submit(item)

    async def close(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()
        await self._batcher.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _engine(self, items: Sequence[str]) -> Generator[list[tuple[int, UserReply]], None, None]:
        """In the batcher's thread: one answer for each item, or the same failure for each."""
        self._under_way = asyncio.run_coroutine_threadsafe(self._answers(items), self._loop)
        yield list(enumerate(self._under_way.result()))

    async def _answers(self, items: Sequence[str]) -> list[UserReply]:
        try:
            return await tried(partial(self._predict, items), self._retry, self._sleep)
        except RequestFailed as error:
            if error.failure.kind == "connection":
                raise ServiceError(
                    f"No oracle answers at {shown(self._url)} ({error.failure.attempts} attempts; the last one: "
                    f"{error.failure.detail}). Correct the address or start the server."
                ) from error
            return [UserReply(NO_RESPONSE, error.failure)] * len(items)

    async def _predict(self, items: Sequence[str]) -> list[UserReply]:
        """Send a batch once, by the first route that the server has; it is remembered."""
        body = {"data": [SEPARATOR.join(items)]}
        for route in self._routes:
            try:
                content = await self._send("POST", route, body)
            except AttemptFailed as failed:
                if failed.status in {404, 405} and route != self._routes[-1]:
                    continue
                raise
            if route in _QUEUED_ROUTES:
                event = _parsed(content, "event_id", str)
                data = _parsed(_last_event(await self._send("GET", f"{route}/{event}")), None, list)
            else:
                data = _parsed(content, "data", list)
            self._routes = (route,)
            break
        answers = data[0].split(SEPARATOR) if data and isinstance(data[0], str) else data and data[0]
        if not isinstance(answers, list) or [type(one) for one in answers] != [str] * len(items):
            detail = f"{len(items)} questions were asked, and the answer is {str(data)[:100]!r}"
            raise AttemptFailed("malformed_reply", detail)
        return [UserReply(answer.strip()) for answer in answers]

    async def _send(self, method: str, route: str, body: Json = None) -> bytes:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._retry.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.request(method, self._url + route, json=body) as response:
                content, status, headers = await response.read(), response.status, response.headers
        except (aiohttp.ClientError, OSError) as error:
            raise not_answered(error, self._retry.timeout_s) from error
        if status >= 300:
            raise failed_status(status, headers, content)
        return content


def _last_event(stream: bytes) -> bytes:
    """The data of the event that ends a stream of server-sent events."""
    for block in reversed(re.split(r"\r?\n\r?\n", stream.decode("utf-8", "replace").strip())):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("event") == "complete":
            return fields.get("data", "").encode()
        if fields.get("event") == "error":
            detail = f"the server's function failed: {fields.get('data', '')}"[:300]
            raise AttemptFailed("server_error", detail)
    raise AttemptFailed("malformed_reply", "the event stream ends without an answer")


def _parsed(content: bytes, field: str | None, kind: type) -> Json:
    """JSON of a reply, or one field of it, which must be of a kind."""
    try:
        value = json.loads(content)
        value = value if field is None else value[field]
    except (ValueError, LookupError, TypeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        begins = content[:100].decode("utf-8", "replace")
        raise AttemptFailed("malformed_reply", f"the reply begins {begins!r}")
    return value
