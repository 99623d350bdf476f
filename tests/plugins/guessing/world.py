"""A world: guess a number, told higher or lower by somebody. With two agents that play it."""

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from guessing.human import Teller
from sweet_rl.cli.stage import StageEntry
from sweet_rl.flags import flag
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import derive_seed
from sweet_rl.worlds import Answers, BaseEnv, Learning, Options, TaskLists, World, no_agent


@dataclass(frozen=True, kw_only=True)
class GuessingOptions(Options):
    """Options of number guessing."""

    hints: bool = flag(True, "be told higher or lower; else only that a guess is wrong.")


class GuessingEnv(BaseEnv):
    """One game. A turn costs 1; the right guess costs nothing."""

    def __init__(self, user, max_turns, *, hints):
        super().__init__(max_turns, user)
        self._hints = hints

    def visible(self, action):
        return action.encode("utf-8", "replace").decode()

    async def turn(self, action):
        right = self.visible(action).strip().rstrip(".?!").rpartition(" ")[2] == self.task.hidden_information
        told = "Right." if right else await self.ask() if self._hints else "No."
        return self.respond(told, 0.0 if right else -1.0, terminated=right)


class Guesser(ScriptedPolicy):
    """Halves what is left, or draws from it."""

    def __init__(self, name, system_prompt=""):
        super().__init__(system_prompt)
        self.name = name

    def _say(self, observation):
        low, high = 1, 64
        said = [message.content for message in observation.messages[1:]]
        for guess, told in zip(map(int, said[::2]), said[1::2], strict=True):
            low, high = (max(low, guess + 1), high) if told == "Higher." else (low, min(high, guess - 1))
        draw = Random(derive_seed(observation.seed, observation.turn))
        return str((low + high) // 2 if self.name == "halving" else draw.randint(low, high))


STAGES = {"guessing count": StageEntry("guessing.stage:count", "Write numbers to guess.", ("numbers.txt",))}


class NumberGuessing(World):
    """Numbers from 1 to 64; the even ones are for training."""

    name = "number_guessing"
    max_turns = 8
    options = GuessingOptions
    tasks = TaskLists("numbers:train", "numbers:test")
    user = Answers(by="oracle", scripted=lambda: Teller(WORLD))
    agents: ClassVar = {"halving": {}, "random": {}}
    learning = Learning(labels=tuple(str(number) for number in range(1, 65)))
    stages = STAGES
    system_prompt = "Guess the number. Write nothing but a number."
    player_rules = "I am thinking of a number from 1 to 64. You have {turns} guesses."

    def rows(self, source, where, *, limit, seed):
        numbers = {"": range(1, 65), "train": range(2, 65, 2), "test": range(1, 65, 2)}[where]
        return [
            {
                "task_id": f"{self.name}/{number}",
                "problem_description": "Guess my number, at most sixty-four.",
                "ground_truth": str(number),
                "hidden_information": str(number),
                "test_cases": {},
            }
            for number in numbers
        ]

    def succeeded(self, reward, row, options):
        return reward > -self.turns(options)  # not every guess was wrong

    def make_env(self, options, user):
        return GuessingEnv(user, self.turns(options), hints=options.hints)

    async def make_agent(self, wanted):
        if wanted.name not in self.agents:
            raise no_agent(self, wanted.name)
        return Guesser(wanted.name, wanted.system_prompt)


WORLD = NumberGuessing()
