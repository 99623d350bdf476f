"""Whether `credit measure` is right: intervals of turns' worth against exact values, summed over all paths.

A tiny decision process takes two to four turns of three words; the policy draws each with probabilities that are
known, and the reward of each path is drawn for the task. `fixed`: every state is played on so many times. `stopped`:
continuations go where intervals are widest, until they have the wanted half-width; such intervals may cover less.

Run: python benchmarks/credit.py [--tasks 1200] [--continuations 8 32] [--target 0.1] [--output FILE]
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from statistics import fmean
from typing import Any

from _measure import flags, heading, save, show

from sweet_rl import BaseEnv, World, simulate
from sweet_rl.credit.measured import Plan, Recorder
from sweet_rl.players import PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.preferences.credit import own_turns
from sweet_rl.types import Observation, StepResult, Trajectory
from sweet_rl.worlds import Scores, TaskLists

WORDS = ("left", "right", "stop")


class Chance(World):
    """Words until one is `stop`, or there were `depth` of them; the path decides the reward."""

    name, max_turns, agents = "chance", 4, {"drawn": {}, "first": {}}
    tasks = TaskLists("chance:train", "chance:test")
    scores = Scores(lowest=0.0, highest=1.0, success_return=0.5)

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Any:
        for number in range(limit or 50):
            solution = json.dumps({"number": number, "depth": 2 + number % 3})
            yield {
                "task_id": f"chance/{number}",
                "problem_description": f"Task {number}.",
                "ground_truth": solution,
            }

    def make_env(self, options: Any, user: Any) -> ChanceEnv:
        return ChanceEnv(self.turns(options))

    async def make_agent(self, wanted: Any) -> TeacherPolicy:
        return TeacherPolicy(draw if wanted.name == "drawn" else lambda seen: WORDS[0], name=wanted.name)


class ChanceEnv(BaseEnv):
    async def turn(self, action: str) -> StepResult:
        told = json.loads(self.task.ground_truth)
        path = tuple(one.content for one in self.messages if one.role == "assistant")
        if is_over(path, told["depth"]):
            return self.respond(reward=reward_of(told["number"], path), terminated=True)
        return self.respond("Go on.", 0.0)


def is_over(path: Sequence[str], depth: int) -> bool:
    return len(path) == depth or path[-1:] == ("stop",)


def reward_of(number: int, path: Sequence[str]) -> float:
    """Mostly tenths; in every third task 0 or 1."""
    draw = Random(f"{number} {path}").random()
    return float(draw < 0.5) if number % 3 == 0 else round(draw, 1)


def odds_of(number: int, path: Sequence[str]) -> tuple[float, ...]:
    """The probabilities of the words; here and there one is nearly sure."""
    rng = Random(f"odds {number} {path}")
    weights = [rng.random() ** rng.choice((1, 1, 4)) + 0.02 for _ in WORDS]
    return tuple(one / sum(weights) for one in weights)


def draw(seen: Observation) -> str:
    number = int(seen.task_id.partition("/")[2])
    path = tuple(one.content for one in seen.messages if one.role == "assistant")
    return Random(f"{seen.seed} {seen.turn}").choices(WORDS, odds_of(number, path))[0]


@cache
def exact(number: int, path: tuple[str, ...]) -> float:
    """The value of a state: the mean reward of all paths on from it."""
    if is_over(path, 2 + number % 3):
        return reward_of(number, path)
    both = zip(WORDS, odds_of(number, path), strict=True)
    return math.fsum(odds * exact(number, (*path, word)) for word, odds in both)


def measured(
    recorded: Sequence[Trajectory], plan: Plan, seed: int = 0, **how: Any
) -> tuple[list[dict[str, Any]], Recorder]:
    """The rows of these episodes' turns, and who played on."""
    cast = Cast(world=WORLD, options=WORLD.options(), agent=PlayerFlags(agent_model="drawn"), seed=seed)
    recorder = Recorder(
        cast, recorded, plan, {"measure": "reward"}, grader="auto", at_once=how.get("at_once", 512)
    )
    rows = list[dict[str, Any]]()
    asyncio.run(
        recorder.run(
            [(one, own_turns(one)) for one in recorded], rows.extend, how.get("tell", lambda text: None)
        )
    )
    return rows, recorder


def held_against(rows: Sequence[Mapping[str, Any]], recorded: Sequence[Trajectory]) -> list[dict[str, float]]:
    """Of every turn: the exact worth, whether the interval has it, the error, whether values are inside (0.1, 0.9)."""
    said = {
        one.key: tuple(m.content for m in one.dialogue_history if m.role == "assistant") for one in recorded
    }
    found = []
    for row in rows:
        turn, path = row["turn_index"], said[row["task_id"], row["sample_index"]]
        number, got = int(row["task_id"].partition("/")[2]), row["measured"]
        before, after = exact(number, path[:turn]), exact(number, path[: turn + 1])
        covers = got["low"] - 1e-9 <= after - before <= got["high"] + 1e-9
        inside = all(0.1 < one < 0.9 for one in (before, after))
        found.append({"covers": covers, "inside": inside, "error": got["advantage"] - (after - before)})
        found[-1] |= {"half": (got["high"] - got["low"]) / 2, "last": row["kind"] == "last"}
    return found


WORLD = Chance()


def main() -> None:
    given = flags(__doc__, tasks=1200, continuations=[8, 32], target=0.1, output="")
    print(heading())
    recorded = simulate(WORLD, num_tasks=given.tasks, agent="drawn")
    plans: dict[str, Plan] = {
        f"fixed, {n}": Plan(target=given.target, fixed=n, most=256, bounds=(0.0, 1.0, 0.0, 1.0))
        for n in given.continuations
    }
    stopped = Plan(target=given.target, fixed=None, most=256, bounds=(0.0, 1.0, 0.0, 1.0))
    plans[f"stopped at {given.target:g}"] = stopped
    table, numbers = [], {}
    for name, plan in plans.items():
        rows, recorder = measured(recorded, plan)
        turns = held_against(rows, recorded)
        inside = [one for one in turns if one["inside"]]
        numbers[name] = {
            "turns": len(turns),
            "covered": fmean(one["covers"] for one in turns),
            "turns_inside": len(inside),
            "covered_inside": fmean(one["covers"] for one in inside),
            "bias": fmean(one["error"] for one in turns),
            "half_width": fmean(one["half"] for one in turns),
            "continuations": recorder.stats.episodes,
        }
        shown = numbers[name]
        share = [f"{100 * shown[key]:.1f} %" for key in ("covered", "covered_inside")]
        cells = [name, shown["turns"], share[0], shown["turns_inside"], share[1], f"{shown['bias']:+.4f}"]
        table.append([*cells, f"{shown['half_width']:.3f}", shown["continuations"]])
    heads = "continuations|turns|covered|values in (0.1, 0.9)|covered|bias|half-width|episodes".split("|")
    show(heads, table)
    save(given.output, **numbers)


if __name__ == "__main__":
    main()
