"""A method from a world and a policy to a better policy, in a given time: its stages, its gates, its settings.

What a stage makes is a file in the run's folder with the record of what made it; a run that is interrupted resumes there. The time that
was used is what the records say. Settings are chosen on development tasks; test tasks are played once, by the policy that was chosen.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.chat import model_path
from sweet_rl.commands.archer_config import quoted
from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import episodes_of
from sweet_rl.evaluation.report import measures_of
from sweet_rl.interface import grade, pairs, simulate
from sweet_rl.learning import gates
from sweet_rl.learning.continuations import Remembering, states_of
from sweet_rl.learning.policy import Split, able_agents, play_steps, split_tasks
from sweet_rl.pipelines.running import run_steps, seconds_of
from sweet_rl.pipelines.steps import Step
from sweet_rl.players.cast import Cast
from sweet_rl.policies.transformers import TransformersPolicy
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.pairs import draw_pairs
from sweet_rl.records import load_trajectories, read_rows, replace_file, replace_rows
from sweet_rl.statistics import mean_over_tasks
from sweet_rl.types import Json, Trajectory
from sweet_rl.worlds import World, load_tasks, world_of

if TYPE_CHECKING:
    from sweet_rl.learning.commands import LearningFlags

REPEATS: Final = 8  # episodes of a training task, from which pairs are made
_DEV_REPEATS, _TEST_TASKS, _TEST_REPEATS = 4, 200, 2
_FEWEST, _MOST = 200, 4000  # episodes that are played to learn from
_PLAYING: Final = 0.2  # share of the time for them
_PAIRS: Final = 1500  # of dialogues, in a training
_CANDIDATES: Final = 8  # for a turn
# bytes of weights, and what learning rates are multiplied by up to that size
_RATES: Final = ((50e6, 1.0), (2e9, 0.03), (math.inf, 0.003))
TRAINING: Final = {"train_batch_size": 32, "micro_train_batch_size": 32, "eval_fraction": 0, "max_len": 4096}
_ONLINE: Final = """template=chat eos_str=null max_context=1024 whole_games=true rollout_size=64 capacity=4000 tau=0.3 epochs=30
    actor_epochs=3 batch_size=64 grad_accum_steps=1 eval_freq=1000000 save_freq=2 keep_checkpoints=1 quiet=true"""


class Setting(NamedTuple):
    """A way to train that is tried: its name, its stages, where its policy is."""

    name: str
    steps: list[Step]
    policy: Path


@dataclass(frozen=True)
class Run:
    """One run of `learn`: what was asked for, in how many minutes when it was begun, the stages so far."""

    flags: LearningFlags
    first_minutes: float
    done: list[Step] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.flags.output_dir)

    def path(self, name: str) -> Path:
        """A file or folder of the run."""
        return self.folder / name

    def run(self, why: str, steps: Sequence[Step]) -> None:
        """Run what is not done of these steps; `why` is for the person who waits."""
        print(f"\n{why}", flush=True)
        run_steps(steps, self.folder, fresh=False, small=True)
        self.done.extend(steps)

    @property
    def used(self) -> float:
        """Seconds that the stages have taken, in all sessions."""
        return sum(seconds_of(self.folder, self.done).values())

    @property
    def weights(self) -> float:
        """Bytes of the policy's weights; without a folder nobody knows."""
        with suppress(OSError):
            files = Path(model_path(self.flags.policy)).glob("*.safetensors")
            return sum(file.stat().st_size for file in files) or math.inf
        return math.inf

    @property
    def rate(self) -> float:
        """What learning rates are multiplied by: larger models take smaller ones."""
        return next(scale for most, scale in _RATES if self.weights <= most)

    def played(self, model: str | Path, tasks: Path, name: str, **number: int) -> list[Step]:
        """Episodes of a model, as steps: so many `repeats` of `num_tasks`."""
        flags = {"agent_model": model, "max_tokens": self.flags.max_tokens, "seed": self.flags.seed}
        return play_steps(self.flags.world, tasks, self.path(name), **flags, **number)


# ---- the methods: what they learn from, and the settings that are tried


def _offline(run: Run, split: Split, seconds: float) -> Path:
    """Play what is learned from: as much as the time allows."""
    number = min(_MOST, max(_FEWEST, _PLAYING * 60 * run.first_minutes / seconds))
    output, tasks = run.path("episodes.jsonl"), math.ceil(number / REPEATS)
    steps = run.played(run.flags.policy, split.train, output.name, repeats=REPEATS, num_tasks=tasks)
    run.run(f"The policy plays the episodes to learn from: {tasks} training tasks, {REPEATS} each.", steps)
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
    run.run("Pairs of a task's dialogues.", [_dialogue_pairs(run, episodes, output, hidden=False)])
    flags = {"dataset": output, "beta": 0.3, "nll_loss_coef": 0.5, "max_epochs": 2}
    for times in (1, 3, 0.3):
        yield _trained(run, "train_dpo", f"dpo_{times:g}", 3e-4 * times, flags)


def sweet(run: Run, episodes: Path) -> Iterator[Setting]:
    """SWEET-RL: a critic that sees the solution learns from dialogues, and ranks turns, from which the policy learns."""
    names = ("pairs_hidden", "sampled", "ranked", "turn_pairs")
    hidden, sampled, ranked, chosen = (run.path(f"{name}.jsonl") for name in names)
    flags = {"dataset": hidden, "mean_log_prob": "trajectory", "beta": 100.0, "max_epochs": 2}
    critic = _trained(run, "train_dpo", "critic", 1e-4, flags)
    sample = dict[str, Any](best_of_n=_CANDIDATES, data_fraction=2 / REPEATS, quiet=True)
    sample |= {"max_tokens": run.flags.max_tokens, "seed": run.flags.seed}
    rank = {"advantage": "paper", "reference_model": run.flags.policy, "swap_test": True, "quiet": True}
    run.run(
        "A critic that sees the solution learns from dialogues, and ranks candidates for each turn.",
        [
            _dialogue_pairs(run, episodes, hidden, hidden=True),
            *critic.steps,
            Step(
                "sampled.jsonl", "sample_best_of_n", (str(episodes), str(sampled), run.flags.policy), sample
            ),
            Step("ranked.jsonl", "rank_best_of_n", (str(sampled), str(ranked), str(critic.policy)), rank),
        ],
    )
    rows = candidates_from_rows(list(read_rows(ranked)), path=ranked)
    scores = [[score for score in row.scores or () if score is not None] for row in rows]
    spreads = [max(known) - min(known) for known in scores if len(known) > 1]
    margin = median(spreads) / 2 if spreads else 0.0
    right = asyncio.run(_looked_at(run, rows, episodes, margin))
    gates.required([gates.critic_reads(rows, needless=right.passed), right])
    draw = dict[str, Any](num_pairs=2, draws="best", margin=margin, min_score=0.0, hard_negatives=1)
    words, draw = (str(ranked), str(chosen)), draw | {"seed": run.flags.seed}
    run.run("Pairs of turns.", [Step(chosen.name, "generate_random_pairs_from_ranks", words, draw)])
    learned = {"dataset": chosen, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 1}
    for times in (1, 3, 0.3):
        yield _trained(run, "train_dpo", f"sweet_{times:g}", 3e-4 * times, learned)


def online(run: Run, split: Split, agent_type: str) -> Iterator[Setting]:
    """ArCHer and filtered behaviour cloning: it learns from what it plays, iteration by iteration."""
    start, archer = quoted(Path(model_path(run.flags.policy))), agent_type == "archer"
    own = dict[str, Any](env_name=run.flags.world, tasks=quoted(split.train), eval_tasks=quoted(split.dev))
    own |= {"seed": run.flags.seed, "policy_lm": start, "critic_lm": start, "critic_lr": 1e-3 * run.rate}
    own |= {"max_new_tokens": run.flags.max_tokens, "agent_type": agent_type}
    own |= {"normalize_advantages": "true"} if archer else {"filter_quantile": 0.75}

    def learned(name: str, **more: Any) -> Step:
        settings = own | more | {"save_path": quoted(run.path(name))}
        words = (*_ONLINE.split(), *(f"{key}={value}" for key, value in settings.items()))
        return Step(name, "run_archer", words, {"config_name": "default"})

    probe = learned("probe", iterations=2, warmup_iter=1, lm_lr=1e-6)
    run.run("Two iterations, to see how long one takes.", [probe])
    seconds = seconds_of(run.folder, [probe])["probe"] / 2
    iterations, warmup = min(300, max(10, int(0.3 * 60 * run.first_minutes / seconds))), 4 if archer else 0
    takes, left = iterations * seconds / 60, run.flags.minutes - run.used / 60
    more = f", more than the {left:.0f} that are left: fewer than 10 iterations teach little" * (takes > left)
    print(f"A setting is {iterations} iterations: about {takes:.0f} minutes{more}.", flush=True)
    for times in (1, 3, 0.3):
        name, rate = f"{agent_type}_{times:g}", 3e-4 * run.rate * times
        step = learned(name, iterations=iterations, warmup_iter=warmup, lm_lr=rate)
        yield Setting(f"{iterations} iterations, learning rate {rate:g}", [step], run.path(name) / "final")


def _trained(run: Run, stage: str, name: str, rate: float, flags: Mapping[str, Any]) -> Setting:
    output, rate = run.path(name), rate * run.rate
    given = dict[str, Any](
        pretrain=run.flags.policy, save_path=output, ckpt_path=run.path(f"{name}.checkpoints")
    )
    given |= {"learning_rate": rate, "quiet": True, "seed": run.flags.seed, **TRAINING, **flags}
    return Setting(f"learning rate {rate:g}", [Step(name, stage, (), given)], output)


def _dialogue_pairs(run: Run, episodes: Path, output: Path, *, hidden: bool) -> Step:
    flags = {"number": _PAIRS, "hidden": hidden, "seed": run.flags.seed}
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
    if not ranges:
        raise UsageError(
            f"No dialogue of a task is better than another in {episodes}. Play more of them (--minutes)."
        )
    full = max(map(len, by_task.values()))
    whole = [one for one in known if len(by_task[one.task.task_id]) == full]
    found = pairs(whole, margin=median(ranges) / 4, with_ground_truth=hidden)
    Random(seed).shuffle(found)
    replace_rows(output, found[:number])


async def _looked_at(run: Run, rows: Sequence[Candidates], episodes: Path, margin: float) -> gates.Gate:
    """Whether pairs that the critic makes are right, in this world."""
    world, rng = world_of(run.flags.world), Random(run.flags.seed)
    drawn = [draw_pairs(row, 2, rng, draws="best", margin=margin, min_score=0.0) for row in rows]
    recorded = {one.key: one for one in load_trajectories(episodes)}

    def states(row: Candidates) -> tuple[Trajectory, Any]:
        one = recorded[row.key[0], row.key[1]]
        return one, states_of(one)[row.key[2]]

    policy = TransformersPolicy(
        run.flags.policy,
        system_prompt=world.system_prompt,
        max_new_tokens=run.flags.max_tokens,
        max_batch=256,
    )
    user = Remembering(world.user.make(world.name), recorded.values()) if world.user.by != "world" else None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(policy.close)
        if user is not None:
            stack.push_async_callback(user.close)
        cast = Cast(world=world, options=world.options())
        playing = await stack.enter_async_context(cast.opened(None, concurrency=256, user=user))
        how: dict[str, Any] = {"policy": policy, "make_env": playing.make_env, "seed": run.flags.seed}
        return await gates.pairs_are_right(rows, drawn, judge=world.scores.good_turn, states=states, **how)


# ---- the run


def learn(flags: LearningFlags, first_minutes: float) -> None:
    """Improve a policy in a world; what is done already is not done again.

    Args:
        first_minutes: those that the run was begun with: by them it was decided how much is played.

    Raises:
        UsageError: a gate failed; the message says why, and what to try.
    """
    world, folder, run = world_of(flags.world), Path(flags.output_dir), Run(flags, first_minutes)
    if flags.overwrite:  # what they tell is made again
        run.path("report.json").unlink(missing_ok=True)
        run.path("policy").unlink(missing_ok=True)
    split = split_tasks(world, run.path("tasks"), overwrite=flags.overwrite)
    print(
        f"{flags.method} in {world.name} from {run.flags.policy}: about {flags.minutes:g} minutes, and then the test tasks. What each stage "
        f"prints goes to {run.path('logs')}."
    )
    if run.path("report.json").exists():
        print("There is a report already: with a larger --minutes, more settings are tried.")
    first = run.played(run.flags.policy, split.dev, "start.dev.jsonl", repeats=_DEV_REPEATS)
    scripted = {
        agent: play_steps(flags.world, split.dev, run.path(f"{agent}.dev.jsonl"), agent_model=agent)
        for agent in able_agents(world, load_tasks(split.dev), world.agents)
    }
    who = "The policy and the scripted agents play" if scripted else "The policy plays"
    run.run(f"{who} the development tasks.", [*first, *chain.from_iterable(scripted.values())])
    start = load_trajectories(run.path("start.dev.jsonl"))
    returns, habits = gates.returns_of(start, world, "the policy"), gates.habits_of(start)
    by_chance = simulate(world, split.dev, agent=gates.anyhow(start), seed=flags.seed)
    floor = gates.returns_of(grade(by_chance), world, "turns by chance")
    best = [
        gates.returns_of(load_trajectories(run.path(f"{agent}.dev.jsonl")), world, agent)
        for agent in scripted
    ]
    ceiling = max(best, key=lambda one: fmean(chain.from_iterable(one.values())), default=None)
    gates.required(gates.can_learn(returns, habits, floor, ceiling))
    if flags.method == "sweet":
        tasks = load_tasks(split.train)
        number = len({task.ground_truth for task in tasks})
        repair = f"The critic of sweet sees `ground_truth`, which must say what {world.name} hides in this task; or choose another --method."
        text = f"{number} in {len(tasks)} tasks"
        gates.required([gates.Gate("tasks have solutions of their own", number > 1, text, repair)])
    seconds = seconds_of(folder, first)["start.dev.jsonl"] / len(start)
    # three settings, a critic, checkpoints; episodes
    room = 5 * run.weights + 40 * run.path("start.dev.jsonl").stat().st_size
    disk = f"up to {room / 1e9:.2g} GB in {folder}" if room < math.inf else "the disk of five models"
    print(f"The policy plays {1 / seconds:.1f} episodes a second; what is made takes {disk}.", flush=True)
    chosen = _search(run, split, world, returns, habits, seconds)
    _report(run, split, world, chosen)


def _search(
    run: Run, split: Split, world: World, start: gates.Returns, habits: gates.Habits, seconds: float
) -> Setting:
    """Try settings while there is time; the one with the best return on development tasks, of those that did not collapse."""
    method, minutes = run.flags.method, run.flags.minutes
    if method in ("archer", "filtered_bc"):
        settings = online(run, split, "archer" if method == "archer" else "online_filteredbc")
    else:
        settings = {"sweet": sweet, "dpo": dpo, "rft": rft}[method](run, _offline(run, split, seconds))
    tried, came, longest = dict[str, tuple[Setting, gates.Returns]](), dict[str, str](), 0.0
    for setting in settings:
        before, name = run.used, f"{setting.steps[-1].name}.dev.jsonl"
        if came and before + longest > 60 * minutes and not run.path(name).exists():
            used = f"{before / 60:.1f} of {minutes:g} minutes are used"
            print(f"\n{setting.name} is not tried: {used}.", flush=True)
            break
        steps = [*setting.steps, *run.played(setting.policy, split.dev, name, repeats=_DEV_REPEATS)]
        run.run(f"Setting {len(came) + 1}: {setting.name}.", steps)
        longest = max(longest, run.used - before)
        played_now = load_trajectories(run.path(name))
        returns, now = gates.returns_of(played_now, world, setting.name), gates.habits_of(played_now)
        why = "" if gates.compared(returns, start).sign > 0 else gates.collapsed(now, habits)
        came[setting.name] = f"{gates.shown(returns)}{f', collapsed: {why}' if why else ''}"
        said = f"return {gates.shown(returns)}, start {gates.shown(start)}; {now}"
        print(f"{said}. It collapsed: {why}" if why else said, flush=True)
        if not why:
            tried[setting.name] = setting, returns
    if not tried:
        raise UsageError(
            f"Every policy that {method} made has collapsed: {'; '.join(f'{name}: {text}' for name, text in came.items())}. Try another "
            "method (rft changes a policy least), more time (--minutes), or a better starting policy (make_policy --episodes, --steps)."
        )
    best = max(tried, key=lambda name: gates.compared(tried[name][1], start).mean)
    gates.required([gates.improved(best, tried[best][1], start, came)])
    return tried[best][0]


def _report(run: Run, split: Split, world: World, chosen: Setting) -> None:
    """The start and the policy that was chosen, on test tasks, paired."""
    kept, link = {"repeats": _TEST_REPEATS, "num_tasks": _TEST_TASKS}, run.path("policy")
    steps = run.played(run.flags.policy, split.test, "start.test.jsonl", **kept)
    steps += run.played(chosen.policy, split.test, "policy.test.jsonl", **kept)
    run.run("The start and the policy play the test tasks.", steps)
    played = {name: load_trajectories(run.path(f"{name}.test.jsonl")) for name in ("start", "policy")}
    returns = [gates.returns_of(one, world, name) for name, one in played.items()]
    known = [episodes_of(one, world) for one in played.values()]
    measured, (before, after, gained) = _paired(*returns)
    if (measure := measures_of(known)[0]).field == "success":
        measured["success"], rates = _paired(*(measure.by_task(one.episodes) for one in known), share=True)
        before, after, gained = map(", success ".join, zip((before, after, gained), rates, strict=True))
    link.unlink(missing_ok=True)
    link.symlink_to(chosen.policy.relative_to(run.folder), target_is_directory=True)
    numbers = dict[str, Any](world=run.flags.world, method=run.flags.method, setting=chosen.name)
    numbers |= {"minutes": run.used / 60, **measured}
    replace_file(run.path("report.json"), [f"{json.dumps(numbers, indent=1)}\n".encode()])
    print(
        f"\n{run.flags.method} in {world.name}, {measured['tasks']} test tasks, {_TEST_REPEATS} episodes each, "
        f"after {run.used / 60:.0f} minutes:\n"
        f"  start   {before}\n  policy  {after}   ({chosen.name})\n  difference {gained}, paired over tasks\n"
        f"The policy is {link}. Its dialogues: sweet-rl view {run.path('policy.test.jsonl')}"
    )


def _paired(start: gates.Returns, policy: gates.Returns, *, share: bool = False) -> tuple[Json, list[str]]:
    """Both means and the paired difference, as numbers and in words; of shares the intervals end where shares do."""
    found = gates.compared(policy, start, **({"low": -1.0, "high": 1.0} if share else {}))
    numbers = dict[str, Any](tasks=found.tasks)
    for name, one in (("start", start), ("policy", policy)):
        numbers[name] = mean_over_tasks(list(one.values())).mean
    numbers |= {"difference": found.mean, "low": found.low, "high": found.high}
    within = {"low": 0.0, "high": 1.0} if share else {}
    return numbers, [gates.shown(start, **within), gates.shown(policy, **within), gates.with_interval(found)]
