"""Agents: transformers in process, vLLM, any OpenAI-compatible server, scripted agents.

Import a policy from its own module: each needs other packages, and none of them is loaded before it is used.
`POLICIES` are agents with a name of their own, which play any world: they come from other packages.
"""

from sweet_rl.plugins import Registry

POLICIES = Registry("sweet_rl.policies", "agent", parts=("name", "close", "act"))
"""An object, or a class or factory that takes nothing or the `AgentRequest`."""
