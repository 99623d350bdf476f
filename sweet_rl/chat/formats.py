"""How a dialogue becomes the one prompt string that a model reads, and that is recorded as `input`; names of models.

Formats: the chat template of a model's tokenizer; a plain one that needs no packages, for scripted policies and for
servers whose tokenizer is not at hand; and transcripts, for models that read plain text. None calls a model.

Published behaviour: docs/published/sweet_rl.md#agent, #in-episodes; docs/published/archer.md#policy, #ten-words.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from sweet_rl.errors import UsageError, first_line, missing_package
from sweet_rl.network import without_hub_if_silent
from sweet_rl.types import Message, digest

Entry: TypeAlias = Mapping[str, Any]
"""A message as chat APIs have it: role, content (a text, or a list of parts), perhaps reasoning_content."""

_LOG = logging.getLogger(__name__)
_PROBE = "A line that no template writes by itself."
_HEADING = re.compile(r"### (system|user|assistant):\n")


class ChatFormat(Protocol):
    """Turns messages into a prompt that ends where the assistant is about to speak."""

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt string, special tokens written out."""


class PlainChat:
    r"""A format that needs no tokenizer: `### role:` headers, blank lines, an open assistant header.

    `[Message("user", "Hi")]` becomes `"### user:\nHi\n\n### assistant:\n"`. Contents are written as they
    are: text that looks like a header is not escaped.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The dialogue under headings, then the open heading of the assistant."""
        entries = "".join(f"### {message.role}:\n{message.content}\n\n" for message in messages)
        return f"{entries}### assistant:\n"


class TokenizerChat:
    """The chat template that ships with a model.

    A template that refuses a system message or drops it silently is found out once, here, by rendering a
    probe; for such a model the system text becomes the beginning of the first user message, followed by a
    blank line (`folds_system`). Likewise a template that reads contents as lists of parts only.

    Raises:
        UsageError: it has no chat template, or one that shows no contents.
    """

    def __init__(self, tokenizer: Any) -> None:
        name = tokenizer.name_or_path
        if not tokenizer.chat_template:
            why = f"The tokenizer of {name!r} has no chat template: put chat_template.jinja there."
            raise UsageError(why)
        self.tokenizer = tokenizer
        self._in_parts = self.folds_system = False
        self._in_parts = not self._shows(Message("user", _PROBE))
        if self._in_parts and not self._shows(Message("user", _PROBE)):
            raise UsageError(f"The chat template of {name!r} does not show a user's message: repair it.")
        self.folds_system = not self._shows(Message("system", _PROBE), Message("user", "Hi."))

    @classmethod
    def from_pretrained(cls, model: str | Path, flag: str = "") -> TokenizerChat:
        """The chat format of a model folder, or of a name on the hub."""
        return cls(load_tokenizer(model, flag))

    def render(self, messages: Sequence[Message | Entry], *, open_turn: bool = True) -> str:
        """The prompt string; begins with the begin-of-text token if the template writes one.

        Args:
            messages: ours, or objects as chat APIs have them, whose further keys the template may read.
            open_turn: end where the assistant is about to speak (the template's generation prompt).

        Raises:
            UsageError: the template refuses these messages.
        """
        try:
            return self._apply(messages, open_turn=open_turn)
        except _refusals() as error:
            entries = list(map(as_entry, messages))
            roles = ", ".join(str(entry["role"]) for entry in entries)
            repair = "Repair its chat_template.jinja, or choose another model."
            if any(isinstance(entry["content"], list) for entry in entries):
                repair = "Messages with pictures need a vision-language model."
            raise UsageError(
                f"The chat template of {self.tokenizer.name_or_path!r} refuses a dialogue with the roles "
                f"{roles}: {error}. {repair}"
            ) from error

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a rendered prompt; no token is added."""
        ids: list[int] = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return ids

    def writes_begin_token(self, prompt: str) -> bool:
        """Whether the prompt begins with the begin-of-text token, so that no other one is added."""
        begin: str | None = self.tokenizer.bos_token
        return bool(begin) and prompt.startswith(str(begin))

    def _shows(self, *messages: Message) -> bool:
        try:
            return _PROBE in self._apply(messages)
        except _refusals():
            return False

    def _apply(self, messages: Sequence[Message | Entry], *, open_turn: bool = True) -> str:
        entries = list(map(as_entry, messages))
        entries = fold_system(entries) if self.folds_system else entries
        for entry in entries if self._in_parts else ():
            if isinstance(entry["content"], str):
                entry["content"] = [{"type": "text", "text": entry["content"]}]
        options: dict[str, Any] = {"add_generation_prompt": open_turn, "tokenize": False}
        try:
            with _WATCHDOG.watching():
                prompt = str(self.tokenizer.apply_chat_template(entries, **options))
            if len(prompt) <= LARGEST:
                return prompt
            problem = f"it makes a prompt of {len(prompt):,} characters"
        except (RanAway, RecursionError, MemoryError, OverflowError) as error:
            problem = first_line(error) if str(error) else f"it takes more than {SECONDS:g} s"
        raise UsageError(
            f"The chat template of {self.tokenizer.name_or_path!r} runs away: {problem}. Look at the loops and macros "
            "in its chat_template.jinja (or tokenizer_config.json), or choose another model."
        )


SECONDS: Final = 10.0
"""That one rendering may take; a template of a model takes less than a thousandth of one."""
LARGEST: Final = 50_000_000
"""Characters of a text, entries of a list, or a number, in a template."""


class RanAway(Exception):
    """A template, which is a stranger's program, takes too long or makes too much."""


@cache
def _limit_operators() -> None:
    """From now on no operator of a template makes what no memory can hold."""
    from jinja2.sandbox import SandboxedEnvironment

    apply = SandboxedEnvironment.call_binop

    def limited(self: SandboxedEnvironment, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(one) if hasattr(one, "__len__") else abs(one) for one in (left, right)]
        if sizes[0] * sizes[1] > LARGEST or (operator == "**" and sizes[1] > 16):
            raise RanAway(f"it makes a value of more than {LARGEST:,} characters, or such a number")
        return apply(self, context, operator, left, right)

    SandboxedEnvironment.intercepted_binops = frozenset({"*", "**"})
    SandboxedEnvironment.call_binop = limited  # type: ignore[method-assign]


class _Watchdog:
    """One thread for all renderings: it raises `RanAway` in those whose time is over, and ends when there are none."""

    def __init__(self) -> None:
        self._lock, self._thread = threading.Lock(), threading.Thread()
        self._until: dict[int, float] = {}  # by thread, of those that render

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block in which a template is rendered."""
        _limit_operators()
        thread = threading.get_ident()
        with self._lock:
            if not self._thread.is_alive():  # nor is it after a fork
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            self._until[thread] = time.monotonic() + SECONDS
        stopped = False
        try:
            yield
        except RanAway:
            stopped = True
            raise
        finally:
            with self._lock:
                over = self._until.pop(thread, None) is None
            if over and not stopped:
                # It came too late. Done every time, the interpreter would look for it from then on.
                _raise_in(ctypes.c_ulong(thread), None)

    def _watch(self) -> None:
        while True:
            time.sleep(SECONDS / 20)
            with self._lock:
                for thread in [one for one, until in self._until.items() if until < time.monotonic()]:
                    del self._until[thread]
                    _raise_in(ctypes.c_ulong(thread), ctypes.py_object(RanAway))
                if not self._until:
                    self._thread = threading.Thread()  # the next rendering starts another
                    return


_WATCHDOG = _Watchdog()
os.register_at_fork(after_in_child=_WATCHDOG.__init__)  # type: ignore[misc]  # another thread may hold its lock
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class InstructedChat:
    """A model's chat template with the same system prompt before every dialogue, and room for so many tokens.

    Of a dialogue that is too long the oldest exchanges are left out, not the first message, which says what
    it is about, and not the last. Where these alone are too long, the prompt is, and a warning says so once.
    """

    def __init__(self, chat: TokenizerChat, system_prompt: str, max_context: int) -> None:
        self._chat, self._system_prompt, self._max_context = chat, system_prompt, max_context
        self._told = False
        least = len(chat.encode(chat.render(with_system(system_prompt, [Message("user", "?")]))))
        if least > max_context:
            raise UsageError(
                f"max_context={max_context} has no room for a dialogue: with the instructions it begins with "
                f"{least} tokens in the chat template of {chat.tokenizer.name_or_path!r}. Raise it."
            )

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt string, which begins with the system prompt."""
        kept = list(messages)
        while True:
            text = self._chat.render(with_system(self._system_prompt, kept))
            length = len(self._chat.encode(text))
            if length <= self._max_context or len(kept) <= 3:
                break
            del kept[1:3]
        if length > self._max_context and not self._told:
            self._told, begins = True, messages[0].content[:60]
            _LOG.warning(
                f"A dialogue that begins {begins!r} has {length} tokens without its oldest exchanges, of which max_context "
                f"reads the last {self._max_context}: not the instructions. Raise it, or leave out such tasks. (Said once.)"
            )
        return text


def with_system(system_prompt: str, messages: Sequence[Message]) -> list[Message]:
    """The system prompt verbatim, unless it is empty, followed by the visible history."""
    return [*([Message("system", system_prompt)] if system_prompt else []), *messages]


def as_json(messages: Sequence[Message | Entry]) -> str:
    """What is recorded as the input of a model whose server renders the prompt: the messages it was sent."""
    plain = [{"role": entry["role"], "content": entry["content"]} for entry in map(as_entry, messages)]
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read_back(text: str) -> tuple[str, list[Entry], str] | None:
    """What stands before a prompt of `PlainChat` or `as_json`, its messages, what stands behind it; None without one."""
    at = text.find('[{"content":')
    if at >= 0:
        try:
            messages, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            return None
        return text[:at], messages, text[end:]
    first, opened = _HEADING.search(text), "### assistant:\n"
    if first is None or opened not in text:
        return None
    prompt, _, behind = text.rpartition(opened)
    _, *parts = _HEADING.split(prompt)
    both = zip(parts[::2], parts[1::2], strict=True)
    messages = [{"role": role, "content": content.removesuffix("\n\n")} for role, content in both]
    return text[: first.start()], messages, behind


def as_entry(message: Message | Entry) -> dict[str, Any]:
    """A message as templates read it; a list of nothing but text parts is a text."""
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    content = message.get("content")
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        content = "".join(part["text"] for part in content)
    return {**message, "content": content}


def fold_system(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages without system role: its text opens the first user message."""
    match entries:
        case [{"role": "system", "content": system}, {"role": "user", "content": str(text)} as first, *rest]:
            return [{**first, "content": f"{system}\n\n{text}"}, *rest]
        case [{"role": "system", "content": system}, {"role": "user", "content": [*parts]} as first, *rest]:
            return [{**first, "content": [{"type": "text", "text": f"{system}\n\n"}, *parts]}, *rest]
        case [{"role": "system"} as system, *rest]:
            return [{**system, "role": "user"}, *rest]
        case unchanged:
            return unchanged


def load_tokenizer(model: str | Path, flag: str = "") -> Any:
    """The tokenizer of a model folder, or of a name on the hub, or UsageError; `flag` is what named it."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise missing_package("transformers", "transformers", needed_for="a model's chat template") from error
    what = f"{flag}: no tokenizer" if flag else "No tokenizer"
    tell_of_search(str(model), what)
    try:
        return AutoTokenizer.from_pretrained(model_path(model))
    except (OSError, ValueError) as error:
        repair = "Name a folder with tokenizer.json, or a model that is in the local cache or on the hub."
        line = first_line(error).rstrip(".!?")
        raise UsageError(f"{what} could be loaded from {str(model)!r}: {line}. {repair}") from error


def tokenizer_digest(tokenizer: Any) -> str:
    """A fingerprint of a tokenizer's vocabulary: token ids mean the same where it is the same."""
    return digest(sorted(tokenizer.get_vocab().items()))


def _refusals() -> tuple[type[Exception], ...]:
    """What a template raises for messages that it cannot write."""
    from jinja2 import TemplateError  # comes with transformers

    return TemplateError, TypeError, ValueError, ArithmeticError


EMBEDDED: Final = "embedded"
"""Stands for the packaged agent of the mini worlds wherever a model is asked for."""
SMOLLM2: Final = "smollm2"
"""Likewise for SmolLM2-135M-Instruct, which `fetch_model` puts into the user's cache (docs/get_started.md)."""
SMOLLM2_GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of that file, from which the folder is converted."""
FETCHED: Final = ".fetched.json"
"""In that folder: digests of its source and its files, with sizes and times. Hidden: no part of the model."""


def user_cache() -> Path:
    """The folder `sweet_rl` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweet_rl"


def folder_of(name: str | Path) -> Path | None:
    """The folder of a model with a name of ours, fetched or not; None for any other name."""
    if str(name) == EMBEDDED:
        return Path(__file__).parent.parent / "mini" / "agent"
    return user_cache() / "models" / SMOLLM2 if str(name) == SMOLLM2 else None


def model_path(model: str | Path) -> str:
    """What transformers and vLLM load for a name; UsageError where `smollm2` is not in the cache as it was fetched."""
    folder = folder_of(model)
    if folder is not None and str(model) == SMOLLM2 and (problem := problem_of(folder)):
        raise UsageError(f"The model {SMOLLM2} {problem}. Fetch it with: sweet-rl fetch_model {SMOLLM2}")
    return str(folder or model)


def problem_of(folder: Path) -> str:
    """What keeps a folder from being the fetched model, as a clause; empty if nothing does."""
    try:
        fetched = json.loads((folder / FETCHED).read_text(encoding="utf-8"))
        if fetched["source"] != SMOLLM2_SHA256:
            return f"in {str(folder)!r} was converted from another file (SHA-256 {fetched['source']})"
        expected = fetched["files"]
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if differing := sorted(names ^ expected.keys()):
            return f"in {str(folder)!r} has other files than were fetched ({differing[0]!r})"
        for name, then in expected.items():
            facts = (folder / name).stat()
            now = {"bytes": facts.st_size, "mtime": facts.st_mtime, "sha256": then["sha256"]}
            if now != then and _digest_of(folder / name, facts.st_size, facts.st_mtime) != then["sha256"]:
                return f"in {str(folder)!r} has changed since it was fetched ({name!r})"
    except FileNotFoundError:
        return f"is not in the user's cache ({str(folder)!r})"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"in {str(folder)!r} cannot be checked ({error})"
    return ""


def sha256_of(path: Path) -> str:
    """The digest of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _digest_of(path: Path, size: int, mtime: float) -> str:  # the same file is read once
    return sha256_of(path)


@cache
def tell_of_search(model: str, what: str) -> None:
    """Say, once, that a model is no folder here; UsageError, which begins with `what`, where the hub cannot have it."""
    if not Path(model_path(model)).is_dir():
        parent = Path(model).parent
        if (
            model.startswith((".", "/", "~", "outputs/"))
            or model.count("/") > 1
            or (parent.name and parent.is_dir())
        ):
            why = f"there is no folder {model!r} (looked in {str(Path.cwd())!r}), and a model of the hub is named like owner/name"
            raise UsageError(f"{what} could be loaded: {why}.")
        if not without_hub_if_silent():
            _LOG.warning("%s is no folder here: looking for it in the local cache and on the hub.", model)


class WholeTranscript:
    """All messages, a line each; of use in any world."""

    def render(self, messages: Sequence[Message]) -> str:
        """Every message, with a line break behind it."""
        return "".join(f"{message.content}\n" for message in without_system(messages))


class LastObservation:
    """The world's last message only, for worlds that say the whole state each time."""

    def render(self, messages: Sequence[Message]) -> str:
        """The world's last message; empty when there is none."""
        replies = [message.content for message in messages if message.role == "user"]
        return replies[-1] if replies else ""


def without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """The dialogue behind a system message, if it begins with one."""
    return messages[1:] if messages and messages[0].role == "system" else messages
