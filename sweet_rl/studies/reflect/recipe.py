"""The steps of `demo_reflect`: data of an expert teacher, two models of one seed, five ways to learn.

The Llama of a seed is fine-tuned on texts, learns online, or both, with or without a reflection model beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded
from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.reflect import worlds as reflect_worlds
from sweet_rl.studies.reflect.worlds import BEST, EXPLORE, HOPS, HOUSEHOLD, LONG, METHODS, TAXI, USUAL, Method
from sweet_rl.studies.runner import Chain, call
from sweet_rl.worlds.alfworld.game import TOMATO

RECORDS: Final = {TAXI: 8000, HOUSEHOLD: 3000}  # States that the teacher reflects on
HOUSEHOLDS: Final = 250  # Homes of the published family of tasks; every fifth is held out
RANDOM_SHARE: Final = 0.2  # Of a recorded player's moves: so that its imitator has something left to learn
REPOSITORIES: Final = 40  # To explore, with some twenty questions each; those measured on are in no text
TEST_GAMES = 100  # Of each of the taxi's levels, that every policy is measured on
WIDTH, LAYERS = 64, 2  # Of policy and reflection model

TRAINING, FINE_TUNING, ONLINE = (
    reflect_worlds.SETTINGS[name] for name in ("training", "fine_tuning", "online")
)

REFLECTION_TEMPERATURE = 0.2  # Of thirty tokens that a tiny model draws at 1 some are wrong
_AT_ONCE: Final = 256  # Of the teacher's work: what is finished together goes to the disk together

_TOKENIZED = 2_000  # Texts that the tokenizer of a tiny model is learned from, or nearly so many
_REPEATS = {EXPLORE: 3, reflect_worlds.MOVED: 3, HOUSEHOLD: 2}  # Of every held-out question and household
_TEST_SEED = 1_000
"""Added to a seed for its test games: the same ones for all of its policies. The taxi's are drawn anew, from all starts."""


@dataclass(frozen=True, slots=True)
class ReflectStudy:
    """What a study is made of; None: as its amounts say. `labels` stand behind a name in files."""

    folder: Path
    seeds: int = 1
    first_seed: int = 0
    records: int | None = None
    repositories: int = REPOSITORIES
    sft_updates: int | None = None
    iterations: int | None = None
    test_games: int = TEST_GAMES
    worlds: Sequence[str] = USUAL
    amounts: Mapping[str, reflect_worlds.Amount] = field(default_factory=lambda: reflect_worlds.AMOUNTS)
    methods: Mapping[str, Sequence[Method]] = field(default_factory=lambda: METHODS)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def each_seed(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def made(self, world: str, what: str, seed: int) -> Path:
        return self.folder / f"{world}_{what}-{seed}"

    def texts(self, world: str, kind: str, seed: int) -> Path:
        name = "sft.jsonl" if kind in {"sft", LONG, BEST} else f"sft_{kind}.jsonl"
        return self.made(world, BEST if kind == BEST else "texts", seed) / name

    def base(self, world: str, seed: int) -> Path:
        return self.folder / f"{world}-base-{seed}"

    def reflecting_base(self, world: str, seed: int) -> Path:
        """The same for the reflection model; where it copies, it has a model of its own."""
        name = "reader" if self.amounts[world].copies else "base"
        return self.folder / f"{world}-{name}-{seed}"

    def tuning(self, world: str, kind: str) -> reflect_worlds.Tuning:
        usual = self.amounts[world].tuning(kind)
        if not self.sft_updates:
            return usual
        return usual._replace(updates=self.sft_updates * (2 if kind == LONG else 1))

    def online(self, world: str, method: Method) -> reflect_worlds.Online:
        usual = self.amounts[world].online(method.key)
        return usual._replace(iterations=self.iterations or usual.iterations)

    def tuned(self, world: str, name: str, seed: int) -> Path:
        return self.folder / f"{world}-{name}{self.labels.get(name, '')}-{seed}"

    def tuned_checkpoint(self, world: str, kind: str, seed: int) -> Path:
        run = self.tuned(world, kind, seed) / "000_supervised_pretrain"
        return run / f"checkpoint-{self.tuning(world, kind).updates}"

    def run(self, world: str, method: Method, seed: int) -> Path:
        return self.tuned(world, method.policy_of or method.key, seed)

    def checkpoint(self, world: str, method: Method, seed: int) -> Path:
        if not method.online:
            return self.tuned_checkpoint(world, method.texts, seed)
        run = self.run(world, method, seed) / "000_rl_finetune"
        return run / f"checkpoint-{self.online(world, method).iterations}"

    def report(self, world: str, method: Method, seed: int) -> Path:
        return self.tuned(world, method.key, seed).with_suffix(".json")

    def playing(self, world: str, seed: int) -> dict[str, Any]:
        if world == TAXI:
            return {"env": TAXI, "max_turns": 20}
        if world == HOUSEHOLD:
            return {"env": HOUSEHOLD}
        return {"env": EXPLORE, "repo_dir": self.made(world, "repositories", seed)}

    def writing(self, world: str) -> dict[str, Any]:
        most = self.amounts[world].reflection_tokens
        return {"reflect_max_new_tokens": most, "reflect_temperature": REFLECTION_TEMPERATURE}

    def tasks(self, world: str, seed: int, part: str) -> dict[str, Any]:
        if world == TAXI:
            return {}
        file = self.made(world, "lessons", seed) / f"{part}.json"
        return {"task_file": households(part, seed) if world == HOUSEHOLD else file}


def households(part: str, seed: int) -> str:
    """The household games of a part, train or test: all seeds learn in the same homes, each is measured in others."""
    if part == "train":
        return f"alfworld:{TOMATO}:train:{HOUSEHOLDS}"
    first = HOUSEHOLDS * (1 + seed)
    return f"alfworld:{TOMATO}:{part}:{first}-{first + HOUSEHOLDS - 1}"


def rounds(study: ReflectStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    places = [(world, seed) for seed in study.each_seed for world in study.worlds]
    return [
        [(_explored if world in HOPS else _recorded)(study, world, seed) for world, seed in places],
        [
            (_make(study, *place, base),)
            for place in places
            for base in dict.fromkeys((study.base(*place), study.reflecting_base(*place)))
        ],
        [
            (_fine_tune(study, world, kind, seed),)
            for world, seed in places
            for kind in sorted(  # the longest first: no process is left alone with it
                dict.fromkeys(
                    [method.texts for method in study.methods[world] if method.tuned]
                    + [method.reflection_texts for method in study.methods[world] if method.reflects]
                ),
                key=lambda kind: -study.tuning(world, kind).updates,
            )
        ],
        [
            _made(study, world, method, seed)
            for world, seed in places
            # an online run takes longer than a measurement, and thoughts take time: the longest first
            for method in sorted(study.methods[world], key=lambda method: -(method.online + method.reflects))
            if not method.policy_of
        ],
    ]


def _recorded(study: ReflectStudy, world: str, seed: int) -> Chain:
    made, texts = study.made(world, "records", seed).with_suffix(".json"), study.made(world, "texts", seed)
    played: dict[str, Any] = {"output": made, "num_records": study.records or RECORDS[world]}
    played |= {"random_share": RANDOM_SHARE, "seed": seed, "concurrency": _AT_ONCE, "quiet": True}
    written: dict[str, Any] = {"task_file": made, "output": texts, "overwrite": True}
    if world == HOUSEHOLD:
        played |= {"tasks": households("train", seed), "seek": True}
        written |= {"containing": ""}
    steps = (
        call(f"reflect {world}_reflection", made, flags=played),
        call(f"reflect {world}_gen_sft", texts, flags=written),
    )
    if not any(method.texts == BEST for method in METHODS[world]):
        return steps
    best = study.made(world, BEST, seed)
    return (*steps, call(f"reflect {world}_gen_sft", best, flags=written | {"output": best, "label": "best"}))


def _explored(study: ReflectStudy, world: str, seed: int) -> Chain:
    """Repositories, questions about them, right ways and wrong ones; other repositories for tests."""
    made, kept, lessons, texts = (
        study.made(world, what, seed) for what in ("made", "repositories", "lessons", "texts")
    )
    tasks, train = study.made(world, "tasks", seed).with_suffix(".json"), lessons / "train.json"
    lines = lessons / "lessons.json"
    count, fresh = study.repositories, {"overwrite": True}
    making = {"output_dir": made, "num": count, "hops": HOPS[world], "seed": seed, **fresh}
    teaching = {"task_file": tasks, "repo_dir": kept, "output": lines, "seed": seed}
    teaching |= {"concurrency": _AT_ONCE, "quiet": True}
    splitting = {"by_repo": True, "seed": seed, **fresh}
    given = {"repo_dir": kept}
    return (
        call("reflect make_repositories", made, flags=making),
        call("reflect filter_repo", kept, (str(made / "repos"),), {"output": kept, **fresh}),
        call(
            "reflect filter_task", tasks, (str(made / "made_tasks.json"),), given | {"output": tasks, **fresh}
        ),
        call("reflect reflection_negative", lessons, flags=teaching),
        call("reflect split_data", study.made(world, "split", seed), (str(lines),), splitting),
        call("reflect gen_sft", texts, (str(train),), given | {"output": texts, **fresh, "quiet": True}),
    )


def _make(study: ReflectStudy, world: str, seed: int, base: Path) -> Step:
    read = tuple(str(study.texts(world, kind, seed)) for kind in ("sft", "policy"))
    amount, copies = study.amounts[world], base != study.base(world, seed)
    flags: dict[str, Any] = {"seed": seed, "width": WIDTH, "layers": LAYERS}
    flags |= {"phrases": amount.phrases, "names": amount.names}
    flags |= {"focus": 1.0 if copies else amount.focus, "copies": copies}
    return call("sweet_rl.studies.reflect.recipe:make", base, (str(base), *read), flags)


def _fine_tune(study: ReflectStudy, world: str, kind: str, seed: int) -> Step:
    output, tuning = study.tuned(world, kind, seed), study.tuning(world, kind)
    reflects = kind.startswith("reflection")
    base = study.reflecting_base(world, seed) if reflects else study.base(world, seed)
    flags: dict[str, Any] = {"task_file": study.texts(world, kind, seed), "model_name": base}
    flags |= {"ckpt_path": output, "seed": seed}
    flags |= {"max_steps": tuning.updates, "save_steps": tuning.updates, "learning_rate": tuning.rate}
    flags |= FINE_TUNING | TRAINING
    if reflects:
        flags["reflect"] = True
    elif study.amounts[world].points:
        flags |= {"pointing_head": True, "env": study.playing(world, seed)["env"]}
    return call("reflect supervised_pretrain", output, flags=flags)


def _made(study: ReflectStudy, world: str, method: Method, seed: int) -> Chain:
    """The online run, where there is one, and how good its policy is, by its own reflections and by others'."""
    learned = (_learn(study, world, method, seed),) if method.online else ()
    measured = (method, *(other for other in study.methods[world] if other.policy_of == method.key))
    return (*learned, *(_measure(study, world, each, seed) for each in measured))


def _learn(study: ReflectStudy, world: str, method: Method, seed: int) -> Step:
    output, online, amount = study.run(world, method, seed), study.online(world, method), study.amounts[world]
    flags = study.playing(world, seed)
    flags |= {"model_name": study.base(world, seed), "ckpt_path": output, "seed": seed}
    flags |= {"max_steps": online.iterations, "save_steps": online.iterations}
    flags |= {"per_device_eval_batch_size": online.episodes, "learning_rate": online.rate} | ONLINE | TRAINING
    flags |= amount.easier if method.curriculum else amount.whole
    flags |= study.tasks(world, seed, "train")
    if world in HOPS:
        flags["leaveout_prob"] = 0
    if amount.points:
        flags["pointing_head"] = True
    if method.texts:
        flags["load_dir"] = study.tuned_checkpoint(world, method.texts, seed)
    if method.reflects:
        flags |= {"reflect": True, **study.writing(world)}
        flags["reflect_model_name"] = study.reflecting_base(world, seed)
        flags["reflect_load_dir"] = study.tuned_checkpoint(world, method.reflection_texts, seed)
    return call("reflect rl_finetune", output, flags=flags)


def _measure(study: ReflectStudy, world: str, method: Method, seed: int) -> Step:
    output = study.report(world, method, seed)
    named = _named(study, world, method, seed)
    if method.reflects:
        named += f"+{study.tuned_checkpoint(world, method.reflection_texts, seed)}"
    batch = max(size for size in range(1, min(50, study.test_games) + 1) if study.test_games % size == 0)
    flags = study.playing(world, seed) | study.writing(world)
    flags |= study.amounts[world].easier
    flags |= study.tasks(world, seed, "test")
    flags |= {"report": output, "seed": _TEST_SEED + seed, "per_device_eval_batch_size": batch}
    repeats = _REPEATS.get(world, max(1, study.test_games // batch))
    flags |= {"eval_reps": repeats, "overwrite": True, "quiet": True}
    if method.policy_of:
        flags["swap_reflections"] = True
    return call("reflect evaluate", output, (named,), flags)


def _named(study: ReflectStudy, world: str, method: Method, seed: int) -> str:
    if method.agent:
        return f"agent:{method.agent}"
    if method.linear:
        return f"linear:{study.texts(world, method.texts, seed)}"
    return str(study.checkpoint(world, method, seed))


# ---- the step that is no command, in a worker


@recorded("demo_reflect make", reads=("texts",))
def make(output: str, *texts: str, width: int, layers: int, **how: Any) -> None:
    """Make the tiny model of a seed, as `make_reflect_model` does; its tokenizer knows the words of the texts."""
    from sweet_rl.online.reflect.sft import read_texts
    from sweet_rl.online.tiny_models import make_reflect_model

    read = [text for path in texts for text in read_texts(path)]
    read = read[:: max(1, len(read) // _TOKENIZED)]
    tracking.writes(output, folder=True)
    made = make_reflect_model(Path(output), texts=read, hidden_size=width, layers=layers, rotary=True, **how)
    print(f"A model of {layers} layers and width {width} is in {made}")
