"""An agent that reflects before it acts: any policy beside any reflection model.

The reflection model reads the observation without its list of actions and writes a short analysis; the policy
reads observation, analysis and list, and acts. Worlds without such a list are reflected on as a whole. What
was given to the reflection model and what it wrote stand in the turn.

Published behaviour: docs/published/reflect_rl.md#two-models, #episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from random import Random

from sweet_rl.chat import ChatFormat
from sweet_rl.chat.formats import LastObservation
from sweet_rl.chat.reflect_format import ANALYSE_MARKER, cut_reflection, split_prompt
from sweet_rl.contracts import Policy, Sampler
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import Failure, Generation, Message, Observation, derive_seed


@dataclass(eq=False)
class SampledPolicy:
    """A policy made of a sampler, for models that continue plain text instead of answering in a chat.

    With the analyse marker behind the text it is the published reflection model, with the action marker the
    published policy: both read `sweet_rl.chat.reflect_format`'s prompts.

    Args:
        sampler: whose model writes; closed with the policy where it can be.
        ending: what stands behind the text, a marker.
        instruction: on a line of its own in front.
        chat_format: how the observation becomes text; default: the world's last message.
    """

    sampler: Sampler
    ending: str
    _: KW_ONLY
    instruction: str = ""
    chat_format: ChatFormat = field(default_factory=LastObservation)
    seed: int = 0

    def __post_init__(self) -> None:
        self.name = str(getattr(self.sampler, "name", type(self.sampler).__name__))

    async def act(self, observation: Observation) -> Generation:
        """One turn; raises what the sampler does."""
        front = f"{self.instruction}\n" if self.instruction else ""
        prompt = f"{front}{self.chat_format.render(observation.messages)}{self.ending}"
        seed = derive_seed(self.seed, observation.seed, observation.turn)
        ((completion,),) = await self.sampler.sample([prompt], 1, seeds=[seed])
        return Generation(prompt, completion)

    async def close(self) -> None:
        """Close the sampler, where that is something to be done."""
        close = getattr(self.sampler, "close", None)
        if close is not None:
            await close()


class Recap(ScriptedPolicy):
    """A reflection model without a model, for trials: it repeats the first line of the last message."""

    name = "recap"

    def _say(self, observation: Observation) -> str:
        lines = [line for line in observation.messages[-1].content.splitlines() if line.strip()]
        steps = f"{observation.turn} step{'' if observation.turn == 1 else 's'} so far."
        return f"{steps} The last thing said: {lines[0].strip() if lines else 'nothing'}"


@dataclass(eq=False)
class ReflectivePolicy:
    """Reflects, then acts. Both parts are closed with it.

    A reflection that fails is recorded and left out; the agent acts without. A reflection that begins to act
    (`# Action:`) is cut there. Only the current turn's reflection is shown to the policy, none to the world.

    Args:
        policy: who acts.
        reflector: who writes the analysis: a chat model with its own system prompt, a `SampledPolicy`, or
            anything else that says something about an observation.
        head: what begins the list of actions (`World.learning.head`); None in worlds without one.
        request: put behind what the reflection model is shown, after a blank line; "" for models that know
            by themselves what to do.
        instruction: on a line of its own before what the policy is shown last.
        reflect_prob: share of turns that are reflected on; the others are acted on with an empty analysis, as
            published.
        seed: of the draws.

    Raises:
        UsageError: `reflect_prob` is no share.
    """

    policy: Policy
    reflector: Policy
    _: KW_ONLY
    head: str | None = None
    request: str = ""
    instruction: str = ""
    reflect_prob: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.reflect_prob <= 1:
            raise UsageError(f"reflect_prob must be from 0 to 1, got {self.reflect_prob}.")
        self.name = f"{self.policy.name} after reflections of {self.reflector.name}"

    async def act(self, observation: Observation) -> Generation:
        """One turn: the policy's, with the reflection that it was made with; raises what the policy does."""
        before, after = split_prompt(observation.messages[-1].content, self.head)
        written, failures = await self._reflect(observation, before)
        reflection = ""
        if written is not None:  # without the thoughts of a model that thinks first
            reflection = cut_reflection(split_thoughts(written.completion.text, written.input).text)
        front = f"{self.instruction}\n" if self.instruction else ""
        shown = f"{front}{before}{ANALYSE_MARKER}{reflection}{after}"
        *earlier, last = observation.messages
        seen = (*earlier, Message(last.role, shown))
        generation = await self.policy.act(replace(observation, messages=seen))
        return replace(
            generation,
            reflection=None if written is None else reflection,
            reflection_input=None if written is None else written.input,
            failures=(*failures, *generation.failures),
        )

    async def close(self) -> None:
        """Close the policy and the reflector, the second also if the first fails."""
        try:
            await self.policy.close()
        finally:
            await self.reflector.close()

    async def _reflect(
        self, observation: Observation, before: str
    ) -> tuple[Generation | None, Sequence[Failure]]:
        """What the reflection model wrote; None where it was not asked or could not answer."""
        seed = derive_seed(self.seed, observation.seed, observation.turn, "reflection")
        if Random(seed).random() >= self.reflect_prob:
            return None, ()
        *earlier, last = observation.messages
        seen = [Message(one.role, split_prompt(one.content, self.head).before) for one in earlier]
        asked = Message(last.role, f"{before}\n\n{self.request}" if self.request else before)
        try:
            return await self.reflector.act(replace(observation, messages=(*seen, asked), seed=seed)), ()
        except EpisodeError as error:
            failure = error.failure
            return None, (replace(failure, detail=f"reflection: {failure.detail}"),)
