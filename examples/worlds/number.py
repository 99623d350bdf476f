"""Guess a number from 1 to 20; every wrong guess has a cost. The world itself answers and rewards every turn."""

from contextlib import asynccontextmanager
from random import Random

from sweet_rl import Message, Observation, StepResult, StopReason, World
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds.options import Scores, TaskLists

NUMBERS = range(1, 21)


class NumberEnv:
    """One game."""

    def __init__(self, turns):
        self.turns, self.over = turns, True

    async def reset(self, task, *, seed):
        self.number, self.over = task.ground_truth, False
        self.seen = Observation(task.task_id, (Message("user", task.problem_description),), seed)
        return self.seen

    async def step(self, action):
        if self.over:
            return StepResult(action, action, None, terminated=True)
        guess = int(action) if action.isdecimal() and len(action) < 3 else 0
        found, last = action == self.number, self.seen.turn + 1 >= self.turns
        hint = (
            "right"
            if found
            else "no number from 1 to 20"
            if guess not in NUMBERS
            else "higher"
            if guess < int(self.number)
            else "lower"
        )
        added = Message("assistant", action), Message("user", hint)
        self.seen = Observation(self.seen.task_id, (*self.seen.messages, *added), self.seen.seed)
        self.over = found or last
        reason = StopReason.ENDED if found else StopReason.TURN_LIMIT if last else None
        return StepResult(
            action, action, self.seen, 1.0 if found else -0.1, found, last and not found, reason
        )

    async def close(self):
        self.over = True


def guesser(skill):
    """Halves what is left, takes any of it, or takes any number."""

    def say(seen):
        rng, low, high = Random(f"{seen.seed} {seen.turn}"), 1, 20
        for guess, hint in zip(seen.messages[1::2], seen.messages[2::2], strict=True):
            if hint.content == "higher":
                low = max(low, int(guess.content) + 1)
            elif hint.content == "lower":
                high = min(high, int(guess.content) - 1)
        if skill == "halving":
            return str((low + high) // 2)
        return str(rng.randint(low, high) if skill == "careful" else rng.choice(NUMBERS))

    return say


class Number(World):
    """Find a number from 1 to 20."""

    name, max_turns, agents = "number", 6, {"halving": {}, "careful": {}, "wild": {}}
    tasks = TaskLists("numbers:train", "numbers:test")
    scores = Scores(lowest=-0.6, highest=1.0, success_return=0.0, ceiling_and_floor=("halving", "wild"))

    def rows(self, source, where, *, limit, seed):
        drawn = Random(f"numbers {where}")
        return [
            {
                "task_id": f"number/{where}/{place}",
                "problem_description": "Find my number, from 1 to 20.",
                "ground_truth": str(drawn.choice(NUMBERS)),
            }
            for place in range(200 if limit is None else min(200, limit))
        ]

    @asynccontextmanager
    async def open(self, options, user):
        yield lambda: NumberEnv(self.turns(options))

    async def make_agent(self, wanted):
        return TeacherPolicy(guesser(wanted.name))

    def system_prompt(self):
        return "Say one number a turn."


WORLD = Number()
