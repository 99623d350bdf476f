"""Says what a pipeline lacks before it starts: data, models, disk, GPU memory, programs, packages, servers.

It takes seconds and changes nothing; memory and disk are rough estimates.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Final, Literal, NamedTuple

from sweet_rl.browsers.page import RenderFlags
from sweet_rl.chat.formats import model_path
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built
from sweet_rl.errors import SweetRLError, UsageError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy, base_url_from, shown
from sweet_rl.pipelines.steps import COPY, Step
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.worlds import load_tasks, options_of, world_of
from sweet_rl.worlds.dialogue import HUB_REPOSITORY, published_data

_INSTALL: Final = {
    "deepspeed": "pip install '.[deepspeed]'",
    "flash_attn": "--set values.flash_attn=false, or pip install flash-attn",
    "vllm": "--set values.vllm_python=the interpreter of an environment with vLLM, or agent: transformers",
    "chromium": "apt-get install chromium",
    "torch": "make install, or pip install '.[training]'",
    "PIL": "pip install '.[pages]'",
}
_TRAINS: Final = frozenset({"train_dpo", "train_sft", "train_reward_model"})
_PROCESSES: Final = ("--num_gpus", "--nproc-per-node", "--nproc_per_node", "--num_processes")
_DIALOGUE_BYTES: Final = 60e3
_ONCE: Final = RetryPolicy(attempts=1, timeout_s=8, patience_s=8)


class Finding(NamedTuple):
    """One check and its result: "WRONG" would end the run, "WARN" may."""

    level: Literal["OK", "WARN", "WRONG"]
    what: str
    seen: str
    repair: str = ""

    def __str__(self) -> str:
        repair = f"\n       repair: {self.repair}" if self.repair else ""
        return f"{self.level:<6} {self.what}: {self.seen}{repair}"


class Server(NamedTuple):
    """An external server, the model that is asked for there, and the line that starts it."""

    what: str
    urls: tuple[str, ...]
    model: str  # "auto" for the first that is offered
    key: str | None
    start: str
    late: bool = False


class Needed(NamedTuple):
    """About what a step takes; None where there is no basis."""

    seconds: float | None = None  # as its last run
    disk: float | None = None  # bytes
    memory: float | None = None  # bytes of each GPU, or of main memory without GPUs

    def __str__(self) -> str:
        time = "unknown" if self.seconds is None else f"about {self.seconds:,.0f} s, as last time"
        disk, memory = (
            "unknown" if size is None else f"about {size / 1e9:.1f} GB" for size in (self.disk, self.memory)
        )
        return f"time: {time}; disk: {disk}; memory of each process: {memory}"


def needed(step: Step, seconds: float | None, steps: Sequence[Step]) -> Needed:
    """A rough estimate: 16 bytes a trained weight, shared as the flags say, and the activations of one pass."""
    flags = SimpleNamespace(**step.settings)
    if step.run == "simulate_interactions":
        return Needed(seconds, flags.num_tasks * flags.repeats * _DIALOGUE_BYTES)
    if step.run not in _TRAINS:
        return Needed(seconds)
    made_of = {
        one.settings["save_path"]: str(one.settings["pretrain"]) for one in steps if one.run in _TRAINS
    }
    name = str(flags.pretrain)
    while name in made_of and not Path(name, "config.json").is_file():  # as large as what it is made of
        name = made_of.pop(name)
    try:
        folder = Path(model_path(name)).expanduser()
        config = json.loads((folder / "config.json").read_text("utf-8"))
        stored = 2 if str(config.get("torch_dtype") or config.get("dtype")) in {"bfloat16", "float16"} else 4
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / stored
        layers, width = int(config.get("num_hidden_layers") or 1), int(config.get("hidden_size") or 1)
    except (OSError, ValueError, UsageError):
        # not on this machine: as its name says, a width of 128 for each layer
        billions = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)B(?![A-Za-z])", name)
        if billions is None:
            return Needed(seconds)
        weights = float(billions[1]) * 1e9
        layers = max(1, round((weights / (12 * 128**2)) ** (1 / 3)))
        width = 128 * layers
    words = [part for word in step.launcher for part in word.split("=")]
    numbers = [after for word, after in pairwise(words) if word in _PROCESSES and after.isdigit()]
    processes = int(numbers[0]) if numbers else 1
    deepspeed = flags.shard_with != "fsdp2" and (processes > 1 or flags.adam_offload)
    stage = 3 if flags.shard_with == "fsdp2" else int(flags.zero_stage) if deepspeed else 0
    half = 2 if flags.bf16 and deepspeed else 4
    states = 0 if flags.adam_offload else 16 - 2 * half
    # bytes of a weight, of its gradient, of Adam's states, and from which stage on they are shared
    parts: list[tuple[float, int]] = [(half, 3), (half, 2), (states, 1)]
    if flags.lora_rank:  # what is trained is small
        parts = [(0.55 if flags.load_in_4bit else half, 3)]
    held = sum(size / (processes if stage >= least else 1) for size, least in parts)
    tokens = flags.max_tokens_per_batch or 2 * int(flags.micro_train_batch_size or 1) * int(flags.max_len)
    memory = weights * held + tokens * width * (layers * (2 if flags.gradient_checkpointing else 40) + 40)
    kept = flags.max_ckpt_num if flags.save_steps > 0 and not flags.lora_rank else 0
    return Needed(seconds, weights * (half + 16 * kept), memory)


def look(steps: Sequence[Step], folder: Path, every: Sequence[Step]) -> Iterator[Finding]:
    """Yield what is found of each thing that steps need; what lies in the folder, the pipeline (`every`) makes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".preflight-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        yield Finding("OK", "output", f"{folder} can be written")
    except OSError as error:
        seen = f"{folder} cannot be written: {error.strerror}"
        yield Finding("WRONG", "output", seen, "another folder (--set folder=...)")

    def made_here(name: str) -> bool:
        return folder.absolute() in Path(name).absolute().parents

    programs, packages, talks, models = list[str](), list[str](), list[Step](), list[str]()
    for step in steps:
        flags, setting = SimpleNamespace(**step.settings), f"--set stages.{step.name}.with"
        programs += step.launcher[:1]
        if step.run == COPY and not Path(flags.input_path).is_file():
            seen, repair = f"there is no file {flags.input_path!r}", published_data(Path(flags.input_path))
            yield Finding("WRONG", "dialogues to learn from", seen, repair)
        if step.run in _TRAINS:
            models += [] if made_here(flags.pretrain) else [flags.pretrain]
            packages += ["torch", "transformers"] + ["flash_attn"] * bool(flags.flash_attn)
            packages += ["deepspeed"] * bool(step.launcher[:1] == ("deepspeed",) or flags.deepspeed_config)
        if getattr(flags, "agent", None) == "vllm":
            programs += [flags.vllm_python] if flags.vllm_python else []
            packages += [] if flags.vllm_python else ["vllm"]
        if step.run == "simulate_interactions":
            talks.append(step)
            if not made_here(flags.input_path):
                asked = (flags.input_path, flags.num_tasks, flags.world, f"{setting}.num_tasks")
                yield look_at_tasks(f"tasks of {step.name}", *asked)
            if issubclass(world_of(flags.world).options, RenderFlags):
                programs.append(flags.browser)
                packages.append("PIL")
    yield from map(look_at_model, dict.fromkeys(models))
    takes = [needed(step, None, every) for step in steps]
    if sizes := [one.disk for one in takes if one.disk]:
        free, most = shutil.disk_usage(folder if folder.exists() else ".").free, sum(sizes)
        seen = f"{free / 1e9:.1f} GB are free, about {most / 1e9:.1f} GB are needed where it is known"
        repair = "another folder (--set folder=...), room on this disk, or fewer checkpoints"
        yield Finding("OK", "disk", seen) if free > most else Finding("WRONG", "disk", seen, repair)
    memory = max((one.memory for one in takes if one.memory), default=0.0)
    if memory and (there := gpu_bytes()):
        seen = f"about {memory / 1e9:.1f} GB of each GPU's {there / 1e9:.1f} GB are needed"
        more = "more GPUs, --zero_stage 3, --lora_rank, --adam_offload or a smaller --max_len"
        yield Finding("OK" if memory < there else "WRONG", "GPU memory", seen, "" if memory < there else more)
    lacking = {name: "is not on the path" for name in programs if shutil.which(name) is None}
    lacking |= {name: "is not installed" for name in packages if importlib.util.find_spec(name) is None}
    for name, why in lacking.items():
        repair = _INSTALL.get(name, "install it, or another configuration")
        yield Finding("WRONG", "programs and packages", f"{name!r} {why}", repair)
    if not lacking and (named := dict.fromkeys([*programs, *packages])):
        yield Finding("OK", "programs and packages", ", ".join(named))
    late = any(step.run == COPY for step in every)  # dialogues that there are already come first
    try:
        servers = [server for step in talks for server in servers_of(step, late=late)]
    except UsageError as error:
        yield Finding("WRONG", "servers", str(error), "correct the file")
        return
    yield from asyncio.run(look_at_servers(dict.fromkeys(servers)))


def gpu_bytes() -> float:
    """The memory of the smallest GPU that torch may use, asked in a process of its own; 0 where there is none."""
    each = "cuda.get_device_properties(at).total_memory for at in range(cuda.device_count())"
    asks = [sys.executable, "-c", f"from torch import cuda; print(min({each}))"]
    try:
        return float(subprocess.run(asks, capture_output=True, text=True, timeout=60, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0.0


def look_at_tasks(what: str, source: str, wanted: int, world: str, flag: str) -> Finding:
    """A task source: as many tasks as are wanted, each with what its world needs."""
    lists = world_of(world).tasks
    if source.partition(":")[0] == HUB_REPOSITORY:
        repair = f"hf download {HUB_REPOSITORY} --repo-type dataset"
        return Finding("WARN", what, f"{source} is fetched from the hub, where its cache has it not", repair)
    if source.endswith(".jsonl") and not Path(source).is_file():
        repair = lists.how_to_get(Path(source)) if lists.how_to_get else f"name another file, or {lists.test}"
        return Finding("WRONG", what, f"there is no file {source!r}", repair)
    try:
        tasks = load_tasks(source, num_tasks=wanted)
    except SweetRLError as error:
        return Finding("WRONG", what, str(error), "name another source, or repair the file")
    if len(tasks) < wanted:
        seen = f"{source} has {len(tasks)} tasks, {wanted} are wanted"
        return Finding("WRONG", what, seen, f"{flag}={len(tasks)}, or the whole file")
    for task in tasks:
        if lacks := lists.lacks(task):
            seen = f"task {task.task_id!r} of {source} has no {lacks}"
            return Finding("WRONG", what, seen, f"tasks of {world_of(world).name}, such as {lists.test}")
    return Finding("OK", what, f"{len(tasks)} of {source}")


def look_at_model(name: str) -> Finding:
    """Whether a model's folder is whole."""
    try:
        folder = Path(model_path(name)).expanduser()
    except UsageError as error:
        return Finding("WRONG", "model", str(error), f"sweet-rl fetch_model {name}")
    if not folder.is_dir():
        seen = f"{name!r} is no folder here: the first stage fetches it, where the hub's cache has it not"
        return Finding("WARN", "model", seen, f"hf download {name}")
    index = folder / "model.safetensors.index.json"
    shards = set(json.loads(index.read_text("utf-8"))["weight_map"].values()) if index.is_file() else set()
    lacks = [one for one in ("config.json", *sorted(shards)) if not (folder / one).is_file()]
    if not shards and not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        lacks.append("weights (*.safetensors)")
    if not [*folder.glob("tokenizer*"), *folder.glob("vocab.json")]:
        lacks.append("a tokenizer")
    if lacks:
        seen = f"{folder} lacks {', '.join(lacks)}"
        return Finding("WRONG", "model", seen, f"hf download {name}, or another folder")
    return Finding("OK", "model", str(folder))


def servers_of(step: Step, *, late: bool) -> list[Server]:
    """The human's server and the agent's, where they have one; `late`: it is not needed at once."""
    flags, found = SimpleNamespace(**step.settings), list[Server]()
    world, human = world_of(flags.world), built(HumanFlags, vars(flags))
    cast = Cast(world=world, options=options_of(world, vars(flags)), human=human)
    cast.check_human()
    if cast.human_served:
        start = f"hostname and port of simulate_interactions, or there: {world.user.server}"
        key = key_in(flags.env_api_key_var)
        found.append(Server("human", tuple(human.urls), flags.env_model, key, start, late))
    if flags.agent == "openai" or (flags.agent == "auto" and flags.agent_base_url):
        urls = base_url_from("", 0, flags.agent_base_url)
        key, start = key_in(flags.agent_api_key_var), "correct agent_base_url, or start it"
        found.append(Server("agent", tuple(urls), flags.agent_model, key, start, late))
    return found


async def look_at_servers(servers: Iterable[Server]) -> list[Finding]:
    """All of them at once: whether each answers, and offers the model."""

    async def look(server: Server, url: str) -> Finding:
        try:
            client = OpenAIClient([url], api_key=server.key, retry=_ONCE)
        except SweetRLError as error:
            return Finding("WRONG", server.what, str(error), "correct the variable with the key")
        try:
            auto = server.model == "auto"
            offered = [str(one.get("id")) for one in await client.models(needed=auto)]
            if server.model in offered or (offered and auto) or not (offered or auto):
                return Finding("OK", server.what, f"{server.model} is at {shown(url)}")
            seen = f"{shown(url)} offers {', '.join(offered) or 'no model'}, and not {server.model!r}"
        except SweetRLError as error:
            seen = str(error).partition(" Correct the address")[0]
        finally:
            await client.close()
        level: Literal["WARN", "WRONG"] = "WARN" if server.late else "WRONG"
        seen += " (it is asked in the last stages)" * server.late
        return Finding(level, server.what, seen, server.start)

    return list(await asyncio.gather(*(look(server, url) for server in servers for url in server.urls)))
