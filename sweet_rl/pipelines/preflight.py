"""Checks before a long run: data, models, disk, GPUs, packages, servers. They take seconds and change nothing.

Nothing here knows stages or their flags (`needs` does). Memory and disk of a training are estimates.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sweet_rl.chat.formats import model_path
from sweet_rl.errors import SweetRLError, UsageError
from sweet_rl.flags import listed
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy, shown
from sweet_rl.records import read_rows
from sweet_rl.records.rows import trajectory_from_row
from sweet_rl.types import Json
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.dialogue import HUB_REPOSITORY, published_data

GB: Final = 1e9
_INSTALL: Final = {
    "deepspeed": "pip install '.[deepspeed]'",
    "flash_attn": "--set values.flash_attn=false, or pip install flash-attn",
    "vllm": "--set values.vllm_python=the interpreter of an environment with vLLM, or agent: transformers",
    "chromium": "apt-get install chromium",
    "torch": "make install, or pip install '.[training]'",
    "PIL": "pip install '.[pages]'",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and its result: "wrong" would end the run, "warn" may, or makes it another run than intended."""

    level: Literal["ok", "warn", "wrong"]
    what: str
    seen: str
    repair: str = ""

    def __str__(self) -> str:
        line = f"{self.level.upper():<6} {self.what}: {self.seen}"
        return f"{line}\n       repair: {self.repair}" if self.repair else line


fine, warn, wrong = partial(Finding, "ok"), partial(Finding, "warn"), partial(Finding, "wrong")


# ---- data


def look_at_tasks(what: str, source: str, *, wanted: int, variable: str, world: str) -> Finding:
    """A task source: as many tasks as are wanted, each with what its world needs."""
    name, _, split = source.partition(":")
    file = f"backend_tasks/{split or 'test'}.jsonl"
    if name == HUB_REPOSITORY and not _in_hub_cache(HUB_REPOSITORY, file, repo_type="dataset"):
        repair = f"hf download {HUB_REPOSITORY} --repo-type dataset"
        return warn(what, f"{source} is not in the hub's cache and will be fetched.", repair)
    if source.endswith(".jsonl") and not Path(source).is_file():
        lists = world_of(world).tasks
        repair = lists.how_to_get(Path(source)) if lists.how_to_get else f"name another file, or {lists.test}"
        return wrong(what, f"there is no file {source!r}", repair)
    try:
        tasks = load_tasks(source, num_tasks=wanted)
    except SweetRLError as error:
        return wrong(what, str(error), "name another source, or repair the file")
    if len(tasks) < wanted:
        seen = f"{source} has {len(tasks)} tasks, {wanted} are wanted"
        return wrong(what, seen, f"{variable}={len(tasks)}, or the whole file" if tasks else "another file")
    named = world_of(world)
    for task in tasks:
        if lacks := named.tasks.lacks(task):
            seen = f"task {task.task_id!r} of {source} has no {lacks}"
            return wrong(what, seen, f"tasks of {named.name}, such as {named.tasks.test}")
    return fine(what, f"{len(tasks)} of {source}")


def look_at_dialogues(path: str, *, repeats: int, flag: str = "OFFLINE") -> Finding:
    """Trajectories to learn from: readable, with prompts, `repeats` rows for each task."""
    what, named = "dialogues to learn from", Path(path)
    if not named.is_file():
        above = next((folder for folder in named.parents if folder.is_dir()), Path())
        near = sorted([*above.glob(named.name), *above.glob(f"*/{named.name}")])
        repair = f"{flag}={near[0]}" if near else published_data(named)
        return wrong(what, f"there is no file {path!r}", repair)
    try:
        rows = list(islice(read_rows(path), 100))  # a published file has 15,000 and may take a gigabyte
        for line, row in rows:
            trajectory_from_row(row, path=path, line=line)
    except SweetRLError as error:
        return wrong(what, str(error), f"fetch or make {path} again")
    if not rows:
        return wrong(what, f"{path} is empty", "fetch or make it again")
    entries = [entry for _, row in rows for entry in row["dialogue_history"]]
    turns = [entry for entry in entries if entry.get("role") == "assistant"]
    if not turns or not all(turn.get("input") for turn in turns):
        seen = f"{path}: an agent's turn has no 'input', the prompt that it answered"
        return wrong(what, seen, "take trajectories of simulate_interactions, or published ones")
    count = lines_of(named)
    if count % repeats:
        seen = f"{path} has {count} rows, which is no multiple of {repeats} repeats of each task"
        return wrong(what, seen, "set values.repeats to those that the file has, or fetch the whole file")
    return fine(what, f"{count} rows of {path}, {repeats} of each of {count // repeats} tasks")


def lines_of(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _in_hub_cache(name: str, file: str, **kind: str) -> Path | None:
    """Where the hub's cache has a file of a model or data set."""
    try:
        from huggingface_hub import try_to_load_from_cache  # an extra
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(name, file, **kind)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


# ---- the machine


class Gpu(NamedTuple):
    """One GPU: bytes of memory, and how many of them are free."""

    total: float
    free: float


def gpus() -> list[Gpu]:
    """The GPUs that child processes see; none where nvidia-smi lists none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=8, check=True)
        found = [Gpu(*(float(part) * 2**20 for part in line.split(","))) for line in done.stdout.splitlines()]
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    named = listed(visible)
    if not all(part.isdigit() for part in named):
        return found[: len(named)]  # named by their identity
    return [found[int(part)] for part in named if int(part) < len(found)]


def look_at_output(folder: Path) -> Finding:
    """Whether files can be written there, by writing one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".preflight-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return wrong(
            "output", f"{folder} cannot be written: {error.strerror}", "another folder (--set folder=...)"
        )
    return fine("output", f"{folder} can be written")


def look_at_disk(folder: Path, needed: float, parts: str) -> Finding:
    """Whether the disk has room for the outputs."""
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    seen = f"{free / GB:.1f} GB are free at {there}, about {needed / GB:.1f} GB are needed ({parts})"
    if free < needed:
        return wrong(
            "disk", seen, "another folder (--set folder=...), room on this disk, or fewer checkpoints"
        )
    tight = free < 1.5 * needed
    return warn("disk", seen, "these are estimates: make some room") if tight else fine("disk", seen)


def look_at_gpus(found: Sequence[Gpu], *, processes: int, needed: float, parts: str) -> Finding:
    """Whether the training has as many GPUs as processes, and each has the memory."""
    what, need = "GPU memory", f"about {needed / GB:.1f} GB"
    if not found:
        seen = f"nvidia-smi lists no GPU; {need} are needed ({parts})"
        if processes > 1:
            return wrong(what, seen, "a machine with GPUs, or a launcher with one process")
        repair = "none, if the CPU shall train; large models take long"
        return warn(what, f"{seen}, in main memory then", repair)
    if processes > len(found):
        seen = f"{processes} processes are to be launched, and there are {len(found)} GPUs"
        return wrong(what, seen, f"--set values.gpus={len(found)}, if that is enough memory")
    least, free = min(gpu.total for gpu in found), min(gpu.free for gpu in found)
    seen = f"{need} of each GPU's {least / GB:.1f} GB are needed ({parts})"
    if needed > least:
        more = "more GPUs, --zero_stage 3, --lora_rank, --adam_offload or a smaller --max_len"
        return wrong(what, seen, f"{more} in the configuration")
    if needed > free:
        return warn(what, f"{seen}, and {free / GB:.1f} GB are free", "end what else runs there (nvidia-smi)")
    if needed > 0.9 * least:
        return warn(what, seen, "that is tight: a smaller --max_len, or --adam_offload")
    return fine(what, seen)


def look_at_main_memory(needed: float) -> Finding:
    """Whether main memory has room for offloaded tensors."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = f"{total / GB:.0f} GB, about {needed / GB:.0f} GB are needed for Adam's states"
    what, repair = "main memory", "no --adam_offload, or --lora_rank"
    return wrong(what, seen, repair) if needed > total else fine(what, seen)


def look_at_programs(programs: Sequence[str], packages: Sequence[str]) -> list[Finding]:
    """Programs on the path, and packages of this environment, that stages will ask for."""
    lacking = {name: "is not on the path" for name in programs if shutil.which(name) is None}
    lacking |= {name: "is not installed" for name in packages if importlib.util.find_spec(name) is None}
    what, other = "programs and packages", "install it, or another configuration"
    if not lacking:
        return [fine(what, ", ".join(dict.fromkeys([*programs, *packages])))]
    return [wrong(what, f"{name!r} {why}", _INSTALL.get(name, other)) for name, why in lacking.items()]


# ---- models, and what their training needs

_TRAINED: Final = 16
"""Bytes of a trained parameter: weight, gradient, Adam's two states, and of a half one a float32 copy."""

_OF_A_LAYER: Final = 40
"""Bytes that the layer being computed keeps, for each token and channel; measured orders, not more."""


@dataclass(frozen=True, slots=True)
class Size:
    """A model in numbers that memory depends on."""

    parameters: int
    layers: int
    width: int

    @property
    def short(self) -> str:
        """Its parameters, as people say it."""
        billions = self.parameters / 1e9
        return f"{billions:.1f} billion weights" if billions >= 0.1 else f"{self.parameters:,} weights"


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained."""

    processes: int = 1  # that share the work, a GPU each
    sharded: int = 0  # what is in parts: 0 nothing, 1 Adam's states, 2 gradients too, 3 weights too
    half: bool = False  # weights are kept in bfloat16 beside a float32 copy (DeepSpeed with --bf16)
    lora_rank: int = 0  # of an adapter; 0: all weights are trained
    four_bits: bool = False  # the base is in 4 bits
    offload: bool = False  # Adam's states are in main memory
    recompute: bool = False  # activations are computed again
    tokens: int = 0  # in one forward pass
    kept: int = 0  # checkpoints on the way that are kept


def look_at_model(name: str) -> tuple[Size | None, Finding]:
    """How large a model is, and whether its folder is whole.

    A model that is not on this machine has the size that its name says; None where that says nothing.
    """
    what = "model"
    try:
        folder = Path(model_path(name)).expanduser()
    except UsageError as error:
        return None, wrong(what, str(error), f"sweet-rl fetch_model {name}")
    if not folder.is_dir():
        cached = _in_hub_cache(name, "config.json")
        if cached is None:
            size, billions = None, re.search(r"(?<![\d.])(\d+(?:\.\d+)?)B(?![A-Za-z])", name)
            if billions is not None:  # with the usual proportions: a width of 128 for each layer
                parameters = int(float(billions[1]) * 1e9)
                layers = max(1, round((parameters / (12 * 128**2)) ** (1 / 3)))
                size = Size(parameters, layers, 128 * layers)
            seen = f"{name!r} is no folder and not in the hub's cache; the first stage would fetch it"
            return size, warn(what, seen, f"hf download {name}")
        folder = cached.parent
    problem = ""
    index = folder / "model.safetensors.index.json"
    tokenizers = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
    if not (folder / "config.json").is_file():
        problem = "has no config.json"
    elif index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if gone := sorted(name for name in shards if not (folder / name).is_file()):
            problem = f"lacks {len(gone)} of {len(shards)} files of weights ({gone[0]}, ...)"
    elif not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        problem = "lacks weights (*.safetensors)"
    if not problem and not any((folder / name).is_file() for name in tokenizers):
        problem = "lacks a tokenizer"
    if problem:
        return None, wrong(what, f"{folder} {problem}", f"hf download {name}, or another folder")
    size = size_of(folder)
    return size, fine(what, f"{folder}: {size.short}")


def size_of(folder: Path) -> Size:
    """Counted in the headers of the files of weights, where they say it, else from the configuration."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config") or config
    layers = int(config.get("num_hidden_layers") or config.get("n_layer") or 1)
    width = int(config.get("hidden_size") or config.get("n_embd") or 1)
    counted = 0
    for path in folder.glob("*.safetensors"):
        try:
            with path.open("rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        except (OSError, ValueError, struct.error):
            continue
        counted += sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
    if counted:
        return Size(counted, layers, width)
    heads = int(config.get("num_attention_heads") or config.get("n_head") or 1)  # a Llama or its like
    head = int(config.get("head_dim") or width // heads)
    shared = int(config.get("num_key_value_heads") or heads)
    inner = int(config.get("intermediate_size") or 4 * width)
    matrices = 3 if "intermediate_size" in config else 2
    layer = 2 * width * head * (heads + shared) + matrices * width * inner + 2 * width
    words = (1 if config.get("tie_word_embeddings") else 2) * int(config.get("vocab_size") or 0) * width
    return Size(layers * layer + words + width, layers, width)


def gpu_bytes(size: Size, training: Training) -> float:
    """About what one GPU holds of it: weights, gradients, Adam's states, activations."""
    n, trained, base = training.processes, size.parameters, 0.0
    if training.lora_rank:
        trained = 4 * 2 * training.lora_rank * size.width * size.layers
        base = size.parameters * (0.55 if training.four_bits else 2 if training.half else 4)
        base /= n if training.sharded == 3 else 1
    weight = gradient = 2 if training.half else 4
    states = 0 if training.offload else _TRAINED - weight - gradient
    shares = ((weight, 3), (gradient, 2), (states, 1))  # bytes, and from which stage on in parts
    held = sum(trained * part / (n if training.sharded >= stage else 1) for part, stage in shares)
    kept = 2 * size.layers if training.recompute else _OF_A_LAYER * size.layers
    return base + held + training.tokens * size.width * (kept + _OF_A_LAYER)


def main_memory_bytes(size: Size, training: Training) -> float:
    """What all processes of a machine hold outside GPUs: Adam's states, where they are offloaded."""
    return size.parameters * 12.0 if training.offload and not training.lora_rank else 0.0


def disk_bytes(size: Size, training: Training) -> float:
    """About what a training writes: the model, and the checkpoints that are kept."""
    checkpoint = 0 if training.lora_rank else size.parameters * _TRAINED
    return size.parameters * (2 if training.half else 4) + training.kept * checkpoint


# ---- servers

_ONCE: Final = RetryPolicy(attempts=1, timeout_s=8, patience_s=8)
_PICTURE: Final = (  # white, of 28 x 28 pixels
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAAAAABXZoBIAAAAFElEQVR42mP4jwcwjEqOSo5KwgAA0FYNHp/Mo7cAAAAA"
    "SUVORK5CYII="
)


@dataclass(frozen=True, slots=True)
class Server:
    """An external server, and what the run will ask of it."""

    what: str
    urls: Sequence[str]  # each is looked at
    model: str  # its name there; "auto" for the first that is offered
    key: str | None = field(default=None, repr=False)
    max_tokens: int = 4096  # of a reply, as the run will ask for
    prompt: str = "Say yes."  # like what the run will ask
    pictures: int = 0  # that a message will have
    chat: bool = True  # messages are sent; else a prompt
    start: str = ""  # the line that starts it
    late: bool = False  # it is not needed at once


async def look_at_servers(servers: Sequence[Server]) -> list[Finding]:
    """All of them at once: what each offers, and one small request to each."""
    return list(await asyncio.gather(*(_look(server, url) for server in servers for url in server.urls)))


async def _look(server: Server, url: str) -> Finding:
    try:
        client = OpenAIClient([url], api_key=server.key, retry=_ONCE)
    except SweetRLError as error:
        return wrong(server.what, str(error), "correct the variable with the key")
    try:
        found = await asyncio.wait_for(_ask(server, client, shown(url)), timeout=2 * _ONCE.timeout_s)
    except RequestFailed as error:
        failure = error.failure
        status = f" {failure.status}" if failure.status else ""
        seen = f"{shown(url)} did not answer a small request ({failure.kind}{status}: {failure.detail})"
        found = wrong(server.what, seen, server.start)
    except (SweetRLError, TimeoutError) as error:
        seen = str(error).partition(" Correct the address")[0] or f"{shown(url)} does not answer in time"
        found = wrong(server.what, seen, server.start)
    finally:
        await client.close()
    if found.level == "wrong" and server.late:
        return warn(found.what, f"{found.seen} (it is asked in the last stages)", found.repair)
    return found


async def _ask(server: Server, client: OpenAIClient, url: str) -> Finding:
    model, offered = server.model, list[str]()
    try:
        offered = [str(one.get("id")) for one in await client.models()]
    except SweetRLError:
        if model == "auto":
            raise  # a server need not list its models where one is named
    if model == "auto":
        if not offered:
            return wrong(server.what, f"{url} offers no model", server.start)
        model = offered[0]
    elif offered and model not in offered:
        seen = f"{url} offers {', '.join(offered)}, and not {model!r}"
        return wrong(server.what, seen, "name what it offers, or start the other one")
    if server.chat:
        picture = {"type": "image_url", "image_url": {"url": _PICTURE}}
        seeing: Json = [{"type": "text", "text": server.prompt}, *[picture] * server.pictures]
        messages = [{"role": "user", "content": seeing if server.pictures else server.prompt}]
        limits = {"max_tokens": server.max_tokens, "temperature": 0}
        await client.chat({"model": model, "messages": messages, **limits})
    else:
        await client.complete({"model": model, "prompt": server.prompt, "max_tokens": 1})
    sees = f" and takes {server.pictures} pictures" if server.pictures else ""
    return fine(server.what, f"{model} answers at {url}{sees}")
