"""The asynchronous loop against the published lock-step loop, over HTTP, against a server with slow replies.

Both sides play the same episodes with the same number of questions against the simulator server of this
project, whose replies take log-normal time. The published loop is written afresh here: slices of
`concurrency` episodes, rounds in which all wait for the slowest, a thread and a connection for each episode.

The bound is what no loop can beat: the server's total service time divided by the concurrency. How near a
loop can come to it depends on when the rare very slow replies happen to fall; the same draws are therefore
also played by a perfect client in a simulation ("perfect loop"): what is over that is ours.

Run: python benchmarks/rollout.py [--episodes 1024] [--concurrency 64]
"""

from __future__ import annotations

import heapq
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from _measure import flags, heading, show

from sweet_rl.prompts import load_prompt, simulator_prompt
from sweet_rl.types import Message, Task, UserContext
from sweet_rl.users.protocol import FaultProfile
from sweet_rl.users.server import start_server
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.dialogue import parse_published

ROOT = Path(__file__).resolve().parent.parent
MAX_STEPS = 6


@dataclass(frozen=True)
class Measured:
    """One side: wall-clock and CPU seconds of the client, service seconds of the server, turns played."""

    wall_s: float
    cpu_s: float
    service_s: float
    turns: int


class LockStepEpisode:
    """One environment of the published loop: its own connection, stepped by a thread."""

    def __init__(self, task: Task, address: tuple[str, int], template: str) -> None:
        self.task, self.template = task, template
        self.connection = http.client.HTTPConnection(*address)
        self.messages = [Message("user", task.problem_description)]
        self.history: list[dict[str, str]] = [{"role": "user", "content": task.problem_description}]
        self.done = False

    def step(self, response: str) -> None:
        parsed = parse_published(response)
        self.messages.append(Message("assistant", parsed.visible))
        self.history.append(
            {"role": "assistant", "content": parsed.visible, "input": "", "output": parsed.output}
        )
        if parsed.answer is not None or len(self.messages) >= 2 * MAX_STEPS:
            self.done = True
            return
        task = self.task
        context = UserContext(task.problem_description, task.hidden_information, tuple(self.messages))
        prompt = simulator_prompt(self.template, context)
        body = {
            "model": "scripted",
            "max_tokens": 4096,
            "temperature": 0,
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": prompt},
            ],
        }
        self.connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        reply = json.loads(self.connection.getresponse().read())["choices"][0]["message"]["content"]
        self.messages.append(Message("user", reply[:400]))
        self.history.append({"role": "user", "content": reply[:400]})


def scripted_response(episode: LockStepEpisode) -> str:
    """The same number of questions as our side's questioner asks; what they say costs nothing here."""
    turn = len(episode.messages) // 2
    return f"What about case {turn}?" if turn < MAX_STEPS - 1 else "I WANT TO ANSWER:\npass"


def lock_step(tasks: list[Task], base_url: str, concurrency: int, output: Path) -> int:
    """The published loop: rounds of the agent on the whole batch and a thread for each episode."""
    template = load_prompt("human_simulator_code_prompt.txt")
    parts = urlsplit(base_url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    rows: list[dict[str, object]] = []
    turns = 0
    with ThreadPoolExecutor(concurrency) as pool:
        for start in range(0, len(tasks), concurrency):
            batch = [LockStepEpisode(task, address, template) for task in tasks[start : start + concurrency]]
            for _ in range(MAX_STEPS + 1):
                active = [episode for episode in batch if not episode.done]
                responses = [scripted_response(episode) for episode in active]
                list(pool.map(LockStepEpisode.step, active, responses))
                turns += len(active)
            rows += [{"task": dict(e.task.row), "dialogue_history": e.history, "answer": ""} for e in batch]
            output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return turns


def measure_lock_step(
    tasks: list[Task], concurrency: int, latency: dict[str, float], folder: Path
) -> Measured:
    with start_server(**latency) as server:
        started, cpu_started = time.perf_counter(), time.process_time()
        turns = lock_step(tasks, server.base_url, concurrency, folder / "lock_step.jsonl")
        wall = time.perf_counter() - started
        cpu_s = time.process_time() - cpu_started
        return Measured(wall, cpu_s, service_seconds(server.base_url), turns)


def measure_ours(tasks: int, concurrency: int, latency: dict[str, float], folder: Path) -> Measured:
    with start_server(**latency) as server:
        command = [sys.executable, str(ROOT / "scripts/simulate_interactions.py")]
        flags = {
            "input_path": folder / "tasks.jsonl", "output_path": folder / "ours.jsonl",
            "agent_model": "questioner", "num_questions": MAX_STEPS - 1, "max_steps": MAX_STEPS,
            "num_tasks": tasks, "env_base_url": server.base_url, "env_model": "scripted",
            "batch_size": concurrency,
        }  # fmt: skip
        for flag, value in flags.items():
            command += [f"--{flag}", str(value)]
        with (folder / "said").open("w+") as said:
            process = subprocess.Popen([*command, "--quiet"], stdout=said)
            _, status, usage = os.wait4(process.pid, 0)
            said.seek(0)
            match = re.search(r"turns in ([0-9.]+) s", said.read())
        if status or match is None:
            sys.exit(f"simulate_interactions.py ended with status {status}")
        wall = float(match.group(1))
        turns = sum(
            message["role"] == "assistant"
            for line in (folder / "ours.jsonl").read_text().splitlines()
            for message in json.loads(line)["dialogue_history"]
        )
        return Measured(wall, usage.ru_utime + usage.ru_stime, service_seconds(server.base_url), turns)


def perfect_over_bound(episodes: int, concurrency: int, latency: dict[str, float]) -> float:
    """How far over the bound a client without any cost of its own ends, with the same draws."""
    weather = FaultProfile(
        latency_median_ms=latency["latency_median_ms"], latency_sigma=latency["latency_sigma"], seed=0
    )
    draws = (weather.draw(number)[0] for number in itertools.count())
    pending = [(0.0, place, 0) for place in range(concurrency)]  # when, whose, replies so far
    total, begun, end = 0.0, concurrency, 0.0
    while pending:
        now, place, replies = heapq.heappop(pending)
        end = max(end, now)
        if replies == MAX_STEPS - 1:
            if begun == episodes:
                continue
            begun, replies = begun + 1, 0
        seconds = next(draws)
        total += seconds
        heapq.heappush(pending, (now + seconds, place, replies + 1))
    return end / (total / concurrency) - 1


def service_seconds(base_url: str) -> float:
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/stats") as response:
        return float(json.load(response)["service_s"])


def main() -> None:
    given = flags(__doc__, episodes=1024, concurrency=64, latency_median_ms=200.0, latency_sigma=1.0)
    latency = {name: value for name, value in vars(given).items() if name.startswith("latency")} | {"seed": 0}
    print(heading())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = load_tasks("mini:train", num_tasks=given.episodes)
        (folder / "tasks.jsonl").write_text("".join(json.dumps(dict(task.row)) + "\n" for task in tasks))
        ours = measure_ours(given.episodes, given.concurrency, latency, folder)
        published = measure_lock_step(tasks, given.concurrency, latency, folder)
    print(
        f"\n{given.episodes} episodes of up to {MAX_STEPS} turns, {given.concurrency} at a time, "
        f"replies log-normal (median {given.latency_median_ms:g} ms, sigma {given.latency_sigma:g})\n"
    )
    rows = []
    for label, side in (("published lock-step", published), ("sweet_rl", ours)):
        bound = side.service_s / given.concurrency
        seconds = [f"{side.wall_s:.1f}", f"{bound:.1f}", f"{100 * (side.wall_s / bound - 1):.1f} %"]
        rows.append(
            [label, *seconds, f"{side.turns / side.wall_s:.1f}", f"{1000 * side.cpu_s / side.turns:.2f}"]
        )
    perfect = perfect_over_bound(given.episodes, given.concurrency, latency)
    rows.append(["perfect loop", "", "", f"{100 * perfect:.1f} %", "", ""])
    show(("loop", "wall s", "bound s", "over bound", "turns/s", "client CPU ms/turn"), rows)
    print(f"\nsweet_rl is {published.wall_s / ours.wall_s:.1f} times as fast as the published loop.")


if __name__ == "__main__":
    main()
