"""Teachers: a model behind any OpenAI-compatible server, or the embedded teacher, which needs none.

A model only ever sees what it is to read; the embedded teacher only says what a player who knows the answer would say.
A model that plays without training thinks, then acts, one request each (ReAct).

Published behaviour: docs/published/reflect_rl.md#episodes.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import offered_commands, resolve_label, split_prompt
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.prompts import packaged_text
from sweet_rl.records import Journal
from sweet_rl.reflect_data.texts import Words
from sweet_rl.text_game import GameStep, TextGame
from sweet_rl.types import Compat, Failure, Message, derive_seed, digest


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a teacher: what a model reads, and what the embedded teacher says, by the question's own seed."""

    messages: Sequence[Message]
    known: Words
    seed: int


def of_the_model(error: RequestFailed) -> bool:
    """Whether a request failed because of the model, not of the service: an empty reply, or a dialogue that is too long."""
    return error.failure.kind in {"empty_reply", "bad_request"}


class Teacher(Protocol):
    """Answers questions; many may be under way at once."""

    name: str

    async def say(self, asked: Asked) -> str:
        """The answer, never blank."""

    async def close(self) -> None: ...


class EmbeddedTeacher:
    """The world's oracle with sentences of our own: nothing to download, nothing to pay."""

    name = "embedded"

    async def say(self, asked: Asked) -> str:
        return asked.known(random.Random(asked.seed))

    async def close(self) -> None: ...


class ModelTeacher:
    """A model behind an OpenAI-compatible server. Its `replies` are kept in a .jsonl file, so that none is paid for twice."""

    def __init__(
        self, client: OpenAIClient, model: str, *, replies: Path | None = None, at_once: int = 64
    ) -> None:
        self.name, self._client = model, client
        self._journal = Journal(replies) if replies else None
        if replies:
            tracking.writes(replies, continues=True)
        self._free = asyncio.Semaphore(at_once)
        self._kept: dict[str, str] = {}
        for _, row in self._journal.rows if self._journal else ():
            if isinstance(row.get("request"), str) and isinstance(row.get("reply"), str):
                self._kept[row["request"]] = row["reply"]

    async def say(self, asked: Asked) -> str:
        messages = [{"role": message.role, "content": message.content} for message in asked.messages]
        limits = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 2000, "seed": derive_seed(asked.seed)}
        body = {"model": self.name, "messages": messages, **limits}
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
        if self._journal is not None:
            await self._journal.flush()
            self._journal.close()
        await self._client.close()


_ATTEMPTS: Final = 3  # how often a state is sent to a model that says nothing

_CHOICES: Final = tuple(
    map(re.compile, (r"action:\s*(?P<label>\d+)", r"action\s*(?P<label>\d+)", r"(?P<label>\d+)"))
)


class Expert(NamedTuple):
    """What the embedded player knows of a game's current state."""

    thought: Callable[[], Words]  # a sentence on the current state
    label: Callable[[], str]  # the label of the action that is best in the current state


NO_EXPERT: Final = Expert(lambda: lambda _: "", lambda: "")  # knows nothing: for games that a model plays


def chance(game: TextGame, seed: int) -> Expert:
    """Chooses among the labels on offer at random."""
    draws = random.Random(seed)
    return Expert(lambda: lambda _: "Anything may do.", lambda: draws.choice(list(game.labels)))


@dataclass(slots=True)
class Played:
    """One episode: the sum of its costs, its steps, what could not be read."""

    cost: float = 0.0
    steps: int = 0
    moved: GameStep | None = None
    failures: list[Failure] = field(default_factory=list)


def extract_action(reply: str, labels: Sequence[str], *, compat: Compat = "fixed") -> str | None:
    """The label that a reply names; None where it names none.

    The first of `action: 3`, `action 3` and a bare number counts if it is on offer; else the first word that
    is. As published, that is the first label that occurs anywhere, so that of labels 0 to 5 `take 57` is 5.
    """
    found = next(filter(None, (pattern.search(reply.lower()) for pattern in _CHOICES)), None)
    if found and found["label"] in labels:
        return found["label"]
    if compat == "fixed":
        return next((word for word in re.findall(r"\w+", reply) if word in labels), None)
    return min((label for label in labels if label in reply), key=reply.find, default=None)


async def play(
    game: TextGame,
    expert: Expert,
    teacher: Teacher,
    *,
    seed: int,
    react: bool = True,
    compat: Compat = "fixed",
) -> Played:
    """Play a started game to its end."""
    played = Played()
    draws = random.Random(seed)
    think, act = (packaged_text(f"reflect/react_{name}") for name in ("think", "act"))

    async def ask(text: str, known: Words, seed: int) -> str:
        """One request; "" after so many that brought nothing, which are recorded."""
        messages = [Message("system", packaged_text("reflect/react_system")), Message("user", text)]
        for attempt in range(_ATTEMPTS):
            try:
                return await teacher.say(Asked(messages, known, derive_seed(seed, attempt)))
            except RequestFailed as error:
                played.failures.append(replace(error.failure, turn=played.steps))
                if attempt == _ATTEMPTS - 1 and not (compat == "published" or of_the_model(error)):
                    raise
        return ""

    while played.moved is None or not played.moved.over:
        before, actions = split_prompt(game.text, game.head)
        step_seed = derive_seed(seed, played.steps)
        thoughts = ""
        if react:
            known = await asyncio.to_thread(expert.thought)
            thoughts = await ask(f"{before}\n\n{think}", known, step_seed)
        label = await asyncio.to_thread(expert.label)
        text = f"{before}\n{thoughts}\n{actions.strip()}\n\n{act}"
        reply = await ask(text, lambda _, label=label: label, step_seed + 1)  # type: ignore[misc]
        found = extract_action(reply, game.labels, compat=compat)
        if found is None and compat == "fixed":  # a model may write the command itself
            found = resolve_label(reply, offered_commands(actions, game.head))
        if found is None:
            if reply:
                played.failures.append(Failure("malformed_reply", reply, turn=played.steps))
            found = draws.choice(list(game.labels)) if compat == "published" else reply
        played.moved = await asyncio.to_thread(game.step, found)
        played.cost += played.moved.cost
        played.steps += 1
    return played
