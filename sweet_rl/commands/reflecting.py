"""The reflection model that the flags ask for, beside an agent of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.types import Json, Task

if TYPE_CHECKING:
    from sweet_rl.commands.parts import AgentFlags

APIS = ("completions", "chat")
"""How a server is spoken to: by prompts, or by messages."""

RECAP = "recap"
"""The reflection model that is none: it says again what was said last."""

SYSTEM_PROMPT = "reflect/reflection_system"
REQUEST = "reflect/reflection_request"


@dataclass(frozen=True, slots=True)
class ReflectionFlags:
    """Who reflects, and where; see the flags of `simulate_interactions`. None is what the agent has."""

    model: str
    base_url: str | None = None
    api: str | None = None
    api_key_var: str | None = None
    prompt_path: str | None = None
    max_tokens: int = 100
    share: float = 1.0

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        if not 0 <= self.share <= 1:
            raise UsageError(f"--reflect_prob must be from 0 to 1, got {self.share}.")
        if self.api not in {None, *APIS}:
            raise UsageError(f"--reflection_api must be {' or '.join(APIS)}, got {self.api!r}.")
        if self.max_tokens < 1:
            raise UsageError(f"--reflection_tokens must be at least 1, got {self.max_tokens}.")

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        from sweet_rl.commands.parts import prompt_digest
        from sweet_rl.prompts import load_prompt

        prompt = load_prompt(self.prompt_path or SYSTEM_PROMPT)
        return {
            "reflection_model": self.model,
            "reflection_prompt": prompt_digest(f"{prompt}\n{load_prompt(REQUEST)}"),
            "reflection_tokens": self.max_tokens,
            "reflect_prob": self.share,
        }


async def make_reflective(
    policy: Policy, flags: AgentFlags, tasks: Sequence[Task], *, concurrency: int
) -> Policy:
    """The agent with the reflection model that its flags name; itself where they name none.

    Raises:
        UsageError: the reflection model cannot be loaded.
        ServiceError: no server answers.
    """
    wanted = flags.reflection
    if wanted is None:
        return policy
    from sweet_rl.chat.reflect_format import ACTION_HEADS
    from sweet_rl.policies.reflective import Recap, ReflectivePolicy
    from sweet_rl.prompts import load_prompt

    try:
        if wanted.model == RECAP:
            reflector: Policy = Recap()
        else:
            reflector = await _model(wanted, flags, tasks, concurrency)
    except BaseException:
        await policy.close()
        raise
    return ReflectivePolicy(
        policy,
        reflector,
        head=ACTION_HEADS.get(flags.task_type),
        request=load_prompt(REQUEST).strip(),
        reflect_prob=wanted.share,
        seed=flags.seed,
    )


async def _model(
    wanted: ReflectionFlags, flags: AgentFlags, tasks: Sequence[Task], concurrency: int
) -> Policy:
    """A model with the agent's settings but for its own name, server, prompt and length."""
    from sweet_rl.commands.parts import SCRIPTED_AGENTS, make_policy

    if wanted.model in SCRIPTED_AGENTS[flags.task_type]:
        raise UsageError(
            f"--reflection_model {wanted.model} is an agent, and acts. Name a model, or {RECAP!r}."
        )
    own = replace(
        flags,
        engine="auto",
        model=wanted.model,
        base_url=wanted.base_url,
        api=wanted.api or flags.api,
        api_key_var=wanted.api_key_var or flags.api_key_var,
        tokenizer=None,
        prompt_path=wanted.prompt_path or SYSTEM_PROMPT,
        max_tokens=wanted.max_tokens,
        reflection=None,
    )
    return await make_policy(own, tasks, concurrency=concurrency)
