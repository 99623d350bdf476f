"""The steps of `demo_reflect`: data of an expert teacher, two models of one seed, four ways to learn.

Two worlds, the taxi and repositories to explore. For every seed a tiny Llama is made for each of them; it is
fine-tuned on texts, learns online, or both, with or without a reflection model beside it. Steps are run by
`sweet_rl.pipelines.running`: two at a time, each once, and an interrupted study resumes where it stopped.
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

TAXI, EXPLORE = "taxi", "auto_explore"
WORLDS = (TAXI, EXPLORE)

RECORDS = 8000
"""States of the taxi that the teacher reflects on."""

RANDOM_SHARE = 0.2
"""Of the taxi driver's moves, which the policy imitates: an imitator that has something left to learn."""

REPOSITORIES = 40
"""To explore; each has about twenty questions. Those that are measured on are in no training text."""

TEST_GAMES = 200
"""Of each of the taxi's levels, that every policy is measured on."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is learned in a world.

    Attributes:
        updates: of a policy's fine-tuning.
        reflection_updates: of a reflection model's; what it writes is longer than an action.
        iterations: of an online run.
        episodes: of an iteration.
        online_rate: learning rate of the online runs. At 1e-3 policies learn to give up at once, as an early
            end costs less than a late failure.
    """

    updates: int
    reflection_updates: int
    iterations: int
    episodes: int
    online_rate: float


AMOUNTS: Mapping[str, Amount] = {
    TAXI: Amount(600, 2000, 30, 32, online_rate=5e-4),
    EXPLORE: Amount(500, 800, 20, 16, online_rate=2e-4),
}
"""In minutes on two cores."""

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

REFLECTION_TOKENS: Mapping[str, int] = {TAXI: 40, EXPLORE: 64}
"""Of a reflection at most; those of the teacher are shorter."""

_AT_ONCE = 256
"""Of the teacher's work: what is finished together goes to the disk together."""

_EXPLORE_REPEATS = 3
"""How often every held-out question is asked."""

_TEST_SEED = 1_000
"""The same games for every policy of the study; they are not learnt from."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to make a policy.

    Attributes:
        key: name in files.
        texts: fine-tuned on `sft` (no reflections), `policy` (with), `policy_positive` (with, but without
            wrong ways), or on nothing.
        online: iterations of reinforcement learning follow.
        curriculum: these begin with easier levels.
        policy_of: key of the method whose policy this one measures again, every state with the reflection of
            another; nothing is trained.
    """

    key: str
    texts: str = ""
    online: bool = False
    curriculum: bool = True
    policy_of: str = ""

    @property
    def reflects(self) -> bool:
        """Whether a reflection model thinks before."""
        return self.texts.startswith("policy")

    @property
    def reflection_texts(self) -> str:
        """What that model is fine-tuned on."""
        return self.texts.replace("policy", "reflection")


METHODS: Mapping[str, Sequence[Method]] = {
    TAXI: (
        Method("sft", "sft"),
        Method("rl", online=True),
        Method("reflect_sft", "policy"),
        Method("reflect_rl", "policy", online=True),
        Method("reflect_rl_flat", "policy", online=True, curriculum=False),
        Method("reflect_rl_swapped", "policy", online=True, policy_of="reflect_rl"),
    ),
    EXPLORE: (
        Method("sft", "sft"),
        Method("rl", online=True),
        Method("reflect_sft", "policy"),
        Method("reflect_rl", "policy", online=True),
        Method("reflect_rl_positive", "policy_positive", online=True),
        Method("reflect_rl_swapped", "policy", online=True, policy_of="reflect_rl"),
    ),
}
"""What is compared in each world."""


@dataclass(frozen=True, slots=True)
class ReflectStudy:
    """What a study is made of; None: as `AMOUNTS` says."""

    folder: Path
    seeds: int = 3
    records: int = RECORDS
    repositories: int = REPOSITORIES
    sft_updates: int | None = None
    iterations: int | None = None
    test_games: int = TEST_GAMES
    worlds: Sequence[str] = field(default=WORLDS)

    def texts(self, world: str, kind: str) -> Path:
        """Path of a file of training texts."""
        return self.folder / f"{world}_texts" / (f"sft_{kind}.jsonl" if kind != "sft" else "sft.jsonl")

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
        return {"env": EXPLORE, "repo_dir": self.folder / "repositories"}


def rounds(study: ReflectStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    places = [(world, seed) for seed in range(study.seeds) for world in study.worlds]
    data = {TAXI: _taxi_data, EXPLORE: _explore_data}
    return [
        [data[world](study) for world in study.worlds],
        [(_make(study, world, seed),) for world, seed in places],
        [chain for world, seed in places for chain in _fine_tunings(study, world, seed)],
        [
            _made(study, world, method, seed)
            for world, seed in places
            for method in METHODS[world]
            if not method.policy_of
        ],
    ]


# ---- the chains


def _taxi_data(study: ReflectStudy) -> Chain:
    records, texts = study.folder / "taxi_records.json", study.folder / "taxi_texts"
    played = {
        "output": records,
        "num_records": study.records,
        "random_share": RANDOM_SHARE,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    written = {"task_file": records, "output": texts, "overwrite": True}
    return (
        call("reflect taxi_reflection", records, flags=played),
        call("reflect taxi_gen_sft", texts, flags=written),
    )


def _explore_data(study: ReflectStudy) -> Chain:
    made, kept = study.folder / "made", study.folder / "repositories"
    tasks, lessons = study.folder / "tasks.json", study.folder / "lessons.json"
    train, texts = study.folder / "train.json", study.folder / f"{EXPLORE}_texts"
    making = {"output_dir": made, "num": study.repositories, "overwrite": True}
    teaching = {
        "task_file": tasks,
        "repo_dir": kept,
        "output": lessons,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    writing = {"repo_dir": kept, "output": texts, "overwrite": True, "quiet": True}
    return (
        call("reflect make_repositories", made, flags=making),
        call("reflect filter_repo", kept, (str(made / "repos"),), {"output": kept, "overwrite": True}),
        call(
            "reflect filter_task",
            tasks,
            (str(made / "made_tasks.json"),),
            {"repo_dir": kept, "output": tasks, "overwrite": True},
        ),
        call("reflect reflection_negative", lessons, flags=teaching),
        call("reflect split_data", train, (str(lessons),), {"by_repo": True, "overwrite": True}),
        call("reflect gen_sft", texts, (str(train),), writing),
    )


def _make(study: ReflectStudy, world: str, seed: int) -> Step:
    output = study.base(world, seed)
    read = tuple(str(study.texts(world, kind)) for kind in ("sft", "policy"))
    flags = {"seed": seed, "width": WIDTH, "layers": LAYERS, "phrases": world == TAXI}
    return call("sweet_rl.studies.reflect.recipe:make", output, (str(output), *read), flags)


def _fine_tunings(study: ReflectStudy, world: str, seed: int) -> list[Chain]:
    kinds = [method.texts for method in METHODS[world] if method.texts]
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
    flags |= {"reflect": True} if kind.startswith("reflection") else {}
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
        **_levels(world, curriculum=method.curriculum),
    }
    if world == EXPLORE:
        flags |= {"task_file": study.folder / "train.json", "leaveout_prob": 0}
    if method.texts:
        flags["load_dir"] = study.tuned_checkpoint(world, method.texts, seed)
    if method.reflects:
        flags |= {
            "reflect": True,
            "reflect_max_new_tokens": REFLECTION_TOKENS[world],
            "reflect_model_name": study.base(world, seed),
            "reflect_load_dir": study.tuned_checkpoint(world, method.reflection_texts, seed),
        }
    return call("reflect rl_finetune", output, flags=flags)


def _levels(world: str, *, curriculum: bool) -> dict[str, Any]:
    """Easier levels before the whole task, or that alone."""
    if world == EXPLORE:
        return {"depth_curriculum": True} if curriculum else {}
    return {"taxi_curriculum": True} | ({} if curriculum else {"curriculum_index": 2})


def _measure(study: ReflectStudy, world: str, method: Method, seed: int) -> Step:
    output = study.report(world, method, seed)
    named = str(study.checkpoint(world, method, seed))
    if method.reflects:
        named += f"+{study.tuned_checkpoint(world, method.reflection_texts, seed)}"
    batch = min(50, study.test_games)
    flags = {
        **study.playing(world),
        "reflect_max_new_tokens": REFLECTION_TOKENS[world],
        **_levels(world, curriculum=True),
        "report": output,
        "seed": _TEST_SEED,
        "per_device_eval_batch_size": batch,
        "eval_reps": max(1, study.test_games // batch) if world == TAXI else _EXPLORE_REPEATS,
        "overwrite": True,
        "quiet": True,
    }
    if world == EXPLORE:
        flags["task_file"] = study.folder / "test.json"
    if method.policy_of:
        flags["swap_reflections"] = True
    return call("reflect evaluate", output, (named,), flags)


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
