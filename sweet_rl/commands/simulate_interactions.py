"""Stage 1 of the pipeline: an agent and a simulated human talk over tasks.

Published behaviour: docs/published/sweet_rl.md#overview.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.parse import Options as Chosen
from sweet_rl.cli.progress import Bar, judge_failed, judge_full, run_until_stopped, words_of
from sweet_rl.cli.stage import built, given_flags, recorded, stage
from sweet_rl.flags import Only, flag, group
from sweet_rl.flags.shared import BatchSize, Files, MaxFailed, Repeated, Resumable, Seeded, WorldName
from sweet_rl.players import ANSWERED, RECAP, HumanFlags, PlayerFlags, engine_of
from sweet_rl.players.cast import Cast
from sweet_rl.records import Journal, trajectory_to_row
from sweet_rl.rollout import RolloutStats, rollout, schedule
from sweet_rl.runs import HOW_TO_MIX, Run, finish, open_journal, plan
from sweet_rl.types import Failure, Json, StopReason, Task, Trajectory
from sweet_rl.worlds import (
    Options,
    World,
    agents_with,
    check_tasks,
    chosen_tasks,
    first_for,
    load_tasks,
    names,
    world_of,
)
from sweet_rl.worlds.dialogue import HUB_REPOSITORY

WORLD_OPTIONS = Chosen("world", lambda name: world_of(name).options, names)
"""The flags of the world that is named."""

TAKEN = {
    name: Only("agent_model", partial(agents_with, name))
    for name in ("skill", "num_questions", "unsafe_no_sandbox")
}
"""Flags of scripted agents belong to those that take them."""


@group("What is played")
class PlayingFlags(WorldName, Repeated, BatchSize, MaxFailed, Seeded, Resumable):
    pass


@group("Inputs and outputs")
class SimulationFlags(Files, PlayingFlags):
    retry: Literal["failed", "none"] = flag(
        "failed", "with --to_continue: failed (play failed episodes again) or none.", shown="all"
    )
    train: bool = flag(
        False, "accepted for the published command line; has no effect there either.", shown="never"
    )


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together."""
    world, wanted = world_of(flags["world"]), flags["reflection_model"]
    cast = Cast(world=world, agent=built(PlayerFlags, flags), human=built(HumanFlags, flags))
    engines = {cast.engine}
    if wanted not in {None, RECAP}:
        reflects = replace(
            cast.agent, agent="auto", agent_model=wanted, agent_base_url=flags["reflection_base_url"]
        )
        engines.add(engine_of(reflects, world))
    human = {"server" if cast.human_served else "here"}
    return {
        "answered_by": {world.user.by},
        "agent_model": {cast.agent.agent_model},
        "agent": {cast.engine},
        "engine": engines,
        "reflection": {"none" if wanted is None else RECAP if wanted == RECAP else "model"},
        "human": human,
        "talks": human if cast.simulated else {"here"},
        "asked": {"server"}
        if cast.human_served or not engines.isdisjoint({"openai", "vllm"})
        else {"nobody"},
    }


@recorded(
    "simulate_interactions",
    reads="""
        input_path agent_model tokenizer agent_prompt_path env_model user_prompt_path reflection_model
        reflection_prompt_path critic place
    """.split(),
    prices=True,
)
@stage(
    "input_path",
    "output_path",
    defaults={"world": first_for("dialogue"), "num_tasks": 1000},
    helps={
        "input_path": "tasks: one of the world's lists (such as mini:test; an unknown name prints all of "
        "them), a ColBench .jsonl file, or facebook/collaborative_agent_bench[:train] from the "
        "hub.",
        "output_path": "the .jsonl file that trajectories are appended to.",
        "agent_model": "one of the world's scripted agents (auto: the first one), or a model: a folder, a "
        "hub name, smollm2, embedded, or its name on the server.",
        "agent": "how --agent_model runs: auto, scripted, transformers (in process), vllm (starts its own server), or openai (any server).",
        "tokenizer": "folder or name of the tokenizer whose chat template renders the prompts; default: that "
        "of --agent_model; with --agent openai a plain text format.",
        "batch_size": "episodes in flight at once; for pages at most 100.",
    },
    only=ANSWERED | TAKEN,
    facets=_facets,
    options=WORLD_OPTIONS,
)
def simulate_interactions(
    flags: SimulationFlags, agent: PlayerFlags, human: HumanFlags, options: Options, /
) -> None:
    """Let an agent and a simulated human talk over tasks, and write the trajectories.

    Every finished episode is written to disk at once, so a run can be stopped at any moment (Ctrl-C, kill,
    power cut) and resumed with --to_continue. A complete file is in the published order: row j*num_tasks+i is
    repeat j of task i.

    The smallest run needs no model and no server:
    sweet-rl simulate_interactions --input_path mini:test --output_path out.jsonl --env_model scripted --num_tasks 20
    Likewise for web pages, with a browser; drafts become pictures beside the output file:
    sweet-rl simulate_interactions --world html --input_path mini-web:test --output_path pages.jsonl --env_model scripted --num_tasks 20
    """
    tracking.logs_to(flags.destination())
    cast = Cast(world=world_of(flags.world), options=options, agent=agent, human=human, seed=flags.seed)
    tasks = tasks_of(flags.input_path, flags.num_tasks, flags.sample_ids, cast.world)
    reasons = simulate(flags, cast, tasks).stop_reasons
    judge_full(reasons[StopReason.CONTEXT_FULL], reasons.total())


def tasks_of(source: str, num_tasks: int | None, sample_ids: str | None, world: World) -> list[Task]:
    """What is played: of the tasks that are named, or of all, the first so many; says how many more there are."""
    endless = not (Path(source).expanduser().is_file() or source.startswith(HUB_REPOSITORY))
    tasks = load_tasks(source, num_tasks=num_tasks if endless and sample_ids is None else None, world=world)
    if sample_ids is not None:
        tasks = chosen_tasks(tasks, sample_ids, source)
    check_tasks(world, tasks, source)
    if num_tasks is not None and num_tasks < len(tasks):
        print(f"{num_tasks:,} of {len(tasks):,} tasks of {source} are played (--num_tasks).")
    elif num_tasks is not None and num_tasks > len(tasks) and "num_tasks" in given_flags.get():
        print(f"{source} has {len(tasks):,} tasks, all of which are played once (--num_tasks {num_tasks}).")
    return tasks[:num_tasks]


@contextmanager
def planned(
    flags: SimulationFlags, cast: Cast, tasks: Sequence[Task], *, repair: str = HOW_TO_MIX
) -> Iterator[tuple[Journal, Run, dict[str, Json]]]:
    """The output file, what is missing in it, and the settings; nothing is written yet.

    `repair` is what a person can do about a file that was made another way.
    """
    cast.check()
    settings = cast.settings()
    episodes = schedule(tasks, flags.repeats, seed=flags.seed)
    with open_journal(flags.output_path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        todo = plan(
            episodes,
            journal.rows,
            settings=settings,
            path=flags.output_path,
            retry_failed=flags.retry == "failed",
            repair=repair,
        )
        if not (journal.rows or flags.overwrite or flags.to_continue):
            cast.options.check_place()
        journal.rows.clear()
        yield journal, todo, settings


def simulate(
    flags: SimulationFlags,
    cast: Cast,
    tasks: Sequence[Task],
    *,
    again: str = "with --to_continue ",
    name: str = "",
    folder: Path | None = None,
    repair: str = HOW_TO_MIX,
) -> Session:
    """Play the missing episodes of the output file, then sort it in the published order.

    Args:
        again: how the same command goes on.
        name: what stands before its numbers over time, if others are there.
        folder: of a command whose output the file is a part of.
        repair: as in `planned`.
    """
    total = len(tasks) * flags.repeats
    with planned(flags, cast, tasks, repair=repair) as (journal, run, settings):
        session = Session(total - len(run.todo), total, quiet=flags.quiet or not run.todo, name=name)

        def begin() -> None:
            """All that may be refused has passed: from now on things are written."""
            tracking.sets(settings)
            if folder is not None:
                tracking.writes(folder, folder=True, continues=True)
            tracking.writes(flags.output_path, continues=flags.to_continue)
            journal.begin()

        async def on_finished(trajectory: Trajectory) -> None:
            await journal.append_soon(trajectory_to_row(trajectory))
            session.add(trajectory)

        async def play() -> None:
            at_once, path = cast.options.at_once(flags.batch_size), Path(flags.output_path)
            samples = {(one.task.task_id, one.seed): one.sample_index for one in run.todo}
            try:
                async with cast.opened(tasks, concurrency=at_once, path=path, samples=samples) as playing:
                    begin()
                    started = time.perf_counter()
                    try:
                        await rollout(
                            run.todo,
                            make_env=playing.make_env,
                            policy=playing.policy,
                            on_finished=on_finished,
                            concurrency=min(at_once, len(run.todo)),
                            provenance=playing.provenance(settings),
                            stats=session.stats,
                            on_progress=session.show,
                        )
                    finally:
                        await journal.flush()
                    session.seconds = time.perf_counter() - started
            finally:
                session.close()

        if run.todo:
            run_until_stopped(play(), flags.output_path, total, noun="episodes", verb="plays", again=again)
        else:
            begin()
        failed = finish(flags.output_path, run.order)
    if session.stop_reasons:
        print(f"{total} episodes are in {flags.output_path}. {session}")
    else:
        print(f"{flags.output_path} is complete: {total} episodes, nothing was left to do.")
    judge_failed(
        len(failed),
        total,
        next((words_of(row["error"]) for row in failed if isinstance(row.get("error"), dict)), "unknown"),
        noun="episodes",
        kept=f"{flags.output_path} stays as it is; the same command {again}plays them again.",
        most=flags.max_failed,
    )
    session.missing = len(failed)
    return session


class Session:
    """What a session of a run has played: a progress bar on standard error, and the words for its end.

    The bar has episodes, the time left, failures, money, tokens and speed; a narrow window cuts the end. `missing` are
    the episodes of the complete file that failed.
    """

    def __init__(self, done: int, total: int, *, quiet: bool, name: str) -> None:
        self.stats = RolloutStats(episodes=done)
        self.stop_reasons: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.first: Failure | None = None
        self.failed = self.turns = self.missing = 0
        self.rewards: list[float] = []
        self.seconds = 0.0
        self._before, self._started = name and f"{name}.", time.perf_counter()
        self._bar = Bar(total, done, unit="episode", quiet=quiet)

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode's end and its failures; the first failure is kept."""
        self.stop_reasons[str(trajectory.stop_reason or "unknown")] += 1
        failures = [*trajectory.failures, *([trajectory.error] if trajectory.error else [])]
        self.failures.update(failure.kind for failure in failures)
        self.first = self.first or next(iter(failures), None)
        self.failed += trajectory.error is not None
        self.turns += sum(entry.role == "assistant" for entry in trajectory.dialogue_history)
        self.rewards += [] if trajectory.reward is None else [trajectory.reward]

    def show(self) -> None:
        """Show the current totals, at most a few times a second."""
        stats, bar = self.stats, self._bar
        if stats.episodes > bar.n:
            numbers = {"turns_per_episode": self.turns / max(1, self.stop_reasons.total())}
            numbers |= {"reward": sum(self.rewards) / len(self.rewards)} if self.rewards else {}
            bar.progress.failed = self.failed
            bar.progress.numbers = {self._before + name: value for name, value in numbers.items()}
        bar.update(stats.episodes - bar.n)
        if bar.disable:
            return
        words = [f"{stats.failures} failures"]
        listener = tracking.current()  # it has counted money, tokens read and written, requests sent again
        used = [row for models in listener.usage().values() for row in models.values()]
        if (cost := listener.cost()) is not None:
            usd = [one for name, one in cost.items() if name.endswith("_usd") and isinstance(one, float)]
            words.append(f"${sum(usd):.2f}" + " and what is unknown" * (not isinstance(cost["usd"], float)))
        counts = [sum(row[name] or 0 for row in used) for name in ("prompt_tokens", "completion_tokens")]
        sizes = (("G", 10**9), ("M", 10**6), ("k", 10**3))
        short = [next((f"{n / size:.3g}{unit}" for unit, size in sizes if n >= size), str(n)) for n in counts]
        words += [f"{short[0]} tokens in, {short[1]} out"] if any(counts) else []
        retries = sum(row["retries"] or 0 for row in used)
        words += [f"{retries} sent again"] if retries else []
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        words.append(f"{stats.turns / elapsed:.1f} turns/s")
        words += [f"{stats.tokens / elapsed:.0f} tokens/s"] if stats.tokens else []
        bar.set_postfix_str(", ".join(words), refresh=False)

    def close(self) -> None:
        self.show()
        self._bar.close()

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.stop_reasons.most_common())
        lines = [
            f"This run: {self.stop_reasons.total()} episodes ({reasons}), {self.stats.turns} turns in "
            f"{self.seconds:.1f} s ({self.stats.turns / self.seconds:.1f} turns/s)."
        ]
        if self.failures:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.failures.most_common())
            lines.append(f"Failures, each recorded in its row: {kinds}. The first: {self.first}")
        if self.stats.thoughts:
            lines.append(
                f"The agent's thoughts, {self.stats.thoughts:,} characters, are recorded beside its turns and shown to no "
                "other participant."
            )
        return "\n".join(lines)
