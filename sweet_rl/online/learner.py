"""What all learners share: the policy, critics and their states on disk, and the steps that an update is made of.

Each phase clips its own gradients and begins without any. A step's loss is the sum of G means over B rows; it is computed in
micro-batches of similar rows under a token budget, and its value depends on neither that nor on the number of processes.

Axes: R rows of a step, S of a process, B of a mean, T tokens, C columns of numbers.

Published behaviour: docs/published/archer.md#one-update, #policy-loss, #behaviour-cloning, #deviations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.online import losses
from sweet_rl.online.critic import DoubleCritic, TextEncoder, critic_step
from sweet_rl.online.losses import StepSettings, of_all_rows, step
from sweet_rl.online.policy import Ask, Engine, Player, TokenPolicy, TokenScores, Turns, Utterance
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.training.processes import (
    all_reduce_max,
    broadcast_parameters,
    first_pass,
    from_main,
    full_weights,
    gathered,
    is_fsdp,
    is_main,
    load_optimizer,
    load_weights,
    optimizer_state,
    own_rows,
)  # fmt: skip
from sweet_rl.types import derive_seed

Draw = Callable[[int], Sequence[Transition]]  # that many transitions from a buffer; the same in every process
Said = tuple[Sequence[str], Sequence[Utterance]]  # what this process's turns saw, and what was said
Say = Callable[[str, int, int], None]  # called with the progress: the phase, steps done, steps in all


class Learner:
    """One algorithm with everything that it trains; its subclasses say what an update is.

    All processes call all methods but `rollout_policy`.
    """

    def __init__(
        self, settings: ArcherSettings, policy: TokenPolicy, critic: DoubleCritic | None, chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.policy, self._format = settings, policy, chat_format
        self._say: Say = say or (lambda _phase, _done, _total: None)
        self._updates = 0
        self.learns_words = settings.agent_type != "chai"
        if not self.learns_words:
            policy.model.requires_grad_(requires_grad=False)
        first_pass(policy)
        self._modules = nn.ModuleDict({"model": policy.model})
        if policy.value_head is not None:
            self._modules["value_head"] = policy.value_head
        broadcast_parameters([self._modules])
        names = [field.name for field in fields(StepSettings) if field.init]
        self.steps = StepSettings(**{name: getattr(settings, name) for name in names})
        if critic is not None:
            broadcast_parameters([critic])
            self.critic, self.target = critic, copied(critic)
            self.critic_optimizer = torch.optim.Adam(critic.parameters(), lr=settings.critic_lr)

    @cached_property
    def lm_optimizer(self) -> torch.optim.Optimizer:
        """The policy's."""
        return torch.optim.Adam(self.policy.parameters(), lr=self.settings.lm_lr)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """One iteration's optimizer steps, of the critic only unless `update_actor`; the published numbers."""
        raise NotImplementedError

    def gathered(self) -> AbstractContextManager[None]:
        """What all processes enter and leave together when one of them plays."""
        return gathered(self.policy.model)

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The policy at play, inside `gathered`; close it when the episodes are over."""
        greedy = greedy or not self.settings.do_sample

        def engine(asks: Sequence[Ask]) -> Turns:
            return self.policy.write([self.policy.request(*ask, greedy=greedy) for ask in asks])

        return self._player(engine)

    def _player(self, engine: Engine) -> Player:
        settings = self.settings
        return Player(settings.policy_lm, engine, self._format, self.policy.prompt, settings.seed)

    def _asks(self, phase: str, rows: Sequence[Transition]) -> list[Ask]:
        """This process's rows as turns to take; a row's seed does not depend on the number of processes."""
        return [
            Ask(rows[n].observation, derive_seed(self.settings.seed, "update", self._updates, phase, n))
            for n in own_rows(len(rows))
        ]

    def _proposals(self, asks: Sequence[Ask], *, greedy: bool) -> list[list[Utterance]]:
        """Candidates for each turn; the likeliest tokens are the same each time, so there is one of those."""
        count = 1 if greedy or self.learns_words else self.settings.candidates
        flat = self.policy.sample(
            [ask.observation for ask in asks for _ in range(count)],
            [derive_seed(ask.seed, n) if count > 1 else ask.seed for ask in asks for n in range(count)],
            greedy=greedy,
        )
        return [flat[start : start + count] for start in range(0, len(flat), count)]

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        """The critic's steps; the policy stands still and says everything first."""
        settings = self.settings
        steps = [list(draw(settings.rows_per_step)) for _ in range(settings.epochs)]
        asks = [self._asks(f"critic-{number}", rows) for number, rows in enumerate(steps)]
        self._say("sample", 0, len(steps))
        with self.gathered():
            every = [ask for one in asks for ask in one]
            proposed = iter(self._proposals(every, greedy=not settings.do_sample))
        infos = []
        for number, rows in enumerate(steps):
            texts = [[utterance.text for utterance in next(proposed)] for _ in asks[number]]
            infos.append(
                critic_step(self.critic, self.target, self.critic_optimizer, rows, texts, self.steps)
            )
            self._say("critic", number + 1, len(steps))
        return infos

    def save_policy(self, folder: Path) -> None:
        """The policy as a folder that transformers loads; an adapter as peft loads it."""
        whole: Any = getattr(self.policy.model, "adapter_of_policy", self.policy.model)
        options = {}
        if is_fsdp(self.policy.model):
            options["state_dict"] = full_weights(whole, trained_only=whole is not self.policy.model)
        if is_main():
            whole.save_pretrained(folder, **options)
            self.policy.tokenizer.save_pretrained(folder)

    def state_dict(self) -> dict[str, Any]:
        """Weights that are trained, target, optimizers and counter; only the first process's has tensors.

        A policy that is not trained, or a frozen base below an adapter, is where `policy_lm` says.
        """
        state: dict[str, Any] = {"updates": self._updates}
        if hasattr(self, "critic"):
            state["critic_state_dict"] = dict(self.critic.state_dict())
            state["target_critic_state_dict"] = dict(self.target.state_dict())
            state["critic_optimizer_state_dict"] = optimizer_state(self.critic, self.critic_optimizer)
        if self.learns_words:
            head = self.policy.value_head
            state["model_state_dict"] = full_weights(self.policy.model, trained_only=True)
            state["value_head_state_dict"] = full_weights(head) if head is not None else None
            state["lm_optimizer_state_dict"] = optimizer_state(self._modules, self.lm_optimizer)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; the first process's counts."""
        if self.learns_words:
            load_weights(self.policy.model, state.get("model_state_dict", {}))
            if self.policy.value_head is not None:
                load_weights(self.policy.value_head, state.get("value_head_state_dict", {}))
            load_optimizer(self._modules, self.lm_optimizer, state.get("lm_optimizer_state_dict", {}))
        if hasattr(self, "critic"):
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
    how: dict[str, Any] = {name: getattr(encoder, name) for name in ("max_length", "pooling", "half")}
    target.encoder = TextEncoder(target.base_lm, encoder.tokenizer, **how)
    return target.requires_grad_(requires_grad=False)


def actor_step(
    policy: TokenPolicy, optimizer: torch.optim.Optimizer, turns: Said, advantages_S: Tensor,
    rows: Sequence[Transition], settings: StepSettings,
) -> dict[str, float]:  # fmt: skip
    """One step of REINFORCE: this process's observations and utterances, and what they gain."""
    advantages_S = weights_S = advantages_S.to(policy.device, policy.dtype)
    if settings.normalize_advantages and len(rows) > 1:  # over all rows of the step; one alone keeps its own
        all_R = of_all_rows([advantages_S], len(rows), policy.model)[0]
        weights_S = ((all_R - all_R.mean()) / (all_R.std() + 1e-8))[own_rows(len(rows))]

    def columns(numbers: list[int], scores: TokenScores) -> Tensor:
        gains_B, weights_B = advantages_S[numbers], weights_S[numbers]
        if policy.value_head is None:
            nothing_B = torch.zeros_like(gains_B)
            return torch.stack([-scores.logps_B * weights_B, nothing_B, gains_B, nothing_B, nothing_B])
        policy_B, value_B, _ = losses.baseline_losses(
            scores.logps_BT, scores.values_BT, scores.mask_BT, weights_B
        )
        values_B = (scores.values_BT * scores.mask_BT).sum(dim=1) / scores.mask_BT.sum(dim=1)
        return torch.stack([policy_B, value_B, gains_B, values_B, gains_B - values_B])

    return losses.means(
        losses.actor_metrics(policy_B, gains_B, value_losses_B=value_B, values=values_B, residuals=left_B)
        for policy_B, value_B, gains_B, values_B, left_B in torch.split(
            policy_step(policy, optimizer, turns, rows, settings, 5, columns), settings.batch_size, dim=1
        )
    )


def imitation_step(
    policy: TokenPolicy, optimizer: torch.optim.Optimizer, rows: Sequence[Transition], settings: StepSettings
) -> dict[str, float]:
    """One step of behaviour cloning on the rows' own actions, their ends included."""

    def columns(_: list[int], scores: TokenScores) -> Tensor:
        return torch.stack([-scores.logps_B, torch.zeros_like(scores.logps_B)])

    turns = spoken(policy, [rows[number] for number in own_rows(len(rows))])
    return {"bc.loss": policy_step(policy, optimizer, turns, rows, settings, 2, columns)[0].mean().item()}


def policy_step(
    policy: TokenPolicy, optimizer: torch.optim.Optimizer, turns: Said, rows: Sequence[Transition],
    settings: StepSettings, count: int, columns: Callable[[list[int], TokenScores], Tensor],
) -> Tensor:  # fmt: skip
    """One step on this process's turns.

    `columns` gives numbers [C, B] of a batch of them, the first two of which add up to a row's loss. Returns
    those of all rows, as [C, R].
    """
    optimizer.zero_grad(set_to_none=True)
    table = torch.zeros(count, len(turns[0]), device=policy.device, dtype=policy.dtype)
    for numbers, scores in shared_passes(policy, *turns):
        found = columns(numbers, scores)
        torch.autograd.backward((found[0] + found[1]).sum() / settings.batch_size)
        table[:, numbers] = found.detach().to(policy.dtype)
    everything = of_all_rows([*table], len(rows), policy.model)
    step(optimizer, policy.parameters(), everything[0] + everything[1], everything, rows, "policy", settings)
    return everything


def spoken(policy: TokenPolicy, rows: Sequence[Transition]) -> Said:
    """The rows' observations, and their actions in tokens of the policy."""
    said = [policy.known_utterance(row.observation, row.action, row.action_ids) for row in rows]
    return [row.observation for row in rows], said


def shared_passes(
    policy: TokenPolicy, observations: Sequence[str], utterances: Sequence[Utterance]
) -> Iterator[tuple[list[int], TokenScores]]:
    """Batches of this process's utterances, by number, with their scores; a backward pass belongs to each.

    Sharded layers need every process at every pass, so one with fewer batches makes passes that weigh nothing afterwards.
    """
    batches = list(policy.batches(observations, utterances)) if utterances else []
    passes = all_reduce_max(len(batches), policy.device) if is_fsdp(policy.model) else len(batches)
    for batch in batches:
        yield batch, policy.scores([observations[n] for n in batch], [utterances[n] for n in batch])
    for _ in range(passes - len(batches)):
        scores = policy.scores(["a"], [policy.utterance("a", "a")])
        found = [scores.logps_BT, *([scores.values_BT] if policy.value_head is not None else [])]
        torch.autograd.backward(found, [torch.zeros_like(one) for one in found])
