"""Agents without a model: ceiling, floor, and agents given by a function.

They bound what a model can score on a set of tasks, and let the whole pipeline run anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sweet_rl.chat import ChatFormat, PlainChat, with_system
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.types import ANSWER_MARKER, Completion, FinishReason, Generation, Observation, derive_seed


class ScriptedPolicy:
    """Writes what `_say` returns, and records the prompt that a model of this `chat_format` would have been given."""

    name: str
    chat_format: ChatFormat

    def __init__(self, system_prompt: str | None = None, *, chat_format: ChatFormat | None = None) -> None:
        self.system_prompt = system_prompt
        self.chat_format = chat_format or PlainChat()

    async def act(self, observation: Observation) -> Generation:
        """The scripted answer to an observation, with the prompt a model would have had."""
        prompt = self.chat_format.render(with_system(self.system_prompt or "", observation.messages))
        return Generation(prompt, Completion(self._say(observation), finish_reason=FinishReason.STOP))

    async def close(self) -> None:
        """Do nothing: there is no model."""

    def _say(self, observation: Observation) -> str:
        raise NotImplementedError


def skill_of(player: str, name: str, skill: float | None, skills: Mapping[str, float]) -> float:
    """How often a player takes the best action: as given, else by its name."""
    if name not in skills:
        raise UsageError(f"There is no {player} {name!r}. There are {', '.join(skills)}.")
    if skill is not None and not 0 <= skill <= 1:
        raise UsageError(f"skill must be from 0 to 1, got {skill}.")
    return skills[name] if skill is None else skill


class OraclePolicy(ScriptedPolicy):
    """Is given the reference solution of every task and hands it in at once: the ceiling."""

    name = "oracle"

    def __init__(self, answers: Mapping[str, str], *, system_prompt: str | None = None) -> None:
        super().__init__(system_prompt)
        self._answers = answers

    def _say(self, observation: Observation) -> str:
        if observation.task_id not in self._answers:
            raise UsageError(
                f"The {self.name} agent was given no answer for the task {observation.task_id!r}; "
                "give it the answers of exactly the tasks that are played."
            )
        return as_answer(self._answers[observation.task_id])


class TeacherPolicy(ScriptedPolicy):
    """Says what a function of the observation says: a world's own scripted player."""

    def __init__(
        self, say: Callable[[Observation], str], *, name: str = "teacher", system_prompt: str | None = None
    ) -> None:
        super().__init__(system_prompt)
        self.name, self._teach = name, say

    def _say(self, observation: Observation) -> str:
        return self._teach(observation)


class ConstantPolicy(OraclePolicy):
    """Is given only the most frequent value of every task and always returns it: the floor."""

    name = "constant"


def as_answer(code: str) -> str:
    """A turn that hands code in."""
    return f"{ANSWER_MARKER}\n{code}"


class MarkovPolicy:
    """Any policy, shown only the world's last message: with every earlier state a chat model would run out of context."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.policy = policy

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
        seed = derive_seed(observation.seed, observation.turn)
        return await self.policy.act(replace(observation, messages=observation.messages[-1:], seed=seed))

    async def close(self) -> None:
        """Close the policy that is wrapped."""
        await self.policy.close()
