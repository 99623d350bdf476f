"""The steps of `demo_reflect`: data of an expert teacher, two models of one seed, four ways to learn.

Worlds are the taxi, repositories to explore, and households (`worlds`; their data: `data`). For every seed a
tiny Llama is made for each of them; it is fine-tuned on texts, learns online, or both, with or without a
reflection model beside it. Steps are run by `sweet_rl.pipelines.running`: two at a time, each once, and an
interrupted study resumes where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.chains import Chain, call
from sweet_rl.studies.reflect import data
from sweet_rl.studies.reflect.data import REPOSITORIES
from sweet_rl.studies.reflect.worlds import (
    AMOUNTS,
    EXPLORE,
    HOPS,
    HOUSEHOLD,
    METHODS,
    MOVED,
    TAXI,
    USUAL,
    Method,
)

TEST_GAMES = 200
"""Of each of the taxi's levels, that every policy is measured on."""

WIDTH, LAYERS = 64, 2
"""Of policy and reflection model."""

TRAINING: Mapping[str, Any] = {
    "target_modules": "all-linear",
    "lora_alpha": 256,
    "disable_dropout": True,
    "gradient_checkpointing": False,
    "quiet": True,
}
"""Of every training: the model below an adapter is random, so the adapter is all that learns."""

FINE_TUNING: Mapping[str, Any] = {
    "per_device_train_batch_size": 8,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "cosine",
    "warmup_ratio": 0.1,
    "max_grad_norm": 1.0,
}

ONLINE: Mapping[str, Any] = {
    "per_device_train_batch_size": 16,
    "use_critic": True,
    "shared_critic": True,
    "critic_update_freq": 1,
}
"""Episodes drawn from replay after an iteration; without a critic costs vary too much for so few episodes."""

_REPEATS = {EXPLORE: 3, MOVED: 3, HOUSEHOLD: 5}
"""How often every held-out question is asked, and every held-out household played."""

_TEST_SEED = 1_000
"""The same games for every policy of the study; they are not learnt from."""


@dataclass(frozen=True, slots=True)
class ReflectStudy:
    """What a study is made of; None: as `AMOUNTS` says."""

    folder: Path
    seeds: int = 3
    records: int | None = None
    repositories: int = REPOSITORIES
    sft_updates: int | None = None
    iterations: int | None = None
    test_games: int = TEST_GAMES
    worlds: Sequence[str] = field(default=USUAL)

    def texts(self, world: str, kind: str) -> Path:
        """Path of a file of training texts."""
        return data.texts_folder(self.folder, world) / (f"sft_{kind}.jsonl" if kind != "sft" else "sft.jsonl")

    def base(self, world: str, seed: int) -> Path:
        """The tiny model of a seed, before it has learned anything."""
        return self.folder / f"{world}-base-{seed}"

    def updates_of(self, world: str, kind: str) -> int:
        """Updates of one fine-tuning: `sft_updates` if given, else the world's own number."""
        amount = AMOUNTS[world]
        usual = amount.reflection_updates if kind.startswith("reflection") else amount.updates
        return self.sft_updates or usual

    def iterations_of(self, world: str) -> int:
        """Iterations of an online run: `iterations` if given, else the world's own number."""
        return self.iterations or AMOUNTS[world].iterations

    def tuned(self, world: str, kind: str, seed: int) -> Path:
        """Path of a fine-tuning's run folder."""
        return self.folder / f"{world}-{kind}-{seed}"

    def tuned_checkpoint(self, world: str, kind: str, seed: int) -> Path:
        """Path of the adapter that a fine-tuning made."""
        run = self.tuned(world, kind, seed) / "000_supervised_pretrain"
        return run / f"checkpoint-{self.updates_of(world, kind)}"

    def run(self, world: str, method: Method, seed: int) -> Path:
        """Path of an online run's folder."""
        return self.folder / f"{world}-{method.policy_of or method.key}-{seed}"

    def checkpoint(self, world: str, method: Method, seed: int) -> Path:
        """The adapter of the policy that a method made."""
        if not method.online:
            return self.tuned_checkpoint(world, method.texts, seed)
        run = self.run(world, method, seed) / "000_rl_finetune"
        return run / f"checkpoint-{self.iterations_of(world)}"

    def report(self, world: str, method: Method, seed: int) -> Path:
        """What the policy was measured to do."""
        return self.folder / f"{world}-{method.key}-{seed}.json"

    def playing(self, world: str) -> dict[str, Any]:
        """Flags of a world, the same when it is learned from and when it is measured."""
        if world == TAXI:
            return {"env": TAXI, "max_turns": 20}
        if world == HOUSEHOLD:
            return {"env": HOUSEHOLD}
        return {"env": EXPLORE, "repo_dir": data.repositories(self.folder, world)}

    def tasks(self, world: str, part: str) -> dict[str, Any]:
        """Flags for the tasks of a part, train or test; the taxi draws its own."""
        if world == TAXI:
            return {}
        named = f"alfworld:{part}" if world == HOUSEHOLD else data.split(self.folder, world, part)
        return {"task_file": named}


def rounds(study: ReflectStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    places = [(world, seed) for seed in range(study.seeds) for world in study.worlds]
    return [
        [
            data.chain(study.folder, world, records=study.records, count=study.repositories)
            for world in study.worlds
        ],
        [(_make(study, world, seed),) for world, seed in places],
        [chain for world, seed in places for chain in _fine_tunings(study, world, seed)],
        [
            _made(study, world, method, seed)
            for world, seed in places
            for method in METHODS[world]
            if not method.policy_of and seed < (1 if method.once else study.seeds)
        ],
    ]


# ---- the chains


def _make(study: ReflectStudy, world: str, seed: int) -> Step:
    output = study.base(world, seed)
    read = tuple(str(study.texts(world, kind)) for kind in ("sft", "policy"))
    flags = {"seed": seed, "width": WIDTH, "layers": LAYERS, "phrases": AMOUNTS[world].phrases}
    return call("sweet_rl.studies.reflect.recipe:make", output, (str(output), *read), flags)


def _fine_tunings(study: ReflectStudy, world: str, seed: int) -> list[Chain]:
    kinds = [method.texts for method in METHODS[world] if method.tuned]
    kinds += [method.reflection_texts for method in METHODS[world] if method.reflects]
    return [(_fine_tune(study, world, kind, seed),) for kind in dict.fromkeys(kinds)]


def _fine_tune(study: ReflectStudy, world: str, kind: str, seed: int) -> Step:
    output = study.tuned(world, kind, seed)
    flags = {
        "task_file": study.texts(world, kind),
        "model_name": study.base(world, seed),
        "ckpt_path": output,
        "seed": seed,
        "max_steps": study.updates_of(world, kind),
        "save_steps": study.updates_of(world, kind),
        **FINE_TUNING,
        **TRAINING,
    }
    if kind.startswith("reflection"):
        flags["reflect"] = True
    elif AMOUNTS[world].points:
        flags |= {"pointing_head": True, "env": study.playing(world)["env"]}
    return call("reflect supervised_pretrain", output, flags=flags)


def _made(study: ReflectStudy, world: str, method: Method, seed: int) -> Chain:
    """The online run, where there is one, and how good its policy is, by its own reflections and by others'."""
    learned = (_learn(study, world, method, seed),) if method.online else ()
    measured = (method, *(other for other in METHODS[world] if other.policy_of == method.key))
    return (*learned, *(_measure(study, world, each, seed) for each in measured))


def _learn(study: ReflectStudy, world: str, method: Method, seed: int) -> Step:
    output = study.run(world, method, seed)
    flags = {
        **study.playing(world),
        "model_name": study.base(world, seed),
        "ckpt_path": output,
        "seed": seed,
        "max_steps": study.iterations_of(world),
        "save_steps": study.iterations_of(world),
        "per_device_eval_batch_size": AMOUNTS[world].episodes,
        "learning_rate": AMOUNTS[world].online_rate,
        **ONLINE,
        **TRAINING,
        **(AMOUNTS[world].easier if method.curriculum else AMOUNTS[world].whole),
        **study.tasks(world, "train"),
    }
    if world in HOPS:
        flags["leaveout_prob"] = 0
    if AMOUNTS[world].points:
        flags["pointing_head"] = True
    if method.texts:
        flags["load_dir"] = study.tuned_checkpoint(world, method.texts, seed)
    if method.reflects:
        flags |= {
            "reflect": True,
            "reflect_max_new_tokens": AMOUNTS[world].reflection_tokens,
            "reflect_model_name": study.base(world, seed),
            "reflect_load_dir": study.tuned_checkpoint(world, method.reflection_texts, seed),
        }
    return call("reflect rl_finetune", output, flags=flags)


def _measure(study: ReflectStudy, world: str, method: Method, seed: int) -> Step:
    output = study.report(world, method, seed)
    named = _named(study, world, method, seed)
    if method.reflects:
        named += f"+{study.tuned_checkpoint(world, method.reflection_texts, seed)}"
    batch = min(50, study.test_games)
    flags = {
        **study.playing(world),
        "reflect_max_new_tokens": AMOUNTS[world].reflection_tokens,
        **AMOUNTS[world].easier,
        **study.tasks(world, "test"),
        "report": output,
        "seed": _TEST_SEED,
        "per_device_eval_batch_size": batch,
        "eval_reps": _REPEATS.get(world, max(1, study.test_games // batch)),
        "overwrite": True,
        "quiet": True,
    }
    if method.policy_of:
        flags["swap_reflections"] = True
    return call("reflect evaluate", output, (named,), flags)


def _named(study: ReflectStudy, world: str, method: Method, seed: int) -> str:
    """What is measured, as `evaluate` takes it, without a reflection model."""
    if method.agent:
        return f"agent:{method.agent}"
    if method.linear:
        return f"linear:{study.texts(world, method.texts)}"
    return str(study.checkpoint(world, method, seed))


# ---- the step that is no command, in a worker


@recorded("demo_reflect make", reads=("texts",))
def make(output: str, *texts: str, seed: int, width: int, layers: int, phrases: bool) -> None:
    """Make the tiny model of a seed; its tokenizer knows the words of the texts.

    Args:
        output: its folder.
        texts: files of training texts.
        seed: of its weights.
        width: of its layers.
        layers: how many.
        phrases: what texts repeat literally is one token.
    """
    from sweet_rl.algorithms.reflect.texts import read_texts
    from sweet_rl.tiny_models.reflect_models import make_reflect_model

    read = [text for path in texts for text in read_texts(path)]
    tracking.writes(output, folder=True)
    made = make_reflect_model(
        Path(output),
        seed=seed,
        texts=read,
        hidden_size=width,
        layers=layers,
        rotary=True,
        phrases=phrases,
    )
    print(f"A model of {layers} layers and width {width} is in {made}")
