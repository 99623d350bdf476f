"""An agent that sees only the last message, for worlds whose every message has the whole state."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.contracts import Policy
from sweet_rl.types import Generation, Observation, derive_seed


class MarkovPolicy:
    """Any policy, shown only the world's last message.

    Chat models would else be sent every earlier state with every turn, and run out of context. The seed
    depends on the turn, as it would with the whole dialogue.

    """

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
