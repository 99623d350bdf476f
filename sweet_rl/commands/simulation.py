"""What `simulate_interactions` does once its flags are known: tasks, parts, loop, file, summary."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sweet_rl
from sweet_rl.commands.parts import AgentFlags, UserFlags, make_policy, make_user
from sweet_rl.commands.running import progress, run_until_stopped
from sweet_rl.contracts import Policy, User
from sweet_rl.envs.backend import BackendEnv
from sweet_rl.envs.parsing import PARSERS
from sweet_rl.errors import UsageError
from sweet_rl.records import Journal, trajectory_to_row
from sweet_rl.rollout import RolloutStats, rollout, schedule
from sweet_rl.runs import Run, finish, open_journal, plan
from sweet_rl.tasks import load_tasks
from sweet_rl.types import Json, Task, Trajectory


@dataclass(frozen=True, slots=True)
class SimulationFlags:
    """The flags of a run that belong neither to the agent nor to the human; see `simulate_interactions`."""

    input_path: str
    output_path: str
    num_tasks: int
    best_of_n: int
    max_steps: int
    concurrency: int
    to_continue: bool
    overwrite: bool
    force_continue: bool
    parser: str
    user_failure: str
    seed: int
    quiet: bool


def run(flags: SimulationFlags, agent: AgentFlags, user: UserFlags) -> None:
    """Play what is missing in the output file, then bring it into the published order.

    Raises:
        SweetRLError: only a person can mend it; what had finished is in the file.
        KeyboardInterrupt: likewise, after saying how to go on.
    """
    if flags.parser not in PARSERS:
        raise UsageError(f"--parser must be one of {', '.join(PARSERS)}, got {flags.parser!r}.")
    if flags.user_failure not in {"reply", "stop"}:
        raise UsageError(f"--user_failure must be reply or stop, got {flags.user_failure!r}.")
    tasks = load_tasks(flags.input_path, limit=flags.num_tasks, seed=0)
    if not tasks:
        raise UsageError(f"{flags.input_path!r} holds no tasks.")
    settings = _settings(flags, agent, user)
    episodes = schedule(tasks, flags.best_of_n, seed=flags.seed)
    with open_journal(flags.output_path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        todo = plan(
            episodes, journal.rows, settings=settings, path=flags.output_path, force=flags.force_continue
        )
        journal.rows.clear()
        stats = RolloutStats(episodes=len(episodes) - len(todo.todo))
        outcome = Outcome()
        if todo.todo:
            work = _simulate(flags, agent, user, tasks, todo, journal, settings, stats, outcome)
            run_until_stopped(work, flags.output_path, len(episodes), noun="episodes", verb="plays")
        finish(flags.output_path, todo)
    _summarise(flags, len(episodes), stats, outcome)


class Outcome:
    """What is said about a run when it is over."""

    def __init__(self) -> None:
        self.stop_reasons: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.seconds = 0.0

    def add(self, trajectory: Trajectory) -> None:
        """Count one finished episode."""
        self.stop_reasons[str(trajectory.stop_reason or "unknown")] += 1
        failures = [*trajectory.failures, *([trajectory.error] if trajectory.error else [])]
        self.failures.update(failure.kind for failure in failures)


async def _simulate(
    flags: SimulationFlags,
    agent: AgentFlags,
    user_flags: UserFlags,
    tasks: Sequence[Task],
    run_: Run,
    journal: Journal,
    settings: dict[str, Json],
    stats: RolloutStats,
    outcome: Outcome,
) -> None:
    bar = ProgressBar(stats, len(run_.order), quiet=flags.quiet)
    user: User | None = None
    policy: Policy | None = None

    async def on_finished(trajectory: Trajectory) -> None:
        await journal.append_soon(trajectory_to_row(trajectory))
        outcome.add(trajectory)

    try:
        user = await make_user(user_flags, concurrency=flags.concurrency)
        policy = await make_policy(agent, tasks, concurrency=flags.concurrency)
        chosen_user = user
        started = time.perf_counter()
        await rollout(
            run_.todo,
            make_env=lambda: BackendEnv(
                chosen_user,
                max_steps=flags.max_steps,
                parser=PARSERS[flags.parser],
                stop_on_user_failure=flags.user_failure == "stop",
            ),
            policy=policy,
            on_finished=on_finished,
            concurrency=min(flags.concurrency, len(run_.todo)),
            provenance={
                "sweet_rl": sweet_rl.__version__,
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
    """Episodes, turns/s, tokens/s, failures and the time left, on standard error."""

    def __init__(self, stats: RolloutStats, total: int, *, quiet: bool) -> None:
        self._stats = stats
        self._started = time.perf_counter()
        self._bar = progress(total, stats.episodes, unit="episode", quiet=quiet)

    def update(self) -> None:
        """Show the current totals, at most a few times a second."""
        if self._bar.disable:
            return
        self._bar.update(self._stats.episodes - self._bar.n)
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        rates = f"{self._stats.turns / elapsed:.1f} turns/s"
        if self._stats.tokens:
            rates += f", {self._stats.tokens / elapsed:.0f} tokens/s"
        self._bar.set_postfix_str(f"{rates}, {self._stats.failures} failures", refresh=False)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self.update()
        self._bar.close()


def _settings(flags: SimulationFlags, agent: AgentFlags, user: UserFlags) -> dict[str, Json]:
    """What decides about the content of an episode: a file may be continued only with the same."""
    return {
        "task_type": "code",
        "max_steps": flags.max_steps,
        "parser": flags.parser,
        "user_failure": flags.user_failure,
        "seed": flags.seed,
        **agent.settings(),
        **user.settings(),
    }


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
        print(f"Failures, each recorded in its row: {kinds}.")
