"""An agent that reflects before it acts: any policy beside any reflection model.

The reflection model reads the observation without its list of actions and writes a short analysis; the policy
reads observation, analysis and list, and acts. Worlds without such a list are reflected on as a whole. What
was given to the reflection model and what it wrote stand in the turn.

Published behaviour: docs/published/reflect_rl.md#two-models, #episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from sweet_rl.chat import ChatFormat
from sweet_rl.chat.formats import LastObservation
from sweet_rl.chat.reflect_format import ANALYSE_MARKER, cut_reflection, split_prompt
from sweet_rl.contracts import Policy, Sampler
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import Failure, Generation, Message, Observation, derive_seed


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

    def __init__(
        self,
        sampler: Sampler,
        ending: str,
        *,
        instruction: str = "",
        chat_format: ChatFormat | None = None,
        seed: int = 0,
    ) -> None:
        self.name = str(getattr(sampler, "name", type(sampler).__name__))
        self._sampler = sampler
        self._ending = ending
        self._front = f"{instruction}\n" if instruction else ""
        self._format = chat_format or LastObservation()
        self._seed = seed

    async def act(self, observation: Observation) -> Generation:
        """One turn; raises what the sampler does."""
        prompt = f"{self._front}{self._format.render(observation.messages)}{self._ending}"
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        ((completion,),) = await self._sampler.sample([prompt], 1, seeds=[seed])
        return Generation(prompt, completion)

    async def close(self) -> None:
        """Close the sampler, where that is something to be done."""
        close = getattr(self._sampler, "close", None)
        if close is not None:
            await close()


class Recap(ScriptedPolicy):
    """A reflection model without a model, for trials: it repeats the first line of the last message."""

    name = "recap"

    def _say(self, observation: Observation) -> str:
        lines = [line for line in observation.messages[-1].content.splitlines() if line.strip()]
        steps = f"{observation.turn} step{'' if observation.turn == 1 else 's'} so far."
        return f"{steps} The last thing said: {lines[0].strip() if lines else 'nothing'}"


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

    def __init__(
        self,
        policy: Policy,
        reflector: Policy,
        *,
        head: str | None = None,
        request: str = "",
        instruction: str = "",
        reflect_prob: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not 0 <= reflect_prob <= 1:
            raise UsageError(f"reflect_prob must be from 0 to 1, got {reflect_prob}.")
        self.name = f"{policy.name} after reflections of {reflector.name}"
        self.policy = policy
        self._reflector = reflector
        self._head = head
        self._request = f"\n\n{request}" if request else ""
        self._instruction = f"{instruction}\n" if instruction else ""
        self._share = reflect_prob
        self._seed = seed

    async def act(self, observation: Observation) -> Generation:
        """One turn: the policy's, with the reflection that it was made with; raises what the policy does."""
        last = observation.messages[-1].content
        before, after = split_prompt(last, self._head)
        written, failures = await self._reflect(observation, before)
        reflection = ""
        if written is not None:  # without the thoughts of a model that thinks first
            reflection = cut_reflection(split_thoughts(written.completion.text, written.input).text)
        shown = f"{self._instruction}{before}{ANALYSE_MARKER}{reflection}{after}"
        generation = await self.policy.act(_with_last(observation, shown))
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
            await self._reflector.close()

    async def _reflect(
        self, observation: Observation, before: str
    ) -> tuple[Generation | None, Sequence[Failure]]:
        """What the reflection model wrote; None where it was not asked or could not answer."""
        seed = derive_seed(self._seed, observation.seed, observation.turn, "reflection")
        if Random(seed).random() >= self._share:
            return None, ()
        earlier = tuple(
            Message(message.role, split_prompt(message.content, self._head).before)
            for message in observation.messages[:-1]
        )
        asked = replace(observation, messages=(*earlier, observation.messages[-1]))
        asked = _with_last(asked, f"{before}{self._request}")
        try:
            return await self._reflector.act(replace(asked, seed=seed)), ()
        except EpisodeError as error:
            failure = error.failure
            return None, (replace(failure, detail=f"reflection: {failure.detail}"),)


def _with_last(observation: Observation, content: str) -> Observation:
    """The same observation with another last message."""
    *earlier, last = observation.messages
    return replace(observation, messages=(*earlier, Message(last.role, content)))
