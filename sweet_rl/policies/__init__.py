"""Agents: transformers in process, vLLM, any OpenAI-compatible server, scripted agents.

Import a policy from its own module: each needs other packages, and none of them is loaded before it is used.
`POLICIES` are agents with a name of their own, which play any world: they come from other packages.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweet_rl.errors import UsageError
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


_AT_PLAY: dict[int, list[str]] = {}
"""The instructions that policies were given for as long as they play, by their identity."""


def instructed(policy: Any) -> Any:
    """The policy, or the one that it wraps, which is to be given instructions: its `system_prompt` is None."""
    while not hasattr(policy, "system_prompt") and hasattr(policy, "policy"):
        policy = policy.policy
    return policy if getattr(policy, "system_prompt", "") is None or id(policy) in _AT_PLAY else None


@contextmanager
def giving(policy: Any, prompt: str) -> Iterator[None]:
    """Give a policy that has no instructions of its own those of the world, until it has played."""
    one = instructed(policy)
    if one is None:
        yield
        return
    given = _AT_PLAY.setdefault(id(one), [])
    if given and prompt not in given:
        raise UsageError(
            f"The agent {policy.name} is playing another world with other instructions: make a second "
            "object, or give it its own system_prompt."
        )
    given.append(prompt)
    one.system_prompt = prompt
    try:
        yield
    finally:
        given.pop()
        if not given:
            del _AT_PLAY[id(one)]
            one.system_prompt = None
