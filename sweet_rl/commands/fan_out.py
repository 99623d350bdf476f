"""Stages over a cluster: the flags for it, and the part of each stage that runs there.

Each stage has a part, which every worker builds once and which does what the stage would do in this process,
and a stand-in on this side with the contract that the stage speaks: `Sampler`, `Scorer`, `Renderer`, or that
of `CodeGrader`. Files, progress and order stay on this side. A further stage adds a part and a stand-in.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sweet_rl import tracking
from sweet_rl.browsers import RenderedPage, RenderFailed, RenderSettings, open_renderer
from sweet_rl.browsers.service import RenderService
from sweet_rl.chat.names import folder_of
from sweet_rl.cluster import Cluster, Workers, open_workers
from sweet_rl.commands.agent_flags import Player
from sweet_rl.commands.parts import make_policy
from sweet_rl.commands.rank_best_of_n import ScorerFlags
from sweet_rl.commands.scorers import scorers_of
from sweet_rl.contracts import Sampler
from sweet_rl.errors import UsageError
from sweet_rl.flags.common import FanOut
from sweet_rl.grading.code import ROUNDS, CodeGrader, Grades, grades_of
from sweet_rl.grading.hidden_tests import Reference
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.preferences.ranking import LoadedScorer
from sweet_rl.tracking import Usage
from sweet_rl.types import AgentTurn, Completion, Failure, Score, Task, Trajectory

if TYPE_CHECKING:
    from sweet_rl.commands.evaluate_code import SandboxFlags

_ANSWERS = 64
"""Answers that a worker grades together, at most: enough to keep its sandbox busy, few to do again."""


def cluster_of(flags: FanOut) -> Cluster | None:
    """The cluster that the flags ask for; None for this process."""
    if flags.fan_out == "local":
        return None
    return Cluster(flags.ray_address, flags.ray_workers, getattr(flags, "ray_gpus_per_worker", None))


def _refuse_servers(engine: str, flag: str) -> None:
    """A server that is already running is not multiplied."""
    if engine == "openai":
        raise UsageError(
            f"--fan_out ray runs copies of a model on the cluster's machines, and {flag} openai runs none. "
            "Leave one of them out; several base URLs spread the requests over several servers."
        )


@dataclass(frozen=True, slots=True)
class SamplingPart:
    """The policy that a worker process loads."""

    policy: Any
    facts: None = None

    async def sample(
        self, prompts: Sequence[str], n: int, seeds: Sequence[int] | None
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prompt; contract: `sweet_rl.contracts.Sampler`."""
        return await cast(Sampler, self.policy).sample(prompts, n, seeds=seeds)


async def _sampling_part(agent: Player, concurrency: int) -> SamplingPart:
    return SamplingPart(await make_policy(agent, [], concurrency=concurrency))


@dataclass(frozen=True, slots=True)
class RaySampler:
    """A `Sampler` whose prompts are completed by whichever worker has the least to do."""

    workers: Workers
    usage: Usage = field(default_factory=lambda: tracking.meter("", "agent"))
    """Number of requests; workers do not report tokens."""

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """Sample on the workers, and count the requests; contract: `sweet_rl.contracts.Sampler`."""
        self.usage.requests += len(prompts)
        found: list[list[Completion]] = await self.workers.ask("sample", prompts, n, seeds)
        for _ in found:
            self.usage.add(None, None)
        return found


def sampling_workers(cluster: Cluster, agent: Player, concurrency: int) -> AbstractContextManager[Workers]:
    """Workers with a policy each, and `concurrency` prompts in flight over all of them."""
    _refuse_servers(agent.engine(), "--agent")
    tokenizer = _anywhere(agent.flags.tokenizer) if agent.flags.tokenizer else None
    agent = agent.changed(agent_model=_anywhere(agent.model), tokenizer=tokenizer)
    return open_workers(
        cluster,
        partial(_sampling_part, agent, concurrency),
        at_once=concurrency,
        use_gpus=True,
        say=_say,
    )


class ScoringPart:
    """The critic, and perhaps the reference, in a worker."""

    def __init__(self, scorers: Sequence[LoadedScorer], opened: AsyncExitStack) -> None:
        self._scorers = scorers
        self._opened = opened  # lives as long as the worker
        self.facts = [(scorer.has_value_head, scorer.context_length) for scorer in scorers]

    async def score(
        self,
        place: int,
        contexts: Sequence[Sequence[int]],
        candidates: Sequence[Sequence[Sequence[int]]],
    ) -> list[list[list[float]]]:
        """Under the model at `place`; see `sweet_rl.preferences.ranking.Scorer`."""
        return await self._scorers[place].score(contexts, candidates)


async def _scoring_part(critic: str, reference: str | None, flags: ScorerFlags) -> ScoringPart:
    opened = AsyncExitStack()
    return ScoringPart(await opened.enter_async_context(scorers_of(critic, reference, flags)), opened)


@dataclass(slots=True)
class RayScorer:
    """A `LoadedScorer`; `place` is the model's among those of the part."""

    workers: Workers
    place: int
    has_value_head: bool
    context_length: int | None

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """See `sweet_rl.preferences.ranking.Scorer`; all of it is scored by one worker."""
        found: list[list[list[float]]] = await self.workers.ask("score", self.place, contexts, candidates)
        return found


async def ray_scorers(workers: Workers) -> list[LoadedScorer]:
    """The models of the workers, as this side sees them."""
    facts = (await workers.facts())[0]
    return [RayScorer(workers, place, *known) for place, known in enumerate(facts)]


def scoring_workers(
    cluster: Cluster, critic: str, reference: str | None, flags: ScorerFlags
) -> AbstractContextManager[Workers]:
    """Workers with both models each, that score one window of rows at a time."""
    _refuse_servers(flags.engine, "--engine")
    reference = _anywhere(reference) if reference else None
    build = partial(_scoring_part, _anywhere(critic), reference, flags)
    return open_workers(cluster, build, use_gpus=True, say=_say)


def _sandbox(flags: SandboxFlags) -> Sandbox:
    """A sandbox with these limits, started; the caller closes it."""
    return Sandbox(
        workers=flags.workers,
        timeout_s=flags.test_timeout_s,
        memory_mb=flags.memory_mb,
        unsafe_no_sandbox=flags.unsafe_no_sandbox,
    )


class GradingPart:
    """A sandbox in a worker. One call at a time."""

    def __init__(self, flags: SandboxFlags) -> None:
        self._grader = CodeGrader(_sandbox(flags))
        self.facts = self._grader.protection

    async def grade(
        self, trajectories: Sequence[Trajectory], ways: Collection[str]
    ) -> list[dict[str, Score]]:
        """Grade in a thread, one score for each way and trajectory, as `CodeGrader.grade_in`."""
        return await asyncio.to_thread(lambda: list(self._grader.grade_in(ways, trajectories)))

    async def reference_outputs(self, tasks: Sequence[Task]) -> dict[str, Reference]:
        """Compute the references' values in a thread, as `CodeGrader.reference_outputs`."""
        return await asyncio.to_thread(self._grader.reference_outputs, tasks)


async def _grading_part(flags: SandboxFlags) -> GradingPart:
    return GradingPart(flags)


class RayGrader:
    """Grades as `CodeGrader` does, in the sandboxes of the workers."""

    def __init__(self, workers: Workers, runner: asyncio.Runner) -> None:
        self._workers = workers
        self._runner = runner

    @property
    def protection(self) -> str:
        """The layers that are active, for people; of machines that differ, all that there are."""
        return " / ".join(sorted(set(self._runner.run(self._workers.facts()))))

    def grade_all(self, trajectories: Iterable[Trajectory]) -> Iterator[Grades]:
        """All scores for each trajectory, in order; in the rounds of `CodeGrader`, over all machines."""
        # an answer and its tests are all that is graded; dialogues are long
        bare = [
            replace(one, dialogue_history=_last_words(one), provenance={}, extra={}) for one in trajectories
        ]
        alone, beside = ROUNDS
        known = [scores for some in self._in_order("grade", bare, alone) for scores in some]
        later = (scores for some in self._in_order("grade", bare, beside) for scores in some)
        for scores, others in zip(known, later, strict=True):
            yield grades_of(scores | others)

    def reference_outputs(self, tasks: Iterable[Task]) -> dict[str, Reference]:
        """What the reference functions give for their tests, by `task_id`."""
        outputs: dict[str, Reference] = {}
        for found in self._in_order("reference_outputs", list(tasks)):
            outputs |= found
        return outputs

    def _in_order(self, method: str, items: Sequence[Any], *more: Any) -> Iterator[Any]:
        """Ask for pieces, a few more at once than there are workers; yield the answers in order.

        The event loop runs while we wait; between two answers the workers continue.
        """
        count = self._workers.count
        size = max(1, min(_ANSWERS, -(-len(items) // (2 * count))))
        begun: deque[asyncio.Task[Any]] = deque()
        loop = self._runner.get_loop()
        for start in range(0, len(items), size):
            task = loop.create_task(self._workers.ask(method, items[start : start + size], *more))
            # when one has failed, the others' errors are not asked for; asyncio would complain
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            begun.append(task)
            if len(begun) > 2 * count:
                yield self._runner.run(_result(begun.popleft()))
        while begun:
            yield self._runner.run(_result(begun.popleft()))


def _last_words(trajectory: Trajectory) -> tuple[AgentTurn, ...]:
    """The agent's last message, without the prompt."""
    last = trajectory.last_turn
    return (AgentTurn("assistant", last.content),) if last is not None else ()


async def _result(task: asyncio.Task[Any]) -> Any:
    return await task


@contextmanager
def grader_of(cluster: Cluster | None, flags: SandboxFlags) -> Iterator[CodeGrader | RayGrader]:
    """A grader of this machine or of the cluster, ended on leaving."""
    if cluster is None:
        with _sandbox(flags) as sandbox:
            yield CodeGrader(sandbox)
        return
    build = partial(_grading_part, flags)
    with (
        open_workers(cluster, build, use_gpus=False, say=_say) as workers,
        asyncio.Runner() as runner,
    ):
        yield RayGrader(workers, runner)


@dataclass(frozen=True, slots=True)
class RenderingPart:
    """The browsers that a worker process runs."""

    service: RenderService

    @property
    def facts(self) -> str:
        """What keeps pages from the network, in words for the report."""
        return self.service.protection

    async def render(self, html: str) -> RenderedPage | Failure:
        """See `sweet_rl.browsers.Renderer`; a page without picture is an answer, too."""
        try:
            return await self.service.render(html)
        except RenderFailed as error:
            return error.failure


async def _rendering_part(settings: RenderSettings) -> RenderingPart:
    return RenderingPart(open_renderer(settings))


@dataclass(frozen=True, slots=True)
class RayRenderer:
    """A `Renderer` whose pages are drawn by whichever worker has the least to do."""

    workers: Workers

    async def render(self, html: str) -> RenderedPage:
        """Render on a worker; raises `RenderFailed` with the reason where that fails."""
        found: RenderedPage | Failure = await self.workers.ask("render", html)
        if isinstance(found, Failure):
            raise RenderFailed(found)
        return found

    async def close(self) -> None:
        """Do nothing: the workers end with `rendering_workers`."""


def rendering_workers(
    cluster: Cluster, settings: RenderSettings, at_once: int
) -> AbstractContextManager[Workers]:
    """Workers with a few browsers each, and `at_once` pages in flight over all of them."""
    build = partial(_rendering_part, settings)
    return open_workers(cluster, build, at_once=at_once, use_gpus=False, say=_say)


def _anywhere(model: str) -> str:
    """A folder by its full path: a worker stands in another one, on a disk that is shared."""
    return str(Path(model).resolve()) if folder_of(model) is None and Path(model).is_dir() else model


def _say(words: str) -> None:
    print(words, file=sys.stderr)
