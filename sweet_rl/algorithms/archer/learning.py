"""What the loop asks of a learner, and what all learners share: a policy, a critic, their states on disk.

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

from sweet_rl.algorithms.archer import players
from sweet_rl.algorithms.archer.actor import TokenPolicy
from sweet_rl.algorithms.archer.critic import DoubleCritic
from sweet_rl.algorithms.archer.critic_updates import critic_step
from sweet_rl.algorithms.archer.players import Ask, Player
from sweet_rl.algorithms.archer.replay import Transition
from sweet_rl.algorithms.archer.settings import ArcherSettings
from sweet_rl.algorithms.archer.steps import StepSettings
from sweet_rl.algorithms.distributed.collectives import begin_alike, own_rows
from sweet_rl.algorithms.distributed.fsdp import gathered, is_sharded, settle
from sweet_rl.algorithms.distributed.processes import is_main
from sweet_rl.algorithms.distributed.states import from_first, load_optimizer, load_parameter, whole_weights
from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.types import derive_seed

Draw = Callable[[int], Sequence[Transition]]
"""That many transitions from a buffer; the same in every process."""

Say = Callable[[str, int, int], None]
"""Called with the progress: the phase, steps done, steps in all."""


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


class PolicyLearner:
    """What all learners share: the policy, how steps are made, the counter of updates.

    Args:
        settings: of the algorithm.
        policy: acts; what of it is trained the algorithm says.
        chat_format: how dialogues become observations.
        say: called with the progress.
    """

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


class CriticLearner(PolicyLearner):
    """What ArCHer and CHAI share: the critic, its target, and how they are trained.

    Args:
        settings: of the algorithm.
        policy: acts.
        critic: is trained; the target begins as its copy.
        chat_format: how dialogues become observations.
        say: called with the progress.
    """

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
        """The critic's steps; the policy stands still and says everything first."""
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


def copied(critic: DoubleCritic) -> DoubleCritic:
    """A critic with weights of its own, equal to these, that needs no gradients."""
    encoder, critic.encoder = critic.encoder, None  # type: ignore[assignment]  # caches are not copied
    try:
        target = copy.deepcopy(critic)
    finally:
        critic.encoder = encoder
    target.encoder = encoder.lent_to(target.base_lm)
    return target.requires_grad_(requires_grad=False)
