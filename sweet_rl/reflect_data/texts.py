"""Records and training texts of Reflect-RL in the published forms, and the flags of the stages that make them.

Light: it is loaded for `--help`. Published behaviour: docs/published/reflect_rl.md#file-formats, #data-of-recorded-states.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import SftTexts
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import Stage, StageEntry, stage, written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import REQUIRED, Only, Settings, flag, group
from sweet_rl.flags.models import BaseUrl, Requests
from sweet_rl.flags.shared import Overwriting, Quiet, Seeded
from sweet_rl.openai_client import shown
from sweet_rl.types import Json

Words: TypeAlias = Callable[[Random], str]  # what the embedded teacher says, in a wording of the draws


@dataclass(frozen=True, slots=True)
class Moment:
    """One state of a played episode.

    `text` is its whole prompt, `action` the label that the player chose, `best` the oracle's (None where it knows none).
    `known` is what the embedded teacher says; `hint` what a model is given and must not repeat. `extra` goes into the record.
    """

    text: str
    action: str
    best: str | None
    known: Words
    hint: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """How a model is asked about a moment: its role, and what is put behind the state, with {SENTENCES} and {SPOILER}.

    `head` is what begins the list of actions, which is not shown.
    """

    system: str
    template: str
    head: str


@group("Inputs and outputs")
class TaskFile(Settings):
    task_file: str = flag(REQUIRED, "the tasks.")


@group("Inputs and outputs")
class Output(Settings):
    output: str = flag(REQUIRED, "output file; empty: the default path.")


@group("The games")
class MaxTurns(Settings):
    max_turns: int = flag(15, "most turns of the agent in an episode.", at_least=1, aliases=("horizon",))


@group("The games")
class Markov(MaxTurns):
    markov: bool = flag(False, "hide earlier steps from the model.", shown="all")


@group("The games")
class RecordingFlags(MaxTurns, Output, Seeded, Overwriting, Quiet):
    num_records: int = flag(REQUIRED, "states to record.", at_least=1)
    random_share: float = flag(
        0.9, "how often the player takes any action, 0 to 1; else the best one.", at_least=0, at_most=1
    )
    reflections: bool = flag(True, "ask the teacher for reflections.")


@group("The texts")
class TextFlags(TaskFile, Output, Overwriting):
    pass


@group("The texts")
class Label(Settings):
    label: Literal["taken", "best"] = flag("taken", "which action is the label.")


@group("The games")
class Rules(Settings):
    with_prompt: bool = flag(False, "put the rules into every state.")


PUBLISHED_MODELS: Final = ("gpt-4", "gpt-3.5-turbo")  # the defaults of --model, each in its stages

_OPENAI: Final = Only("teacher", ("openai",))
_OF_REQUESTS: Final = ("api_key_var", "request_timeout_s", "request_attempts")


@group("The teacher")
class TeacherFlags(BaseUrl, Requests):
    teacher: Literal["embedded", "openai"] = flag(
        "embedded", "embedded (an expert with template sentences), or openai: any OpenAI-compatible server."
    )
    model: str = flag(PUBLISHED_MODELS[0], "for openai: the model's name on the server.", only=_OPENAI)
    concurrency: int = flag(16, "for openai: requests in flight.", at_least=1)

    def check_together(self) -> None:
        """A teacher with a model needs both its name and its server; a model that is named is asked."""
        if self.teacher == "openai" and not self.base_url:
            raise UsageError("--teacher openai needs --base_url, like https://host/v1.")
        key_in(self.api_key_var)
        if self.teacher == "embedded" and (self.base_url or self.model not in PUBLISHED_MODELS):
            name = "base_url" if self.base_url else "model"
            raise UsageError(f"--{name} is of use with --teacher openai only; pass that as well.")

    @property
    def name(self) -> str:
        """The name that records give the teacher."""
        return self.model if self.teacher == "openai" else "embedded"

    def measured(self, embedded: str) -> str:
        """A line for stages that measure a model: which one, and how to choose another."""
        if self.teacher == "openai":
            return shown(f"Measured: the model {self.model} at {self.base_url}.")
        return (
            f"Measured: the embedded player, which {embedded}; no model was asked. To measure one: "
            "--teacher openai --base_url https://host/v1 --model NAME"
        )

    def settings(self) -> dict[str, Json]:
        """What decides about the content of what it says."""
        return {"teacher": self.teacher, "model": self.name}


def teacher_stage(
    *positional: str, helps: Mapping[str, str] = MappingProxyType({}), **how: Any
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function that asks a teacher, or measures one; the rest is for `stage`."""
    url = "for openai: base URL of the server, like https://host/v1; several, separated by commas, share the load."
    return stage(
        *positional, helps={"base_url": url, **helps}, only=dict.fromkeys(_OF_REQUESTS, _OPENAI),
        facets=lambda flags: {"teacher": {flags["teacher"]}}, **how,
    )  # fmt: skip


@dataclass(slots=True)
class Texts:
    """Training texts by file name, and skipped records by reason."""

    files: dict[str, list[str]]
    skipped: Counter[str] = field(default_factory=Counter)

    def write(self, folder: Path, *, overwrite: bool = False) -> None:
        """One file each; lines of `{"text": ...}`, and no line break behind the last, as published."""
        from sweet_rl.records import replace_file
        from sweet_rl.runs import new_file

        for name in self.files:
            new_file(folder / name, "output", overwrite=overwrite)
        for name, texts in self.files.items():
            lines = (json.dumps({"text": text}, allow_nan=False) for text in texts)
            tracking.writes(folder / name)
            replace_file(folder / name, ["\n".join(lines).encode()])

    def save(self, flags: TextFlags) -> None:
        """Write them where a stage's flags say, and say what is there."""
        folder = Path(flags.output) if flags.output else Path(flags.task_file).parent
        self.write(folder, overwrite=flags.overwrite)
        for name, texts in self.files.items():
            print(f"{len(texts)} texts are in {folder / name}")
        if skipped := ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common()):
            print(f"Passed over: {skipped}")

    def add(self, made: SftTexts, *, reflection_file: str = "sft_reflection.jsonl") -> None:
        """Put the three texts of a step into their files."""
        self.files["sft.jsonl"].append(made.plain)
        self.files[reflection_file].append(made.reflection)
        self.files["sft_policy.jsonl"].append(made.policy)


def label_of(record: Mapping[str, Any], label: str) -> str:
    """The target of a record: what the player did ("taken"), or what the oracle would have done ("best")."""
    field = "best_action" if label == "best" else "action"
    value = record.get(field)
    if value is None or isinstance(value, (bool, float, list, dict)):
        repair = "Records of other programs have only the action that was taken." if label == "best" else ""
        raise DataError("must be a label", field=field, value=value, repair=repair)
    return str(value)


def read_list(path: Path, stages: Mapping[str, StageEntry] = MappingProxyType({})) -> list[dict[str, Json]]:
    """The records of one JSON file."""

    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no file {str(path)!r}.{written_by(path, stages)}") from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    except ValueError as error:
        repair = "A list of records is expected."
        raise DataError(f"is not JSON ({error})", path=path, repair=repair) from error
    if not isinstance(records, list):
        raise DataError("must hold a list of records", path=path, value=records)
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise DataError(f"holds no record at number {number}", path=path, value=record)
    return records


def write_list(path: Path, records: Sequence[Mapping[str, Json]]) -> None:
    """One JSON file, at once or not at all."""
    from sweet_rl.records import replace_file

    text = json.dumps(list(records), indent=4, ensure_ascii=False, allow_nan=False)
    tracking.writes(path)
    replace_file(path, [text.encode("utf-8", "surrogatepass"), b"\n"])
