"""What `preflight` looks at: the chain's variables and the stages' own flags, handed to the checks."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from sweet_rl import command_line
from sweet_rl.command_line.servers import key_in
from sweet_rl.commands import belonging
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.evaluate_games import evaluate_games
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.commands.humans import UserFlags
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.commands.train_dpo import train_dpo
from sweet_rl.commands.train_sft import train_sft
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import base_url_from
from sweet_rl.preflight import Finding, fine, missing
from sweet_rl.preflight.data import bytes_of_dialogues, look_at_dialogues, look_at_tasks
from sweet_rl.preflight.machine import (
    gpus,
    look_at_disk,
    look_at_gpus,
    look_at_main_memory,
    look_at_output,
    look_at_programs,
)
from sweet_rl.preflight.models import (
    GB,
    Training,
    disk_bytes,
    gpu_bytes,
    look_at_model,
    main_memory_bytes,
)
from sweet_rl.preflight.servers import Server, look_at_servers
from sweet_rl.prompts import simulator_prompt
from sweet_rl.types import Message, UserContext

_EVALUATIONS: Final[Mapping[str, Callable[..., None]]] = {
    "evaluate_code": evaluate_code,
    "evaluate_html": evaluate_html,
    "evaluate_games": evaluate_games,
}
_PROCESSES: Final = ("--num_gpus", "--nproc-per-node", "--nproc_per_node", "--num_processes")
_SERVE: Final = {
    "code": "configs/sweet_rl/serve_human_70b.sh meta-llama/Llama-3.1-70B-Instruct",
    "html": "configs/sweet_rl/serve_human_72b_vl.sh Qwen/Qwen2-VL-72B-Instruct",
}
_CANDIDATES_BYTES: Final = 100e3
"""What the turns of one dialogue take with 16 candidates each."""

Flags = SimpleNamespace
"""A stage's flags by name, defaults included."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The variables of a configuration; see the flags of `preflight`. `num_*`: tasks, and repeats of each."""

    model: str
    output: Path
    test_tasks: str
    num_test: tuple[int, int]
    offline: str
    train_tasks: str
    num_train: tuple[int, int]
    data_fraction: float
    evaluate: str
    method: str
    launcher: str
    flags: Mapping[str, str]
    model_is_made: bool
    dialogues_are_there: bool


def look(chain: Chain) -> Iterator[Finding]:
    """Yield every finding as soon as it is made."""
    try:
        flags = _read_flags(chain)
        human = _servers(chain, flags["simulate"])
    except (UsageError, ValueError) as error:
        yield missing("flags", str(error), "correct the configuration")
        return
    yield fine("flags", "every stage has those that it is given")
    yield look_at_output(chain.output)
    yield from _data(chain, flags["simulate"].task_type)
    if not chain.model_is_made:
        yield from _training(chain, flags)
    yield from look_at_programs(*_programs(chain, flags))
    if not human:
        yield fine("human", "in this process, no server")
    yield from asyncio.run(look_at_servers(human))


def _read_flags(chain: Chain) -> dict[str, Flags]:
    """The stages' flags, read as their command lines read them.

    Raises:
        UsageError: a stage has no such flag, or not with this value.
        ValueError: a quote is open.
    """
    train = train_sft if chain.method == "rft" else train_dpo
    if chain.evaluate not in _EVALUATIONS:
        raise UsageError(f"EVALUATE must be one of {', '.join(_EVALUATIONS)}, got {chain.evaluate!r}.")
    stages = {
        "simulate": simulate_interactions,
        "evaluate": _EVALUATIONS[chain.evaluate],
        "critic": train,
        "policy": train,
    }
    given = {
        "simulate": ["--agent_model", chain.model, "--input_path", chain.test_tasks],
        "evaluate": ["rows.jsonl"],
        "critic": [chain.model, "pairs.jsonl"],
        "policy": [chain.model, "pairs.jsonl"],
    }
    found = {}
    for name, function in stages.items():
        typed = command_line.read(function, [*given.get(name, ()), *shlex.split(chain.flags[name])])
        values = command_line.values(function, typed)
        every = command_line.with_defaults(function, values)
        if facets := getattr(function, "facets", None):
            belonging.check({flag for flag, value in values.items() if value is not None}, facets(every))
        found[name] = Flags(**every)
    return found


def _data(chain: Chain, task_type: str) -> Iterator[Finding]:
    sources = [("tasks to measure on", chain.test_tasks, chain.num_test[0], "NUM_TEST_TASKS")]
    if chain.offline and not chain.dialogues_are_there:
        yield look_at_dialogues(chain.offline, repeats=chain.num_train[1])
    elif not chain.dialogues_are_there:
        sources.insert(0, ("tasks to learn from", chain.train_tasks, chain.num_train[0], "NUM_TRAIN_TASKS"))
    for what, source, wanted, variable in sources:
        yield look_at_tasks(what, source, wanted=wanted, variable=variable, task_type=task_type)


def _training(chain: Chain, flags: Mapping[str, Flags]) -> Iterator[Finding]:
    """The model, the disk, the GPUs; where the model's size is unknown, only the first."""
    size, finding = look_at_model(chain.model)
    yield finding
    if size is None:
        return
    processes = _processes(chain.launcher)
    ways = {name: _way(flags[name], processes) for name in ("critic", "policy")}
    trainings = [ways["policy"]] if chain.method == "rft" else list(ways.values())
    models = sum(disk_bytes(size, way) for way in trainings)
    dialogues = _bytes_of_dialogues(chain)
    parts = f"{models / GB:.1f} for models and checkpoints, {dialogues / GB:.1f} for dialogues and candidates"
    yield look_at_disk(chain.output, models + dialogues, parts)
    largest = max(trainings, key=lambda way: gpu_bytes(size, way))
    parts = f"training of {size.short}, {largest.tokens:,} tokens at once"
    yield look_at_gpus(gpus(), processes=processes, needed=gpu_bytes(size, largest), parts=parts)
    offloaded = main_memory_bytes(size, largest)
    if offloaded:
        yield look_at_main_memory(offloaded)


def _way(flags: Flags, processes: int) -> Training:
    """How a training's flags share its memory."""
    stage, offload = int(flags.zero_stage), bool(flags.adam_offload)
    if flags.deepspeed_config:
        config = json.loads(Path(flags.deepspeed_config).read_text(encoding="utf-8"))
        zero = config.get("zero_optimization", {})
        stage, offload = int(zero.get("stage", 0)), "offload_optimizer" in zero
    fsdp = flags.shard_with == "fsdp2"
    deepspeed = not fsdp and (processes > 1 or offload)
    micro = 2 * int(flags.micro_train_batch_size) * int(flags.max_len)  # both sides of a pair
    return Training(
        processes=processes,
        sharded=3 if fsdp else stage if deepspeed else 0,
        half=bool(flags.bf16) and deepspeed,
        lora_rank=int(flags.lora_rank),
        four_bits=bool(flags.load_in_4bit),
        offload=offload,
        recompute=bool(flags.gradient_checkpointing),
        tokens=flags.max_tokens_per_batch or micro,
        kept=int(flags.max_ckpt_num) if flags.save_steps > 0 else 0,
    )


def _processes(launcher: str) -> int:
    """Of one machine, as the launcher's words say; 1 where they say nothing."""
    words = shlex.split(launcher.replace("=", " "))
    numbers = [after for word, after in pairwise(words) if word in _PROCESSES]
    return next((int(number) for number in numbers if number.isdigit()), 1)


def _bytes_of_dialogues(chain: Chain) -> float:
    """Those to learn from, and while they are graded twice; those measured; candidates and ranks."""
    learned, measured = (tasks * repeats for tasks, repeats in (chain.num_train, chain.num_test))
    dialogues = 2 * bytes_of_dialogues(chain.offline, None if chain.offline else learned)
    candidates = 2 * _CANDIDATES_BYTES * learned * chain.data_fraction
    return dialogues + bytes_of_dialogues("", measured) + candidates


def _programs(chain: Chain, flags: Mapping[str, Flags]) -> tuple[list[str], list[str]]:
    """Programs and packages that the stages will ask for."""
    simulate = flags["simulate"]
    programs, packages = [shlex.split(chain.launcher)[0]], ["torch", "transformers"]
    if programs[0] == "deepspeed" or flags["policy"].deepspeed_config:
        packages.append("deepspeed")
    if flags["policy"].flash_attn or flags["critic"].flash_attn:
        packages.append("flash_attn")
    if simulate.agent == "vllm" and simulate.vllm_python:
        programs.append(simulate.vllm_python)
    elif simulate.agent == "vllm":
        packages.append("vllm")
    if simulate.task_type == "html":
        programs.append(simulate.browser)
        packages.append("PIL")
    return programs, packages


def _question(human: UserFlags) -> str:
    """What a human is asked in a small dialogue, by the run's own prompt."""
    if not human.simulated:
        return "Is it a fruit?"
    asked = (Message("user", "I need a function that adds."), Message("assistant", "Which numbers?"))
    return simulator_prompt(human.prompt(), UserContext(asked[0].content, "def f(a, b): return a + b", asked))


def _servers(chain: Chain, flags: Flags) -> list[Server]:
    """The human's server and the agent's, where they have one."""
    late = bool(chain.offline) or chain.dialogues_are_there
    human = UserFlags(
        model=flags.env_model,
        hostname=flags.hostname,
        port=flags.port,
        base_url=flags.env_base_url,
        api_key_var=flags.env_api_key_var,
        prompt_path=flags.user_prompt_path,
        request_timeout_s=flags.request_timeout_s,
        request_attempts=flags.request_attempts,
        task_type=flags.task_type,
        image_url=flags.image_url,
    )
    human.check()
    found = []
    if not human.in_process:
        pages = flags.task_type == "html"
        found.append(
            Server(
                "human",
                base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.env_base_url),
                flags.env_model,
                key=key_in(flags.env_api_key_var),
                prompt="What differs?" if pages else _question(human),
                pictures=2 if pages else 0,
                start=f"HUMAN_HOST, HUMAN_PORT, or there: {_SERVE.get(flags.task_type, 'start a server')}",
                late=late,
            )
        )
    if flags.agent == "openai" or (flags.agent == "auto" and flags.agent_base_url):
        found.append(
            Server(
                "agent",
                base_url_from("", 0, flags.agent_base_url),
                chain.model,
                key=key_in(flags.agent_api_key_var),
                max_tokens=flags.max_tokens,
                chat=flags.agent_api == "chat",
                start="correct --agent_base_url in SIMULATE_FLAGS, or start it",
                late=late,
            )
        )
    return found
