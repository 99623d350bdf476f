"""What a pipeline will do and take, told before it begins: its plan, and what its steps need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import base_url_from
from sweet_rl.pipelines import preflight
from sweet_rl.pipelines.running import Records
from sweet_rl.pipelines.steps import COPY, Step
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.prompts import simulator_prompt
from sweet_rl.types import Message, UserContext
from sweet_rl.worlds import options_of, world_of

_DIALOGUE_BYTES: Final = 60e3
_CANDIDATES_BYTES: Final = 100e3  # the turns of one dialogue with 16 candidates each
_SMALL: Final = 20e6  # models with fewer weights are trained by one process on a CPU without a word about it
_TRAINS: Final = frozenset({"train_dpo", "train_sft", "train_reward_model"})
_STATES: Final = {"new": "would run", "changed": "would run again", "begun": "would resume", "done": "done"}
_PROCESSES: Final = ("--num_gpus", "--nproc-per-node", "--nproc_per_node", "--num_processes")


# ---- the plan


@dataclass(frozen=True, slots=True)
class Needed:
    """The expected needs of a step; None where there is no basis."""

    seconds: float | None = None  # as its last run that ended well
    disk: float | None = None  # bytes that it writes
    gpu: float | None = None  # bytes of each GPU, or of main memory without GPUs
    main: float | None = None  # bytes of main memory beside that

    def __str__(self) -> str:
        time = "unknown" if self.seconds is None else f"about {_duration(self.seconds)}, as last time"
        disk = "unknown" if self.disk is None else f"about {_size(self.disk)}"
        memory = (
            "unknown"
            if self.gpu is None
            else f"about {_size(self.gpu)} for each process, on its GPU if it has one"
        )
        more = f", and {_size(self.main)} of main memory" if self.main else ""
        return f"time: {time}; disk: {disk}; memory: {memory}{more}"


def needed(step: Step, records: Records, steps: Sequence[Step]) -> Needed:
    """What a step is expected to take; `steps` are all of the pipeline, to follow a model to where it comes from."""
    last = records.last(step.name)
    seconds = float(last["wall_s"]) if last is not None and last["status"] == "finished" else None
    flags = _flags(step)
    if step.run in _TRAINS:
        size, way = _size_of(flags.pretrain, steps), _way(flags, _processes(step.launcher))
        if size is not None:
            disk, main = preflight.disk_bytes(size, way), preflight.main_memory_bytes(size, way)
            return Needed(seconds, disk, preflight.gpu_bytes(size, way), main or None)
    elif step.run == "simulate_interactions":
        return Needed(seconds, flags.num_tasks * flags.repeats * _DIALOGUE_BYTES)
    elif step.run == COPY:
        source = Path(flags.input_path)
        return Needed(seconds, (source.stat().st_size if source.is_file() else 0) or None)
    elif step.run == "sample_best_of_n":
        count = _dialogues(flags.input_path, steps)
        return Needed(seconds, count * flags.data_fraction * _CANDIDATES_BYTES if count else None)
    return Needed(seconds)


def plan(steps: Sequence[Step], folder: Path) -> tuple[list[Step], list[str]]:
    """The steps that would run, and the plan in lines; nothing is run or written."""
    records = Records(folder, steps)
    to_run: dict[str, Step] = {}
    lines, takes = list[str](), list[Needed]()
    for number, step in enumerate(steps, 1):
        look = records.look(step)
        state, why = _STATES[look.state], look.why
        after = [name for name in step.needs if name in to_run]
        if look.state == "done" and after:  # outputs of earlier steps are not known yet
            state, why = "would run if its inputs change", f"after {', '.join(after)}"
        lines.append(f"[{number}/{len(steps)}] {step.name}: {state}" + (f" ({why})" if why else ""))
        lines.append(f"    $ {step.command}")
        if state != "done":
            to_run[step.name] = step
            takes.append(needed(step, records, steps))
            lines.append(f"    {takes[-1]}")
    lines.append(f"{len(takes)} of {len(steps)} stages would run.")
    if takes:
        times = [one.seconds for one in takes if one.seconds is not None]
        sizes = [one.disk for one in takes if one.disk is not None]
        parts = []
        for name, known, words in (("time", times, _duration), ("disk", sizes, _size)):
            some = f" for {len(known)} of {len(takes)} stages, unknown for the others"
            about = f"about {words(sum(known))}{some * (len(known) < len(takes))}"
            parts.append(f"{name}: {about if known else 'unknown'}")
        most = max((one.gpu for one in takes if one.gpu is not None), default=None)
        memory = (
            "unknown" if most is None else f"at most about {_size(most)} for each process, where it is known"
        )
        lines.append(f"Together: {'; '.join(parts)}; memory: {memory}")
    return list(to_run.values()), lines


def _size_of(model: str, steps: Sequence[Step]) -> preflight.Size | None:
    """How large a model is; one that a step will make is as large as what it is made of."""
    maker = next((step for step in steps if step.run in _TRAINS and _flags(step).save_path == model), None)
    if maker is not None and not (Path(model) / "config.json").is_file():
        before = str(_flags(maker).pretrain)
        return None if before == model else _size_of(before, steps)
    return preflight.look_at_model(model)[0]


def _dialogues(path: str, steps: Sequence[Step]) -> int | None:
    """How many dialogues a file has, or will have."""
    if Path(path).is_file():
        return preflight.lines_of(Path(path))
    for step in steps:
        flags = _flags(step)
        if getattr(flags, "output_path", None) == path:
            if step.run == "simulate_interactions":
                return int(flags.num_tasks * flags.repeats)
            if step.run == COPY:
                return _dialogues(flags.input_path, [one for one in steps if one is not step])
    return None


def _way(flags: Any, processes: int) -> preflight.Training:
    """How a training's flags share its memory."""
    stage, offload = int(flags.zero_stage), bool(flags.adam_offload)
    if flags.deepspeed_config:
        config = json.loads(Path(flags.deepspeed_config).read_text(encoding="utf-8"))
        zero = config.get("zero_optimization", {})
        stage, offload = int(zero.get("stage", 0)), "offload_optimizer" in zero
    fsdp = flags.shard_with == "fsdp2"
    deepspeed = not fsdp and (processes > 1 or offload)
    return preflight.Training(
        processes=processes,
        sharded=3 if fsdp else stage if deepspeed else 0,
        half=bool(flags.bf16) and deepspeed,
        lora_rank=int(flags.lora_rank),
        four_bits=bool(flags.load_in_4bit),
        offload=offload,
        recompute=bool(flags.gradient_checkpointing),
        tokens=flags.max_tokens_per_batch
        or 2 * int(flags.micro_train_batch_size or 1) * int(flags.max_len),  # pairs
        kept=int(flags.max_ckpt_num) if flags.save_steps > 0 else 0,
    )


def _processes(launcher: Iterable[str]) -> int:
    """Of one machine, as the launcher's words say; 1 where they say nothing."""
    words = [part for word in launcher for part in word.split("=")]
    numbers = [after for word, after in pairwise(words) if word in _PROCESSES]
    return next((int(number) for number in numbers if number.isdigit()), 1)


def _flags(step: Step) -> Any:
    """A step's flags by name, defaults included."""
    return SimpleNamespace(**{**step.defaults, **step.settings})


def _size(number: float) -> str:
    unit, of_it = next((one for one in (("GB", 1e9), ("MB", 1e6)) if number >= one[1]), ("kB", 1e3))
    return f"{number / of_it:.1f} {unit}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# ---- what the steps need


def look(steps: Sequence[Step], folder: Path, every: Sequence[Step]) -> Iterator[preflight.Finding]:
    """Yield every finding about what steps need, as soon as it is made; what lies in the folder the pipeline makes."""

    def made_here(name: str) -> bool:
        return folder.absolute() in Path(name).absolute().parents

    yield preflight.fine("flags", "every stage has those that it is given")
    yield preflight.look_at_output(folder)
    given = {step.name: _flags(step) for step in steps}
    talks = [step for step in steps if step.run == "simulate_interactions"]
    for step in steps:
        flags, setting = given[step.name], f"--set stages.{step.name}.with"
        if step in talks and not made_here(flags.input_path):
            asked = {"wanted": flags.num_tasks, "variable": f"{setting}.num_tasks", "world": flags.world}
            yield preflight.look_at_tasks(f"tasks of {step.name}", flags.input_path, **asked)
        elif step.run == COPY:
            readers = [given[one.name] for one in steps if one.run.startswith("evaluate")]
            repeats = next((one.k or 1 for one in readers if one.saved_path == flags.output_path), 1)
            yield preflight.look_at_dialogues(flags.input_path, repeats=repeats, flag=f"{setting}.input_path")
    yield from _look_at_trainings(steps, folder, every, made_here)
    programs, packages = list[str](), list[str]()
    for step in steps:
        flags = given[step.name]
        programs += step.launcher[:1]
        if step.run in _TRAINS:
            wants_deepspeed = step.launcher[:1] == ("deepspeed",) or flags.deepspeed_config
            packages += ["torch", "transformers", *["deepspeed"] * bool(wants_deepspeed)]
            packages += ["flash_attn"] if flags.flash_attn else []
        if getattr(flags, "agent", None) == "vllm":
            programs += [flags.vllm_python] if flags.vllm_python else []
            packages += [] if flags.vllm_python else ["vllm"]
        if step in talks and _draws(flags):
            programs.append(flags.browser)
            packages.append("PIL")
    yield from preflight.look_at_programs(list(dict.fromkeys(programs)), list(dict.fromkeys(packages)))
    if not talks:
        return
    late = any(step.run == COPY for step in every)  # dialogues that there are already come first
    try:
        servers = [server for step in talks for server in _servers(step, late=late)]
    except UsageError as error:
        yield preflight.wrong("servers", str(error), "correct the file")
        return
    different = list({(one.what, tuple(one.urls), one.model): one for one in servers}.values())
    if not any(one.what == "human" for one in different):
        yield preflight.fine("human", "in this process, no server")
    yield from asyncio.run(preflight.look_at_servers(different))


def _look_at_trainings(
    steps: Sequence[Step], folder: Path, every: Sequence[Step], made_here: Callable[[str], bool]
) -> Iterator[preflight.Finding]:
    """The models that are trained, the disk, the GPUs; where a size is unknown, only the first."""
    trainings = [step for step in steps if step.run in _TRAINS]
    for name in dict.fromkeys(_flags(step).pretrain for step in trainings):
        if not made_here(name):
            yield preflight.look_at_model(name)[1]
    records = Records(folder, ())
    takes = {step.name: needed(step, records, every) for step in steps}
    if not trainings or any(takes[step.name].gpu is None for step in trainings):
        return
    models = sum(takes[step.name].disk or 0 for step in trainings)
    others = sum(takes[step.name].disk or 0 for step in steps if step not in trainings)
    parts = f"{models / preflight.GB:.1f} for models and checkpoints, {others / preflight.GB:.1f} for dialogues and candidates"
    yield preflight.look_at_disk(folder, models + others, parts)
    largest = max(trainings, key=lambda step: takes[step.name].gpu or 0)
    size, processes = _size_of(_flags(largest).pretrain, every), _processes(largest.launcher)
    if size is not None and (size.parameters > _SMALL or processes > 1):
        parts = f"training of {size.short}, {_way(_flags(largest), processes).tokens:,} tokens at once"
        most = takes[largest.name].gpu or 0
        yield preflight.look_at_gpus(preflight.gpus(), processes=processes, needed=most, parts=parts)
    if offloaded := takes[largest.name].main:
        yield preflight.look_at_main_memory(offloaded)


def _servers(step: Step, *, late: bool) -> list[preflight.Server]:
    """The human's server and the agent's, where they have one."""
    flags = _flags(step)
    world = world_of(flags.world)
    human = built(HumanFlags, vars(flags))
    cast = Cast(world=world, options=options_of(world, vars(flags)), human=human)
    cast.check_human()
    found = []
    if cast.human_served:
        start = f"hostname and port of simulate_interactions, or there: {world.user.server}"
        asks, pictures = ("What differs?", 2) if _draws(flags) else (question(cast), 0)
        named = ("human", human.urls, flags.env_model, key_in(flags.env_api_key_var))
        found.append(preflight.Server(*named, prompt=asks, pictures=pictures, start=start, late=late))
    if flags.agent == "openai" or (flags.agent == "auto" and flags.agent_base_url):
        urls, start = base_url_from("", 0, flags.agent_base_url), "correct agent_base_url, or start it"
        agent = ("agent", urls, flags.agent_model, key_in(flags.agent_api_key_var), flags.max_tokens)
        found.append(preflight.Server(*agent, chat=flags.agent_api == "chat", start=start, late=late))
    return found


def question(cast: Cast) -> str:
    """What a human is asked in a small dialogue, by the run's own prompt."""
    if not cast.simulated:
        return "Is it a fruit?"
    asked = (Message("user", "I need a function that adds."), Message("assistant", "Which numbers?"))
    context = UserContext(asked[0].content, "def f(a, b): return a + b", asked)
    return simulator_prompt(cast.human_prompt(), context)


def _draws(flags: Any) -> bool:
    """Whether the world of these flags draws pages."""
    return issubclass(world_of(flags.world).options, RenderFlags)
