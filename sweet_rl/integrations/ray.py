"""Stages over a Ray cluster (`--fan_out ray`); the only module that knows Ray, imported when workers are opened.

A worker is a process in the cluster that builds its part of a stage once (a model, a sandbox, browsers) and
is asked again and again. When one dies, what it had in hand is asked of another, and a new one is started. On
this side a stand-in has the contract that the stage speaks; files, progress and order stay here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sweet_rl.browsers import RenderedPage, RenderFailed, RenderSettings, open_renderer
from sweet_rl.chat.formats import folder_of
from sweet_rl.commands.evaluate_code import sandbox_of
from sweet_rl.commands.rank_best_of_n import scorers_of
from sweet_rl.errors import ServiceError, SweetRLError, UsageError, first_line, missing_package
from sweet_rl.grading.code import ROUNDS, CodeGrader, Grades
from sweet_rl.grading.hidden_tests import Reference
from sweet_rl.players.cast import Cast
from sweet_rl.preferences.ranking import Scorer
from sweet_rl.tracking import Usage
from sweet_rl.types import AgentTurn, Completion, Score, Task, Trajectory

_ATTEMPTS = 3  # at one piece of work, and at starting workers: what kills three would kill the fourth
_PROBE_S = 5.0  # for a machine of the cluster to accept a connection; Ray itself would wait for a minute
_ANSWERS = 64  # that a worker grades together, at most: enough to keep its sandbox busy, few to do again

Tokens = Sequence[Sequence[int]]
Scores = list[list[list[float]]]
Build = Callable[[], Any]
"""Makes a part, in the worker: an object whose coroutines are asked by name. It may have `facts` to know beforehand."""


class Workers:
    """Processes that answer alike, so that it does not matter which one is asked. Made by `open_workers`."""

    def __init__(
        self, ray: Any, build: Build, *, count: int, each: int, options: dict[str, Any], threads: int
    ) -> None:
        self.count = count
        self._head: tuple[str, str, str] = ray.get_runtime_context().gcs_address.rpartition(":")
        self._watching: asyncio.Task[None] | None = None
        self._errors, self._kill = ray.exceptions, ray.kill
        self._make: Callable[[], Any] = lambda: ray.remote(_Host).options(**options).remote(build, threads)
        self._each = each
        self._actors: list[Any] = []
        self._ready: list[_Worker] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._failed_starts = 0
        self._broken: SweetRLError | None = None
        self.headless = False  # the cluster's head has gone away: nothing can be asked of Ray any more
        self._changed = asyncio.Event()

    async def ask(self, method: str, *args: Any, **named: Any) -> Any:
        """What the part of some worker answers."""
        for _ in range(_ATTEMPTS):
            worker = await self._take(self._each)
            try:
                asked = asyncio.ensure_future(worker.actor.ask.remote(method, args, named))
                await asyncio.wait([asked, *filter(None, [self._watching])], return_when="FIRST_COMPLETED")
                if not asked.done() and self._broken is not None:
                    raise self._broken
                return await asked
            except self._errors.RayTaskError as error:
                if isinstance(error.cause, SweetRLError | RenderFailed):
                    raise error.cause from None
                raise
            except self._errors.RayError as error:
                if await self._lost_head():
                    continue  # and is told so
                if worker in self._ready:  # another takes its place; several calls may find out
                    self._ready.remove(worker)
                    self._actors.remove(worker.actor)
                    with contextlib.suppress(
                        self._errors.RayError
                    ):  # where it is out of reach, it must not stay
                        self._kill(worker.actor, no_restart=True)
                    died = f"The Ray worker {worker.name} has died: {first_line(error).rstrip('.')}."
                    print(f"{died} What it had in hand is done again.", file=sys.stderr)
                    self._start()
            finally:
                worker.in_hand -= 1
                self._changed.set()
        raise ServiceError(
            f"{_ATTEMPTS} Ray workers died over one and the same piece of work, one after the other. Out of "
            "memory? Give a worker less at once, or a larger machine; what is saved is not done again."
        )

    async def facts(self) -> list[Any]:
        """`Part.facts` of the workers that are up; waits for the first one."""
        worker = await self._take(None)
        worker.in_hand -= 1
        return [worker.facts for worker in self._ready]

    def close(self) -> None:
        """End all workers and what they hold."""
        if self._watching is not None:
            self._watching.cancel()
        for actor in () if self.headless else self._actors:  # Ray would wait for its head, a minute for each
            self._kill(actor, no_restart=True)
        self._actors.clear()
        self._ready.clear()

    async def _take(self, most: int | None) -> _Worker:
        """The worker with the least in hand, as soon as one has less than `most`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        while len(self._actors) < self.count and self._broken is None:
            self._start()
        while True:
            if self._broken is not None:
                raise self._broken
            worker = min(self._ready, key=lambda worker: worker.in_hand, default=None)
            if worker is not None and (most is None or worker.in_hand < most):
                worker.in_hand += 1
                return worker
            self._changed.clear()
            await self._changed.wait()

    async def _watch(self) -> None:
        """Ends when the head is gone."""
        while not await self._lost_head():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(_PROBE_S)

    async def _lost_head(self) -> bool:
        """Whether the head is gone. Ray itself waits for it for a minute, in any call, and ends the process then."""
        for _ in range(_ATTEMPTS):
            try:
                async with asyncio.timeout(_PROBE_S):
                    _, writer = await asyncio.open_connection(self._head[0], int(self._head[2]))
                writer.close()
                return False
            except OSError:  # also TimeoutError
                await asyncio.sleep(1)
        self.headless = True
        self._broken = ServiceError(
            f"The head of the Ray cluster, {''.join(self._head)}, does not answer any more. Start it again "
            "(`ray start --head`) with its machines, or pass --ray_address local; then run the same command with "
            "--to_continue: what is saved is not done again."
        )
        self._changed.set()
        return True

    def _start(self) -> None:
        actor = self._make()
        self._actors.append(actor)
        task = asyncio.create_task(self._welcome(actor))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _welcome(self, actor: Any) -> None:
        """Wait until a new worker has built its part."""
        try:
            name, facts = await actor.start.remote()
        except self._errors.RayTaskError as error:
            self._broken = error.cause if isinstance(error.cause, SweetRLError) else None
            self._broken = self._broken or ServiceError(f"A Ray worker could not start: {error}")
        except self._errors.RayError as error:
            if await self._lost_head():
                return
            self._failed_starts += 1
            self._actors.remove(actor)
            if self._failed_starts < _ATTEMPTS:
                self._start()
            else:
                why = first_line(error).rstrip(".")
                self._broken = ServiceError(
                    f"{_ATTEMPTS} Ray workers in a row died before they were ready: {why}"
                )
        else:
            self._failed_starts = 0
            self._ready.append(_Worker(actor, name, facts))
        self._changed.set()


@dataclass(slots=True, eq=False)
class _Worker:
    actor: Any
    name: str
    facts: Any
    in_hand: int = 0


class _Host:
    """What runs in the worker's process: an asynchronous Ray actor around the part."""

    def __init__(self, build: Build, threads: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # Ray has set 1; read when torch is imported
        self._build = build

    async def start(self) -> tuple[str, Any]:
        """What to call this worker, and its part's `facts`."""
        machine = socket.gethostname()
        try:
            made = self._build()
            self._part: Any = await made if inspect.isawaitable(made) else made
        except SweetRLError as error:
            raise UsageError(f"A Ray worker on {machine} could not start: {error}") from None
        return f"{os.getpid()} on {machine}", getattr(self._part, "facts", None)

    async def ask(self, method: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return await getattr(self._part, method)(*args, **named)


@contextmanager
def open_workers(
    flags: Any, build: Build, *, at_once: int | None = None, use_gpus: bool
) -> Iterator[Workers]:
    """Connect to the flags' cluster, outside of an event loop; on leaving, end the workers and the connection."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to Ray's makers
    address = flags.ray_address
    if address != "local":  # one try to connect takes 40 s when the cluster is gone, and Ray makes 20
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        import ray  # half a second, and only for those who use it
    except ImportError as error:
        raise missing_package("ray", "ray", needed_for="--fan_out ray") from error
    ours = not ray.is_initialized()  # else the program that uses us has connected, and continues after us
    try:
        if ours:
            if address not in {"auto", "local"}:
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=_PROBE_S).close()
            local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (OSError, RuntimeError, ValueError) as error:
        why = first_line(error).rstrip(".")
        if "AuthenticationError" in str(error.__cause__):
            token = "RAY_AUTH_MODE=token, and in RAY_AUTH_TOKEN_PATH the file with its head's"
            why = f"it wants a token ({token})"
        raise ServiceError(
            f"The Ray cluster (--ray_address {address}) cannot be reached: {why}. Start one "
            "with `ray start --head` on one machine and `ray start --address=HOST:6379` on the others, all "
            "with the same Python and Ray, and run this command on one of them; or pass --ray_address local."
        ) from error
    try:
        there = ray.cluster_resources()
        cpus, gpus = int(there.get("CPU", 1)), there.get("GPU", 0.0)
        asked = getattr(flags, "ray_gpus_per_worker", None)
        wanted = asked if asked is not None else 1.0 if use_gpus and gpus else 0.0
        if wanted > gpus:
            raise UsageError(f"--ray_gpus_per_worker is {wanted:g}, but the cluster has {gpus:g} GPUs.")
        machines = sum(node["Alive"] and node["Resources"].get("CPU", 0) >= 1 for node in ray.nodes())
        count = flags.ray_workers or (int(gpus / wanted) if wanted else max(1, machines))
        threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or max(1, cpus // count)
        each = -(-(at_once or count) // count)
        options = {"num_gpus": wanted, "max_concurrency": each + 1, "scheduling_strategy": "SPREAD"}
        workers = Workers(ray, build, count=count, each=each, options=options, threads=threads)
        try:
            yield workers
        finally:
            ours = ours and not workers.headless
            workers.close()
    finally:
        if ours:
            ray.shutdown()


def _anywhere(model: str) -> str:
    """A folder by its full path: a worker stands in another one, on a disk that is shared."""
    return str(Path(model).resolve()) if folder_of(model) is None and Path(model).is_dir() else model


def _refuse_servers(engine: str, flag: str) -> None:
    if engine == "openai":  # a server that is already running is not multiplied
        raise UsageError(
            f"--fan_out ray runs copies of a model on the cluster's machines, and {flag} openai runs none. "
            "Leave one of them out; several base URLs spread the requests over several servers."
        )


@dataclass(frozen=True, slots=True)
class RaySampler:
    """A `Sampler` whose prompts are completed by whichever worker has the least to do."""

    workers: Workers
    usage: Usage  # the number of requests; workers do not report tokens

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        self.usage.requests += len(prompts)
        found: list[list[Completion]] = await self.workers.ask("sample", prompts, n, seeds=seeds)
        for _ in found:
            self.usage.add(None, None)
        return found


def sampling_workers(flags: Any, cast: Cast, concurrency: int) -> AbstractContextManager[Workers]:
    """Workers with a policy each, and `concurrency` prompts in flight over all of them."""
    _refuse_servers(cast.engine, "--agent")
    tokenizer = _anywhere(cast.agent.tokenizer) if cast.agent.tokenizer else None
    agent = replace(cast.agent, agent_model=_anywhere(cast.agent.agent_model), tokenizer=tokenizer)
    build = partial(replace(cast, agent=agent).make_policy, [], concurrency)
    return open_workers(flags, build, at_once=concurrency, use_gpus=True)


class ScoringPart:
    """The critic, and perhaps the reference, in a worker."""

    def __init__(self, scorers: Sequence[Scorer], opened: AsyncExitStack) -> None:
        self._scorers = scorers
        self._opened = opened  # lives as long as the worker
        self.facts = [(scorer.has_value_head, scorer.context_length) for scorer in scorers]

    async def score(self, place: int, contexts: Tokens, candidates: Sequence[Tokens]) -> Scores:
        return await self._scorers[place].score(contexts, candidates)


async def _scoring_part(critic: str, reference: str | None, flags: Any) -> ScoringPart:
    opened = AsyncExitStack()
    return ScoringPart(await opened.enter_async_context(scorers_of(critic, reference, flags)), opened)


@dataclass(slots=True)
class RayScorer:
    """A `Scorer`; `place` is the model's among those of the part."""

    workers: Workers
    place: int
    has_value_head: bool
    context_length: int | None

    async def score(self, contexts: Tokens, candidates: Sequence[Tokens]) -> Scores:
        found: Scores = await self.workers.ask("score", self.place, contexts, candidates)
        return found


async def ray_scorers(workers: Workers) -> list[Scorer]:
    """The models of the workers, as this side sees them."""
    facts = (await workers.facts())[0]
    return [RayScorer(workers, place, *known) for place, known in enumerate(facts)]


def scoring_workers(
    flags: Any, critic: str, reference: str | None, scorers: Any
) -> AbstractContextManager[Workers]:
    """Workers with both models each, that score one window of rows at a time."""
    _refuse_servers(scorers.engine, "--engine")
    other = _anywhere(reference) if reference else None
    build = partial(_scoring_part, _anywhere(critic), other, scorers)
    return open_workers(flags, build, use_gpus=True)


class GradingPart:
    """A sandbox in a worker. One call at a time."""

    def __init__(self, flags: Any) -> None:
        self._grader = CodeGrader(sandbox_of(flags))
        self.facts = self._grader.protection

    async def grade(
        self, trajectories: Sequence[Trajectory], ways: Collection[str]
    ) -> list[dict[str, Score]]:
        return await asyncio.to_thread(lambda: list(self._grader.grade_in(ways, trajectories)))

    async def reference_outputs(self, tasks: Sequence[Task]) -> dict[str, Reference]:
        return await asyncio.to_thread(self._grader.reference_outputs, tasks)


@dataclass(frozen=True, slots=True)
class RayGrader:
    """Grades as `CodeGrader` does, in the sandboxes of the workers."""

    workers: Workers
    runner: asyncio.Runner

    @property
    def protection(self) -> str:
        """The layers that are active, for people; of machines that differ, all that there are."""
        return " / ".join(sorted(set(self.runner.run(self.workers.facts()))))

    def grade_all(self, trajectories: Iterable[Trajectory]) -> Iterator[Grades]:
        """All scores for each trajectory, in order; in the rounds of `CodeGrader`, over all machines."""
        bare = []  # an answer and its tests are all that is graded; dialogues are long
        for one in trajectories:
            last = one.last_turn  # without its prompt
            said = (AgentTurn("assistant", last.content),) if last is not None else ()
            bare.append(replace(one, dialogue_history=said, provenance={}, extra={}))
        alone, beside = ROUNDS
        known = [scores for some in self._in_order("grade", bare, alone) for scores in some]
        later = (scores for some in self._in_order("grade", bare, beside) for scores in some)
        for scores, others in zip(known, later, strict=True):
            yield Grades(**scores, **others)

    def reference_outputs(self, tasks: Iterable[Task]) -> dict[str, Reference]:
        found = self._in_order("reference_outputs", list(tasks))
        return {name: outputs for some in found for name, outputs in some.items()}

    def _in_order(self, method: str, items: Sequence[Any], *more: Any) -> Iterator[Any]:
        """Ask for pieces, a few more at once than there are workers; the answers in order. The loop runs while we wait."""
        count = self.workers.count
        size = max(1, min(_ANSWERS, -(-len(items) // (2 * count))))
        begun: deque[asyncio.Task[Any]] = deque()

        async def oldest() -> Any:
            return await begun.popleft()

        for start in range(0, len(items), size):
            work = self.workers.ask(method, items[start : start + size], *more)
            task = self.runner.get_loop().create_task(work)
            # when one has failed, the others' errors are not asked for; asyncio would complain
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            begun.append(task)
            if len(begun) > 2 * count:
                yield self.runner.run(oldest())
        while begun:
            yield self.runner.run(oldest())


@contextmanager
def grader_of(flags: Any) -> Iterator[RayGrader]:
    """A grader of the cluster, ended on leaving."""
    build = partial(GradingPart, flags)
    with open_workers(flags, build, use_gpus=False) as workers, asyncio.Runner() as runner:
        yield RayGrader(workers, runner)


@dataclass(frozen=True, slots=True)
class RayRenderer:
    """A `Renderer` whose pages are drawn by whichever worker has the least to do."""

    workers: Workers

    async def render(self, html: str) -> RenderedPage:
        found: RenderedPage = await self.workers.ask("render", html)
        return found

    async def close(self) -> None:
        """The workers end with `renderer_of`."""


@contextmanager
def renderer_of(flags: Any, settings: RenderSettings, at_once: int) -> Iterator[RayRenderer]:
    """Workers with a few browsers each, and `at_once` pages in flight over all of them."""
    build = partial(open_renderer, settings)
    with open_workers(flags, build, at_once=at_once, use_gpus=False) as workers:
        yield RayRenderer(workers)
