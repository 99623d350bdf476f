"""Stage 1 of the pipeline: an agent and a simulated human talk over tasks.

Published behaviour: docs/published/sweet_rl.md#overview.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.parse import Options as Chosen
from sweet_rl.cli.progress import judge_failed, progress, run_until_stopped, words_of
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.commands.agents import (
    OWN,
    RECAP,
    Player,
    PlayerFlags,
    ReflectionFlags,
    TestTimeCriticFlags,
    engine_of,
    make_policy,
)
from sweet_rl.commands.humans import ANSWERED, Human, HumanFlags, make_user, server_plays
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag
from sweet_rl.flags.shared import (
    BatchSize,
    ContinuingOtherwise,
    InputPath,
    LogTo,
    MaxFailed,
    NumTasks,
    OutputPath,
    Quiet,
    Repeats,
    SampleIds,
    Seeded,
    WorldName,
)
from sweet_rl.openai_client import base_url_from
from sweet_rl.records import Journal, trajectory_to_row
from sweet_rl.rollout import RolloutStats, rollout, schedule
from sweet_rl.runs import HOW_TO_MIX, Run, finish, open_journal, plan
from sweet_rl.types import Failure, Json, Task, Trajectory
from sweet_rl.version import __version__
from sweet_rl.worlds import (
    Options,
    World,
    agents_with,
    check_tasks,
    chosen_tasks,
    first_for,
    load_tasks,
    names,
    options_by_name,
    world_of,
)
from sweet_rl.worlds.dialogue import HUB_REPOSITORY

WORLD_OPTIONS = Chosen("world", options_by_name, names)
"""The flags of the world that is named."""

TAKEN = {
    name: Only("agent_model", partial(agents_with, name))
    for name in ("skill", "num_questions", "unsafe_no_sandbox")
}
"""Flags of scripted agents belong to those that take them."""


@dataclass(frozen=True, kw_only=True)
class SimulationFlags(
    InputPath,
    OutputPath,
    WorldName,
    NumTasks,
    SampleIds,
    Repeats,
    BatchSize,
    ContinuingOtherwise,
    MaxFailed,
    Seeded,
    LogTo,
    Quiet,
):
    """Inputs and outputs."""

    retry: Literal["failed", "none"] = flag(
        "failed", "with to_continue: failed (play episodes that failed again) or none.", shown="all"
    )
    train: bool = flag(
        False, "accepted for the published command line; has no effect there either.", shown="never"
    )

    def check_together(self) -> None:
        """Whether there is something that may be tried again."""
        super().check_together()
        if self.retry == "none" and not self.to_continue:
            raise UsageError(
                "--retry none selects what --to_continue leaves unchanged; pass --to_continue as well."
            )


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together."""
    world, wanted = world_of(flags["world"]), flags["reflection_model"]
    agent = _named(built(PlayerFlags, flags), world.agents)
    engine = engine_of(agent, world)
    engines = {engine}
    if wanted not in {None, RECAP}:
        reflects = replace(
            agent, agent="auto", agent_model=wanted, agent_base_url=flags["reflection_base_url"]
        )
        engines.add(engine_of(reflects, world))
    server = server_plays(world, built(HumanFlags, flags))
    return {
        "answered_by": {world.answered_by},
        "agent_model": {agent.agent_model},
        "agent": {engine},
        "engine": engines,
        "reflection": {"none" if wanted is None else RECAP if wanted == RECAP else "model"},
        "human": {"server" if server else "here"},
        "talks": {"server" if server and world.answered_by == "human" else "here"},
        "asked": {"server"} if server or not engines.isdisjoint({"openai", "vllm"}) else {"nobody"},
    }


def _named(agent: PlayerFlags, agents: tuple[str, ...]) -> PlayerFlags:
    """The flags with the agent's name: the world's first one for auto."""
    return replace(agent, agent_model=agents[0]) if agent.agent_model == "auto" and agents else agent


@recorded(
    "simulate_interactions",
    reads=tuple(
        """
        input_path agent_model tokenizer agent_prompt_path env_model user_prompt_path reflection_model
        reflection_prompt_path critic place
    """.split()
    ),
    prices=True,
)
@stage(
    "input_path",
    "output_path",
    defaults={"world": first_for("dialogue"), "agent_model": "auto", "num_tasks": 1000},
    helps={
        "input_path": "tasks: a list of the world's own (such as mini:test; an unknown one is answered with all that there are), a ColBench .jsonl file, or facebook/collaborative_agent_bench[:train] from the hub.",
        "output_path": "the .jsonl file that trajectories are appended to.",
        "agent_model": "one of the world's scripted agents (auto: its first), or a model: a folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "agent": "what runs agent_model: auto, scripted, transformers (in process), vllm (starts its own server), or openai (any server).",
        "tokenizer": "folder or name of the tokenizer whose chat template makes the prompts; default agent_model, and for --agent openai a plain format of our own.",
        "max_tokens": "tokens of one agent turn at most.",
        "hostname": "host of the OpenAI-compatible server that plays the human; 127.0.0.1 when only the port is given.",
        "port": "its port; 8000 when only the host is given, or nothing.",
        "batch_size": "episodes in flight at once; for pages at most 100.",
        "overwrite": "throw away what output_path holds.",
        "seed": "every episode's seed is derived from it.",
    },
    only=ANSWERED | TAKEN,
    facets=_facets,
    options=WORLD_OPTIONS,
)
def simulate_interactions(
    flags: SimulationFlags,
    agent: PlayerFlags,
    human: HumanFlags,
    reflection: ReflectionFlags,
    critic: TestTimeCriticFlags,
    options: Options,
    /,
) -> None:
    """Let an agent and a simulated human talk over tasks, and write the trajectories.

    Every finished episode is on disk before its place goes to the next one, so a run can be stopped at any
    moment (Ctrl-C, kill, power cut) and finished with --to_continue. Once complete, the file is in the
    published order: row j*num_tasks+i is repeat j of task i.

    The smallest run needs no model and no server:
    sweet-rl simulate_interactions --input_path mini:test --output_path out.jsonl --env_model scripted --num_tasks 20
    Likewise for web pages, with a browser; drafts become pictures beside the output file:
    sweet-rl simulate_interactions --world html --input_path mini-web:test --output_path pages.jsonl --env_model scripted --num_tasks 20
    """
    tracking.logs_to(flags.destination())
    world = world_of(flags.world)
    player = Player(
        flags=_named(agent, world.agents),
        world=world,
        options=options,
        scripted=agent,
        prompt_path=agent.agent_prompt_path,
        seed=flags.seed,
        reflection=reflection,
        critic=critic,
    )
    parts = Parts(world, options, player, Human(human, world, options))
    tasks = tasks_of(flags.input_path, flags.num_tasks, flags.sample_ids, world)
    simulate(flags, parts, tasks)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is put together from.

    Args:
        name: what stands before its numbers over time, if others are there.
        folder: of a command whose output the file is a part of.
        repair: what a person can do about a file that was made another way.
    """

    world: World
    options: Options
    agent: Player
    human: Human
    name: str = ""
    folder: Path | None = None
    repair: str = HOW_TO_MIX

    def check(self) -> None:
        """Find what is wrong with agent and human before anything starts."""
        self.human.check()
        key_in(self.human.flags.env_api_key_var)
        key_in(self.agent.flags.agent_api_key_var)
        key_in(self.agent.reflection.reflection_api_key_var)
        named = (self.agent.flags.agent_base_url, self.agent.reflection.reflection_base_url)
        for urls in (*named, None if self.human.in_process else ",".join(self.human.flags.urls)):
            if urls is not None:
                base_url_from("", 0, urls)
        models = [] if self.agent.engine() in {OWN, "scripted"} else [self.agent.model]
        for model in (*models, self.agent.reflection.reflection_model):
            if model not in {None, RECAP}:
                tracking.permits(str(model))

    def settings(self, seed: int) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        return {
            **self.world.settings(self.options),
            "seed": seed,
            **self.agent.settings(),
            **self.human.settings(),
        }


def tasks_of(source: str, num_tasks: int | None, sample_ids: str | None, world: World) -> list[Task]:
    """What is played: of the tasks that are named, or of all, the first so many; says how many more there are."""
    endless = not (Path(source).expanduser().is_file() or source.startswith(HUB_REPOSITORY))
    tasks = load_tasks(source, num_tasks=num_tasks if endless and sample_ids is None else None, world=world)
    if sample_ids is not None:
        tasks = chosen_tasks(tasks, sample_ids, source)
    check_tasks(world, tasks, source)
    if num_tasks is not None and num_tasks < len(tasks):
        print(f"{num_tasks:,} of {len(tasks):,} tasks of {source} are played (--num_tasks).")
    return tasks[:num_tasks]


@contextmanager
def planned(
    flags: SimulationFlags, parts: Parts, tasks: Sequence[Task]
) -> Iterator[tuple[Journal, Run, dict[str, Json]]]:
    """The output file, what is missing in it, and the settings; nothing is written yet."""
    parts.check()
    settings = parts.settings(flags.seed)
    episodes = schedule(tasks, flags.repeats, seed=flags.seed)
    with open_journal(flags.output_path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        todo = plan(
            episodes,
            journal.rows,
            settings=settings,
            path=flags.output_path,
            force=flags.force_continue,
            retry_failed=flags.retry == "failed",
            repair=parts.repair,
        )
        if not (journal.rows or flags.overwrite or flags.to_continue):
            parts.world.check_place(parts.options)
        journal.rows.clear()
        yield journal, todo, settings


def simulate(
    flags: SimulationFlags, parts: Parts, tasks: Sequence[Task], *, again: str = "with --to_continue "
) -> int:
    """Play the missing episodes of the output file, then sort it in the published order.

    Returns:
        How many episodes of the complete file failed.
    """
    total = len(tasks) * flags.repeats
    with planned(flags, parts, tasks) as (journal, todo, settings):

        def begin() -> None:
            """All that may be refused has passed: from now on things are written."""
            tracking.sets(settings)
            if parts.folder is not None:
                tracking.writes(parts.folder, folder=True, continues=True)
            tracking.writes(flags.output_path, continues=flags.to_continue)
            journal.begin()

        stats = RolloutStats(episodes=total - len(todo.todo))
        outcome = Outcome()
        if todo.todo:
            work = _simulate(flags, parts, tasks, todo, journal, settings, stats, outcome, begin)
            run_until_stopped(work, flags.output_path, total, noun="episodes", verb="plays", again=again)
        else:
            begin()
        failed = finish(flags.output_path, todo)
    _summarise(flags, total, stats, outcome)
    judge_failed(
        len(failed),
        total,
        next((words_of(row["error"]) for row in failed if isinstance(row.get("error"), dict)), "unknown"),
        noun="episodes",
        kept=f"{flags.output_path} stays as it is; the same command {again}plays them again.",
        most=flags.max_failed,
    )
    return len(failed)


class Outcome:
    """The summary of a run when it is over."""

    def __init__(self) -> None:
        self.stop_reasons: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.first: Failure | None = None
        self.failed = self.turns = self.rewarded = 0
        self.reward = 0.0
        self.seconds = 0.0

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode's end and its failures; the first failure is kept."""
        self.stop_reasons[str(trajectory.stop_reason or "unknown")] += 1
        failures = [*trajectory.failures, *([trajectory.error] if trajectory.error else [])]
        self.failures.update(failure.kind for failure in failures)
        self.first = self.first or next(iter(failures), None)
        self.failed += trajectory.error is not None
        self.turns += sum(entry.role == "assistant" for entry in trajectory.dialogue_history)
        if trajectory.reward is not None:
            self.reward, self.rewarded = self.reward + trajectory.reward, self.rewarded + 1

    def numbers(self) -> dict[str, float]:
        """Means over the episodes of this session, to be watched while it plays."""
        shown = {"turns_per_episode": self.turns / max(1, sum(self.stop_reasons.values()))}
        return shown | ({"reward": self.reward / self.rewarded} if self.rewarded else {})


async def _simulate(
    flags: SimulationFlags,
    parts: Parts,
    tasks: Sequence[Task],
    run_: Run,
    journal: Journal,
    settings: dict[str, Json],
    stats: RolloutStats,
    outcome: Outcome,
    begin: Callable[[], None],
) -> None:
    bar = ProgressBar(stats, outcome, len(run_.order), quiet=flags.quiet, name=parts.name)
    user: User | None = None
    policy: Policy | None = None

    async def on_finished(trajectory: Trajectory) -> None:
        await journal.append_soon(trajectory_to_row(trajectory))
        outcome.add(trajectory)

    at_once = parts.world.at_once(flags.batch_size)
    try:
        with tracking.role("user"):
            user = await make_user(parts.human, concurrency=at_once)
            if not parts.human.in_process:
                tracking.permits(user.name)
        with tracking.role("agent"):
            policy = await make_policy(parts.agent, tasks, concurrency=at_once)
        samples = {(one.task.task_id, one.seed): one.sample_index for one in run_.todo}
        options = parts.world.beside(parts.options, Path(flags.output_path), samples)
        async with parts.world.open(options, user) as make_env:
            begin()
            started = time.perf_counter()
            await rollout(
                run_.todo,
                make_env=make_env,
                policy=policy,
                on_finished=on_finished,
                concurrency=min(at_once, len(run_.todo)),
                provenance={
                    "sweet_rl": __version__,
                    "agent_model": policy.name,
                    "env_model": user.name,
                    "settings": settings,
                },
                stats=stats,
                on_progress=bar.update,
            )
            outcome.seconds = time.perf_counter() - started
    finally:
        await journal.flush()
        bar.close()
        for part in (policy, user):
            if part is not None:
                await part.close()


class ProgressBar:
    """Episodes, the time left, failures, money, tokens and speed, on standard error; a narrow window cuts the end."""

    def __init__(
        self, stats: RolloutStats, outcome: Outcome, total: int, *, quiet: bool, name: str = ""
    ) -> None:
        self._stats, self._outcome, self._before = stats, outcome, name and f"{name}."
        self._started = time.perf_counter()
        self._bar = progress(total, stats.episodes, unit="episode", quiet=quiet)

    def update(self) -> None:
        """Show the current totals, at most a few times a second."""
        if self._stats.episodes > self._bar.n:
            self._bar.progress.failed = self._outcome.failed
            numbers = self._outcome.numbers().items()
            self._bar.progress.numbers = {self._before + name: value for name, value in numbers}
        self._bar.update(self._stats.episodes - self._bar.n)
        if self._bar.disable:
            return
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        words = [
            f"{self._stats.failures} failures",
            *spent_words(),
            f"{self._stats.turns / elapsed:.1f} turns/s",
        ]
        if self._stats.tokens:
            words.append(f"{self._stats.tokens / elapsed:.0f} tokens/s")
        self._bar.set_postfix_str(", ".join(words), refresh=False)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self.update()
        self._bar.close()


def spent_words() -> Iterator[str]:
    """What the run in progress has used of models: money, tokens read and written, requests sent again."""
    listener = tracking.current()
    if listener is None:
        return
    used = [row for models in listener.usage().values() for row in models.values()]
    read, written = (sum(row[name] or 0 for row in used) for name in ("prompt_tokens", "completion_tokens"))
    if (cost := listener.cost()) is not None:
        known = [value for name, value in cost.items() if name.endswith("_usd") and isinstance(value, float)]
        yield f"${sum(known):.2f}" + ("" if isinstance(cost["usd"], float) else " and what is unknown")
    if read or written:
        yield f"{short(read)} tokens in, {short(written)} out"
    if retries := sum(row["retries"] or 0 for row in used):
        yield f"{retries} sent again"


def short(number: int) -> str:
    """A large number in a few digits."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def _summarise(flags: SimulationFlags, total: int, stats: RolloutStats, outcome: Outcome) -> None:
    if not outcome.stop_reasons:
        print(f"{flags.output_path} is complete: {total} episodes, nothing was left to do.")
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in outcome.stop_reasons.most_common())
    print(
        f"{total} episodes are in {flags.output_path}. This run: {sum(outcome.stop_reasons.values())} "
        f"episodes ({reasons}), {stats.turns} turns in {outcome.seconds:.1f} s "
        f"({stats.turns / outcome.seconds:.1f} turns/s)."
    )
    if outcome.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in outcome.failures.most_common())
        print(f"Failures, each recorded in its row: {kinds}. The first: {outcome.first}")
    if stats.thoughts:
        print(
            f"The agent's thoughts, {stats.thoughts:,} characters, are recorded beside its turns and shown to no other participant."
        )
