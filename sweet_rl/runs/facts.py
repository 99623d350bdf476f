"""What records of runs say beside flags: versions, machine, digests, use and cost; and records that are there, read.

No host name, no user name and no environment is among it, and nothing heavy is imported. A file's digest is the SHA-256
of its bytes. Tensors fill files that are too large for that: of a file of weights above 64 MiB it covers the size, the first
and the last MiB, and 62 pieces of 64 KiB at even distances between them (`sampled` says so). A training changes all of
these; an edit of a few bytes elsewhere is not seen. A folder's digest is that of its files' names, sizes and digests.
A `run.json` may be another program's, torn, or edited: what has not the form of a record is none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from sweet_rl.chat.formats import folder_of, model_path
from sweet_rl.errors import UsageError
from sweet_rl.tracking import RECORD, Usage, is_record
from sweet_rl.types import Json
from sweet_rl.version import __version__

_PACKAGES: Final = (
    "torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft", "deepspeed", "bitsandbytes",
    "vllm", "ray", "datasets", "huggingface_hub", "hydra-core", "aiohttp", "numpy", "pillow",
    "jericho", "alfworld", "textworld", "fast-downward-textworld", "verifiers", "inspect_ai", "openenv",
    "skyrl-gym", "trl", "verl",
)  # fmt: skip


def now() -> str:
    """The date and the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the library, of Python, and of installed packages that affect numbers."""
    found = {"sweet_rl": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@functools.cache
def library() -> dict[str, Json]:
    """`commit` and `changed` (whether tracked files differ from it), where the library is a git checkout."""
    package = Path(__file__).parents[1]
    if not _git(package, "ls-files", "__init__.py"):  # installed, or in another repository
        return {}
    return {
        "commit": _git(package, "rev-parse", "HEAD"),
        "changed": bool(_git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")),
    }


def commit() -> str:
    """The library's commit in words; empty where it is no git checkout."""
    found = library()
    return f"{found['commit']}{' with changes' if found['changed'] else ''}" if found else ""


@functools.cache
def machine() -> dict[str, Json]:
    """Kernel, processor, cores that we may use, and memory."""
    processor = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    except OSError:
        processor = platform.processor() or processor
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def gpus() -> list[str]:
    """Names of the GPUs that torch has in use; none where it is not loaded."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():  # not loaded, or only just being loaded
        return []
    return [str(cuda.get_device_name(place)) for place in range(cuda.device_count())]


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # fixed words
            ["git", "-C", str(folder), *words],  # whichever git there is
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


_WEIGHTS: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_WHOLE: Final = 64 << 20  # bytes of a file of weights whose digest covers all of it
_END, _PIECE, _PIECES = 1 << 20, 64 << 10, 62
_SILENT: Final = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING})
_LAYOUT: Final = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


def digest_of(path: Path) -> dict[str, Json]:
    """`bytes`, `mtime` (seconds) and `sha256` of a file; of a folder `files`, `bytes` and `sha256`.

    Also `code` where there is Python: the same as for `sha256`, but of its tokens, without comments and layout.
    """
    if not path.is_dir():
        return of_open_file(path.open("rb"), path.suffix)
    whole, code, number, size, sampled, is_code = hashlib.sha256(), hashlib.sha256(), 0, 0, False, False
    for file in entries_of(path):
        if is_record(file) or not file.is_file():
            continue
        one = digest_of(file)
        name = file.relative_to(path).as_posix()
        whole.update(f"{name}\0{one['bytes']}\0{one['sha256']}\n".encode("utf-8", "surrogateescape"))
        code.update(f"{name}\0{one.get('code', one['sha256'])}\n".encode("utf-8", "surrogateescape"))
        number, size, sampled = number + 1, size + one["bytes"], sampled or "sampled" in one
        is_code = is_code or "code" in one
    found: dict[str, Json] = {"files": number, "bytes": size, "sha256": whole.hexdigest()}
    return found | ({"code": code.hexdigest()} if is_code else {}) | ({"sampled": True} if sampled else {})


def identity_of(model: str | Path) -> str:
    """What a model goes by: `sha256:` and the digest of a folder; the name of what is none."""
    folder = Path(model_path(model)).expanduser()
    return f"sha256:{digest_of(folder)['sha256']}" if folder.is_dir() else str(model)


@functools.lru_cache(1024)  # the steps of one process digest a world's package again and again
def _code_of(text: bytes) -> str:
    # Two threads that use ast.parse disturb each other (cpython#106905), and records have a thread of their own.
    tokens = tokenize.tokenize(BytesIO(text).readline)
    code = [(one.type, one.type in _LAYOUT or one.string) for one in tokens if one.type not in _SILENT]
    return hashlib.sha256(repr(code).encode("utf-8", "surrogatepass")).hexdigest()


def of_open_file(file: BufferedReader, suffix: str) -> dict[str, Json]:
    """Of a file that is open already: as it was then, even if it has been replaced since. Closes it."""
    with file:
        facts = os.fstat(file.fileno())
        found: dict[str, Json] = {"bytes": facts.st_size, "mtime": facts.st_mtime}
        if suffix == ".py":
            text = file.read()
            with suppress(SyntaxError, ValueError, tokenize.TokenError):
                found["code"] = _code_of(text)
            return found | {"sha256": hashlib.sha256(text).hexdigest()}
        if suffix not in _WEIGHTS or facts.st_size <= _WHOLE:
            return found | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
        digest = hashlib.sha256(str(facts.st_size).encode())
        digest.update(file.read(_END))
        room = facts.st_size - 2 * _END - _PIECE
        for piece in range(_PIECES):
            file.seek(_END + room * piece // (_PIECES - 1))
            digest.update(file.read(_PIECE))
        file.seek(facts.st_size - _END)
        digest.update(file.read(_END))
        return found | {"sha256": digest.hexdigest(), "sampled": True}


def unchanged(path: Path, then: Json) -> bool | None:
    """Whether the file still has the digest of `digest_of`, or Python the same `code`; None where there is none.

    A file of the same size and time of change is believed to be the same.
    """
    try:
        facts = path.stat()
        if not path.is_dir():
            if facts.st_size != then.get("bytes") and "code" not in then:
                return False
            if (facts.st_size, facts.st_mtime) == (then.get("bytes"), then.get("mtime")):
                return True
        now = digest_of(path)
        return any(kind in then and now.get(kind) == then[kind] for kind in ("sha256", "code"))
    except OSError:
        return None


def entries_of(folder: Path) -> Iterator[Path]:
    """What is no folder below a folder, in the order of the names, without what is hidden."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


# ---- records, read

_Objects: Final = list[dict[str, Any]] | None
_Usage: Any = msgspec.defstruct("_Usage", [
    ("prompt_tokens", int | None), ("completion_tokens", int | None), ("replies_without_usage", int), ("retries", int),
    ("replies", int), ("requests", int, 0), ("failed_requests", int, 0),
])  # fmt: skip
_Cost: Any = msgspec.defstruct("_Cost", [("usd", float | None)])
_Progress: Any = msgspec.defstruct(
    "_Progress",
    [("unit", str), ("done", int), ("total", int), ("failed", int, 0), ("per_s", float | None, None)],
)
_Record: Any = msgspec.defstruct("_Record", [
    ("id", str), ("stage", str), ("status", str), ("sessions", list[dict[str, Any]]), ("wall_s", float | None, None),
    ("inputs", _Objects, None), ("outputs", _Objects, None), ("settings", dict[str, Any] | None, None),
    ("seeds", dict[str, Any] | None, None), ("step", dict[str, Any] | None, None), ("cost", _Cost | None, None),
    ("usage", dict[str, dict[str, _Usage]], {}), ("progress", _Progress | None, None),
    ("numbers", dict[str, float | None] | None, None),
])  # fmt: skip
"""What is read of a record by name; it may have more."""


def place_of(path: Path, *, folder: bool) -> Path:
    """Where the record of an output is."""
    return path / RECORD if folder else path.with_name(f"{path.name}.{RECORD}")


def read_record(place: Path) -> dict[str, Json] | None:
    """The record at that path; None where no readable one is."""
    try:
        found: dict[str, Json] = json.loads(place.read_bytes())
        msgspec.convert(found, _Record)
    except (OSError, ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    return {"usage": {}} | found


def place_in(record: Mapping[str, Json], path: str) -> Path:
    """A path of a record, wherever this process is."""
    return Path(os.path.normpath(Path(str(record.get("folder") or ""), Path(path).expanduser())))


def changed_input(record: Mapping[str, Json], flag: str | None = None) -> str:
    """An input of the run, or of this flag alone, that is not as it was then, in words; empty where there is none."""
    own = {str(one["path"]): one for one in record.get("outputs") or [] if "sha256" in one}
    for entry in record.get("inputs") or []:
        source = str(entry["source"])
        then = own.get(source, entry)  # what it has changed itself
        if "sha256" not in then or flag not in (None, entry["flag"]):  # a name
            continue
        path = folder_of(source) or place_in(record, source)
        same = unchanged(path, then)
        if not same:
            return f"{path} {'is gone' if same is None else 'has changed'}"
    return ""


def maker_of(path: Path) -> dict[str, Json] | None:
    """The record of a path: its own, or that of the folder around it."""
    for place in (place_of(path, folder=path.is_dir()), *(above / RECORD for above in path.parents[:3])):
        found = read_record(place)
        if found is not None:
            return found
    return None


def trained_from(critic: str | Path) -> str | None:
    """The model that a critic of `train_dpo` began as, by its folder's record; None where none says it."""
    found = read_record(place_of(Path(critic).expanduser(), folder=True))
    if found is None or found["stage"] != "train_dpo":
        return None
    base = (found.get("settings") or {}).get("pretrain")
    if not isinstance(base, str):
        return None
    there = Path(str(found.get("folder") or ""), base)
    return str(there) if there.is_dir() else base


_NUMBERS = ("requests", "retries", "failed_requests", "replies", "replies_without_usage", "reasoning_tokens")
_TOKENS = ("prompt_tokens", "completion_tokens")


def summed(usages: Iterable[Usage]) -> dict[str, dict[str, Json]]:
    """Of all models that were asked anything; tokens are null where no reply reported them.

    Who only asked a server which models it has asked none of them.
    """
    parts: list[dict[str, dict[str, Json]]] = []
    for usage in usages:
        if usage.requests and (usage.model or usage.replies):
            known = usage.replies > usage.uncounted or not usage.replies
            row = {
                "requests": usage.requests,
                "retries": sum(usage.retries.values()),
                "failed_requests": sum(usage.failed.values()),
                "replies": usage.replies,
                "replies_without_usage": usage.uncounted,
                "prompt_tokens": usage.prompt_tokens if known else None,
                "completion_tokens": usage.completion_tokens if known else None,
                "reasoning_tokens": usage.reasoning_tokens,
            }
            parts.append({usage.role: {usage.model: row}})
    return added(parts)


def added(parts: Iterable[Mapping[str, Mapping[str, Json]]]) -> dict[str, dict[str, Json]]:
    """The sums of several such tables. A number that is unknown in one of them is ignored."""
    totals: dict[str, dict[str, Json]] = {}
    for part in parts:
        for role, models in part.items():
            for model, row in models.items():
                old = totals.setdefault(role, {}).get(model, {})
                both = {name: old.get(name, 0) + row.get(name, 0) for name in _NUMBERS}
                for name in _TOKENS:
                    known = [one[name] for one in (old, row) if one.get(name) is not None]
                    both[name] = sum(known) if known else None
                totals[role][model] = both
    return totals


_FORMAT = (
    'A table of prices is TOML or JSON: for each model the US dollars of a million tokens, ["gpt-4o-mini"] '
    "with input = 0.15 and output = 0.60 below it."
)


class Price(NamedTuple):
    """US dollars of a million tokens that a model reads, and writes."""

    input: float
    output: float


def load_prices(path: str) -> dict[str, Price]:
    """The table in a file, by the model's name."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"--prices {path!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"--prices {path!r} is broken: {error}. {_FORMAT}") from error
    if not isinstance(table, dict):
        raise UsageError(f"--prices {path!r} holds no table. {_FORMAT}")
    prices: dict[str, Price] = {}
    for name, entry in table.items():
        fits = isinstance(entry, dict) and set(entry) == {"input", "output"}
        if not fits or not all(type(one) in {int, float} and 0 <= one < math.inf for one in entry.values()):
            raise UsageError(f"--prices {path!r}: {name!r} is {entry!r}. {_FORMAT}")
        prices[name] = Price(**entry)
    return prices


def cost_of(usage: Mapping[str, Mapping[str, Json]], prices: Mapping[str, Price]) -> dict[str, Json]:
    """Dollars by role, and in all; null where a price or a number of tokens is unknown: `unknown` says which.

    A model that never replied has cost nothing.
    """
    roles: dict[str, Json] = {}
    unknown: list[str] = []
    for role, models in usage.items():
        parts: list[float] = []
        for model, used in models.items():
            if not used["replies"]:
                parts.append(0.0)
            elif model not in prices:
                unknown.append(f"the price of {model!r} ({role})")
            elif used["prompt_tokens"] is None or used["replies_without_usage"]:
                unknown.append(f"the tokens of {model!r} ({role})")
            else:
                price = prices[model]
                millions = used["prompt_tokens"] * price.input + used["completion_tokens"] * price.output
                parts.append(millions / 1e6)
        roles[role] = round(sum(parts), 6) if len(parts) == len(models) else None
    total = None if None in roles.values() else round(sum(roles.values()), 6)
    by_role = {f"{role}_usd": dollars for role, dollars in roles.items()}
    return {"usd": total, **by_role} | ({"unknown": unknown} if unknown else {})


_SILENT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """A record and its path (the first one, where several outputs have it)."""

    place: Path
    content: Mapping[str, Json]

    @property
    def status(self) -> str:
        """As recorded; also whether a running one has been silent for a minute."""
        status = str(self.content["status"])
        if status != "running":
            return status
        try:
            seen = datetime.fromisoformat(str(self.content.get("updated")))
        except ValueError:
            return "interrupted"
        silent = (datetime.now(UTC) - seen).total_seconds()
        return "running" if silent < _SILENT_S else "interrupted"


def runs_below(folder: Path) -> list[Found]:
    """The runs whose records are below a folder, oldest first."""
    found: dict[str, Found] = {}
    for place in entries_of(folder):
        if is_record(place) and (content := read_record(place)) is not None:
            found.setdefault(str(content["id"]), Found(place, content))
    return sorted(found.values(), key=lambda run: (str(run.content.get("started")), str(run.content["id"])))
