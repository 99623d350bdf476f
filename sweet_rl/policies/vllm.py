"""An agent in a vLLM server that it starts; for a running server use `sweet_rl.policies.openai`.

The server is a child process: started, watched, ended with this process. vLLM itself is not imported: the server runs in
whatever Python environment has it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

from sweet_rl.chat import ChatFormat, TokenizerChat, model_path
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.policies import parent_watchdog
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.types import Completion, Generation, Observation

_HOST = "127.0.0.1"
_POLL_S, _PROGRESS_S, _STOP_S, _DYING_S = 0.25, 5.0, 20.0, 5.0

T = TypeVar("T")


class VLLMServer:
    """Supervises `python -m vllm.entrypoints.openai.api_server` on a free port of the loopback interface.

    The server has a process group of its own, which ends when this process does, however that happens. Its output goes to
    `log_path`, which is kept; `on_progress` is called with a line to show while the model loads.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        python: str | None = None,
        tensor_parallel_size: int = 1,
        data_parallel_size: int = 1,
        args: Sequence[str] = (),
        log_path: str | Path | None = None,
        start_timeout_s: float = 1800.0,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.model = str(model)
        if log_path is None or not str(log_path):
            handle, log_path = tempfile.mkstemp(prefix="sweet_rl-vllm-", suffix=".log")
            os.close(handle)
        self.log_path = Path(log_path)
        self._python = python or sys.executable
        self._args = [
            *("--tensor-parallel-size", str(tensor_parallel_size)),
            *("--data-parallel-size", str(data_parallel_size)),
            *args,
        ]
        self._start_timeout_s = start_timeout_s
        self._on_progress = on_progress
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """Where its OpenAI endpoints are."""
        return f"http://{_HOST}:{self._port}/v1"

    @property
    def running(self) -> bool:
        """Whether the server's process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server and return when it is healthy."""
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            self._port = probe.getsockname()[1]
        self._launch()
        began = shown = time.monotonic()
        try:
            while not (self.running and await self._healthy()):
                now = time.monotonic()
                late = now - began > self._start_timeout_s
                if late or not self.running:
                    slow = f"was not ready after {self._start_timeout_s:g} s"
                    problem = slow if self.running else "did not start"
                    raise ServiceError(f"The vLLM server for {self.model!r} {problem}. {self._log_tail()}")
                if now - shown >= _PROGRESS_S:
                    shown = now
                    last = (self._last_lines(1) or [""])[0]
                    self._on_progress(f"vLLM is loading {self.model} ({now - began:.0f} s): {last}")
                await asyncio.sleep(_POLL_S)
        except BaseException:
            await self.stop()
            raise

    async def check(self) -> None:
        """Raise ServiceError if the server has ended, or ends in a few seconds: its sockets close first."""
        for _ in range(round(_DYING_S / _POLL_S)):
            if not self.running or await self._healthy():
                break
            await asyncio.sleep(_POLL_S)
        if not self.running and self._process is not None:
            raise ServiceError(
                f"The vLLM server for {self.model!r} died (status {self._process.returncode}). {self._log_tail()} "
                "Finished episodes are saved: fix the cause and continue the run."
            )

    async def stop(self) -> None:
        """End the server and every process it started: politely first, after a while not. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _STOP_S)
        finally:
            with suppress(ProcessLookupError, PermissionError):  # the group is empty
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _launch(self) -> None:
        if shutil.which(self._python) is None:
            raise UsageError(f"There is no Python interpreter {self._python!r} to run vLLM with.")
        command = [
            *(self._python, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", model_path(self.model), "--served-model-name", self.model),
            *("--host", _HOST, "--port", str(self._port)),
            *self._args,
        ]
        try:
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(  # the person's own interpreter
                    [sys.executable, parent_watchdog.__file__, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            where = str(self.log_path)
            raise UsageError(f"The log of vLLM cannot be written to {where!r}: {error}") from error

    async def _healthy(self) -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"http://{_HOST}:{self._port}/health") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _log_tail(self) -> str:
        """The end of the log in words, with what to do about the commonest cause."""
        lines, hint = self._last_lines(15), ""
        if any("Available memory" in line for line in self._last_lines(400)):
            hint = (
                "Too little memory is free for the share that vLLM wants. On a CPU set the environment variable "
                'VLLM_CPU_KVCACHE_SPACE=2 (GiB); on a GPU pass --vllm_args="--gpu-memory-utilization 0.5". '
            )
        if any("No module named" in line and "vllm" in line for line in lines):
            where = "install it in an environment of its own and name that environment's interpreter"
            hint = f"{self._python!r} has no vLLM: {where}. "
        return "\n".join([f"{hint}The end of its log ({self.log_path}):", *(f"  {line}" for line in lines)])

    def _last_lines(self, count: int) -> list[str]:
        text = self.log_path.read_bytes()[-65536:].decode("utf-8", "replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


class VLLMPolicy:
    """An agent and the server that it started (`start`), which ends with it."""

    def __init__(self, server: VLLMServer, policy: OpenAIPolicy) -> None:
        self.name = policy.name
        self._server = server
        self.policy = policy

    @classmethod
    async def start(
        cls,
        server: VLLMServer,
        *,
        system_prompt: str | None = None,
        chat_format: ChatFormat | None = None,
        retry: RetryPolicy | None = None,
        max_connections: int = 1000,
        **sampling: Any,
    ) -> VLLMPolicy:
        """Start the server and wait until it is ready; `chat_format` is by default that of the model's tokenizer.

        Raises:
            UsageError: no tokenizer or chat template; no interpreter to run vLLM with.
            ServiceError: the server does not come up.
        """
        chat_format = chat_format or TokenizerChat.from_pretrained(server.model)
        await server.start()
        client = OpenAIClient([server.base_url], retry=retry, direct=True, max_connections=max_connections)
        how = {"system_prompt": system_prompt, "chat_format": chat_format, **sampling}
        return cls(server, OpenAIPolicy(client, server.model, **how))

    async def act(self, observation: Observation) -> Generation:
        """One turn.

        Raises:
            EpisodeError: the dialogue no longer fits the model, or the request failed for good.
            ServiceError: the server has died.
        """
        return await self._supervised(self.policy.act(observation))

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """`n` completions for each prompt, in order; see `OpenAIPolicy.sample`."""
        return await self._supervised(self.policy.sample(prompts, n, seeds=seeds))

    async def close(self) -> None:
        """Close the connections and stop the server."""
        try:
            await self.policy.close()
        finally:
            await self._server.stop()

    async def _supervised(self, call: Awaitable[T]) -> T:
        """What the call gives; an error is the server's, if that is gone."""
        try:
            return await call
        except (EpisodeError, ServiceError):
            await self._server.check()
            raise
