"""Policy updates: by the critic's advantage, or by imitation.

Each phase clips its own gradients and begins without any. A step's loss is the sum of G means over B rows;
it is computed in micro-batches of similar rows under a token budget, and its value depends on neither that
nor on the number of processes. Importing this module imports torch.

Axes: R rows of a step, S of a process, B of a mean, T tokens, W tokens of an utterance at most.

Published behaviour: docs/published/archer.md#policy-loss, #behaviour-cloning, #deviations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sweet_rl.online import losses
from sweet_rl.online.actor import TokenPolicy, Utterance
from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.distributed.collectives import all_reduce_max, own_rows
from sweet_rl.online.distributed.fsdp import is_fsdp
from sweet_rl.online.replay import Transition
from sweet_rl.online.steps import Row, StepSettings, of_all_rows, step


class Spoken(Row, Protocol):
    """A row that can be imitated: an observation and the utterance that answered it."""

    @property
    def observation(self) -> str:
        """The rendered text that the policy was given."""
        ...

    @property
    def action(self) -> str:
        """The utterance that the policy answered with."""
        ...

    @property
    def action_ids(self) -> tuple[int, ...] | None:
        """Its tokens, where the policy wrote them."""
        ...


class ActorRows(NamedTuple):
    """The policy's turns for this process's rows of a step, and the critic's values of them."""

    observations: Sequence[str]
    utterances: Sequence[Utterance]
    advantages_S: Tensor


@torch.no_grad()
def judge(
    critic: DoubleCritic, observations: Sequence[str], utterances: Sequence[Utterance], max_tokens: int
) -> ActorRows:
    """The rows of a policy step: utterances with their advantages [S] under the online critic."""
    device = next(critic.parameters()).device
    if not observations:
        return ActorRows(observations, utterances, torch.zeros(0, device=device))
    values = critic.read(observations, [utterance.text for utterance in utterances], max_tokens)
    return ActorRows(observations, utterances, losses.advantages(values))


def actor_step(
    policy: TokenPolicy,
    optimizer: torch.optim.Optimizer,
    judged: ActorRows,
    rows: Sequence[Transition],
    settings: StepSettings,
) -> dict[str, float]:
    """One step of the policy on the turns that it has just sampled."""
    optimizer.zero_grad(set_to_none=True)
    advantages_S = judged.advantages_S.to(policy.device, policy.dtype)
    weights_S = advantages_S
    if settings.normalize_advantages:
        all_R = of_all_rows([advantages_S], len(rows), policy.model)[0]
        weights_S = losses.normalized(all_R)[own_rows(len(rows))]
    count, width = len(judged.observations), policy.max_new_tokens
    table = torch.zeros(4, count, device=policy.device, dtype=policy.dtype)
    values_SW, mask_SW = torch.zeros(2, count, width, device=policy.device, dtype=policy.dtype)
    for numbers in shared_passes(policy, judged.observations, judged.utterances):
        scores = policy.scores(
            [judged.observations[n] for n in numbers], [judged.utterances[n] for n in numbers]
        )
        part_B = weights_S[numbers]
        if scores.values_BT is None:
            policy_B = losses.policy_gradient_losses(scores.logps_B, part_B)
            value_B = torch.zeros_like(policy_B)
        else:
            found = losses.baseline_losses(scores.logps_BT, scores.values_BT, scores.mask_BT, part_B)
            policy_B, value_B = found.policy_B, found.value_B
            values_SW[numbers, : scores.mask_BT.shape[1]] = scores.values_BT.detach()
            mask_SW[numbers, : scores.mask_BT.shape[1]] = scores.mask_BT.to(policy.dtype)
        torch.autograd.backward((policy_B + value_B).sum() / settings.batch_size)
        table[:, numbers] = torch.stack([policy_B, value_B, advantages_S[numbers], part_B]).detach()
    everything = of_all_rows([*table, *values_SW.T, *mask_SW.T], len(rows), policy.model)
    step(optimizer, policy.parameters(), everything[0] + everything[1], everything, rows, "policy", settings)
    return losses.means(
        _actor_metrics(part, with_values=policy.value_head is not None)
        for part in torch.split(everything, settings.batch_size, dim=1)
    )


def _actor_metrics(part: Tensor, *, with_values: bool) -> dict[str, float]:
    """The numbers of one published micro-batch, from its columns of the step's table."""
    policy_B, value_B, advantages_B, weights_B = part[:4]
    if not with_values:
        return losses.actor_metrics(policy_B, advantages_B)
    values_WB, mask_WB = part[4:].chunk(2)
    kept = mask_WB > 0
    return losses.actor_metrics(
        policy_B,
        advantages_B,
        value_losses_B=value_B,
        values=values_WB[kept],
        residuals=(weights_B[None] - values_WB)[kept],
    )


def imitation_step(
    policy: TokenPolicy,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Spoken],
    settings: StepSettings,
) -> dict[str, float]:
    """One step of behaviour cloning on the rows' own actions, their ends included."""
    optimizer.zero_grad(set_to_none=True)
    mine = [rows[number] for number in own_rows(len(rows))]
    observations = [row.observation for row in mine]
    utterances = [policy.known_utterance(row.observation, row.action, row.action_ids) for row in mine]
    losses_S = torch.zeros(len(mine), device=policy.device, dtype=policy.dtype)
    for numbers in shared_passes(policy, observations, utterances):
        scores = policy.scores([observations[n] for n in numbers], [utterances[n] for n in numbers])
        losses_B = losses.imitation_losses(scores.logps_B)
        torch.autograd.backward(losses_B.sum() / settings.batch_size)
        losses_S[numbers] = losses_B.detach()
    table = of_all_rows([losses_S], len(rows), policy.model)
    step(optimizer, policy.parameters(), table[0], table, rows, "policy", settings)
    return {"bc.loss": table[0].mean().item()}


def shared_passes(
    policy: TokenPolicy, observations: Sequence[str], utterances: Sequence[Utterance]
) -> Iterator[list[int]]:
    """Numbers of this process's utterances to score together, with a backward pass after each batch.

    Sharded layers need every process at every pass. So a process that has fewer batches than another makes
    passes afterwards that weigh nothing.
    """
    batches = list(policy.batches(observations, utterances)) if utterances else []
    passes = (
        all_reduce_max(len(batches), policy.device) if is_fsdp(policy.model) else len(batches)
    )  # agreed before
    yield from batches
    for _ in range(passes - len(batches)):
        scores = policy.scores(["a"], [policy.utterance("a", "a")])
        found = [scores.logps_BT, *([scores.values_BT] if scores.values_BT is not None else [])]
        torch.autograd.backward(found, [torch.zeros_like(one) for one in found])
