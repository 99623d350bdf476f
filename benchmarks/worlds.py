"""How many steps a second the embedded worlds take, with 1, 16 and 256 episodes at once.

Every world is played by `sweet_rl.rollout` with an agent that costs nothing, so that what is measured is the
world and the loop. The world `nothing` does nothing: its row is the loop alone. A world is measured for about
`--seconds`, after a shorter trial that also warms what there is to warm.

Run: python benchmarks/worlds.py [--worlds webshop,lantern] [--parallel 1,16,256] [--seconds 2]
     [--detective PATH] [--output results/worlds.json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import count, cycle, islice
from random import Random

from _measure import flags, heading, save

from sweet_rl import types
from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.contracts import Env
from sweet_rl.errors import UsageError
from sweet_rl.mini.cities.oracle import CityOracle
from sweet_rl.mini.objects.oracle import ObjectOracle
from sweet_rl.records import task_from_row
from sweet_rl.rollout import Episode, rollout
from sweet_rl.types import Generation, Message, Observation, StepResult, StopReason, Task, Trajectory
from sweet_rl.worlds import load_tasks, world_of

NO_TASK = task_from_row({"task_id": "nothing", "problem_description": "Do nothing.", "ground_truth": ""})
QUESTIONS = (
    *("Is it alive?", "Is it bigger than a car?", "Can you eat it?", "Is it made of metal?"),
    *(
        "Do you find it in a kitchen?",
        "Is it used outdoors?",
        "Does it have wheels?",
        "Is it a kind of fruit?",
    ),
)
CITY_QUESTIONS = (
    *("What country are you from?", "Is your city by the sea?", "What is the weather like there?"),
    *("Which language do people speak?", "Is it a capital?", "What is your city famous for?"),
)

Say = Callable[[Observation], str]
"""What an agent that costs nothing does at each turn."""


@dataclass(frozen=True)
class World:
    """What is needed to play: tasks, fresh worlds, and what to say at each turn."""

    tasks: list[Task]
    make_env: Callable[[], Env]
    say: Say


@dataclass(frozen=True)
class Measured:
    world: str
    parallel: int
    steps_per_s: float
    cpu_ms_per_step: float
    episodes: int
    turns_per_episode: float
    failed: int


class Script:
    name = "script"

    def __init__(self, say: Say) -> None:
        self._say = say

    async def act(self, observation: Observation) -> Generation:
        return Generation("", types.Completion(self._say(observation)))

    async def close(self) -> None:
        """Nothing to free."""


class Nothing:
    """A world of twenty turns in which nothing happens."""

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._seen = Observation(task.task_id, (Message("user", "Well?"),), seed)
        return self._seen

    async def step(self, action: str) -> StepResult:
        messages = (*self._seen.messages, Message("assistant", action), Message("user", "Well?"))
        self._seen = Observation(self._seen.task_id, messages, self._seen.seed)
        if self._seen.turn < 20:
            return StepResult(action, action, self._seen, reward=0.0)
        return StepResult(action, action, self._seen, 0.0, truncated=True, stop_reason=StopReason.TURN_LIMIT)

    async def close(self) -> None:
        """Nothing to free."""


def _asking(questions: Sequence[str]) -> Say:
    return lambda seen: questions[(seen.seed + seen.turn) % len(questions)]


def _any_listed() -> Say:
    """Any of the actions that the world lists."""
    from sweet_rl.worlds.adventures import listed_actions

    def say(seen: Observation) -> str:
        actions = listed_actions(seen.messages[-1].content) or ("look",)
        return actions[(seen.seed + 7 * seen.turn) % len(actions)]

    return say


def _shortest_way() -> Say:
    """So that episodes of the taxi last."""
    from sweet_rl.worlds.dangerous_taxi.game import LABELS, plan

    ways = {
        task.task_id: [LABELS[action] for action in plan(task.row["start"])]
        for task in load_tasks("taxi:full")
    }
    return lambda seen: ways[seen.task_id][seen.turn]


def _any_command(name: str) -> Say:
    """Any command but handing in, until the horizon; never the same ones: what an engine was asked before it knows."""
    draw, head = Random(0), world_of(name).learning.head

    def say(seen: Observation) -> str:
        offered = offered_commands(seen.messages[-1].content, head)
        return draw.choice([label for label, command in offered.items() if not command.startswith("id ")])

    return say


def _purchase() -> Callable[[Observation], str]:
    """To the product that each task has in mind, with a look at two of its pages: about nine turns."""
    scripts: dict[str, list[str]] = {}
    for task in load_tasks("webshop"):
        goal: types.Json = json.loads(task.ground_truth)
        words = " ".join([*goal["attributes"], *goal["options"].values()])
        scripts[task.task_id] = [
            f"search[{task.problem_description.split(',')[0]} {words}]", f"click[{goal['asin']}]",
            "click[Description]", "click[< Prev]", "click[Features]", "click[< Prev]",
            *(f"click[{value}]" for value in goal["options"].values()), "click[Buy Now]",
            "think[It was not on the page.]",
        ]  # fmt: skip
    return lambda seen: scripts[seen.task_id][min(seen.turn, len(scripts[seen.task_id]) - 1)]


PLAYED: dict[str, tuple[str, str, Callable[[], Say]]] = {
    "nothing": ("", "", lambda: lambda _: "nothing"),
    "twenty_questions": ("twenty_questions", "twenty-questions", lambda: _asking(QUESTIONS)),
    "guess_my_city": ("guess_my_city", "guess-my-city", lambda: _asking(CITY_QUESTIONS)),
    "lantern": ("lantern", "lantern", _any_listed),
    "detective": ("detective", "detective", _any_listed),
    "dangerous_taxi": ("taxi", "taxi:full", _shortest_way),
    "webshop": ("webshop", "webshop", _purchase),
    "webshop_http": ("webshop", "webshop", _purchase),
    "auto_explore": ("auto_explore", "auto-explore", lambda: _any_command("auto_explore")),
    "alfworld": ("alfworld", "alfworld:test", lambda: _any_command("alfworld")),
}
"""The world, its tasks, and the agent of each row; of a shop over HTTP the server is a process of its own."""
ORACLES = {"twenty_questions": ObjectOracle, "guess_my_city": CityOracle}


@asynccontextmanager
async def opened(name: str, given: argparse.Namespace) -> AsyncIterator[World]:
    kind, source, say = PLAYED[name]
    if not kind:
        yield World([NO_TASK], Nothing, say())
        return
    options, server = {"place": given.detective} if kind == "detective" else {}, None
    if name == "webshop_http":
        from sweet_rl.mini.shop import READY

        command = [sys.executable, "-m", "sweet_rl", "serve_shop", "--port", "0"]
        server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        ready = (await server.stdout.readline()).decode()  # type: ignore[union-attr]
        options = {"place": ready.removeprefix(READY).split(" ")[0]}
    world = world_of(kind)
    try:
        user = ORACLES[name]() if name in ORACLES else None
        async with world.open(world.options(**options), user) as make_env:
            yield World(load_tasks(source)[: 10 if kind == "alfworld" else None], make_env, say())
    finally:
        if server is not None:
            server.terminate()
            await server.wait()


async def play(world: World, parallel: int, episodes: int) -> tuple[int, int]:
    failed = 0

    async def finished(trajectory: Trajectory) -> None:
        nonlocal failed
        failed += trajectory.error is not None

    numbered = (Episode(task, number, seed=number) for number, task in zip(count(), cycle(world.tasks)))
    stats = await rollout(
        islice(numbered, episodes),
        make_env=world.make_env,
        policy=Script(world.say),
        on_finished=finished,
        concurrency=parallel,
    )
    return stats.turns, failed


async def measure(name: str, given: argparse.Namespace) -> AsyncIterator[Measured]:
    async with opened(name, given) as world:
        for parallel in given.parallel:
            trial = max(parallel, 16)
            await play(world, parallel, trial)  # the first ones are slower
            started = time.perf_counter()
            await play(world, parallel, trial)
            per_episode = (time.perf_counter() - started) / trial
            episodes = parallel * max(1, round(given.seconds / per_episode / parallel))
            started, cpu_started = time.perf_counter(), time.process_time()
            turns, failed = await play(world, parallel, episodes)
            seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
            yield Measured(
                name, parallel, turns / seconds, 1000 * cpu_s / turns, episodes, turns / episodes, failed
            )


async def table(given: argparse.Namespace) -> list[Measured]:
    """Measure, and print each row as soon as it is there."""
    print(heading())
    print("\n| world | at once | steps/s | CPU ms/step | episodes | turns/episode | failed |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name in given.worlds:
        try:
            async for row in measure(name, given):
                rows.append(row)
                print(
                    f"| {row.world} | {row.parallel} | {row.steps_per_s:,.0f} | {row.cpu_ms_per_step:.3f} "
                    f"| {row.episodes:,} | {row.turns_per_episode:.1f} | {row.failed} |",
                    flush=True,
                )
        except UsageError as error:
            if len(given.worlds) < len(PLAYED):  # it was asked for
                raise
            print(f"| {name} | | not measured: {error} | | | | |", flush=True)
    return rows


def parse() -> argparse.Namespace:
    game = os.environ.get("SWEET_RL_DETECTIVE")
    return flags(__doc__, worlds=[*PLAYED], parallel=[1, 16, 256], seconds=2.0, detective=game, output=None)


if __name__ == "__main__":
    GIVEN = parse()
    save(GIVEN.output, rows=[asdict(row) for row in asyncio.run(table(GIVEN))])
