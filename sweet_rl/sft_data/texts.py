"""Training texts and task records on disk, in the published forms.

Published behaviour: docs/published/reflect_rl.md#file-formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import SftTexts
from sweet_rl.command_line.listing import StageEntry, written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file
from sweet_rl.sft_data.flags import TextFlags
from sweet_rl.types import Json

LABELS: Final = ("taken", "best")
"""What a policy may be trained to do: what the player did, or what the oracle would have done."""


@dataclass(slots=True)
class Texts:
    """Training texts by file name, and skipped records by reason."""

    files: dict[str, list[str]]
    skipped: Counter[str] = field(default_factory=Counter)

    def write(self, folder: Path, *, overwrite: bool = False) -> None:
        """One file each; lines of `{"text": ...}`, and no line break behind the last, as published."""
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
    """The target of a record."""
    field = "best_action" if label == "best" else "action"
    value = record.get(field)
    if value is None or isinstance(value, (bool, float, list, dict)):
        raise DataError(
            "must be a label",
            field=field,
            value=value,
            repair="Records of other programs have only the action that was taken."
            if label == "best"
            else "",
        )
    return str(value)


def read_list(path: Path, stages: Mapping[str, StageEntry] = MappingProxyType({})) -> list[dict[str, Json]]:
    """The records of one JSON file."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {str(path)!r} (looked in {str(Path.cwd())!r}).{written_by(path, stages)}"
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    except ValueError as error:
        raise DataError(
            f"is not JSON ({error})", path=path, repair="A list of records is expected."
        ) from error
    if not isinstance(records, list):
        raise DataError("must hold a list of records", path=path, value=records)
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise DataError(f"holds a record (number {number}) that is no object", path=path, value=record)
    return records


def write_list(path: Path, records: Sequence[Mapping[str, Json]]) -> None:
    """One JSON file, at once or not at all."""
    text = json.dumps(list(records), indent=4, ensure_ascii=False, allow_nan=False)
    tracking.writes(path)
    replace_file(path, [text.encode("utf-8", "surrogatepass"), b"\n"])


def _refuse(name: str) -> Json:
    raise ValueError(f"it holds {name}, which is not JSON")
