"""Guess a number from 1 to 20; every wrong guess costs 0.1. The world itself answers, and rewards every turn."""

from random import Random

from sweet_rl import BaseEnv, World
from sweet_rl.errors import no_such
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds import Scores, TaskLists

NUMBERS = range(1, 21)


class NumberEnv(BaseEnv):
    async def turn(self, action):
        number = self.task.ground_truth
        if action == number:
            return self.respond("right", reward=1.0, terminated=True)
        guess = int(action) if action.isdecimal() and len(action) < 3 else 0
        if guess not in NUMBERS:
            return self.respond("no number from 1 to 20", reward=-0.1)
        return self.respond("higher" if guess < int(number) else "lower", reward=-0.1)


def play(skill, seen):
    """Halve what is left (halving), take any of it (careful), or take any number (wild)."""
    rng, low, high = Random(f"{seen.seed} {seen.turn}"), 1, 20
    for guess, hint in zip(seen.messages[1::2], seen.messages[2::2], strict=True):
        if hint.content == "higher":
            low = max(low, int(guess.content) + 1)
        elif hint.content == "lower":
            high = min(high, int(guess.content) - 1)
    if skill == "halving":
        return str((low + high) // 2)
    return str(rng.randint(low, high) if skill == "careful" else rng.choice(NUMBERS))


class Number(World):
    name, max_turns, agents = "number", 6, {"halving": {}, "careful": {}, "wild": {}}
    system_prompt = "Say one number a turn."
    tasks = TaskLists("numbers:train", "numbers:test")
    scores = Scores(lowest=-0.6, highest=1.0, success_return=0.0)

    def rows(self, source, where, *, limit, seed):
        if where not in ("train", "test"):
            raise no_such("split of numbers", where, ("train", "test"))
        rng, asked = Random(f"numbers {where}"), "Find my number, from 1 to 20."
        for n in range(200):
            solution = str(rng.choice(NUMBERS))
            yield {"task_id": f"number/{where}/{n}", "problem_description": asked, "ground_truth": solution}

    def make_env(self, options, user):
        return NumberEnv(self.turns(options))

    async def make_agent(self, wanted):
        return TeacherPolicy(lambda seen: play(wanted.name, seen))


WORLD = Number()
