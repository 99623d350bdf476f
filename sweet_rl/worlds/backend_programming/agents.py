"""An agent without a model that asks about a function, then hands in a stub."""

from __future__ import annotations

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy, as_answer
from sweet_rl.types import Observation
from sweet_rl.worlds.backend_programming.questions import MAX_QUESTIONS, plan_questions, stub


class QuestionerPolicy(ScriptedPolicy):
    """Asks template questions, varied by the episode's seed, then hands in a stub of the wanted signature.

    Args:
        num_questions: turns spent on asking; must be below the turn limit for the answer to be heard.
        system_prompt: recorded as part of the input; changes nothing else.

    Raises:
        UsageError: `num_questions` is negative or beyond the questions there are.
    """

    name = "questioner"

    def __init__(self, *, num_questions: int = 3, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        if not 0 <= num_questions <= MAX_QUESTIONS:
            raise UsageError(
                f"The questioner can ask 0 to {MAX_QUESTIONS} questions, got num_questions={num_questions}."
            )
        self._num_questions = num_questions

    def _say(self, observation: Observation) -> str:
        description = observation.messages[0].content if observation.messages else ""
        if observation.turn >= self._num_questions:
            return as_answer(stub(description))
        return plan_questions(description, observation.seed)[observation.turn]
