"""How many steps a second the embedded worlds take, with 1, 16 and 256 episodes at once.

Every world is played by `sweet_rl.rollout` with an agent that costs nothing, so that what is measured is the
world and the loop. The world `nothing` does nothing: its row is the loop alone. A world is measured for about
`--seconds`, after a shorter trial that also warms what there is to warm.

Run: python benchmarks/worlds.py [--worlds webshop,lantern] [--parallel 1,16,256] [--seconds 2]
     [--detective PATH] [--json results/worlds.json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import count, cycle, islice
from pathlib import Path
from random import Random

from _measure import circumstances, heading

from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.contracts import Env, Policy
from sweet_rl.errors import UsageError
from sweet_rl.records import task_from_row
from sweet_rl.rollout import Episode, rollout
from sweet_rl.types import (
    Completion,
    Generation,
    Json,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    Trajectory,
)
from sweet_rl.worlds import load_tasks, world_of

NO_TASK = task_from_row({"task_id": "nothing", "problem_description": "Do nothing.", "ground_truth": ""})
QUESTIONS = (
    "Is it alive?",
    "Is it bigger than a car?",
    "Can you eat it?",
    "Is it made of metal?",
    "Do you find it in a kitchen?",
    "Is it used outdoors?",
    "Does it have wheels?",
    "Is it a kind of fruit?",
)
CITY_QUESTIONS = (
    "What country are you from?",
    "Is your city by the sea?",
    "What is the weather like there?",
    "Which language do people speak?",
    "Is it a capital?",
    "What is your city famous for?",
)


@dataclass(frozen=True)
class World:
    """What is needed to play: tasks, fresh worlds, and what to say at each turn."""

    tasks: list[Task]
    make_env: Callable[[], Env]
    say: Callable[[Observation], str]


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

    def __init__(self, say: Callable[[Observation], str]) -> None:
        self._say = say

    async def act(self, observation: Observation) -> Generation:
        return Generation("", Completion(self._say(observation)))

    async def close(self) -> None:
        pass


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
        pass


@asynccontextmanager
async def nothing(_flags: argparse.Namespace) -> AsyncIterator[World]:
    yield World([NO_TASK], Nothing, lambda _: "nothing")


@asynccontextmanager
async def twenty_questions(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.mini.objects.oracle import ObjectOracle
    from sweet_rl.worlds.twenty_questions.world import TwentyQuestionsEnv

    oracle = ObjectOracle()
    yield World(
        load_tasks("twenty-questions"),
        lambda: TwentyQuestionsEnv(oracle),
        lambda seen: QUESTIONS[(seen.seed + seen.turn) % len(QUESTIONS)],
    )


@asynccontextmanager
async def guess_my_city(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.mini.cities.oracle import CityOracle
    from sweet_rl.worlds.guess_my_city.world import GuessMyCityEnv, guess_my_city_tasks

    oracle, cities = CityOracle(), [row["aliases"] for row in guess_my_city_tasks()]
    yield World(
        load_tasks("guess-my-city"),
        lambda: GuessMyCityEnv(oracle, cities=cities),
        lambda seen: CITY_QUESTIONS[(seen.seed + seen.turn) % len(CITY_QUESTIONS)],
    )


@asynccontextmanager
async def lantern(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.mini.lantern import LanternEnv

    yield World(load_tasks("lantern"), LanternEnv, _any_listed())


@asynccontextmanager
async def detective(flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.worlds.detective.world import DetectiveEnv, open_detective

    interpreters = open_detective(flags.detective)
    try:
        yield World(load_tasks("detective"), lambda: DetectiveEnv(interpreters), _any_listed())
    finally:
        interpreters.close()


@asynccontextmanager
async def dangerous_taxi(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.worlds.dangerous_taxi.game import LABELS, TaxiGame, plan
    from sweet_rl.worlds.text_games import TextGameEnv

    tasks = load_tasks("taxi:full")
    ways = {task.task_id: [LABELS[action] for action in plan(task.row["start"])] for task in tasks}
    yield World(tasks, lambda: TextGameEnv(TaxiGame), lambda seen: ways[seen.task_id][seen.turn])


@asynccontextmanager
async def webshop(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.mini.shop import EmbeddedShop
    from sweet_rl.worlds.webshop.shops import LocalShop
    from sweet_rl.worlds.webshop.world import WebShopEnv

    shop = LocalShop(EmbeddedShop().get)
    yield World(load_tasks("webshop"), lambda: WebShopEnv(shop), _purchase())


@asynccontextmanager
async def webshop_http(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.mini.shop import READY
    from sweet_rl.worlds.webshop.shops import HttpShop
    from sweet_rl.worlds.webshop.world import WebShopEnv

    command = [sys.executable, "-m", "sweet_rl", "serve_shop", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    ready = (await process.stdout.readline()).decode()
    shop = HttpShop(ready.removeprefix(READY).split(" ")[0])
    try:
        yield World(load_tasks("webshop"), lambda: WebShopEnv(shop), _purchase())
    finally:
        await shop.close()
        process.terminate()
        await process.wait()


@asynccontextmanager
async def auto_explore(_flags: argparse.Namespace) -> AsyncIterator[World]:
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories import Library
    from sweet_rl.worlds.text_games import TextGameEnv

    library = Library()

    def say(seen: Observation) -> str:
        offered = offered_commands(seen.messages[-1].content, world_of("auto_explore").learning.head)
        labels = [label for label, command in offered.items() if not command.startswith("id ")]
        return labels[(seen.seed + 7 * seen.turn) % len(labels)]

    yield World(load_tasks("auto-explore"), lambda: TextGameEnv(lambda: ExploreGame(library)), say)


@asynccontextmanager
async def alfworld(_flags: argparse.Namespace) -> AsyncIterator[World]:
    """Ten embedded games on the real engine; the agent takes any action, until the horizon.

    Never the same ones: what an engine was asked before it knows, and that would be measured.
    """
    from sweet_rl.worlds.alfworld.engine import Household
    from sweet_rl.worlds.alfworld.game import HouseholdGame
    from sweet_rl.worlds.text_games import TextGameEnv

    def say(seen: Observation) -> str:
        return draw.choice(
            list(offered_commands(seen.messages[-1].content, world_of("alfworld").learning.head))
        )

    draw = Random(0)
    with Household() as household:
        tasks = load_tasks("alfworld:test")[:10]
        yield World(tasks, lambda: TextGameEnv(lambda: HouseholdGame(household), threaded=True), say)


def _purchase() -> Callable[[Observation], str]:
    """To the product that each task has in mind, with a look at two of its pages: about nine turns."""
    scripts: dict[str, list[str]] = {}
    for task in load_tasks("webshop"):
        goal: Json = json.loads(task.ground_truth)
        words = " ".join([*goal["attributes"], *goal["options"].values()])
        scripts[task.task_id] = [
            f"search[{task.problem_description.split(',')[0]} {words}]",
            f"click[{goal['asin']}]",
            "click[Description]",
            "click[< Prev]",
            "click[Features]",
            "click[< Prev]",
            *(f"click[{value}]" for value in goal["options"].values()),
            "click[Buy Now]",
            "think[It was not on the page.]",
        ]
    return lambda seen: scripts[seen.task_id][min(seen.turn, len(scripts[seen.task_id]) - 1)]


def _any_listed() -> Callable[[Observation], str]:
    from sweet_rl.worlds.adventures import listed_actions

    def say(seen: Observation) -> str:
        actions = listed_actions(seen.messages[-1].content) or ("look",)
        return actions[(seen.seed + 7 * seen.turn) % len(actions)]

    return say


WORLDS: dict[str, Callable[[argparse.Namespace], AbstractAsyncContextManager[World]]] = {
    "nothing": nothing,
    "twenty_questions": twenty_questions,
    "guess_my_city": guess_my_city,
    "lantern": lantern,
    "detective": detective,
    "dangerous_taxi": dangerous_taxi,
    "webshop": webshop,
    "webshop_http": webshop_http,
    "auto_explore": auto_explore,
    "alfworld": alfworld,
}


async def play(world: World, parallel: int, episodes: int) -> tuple[int, int]:
    failed = 0

    async def finished(trajectory: Trajectory) -> None:
        nonlocal failed
        failed += trajectory.error is not None

    numbered = (Episode(task, number, seed=number) for number, task in zip(count(), cycle(world.tasks)))
    policy: Policy = Script(world.say)
    stats = await rollout(
        islice(numbered, episodes),
        make_env=world.make_env,
        policy=policy,
        on_finished=finished,
        concurrency=parallel,
    )
    return stats.turns, failed


async def measure(name: str, flags: argparse.Namespace) -> AsyncIterator[Measured]:
    async with WORLDS[name](flags) as world:
        for parallel in flags.parallel:
            trial = max(parallel, 16)
            await play(world, parallel, trial)  # the first ones are slower
            started = time.perf_counter()
            await play(world, parallel, trial)
            per_episode = (time.perf_counter() - started) / trial
            episodes = parallel * max(1, round(flags.seconds / per_episode / parallel))
            started, cpu_started = time.perf_counter(), time.process_time()
            turns, failed = await play(world, parallel, episodes)
            seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
            yield Measured(
                name, parallel, turns / seconds, 1000 * cpu_s / turns, episodes, turns / episodes, failed
            )


async def table(flags: argparse.Namespace) -> list[Measured]:
    print(heading())
    print("\n| world | at once | steps/s | CPU ms/step | episodes | turns/episode | failed |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name in flags.worlds:
        try:
            async for row in measure(name, flags):
                rows.append(row)
                print(
                    f"| {row.world} | {row.parallel} | {row.steps_per_s:,.0f} | {row.cpu_ms_per_step:.3f} "
                    f"| {row.episodes:,} | {row.turns_per_episode:.1f} | {row.failed} |",
                    flush=True,
                )
        except UsageError as error:
            if flags.named:
                raise
            print(f"| {name} | | not measured: {error} | | | | |", flush=True)
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--worlds",
        type=lambda text: text.split(","),
        help="with commas between; default: all that are installed",
    )
    parser.add_argument(
        "--parallel", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 256]
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--detective", default=os.environ.get("SWEET_RL_DETECTIVE"))
    parser.add_argument("--json")
    flags = parser.parse_args()
    flags.named = flags.worlds is not None
    flags.worlds = flags.worlds or list(WORLDS)
    for name in flags.worlds:
        if name not in WORLDS:
            parser.error(f"--worlds knows {', '.join(WORLDS)}, not {name!r}")
    return flags


if __name__ == "__main__":
    FLAGS = parse()
    ROWS = asyncio.run(table(FLAGS))
    if FLAGS.json:
        RESULT = {**circumstances(), "rows": [asdict(row) for row in ROWS]}
        Path(FLAGS.json).write_text(json.dumps(RESULT, indent=1) + "\n")
