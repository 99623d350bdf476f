"""Behaviour cloning, the first stage of ArCHer.

Published behaviour: docs/published/archer.md#behaviour-cloning.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.chat import PlainChat
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.archer_config import load_config, not_of, owners_of
from sweet_rl.commands.run_archer import TINY, template_of
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.models import AgentModel, Dataset, Iterations, MinReward, Placement, Skill
from sweet_rl.flags.shared import (
    GraderName,
    NumTasks,
    OutputDir,
    Overwriting,
    Quiet,
    Seeded,
    Tasks,
    WorldName,
)
from sweet_rl.records import load_trajectories
from sweet_rl.worlds import first_for, load_tasks, options_of, own_options, world_in, world_of

if TYPE_CHECKING:
    from sweet_rl.online.replay import Transition
    from sweet_rl.online.settings import ArcherSettings


@dataclass(frozen=True, kw_only=True)
class ShownFlags(
    WorldName, Dataset, MinReward, GraderName, Tasks, NumTasks, AgentModel, Skill, Seeded, Quiet
):
    """What is imitated."""

    games: int | None = flag(None, "games of the scripted agent for each task; default by world.", at_least=1)
    env_load_path: str | None = flag(
        None, "resource that some worlds need: a game file, a server's address, or a folder."
    )

    def check_together(self) -> None:
        """Whether there are flags of a scripted agent beside a data set."""
        for name in ("games", "num_tasks", "agent_model", "skill", "env_load_path") if self.dataset else ():
            if getattr(self, name) not in {None, "auto"}:
                raise UsageError(f"--{name} belongs to the scripted agent, and --dataset replaces it.")


@group("The model that imitates, and how; defaults depend on the policy")
class PupilFlags(Iterations, OutputDir, Placement, Overwriting):
    batch_size: int | None = flag(
        None,
        "turns in a batch (the loss is their mean); default 8 as published, for a tiny policy 64.",
        at_least=1,
    )
    grad_accum_steps: int | None = flag(
        None, "batches summed in a step; default 4 as published, for a tiny policy 1.", at_least=1
    )
    learning_rate: float | None = flag(
        None, "learning rate of Adam; default 1e-5 as published, for a tiny policy 2e-3.", above=0
    )
    max_grad_norm: float | None = flag(
        None, "gradients are clipped to this norm; default none as published, for a tiny policy 1.", above=0
    )
    policy_lm: str = flag(
        TINY,
        "model that imitates: a folder, a hub name or smollm2; tiny: a new small GPT-2 with a tokenizer trained on the demonstrations.",
    )
    critic_lm: str | None = flag(
        None,
        "tiny: also make a critic; default: tiny for a tiny policy, else none (run_archer's critic_lm then names one).",
        choices=(TINY,),
    )
    max_tokens_per_batch: int = flag(
        4096,
        "most tokens in one forward pass, with padding; affects only memory and speed.",
        at_least=1,
        shown="all",
    )

    def check_together(self) -> None:
        """Whether there is a tiny policy for a tiny critic."""
        if self.critic_lm == TINY and self.policy_lm != TINY:
            raise UsageError("--critic_lm tiny works only with a tiny policy; give run_archer a critic_lm.")


@recorded("run_bc", reads=("dataset", "tasks", "policy_lm", "env_load_path"))
@stage(
    "output_dir",
    defaults={"world": first_for("archer"), "dataset": ""},
    helps={
        "output_dir": "folder for the policy.",
        "world": "world: its name, its published name, or module:WORLD. It must reward turns, or its dialogues must be graded.",
        "dataset": ".jsonl files of trajectories to imitate, of sweet-rl simulate_interactions or sweet-rl "
        "run_archer, separated by commas; default: a scripted agent plays.",
        "grader": "in worlds that do not reward turns, the grader of dialogues without a reward: auto "
        "(hidden tests, or the target page), or a grader as in `evaluate`.",
        "min_reward": "imitate only games with at least this return; default all.",
        "tasks": "tasks that the scripted agent plays: one of the world's lists, or a file; default: those of the published configuration.",
        "num_tasks": "use only this many tasks, from the first on; default 1000, or as many as give 5000 games.",
        "agent_model": "one of the world's scripted agents; in worlds that reward turns, the default is the first one.",
        "skill": "for the agent asker: probability of asking one of the best questions; default 1.",
        "iterations": "passes over the demonstrations; default 1 as published, for a tiny policy as many as give 200 steps.",
    },
    narrow={"world": {"aliases": ("env_name", "task_type")}},
    only={"skill": None, "device": None, "dtype": None},
)
def run_bc(shown: ShownFlags, pupil: PupilFlags, /) -> None:
    """Make the starting policy for online learning: it imitates demonstrations.

    Without --dataset, a scripted agent plays first. The folder then holds policy/, the demonstrations, and
    critic/ for tiny models; run_archer takes it as checkpoint_path. It reads plain text, as published: other stages
    need a policy of sweet-rl make_policy. Without any model or download:

    sweet-rl run_bc outputs/bc
    and then the line of run_archer that it prints.
    """
    from sweet_rl.training.checkpoints import held

    with held(folder := Path(pupil.output_dir).expanduser()):
        show = Demonstrations(shown)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--output_dir {str(folder)!r} is a file; name a folder.")
        known = {"policy", "critic", "unfinished", "run.json"}
        there = {entry.name for entry in folder.glob("*")}
        if others := sorted(one for one in there - known if not one.startswith(Path(_FILE).stem)):
            raise UsageError(
                f"--output_dir {str(folder)!r} holds {others[0]!r}; name an empty or a new folder."
            )
        if "policy" in there and not pupil.overwrite:
            raise UsageError(
                f"--output_dir {str(folder)!r} holds a policy already; pass --overwrite, or name another folder."
            )
        recipe = dict(TINY_RECIPE if pupil.policy_lm == TINY else PUBLISHED_RECIPE)
        recipe |= {name: value for name in recipe if (value := getattr(pupil, name)) is not None}
        tracking.sets(dict(recipe))
        tracking.writes(folder, folder=True, continues=(folder / _FILE).exists())
        played = shown.dataset or _played(show, folder, overwrite=pupil.overwrite)
        games = _games(played.split(",") if shown.dataset else [played], show)
        config = show.config  # of the world: what an utterance's template, end and length are
        template = template_of(config["template"], show.world, load_tasks(show.played))
        turns = []  # as the agent must write them: in one world as JSON
        for step in (step for game in games for step in game):
            action = show.world.archer.shown_action(step.action.strip("\n"), show.options)
            turns.append(replace(step, action=action, action_ids=None))
        print(f"{len(turns):,} turns of {len(games):,} games to imitate")

        from sweet_rl.cli.progress import silence_libraries
        from sweet_rl.online.models import CRITIC, POLICY
        from sweet_rl.online.settings import ArcherSettings

        silence_libraries()
        unfinished = folder / "unfinished"  # a policy that has not learnt yet must not be found
        shutil.rmtree(unfinished, ignore_errors=True)
        name = pupil.policy_lm
        if name == TINY:
            from sweet_rl.online.tiny_models import make_models

            texts = [text for game in games for text in (game[-1].observation, game[-1].next_observation)]
            texts += [*(f"{one.action}\n" for one in turns), *([] if template is None else [template] * 2)]
            name = str(make_models(unfinished, seed=shown.seed, texts=texts)[0])
        if recipe["iterations"] is None:
            steps = math.ceil(len(turns) / (recipe["batch_size"] * recipe["grad_accum_steps"]))
            recipe["iterations"] = max(3, math.ceil(_TINY_STEPS / steps))
        how: dict[str, Any] = {one: config[one] for one in ("eos_str", "max_new_tokens")}
        how |= {one: getattr(pupil, one) for one in ("max_tokens_per_batch", "device", "dtype")}
        how |= {"policy_lm": name, "template": template, "seed": shown.seed}
        settings = ArcherSettings(agent_type="online_filteredbc", **how)
        losses = clone(settings, turns, unfinished / POLICY, quiet=shown.quiet, **recipe)
        for part in (CRITIC, POLICY):  # the policy last: with it the folder is whole
            shutil.rmtree(folder / part, ignore_errors=True)
            if (unfinished / part).is_dir():
                (unfinished / part).rename(folder / part)
        shutil.rmtree(unfinished, ignore_errors=True)
        print(
            f"loss {losses[0]:.3f}, in the end {losses[-1]:.3f}, after {len(losses)} steps. The policy is in "
            f"{folder / POLICY}. Go on with:\n"
            f"sweet-rl run_archer {' '.join(show.goes_on)} checkpoint_path={pupil.output_dir} use_wandb=false"
        )


_NAMES = "iterations", "batch_size", "grad_accum_steps", "learning_rate", "max_grad_norm"
PUBLISHED_RECIPE: Final[Mapping[str, Any]] = dict(zip(_NAMES, (1, 8, 4, 1e-5, math.inf), strict=True))
TINY_RECIPE: Final[Mapping[str, Any]] = dict(zip(_NAMES, (None, 64, 1, 2e-3, 1.0), strict=True))
_TINY_STEPS: Final = 200  # of a tiny policy at least, where passes over the demonstrations are not given
# Configurations of worlds that have none of their own: that reward turns, and that are graded at the end.
_ANY, _GRADED = "archer_debug", "archer_code"
_FILE: Final = "demonstrations.jsonl"
_TASKS, _GAMES = 1000, 5000  # of the scripted agent at most by default: some lists of tasks have no end


class Demonstrations:
    """The demonstrations, their world, and the configuration that plays it online."""

    def __init__(self, flags: ShownFlags) -> None:
        self.flags, self.world = flags, world_of(flags.world)
        world = self.world
        self.graded = world.user.by == "human"  # at an episode's end; else turns are rewarded
        if flags.grader != "auto" and not self.graded:
            raise UsageError(
                f"--grader is for worlds that do not reward turns, and {world.name} does. Leave it out."
            )
        if self.graded and not flags.dataset and flags.agent_model == "auto":
            raise UsageError(
                f"A policy for --world {flags.world} needs something to imitate: name --agent_model "
                f"({', '.join(world.agents)}), or dialogues with --dataset."
            )
        if flags.env_load_path is not None and "place" not in {option.name for option in own_options(world)}:
            raise not_of("--env_load_path", owners_of("place"), world.name)
        self.options = options_of(world, {"place": flags.env_load_path})
        self.goes_on = ["--config-name", world.archer.config or (_GRADED if self.graded else _ANY)]
        if not world.archer.config:  # a configuration that does not know the world
            played, measured = world.tasks.of(self.options)
            self.goes_on += [f"world={flags.world}", f"tasks={played}", f"eval_tasks={measured}"]
            self.goes_on += [] if self.graded else ["max_new_tokens=32"]
        self.config: dict[str, Any] = load_config(self.goes_on[1], self.goes_on[2:])
        self.played = str(flags.tasks or self.config["tasks"] or world.tasks.of(self.options)[0])
        self.goes_on += [] if flags.env_load_path is None else [f"env_load_path={flags.env_load_path}"]


def clone(
    settings: ArcherSettings, shown: Sequence[Transition], folder: Path, *, quiet: bool = True, **recipe: Any
) -> list[float]:
    """Let the policy of the settings imitate, by the published recipe or ours; save it to `folder`. Returns the losses of the steps."""
    from tqdm import tqdm

    from sweet_rl.online.models import make_learner

    recipe = {**PUBLISHED_RECIPE, **recipe}
    how = {name: recipe.pop(name) for name in ("iterations", "whole_games") if name in recipe}
    recipe["lm_lr"] = recipe.pop("learning_rate")
    settings = replace(settings, save_path=str(folder.parent), **recipe)
    with tqdm(unit="step", disable=quiet, dynamic_ncols=True) as bar:

        def say(_phase: str, done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        learner = make_learner(settings, chat_format=PlainChat(), say=say)
        losses: list[float] = learner.clone(shown, **how)
    learner.save_policy(folder)
    return losses


def _played(show: Demonstrations, folder: Path, *, overwrite: bool) -> str:
    """The file of games that a scripted agent has played; continues one that was begun."""
    path, games = folder / _FILE, show.flags.games or show.world.archer.games_shown
    every = load_tasks(show.played, num_tasks=show.flags.num_tasks)
    number = len(every) if show.flags.num_tasks else min(len(every), _TASKS, max(1, _GAMES // games))
    print(
        f"{number * games:,} games are played to be imitated: {number:,} of {len(every):,} tasks of {show.played}, "
        f"{games} of each (--num_tasks, --games)."
    )
    named = {name: getattr(show.flags, name) for name in ("world", "agent_model", "skill", "seed", "quiet")}
    named |= {"env_model": "scripted"} if show.graded else {}
    named |= {"num_tasks": number, "repeats": games, "place": show.flags.env_load_path}
    going_on = {"overwrite": overwrite, "to_continue": path.exists() and not overwrite}
    simulate_interactions(show.played, str(path), **named, **going_on)
    return str(path)


def _games(paths: Sequence[str], show: Demonstrations) -> list[list[Transition]]:
    """Games that did not fail, as turns; dialogues that have no grade get one."""
    from sweet_rl.interface.grades import grade, grading_of
    from sweet_rl.online.replay import transitions

    world, transcript, least = show.world, show.world.transcript(), show.flags.min_reward
    by = {} if show.flags.grader == "auto" else {"grader": show.flags.grader}
    found: list[list[Transition]] = []
    for path in paths:
        games = load_trajectories(path)
        for game in games:
            named = world_in(game.provenance) if show.graded else None
            other = named is not None and named.name != world.name
            if other or world.tasks.refusal([game.task], world.name):
                where: dict[str, Any] = {"path": path, "field": "task_id", "value": game.task.task_id}
                repair = "Name the files' own world with --world."
                raise DataError(f"is no task of {show.flags.world}", **where, repair=repair)
        todo = {at: one for at, one in enumerate(games) if one.reward is None and not one.failed}
        if show.graded and todo:
            grading = grading_of(show.options, by, folder=Path(path).parent)
            graded = dict(zip(todo, grade([*todo.values()], **grading), strict=True))
            games = [graded.get(at, game) for at, game in enumerate(games)]
        try:
            for game in games:
                if least is None or (game.reward is not None and game.reward >= least):
                    found.append(transitions(game, transcript))
        except DataError as error:
            known = {"field": error.field, "value": error.value, "repair": error.repair}
            raise DataError(error.problem, path=path, **known) from None
    if not (shown := [steps for steps in found if steps]):
        wanted = "" if least is None else f" with a return of at least {least:g}"
        repair = "Name other files, or a smaller --min_reward."
        raise DataError(f"leaves no game{wanted} to imitate", path=", ".join(paths), repair=repair)
    return shown
