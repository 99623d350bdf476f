"""Models as oracles of the question games: in this process (an encoder-decoder), behind a server, or behind
the published gradio server.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp

from sweet_rl import tracking
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import load_tokenizer
from sweet_rl.contracts import User
from sweet_rl.errors import ServiceError, UsageError, missing_package
from sweet_rl.openai_client import OpenAIClient, RetryPolicy, base_url_from, shown
from sweet_rl.openai_client.replies import failed_status
from sweet_rl.openai_client.retries import AttemptFailed
from sweet_rl.prompts import check_placeholders, fill, load_prompt
from sweet_rl.types import NO_RESPONSE, Failure, Json, UserContext, UserReply
from sweet_rl.users.model import ask
from sweet_rl.worlds.question_games.game import Asking, question_of

KINDS: Final = ("seq2seq", "openai", "gradio")

BASE_MODEL: Final = "google/flan-t5-small"
"""What the published weights were fine-tuned from."""

MAX_PROMPT_TOKENS: Final = 512
"""What T5 was trained to read; a longer prompt loses its end."""

WEIGHTS_KEY: Final = "model_state_dict"
"""Where the published file keeps the weights."""

SEPARATOR: Final = ",,,,,"
"""Between the items of a batch of the gradio server, and between their answers."""

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
    """Asks a model each question by itself, as the published oracles are; a prompt of one's own has
    `{hidden}` and `{question}`."""

    def __init__(
        self,
        asking: Asking,
        client: OpenAIClient,
        model: str,
        *,
        prompt: str | None = None,
        max_tokens: int = 64,
    ) -> None:
        self.name = model
        self._client = client
        self._template = load_prompt(asking.template) if prompt is None else prompt
        check_placeholders(self._template, ("hidden", "question"), "of the oracle")
        self._max_tokens = max_tokens

    async def reply(self, context: UserContext) -> UserReply:
        """One chat completion at temperature 0; `UserReply.failure` says why there is none."""
        prompt = fill(self._template, hidden=context.hidden_information, question=question_of(context))
        return await ask(
            self._client,
            {
                "model": self.name,
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": self._max_tokens,
                "temperature": 0,
            },
        )

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()


class Seq2SeqOracle:
    """Answers greedily with the published prompt; calls that wait together become one batch.

    A file of weights (`model_state_dict`) is read as data: one that would run code is refused.
    """

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
        """The model's answer to the question asked last."""
        return UserReply(await self._batcher.submit(self._asking.published(context)))

    async def close(self) -> None:
        """Stop after the batch at hand; requests that still wait fail."""
        await self._batcher.close()

    def _engine(self, prompts: Sequence[str]) -> Generator[list[tuple[int, str]], None, None]:
        """In the batcher's thread: all answers of a batch."""
        import torch

        self._usage.requests += len(prompts)
        batch = self._tokenizer(
            list(prompts), padding=True, truncation=True, max_length=MAX_PROMPT_TOKENS, return_tensors="pt"
        ).to(self._model.device)
        try:
            with torch.inference_mode():
                written = self._model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=self._asking.max_new_tokens,
                    do_sample=False,
                    num_beams=1,
                )
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with {len(prompts)} questions in one batch of the oracle. Ask fewer at "
                "once, or put the oracle on the CPU."
            ) from error
        padding = self._tokenizer.pad_token_id
        for read, wrote in zip(batch["attention_mask"].sum(dim=1).tolist(), written.tolist(), strict=True):
            self._usage.add(read, sum(token != padding for token in wrote))
        yield list(enumerate(self._tokenizer.batch_decode(written, skip_special_tokens=True)))


def _put_weights(model: Any, path: Path) -> None:
    """Replace the model's weights by those of a file."""
    import torch

    if not path.is_file():
        raise UsageError(f"There are no oracle weights at {str(path)!r} (looked from {str(Path.cwd())!r}).")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as plain weights: {str(error).splitlines()[0]} Save it again "
            f"with torch.save({{{WEIGHTS_KEY!r}: model.state_dict()}}, path)."
        ) from error
    state = saved.get(WEIGHTS_KEY) if isinstance(saved, dict) else None
    if not isinstance(state, dict):
        keys = ", ".join(map(repr, list(saved)[:5])) if isinstance(saved, dict) else type(saved).__name__
        raise UsageError(f"{str(path)!r} has no {WEIGHTS_KEY!r}; it holds {keys}.")
    try:
        model.load_state_dict({str(key).removeprefix("module."): value for key, value in state.items()})
    except RuntimeError as error:
        first = " ".join(str(error).split())[:300]
        raise UsageError(
            f"The weights of {str(path)!r} are not those of this model: {first} Name the model that they "
            "were trained from."
        ) from error


class GradioOracle:
    """The published server: `predict(text)`, where a batch is one string, its items joined by five commas.

    Gathers the questions that wait and sends them as one text; while it is answered, others gather. Spoken here
    without gradio's client, to servers old and new.
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
        self._asking, self._max_batch = asking, max_batch
        (self._url,) = base_url_from("", 0, url)
        self.name = f"gradio {shown(self._url)}"
        self._retry, self._sleep, self._jitter = retry, sleep, random.Random()
        self._routes: tuple[str, ...] = (*_QUEUED_ROUTES, *_DIRECT_ROUTES)
        self._session: aiohttp.ClientSession | None = None
        self._waiting: deque[tuple[str, asyncio.Future[UserReply]]] = deque()
        self._unanswered: set[asyncio.Future[UserReply]] = set()
        self._dispatcher: asyncio.Task[None] | None = None

    async def reply(self, context: UserContext) -> UserReply:
        """The server's answer to the question asked last; `UserReply.failure` says why there is none."""
        item = re.sub(",{2,}", ",", self._asking.published(context)) + self._asking.suffix
        future: asyncio.Future[UserReply] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.create_task(self._dispatch())
        return await future

    async def close(self) -> None:
        """Close the connection; calls that still wait are cancelled."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.wait([self._dispatcher])
        for future in list(self._unanswered):
            future.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _dispatch(self) -> None:
        """Send batches until no caller is waiting."""
        while self._waiting:
            await asyncio.sleep(0)  # let everything that is ready now come in
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
            batch = [(item, future) for item, future in batch if not future.done()]
            if not batch:
                continue
            try:
                replies = await self._answers([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who asked
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), reply in zip(batch, replies, strict=True):
                if not future.done():
                    future.set_result(reply)

    async def _answers(self, items: Sequence[str]) -> list[UserReply]:
        """One answer for each item, or the same failure for each."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return [UserReply(text) for text in await self._predict(items)]
            except AttemptFailed as failed:
                if failed.can_pass and attempt < self._retry.attempts:
                    await self._sleep(self._retry.wait_s(attempt, failed.retry_after_s, self._jitter))
                    continue
                if failed.kind == "connection":
                    raise ServiceError(
                        f"No oracle answers at {shown(self._url)} ({attempt} attempts; the last one: "
                        f"{failed.detail}). Correct the address or start the server."
                    ) from failed
                failure = Failure(failed.kind, failed.detail, failed.status, attempt)
                return [UserReply(NO_RESPONSE, failure)] * len(items)

    async def _predict(self, items: Sequence[str]) -> list[str]:
        """Send a batch once, by the first route that the server has; it is remembered."""
        body = {"data": [SEPARATOR.join(items)]}
        for route in self._routes:
            try:
                content = await self._send("POST", route, body)
                if route in _QUEUED_ROUTES:
                    event = _parsed(content, "event_id", str)
                    content = _last_event(await self._send("GET", f"{route}/{event}"))
                    data: Json = _parsed(content, None, list)
                else:
                    data = _parsed(content, "data", list)
            except AttemptFailed as failed:
                if failed.status in {404, 405} and route != self._routes[-1]:
                    continue
                raise
            self._routes = (route,)
            answers = data[0] if data else None
            if isinstance(answers, str):
                answers = answers.split(SEPARATOR)
            if (
                isinstance(answers, list)
                and len(answers) == len(items)
                and all(isinstance(answer, str) for answer in answers)
            ):
                return [answer.strip() for answer in answers]
            detail = f"{len(items)} questions were asked, and the answer is {str(data)[:100]!r}"
            raise AttemptFailed("malformed_reply", detail, can_pass=True)
        raise AssertionError("there is always a last route")

    async def _send(self, method: str, route: str, body: Json = None) -> bytes:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._retry.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.request(method, self._url + route, json=body) as response:
                content, status, headers = await response.read(), response.status, response.headers
        except TimeoutError:
            detail = f"no whole answer within {self._retry.timeout_s:g} s"
            raise AttemptFailed("timeout", detail, can_pass=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise AttemptFailed("connection", str(error) or type(error).__name__, can_pass=True) from error
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
            raise AttemptFailed("server_error", detail, can_pass=True)
    raise AttemptFailed("malformed_reply", "the event stream ends without an answer", can_pass=True)


def _parsed(content: bytes, field: str | None, kind: type) -> Json:
    """JSON of a reply, or one field of it, which must be of a kind."""
    try:
        value = json.loads(content)
        value = value if field is None else value[field]
    except (ValueError, LookupError, TypeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        begins = content[:100].decode("utf-8", "replace")
        raise AttemptFailed("malformed_reply", f"the reply begins {begins!r}", can_pass=True)
    return value
