"""The online algorithms.

`ArcherLearner` trains critic and policy, `ChaiLearner` the critic only, `FilteredBCLearner` the policy on the
best episodes; those without a memory are in `on_policy`. Importing this module imports torch.

Published behaviour: docs/published/archer.md#online-chai, #behaviour-cloning, #critic-targets, #one-update,
#checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.online import losses, players
from sweet_rl.online.actor import TokenPolicy, Utterance
from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.distributed.fsdp import check_sharding
from sweet_rl.online.distributed.processes import world_size
from sweet_rl.online.learning import CriticLearner, Draw, Learner, PolicyLearner, Say
from sweet_rl.online.loading import load_actor, load_archer_critic
from sweet_rl.online.on_policy import OnPolicyLearner
from sweet_rl.online.policy_updates import ActorRows, actor_step, imitation_step, judge
from sweet_rl.online.settings import AGENT_TYPES, ON_POLICY, ArcherSettings
from sweet_rl.policies.weights import device_of


class ArcherLearner(CriticLearner):
    """ArCHer: the critic learns from the buffer, the policy from the critic."""

    def __init__(
        self,
        settings: ArcherSettings,
        policy: TokenPolicy,
        critic: DoubleCritic,
        chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:
        super().__init__(settings, policy, critic, chat_format, say)
        self.lm_optimizer = torch.optim.Adam(policy.parameters(), lr=settings.lm_lr)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """Critic steps, then policy steps unless it is too early."""
        info = losses.means(self._train_critic(draw))
        if update_actor:
            info |= losses.means(self._train_actor(draw))
        self._updates += 1
        return info

    def _train_actor(self, draw: Draw) -> list[dict[str, float]]:
        infos = []
        for number in range(self.settings.actor_epochs):
            rows = draw(self.settings.rows_per_step)
            asks = self._asks(f"actor-{number}", rows)
            observations = [ask.observation for ask in asks]
            with self.gathered():
                candidates = self.policy.sample(
                    observations, [ask.seed for ask in asks], greedy=not self.settings.do_sample
                )
            judged = self._judge(observations, candidates)
            infos.append(actor_step(self.policy, self.lm_optimizer, judged, rows, self.steps))
            self._say("actor", number + 1, self.settings.actor_epochs)
        return infos

    def _judge(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> ActorRows:
        """What the critic thinks of what the policy says now."""
        return judge(self.critic, observations, utterances, 4 * self.settings.max_tokens_per_batch)

    def state_dict(self) -> dict[str, Any]:
        """The published five, the value head and the counter."""
        return self._critic_state() | self._policy_state(self.lm_optimizer)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the policy, both critics, the optimizers and the counter of `state_dict`."""
        self._load_policy_state(state, self.lm_optimizer)
        self._load_critic_state(state)


class ChaiLearner(CriticLearner):
    """Online CHAI: the policy is frozen, the target critic chooses among its candidates."""

    def __init__(
        self,
        settings: ArcherSettings,
        policy: TokenPolicy,
        critic: DoubleCritic,
        chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:
        super().__init__(settings, policy, critic, chat_format, say)
        self.candidates = settings.candidates
        policy.model.requires_grad_(requires_grad=False)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """Critic steps only."""
        info = losses.means(self._train_critic(draw))
        self._updates += 1
        return info

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The best of several utterances; greedy ones are all alike."""
        engine = players.reranking(
            self.policy,
            self.target,
            candidates=self.candidates,
            greedy=greedy or not self.settings.do_sample,
        )
        return self._player(engine)

    def state_dict(self) -> dict[str, Any]:
        """Critic, target, optimizer and counter; the policy is where `policy_lm` says."""
        return self._critic_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the critics and their optimizer of `state_dict`; the policy is frozen."""
        self._load_critic_state(state)


class FilteredBCLearner(PolicyLearner):
    """Online Filtered BC: the policy imitates the best episodes; the loop filters."""

    def __init__(
        self,
        settings: ArcherSettings,
        policy: TokenPolicy,
        chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:
        super().__init__(settings, policy, chat_format, say)
        self.lm_optimizer = torch.optim.Adam(policy.parameters(), lr=settings.lm_lr)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """`actor_epochs` steps of imitation; nothing, {}, while it is too early."""
        infos = []
        for number in range(self.settings.actor_epochs if update_actor else 0):
            rows = draw(self.settings.rows_per_step)
            infos.append(imitation_step(self.policy, self.lm_optimizer, rows, self.steps))
            self._say("imitate", number + 1, self.settings.actor_epochs)
        self._updates += 1
        return losses.means(infos)

    def state_dict(self) -> dict[str, Any]:
        """The policy, its optimizer and the counter."""
        return self._policy_state(self.lm_optimizer) | {"updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the policy, its optimizer and the counter of `state_dict`."""
        self._load_policy_state(state, self.lm_optimizer)


def make_learner(settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None) -> Learner:
    """The learner that the settings name, with its models loaded."""
    if settings.shard_with is not None:
        check_sharding()
    if settings.compat == "published":
        if world_size() > 1:
            raise UsageError(
                "compat=published computes in one process only: its gradients depend on their number. Start "
                "one, or take compat=fixed."
            )
        from sweet_rl.online.published import published_learner  # a rare choice

        return published_learner(settings, chat_format=chat_format, say=say)
    device = device_of(settings.device, "device")
    policy = load_actor(settings, device)
    if settings.agent_type == "online_filteredbc":
        return FilteredBCLearner(settings, policy, chat_format, say)
    if settings.agent_type in ON_POLICY:
        return OnPolicyLearner(settings, policy, chat_format, say)
    critic = load_archer_critic(settings, device)
    if settings.agent_type == "chai":
        return ChaiLearner(settings, policy, critic, chat_format, say)
    if settings.agent_type not in {"archer", "archer_llm"}:
        raise no_such("learner: agent_type", settings.agent_type, AGENT_TYPES)
    return ArcherLearner(settings, policy, critic, chat_format, say)
