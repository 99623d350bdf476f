"""The flags that the stages of Reflect-RL share, written as the published parser reads them.

It takes unique beginnings of names, `--x` and `--no_x` for switches, and `yes` for true. `rewrite` turns such
a command line into the one that every stage of this library reads.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets, Options, stage_flags
from sweet_rl.cli.progress import progress, silence_libraries
from sweet_rl.cli.stage import Stage, given_flags, needing, recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags import flags_of as flags_of_settings
from sweet_rl.flags.shared import LogTo, Quiet
from sweet_rl.online.reflect.settings import PLAIN, ReflectFlags, ReflectSettings, settings_of
from sweet_rl.types import derive_seed
from sweet_rl.worlds import flags_of, learning_options, names, world_of

if TYPE_CHECKING:
    from sweet_rl.online.reflect.play import Playground


_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PACKAGES = frozenset({"torch", "transformers", "peft", "safetensors", "yaml", "numpy"})


@dataclass(frozen=True, kw_only=True)
class Resuming(LogTo, Quiet):
    """Like many stages."""

    resume: str | None = flag(
        None, "a run's folder: resume it from its newest checkpoint, with its own flags."
    )


def reflect_stage(
    *,
    helps: Mapping[str, str] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Stage], Stage]:
    """Give a stage's function the published flags and those of the world, which become one `ReflectSettings`."""

    def decorate(function: Stage) -> Stage:
        guarded = needing(_PACKAGES, "reflect", needed_for=function.__name__)(function)
        plain = inspect.signature(function)
        of_any, *others = plain.parameters.values()
        groups = [one for one in others if one.kind is one.POSITIONAL_ONLY]

        @functools.wraps(function)
        def chosen(flags: ReflectFlags, *more: Any, **named: Any) -> None:
            how, (own, *words) = more[: len(groups)], more[len(groups) :]
            values = {name: getattr(flags, name) for name in PLAIN}
            values |= {one.name: getattr(own, one.name) for one in fields(own)}
            guarded(settings_of(**values), *how, *words, **named)

        own = of_any.replace(name="own")
        parameters = [of_any, *groups, own, *others[len(groups) :]]
        types = typing.get_type_hints(function)
        chosen.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
        chosen.__annotations__ = {one.name: types[one.name] for one in groups} | {of_any.name: ReflectFlags}
        reading = stage(
            defaults=defaults,
            helps=helps,
            narrow=narrow,
            facets=_facets,
            options=Options("env", own_flags, names),
        )(chosen)
        reading.rewrite_arguments = functools.partial(rewrite, reading)  # type: ignore[attr-defined]
        return reading

    return decorate


@functools.cache
def own_flags(env: str) -> type:
    """The options of a world where an agent learns in it, as settings of a stage; none where it cannot."""
    world = world_of(env)
    if world.user.by == "human":
        return make_dataclass("WorldFlags", [])
    kind = learning_options(world)
    types = typing.get_type_hints(kind)
    known = {one.name: one for one in flags_of_settings(kind)}
    made = []
    for name, option in flags_of(world, learning=True).items():
        one = known[option]
        ranges = {what: getattr(one, what) for what in ("at_least", "above", "at_most", "below")}
        made.append((name, types[option], flag(one.default, one.help, shown=one.shown, **ranges)))
    return make_dataclass("WorldFlags", made, kw_only=True, namespace={"__doc__": kind.__doc__})


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What a run learns by; published command lines and resumed runs have more than they use."""
    if flags["compat"] == "published" or flags.get("resume") or flags["mode"] in {"train_SPT", "test"}:
        return {}
    return {
        "trainer": {flags["trainer"]},
        "critic": {"used"} if flags["use_critic"] else {"none"},
        "reflect": {"asked"} if flags["reflect"] or flags["reflect_load_dir"] else {"none"},
    }


def rewrite(function: Stage, arguments: Sequence[str]) -> list[str]:
    """The command line with whole names, and a value behind every switch.

    Options of other worlds are left out where published command lines have them without effect: in
    fine-tuning, with --compat published, and where a run is resumed. Such a run's world is that of its folder.
    """
    arguments = [re.sub(r"^--world(?==|$)", "--env", word) for word in arguments]
    kinds = {
        name: one.annotation.partition(" ")[0]
        for one in stage_flags(function)
        for name in (one.name, *one.aliases)
    }
    worlds = {
        name: {one.name: one.annotation.partition(" ")[0] for one in _own(name)} for name in _envs(arguments)
    }
    rewritten = list(
        _rewritten(kinds | {flag: kind for own in worlds.values() for flag, kind in own.items()}, arguments)
    )
    typed = dict(word[2:].split("=", 1) for word in rewritten if word.startswith("--") and "=" in word)
    if "resume" in typed and "env" not in typed and (env := _env_of(typed["resume"])):
        rewritten.append(f"--env={env}")
        typed["env"] = env
    usual = {one.name: one.default for one in stage_flags(function)}
    if "resume" not in typed and typed.get("compat") != "published" and usual["mode"] != "train_SPT":
        return rewritten
    here = {one.name for one in _own(typed.get("env", usual["env"]))}
    others = {flag for own in worlds.values() for flag in own} - here
    return [word for word in rewritten if word[2:].partition("=")[0] not in others]


def _own(env: str) -> Sequence[Any]:
    return flags_of_settings(own_flags(env))


def _envs(arguments: Sequence[str]) -> set[str]:
    """The worlds that have a name, and one that is named as module:ATTRIBUTE."""
    named = [word.partition("=")[2] for word in arguments if word.startswith("--env=")]
    named += [after for word, after in pairwise(arguments) if word == "--env"]
    return {*names(), *(name for name in named if ":" in name)}


def _env_of(folder: str) -> str | None:
    """The world of a run that is resumed; the stage says what is wrong with a folder that names none."""
    from sweet_rl.online.reflect.runs import read_settings

    try:
        return str(read_settings(Path(folder).expanduser())["env"])
    except (UsageError, KeyError):
        return None


def _rewritten(kinds: Mapping[str, str], arguments: Sequence[str]) -> Iterator[str]:
    words = ["--compat=published" if word in {"--strict", "--strict=True"} else word for word in arguments]
    published = "--compat=published" in words or ("--compat", "published") in pairwise(words)
    while words:
        word = words.pop(0)
        if not word.startswith("--") or word == "--":
            yield word
            continue
        typed, equals, value = word[2:].partition("=")
        name = _whole(typed.replace("-", "_"), kinds)
        if name not in kinds:
            negated = name.removeprefix("no_")
            if kinds.get(negated) == "bool" and not equals:
                yield f"--{negated}=False"
            else:
                yield word  # the check of names suggests what was probably meant
            continue
        if kinds[name] == "bool":
            if not equals:
                follows = words and words[0].lower() in _TRUE | _FALSE
                value = words.pop(0) if follows else "True"
            value = str(_switch(name, value))
        elif not equals:
            if not words or (words[0].startswith("--") and words[0][2:3].isalpha()):
                raise UsageError(f"--{name} needs a value.")
            value = words.pop(0)
        if published and name == "weight_decay" and not value.isdigit():
            raise UsageError(f"--weight_decay is a whole number in the published code, got {value!r}.")
        yield f"--{name}={value}"


def _whole(typed: str, kinds: Mapping[str, str]) -> str:
    """The flag that begins so, if there is one; published: `--no_x` counts as a flag of its own."""
    if typed in kinds:
        return typed
    known = [*kinds, *(f"no_{name}" for name, kind in kinds.items() if kind == "bool")]
    found = [name for name in known if name.startswith(typed)]
    if typed in found or not found:
        return typed
    if len(found) > 1:
        raise UsageError(f"--{typed} is not unique: it may be --{', --'.join(found[:6])}.")
    return found[0]


def _switch(name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"--{name} is a switch: true or false, got {value!r}.")


class Bar:
    """A progress bar with the level of a curriculum, cost, success and losses; also a context."""

    def __init__(self, settings: ReflectSettings, ground: Playground, done: int, *, quiet: bool) -> None:
        self._bar = progress(settings.max_steps, done, unit="iteration", quiet=quiet)
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=settings.logging_steps)
        self._ground, self._critic = ground, settings.use_critic
        self.failed = 0
        """Episodes that the world broke, of all iterations that were shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def log(self, done: int, entry: Mapping[str, Any]) -> None:
        """Report an iteration, show means over the last ones, and move the bar to `done`."""
        self._recent.append(entry)
        self.failed += len(entry.get("failed", ()))
        tracking.logs(done, _numbers(entry))
        shown = {
            "cost": _mean(one["cost"] for one in self._recent),
            "success": _mean(one["succ"] for one in self._recent),
            "loss": _mean(loss for one in self._recent for loss in one["loss"]),
        }
        if self._critic:
            shown["critic"] = _mean(loss for one in self._recent for loss in one["critic_loss"])
        if len(self._ground.levels) > 1:
            begun = bisect_right(self._ground.starts, done - 1)
            self._bar.set_description_str(str(self._ground.names[max(0, begun - 1)]), refresh=False)
        if self.failed:
            shown["failed"] = self.failed
        self._bar.set_postfix_str(
            ", ".join(f"{name} {value:.3g}" for name, value in shown.items()), refresh=False
        )
        self._bar.update(done - self._bar.n)


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """An iteration as curves have it: of new episodes, then of those from memory, where there are any."""
    found = {"succ": entry["succ"], "cost": entry["cost"], "failed": len(entry.get("failed", ()))}
    for name in ("loss", "critic_loss"):
        fresh, again = entry[name]
        found |= {name: fresh, f"{name}.replay": again}
    return {name: value for name, value in found.items() if value is not None}


def _mean(values: Iterable[float | None]) -> float:
    """Of those that there are; 0 where there are none, as published."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else 0.0


@recorded(
    "reflect rl_finetune",
    reads=("model_name", "reflect_model_name", "load_dir", "reflect_load_dir", "task_file"),
)
@reflect_stage(mode="train_RLFT")
def rl_finetune(flags: ReflectSettings, how: Resuming, /) -> None:
    """Train the policy online by policy gradient or PPO, beside a frozen reflection model.

    An iteration plays per_device_eval_batch_size episodes, learns from them, then from successful ones that it
    remembers. Runs go to CKPT_PATH/NNN_rl_finetune, with setting.yml and checkpoint-N/ (adapter, tokenizer,
    critic, logs.json, and what --resume needs to continue exactly).

    A tiny model learns:
    sweet-rl reflect rl_finetune --env WORLD --model_name tiny --per_device_eval_batch_size 32 --learning_rate 3e-3 --max_steps 300
    Several processes: accelerate launch --num_processes 4 -m sweet_rl reflect rl_finetune ...; they make the updates of one.
    """
    from sweet_rl.online.reflect import runs

    tracking.logs_to(how.destination())
    old = Path(how.resume).expanduser() if how.resume else None
    if flags.reflect_load_dir and not flags.reflect and "reflect" in given_flags.get():
        raise UsageError("--noreflect contradicts --reflect_load_dir. Leave one of them out.")
    settings = runs.with_saved_reflector(runs.with_saved(flags, flags.load_dir))
    if old:
        settings = runs.continued(old, settings, given_flags.get())
    surprises = runs.check(settings)
    from sweet_rl.online.reflect.play import open_playground, sample_texts

    with open_playground(settings) as playground:
        from sweet_rl.cli.progress import silence_libraries

        silence_libraries()
        from sweet_rl.commands.reflect_run import TrainingRun
        from sweet_rl.online import distributed
        from sweet_rl.online.reflect.loop import Loop
        from sweet_rl.online.reflect.models import Checkpoints

        with distributed.process_group(), TrainingRun("rl_finetune", settings, old) as run:
            for surprise in surprises:
                run.say(f"Note: {surprise}")
            checkpoints = Checkpoints(run.folder)
            with run.starting(lambda: sample_texts(playground), playground.labels):
                trainer, reflector = _learner(run.settings, playground.labels, run.say)
                if run.main:
                    levels = [[task.row for task in level] for level in playground.levels]
                    checkpoints.made_from = runs.made_from(run.settings, levels)
                state = distributed.from_main(lambda: checkpoints.newest(run.say))
            done = 0 if state is None else int(state["done"])
            with (
                run.announce(done, "iteration"),
                Bar(run.settings, playground, done, quiet=how.quiet or not run.main) as bar,
            ):
                kept = checkpoints if run.main else None
                Loop(run.settings, trainer, reflector, playground, kept, [bar]).run(state)
            if bar.failed:
                told = f"{bar.failed} episodes failed; nothing was learned from them, and logs.json says why."
                run.say(told if bar.failed > 1 else told.replace("episodes", "episode").replace("them", "it"))
            run.finish(done, "iteration", "policy")


def _learner(settings: ReflectSettings, labels: Any, say: Any) -> tuple[Any, Any]:
    """What learns, and what reflects."""
    import torch

    from sweet_rl.online.distributed import broadcast_parameters
    from sweet_rl.online.reflect.models import load_policy, load_reflector
    from sweet_rl.online.reflect.trainer import Critic, Trainer, ValueHead

    reflector = load_reflector(settings, say, training=True)
    agent = load_policy(settings, labels, say)
    critic = None
    if settings.use_critic:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(settings.seed, "critic"))
            head = ValueHead(agent.config.hidden_size, settings.critic_layer_type)
        critic = Critic(agent, head, shared=settings.shared_critic, compat=settings.compat)
        broadcast_parameters([critic.head])
    broadcast_parameters(agent.modules)
    return Trainer(agent, settings, critic), reflector


@recorded("reflect supervised_pretrain", reads=("model_name", "task_file", "load_dir"))
@reflect_stage(mode="train_SPT")
def supervised_pretrain(flags: ReflectSettings, how: Resuming, /) -> None:
    """Train an adapter on texts: the policy on labels, with --reflect the reflection model on reflections.

    A file named sft_reflection is for the reflection model without that flag. Only what stands behind a text's last marker is imitated; --max_steps updates are made. The whole head is
    used, whatever --shrink_head says, or with --pointing_head that one. Runs go to CKPT_PATH/NNN_supervised_pretrain, with setting.yml and
    checkpoint-N/ (adapter, tokenizer, and what --resume needs to continue exactly).

    The policy, then the reflection model:
    sweet-rl reflect supervised_pretrain --task_file data/sft_policy.jsonl --max_steps 2000
    sweet-rl reflect supervised_pretrain --task_file data/sft_reflection.jsonl --max_steps 2000
    """
    from sweet_rl.online.reflect import runs
    from sweet_rl.online.reflect.sft import check_kind, read_texts

    tracking.logs_to(how.destination())
    old = Path(how.resume).expanduser() if how.resume else None
    settings = runs.with_saved(flags, flags.load_dir)
    if old:
        settings = runs.continued(old, settings, given_flags.get() - {"shrink_head"})
    settings = replace(settings, shrink_head=False)
    if settings.load_dir is not None:
        runs.checkpoint_folder(settings.load_dir)
    runs.check_head(settings)
    file = settings.task_file
    if file is None:
        raise UsageError("--task_file, a .jsonl file of training texts, is needed.")
    settings = replace(settings, reflect=settings.reflect or Path(file).name.startswith("sft_reflection"))
    texts = read_texts(file)
    if not settings.published:
        check_kind(texts, file, reflect=settings.reflect)

    silence_libraries()
    from sweet_rl.commands.reflect_run import TrainingRun
    from sweet_rl.online import distributed
    from sweet_rl.online.distributed import broadcast_parameters
    from sweet_rl.online.reflect.models import Checkpoints, load_policy
    from sweet_rl.online.reflect.sft import FineTuning

    with distributed.process_group(), TrainingRun("supervised_pretrain", settings, old) as run:

        def tell(done: int, numbers: Any) -> None:
            tracking.logs(done, numbers)
            bar.set_postfix_str(f"loss {numbers['loss']:.4g}", refresh=False)
            bar.update(done - bar.n)

        with run.starting(lambda: texts):
            settings = run.settings
            agent = load_policy(replace(settings, temperature=1.0), (), run.say)  # which is one of sampling
            broadcast_parameters(agent.modules)
            examples = _examples(texts, agent, settings, run.say)
            checkpoints = Checkpoints(run.folder, settings.save_total_limit)
            if run.main:
                checkpoints.made_from = runs.made_from(settings, texts)
            training = FineTuning(agent, examples, settings, checkpoints, tell, run.say)
            done = training.load(distributed.from_main(lambda: checkpoints.newest(run.say)))
        with (
            run.announce(done, "update"),
            progress(settings.max_steps, done, unit="update", quiet=how.quiet or not run.main) as bar,
        ):
            training.run(done)
        run.finish(done, "update", "model")


def _examples(texts: Sequence[str], agent: Any, settings: ReflectSettings, say: Any) -> list[Any]:
    """The texts as tokens; a published run passes over those without a marker."""
    from sweet_rl.online.reflect.pointing import PointingAgent, pointed
    from sweet_rl.online.reflect.sft import encode, encode_published

    if isinstance(agent, PointingAgent):
        return pointed(agent, texts, str(settings.task_file), settings.max_seq_length)
    positions = getattr(agent.config, "max_position_embeddings", None)
    room = min(settings.max_seq_length, positions or settings.max_seq_length)
    if not settings.published:
        try:
            return [encode(agent.tokenizer, text, reflect=settings.reflect, room=room) for text in texts]
        except ValueError as error:
            raise UsageError(f"--task_file {settings.task_file!r}: in a text {error}.") from error
    found = [encode_published(agent.tokenizer, text, reflect=settings.reflect, room=room) for text in texts]
    kept = [example for example in found if example is not None]
    if len(kept) < len(found):
        say(f"{len(found) - len(kept)} of {len(found)} texts have no marker; nothing is learnt from them.")
    if not kept:
        raise UsageError(
            f"--task_file {settings.task_file!r}: no text has the marker (is --reflect missing?)."
        )
    return kept
