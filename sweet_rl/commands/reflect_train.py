"""Training of Reflect-RL's models, and the flags that its stages share, written as the published parser reads them.

That takes unique beginnings of names, `--x` and `--no_x` for switches, and `yes` for true. `rewrite` turns such
a command line into the one that every stage of this library reads.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

import functools
import re
import shutil
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import fields, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets, Options, stage_flags
from sweet_rl.cli.progress import Bar, on_interrupt, silence_libraries
from sweet_rl.cli.stage import Stage, given_flags, needing, recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Flag, flag, group
from sweet_rl.flags import flags_of as flags_of_settings
from sweet_rl.flags.shared import LogTo, Quiet
from sweet_rl.online.reflect import settings as reflect
from sweet_rl.online.reflect.settings import PLAIN, ReflectFlags, ReflectSettings, as_flags, settings_of
from sweet_rl.types import Json, derive_seed
from sweet_rl.worlds import flags_of, learning_options, names, world_of

if TYPE_CHECKING:
    from sweet_rl.online.reflect.models import Checkpoints


_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PACKAGES = frozenset({"torch", "transformers", "peft", "safetensors", "yaml", "numpy"})


@group("Common to many stages")
class Resuming(LogTo, Quiet):
    resume: str | None = flag(
        None, "folder of a run to resume from its newest checkpoint, with its own flags."
    )


def reflect_stage(
    *,
    helps: Mapping[str, str] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function with the published flags first, and those of the world last (`settings_from`)."""

    def decorate(function: Callable[..., None]) -> Stage:
        guarded = needing(_PACKAGES, "reflect", needed_for=function.__name__)(function)
        how: dict[str, Any] = {"helps": helps, "narrow": narrow, "defaults": defaults}
        reading = stage(facets=_facets, options=Options("env", own_flags, names), **how)(guarded)
        reading.__dict__["rewrite_arguments"] = functools.partial(rewrite, reading)
        return reading

    return decorate


def settings_from(flags: ReflectFlags, own: Any) -> ReflectSettings:
    """The settings of a run: the published flags, and those of the world."""
    values = {name: getattr(flags, name) for name in PLAIN}
    return settings_of(**values | {one.name: getattr(own, one.name) for one in fields(own)})


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
    named = [word.partition("=")[2] for word in arguments if word.startswith("--env=")]
    named += [after for word, after in pairwise(arguments) if word == "--env"]
    worlds = {
        env: _kinds(flags_of_settings(own_flags(env))) for env in {*names(), *(n for n in named if ":" in n)}
    }
    every = _kinds(stage_flags(function))
    for own in worlds.values():
        every |= own
    rewritten = list(_rewritten(every, arguments))
    typed = dict(word[2:].split("=", 1) for word in rewritten if word.startswith("--") and "=" in word)
    if "resume" in typed and "env" not in typed:
        with suppress(UsageError, KeyError):  # the stage says what is wrong with a folder that names no world
            typed["env"] = str(reflect.read_settings(Path(typed["resume"]).expanduser())["env"])
            rewritten.append(f"--env={typed['env']}")
    usual = {one.name: one.default for one in stage_flags(function)}
    if "resume" not in typed and typed.get("compat") != "published" and usual["mode"] != "train_SPT":
        return rewritten
    here = _kinds(flags_of_settings(own_flags(typed.get("env", usual["env"]))))
    others = {flag for own in worlds.values() for flag in own} - {*here}
    return [word for word in rewritten if word[2:].partition("=")[0] not in others]


def _kinds(flags: Iterable[Flag]) -> dict[str, str]:
    return {name: one.annotation.partition(" ")[0] for one in flags for name in (one.name, *one.aliases)}


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
            # Of a name that there is not the check of names suggests what was probably meant.
            yield f"--{negated}=False" if kinds.get(negated) == "bool" and not equals else word
            continue
        if kinds[name] == "bool":
            if not equals:
                value = words.pop(0) if words and words[0].lower() in _TRUE | _FALSE else "True"
            if value.lower() not in _TRUE | _FALSE:
                raise UsageError(f"--{name} is a switch: true or false, got {value!r}.")
            value = str(value.lower() in _TRUE)
        elif not equals:
            if not words or (words[0].startswith("--") and words[0][2:3].isalpha()):
                raise UsageError(f"--{name} needs a value.")
            value = words.pop(0)
        if published and name == "weight_decay" and not value.isdigit():
            raise UsageError(f"--weight_decay is a whole number in the published code, got {value!r}.")
        yield f"--{name}={value}"


def _whole(typed: str, kinds: Mapping[str, str]) -> str:
    """The flag that begins so, if there is one; published: `--no_x` counts as a flag of its own."""
    known = [*kinds, *(f"no_{name}" for name, kind in kinds.items() if kind == "bool")]
    found = [name for name in known if name.startswith(typed)]
    if typed in found or not found:
        return typed
    if len(found) > 1:
        raise UsageError(f"--{typed} is not unique: it may be --{', --'.join(found[:6])}.")
    return found[0]


class MeansBar(Bar):
    """A progress bar with means of cost, success and losses over the last iterations."""

    def __init__(self, settings: ReflectSettings, done: int, *, quiet: bool) -> None:
        super().__init__(settings.max_steps, done, unit="iteration", quiet=quiet)
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=settings.logging_steps)
        self._keys = ["cost", "succ", "loss", *(["critic_loss"] if settings.use_critic else [])]
        self.failed = 0  # episodes that the world broke, of all iterations that were shown

    def log(self, done: int, entry: Mapping[str, Any]) -> None:
        """Report an iteration, show means over the last ones, and move the bar to `done`."""
        self._recent.append(entry)
        failed = len(entry.get("failed", ()))
        self.failed += failed
        numbers = {"succ": entry["succ"], "cost": entry["cost"], "failed": failed}
        for name in ("loss", "critic_loss"):  # of new episodes, then of those from memory
            numbers |= dict(zip((name, f"{name}.replay"), entry[name], strict=True))
        tracking.logs(done, {name: value for name, value in numbers.items() if value is not None})
        shown = []
        for key in self._keys:
            several = [one[key] if isinstance(one[key], list) else [one[key]] for one in self._recent]
            known = [value for values in several for value in values if value is not None]
            shown.append(f"{key} {sum(known) / len(known) if known else 0.0:.3g}")  # as published
        shown += [f"failed {self.failed}"] if self.failed else []
        self.set_postfix_str(", ".join(shown), refresh=False)
        self.update(done - self.n)


def teller(*, speaks: bool = True) -> Callable[[str], None]:
    """Prints each sentence once: two models often have the same to say."""
    return functools.cache(functools.partial(print, flush=True)) if speaks else lambda _: None


def with_tiny_models(
    settings: ReflectSettings, folder: Path, texts: Callable[[], Sequence[str]], labels: Sequence[str] = ()
) -> ReflectSettings:
    """The settings with folders where they say `tiny`; the models are made there."""
    from sweet_rl.online.tiny_models import TINY, make_reflect_model

    tiny = [name for name in ("model_name", "reflect_model_name") if getattr(settings, name) == TINY]
    if not tiny:
        return settings
    made = str(make_reflect_model(folder / TINY, seed=settings.seed, texts=texts(), labels=labels))
    changes: dict[str, Any] = dict.fromkeys(tiny, made)
    return replace(settings, **changes)


class TrainingRun(ExitStack):
    """A run in its folder, in one of its processes; a new one gets a folder of its own.

    While the context is open, no other run writes to the folder. `unit` is what it counts.

    Args:
        resumed: the folder of a run that goes on; None for a new one.
    """

    def __init__(self, stage: str, unit: str, settings: ReflectSettings, resumed: Path | None) -> None:
        from sweet_rl.training import processes
        from sweet_rl.training.checkpoints import held

        super().__init__()
        self.enter_context(processes.process_group())
        self.settings, self.main, self.done = settings, processes.is_main(), 0
        self.say = teller(speaks=self.main)
        self._stage, self._unit, self._new = stage, unit, resumed is None
        self.folder = resumed or processes.from_main(
            lambda: reflect.next_experiment(Path(settings.ckpt_path).expanduser(), stage)
        )
        if self.main:
            self.enter_context(held(self.folder))

    @contextmanager
    def starting(self, texts: Callable[[], Sequence[str]], labels: Sequence[str] = ()) -> Iterator[None]:
        """While models are loaded: tiny ones are made first, and a new folder that fails here goes again."""
        from sweet_rl.training.processes import from_main

        try:
            tracking.writes(self.folder, folder=True, continues=True)  # a kill leaves a run that is known
            if self._new:
                self.settings = from_main(lambda: with_tiny_models(self.settings, self.folder, texts, labels))
                if self.main:
                    reflect.save_settings(self.folder, self.settings)
            yield
        except BaseException:
            if self.main and self._new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def newest(self, checkpoints: Checkpoints, data: Json) -> Any:
        """The state of its newest checkpoint, which must be made from the same data; None where there is none."""
        from sweet_rl.training.processes import from_main

        if self.main:
            checkpoints.made_from = reflect.made_from(self.settings, data)
        state = from_main(lambda: checkpoints.newest(self.say))
        self.done = 0 if state is None else int(state["done"])
        return state

    def announce(self) -> AbstractContextManager[None]:
        """Say where it is and where it resumes, for the record too; the context says how, on Ctrl-C."""

        self.say(f"The run is in {self.folder}")
        tracking.sets(as_flags(self.settings))
        if not self._new and self.main:
            reflect.save_settings(self.folder, self.settings)
        if not self._new:
            checkpointed = f"It resumes after {self._unit} {self.done}."
            self.say(checkpointed if self.done else "It has no checkpoint yet: it starts from the beginning.")
        return on_interrupt(
            f"Resume from the newest checkpoint with: sweet-rl reflect {self._stage} --resume {self.folder}"
        )

    def finish(self, trained: str) -> None:
        """Say what was done: `trained` is the policy, or whichever model."""
        done = max(self.done, self.settings.max_steps)
        self.say(f"{done} {self._unit}s are done; the {trained} is in {self.folder}/checkpoint-{done}")


@recorded(
    "reflect rl_finetune",
    reads=("model_name", "reflect_model_name", "load_dir", "reflect_load_dir", "task_file"),
)
@reflect_stage(mode="train_RLFT")
def rl_finetune(published: ReflectFlags, how: Resuming, own: Any, /) -> None:
    """Train the policy online by policy gradient or PPO, with a frozen reflection model.

    An iteration plays per_device_eval_batch_size episodes, learns from them, and then from successful ones in
    the replay buffer. Runs are written to CKPT_PATH/NNN_rl_finetune, with setting.yml and checkpoint-N/
    (adapter, tokenizer, critic, logs.json, and the state that --resume needs to continue exactly).

    A tiny model learns:
    sweet-rl reflect rl_finetune --env WORLD --model_name tiny --per_device_eval_batch_size 32 --learning_rate 3e-3 --max_steps 300
    Several processes: accelerate launch --num_processes 4 -m sweet_rl reflect rl_finetune ...; they make the updates of one.
    """

    flags = settings_from(published, own)
    tracking.logs_to(how.destination())
    old = Path(how.resume).expanduser() if how.resume else None
    if flags.reflect_load_dir and not flags.reflect and "reflect" in given_flags.get():
        raise UsageError("--noreflect contradicts --reflect_load_dir. Leave one of them out.")
    settings = reflect.with_saved_reflector(reflect.with_saved(flags, flags.load_dir))
    if old:
        settings = reflect.continued(old, settings, given_flags.get())
    reflect.check(settings)
    from sweet_rl.online.reflect.play import open_playground, sample_texts

    with open_playground(settings) as playground:
        silence_libraries()
        import torch

        from sweet_rl.online.reflect.loop import Loop
        from sweet_rl.online.reflect.models import Checkpoints, load_policy, load_reflector
        from sweet_rl.online.reflect.trainer import Critic, Trainer, ValueHead
        from sweet_rl.training.processes import broadcast_parameters

        with TrainingRun("rl_finetune", "iteration", settings, old) as run:
            for note in reflect.without_effect(settings):
                run.say(f"Note: {note}")
            checkpoints = Checkpoints(run.folder)
            with run.starting(lambda: sample_texts(playground), playground.labels):
                settings, critic = run.settings, None
                reflector = load_reflector(settings, run.say, training=True)
                agent = load_policy(settings, playground.labels, run.say)
                if settings.use_critic:
                    with torch.random.fork_rng(devices=[]):
                        torch.manual_seed(derive_seed(settings.seed, "critic"))
                        head = ValueHead(agent.config.hidden_size, settings.critic_layer_type)
                    critic = Critic(agent, head, shared=settings.shared_critic, compat=settings.compat)
                broadcast_parameters([*([critic.head] if critic else []), *agent.modules])
                trainer = Trainer(agent, settings, critic)
                levels = [[task.row for task in level] for level in playground.levels]
                state = run.newest(checkpoints, levels)
            quiet = how.quiet or not run.main
            with run.announce(), MeansBar(settings, run.done, quiet=quiet) as bar:
                kept = checkpoints if run.main else None
                Loop(settings, trainer, reflector, playground, kept, bar.log).run(state)
            if bar.failed:
                told = f"{bar.failed} episodes failed; nothing was learned from them, and logs.json says why."
                run.say(told if bar.failed > 1 else told.replace("episodes", "episode").replace("them", "it"))
            run.finish("policy")


@recorded("reflect supervised_pretrain", reads=("model_name", "task_file", "load_dir"))
@reflect_stage(mode="train_SPT")
def supervised_pretrain(published: ReflectFlags, how: Resuming, own: Any, /) -> None:
    """Train an adapter on texts: the policy on labels, with --reflect the reflection model on reflections.

    A file named sft_reflection trains the reflection model even without that flag. Only the text after the
    last marker is imitated; --max_steps updates are made. --shrink_head has no effect here; --pointing_head
    trains the pointer head. Runs are written to CKPT_PATH/NNN_supervised_pretrain, with setting.yml and
    checkpoint-N/ (adapter, tokenizer, and the state that --resume needs to continue exactly).

    The policy, then the reflection model:
    sweet-rl reflect supervised_pretrain --task_file data/sft_policy.jsonl --max_steps 2000
    sweet-rl reflect supervised_pretrain --task_file data/sft_reflection.jsonl --max_steps 2000
    """
    from sweet_rl.online.reflect.sft import check_kind, read_texts

    tracking.logs_to(how.destination())
    old = Path(how.resume).expanduser() if how.resume else None
    flags = settings_from(published, own)
    settings = reflect.with_saved(flags, flags.load_dir)
    if old:
        settings = reflect.continued(old, settings, given_flags.get() - {"shrink_head"})
    settings = replace(settings, shrink_head=False)
    if settings.load_dir is not None:
        reflect.checkpoint_folder(settings.load_dir)
    reflect.check_head(settings)
    file = settings.task_file
    if file is None:
        raise UsageError("--task_file, a .jsonl file of training texts, is needed.")
    settings = replace(settings, reflect=settings.reflect or Path(file).name.startswith("sft_reflection"))
    texts = read_texts(file)
    if not settings.published:
        check_kind(texts, file, reflect=settings.reflect)

    silence_libraries()
    from sweet_rl.online.reflect.models import Checkpoints, load_policy
    from sweet_rl.online.reflect.sft import FineTuning, examples_of
    from sweet_rl.training.processes import broadcast_parameters

    with TrainingRun("supervised_pretrain", "update", settings, old) as run:

        def tell(done: int, numbers: Any) -> None:
            tracking.logs(done, numbers)
            bar.set_postfix_str(f"loss {numbers['loss']:.4g}", refresh=False)
            bar.update(done - bar.n)

        with run.starting(lambda: texts):
            settings = run.settings
            agent = load_policy(replace(settings, temperature=1.0), (), run.say)  # which is one of sampling
            broadcast_parameters(agent.modules)
            examples = examples_of(texts, agent, settings, run.say)
            checkpoints = Checkpoints(run.folder, settings.save_total_limit)
            training = FineTuning(agent, examples, settings, checkpoints, tell, run.say)
            if (state := run.newest(checkpoints, texts)) is not None:
                training.load(state)
        quiet = how.quiet or not run.main
        with run.announce(), Bar(settings.max_steps, run.done, unit="update", quiet=quiet) as bar:
            training.run(run.done)
        run.finish("model")
