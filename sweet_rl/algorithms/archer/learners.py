"""What the loop talks to: learners that play, update from a buffer, and can be stopped and continued.

`ArcherLearner` trains critic and policy, `ChaiLearner` the critic only, `FilteredBCLearner` the policy on the
best episodes (ArCHer spec §3 to §5). All randomness comes from the seed and a counter that is part of the
state. Importing this module imports torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch

from sweet_rl.algorithms.archer import losses, players
from sweet_rl.algorithms.archer.actor import TokenPolicy
from sweet_rl.algorithms.archer.critic import DoubleCritic
from sweet_rl.algorithms.archer.loading import device_of, load_actor, load_models
from sweet_rl.algorithms.archer.players import Ask, Player
from sweet_rl.algorithms.archer.replay import Transition
from sweet_rl.algorithms.archer.settings import ArcherSettings
from sweet_rl.algorithms.archer.updates import (
    StepSettings,
    actor_step,
    critic_step,
    imitation_step,
    judge,
)
from sweet_rl.algorithms.processes import is_main, world_size
from sweet_rl.algorithms.sharded import check_sharding, gathered, is_sharded, settle
from sweet_rl.algorithms.sharded_states import (
    from_first,
    load_optimizer,
    load_parameter,
    whole_state,
    whole_weights,
)
from sweet_rl.algorithms.shares import begin_alike, own_rows
from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.types import derive_seed

Draw = Callable[[int], Sequence[Transition]]
"""That many transitions from a buffer; the same in every process."""

Say = Callable[[str, int, int], None]
"""Told of progress: the phase, steps done, steps in all."""


class Learner(Protocol):
    """One algorithm with everything that it trains."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """One iteration's optimizer steps; the published numbers.

        Raises:
            NonFiniteLoss: a loss is NaN or infinite; what was not stepped is as it was.
        """
        ...

    def gathered(self) -> AbstractContextManager[None]:
        """What all processes enter and leave together when one of them plays."""
        ...

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The policy at play, inside `gathered`; close it when the episodes are over.

        Args:
            greedy: for evaluation.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Models, target, optimizers and counter, as tensors and plain data; all processes call it.

        Only the first one's has numbers in all tensors where the policy is divided (`sharded_states`).
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`; only the first process needs more than an outline of it."""
        ...

    def save_policy(self, folder: Path) -> None:
        """The policy as a folder that transformers loads; an adapter as peft loads it.

        All processes call it, the first one writes.
        """
        ...


class _PolicyLearner:
    """What all learners share: the policy, its optimizer, the counter of updates."""

    def __init__(
        self, settings: ArcherSettings, policy: TokenPolicy, chat_format: ChatFormat, say: Say | None
    ) -> None:
        self.settings, self.policy = settings, policy
        self._format = chat_format
        self._say: Say = say or (lambda _phase, _done, _total: None)
        self._updates = 0
        settle(policy)
        begin_alike([policy.model, *([policy.value_head] if policy.value_head is not None else [])])
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

        return Player(self.settings.policy_lm, engine, self._format, prompt_of, self.settings.seed)

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
        weights = {"state_dict": whole_weights(whole)} if is_sharded(self.policy.model) else {}
        if is_main():
            whole.save_pretrained(folder, **weights)
            self.policy.tokenizer.save_pretrained(folder)

    def _policy_state(self) -> dict[str, Any]:
        """Weights that are trained; a frozen base below an adapter is where `policy_lm` says."""
        trained = {name: p.detach() for name, p in self.policy.model.named_parameters() if p.requires_grad}
        head = self.policy.value_head
        return {
            "model_state_dict": trained,
            "value_head_state_dict": head.state_dict() if head is not None else None,
        }

    def _load_policy_state(self, state: dict[str, Any]) -> None:
        known = dict(self.policy.model.named_parameters())
        with torch.no_grad():
            for name, weights in state["model_state_dict"].items():
                load_parameter(known[name], weights)
        if self.policy.value_head is not None:
            head = from_first(state["value_head_state_dict"], self.policy.device)
            self.policy.value_head.load_state_dict(head)


class _CriticLearner(_PolicyLearner):
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
        begin_alike([critic])
        self.critic, self.target = critic, copied(critic)
        self.critic_optimizer = torch.optim.Adam(critic.parameters(), lr=settings.critic_lr)

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        """The critic's steps (ArCHer spec §4.3); the policy stands still and says everything first."""
        settings = self.settings
        steps = [list(draw(settings.rows_per_step)) for _ in range(settings.epochs)]
        asks = [self._asks(f"critic-{number}", rows) for number, rows in enumerate(steps)]
        self._say("sample", 0, len(steps))
        with self.gathered():
            said = iter(
                players.proposals(
                    self.policy,
                    [ask for one in asks for ask in one],
                    candidates=self.candidates,
                    greedy=not settings.do_sample,
                )
            )
        infos = []
        for number, rows in enumerate(steps):
            texts = [[utterance.text for utterance in next(said)] for _ in asks[number]]
            infos.append(
                critic_step(self.critic, self.target, self.critic_optimizer, rows, texts, self.steps)
            )
            self._say("critic", number + 1, len(steps))
        return infos

    def _critic_state(self) -> dict[str, Any]:
        return {
            "critic_state_dict": dict(self.critic.state_dict()),
            "target_critic_state_dict": dict(self.target.state_dict()),
            "critic_optimizer_state_dict": self.critic_optimizer.state_dict(),
            "updates": self._updates,
        }

    def _load_critic_state(self, state: dict[str, Any]) -> None:
        device = next(self.critic.parameters()).device
        self.critic.load_state_dict(from_first(state["critic_state_dict"], device))
        self.target.load_state_dict(from_first(state["target_critic_state_dict"], device))
        load_optimizer(self.critic_optimizer, state["critic_optimizer_state_dict"])
        self._updates = state["updates"]


class ArcherLearner(_CriticLearner):
    """ArCHer: the critic learns from the buffer, the policy from the critic (ArCHer spec §4).

    Args:
        settings: what the algorithm is told.
        policy: is trained.
        critic: is trained; the target begins as its copy.
        chat_format: how dialogues become observations.
        say: told of progress.
    """

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
        """Critic steps, then policy steps unless it is too early (ArCHer spec §4.3).

        Raises:
            NonFiniteLoss: a loss is NaN or infinite.
        """
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
                said = self.policy.sample(
                    observations, [ask.seed for ask in asks], greedy=not self.settings.do_sample
                )
            judged = judge(self.critic, observations, said, 4 * self.settings.max_tokens_per_batch)
            infos.append(actor_step(self.policy, self.lm_optimizer, judged, rows, self.steps))
            self._say("actor", number + 1, self.settings.actor_epochs)
        return infos

    def state_dict(self) -> dict[str, Any]:
        """The published five (ArCHer spec §4.4), the value head and the counter."""
        optimizer = {"lm_optimizer_state_dict": self.lm_optimizer.state_dict()}
        return self._critic_state() | dict(whole_state(self._policy_state() | optimizer))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._load_policy_state(state)
        self._load_critic_state(state)
        load_optimizer(self.lm_optimizer, state["lm_optimizer_state_dict"])


class ChaiLearner(_CriticLearner):
    """Online CHAI: the policy is frozen, the target critic chooses among its candidates (ArCHer spec §3)."""

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

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:  # noqa: ARG002 - never
        """Critic steps only.

        Raises:
            NonFiniteLoss: a loss is NaN or infinite.
        """
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
        """Go on from `state_dict`."""
        self._load_critic_state(state)


class FilteredBCLearner(_PolicyLearner):
    """Online Filtered BC: the policy imitates the best episodes; the loop filters (ArCHer spec §5)."""

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
        """`actor_epochs` steps of imitation; nothing, {}, while it is too early.

        Raises:
            NonFiniteLoss: a loss is NaN or infinite.
        """
        infos = []
        for number in range(self.settings.actor_epochs if update_actor else 0):
            rows = draw(self.settings.rows_per_step)
            infos.append(imitation_step(self.policy, self.lm_optimizer, rows, self.steps))
            self._say("imitate", number + 1, self.settings.actor_epochs)
        self._updates += 1
        return losses.means(infos)

    def state_dict(self) -> dict[str, Any]:
        """The policy, its optimizer and the counter."""
        optimizer = {"lm_optimizer_state_dict": self.lm_optimizer.state_dict(), "updates": self._updates}
        return dict(whole_state(self._policy_state() | optimizer))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._load_policy_state(state)
        load_optimizer(self.lm_optimizer, state["lm_optimizer_state_dict"])
        self._updates = state["updates"]


def copied(critic: DoubleCritic) -> DoubleCritic:
    """A critic with weights of its own, equal to these, that needs no gradients."""
    encoder, critic.encoder = critic.encoder, None  # type: ignore[assignment]  # caches are not copied
    try:
        target = copy.deepcopy(critic)
    finally:
        critic.encoder = encoder
    target.encoder = encoder.lent_to(target.base_lm)
    return target.requires_grad_(requires_grad=False)


def make_learner(
    settings: ArcherSettings, *, chat_format: ChatFormat, accelerator: Any = None, say: Say | None = None
) -> Learner:
    """The learner that the settings name, with its models loaded.

    Args:
        settings: what it is told.
        chat_format: how dialogues become observations (`sweet_rl.chat.transcripts`).
        accelerator: of accelerate, where several processes learn; says on which device.
        say: told of progress.

    Raises:
        UsageError: a model cannot be loaded, published arithmetic is asked of several processes, or a
            divided policy of one.
    """
    if settings.shard_with is not None:
        check_sharding()
    if settings.compat == "published":
        if world_size() > 1:
            raise UsageError(
                "compat=published computes in one process only: its gradients depend on their number. Start "
                "one, or take compat=fixed."
            )
        from sweet_rl.algorithms.archer.published import published_learner  # noqa: PLC0415 - a rare choice

        return published_learner(settings, chat_format=chat_format, accelerator=accelerator, say=say)
    if settings.agent_type == "online_filteredbc":
        policy = load_actor(settings, device_of(settings, accelerator))
        return FilteredBCLearner(settings, policy, chat_format, say)
    policy, critic = load_models(settings, accelerator)
    if settings.agent_type == "chai":
        return ChaiLearner(settings, policy, critic, chat_format, say)
    return ArcherLearner(settings, policy, critic, chat_format, say)
