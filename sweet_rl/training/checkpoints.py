"""Checkpoints of every trainer: whole, checked, compared with what resumes, written by one run.

A checkpoint is a folder `checkpoint-<step>`, made under another name and renamed. Its `manifest.json` is
written last: size and SHA-256 of each file, what the run was made from (flags, data, models), and how long
files beside it were (`trajectories.jsonl`). Importing this module imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.chat.formats import model_path
from sweet_rl.errors import DataError, NonFiniteError, StorageError, UsageError, first_line
from sweet_rl.records import locked, replace_rows, sync_path
from sweet_rl.runs.facts import digest_of
from sweet_rl.tracking import is_record
from sweet_rl.types import Json

PARTIAL = ".partial"  # Folder in which a checkpoint is made

# The file that makes a folder a checkpoint, and the one that says what must be in it.
STATE, MANIFEST = "trainer_state.json", "manifest.json"

# A nested state of tensors and plain data. Pickles run what they say when they are read; these do not.
TENSORS, PLAIN = "state.safetensors", "state.json"

_NAME = re.compile(r"checkpoint-(\d+)")
# How torch and safetensors say that a file could not be written.
_DISK = re.compile(
    r"no space|quota|too large|(?:os|i/o) error|iostream|file write|StreamWriter|unexpected pos", re.I
)


@contextmanager
def held(*paths: Path) -> Iterator[None]:
    """No other run writes to these files and folders while the block lasts; a killed holder blocks nobody."""
    with ExitStack() as stack:
        for path in sorted({Path(os.path.realpath(path.expanduser())) for path in paths}):
            stack.enter_context(locked(path))
        yield


def step_of(checkpoint: Path) -> int:
    """The step in a checkpoint's name; -1 for any other name."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def complete_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints in `folder` that were not removed in part, oldest first; `resumable` reads them."""
    return [path for path in checkpoints_in(folder) if (path / STATE).is_file()]


def checkpoints_in(folder: Path, flag: str = "") -> list[Path]:
    """All folders with a checkpoint's name in `folder`, oldest first; `folder` may also be one itself.

    With a `flag` that names it, a folder that holds other things and no checkpoint is refused.
    """
    if step_of(folder) >= 0 and folder.is_dir():
        return [folder]
    if flag and folder.exists() and not folder.is_dir():
        raise UsageError(f"{flag} {str(folder)!r} is a file; name the folder that holds the checkpoints.")
    entries = list(folder.iterdir()) if folder.is_dir() else []
    found = sorted((path for path in entries if step_of(path) >= 0 and path.is_dir()), key=step_of)
    others = [path for path in entries if not path.name.startswith(".") and not is_record(path)]
    if flag and not found and others:  # what is hidden and a record: of a run that was killed early
        raise UsageError(
            f"{flag} {str(folder)!r} holds no checkpoint (folders checkpoint-<step> with a {MANIFEST}). "
            "Name the folder that the interrupted run wrote its checkpoints to, or an empty one."
        )
    return found


def resumable(
    folder: Path,
    made_from: Mapping[str, Json],
    say: Callable[[str], object],
    *,
    instead: str,
    rounding: Collection[str] = (),
) -> Path | None:
    """The newest checkpoint that is as it was written; None where there is none at all.

    Damaged ones that are newer are named and put aside, so that they are never counted again.
    """
    damaged: list[tuple[Path, str]] = []
    for checkpoint in reversed(checkpoints_in(folder)):
        theirs, wrong = _looked_at(checkpoint)
        if wrong:
            damaged.append((checkpoint, wrong))
            continue
        where = f"The checkpoint {str(checkpoint)!r}"
        check_same(theirs, made_from, where, instead=instead, free=rounding)
        for path, why in damaged:
            aside = path.with_name(f"damaged-{path.name}")
            while aside.exists():
                aside = aside.with_name(f"{aside.name}-again")
            path.rename(aside)
            say(f"{str(path)!r} is damaged and not used: {why}. It is now {aside.name!r}.")
        if changed := differences(theirs, made_from):  # all of them among `rounding`
            told = ", ".join(changed.values())
            say(f"Computed in another way than before, so equal up to rounding: {told}.")
        return checkpoint
    if damaged:
        told = "; ".join(f"{path.name}: {why}" for path, why in damaged)
        raise StorageError(
            f"No checkpoint in {str(folder)!r} can be resumed from. {told}. Nothing was changed: restore "
            f"one of them from a copy, move them away, or {instead}."
        )
    return None


def _looked_at(checkpoint: Path) -> tuple[dict[str, Any], str]:
    """What it was made from, and what of the checkpoint is not as it was written; "" for nothing."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        files, made_from = dict(manifest["files"]), dict(manifest["made_from"])
    except FileNotFoundError:
        return {}, f"{MANIFEST} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {}, f"{MANIFEST} cannot be read ({type(error).__name__}: {first_line(error)})"
    for name, was in files.items():  # sizes first: these are known at once
        path = checkpoint / name
        if not path.is_file():
            return made_from, f"{name} is missing"
        if (size := path.stat().st_size) != was["bytes"]:
            return made_from, f"{name} has {size:,} bytes, and {was['bytes']:,} were written"
    try:
        changed = [name for name, now in _digests(checkpoint, files).items() if now != files[name]]
    except OSError as error:
        return made_from, f"{error.filename} cannot be read: {error.strerror}"
    return made_from, f"{changed[0]} does not hold the bytes that were written (SHA-256)" if changed else ""


def differences(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> dict[str, str]:
    """What two runs are made from that differs, in words; all by names of flags or settings."""
    theirs, ours = (json.loads(json.dumps(dict(one), default=str)) for one in (theirs, ours))
    return {
        name: f"{name} was {theirs.get(name)!r}, is {ours.get(name)!r}"
        for name in dict.fromkeys([*theirs, *ours])
        if theirs.get(name) != ours.get(name)
    }


def check_same(
    theirs: Mapping[str, Json],
    ours: Mapping[str, Json],
    where: str,
    *,
    instead: str,
    free: Collection[str] = (),
) -> None:
    """Refuse to resume what was made from something else; `where` begins the sentence."""
    if changed := [words for name, words in differences(theirs, ours).items() if name not in free]:
        raise UsageError(
            f"{where} was made with other settings, data or models: {'; '.join(changed)}. Resume it with the "
            f"earlier ones, or {instead}."
        )


def identity_of(source: str | None) -> str | None:
    """What a model, a file or a folder goes by, wherever it lies: a digest; on the hub its name and commit.

    Of a model's folder weights and `config.json` count; of large weights a sample (`sweet_rl.runs.facts`).
    """
    if source is None:
        return None
    path = Path(model_path(source)).expanduser()
    if path.is_file():
        return f"sha256:{digest_of(path)['sha256'][:16]}"
    if not path.is_dir():
        cached = downloaded(source)
        return source if cached is None else f"{source} at {cached.name}"
    files = [path / "config.json", path / "adapter_config.json"]
    files += [file for file in sorted(path.glob("*")) if file.suffix in {".safetensors", ".bin", ".pt"}]
    parts = [(file.name, digest_of(file)["sha256"]) for file in files if file.is_file()]
    parts = parts or [("", digest_of(path)["sha256"])]  # a folder of data
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def downloaded(name: str) -> Path | None:
    """The folder of a hub's model in the local cache, named after its commit; None where there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError):
        return None


def weights_digest(name: str) -> str | None:
    """A fingerprint of a model's files, by all of their content; None where they are not found."""
    folder = Path(model_path(name))
    folder = folder if folder.is_dir() else downloaded(name) or folder
    files = [path for path in sorted(folder.glob("*")) if path.suffix in {".safetensors", ".bin"}]
    if not files:
        return None
    total = hashlib.sha256()
    for path in (*files, *folder.glob("config.json")):
        total.update(f"{path.name} {_digest(path)['sha256']}\n".encode())
    return total.hexdigest()[:16]


def covered(folder: Path, path: Path) -> str:
    """What is wrong with a run's file up to where it was at the newest checkpoint in `folder`; "" for nothing."""
    for checkpoint in reversed(checkpoints_in(folder)):
        with suppress(OSError, ValueError, KeyError, TypeError):
            was = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))["covers"][path.name]
            size, then = (path.stat().st_size if path.is_file() else -1), f"{was['bytes']:,} bytes"
            if size < was["bytes"]:
                now = "is missing" if size < 0 else f"is {size:,} bytes long"
                return f"{now}, and had {then} at {checkpoint.name}"
            if _digest(path, was["bytes"]) != was:
                return f"has been changed in the {then} that it had at {checkpoint.name}"
            break
    return ""


@contextmanager
def writing(
    folder: Path, step: int, state: Json, made_from: Mapping[str, Json], covers: Collection[Path] = ()
) -> Iterator[Path]:
    """An empty folder for the checkpoint of a step, which gets its place when the block has ended."""
    made = folder / PARTIAL / f"checkpoint-{step}"
    with storing(folder / made.name, folder / PARTIAL):
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)
        made.mkdir(parents=True)
        yield made
        (made / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        publish(folder, made.name, made_from, covers)


@contextmanager
def storing(target: Path, partial: Path) -> Iterator[None]:
    """What cannot be written within becomes an error of ours, whoever writes; what there is of it is removed."""
    try:
        yield
    except Exception as error:
        theirs = type(error).__name__ in {"RuntimeError", "SafetensorError"}
        if not isinstance(error, OSError) and not (theirs and _DISK.search(str(error))):
            raise
        shutil.rmtree(partial, ignore_errors=True)
        why = getattr(error, "strerror", None) or f"is the disk or a quota full? ({first_line(error)})"
        raise StorageError(
            f"Cannot write {str(target)!r}: {why}. The checkpoints before it are whole: free some space or "
            "raise the quota, then resume."
        ) from error


def publish(folder: Path, name: str, made_from: Mapping[str, Json], covers: Collection[Path] = ()) -> None:
    """Give the finished `folder/.partial/<name>` its manifest and its place; it survives a power cut."""
    made, target = folder / PARTIAL / name, folder / name
    files = [path.relative_to(made).as_posix() for path in sorted(made.rglob("*")) if path.is_file()]
    manifest = {
        "made_from": dict(made_from),
        "files": _digests(made, files),
        "covers": {path.name: _digest(path) for path in covers if path.is_file()},
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1, default=str), encoding="utf-8")
    for path in (*made.rglob("*"), made):
        sync_path(path)
    if target.exists():
        shutil.rmtree(target)
    made.rename(target)
    shutil.rmtree(folder / PARTIAL, ignore_errors=True)
    sync_path(folder)


def rotate(folder: Path, *, keep: int, max_gb: float) -> None:
    """Remove the oldest checkpoints until at most `keep` of at most `max_gb` are left; the newest stays."""
    found = complete_checkpoints(folder)
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in found}
    while len(found) > 1 and (len(found) > keep or sum(sizes[path] for path in found) > max_gb * 1e9):
        oldest = found.pop(0)
        (oldest / STATE).unlink()  # no longer complete, should we be killed in the middle
        shutil.rmtree(oldest)


def _digests(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Json]]:
    """Size and SHA-256 of files; several at once, as hashing frees the interpreter."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(lambda name: _digest(folder / name), names), strict=True))


def _digest(path: Path, most: int | None = None) -> dict[str, Json]:
    """Of a file, or of its first bytes."""
    total, size = hashlib.sha256(), path.stat().st_size if most is None else most
    with path.open("rb") as file:
        left = size
        while left > 0 and (block := file.read(min(left, 1 << 22))):
            total.update(block)
            left -= len(block)
    return {"bytes": size, "sha256": total.hexdigest()}


def save_state(folder: Path, state: Any) -> None:
    """Write dicts (of any plain keys), lists, tuples, tensors, numbers, strings and None into `folder`."""
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {}
    plain = _pack(state, tensors, "state")
    save_file(tensors, folder / TENSORS)
    (folder / PLAIN).write_text(json.dumps(plain), encoding="utf-8")


def load_state(folder: Path) -> Any:
    """What `save_state` wrote, tensors on the CPU."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return _unpack(json.loads((folder / PLAIN).read_text(encoding="utf-8")), load_file(folder / TENSORS))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(
            f"The checkpoint {str(folder)!r} cannot be read ({first_line(error)}). Name another one."
        ) from error


def _pack(value: Any, tensors: dict[str, Any], name: str) -> Json:
    from torch import Tensor

    match value:
        case Tensor():
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()  # copies may not share memory
            return {"$tensor": name}
        case dict():
            return {"$pairs": [[key, _pack(item, tensors, f"{name}.{key}")] for key, item in value.items()]}
        case tuple():
            return {"$tuple": [_pack(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]}
        case list():
            return [_pack(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"{name} is a {type(value).__name__}: neither a tensor nor plain data")


def _unpack(value: Json, tensors: Mapping[str, Any]) -> Any:
    match value:
        case {"$tensor": name}:
            return tensors[name]
        case {"$pairs": pairs}:
            return {key: _unpack(item, tensors) for key, item in pairs}
        case {"$tuple": items}:
            return tuple(_unpack(item, tensors) for item in items)
        case list():
            return [_unpack(item, tensors) for item in value]
    return value


def finite(values: Mapping[str, Any]) -> dict[str, Json]:
    """Numbers as JSON has them: non-finite ones become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


class MetricsLog:
    """Appends lines to a file, and reports them (`sweet_rl.tracking`); only the first process has one."""

    def __init__(self, path: str | Path | None, *, after_step: int = 0) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None:
            kept = [row for row in _rows(self._path) if row["step"] <= after_step] if after_step else []
            replace_rows(self._path, kept)

    def append(self, values: Mapping[str, Any]) -> None:
        """Add one line; what a crash of the machine loses, a resumed run writes again."""
        if self._path is not None:
            tracking.logs(values["step"], values)
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(finite(values)) + "\n")
            except OSError as error:
                where = f"Cannot write to {str(self._path)!r}: {error.strerror}"
                raise StorageError(f"{where}. Free some space, then resume.") from error


class Guard:
    """Keeps what is NaN or infinite from the weights, and says what came before it."""

    def __init__(self, what: str, tries: str, *, unit: str = "update") -> None:
        self._what, self._tries, self._unit = what, tries, unit
        self._last: deque[str] = deque(maxlen=3)
        self._done = 0

    def note(self, number: int, loss: float, norm: float) -> None:
        """The loss and the gradient's norm of an update that was made."""
        self._last.append(f"{self._unit} {number}: loss {loss:.4g}, norm {norm:.4g}")

    def check(self, loss: float, norm: float, rows: str, number: int | None = None) -> None:
        """Call it before every optimizer step, on each process with the same numbers."""
        self._done = self._done + 1 if number is None else number
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise self.error(self._done, f"loss {loss:.4g}, norm of the gradient {norm:.4g}", rows)
        self.note(self._done, loss, norm)

    def error(self, number: int, now: str, rows: str, kept: str = "") -> NonFiniteError:
        """The error of an update that must not be made: what it has `now`, before, by which rows."""
        before = f" Before: {'; '.join(self._last)}." if self._last else " It was the first since the start."
        return NonFiniteError(
            f"{self._unit.capitalize()} {number} of {self._what} is not a finite number ({now}); it was not "
            f"made, and the weights are as before.{before} Its rows: {rows}. {kept}{self._tries}"
        )


def last_step(path: Path) -> int:
    """The last step in a log; 0 without one."""
    return max((row["step"] for row in _rows(path)), default=0)


def _rows(path: Path) -> list[dict[str, Json]]:
    """The lines that name a step; a torn last one is left out: its step is done again."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().rpartition(b"\n")[0].splitlines(), start=1):
        try:
            row = json.loads(line)
            if isinstance(row.get("step"), int):
                found.append(row)
        except (ValueError, AttributeError) as error:
            raise DataError(
                f"is no JSON object ({error})", path=path, line=number, repair="Remove the line."
            ) from error
    return found
