"""Agents: transformers in process, vLLM, any OpenAI-compatible server, scripted agents.

Import a policy from its own module: each needs other packages, and none of them is loaded before it is used.
`POLICIES` are agents with a name of their own, which play any world: they come from other packages.
"""

from sweet_rl.plugins import Registry

POLICIES = Registry("sweet_rl.policies", "agent", parts=("name", "close", "act"))
"""An object, or a class or factory that takes nothing or the `AgentRequest`."""

ENGINES = ("openai", "vllm", "transformers", "scripted")
"""What may stand before a model's name, with a slash between."""

BASE_URL_VAR = "OPENAI_BASE_URL"
"""The environment variable that says where the server of openai/NAME is, where nothing else does."""


def engine_and_name(model: str) -> tuple[str, str]:
    """What runs a model, and its name there; "auto" where only a name is given."""
    engine, _, name = model.partition("/")
    return (engine, name) if engine in ENGINES and name else ("auto", model)
