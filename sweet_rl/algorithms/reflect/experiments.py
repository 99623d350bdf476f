"""Folders of runs: their numbers, their settings, and what runs take over from each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.errors import StorageError, UsageError, missing_package
from sweet_rl.records import replace_file
from sweet_rl.types import Json

SETTINGS = "setting.yml"

TAKEN_OVER = ("model_name", "lora_r", "bf16", "fp16", "use_8bit", "use_4bit")
"""Flags whose values come from the run that made the checkpoint, whatever is typed."""

FREE = frozenset(
    {
        "max_steps", "save_steps", "save_total_limit", "logging_steps", "cache_dir", "ckpt_path", "device",
        "max_tokens_per_batch", "sandbox_dir",
    }
)  # fmt: skip
"""Flags that may change when a run is continued: they decide about nothing that was made."""


def next_experiment(folder: Path, stage: str) -> Path:
    """Make the folder of a new run: `NNN_stage`, one number above the largest there (the first is 000).

    Raises:
        StorageError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            numbers = [int(path.name[:3]) for path in folder.iterdir() if _numbered(path)]
            made = folder / f"{max(numbers, default=-1) + 1:03d}_{stage}"
            try:
                made.mkdir()
            except FileExistsError:  # another run took the number just now
                continue
            return made
    except OSError as error:
        raise StorageError(
            f"--ckpt_path {str(folder)!r}: no folder can be made there: {error.strerror}."
        ) from error


def _numbered(path: Path) -> bool:
    return path.is_dir() and path.name[:3].isascii() and path.name[:3].isdecimal() and len(path.name) > 3


def save_settings(folder: Path, settings: ReflectSettings) -> None:
    """Write all flags as a flat map."""
    text = _yaml().safe_dump(asdict(settings), sort_keys=False)
    replace_file(folder / SETTINGS, [text.encode()])


def read_settings(folder: Path) -> dict[str, Json]:
    """The flags that a run's folder was made with; published ones are read as well.

    Raises:
        UsageError: there is no such file, or it is no flat map.
    """
    path = folder / SETTINGS
    yaml = _yaml()
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{str(folder)!r} is no run's folder: it has no {SETTINGS}.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        line = str(error).splitlines()[0]
        raise UsageError(f"{str(path)!r} cannot be read: {line}.") from error
    if not isinstance(found, dict):
        raise UsageError(f"{str(path)!r} must hold a map of flags, got {type(found).__name__}.")
    return {str(key): value for key, value in found.items()}


def with_saved(settings: ReflectSettings, checkpoint: str | None) -> ReflectSettings:
    """The settings with `TAKEN_OVER` from the run that made the checkpoint, if it is known (spec §5)."""
    if checkpoint is None or not (Path(checkpoint).expanduser().parent / SETTINGS).is_file():
        return settings
    saved = read_settings(Path(checkpoint).expanduser().parent)
    return replace(settings, **{name: saved[name] for name in TAKEN_OVER if name in saved})


def with_saved_reflector(settings: ReflectSettings) -> ReflectSettings:
    """The settings with the model that `reflect_load_dir` was trained on, if its run is known.

    Published: the model is always that of `--reflect_model_name`.
    """
    checkpoint = settings.reflect_load_dir
    if checkpoint is None or settings.strict:
        return settings
    run = Path(checkpoint).expanduser().parent
    if not (run / SETTINGS).is_file():
        return settings
    name = read_settings(run).get("model_name", settings.reflect_model_name)
    return replace(settings, reflect_model_name=name)


def continued(folder: Path, settings: ReflectSettings, typed: Mapping[str, Any]) -> ReflectSettings:
    """The settings of a run that is to be continued.

    Args:
        folder: of the run.
        settings: as typed, with defaults.
        typed: the flags of these that differ from their defaults.

    Raises:
        UsageError: a flag that was typed contradicts the run.
    """
    saved = read_settings(folder)
    known = {field.name for field in fields(ReflectSettings)}
    before = replace(settings, **{name: value for name, value in saved.items() if name in known})
    changed = [
        f"--{name} was {saved[name]!r}, is {value!r}"
        for name, value in typed.items()
        if name not in FREE and name != "mode" and name in saved and saved[name] != value
    ]
    if changed:
        raise UsageError(
            f"{str(folder)!r} was begun with other flags: {', '.join(changed)}. Leave these out to go on "
            "with it, or begin a new run with --load_dir."
        )
    return replace(before, **{name: value for name, value in typed.items() if name in FREE})


def typed_flags(settings: ReflectSettings) -> dict[str, Any]:
    """Flags that differ from their defaults."""
    return {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if getattr(settings, field.name) != field.default
    }


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415 - comes with transformers
    except ImportError as error:
        raise missing_package("pyyaml", "reflect", needed_for="A run's setting.yml") from error
    return yaml
