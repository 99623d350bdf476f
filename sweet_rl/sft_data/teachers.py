"""Teachers: a model behind any OpenAI-compatible server, or the embedded teacher, which needs none.

A teacher is handed what a model would read, and what a player who knows the answer would say. A model
only ever sees the first; the embedded teacher only says the second.

Published behaviour: docs/published/reflect_rl.md#episodes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sweet_rl import tracking
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.records import Journal
from sweet_rl.types import Failure, Json, Message, derive_seed, digest

TEMPERATURE: Final = 0.7
TOP_P: Final = 0.9
"""How teachers are sampled."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a teacher.

    `messages` is what a model reads. `known` is what the embedded teacher says, from its own draws; it may
    know what is hidden from a model. `seed` is the question's own.
    """

    messages: Sequence[Message]
    known: Callable[[random.Random], str]
    seed: int


def of_the_model(error: RequestFailed) -> bool:
    """Whether a request failed because of the model: an empty reply, or a dialogue that is too long.

    Anything else was the service's, and says nothing about the model.
    """
    return error.failure.kind in {"empty_reply", "bad_request"}


class Teacher(Protocol):
    """Answers questions; many may be under way at once."""

    name: str

    async def say(self, asked: Asked) -> str:
        """The answer, never blank."""
        ...

    async def close(self) -> None:
        """Close connections and files; the teacher is not asked again."""
        ...


class EmbeddedTeacher:
    """The world's oracle with sentences of our own: nothing to download, nothing to pay."""

    name = "embedded"

    async def say(self, asked: Asked) -> str:
        """The known facts, worded by the question's seed."""
        return asked.known(random.Random(asked.seed))

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class ModelTeacher:
    """A model behind an OpenAI-compatible server. Its replies are kept, so that none is paid for twice.

    Args:
        client: of the server; closed with the teacher.
        model: the server's name for it.
        replies: a .jsonl file of replies by request; None to keep none.
        temperature: of sampling.
        top_p: likewise.
        max_tokens: of one reply.
        at_once: requests in flight.
    """

    def __init__(
        self,
        client: OpenAIClient,
        model: str,
        *,
        replies: Path | None = None,
        temperature: float = TEMPERATURE,
        top_p: float = TOP_P,
        max_tokens: int = 2000,
        at_once: int = 64,
    ) -> None:
        self.name = model
        self._client = client
        self._fields = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        self._journal = Journal(replies) if replies else None
        if replies:
            tracking.writes(replies, continues=True)
        self._free = asyncio.Semaphore(at_once)
        self._kept: dict[str, str] = {}
        for _, row in self._journal.rows if self._journal else ():
            if isinstance(row.get("request"), str) and isinstance(row.get("reply"), str):
                self._kept[row["request"]] = row["reply"]

    async def say(self, asked: Asked) -> str:
        """One chat completion, or its earlier reply to the same request."""
        body = self._body(asked)
        key = digest(body, 32)
        if key in self._kept:
            return self._kept[key]
        async with self._free:
            reply = await self._client.chat(body)
        text = reply.content
        if not text.strip():
            raise RequestFailed(Failure("empty_reply", f"the content of the reply is {text!r}"))
        if self._journal is not None:
            await self._journal.append_soon({"request": key, "reply": text})
            self._kept[key] = text
        return text

    async def close(self) -> None:
        """Close connections and the file of replies."""
        if self._journal is not None:
            await self._journal.flush()
            self._journal.close()
        await self._client.close()

    def _body(self, asked: Asked) -> Mapping[str, Json]:
        return {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.content} for message in asked.messages],
            **self._fields,
            "seed": derive_seed(asked.seed),
        }
