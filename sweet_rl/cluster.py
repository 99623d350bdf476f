"""Workers on a Ray cluster; the only module that knows Ray. It does not know what its workers do.

A worker is a process somewhere in the cluster that builds its part once (a model, a sandbox) and is then
asked again and again. When one dies, what it had in hand is asked of another, and a new one is started in its
place. Importing this module does not import Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from sweet_rl.errors import ServiceError, SweetRLError, UsageError, missing_package

_ATTEMPTS = (
    3  # at one piece of work, and at starting workers in a row: what kills three would kill the fourth
)
_PROBE_S = 5.0  # for a machine of the cluster to accept a connection; Ray itself would wait for a minute

_PATIENCE_S = 60.0  # for workers to come up in silence


class _HeadGone(ServiceError):
    """The cluster has no head any more."""


class Part(Protocol):
    """What every worker builds once. It is asked by name of a coroutine, with what can be pickled."""

    @property
    def facts(self) -> Any:
        """What the one who asks should know of it beforehand."""
        ...


Build = Callable[[], Awaitable[Part]]
"""Makes the part, in the worker. It travels there by pickle, so the code must be installed there, too."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster, and how much of it.

    Args:
        address: "auto" (the one that RAY_ADDRESS names, or that runs on this machine), "local" (one of our
            own on this machine, for this run), or HOST:PORT of the head.
        workers: processes; default as many as the GPUs allow, without GPUs one on each machine.
        gpus_per_worker: may be a fraction; default 1 where there are GPUs and parts can use them.
    """

    address: str = "auto"
    workers: int | None = None
    gpus_per_worker: float | None = None


class Workers:
    """Processes that answer alike, so that it does not matter which one is asked. Made by `open_workers`."""

    def __init__(
        self,
        ray: Any,
        build: Build,
        *,
        count: int,
        each: int,
        options: dict[str, Any],
        threads: int,
        say: Callable[[str], None],
    ) -> None:
        self.count = count
        self._head: tuple[str, str, str] = ray.get_runtime_context().gcs_address.rpartition(":")
        self._watching: asyncio.Task[None] | None = None
        self._errors = ray.exceptions
        self._kill = ray.kill
        self._make: Callable[[], Any] = lambda: ray.remote(_Host).options(**options).remote(build, threads)
        self._each = each
        self._say = say
        self._actors: list[Any] = []
        self._ready: list[_Worker] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._failed_starts = 0
        self._broken: SweetRLError | None = None
        self._changed = asyncio.Event()

    async def ask(self, method: str, *args: Any) -> Any:
        """What the part of some worker answers."""
        for _ in range(_ATTEMPTS):
            worker = await self._take(self._each)
            try:
                asked = asyncio.ensure_future(worker.actor.ask.remote(method, args))
                await asyncio.wait([asked, *filter(None, [self._watching])], return_when="FIRST_COMPLETED")
                if not asked.done() and self._broken is not None:
                    raise self._broken
                return await asked
            except self._errors.RayTaskError as error:
                if isinstance(error.cause, SweetRLError):
                    raise error.cause from None
                raise
            except self._errors.RayError as error:
                if await self._lost_head():
                    continue  # and is told so
                self._lose(worker, error)
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

    @property
    def headless(self) -> bool:
        """Whether the cluster's head has gone away: nothing can be asked of Ray any more."""
        return isinstance(self._broken, _HeadGone)

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
        self._broken = _HeadGone(
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
            started = asyncio.ensure_future(actor.start.remote())
            await asyncio.wait([started], timeout=_PATIENCE_S)
            if not started.done() and not self._ready:
                self._say(
                    f"No Ray worker is up after {_PATIENCE_S:g} s: models are loading, or the cluster has no "
                    "room for one now (see `ray status`). Waiting."
                )
            name, facts = await started
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
                self._broken = ServiceError(
                    f"{_ATTEMPTS} Ray workers in a row died before they were ready: {_first_line(error)}"
                )
        else:
            self._failed_starts = 0
            self._ready.append(_Worker(actor, name, facts))
        self._changed.set()

    def _lose(self, worker: _Worker, error: Exception) -> None:
        """A worker does not answer any more: another one takes its place. Several calls may find out."""
        if worker not in self._ready:
            return
        self._ready.remove(worker)
        self._actors.remove(worker.actor)
        with contextlib.suppress(self._errors.RayError):  # where it is only out of reach, it must not stay
            self._kill(worker.actor, no_restart=True)
        self._say(
            f"The Ray worker {worker.name} has died: {_first_line(error)}. What it had in hand is done again."
        )
        self._start()


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker that is up."""

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
        """Build the part; return what to call this worker, and the part's facts."""
        machine = socket.gethostname()
        try:
            self._part: Any = await self._build()
        except SweetRLError as error:
            raise UsageError(f"A Ray worker on {machine} could not start: {error}") from None
        return f"{os.getpid()} on {machine}", self._part.facts

    async def ask(self, method: str, args: tuple[Any, ...]) -> Any:
        """Call a method of the part and return what it returns."""
        return await getattr(self._part, method)(*args)


@contextmanager
def open_workers(
    cluster: Cluster,
    build: Build,
    *,
    at_once: int | None = None,
    use_gpus: bool,
    say: Callable[[str], None],
) -> Iterator[Workers]:
    """Connect to a cluster; on leaving, end the workers and the connection.

    To be entered outside of an event loop: Ray puts itself in the place of signal handlers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to Ray's makers
    if cluster.address != "local":  # one try to connect takes 40 s when the cluster is gone, and Ray makes 20
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        import ray  # half a second, and only for those who use it
    except ImportError as error:
        raise missing_package("ray", "ray", needed_for="--fan_out ray") from error
    ours = not ray.is_initialized()  # else the program that uses us has connected, and continues after us
    if ours:
        _connect(ray, cluster.address)
    try:
        gpus, count, threads = _layout(ray, cluster, use_gpus=use_gpus)
        each = -(-(at_once or count) // count)
        options = {"num_gpus": gpus, "max_concurrency": each + 1, "scheduling_strategy": "SPREAD"}
        workers = Workers(ray, build, count=count, each=each, options=options, threads=threads, say=say)
        try:
            yield workers
        finally:
            ours = ours and not workers.headless
            workers.close()
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        if address not in {"auto", "local"}:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_PROBE_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (OSError, RuntimeError, ValueError) as error:
        raise ServiceError(
            f"The Ray cluster (--ray_address {address}) cannot be reached: {_why(error)}. Start one "
            "with `ray start --head` on one machine and `ray start --address=HOST:6379` on the others, all "
            "with the same Python and Ray, and run this command on one of them; or pass --ray_address local."
        ) from error


def _why(error: Exception) -> str:
    if "AuthenticationError" in str(error.__cause__):
        return "it wants a token (RAY_AUTH_MODE=token, and in RAY_AUTH_TOKEN_PATH the file with its head's)"
    return _first_line(error)


def _layout(ray: Any, cluster: Cluster, *, use_gpus: bool) -> tuple[float, int, int]:
    """GPUs of one worker, number of workers, threads of each."""
    there = ray.cluster_resources()
    cpus, gpus = int(there.get("CPU", 1)), there.get("GPU", 0.0)
    wanted = cluster.gpus_per_worker
    if wanted is None:
        wanted = 1.0 if use_gpus and gpus else 0.0
    if wanted > gpus:
        raise UsageError(f"--ray_gpus_per_worker is {wanted:g}, but the cluster has {gpus:g} GPUs.")
    machines = sum(node["Alive"] and node["Resources"].get("CPU", 0) >= 1 for node in ray.nodes())
    count = cluster.workers or (int(gpus / wanted) if wanted else max(1, machines))
    return wanted, count, int(os.environ.get("OMP_NUM_THREADS", "0")) or max(1, cpus // count)


def _first_line(error: BaseException) -> str:
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__).rstrip(".")
