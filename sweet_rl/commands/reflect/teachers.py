"""The teacher that the flags ask for, and a run with it that may be stopped at any time."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.commands.running import until_stopped
from sweet_rl.commands.servers import client_of
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import base_url_from
from sweet_rl.teaching.jobs import JobFile
from sweet_rl.teaching.teachers import EmbeddedTeacher, ModelTeacher, Teacher
from sweet_rl.types import Json

TEACHERS = ("embedded", "openai")


@dataclass(frozen=True, slots=True)
class TeacherFlags:
    """Who teaches; see the flags of `gen_task`."""

    teacher: str
    base_url: str | None
    model: str
    api_key_var: str
    request_timeout_s: float
    request_attempts: int
    concurrency: int

    def check(self) -> None:
        """Refuse what makes no sense before anything is made.

        Raises:
            UsageError: names the flag.
        """
        if self.teacher not in TEACHERS:
            raise UsageError(f"--teacher must be {' or '.join(TEACHERS)}, got {self.teacher!r}.")
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, got {self.concurrency}.")
        if self.teacher == "openai" and not self.base_url:
            raise UsageError("--teacher openai needs --base_url, like https://host/v1.")
        if self.teacher == "embedded" and self.base_url:
            raise UsageError("--base_url is of use with --teacher openai only; pass that as well.")

    @property
    def name(self) -> str:
        """What records call the teacher."""
        return self.model if self.teacher == "openai" else "embedded"

    def settings(self) -> dict[str, Json]:
        """What decides about the content of what it says."""
        return {"teacher": self.teacher, "model": self.name}

    def make(self, output: Path) -> Teacher:
        """The teacher; replies of a model are kept beside `output`, so that none is asked for twice."""
        if self.teacher == "embedded":
            return EmbeddedTeacher()
        client = client_of(base_url_from("", 0, self.base_url), self, max_connections=self.concurrency)
        replies = beside(output, self.name, "replies")
        return ModelTeacher(client, self.model, replies=replies, at_once=self.concurrency)


def beside(output: Path, teacher: str, what: str) -> Path:
    """A file of our own beside an output: one for each teacher, so that several may work on it in turn."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", teacher)
    return output.with_name(f"{output.stem}.{name}.{what}.jsonl")


def run_until_stopped(work: Coroutine[Any, Any, None], journal: Path) -> None:
    """Run `work`; Ctrl-C and a polite kill end it cleanly, with words about how to go on.

    Raises:
        KeyboardInterrupt: it was stopped; what had finished is in the journal.
    """
    until_stopped(work, lambda: f"The same command goes on from {journal}.")


def say_failures(jobs: JobFile, missing: int, noun: str) -> None:
    """Tell what went wrong in this run, and where it can be read."""
    if jobs.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(jobs.failures.items()))
        print(f"Not all went well ({kinds}); {jobs.path} holds each with its raw text.")
    if missing:
        print(f"{missing} {noun} are missing; the same command tries them again.")
