"""Online learning: the policy plays, a frozen model reflects, and the policy learns from both."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sweet_rl import tracking
from sweet_rl.cli.stage import given_flags, recorded
from sweet_rl.commands.reflect.flags import Resuming, reflect_stage
from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.settings import ReflectSettings

if TYPE_CHECKING:
    from sweet_rl.online.reflect.play import Playground


class Bar:
    """A progress bar with the level of a curriculum, cost, success and losses; also a context."""

    def __init__(self, settings: ReflectSettings, ground: Playground, done: int, *, quiet: bool) -> None:
        from sweet_rl.cli.progress import progress

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
        from sweet_rl.commands.reflect.training_run import TrainingRun
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
    from sweet_rl.types import derive_seed

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
