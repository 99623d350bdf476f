"""What one server takes of our requests, learned from what it refuses.

OpenAI-compatible servers differ in the names of fields, in the values that they take, and in roles. A refusal
(400, 422) that names a field which was sent is an instruction: the field is renamed, given another value or
left out, once for that server, the request is repeated, and the change is said and recorded. A refusal that
names nothing is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from sweet_rl.chat import fold_system
from sweet_rl.openai_client.retries import AttemptFailed
from sweet_rl.types import Json

Fields = dict[str, Json]

_ESSENTIAL: Final = frozenset(("model", "messages", "prompt", "echo", "prompt_logprobs", "stream"))
"""Without these a request asks for something else."""

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens": ("max_completion_tokens", "max_new_tokens", "max_output_tokens", "max_tokens_to_sample"),
    "max_completion_tokens": ("max_tokens",), "seed": ("random_seed",), "stop": ("stop_sequences",),
    "repetition_penalty": ("repeat_penalty",), "repeat_penalty": ("repetition_penalty",),
}  # fmt: skip
"""What servers call the same thing."""

_NEUTRAL: Final[Mapping[str, tuple[Json, ...]]] = {
    "top_k": (0, -1), "top_p": (1.0,), "min_p": (0.0,), "repetition_penalty": (1.0,), "repeat_penalty": (1.0,),
    "frequency_penalty": (0,), "presence_penalty": (0,), "n": (1,), "logprobs": (0,),
}  # fmt: skip
"""Values that turn a field off, in the order in which they are tried."""

_REFUSES: Final = re.compile(
    r"(?i)unsupported|not (be )?(support|permit|allow|recogni|accept|implement|available|valid|found|find)|unknown|"
    r"unrecogni|unexpected|forbid|invalid|extra|deprecated|must|only|cannot|can't|should|range|default|greater|"
    r"less|exceed|too (large|small|high|big|low)|maximum|minimum|at (most|least)"
)
_UNKNOWN: Final = re.compile(
    r"(?i)unsupported|not (support|permit|allow|recogni|accept|implement)|unknown|unrecogni|unexpected|forbid|"
    r"extra|deprecated|cannot find|no such|additional propert"
)
_NOT_BOTH: Final = re.compile(r"(?i)\bboth\b|only one|mutually|together|in combination|simultaneously")
_INSTEAD: Final = re.compile(
    r"(?:\buse|\btry|\bmean|\bwith|\bby|\bto|\bfavou?r of|\bis)\s+(?:the\s+)?(?:parameter\s+|field\s+)?"
    r"[`'\"]?([A-Za-z]\w*_\w+|(?<=[`'\"])\w+)"
)
_NUMBER: Final = r"`?(-?\d[\d,_]*(?:\.\d+)?)`?"
_MOST: Final = re.compile(
    r"(?i)(?:<=|≤|less than or equal to|at most|no more than|up to|(?:not |n't )exceed|"
    r"maximum(?: (?:value|allowed|number|of|is|output|completion|new|tokens?))*:?|\bmax(?: (?:value|is))*:?|limit(?: (?:is|of))*:?|"
    rf"between {_NUMBER} and|from {_NUMBER} to|[\[(]\s*{_NUMBER}\s*,)\s*{_NUMBER}"
    rf"|> {_NUMBER},? which is the maximum"
)
_NO_SYSTEM: Final = re.compile(
    r"(?is)(system|developer)\W+(role|message|prompt|instruction|content)s?\b|role\W.{0,60}\b(system|developer)\b"
    r"|\b(system|developer)\b.{0,40}\brole|role.{0,60}(should be|must be|expected|one of).{0,40}user"
    r"|first message|(does|do) not support.{0,10}system"
)


class Change(NamedTuple):
    """One thing that is done to every request from now on, and how it is said."""

    how: str
    field: str
    value: Json
    words: str

    def apply(self, body: Fields) -> None:
        """Do it to a request, where it concerns it."""
        field, value = self.field, self.value
        if field not in body:
            return
        if self.how == "fold":
            body[field] = fold_system(body[field])
        elif self.how == "merge":
            merged: list[Fields] = []
            for one in body[field]:
                last: Fields = merged[-1] if merged else {}
                texts = isinstance(one.get("content"), str) and isinstance(last.get("content"), str)
                if texts and last.get("role") == one.get("role"):
                    merged[-1] = {**last, "content": f"{last['content']}\n\n{one['content']}"}
                else:
                    merged.append(dict(one))
            body[field] = merged
        elif self.how == "drop":
            del body[field]
        elif self.how == "rename":
            body[value] = body.pop(field)
        elif self.how == "replace" and body[field] == value[0]:
            body[field] = value[1]
        elif self.how == "limit" and body[field] > value:  # seeds stay different
            body[field] = body[field] % (int(value) + 1) if "seed" in field else value


class Dialect:
    """What a server takes; it learns."""

    def __init__(self) -> None:
        self._changes: list[Change] = []

    def applied(self, body: Mapping[str, Json]) -> Fields:
        """The request as this server takes it."""
        sent = dict(body)
        for change in self._changes:
            change.apply(sent)
        return sent

    def learn(self, body: Mapping[str, Json], sent: Fields, failed: AttemptFailed) -> str | None:
        """What a refusal teaches, in words; "" where another request has taught it already, None for nothing."""
        if failed.error is None or failed.kind not in {"bad_request", "server_error"}:
            return None
        if self.applied(body) != sent:
            return ""
        known, refused = {change[:3] for change in self._changes}, failed.kind == "bad_request"
        for change in _changes_for(sent, failed.error.words, failed.error.fields, refused=refused):
            if change[:3] not in known:
                self._changes.append(change)
                return change.words
        return None


def _changes_for(sent: Fields, words: str, fields: tuple[str, ...], *, refused: bool) -> Iterator[Change]:
    """What may make a server take the request, the likeliest first."""

    def left_out(field: str) -> Change:
        value = "" if "seed" in field else f" {sent[field]}"
        return Change("drop", field, None, f"{field}{value} is left out: the server's own default holds")

    roles = [message.get("role") for message in sent.get("messages") or () if isinstance(message, dict)]
    about_roles = any(re.search(r"\brole\b", field.partition("messages")[2]) for field in fields)
    about_roles |= re.search(r"\broles\b", words) is not None
    alternate = re.search(r"\balternat", words, re.IGNORECASE) is not None
    if "system" in roles and (alternate or about_roles or _NO_SYSTEM.search(words)):
        yield Change("fold", "messages", None, "the system text opens the first user message")
    if alternate and any(one == other for one, other in pairwise(roles)):
        yield Change("merge", "messages", None, "neighbouring messages of one role are joined")
    if "logprobs" in sent and "json compliant" in words.lower():  # a log-probability of minus infinity
        yield left_out("logprobs")
    if not refused:
        return
    named = _named(sent, words, fields)
    if len(named) > 1 and _NOT_BOTH.search(words):
        yield left_out(min(named, key=lambda field: sent[field] not in _NEUTRAL.get(field, ())))
        return
    for field in named:
        value, neutral = sent[field], _NEUTRAL.get(field, ())
        for other in _other_names(field, sent, words):
            yield Change("rename", field, other, f"{field} is sent as {other}")
        if value in neutral and not (_UNKNOWN.search(words) and "value" not in words.lower()):
            for other in neutral[neutral.index(value) + 1 :]:
                yield Change("replace", field, (value, other), f"{field} {value} is sent as {other}")
        elif value not in neutral and (most := _most(value, words)) is not None:
            yield Change("limit", field, most, f"{field} is at most {most:,}")
        if not field.startswith("max_") or _UNKNOWN.search(words):
            yield left_out(field)


def _named(sent: Fields, words: str, fields: tuple[str, ...]) -> list[str]:
    """The fields of the request that a refusal is about: those it points at, then those in its sentences."""
    ours = [field for field in sent if field not in _ESSENTIAL]
    places: dict[str, int] = {}
    for field in ours:
        bare = re.fullmatch("[a-z]+", field) is not None
        called = [field, *(name for name, others in _NAMES.items() if field in others and name not in sent)]
        name = f"(?:{'|'.join(called)})".replace("_", "[ _-]?")
        if any(re.search(rf"(^|\W|_){name}$", path, re.IGNORECASE) for path in fields):
            places[field] = -1
            continue
        marked = rf"[`'\"\[.({{]{name}\b|\b{name}[`'\":=\]]"  # an everyday word is a name where it is marked as one
        pattern = rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])"
        found = re.search(
            marked if (bare and not _REFUSES.search(words)) or field == "n" else pattern, words, re.IGNORECASE
        )
        if found is not None:
            places[field] = found.start()
    pointed = [field for field, place in places.items() if place < 0]
    return pointed or sorted(places, key=places.__getitem__)


def _other_names(field: str, sent: Fields, words: str) -> Iterator[str]:
    """What else the field may be called: as the refusal says, or as others call it."""
    known = _NAMES.get(field, ())
    last = field.rpartition("_")[2]
    said = [name for name in _INSTEAD.findall(words) if last in name.lower().split("_")]
    said += [name for name in known if re.search(rf"\b{name}\b", words)]
    for name in dict.fromkeys([*said, *(known if _UNKNOWN.search(words) else ())]):
        if name not in sent and (name in known or name not in _NEUTRAL):
            yield name


def _most(value: Json, words: str) -> float | int | None:
    """The largest value that a refusal allows, where the one that was sent is larger."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for found in _MOST.finditer(words):
        bound = next(group for group in reversed(found.groups()) if group is not None)
        most = float(re.sub("[,_]", "", bound))
        if most < value:
            return int(most) if isinstance(value, int) else most
    return None
