"""The learner interface of the loop, and the shared part of all learners: policy, critic, states on disk.

All randomness comes from the seed and a counter that is part of the state. The algorithms themselves are in
`learners`. Importing this module imports torch.

Published behaviour: docs/published/archer.md#one-update.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.online import players
from sweet_rl.online.actor import TokenPolicy
from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.critic_updates import critic_step
from sweet_rl.online.distributed.collectives import broadcast_parameters, own_rows
from sweet_rl.online.distributed.fsdp import (
    first_pass,
    full_weights,
    gathered,
    is_fsdp,
    load_optimizer,
    load_weights,
    optimizer_state,
)
from sweet_rl.online.distributed.processes import from_main, is_main
from sweet_rl.online.players import Ask, Player
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.online.steps import StepSettings
from sweet_rl.types import derive_seed

Draw = Callable[[int], Sequence[Transition]]
"""That many transitions from a buffer; the same in every process."""

Say = Callable[[str, int, int], None]
"""Called with the progress: the phase, steps done, steps in all."""


class Learner(Protocol):
    """One algorithm with everything that it trains."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """One iteration's optimizer steps; the published numbers."""
        ...

    def gathered(self) -> AbstractContextManager[None]:
        """What all processes enter and leave together when one of them plays."""
        ...

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The policy at play, inside `gathered`; close it when the episodes are over."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Models, target, optimizers and counter, as tensors and plain data; all processes call it.

        Only the first one's holds tensors (`sweet_rl.online.distributed.fsdp`).
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; all processes call it, and the first one's counts."""
        ...

    def save_policy(self, folder: Path) -> None:
        """The policy as a folder that transformers loads; an adapter as peft loads it.

        All processes call it, the first one writes.
        """
        ...


class PolicyLearner:
    """What all learners share: the policy, how steps are made, the counter of updates."""

    def __init__(
        self, settings: ArcherSettings, policy: TokenPolicy, chat_format: ChatFormat, say: Say | None
    ) -> None:
        self.settings, self.policy = settings, policy
        self._format = chat_format
        self._say: Say = say or (lambda _phase, _done, _total: None)
        self._updates = 0
        first_pass(policy)
        self._modules = nn.ModuleDict({"model": policy.model})
        if policy.value_head is not None:
            self._modules["value_head"] = policy.value_head
        broadcast_parameters([self._modules])
        self.steps = StepSettings(
            batch_size=settings.batch_size,
            gamma=settings.gamma,
            tau=settings.tau,
            max_grad_norm=settings.max_grad_norm,
            max_tokens_per_batch=settings.max_tokens_per_batch,
            normalize_advantages=settings.normalize_advantages,
            nonfinite_path=settings.nonfinite_path,
        )

    def gathered(self) -> AbstractContextManager[None]:
        """All processes have the whole policy while the block lasts."""
        return gathered(self.policy.model)

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The policy at play; greedy also where the settings say `do_sample: false`."""
        engine = players.sampling(self.policy, greedy=greedy or not self.settings.do_sample)
        return self._player(engine)

    def _player(self, engine: players.Engine) -> Player:
        def prompt_of(text: str) -> str:
            return self.policy.prompt(text).text

        def count(text: str) -> int:
            return len(self.policy.prompt(text).ids)

        return Player(self.settings.policy_lm, engine, self._format, prompt_of, self.settings.seed, count)

    def _asks(self, phase: str, rows: Sequence[Transition]) -> list[Ask]:
        """This process's rows as turns to take; a row's seed does not depend on the number of processes."""
        return [
            Ask(
                rows[number].observation,
                derive_seed(self.settings.seed, "update", self._updates, phase, number),
            )
            for number in own_rows(len(rows))
        ]

    def save_policy(self, folder: Path) -> None:
        """The policy as a folder that transformers loads; an adapter as peft loads it."""
        whole: Any = getattr(self.policy.model, "adapter_of_policy", self.policy.model)
        adapter = whole is not self.policy.model
        options = {}
        if is_fsdp(self.policy.model):
            options["state_dict"] = full_weights(whole, trained_only=adapter)
        if is_main():
            whole.save_pretrained(folder, **options)
            self.policy.tokenizer.save_pretrained(folder)

    def _policy_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights that are trained; a frozen base below an adapter is where `policy_lm` says."""
        head = self.policy.value_head
        return {
            "model_state_dict": full_weights(self.policy.model, trained_only=True),
            "value_head_state_dict": full_weights(head) if head is not None else None,
            "lm_optimizer_state_dict": optimizer_state(self._modules, optimizer),
        }

    def _load_policy_state(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        load_weights(self.policy.model, state.get("model_state_dict", {}))
        if self.policy.value_head is not None:
            load_weights(self.policy.value_head, state.get("value_head_state_dict", {}))
        load_optimizer(self._modules, optimizer, state.get("lm_optimizer_state_dict", {}))
        self._updates = from_main(lambda: state["updates"])


class CriticLearner(PolicyLearner):
    """What ArCHer and CHAI share: the critic, its target, and how they are trained."""

    candidates = 1

    def __init__(
        self,
        settings: ArcherSettings,
        policy: TokenPolicy,
        critic: DoubleCritic,
        chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:
        super().__init__(settings, policy, chat_format, say)
        broadcast_parameters([critic])
        self.critic, self.target = critic, copied(critic)
        self.critic_optimizer = torch.optim.Adam(critic.parameters(), lr=settings.critic_lr)

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        """The critic's steps; the policy stands still and says everything first."""
        settings = self.settings
        steps = [list(draw(settings.rows_per_step)) for _ in range(settings.epochs)]
        asks = [self._asks(f"critic-{number}", rows) for number, rows in enumerate(steps)]
        self._say("sample", 0, len(steps))
        with self.gathered():
            proposed = iter(
                players.proposals(
                    self.policy,
                    [ask for one in asks for ask in one],
                    candidates=self.candidates,
                    greedy=not settings.do_sample,
                )
            )
        infos = []
        for number, rows in enumerate(steps):
            texts = [[utterance.text for utterance in next(proposed)] for _ in asks[number]]
            infos.append(
                critic_step(self.critic, self.target, self.critic_optimizer, rows, texts, self.steps)
            )
            self._say("critic", number + 1, len(steps))
        return infos

    def _critic_state(self) -> dict[str, Any]:
        return {
            "critic_state_dict": dict(self.critic.state_dict()),
            "target_critic_state_dict": dict(self.target.state_dict()),
            "critic_optimizer_state_dict": optimizer_state(self.critic, self.critic_optimizer),
            "updates": self._updates,
        }

    def _load_critic_state(self, state: dict[str, Any]) -> None:
        load_weights(self.critic, state.get("critic_state_dict", {}))
        load_weights(self.target, state.get("target_critic_state_dict", {}))
        load_optimizer(self.critic, self.critic_optimizer, state.get("critic_optimizer_state_dict", {}))
        self._updates = from_main(lambda: state["updates"])


def copied(critic: DoubleCritic) -> DoubleCritic:
    """A critic with weights of its own, equal to these, that needs no gradients."""
    encoder, critic.encoder = critic.encoder, None  # type: ignore[assignment]  # caches are not copied
    try:
        target = copy.deepcopy(critic)
    finally:
        critic.encoder = encoder
    target.encoder = encoder.lent_to(target.base_lm)
    return target.requires_grad_(requires_grad=False)
