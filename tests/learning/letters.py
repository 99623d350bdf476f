"""Worlds of three short turns, one of them in order and the others not: what is said is scored at once."""

from random import Random

from sweet_rl import BaseEnv, World
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds.options import Scores


class LettersEnv(BaseEnv):
    def __init__(self, reward, turns):
        super().__init__()
        self.reward, self.all = reward, turns

    async def turn(self, action):
        return self.respond(
            "Go on.", self.reward(action, self.seed + self.turns), terminated=self.turns == self.all
        )


def worth(action):
    return sum(map(ord, action)) % 7 / 7


class Letters(World):
    name, max_turns, agents = "letters", 3, {"good": {}}
    solutions, said = "abcd", "abcdefgh"

    def reward(self, action, seed):
        return worth(action)

    def rows(self, source, where, *, limit, seed):
        return [
            {
                "task_id": f"letters/{where}/{number}",
                "problem_description": f"Say {number}.",
                "ground_truth": self.solutions[number % len(self.solutions)],
            }
            for number in range(20)
        ]

    def make_env(self, options, user):
        return LettersEnv(self.reward, self.max_turns)

    async def make_agent(self, wanted):
        return TeacherPolicy(lambda seen: self.said[(seen.seed + seen.turn) % len(self.said)])


class Alike(Letters):
    def reward(self, action, seed):
        return 1.0


class Chance(Letters):
    def reward(self, action, seed):
        return seed % 7 / 7


class OneSolution(Letters):
    solutions = "a"


class NeverAgain(Letters):
    """Its agent says eight letters in any order, each of them once."""

    max_turns = 8

    async def make_agent(self, wanted):
        return TeacherPolicy(lambda seen: Random(seen.seed).sample(self.said, 8)[seen.turn])


class Opposite(Letters):
    """Its oracle says the opposite of its rewards."""

    scores = Scores(good_turn=lambda solution, messages, turn: worth(turn) < 0.4)


WORLD, ALIKE, CHANCE, OPPOSITE = Letters(), Alike(), Chance(), Opposite()
ONE_SOLUTION, NEVER_AGAIN = OneSolution(), NeverAgain()
