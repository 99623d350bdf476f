"""Settings of the stages of Reflect-RL, and the folders of runs: what a run saves, what it inherits from another, and its logs. No torch.

Settings are published flags, ours, and those of the world that is played. A run that began at another one's checkpoint continues
its iterations, which are counted in updates: those of a run that pools n trainer calls are divided by n.

Published behaviour: docs/published/reflect_rl.md#flags, #models, #evaluation, #deviations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from sweet_rl.errors import DataError, StorageError, UsageError, missing_package
from sweet_rl.flags import Only, flag, no_flag
from sweet_rl.flags.shared import Compatible
from sweet_rl.records import check_yaml, replace_file
from sweet_rl.training.checkpoints import check_same, identity_of, step_of
from sweet_rl.types import Compat, Json, digest
from sweet_rl.worlds import Options, World, first_for, flags_of, learning_options, options_of, world_of

_PPO: Final = Only("trainer", ("ppo",))
_CRITIC: Final = Only("critic", ("used",), "--use_critic")
_REFLECTING: Final = Only("reflect", ("asked",), "--reflect")


@dataclass(frozen=True)
class ReflectFlags(Compatible):
    """Flags of any world, under their published names and defaults; the last nine are ours."""

    per_device_train_batch_size: int = flag(
        1, "rows in a micro-batch; online: also episodes drawn from replay after each rollout.", at_least=1
    )
    per_device_eval_batch_size: int = flag(4, "episodes played at once; online: per iteration.", at_least=1)
    gradient_accumulation_steps: int = flag(
        1, "micro-batches in one update; online: trainer calls whose episodes one update pools.", at_least=1
    )
    eval_reps: int = flag(10, "episodes of each task in an evaluation.", at_least=1)
    mode: str = flag("train", "purpose of the run: train_SPT, train_RLFT or test; each stage sets its own.")
    learning_rate: float = flag(2e-4, "learning rate of the adapter and of the critic.", at_least=0)
    max_grad_norm: float = flag(0.3, "gradients are clipped to this norm.", above=0)
    weight_decay: float = flag(0.001, "weight decay of the optimizer.", at_least=0)
    ppo_clip_coef: float = flag(0.1, "clipping range of PPO's ratio around 1.", above=0, only=_PPO)
    ppo_update_iter: int = flag(3, "passes over an update's steps with --trainer ppo.", at_least=1, only=_PPO)
    entropy_coef: float = flag(0.0, "weight of the entropy bonus, which lowers costs.", at_least=0)
    lora_alpha: int = flag(16, "scaling factor alpha of the adapter.")
    lora_dropout: float = flag(0.1, "dropout before the adapter, in updates only.", at_least=0, at_most=1)
    disable_dropout: bool = flag(False, "switch off all dropout.")
    lora_r: int = flag(64, "rank of the adapter.", at_least=1)
    max_seq_length: int = flag(
        1024, "longest training text, in tokens; longer ones are cut at the beginning.", at_least=2
    )
    max_new_tokens: int = flag(1, "longest action, in tokens; 1 with --shrink_head.", at_least=1)
    temperature: float = flag(1.0, "sampling temperature.", above=0)
    top_p: float = flag(1.0, "nucleus sampling: probability mass to sample from.", at_least=0, at_most=1)
    top_k: int = flag(99999, "sample only among this many likeliest tokens.", at_least=0)
    model_name: str = flag(
        "gpt2-xl", "the policy's base model: a folder, a hub name, or tiny (random weights)."
    )
    load_dir: str | None = flag(None, "checkpoint of the starting policy: adapter and tokenizer.")
    reflect_model_name: str = flag("gpt2-xl", "base model of the reflection model.", only=_REFLECTING)
    reflect_load_dir: str | None = flag(
        None, "checkpoint of the reflection model.", aliases=("reflectload_dir",)
    )
    ckpt_path: str = flag("results/", "folder in which every run creates a numbered subfolder.")
    use_8bit: bool = flag(True, "load models in 8 bits; needs bitsandbytes. Unquantised without CUDA.")
    use_4bit: bool = flag(False, "load models in 4 bits. Needs CUDA and bitsandbytes.")
    use_nested_quant: bool = flag(False, "also quantise the quantisation constants of 4-bit weights.")
    bnb_4bit_compute_dtype: Literal["float16", "bfloat16", "float32"] = flag(
        "float16", "precision in which 4-bit weights are computed: float16, bfloat16 or float32."
    )
    bnb_4bit_quant_type: Literal["nf4", "fp4"] = flag("nf4", "4-bit format (nf4 or fp4).")
    num_train_epochs: int = flag(1, "of no effect; --max_steps decides.", shown="never")
    fp16: bool = flag(False, "fine-tune in float16 on CUDA.")
    bf16: bool = flag(True, "fine-tune in bfloat16 on CUDA; without CUDA in float32.")
    gradient_checkpointing: bool = flag(True, "fine-tuning recomputes activations: less memory, more time.")
    optim: str = flag("paged_adamw_32bit", "fine-tuning's optimizer; AdamW if bitsandbytes is missing.")
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = flag(
        "constant", "learning-rate schedule of fine-tuning: constant, constant_with_warmup, linear or cosine."
    )
    max_steps: int = flag(20000, "updates of fine-tuning; iterations online.", at_least=1)
    warmup_ratio: float = flag(
        0.03, "share of updates with a rising learning rate; not for constant.", at_least=0, at_most=1
    )
    group_by_length: bool = flag(False, "when fine-tuning, put texts of similar length into one micro-batch.")
    save_steps: int = flag(100, "updates or iterations between two checkpoints.", at_least=1)
    save_total_limit: int = flag(10, "checkpoints of fine-tuning to keep at most.", at_least=1)
    logging_steps: int = flag(10, "updates or iterations averaged in each log line.", at_least=1)
    cache_dir: str = flag("model/", "folder for downloaded models.")
    env: str = flag(
        first_for("reflect"), "world: its name, its published name, or module:WORLD.", aliases=("world",)
    )
    trainer: Literal["pg", "ppo"] = flag("pg", "pg (policy gradient) or ppo (needs a critic).")
    replay_buffer_size: int = flag(50, "successful episodes kept in the replay buffer.", at_least=0)
    use_critic: bool = flag(False, "train a critic whose values are the baseline of the cost-to-go.")
    critic_update_freq: int = flag(5, "update the critic at every n-th update.", at_least=1, only=_CRITIC)
    critic_update_iter: int = flag(5, "passes over its data in a critic update.", at_least=1, only=_CRITIC)
    shared_critic: bool = flag(
        False, "the critic reads hidden states with the policy's adapter, not without it.", only=_CRITIC
    )
    critic_layer_type: Literal["linear", "mlp"] = flag(
        "linear", "head of the critic on the hidden state: linear or mlp.", only=_CRITIC
    )
    shrink_head: bool = flag(True, "score only the world's action labels; without effect on fine-tuning.")
    map_size: int = flag(4, "of no effect; kept for published command lines.", shown="never")
    random_map: bool = flag(True, "of no effect; kept for published command lines.", shown="never")
    is_slippery: bool = flag(False, "of no effect; kept for published command lines.", shown="never")
    max_turns: int | None = flag(
        None, "most turns of the agent; default: the world's limit.", at_least=1, aliases=("horizon",)
    )
    task_file: str | None = flag(
        None, "tasks: a file, or one of the world's lists; when fine-tuning, the .jsonl file of texts."
    )
    sandbox_dir: str = flag("/dev/shm/", "of no effect: no files are copied.", shown="never")  # as published
    discretize_actions: bool = flag(True, "of no effect: actions are labels.", shown="never")
    first_step: bool = flag(False, "play only the first step of every episode.")
    curriculum_index: int = flag(
        -1, "only this level of the curriculum; -1: all levels, one after the other."
    )
    few_data: int = flag(0, "use only this many tasks of the first level; 0: all tasks.", at_least=0)
    reflect: bool = flag(False, "reflect before each action; fine-tuning: train the reflection model.")
    reflect_prob: float = flag(
        1.0, "share of steps with a reflection.", at_least=0, at_most=1, only=_REFLECTING
    )
    seed: int = flag(0, "random seed.")
    device: str = flag("auto", "auto (a GPU if there is one), cpu, cuda, cuda:1, ...")
    max_tokens_per_batch: int = flag(
        4096, "tokens in one forward pass at most; affects only speed and memory.", at_least=1
    )
    kept_tokens: int = flag(
        4096, "with --disable_dropout: tokens of play whose activations the update reuses.", at_least=0
    )
    reflect_max_new_tokens: int = flag(100, "longest reflection, in tokens.", at_least=1, only=_REFLECTING)
    reflect_temperature: float | None = flag(
        None, "sampling temperature of reflections; default that of --temperature.", above=0, only=_REFLECTING
    )
    target_modules: str = flag(
        "auto", "modules that get adapters, separated by commas; auto: peft's default; or all-linear."
    )
    pointing_head: bool = flag(
        False,
        "use a pointer head, which selects an offered command instead of writing its label. A checkpoint with such a head keeps it.",
    )


PLAIN: Final = tuple(field.name for field in fields(ReflectFlags))  # Settings that do not depend on the world


@dataclass(frozen=True)
class ReflectSettings(ReflectFlags):
    """The settings of a run: those of any world, and the world's own (`settings_of`)."""

    options: Options | None = no_flag(None)

    def __post_init__(self) -> None:
        ReflectFlags.__post_init__(self)
        if self.options is None:
            object.__setattr__(self, "options", options_of(self.world, {}, learning=True))
        if self.max_turns is None:
            object.__setattr__(self, "max_turns", self.world.max_turns)

    @property
    def world(self) -> World:
        """The world that is played."""
        return world_of(self.env)

    @property
    def rules(self) -> Options:
        """The options of a game: the world's own, and those of every world."""
        kind = learning_options(self.world)
        names = {option.name for option in fields(kind)}
        values = {name: getattr(self.options, name) for name in names}
        values |= {"first_step": self.first_step} if "first_step" in names else {}
        return kind(**values | {"max_turns": self.max_turns, "compat": self.compat})


def settings_of(**flags: Any) -> ReflectSettings:
    """Settings from flags by their names, those of the world among them."""
    world = world_of(flags.get("env", first_for("reflect")))
    own = flags_of(world, learning=True)
    given = {own[name]: flags.pop(name) for name in own if name in flags}
    return ReflectSettings(**flags, options=options_of(world, given, learning=True))


def as_flags(settings: ReflectSettings) -> dict[str, Json]:
    """All settings as one flat map, by the names of their flags."""
    own = flags_of(settings.world, learning=True)
    plain = {name: getattr(settings, name) for name in PLAIN}
    return plain | {flag: getattr(settings.options, name) for flag, name in own.items()}


SETTINGS = "setting.yml"
HEAD_FILE = "pointing_head.safetensors"  # in a checkpoint; there is none of a policy that writes labels
_MODELS = ("model_name", "reflect_model_name")
PLACES = (*_MODELS, "load_dir", "reflect_load_dir")  # flags that may name a folder beside the run's own
# Flags whose values come from the run that made the checkpoint, whatever is typed.
TAKEN_OVER = ("model_name", "lora_r", "bf16", "fp16", "use_8bit", "use_4bit")
# Flags that may change when a run is continued: they decide about nothing that was made.
FREE = frozenset({
    "max_steps", "save_steps", "save_total_limit", "logging_steps", "cache_dir", "ckpt_path", "device",
    "max_tokens_per_batch", "sandbox_dir",
})  # fmt: skip


def next_experiment(folder: Path, stage: str) -> Path:
    """Make the folder of a new run: `NNN_stage`, one number above the largest there (the first is 000)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            runs = [re.match(r"([0-9]{3,9})_", path.name) for path in folder.iterdir() if path.is_dir()]
            number = max((int(run[1]) for run in runs if run), default=-1) + 1
            made = folder / f"{number:03d}_{stage}"
            with suppress(FileExistsError):  # another run took the number just now
                made.mkdir()
                return made
    except OSError as error:
        raise StorageError(
            f"--ckpt_path {str(folder)!r}: no folder can be made there: {error.strerror}."
        ) from error


def save_settings(folder: Path, settings: ReflectSettings) -> None:
    """Write all flags as a flat map; of a run that is continued those that may change."""
    flags = as_flags(settings)
    if (folder / SETTINGS).exists():
        flags = read_settings(folder) | {name: flags[name] for name in FREE - {"ckpt_path"}}
    replace_file(folder / SETTINGS, [_yaml().safe_dump(flags, sort_keys=False).encode()])


def read_settings(folder: Path) -> dict[str, Json]:
    """The flags that a run's folder was made with; published ones are read as well."""
    path, yaml = folder / SETTINGS, _yaml()
    if not path.is_file():
        raise UsageError(f"{str(folder)!r} is no run's folder: it has no {SETTINGS}.")
    try:
        check_yaml(text := path.read_text(encoding="utf-8"), path)
        found = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}.") from error
    if not isinstance(found, dict):
        raise UsageError(f"{str(path)!r} must hold a map of flags, got {type(found).__name__}.")
    named = {"max_turns" if name == "horizon" else str(name): value for name, value in found.items()}
    return {"pointing_head": False} | named


def check(settings: ReflectSettings) -> None:
    """Find out before anything is loaded what cannot work."""
    check_head(settings)
    ppo = settings.mode != "test" and settings.trainer == "ppo"
    if ppo and not settings.use_critic:
        raise UsageError("--trainer ppo needs a critic: add --use_critic --shared_critic.")
    if ppo and not settings.published and (settings.top_p < 1 or 0 < settings.top_k < ReflectSettings.top_k):
        raise UsageError(
            "--trainer ppo compares an action's probability before and after an update, and --top_k and "
            "--top_p change the one that it was drawn with. Leave them out, or take --trainer pg."
        )
    places = settings.load_dir, settings.reflect_load_dir if settings.reflect else None
    known = [None if settings.published else place for place in places]
    policy, reflector = ({} if place is None else _settings_of(checkpoint_folder(place)) for place in known)
    if policy.get("mode") == "train_SPT" and policy.get("reflect"):
        raise UsageError(
            f"{settings.load_dir!r} is a reflection model's checkpoint (its run had --reflect), and a "
            "policy's is needed. Name the run that was trained on sft.jsonl or sft_policy.jsonl."
        )
    mode = reflector.get("mode")
    if mode == "train_RLFT" or (mode == "train_SPT" and not reflector.get("reflect")):
        raise UsageError(
            f"{settings.reflect_load_dir!r} is a policy's checkpoint, and a reflection model's is "
            "needed. Name a run of supervised_pretrain --reflect, trained on sft_reflection.jsonl."
        )


def without_effect(settings: ReflectSettings) -> list[str]:
    """Flags that the published program takes and does nothing with, as sentences."""
    world, notes = settings.world, []
    if settings.reflect_load_dir is not None and not settings.reflect:
        notes.append("--reflect_load_dir has no effect without --reflect in the published program.")
    named = settings.task_file
    if named and world.learning.ignored(named, world.tasks.sources, settings.compat):
        notes.append(f"--task_file {named} has no effect: --env {settings.env} has its own games.")
    return notes


def check_head(settings: ReflectSettings) -> None:
    """Find out before anything is loaded whether the policy can have a pointing head, if one is asked for."""
    if not settings.pointing_head:
        return
    if not settings.world.learning.head:
        raise UsageError(
            f"--pointing_head scores the commands that a state offers, and --env {settings.env} offers none: its world's "
            "`learning.head` says what begins a list of commands. Leave --pointing_head out, or take such a world."
        )
    if settings.mode == "train_SPT" and settings.reflect:
        raise UsageError("--pointing_head is a policy's, and --reflect trains a reflection model. Drop one.")
    if settings.mode == "test" and settings.load_dir is not None and not has_head(settings.load_dir):
        raise UsageError(
            f"{settings.load_dir!r} was trained without a pointing head. Leave --pointing_head out: a "
            "checkpoint that has one is measured with it."
        )


def has_head(checkpoint: str) -> bool:
    """Whether a checkpoint's policy points at commands."""
    return (Path(checkpoint).expanduser() / HEAD_FILE).is_file()


def checkpoint_folder(name: str) -> Path:
    """The folder of an adapter's checkpoint."""
    folder = Path(name).expanduser()
    if (folder / "adapter_config.json").is_file():
        return folder
    near = folder if folder.is_dir() else folder.parent
    there = sorted((path.parent for path in near.glob("checkpoint-*/adapter_config.json")), key=step_of)
    hint = " supervised_pretrain and rl_finetune make some."
    if there:
        hint = f" {str(near)!r} has {', '.join(path.name for path in there[-3:])}; name one of these."
    raise UsageError(f"{name!r} is no checkpoint of an adapter: it has no adapter_config.json.{hint}")


def beside(name: str, run: Path) -> str:
    """What a run's settings name, also if they were made in another working folder, or moved with others."""
    path = Path(name).expanduser()
    moved = run.parent / path.parent.name / path.name
    return str(moved) if not path.exists() and path.parent.name and moved.exists() else name


def with_saved(settings: ReflectSettings, checkpoint: str | None) -> ReflectSettings:
    """The settings with `TAKEN_OVER` from the run that made the checkpoint, if it is known; and its head."""
    if checkpoint is None:
        return settings
    saved = _settings_of(Path(checkpoint).expanduser())
    taken = {name: saved[name] for name in TAKEN_OVER if name in saved}
    return replace(settings, pointing_head=settings.pointing_head or has_head(checkpoint), **taken)


def with_saved_reflector(settings: ReflectSettings) -> ReflectSettings:
    """The settings with `reflect`, and the model that `reflect_load_dir` was trained on, if its run is known.

    Published: the model is always that of `--reflect_model_name`, and asked with `--reflect` only.
    """
    if settings.reflect_load_dir is None or settings.published:
        return settings
    saved = _settings_of(Path(settings.reflect_load_dir).expanduser())
    name = saved.get("model_name", settings.reflect_model_name)
    return replace(settings, reflect=True, reflect_model_name=name)


def _settings_of(checkpoint: Path) -> dict[str, Json]:
    """Those of the run that made a checkpoint, its places as they are found today; none where it is not known."""
    run = checkpoint.parent
    return _placed(run) if (run / SETTINGS).is_file() else {}


def _placed(run: Path) -> dict[str, Json]:
    saved = read_settings(run)
    return saved | {name: beside(str(saved[name]), run) for name in PLACES if saved.get(name)}


def continued(folder: Path, settings: ReflectSettings, given: Collection[str]) -> ReflectSettings:
    """The settings of a run that is to be continued; what began it may be typed again."""
    saved, flags = read_settings(folder), as_flags(settings)
    typed = {name: value for name, value in flags.items() if name in given}
    placed = flags | _placed(folder)
    own = flags_of(world_of(str(placed["env"])), learning=True)
    before = settings_of(**{name: value for name, value in placed.items() if name in {*PLAIN, *own}})
    compared = {name: value for name, value in typed.items() if name in saved and name not in {*FREE, "mode"}}
    for name in _MODELS:  # one that the run made in its own folder may be typed by its name
        place = Path(str(saved.get(name)))
        if place.parent.name == folder.resolve().name and compared.get(name) == place.name:
            del compared[name]
    theirs, ours = ({f"--{name}": its[name] for name in compared} for its in (saved, compared))
    check_same(theirs, ours, f"The run {str(folder)!r}", instead="start a new run with --load_dir")
    return replace(before, **{name: value for name, value in typed.items() if name in FREE})


def made_from(settings: ReflectSettings, data: Json) -> dict[str, Json]:
    """All that decides about a run's weights, by flags: values, and digests of models and data."""
    flags = {name: value for name, value in as_flags(settings).items() if name not in FREE}
    used = [name for name in PLACES if settings.reflect or not name.startswith("reflect_")]
    named = dict.fromkeys(PLACES) | {name: identity_of(flags[name]) for name in used}
    return {f"--{name}": value for name, value in {**flags, **named, "task_file": digest(data)}.items()}


def _yaml() -> Any:
    try:
        import yaml  # comes with transformers
    except ImportError as error:
        raise missing_package("pyyaml", "reflect", needed_for="A run's setting.yml") from error
    return yaml


Log = dict[str, Any]


def logs_of(folder: Path, *, compat: Compat = "fixed") -> list[Log]:
    """All iterations up to a run's last checkpoint, those before `load_dir` included; without `log`."""
    chain: list[tuple[Path, int, int | None]] = []  # runs, oldest first, and where the next one took over
    run, until = folder, None
    while True:
        settings = read_settings(run)
        chain.insert(0, (run, int(str(settings.get("gradient_accumulation_steps") or 1)), until))
        before = str(settings.get("load_dir") or "")
        if "rl_finetune" not in Path(before).parent.name:
            break
        checkpoint = Path(beside(before, run)).expanduser()
        until = step_of(checkpoint)
        if until < 0 or any(checkpoint.parent.resolve() == one.resolve() for one, _, _ in chain):
            raise UsageError(f"{str(run)!r} began at {before!r}, which is no checkpoint of another run.")
        run = checkpoint.parent
    found: list[Log] = []
    begin = 0.0
    for run, accumulation, until in chain:
        own = [entry for entry in read_logs(run) if until is None or entry["iter"] < until]
        if compat == "published":
            begin /= accumulation
        own = [{**entry, "iter": begin + entry["iter"] / accumulation} for entry in own]
        found = [*own, *found] if compat == "published" else [*found, *own]
        if until is not None:
            begin += until / accumulation
    if compat == "published":
        found.sort(key=lambda entry: float(entry["iter"]))  # its runs overlap
    if not found:
        raise UsageError(
            f"{str(folder)!r} holds no logs: no checkpoint-N/logs.json. Runs of rl_finetune have them, "
            "from their first checkpoint on (--save_steps)."
        )
    return found


def read_logs(folder: Path) -> list[Log]:
    """Iterations in a run's checkpoints, in order, without their episodes."""
    found: list[Log] = []
    paths = [path for path in folder.glob("checkpoint-*/logs.json") if step_of(path.parent) >= 0]
    for path in sorted(paths, key=lambda path: step_of(path.parent)):
        try:
            for entry in json.loads(path.read_text(encoding="utf-8")):
                kept = {key: value for key, value in entry.items() if key != "log"}
                if not {"succ", "cost", "loss"} <= {*kept} or not isinstance(kept["iter"], int | float):
                    raise ValueError(f"one is {kept}")
                found.append(kept)
        except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
            raise DataError(f"is no list of iterations ({error})", path=path) from error
    return found


def moving_average(
    iters: Sequence[float],
    values: Sequence[float | Sequence[float | None] | None],
    *,
    window: int = 99,
    compat: Compat = "fixed",
) -> tuple[list[float], list[float | None]]:
    """Means over the values at most half a window away, in iterations; pairs of values count as two points.

    A value that there is not is left out; where there are none around, the mean is None. Published, it
    counts as 0.
    """
    both = zip(iters, values, strict=True)
    points = [(at, one) for at, value in both for one in (value if isinstance(value, Sequence) else [value])]
    terms = [(at, value or 0.0) for at, value in points if value is not None or compat == "published"]
    half, means, total = window // 2, list[float | None](), 0.0
    first = last = 0
    # Published: the window around a point is that of the point before it, and begins around 0.
    centres = [at for at, _ in points]
    for centre in [0.0, *centres[:-1]] if compat == "published" else centres:
        while last < len(terms) and terms[last][0] <= centre + half:
            total += terms[last][1]
            last += 1
        while first < last and terms[first][0] < centre - half:
            total -= terms[first][1]
            first += 1
        means.append(total / (last - first) if last > first else None)
    return centres, means
