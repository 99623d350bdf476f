"""A method from a world and a policy to a better policy, in a given time: its stages, its gates, its settings.

What a stage makes is a file in the run's folder with the record of what made it; a run that is interrupted resumes there. The time that
was used is what the records say. Settings are chosen on development tasks; test tasks are played once, by the policy that was chosen.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.chat import model_path
from sweet_rl.commands.archer_config import quoted
from sweet_rl.errors import UsageError
from sweet_rl.interface import grade, pairs, simulate
from sweet_rl.learning.continuations import Remembering, states_of
from sweet_rl.learning.gates import (
    Gate,
    Habits,
    Returns,
    anyhow,
    can_learn,
    collapsed,
    compared,
    critic_reads,
    habits_of,
    improved,
    pairs_are_right,
    required,
    returns_of,
    shown,
)
from sweet_rl.learning.policy import Split, able, played, split_tasks
from sweet_rl.pipelines.running import run_steps, seconds_of
from sweet_rl.pipelines.steps import Step
from sweet_rl.policies.transformers import TransformersPolicy
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.pairs import draw_pairs
from sweet_rl.records import load_trajectories, read_rows, replace_file, replace_rows
from sweet_rl.statistics import mean_over_tasks
from sweet_rl.types import Trajectory
from sweet_rl.worlds import World, load_tasks, world_of

REPEATS: Final = 8  # episodes of a training task, from which pairs are made
_DEV_REPEATS, _TEST_TASKS, _TEST_REPEATS = 4, 200, 2
_FEWEST, _MOST = 200, 4000  # episodes that are played to learn from
_PLAYING: Final = 0.2  # share of the time for them
_PAIRS: Final = 1500  # of dialogues, in a training
_CANDIDATES: Final = 8  # for a turn
_SIZES: Final = (
    (50e6, 1.0),
    (2e9, 0.03),
    (math.inf, 0.003),
)  # bytes of weights up to which learning rates are scaled by what
_TRAINED = {
    "train_batch_size": 32,
    "micro_train_batch_size": 32,
    "eval_fraction": 0,
    "quiet": True,
    "max_len": 4096,
}

_ONLINE: Final = """template=chat eos_str=null max_context=1024 whole_games=true rollout_size=64 capacity=4000 tau=0.3 epochs=30
    actor_epochs=3 batch_size=64 grad_accum_steps=1 eval_freq=1000000 save_freq=10 keep_checkpoints=1 quiet=true"""


class Setting(NamedTuple):
    """A way to train that is tried: its name, its stages, where its policy is."""

    name: str
    steps: list[Step]
    policy: Path


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is asked for: the world by its name, the policy to begin with, how it learns, in how many minutes."""

    world: str
    start: str
    folder: Path
    method: str
    minutes: float
    max_tokens: int
    seed: int
    done: list[Step] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """A file or folder of the run."""
        return self.folder / name

    def run(self, steps: Sequence[Step]) -> None:
        """Run what is not done of these steps."""
        run_steps(steps, self.folder, fresh=False, small=True)
        self.done.extend(steps)

    @property
    def used(self) -> float:
        """Seconds that the stages have taken, in all sessions."""
        return sum(seconds_of(self.folder, self.done).values())

    @property
    def weights(self) -> float:
        """Bytes of the policy's weights; without a folder nobody knows."""
        try:
            return (
                sum(file.stat().st_size for file in Path(model_path(self.start)).glob("*.safetensors"))
                or math.inf
            )
        except OSError:
            return math.inf

    @property
    def rate(self) -> float:
        """What learning rates are multiplied by: larger models take smaller ones."""
        return next(scale for most, scale in _SIZES if self.weights <= most)

    def played(
        self, model: str | Path, tasks: Path, name: str, *, repeats: int, num_tasks: int = 1_000_000
    ) -> list[Step]:
        """Episodes of a model, as steps."""
        flags = {"agent_model": model, "max_tokens": self.max_tokens}
        return played(
            self.world, tasks, self.path(name), **flags, repeats=repeats, num_tasks=num_tasks, seed=self.seed
        )


# ---- the methods: what they learn from, and the settings that are tried


def _offline(run: Run, split: Split, seconds: float) -> Path:
    """Play what is learned from: as much as the time allows."""
    number = min(_MOST, max(_FEWEST, _PLAYING * 60 * run.minutes / seconds))
    output = run.path("episodes.jsonl")
    run.run(
        run.played(
            run.start, split.train, output.name, repeats=REPEATS, num_tasks=math.ceil(number / REPEATS)
        )
    )
    return output


def rft(run: Run, episodes: Path) -> Iterator[Setting]:
    """Rejection fine-tuning: imitate the better quarter of the episodes."""
    returns = [one.reward for one in load_trajectories(episodes) if one.reward is not None]
    least = quantiles(returns, n=4)[-1]
    flags = {"dataset": episodes, "min_reward": least, "max_epochs": 4}
    for times in (1, 2, 0.5):
        yield _trained(run, "train_sft", f"rft_{times:g}", 5e-4 * times, flags)


def dpo(run: Run, episodes: Path) -> Iterator[Setting]:
    """Multi-turn DPO: prefer a task's better dialogues to its worse ones."""
    output = run.path("pairs.jsonl")
    run.run([_dialogue_pairs(run, episodes, output, hidden=False)])
    flags = {"dataset": output, "beta": 0.3, "nll_loss_coef": 0.5, "max_epochs": 2}
    for times in (1, 3, 0.3):
        yield _trained(run, "train_dpo", f"dpo_{times:g}", 3e-4 * times, flags)


def sweet(run: Run, episodes: Path) -> Iterator[Setting]:
    """SWEET-RL: a critic that sees the solution learns from dialogues, and ranks turns, from which the policy learns."""
    hidden, sampled, ranked, chosen = map(
        run.path, ("pairs_hidden.jsonl", "sampled.jsonl", "ranked.jsonl", "turn_pairs.jsonl")
    )
    flags = {"dataset": hidden, "mean_log_prob": "trajectory", "beta": 100.0, "max_epochs": 2}
    critic = _trained(run, "train_dpo", "critic", 1e-4, flags)
    sample = {
        "best_of_n": _CANDIDATES,
        "data_fraction": 2 / REPEATS,
        "max_tokens": run.max_tokens,
        "seed": run.seed,
        "quiet": True,
    }
    rank = {"advantage": "paper", "reference_model": run.start, "swap_test": True, "quiet": True}
    run.run(
        [
            _dialogue_pairs(run, episodes, hidden, hidden=True),
            *critic.steps,
            Step("sampled.jsonl", "sample_best_of_n", (str(episodes), str(sampled), run.start), sample),
            Step("ranked.jsonl", "rank_best_of_n", (str(sampled), str(ranked), str(critic.policy)), rank),
        ]
    )
    rows = candidates_from_rows(list(read_rows(ranked)), path=ranked)
    spreads = [
        max(known) - min(known)
        for row in rows
        if len(known := [s for s in row.scores or () if s is not None]) > 1
    ]
    margin = median(spreads) / 2 if spreads else 0.0
    right = asyncio.run(_looked_at(run, rows, episodes, margin))
    required([critic_reads(rows, needless=right.passed), right])
    draw = {
        "num_pairs": 2,
        "draws": "best",
        "margin": margin,
        "min_score": 0.0,
        "hard_negatives": 1,
        "seed": run.seed,
    }
    run.run([Step("turn_pairs.jsonl", "generate_random_pairs_from_ranks", (str(ranked), str(chosen)), draw)])
    learned = {"dataset": chosen, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 1}
    for times in (1, 3, 0.3):
        yield _trained(run, "train_dpo", f"sweet_{times:g}", 3e-4 * times, learned)


def online(run: Run, split: Split, agent_type: str) -> Iterator[Setting]:
    """ArCHer and filtered behaviour cloning: it learns from what it plays, iteration by iteration."""
    start, archer = quoted(Path(model_path(run.start))), agent_type == "archer"
    own = {
        "env_name": run.world,
        "tasks": quoted(split.train),
        "eval_tasks": quoted(split.dev),
        "seed": run.seed,
    }
    own |= {
        "policy_lm": start,
        "critic_lm": start,
        "critic_lr": 1e-3 * run.rate,
        "max_new_tokens": run.max_tokens,
    }
    own |= {"agent_type": agent_type} | (
        {"normalize_advantages": "true"} if archer else {"filter_quantile": 0.75}
    )

    def learned(name: str, **more: Any) -> Step:
        settings = own | more | {"save_path": quoted(run.path(name))}
        words = (*_ONLINE.split(), *(f"{key}={value}" for key, value in settings.items()))
        return Step(name, "run_archer", words, {"config_name": "default"})

    run.run([probe := learned("probe", iterations=2, warmup_iter=1, lm_lr=1e-6)])
    seconds = seconds_of(run.folder, [probe])["probe"] / 2
    iterations = min(300, max(10, int(0.3 * 60 * run.minutes / seconds)))
    for times in (1, 3, 0.3):
        name = f"{agent_type}_{times:g}"
        step = learned(
            name, iterations=iterations, warmup_iter=4 if archer else 0, lm_lr=3e-4 * run.rate * times
        )
        yield Setting(
            f"{iterations} iterations, learning rate {3e-4 * run.rate * times:g}",
            [step],
            run.path(name) / "final",
        )


def _trained(run: Run, stage: str, name: str, rate: float, flags: Mapping[str, Any]) -> Setting:
    output, rate = run.path(name), rate * run.rate
    given = {
        "pretrain": run.start,
        "save_path": output,
        "ckpt_path": run.path(f"{name}.checkpoints"),
        "learning_rate": rate,
    }
    return Setting(
        f"learning rate {rate:g}",
        [Step(name, stage, (), given | _TRAINED | dict(flags) | {"seed": run.seed})],
        output,
    )


def _dialogue_pairs(run: Run, episodes: Path, output: Path, *, hidden: bool) -> Step:
    flags = {"number": _PAIRS, "hidden": hidden, "seed": run.seed}
    return Step(output.name, f"{__name__}:write_pairs", (str(episodes), str(output)), flags)


def write_pairs(episodes: str, output: str, *, number: int, hidden: bool, seed: int) -> None:
    """Some of the pairs of a task's dialogues whose returns differ by at least a quarter of what is usual."""
    tracking.reads("episodes", episodes)
    tracking.writes(output)
    known = [one for one in load_trajectories(episodes) if not one.failed]
    by_task: dict[str, list[float]] = {}
    for one in known:
        by_task.setdefault(one.task.task_id, []).append(one.reward or 0.0)
    ranges = [max(all_of) - min(all_of) for all_of in by_task.values() if max(all_of) > min(all_of)]
    full = max(map(len, by_task.values()))
    whole = [one for one in known if len(by_task[one.task.task_id]) == full]
    found = pairs(whole, margin=median(ranges) / 4, with_ground_truth=hidden)
    Random(seed).shuffle(found)
    replace_rows(output, found[:number])


async def _looked_at(run: Run, rows: Sequence[Candidates], episodes: Path, margin: float) -> Gate:
    """Whether pairs that the critic makes are right, in this world."""
    world, rng = world_of(run.world), Random(run.seed)
    drawn = [draw_pairs(row, 2, rng, draws="best", margin=margin, min_score=0.0) for row in rows]
    recorded = {one.key: one for one in load_trajectories(episodes)}

    def states(row: Candidates) -> tuple[Trajectory, Any]:
        one = recorded[row.key[0], row.key[1]]
        return one, states_of(one)[row.key[2]]

    policy = TransformersPolicy(
        run.start, system_prompt=world.system_prompt, max_new_tokens=run.max_tokens, max_batch=256
    )
    user = Remembering(world.user.make(world.name), recorded.values()) if world.user.by != "world" else None
    try:
        async with world.open(world.options(), user) as make_env:
            how: dict[str, Any] = {"policy": policy, "make_env": make_env, "seed": run.seed}
            return await pairs_are_right(rows, drawn, judge=world.scores.good_turn, states=states, **how)
    finally:
        await policy.close()
        if user is not None:
            await user.close()


# ---- the run


def learn(run: Run) -> None:
    """Improve a policy in a world; what is done already is not done again.

    Raises:
        UsageError: a gate failed; the message says why, and what to try.
    """
    world = world_of(run.world)
    split = split_tasks(world, run.path("tasks"))
    first = run.played(run.start, split.dev, "start.dev.jsonl", repeats=_DEV_REPEATS)
    scripted = {
        agent: played(run.world, split.dev, run.path(f"{agent}.dev.jsonl"), agent_model=agent)
        for agent in able(world, load_tasks(split.dev), world.agents)
    }
    run.run([*first, *chain.from_iterable(scripted.values())])
    start = load_trajectories(run.path("start.dev.jsonl"))
    returns, habits = returns_of(start, world, "the policy"), habits_of(start)
    by_chance = simulate(world, split.dev, agent=anyhow(start), seed=run.seed)
    floor = returns_of(grade(by_chance), world, "turns by chance")
    best = [returns_of(load_trajectories(run.path(f"{agent}.dev.jsonl")), world, agent) for agent in scripted]
    ceiling = max(
        best, key=lambda one: sum(map(sum, one.values())) / sum(map(len, one.values())), default=None
    )
    required(can_learn(returns, floor, ceiling))
    seconds = seconds_of(run.folder, first)["start.dev.jsonl"] / len(start)
    room = (
        5 * run.weights + 40 * run.path("start.dev.jsonl").stat().st_size
    )  # three settings, a critic, checkpoints; episodes
    disk = (
        f"and up to {room / 1e9:.2g} GB in {run.folder}" if room < math.inf else "and the disk of five models"
    )
    speed = f"The policy plays {1 / seconds:.1f} episodes a second"
    print(f"{speed}; what is made takes about {run.minutes:g} minutes {disk}.", flush=True)
    chosen = _search(run, split, world, returns, habits, seconds)
    _report(run, split, world, chosen)


def _search(run: Run, split: Split, world: World, start: Returns, habits: Habits, seconds: float) -> Setting:
    """Try settings while there is time; the one with the best return on development tasks, of those that did not collapse."""
    if run.method in ("archer", "filtered_bc"):
        settings = online(run, split, "archer" if run.method == "archer" else "online_filteredbc")
    else:
        settings = {"sweet": sweet, "dpo": dpo, "rft": rft}[run.method](run, _offline(run, split, seconds))
    tried, came, longest = dict[str, tuple[Setting, Returns]](), dict[str, str](), 0.0
    for setting in settings:
        before = run.used
        if came and before + longest > 60 * run.minutes:
            print(
                f"{setting.name} is not tried: {before / 60:.1f} of {run.minutes:g} minutes are used.",
                flush=True,
            )
            break
        name = f"{setting.steps[-1].name}.dev.jsonl"
        run.run([*setting.steps, *run.played(setting.policy, split.dev, name, repeats=_DEV_REPEATS)])
        longest = max(longest, run.used - before)
        played_now = load_trajectories(run.path(name))
        returns, now = returns_of(played_now, world, setting.name), habits_of(played_now)
        why = "" if compared(returns, start).sign > 0 else collapsed(now, habits)
        came[setting.name] = f"{shown(returns)}{f', collapsed: {why}' if why else ''}"
        print(
            f"{setting.name}: return {shown(returns)}, start {shown(start)}; {now}{f'. It collapsed: {why}' if why else ''}",
            flush=True,
        )
        if not why:
            tried[setting.name] = setting, returns
    if not tried:
        raise UsageError(
            f"Every policy that {run.method} made has collapsed: {'; '.join(f'{name}: {text}' for name, text in came.items())}. Try another "
            "method (rft changes a policy least), more time (--minutes), or a better starting policy (make_policy --episodes, --steps)."
        )
    best = max(tried, key=lambda name: compared(tried[name][1], start).mean)
    required([improved(best, tried[best][1], start, came)])
    return tried[best][0]


def _report(run: Run, split: Split, world: World, chosen: Setting) -> None:
    """The start and the policy that was chosen, on test tasks, paired."""
    kept = {"repeats": _TEST_REPEATS, "num_tasks": _TEST_TASKS}
    run.run(
        [
            *run.played(run.start, split.test, "start.test.jsonl", **kept),
            *run.played(chosen.policy, split.test, "policy.test.jsonl", **kept),
        ]
    )
    before, after = (
        returns_of(load_trajectories(run.path(f"{name}.test.jsonl")), world, name)
        for name in ("start", "policy")
    )
    found = compared(after, before)
    link = run.path("policy")
    link.unlink(missing_ok=True)
    link.symlink_to(chosen.policy.relative_to(run.folder), target_is_directory=True)
    numbers = {
        "world": run.world,
        "method": run.method,
        "setting": chosen.name,
        "minutes": run.used / 60,
        "tasks": found.tasks,
    }
    numbers |= {
        name: mean_over_tasks(list(one.values())).mean for name, one in (("start", before), ("policy", after))
    }
    numbers |= {"difference": found.mean, "low": found.low, "high": found.high}
    replace_file(run.path("report.json"), [f"{json.dumps(numbers, indent=1)}\n".encode()])
    print(
        f"\n{run.method} in {world.name}, {found.tasks} test tasks, {_TEST_REPEATS} episodes each, after {run.used / 60:.0f} minutes:\n"
        f"  start   {shown(before)}\n  policy  {shown(after)}   ({chosen.name})\n"
        f"  difference {found.mean:+.3f} [{found.low or 0:+.3f}, {found.high or 0:+.3f}], paired over tasks\n"
        f"The policy is {link}. Its dialogues: sweet-rl view {run.path('policy.test.jsonl')}"
    )
