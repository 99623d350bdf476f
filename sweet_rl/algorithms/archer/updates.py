"""Optimizer steps: rows in, weights changed, the published numbers out (ArCHer spec §4.3, repaired by §15).

Each phase clips its own gradients and begins without any. A step's loss is the sum of G means over B rows;
it is computed in micro-batches of similar rows under a token budget, and its value depends on neither that
nor on the number of processes. Nothing is stepped on a number that is not finite. Importing this module
imports torch.

Axes: R rows of a step, S of a process, M of a micro-batch, C candidates.
"""

# ruff: noqa: N806, N815 - the names of tensors end in their axes

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from sweet_rl.algorithms.archer import losses
from sweet_rl.algorithms.archer.actor import TokenPolicy, Utterance
from sweet_rl.algorithms.archer.critic import Distinct, DoubleCritic, TextEncoder, soft_update
from sweet_rl.algorithms.archer.losses import CriticLosses, CriticTargets, CriticValues
from sweet_rl.algorithms.archer.replay import Transition
from sweet_rl.algorithms.sharded import clip, is_sharded
from sweet_rl.algorithms.shares import most, own_rows, rank, sum_gradients, summed
from sweet_rl.errors import SweetRLError
from sweet_rl.types import Json


class Row(Protocol):
    """What can be kept on disk when its loss is not finite."""

    def to_row(self) -> dict[str, Json]:
        """As plain data."""
        ...


class Spoken(Row, Protocol):
    """What can be imitated."""

    @property
    def observation(self) -> str:
        """What was seen."""
        ...

    @property
    def action(self) -> str:
        """What was said."""
        ...

    @property
    def action_ids(self) -> tuple[int, ...] | None:
        """Its tokens, where the policy wrote them."""
        ...


class NonFiniteLoss(SweetRLError):  # noqa: N818 - the word for it
    """A loss or a gradient is NaN or infinite; no optimizer step was made on it."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What a step is told.

    Attributes:
        batch_size: rows of a mean (B).
        gamma: discount.
        tau: of Polyak averaging.
        max_grad_norm: gradients are clipped to it.
        max_tokens_per_batch: tokens of a micro-batch with gradients; four times as many without.
        normalize_advantages: give the advantages of a step mean 0 and deviation 1.
        nonfinite_path: where the rows of a step that fails are kept; None keeps none.
    """

    batch_size: int
    gamma: float = 0.95
    tau: float = 0.1
    max_grad_norm: float = 1.0
    max_tokens_per_batch: int = 4096
    normalize_advantages: bool = False
    nonfinite_path: Path | None = None


def critic_step(
    critic: DoubleCritic,
    target: DoubleCritic,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Transition],
    proposals: Sequence[Sequence[str]],
    settings: StepSettings,
) -> dict[str, float]:
    """One step of the critic, and of the target towards it (ArCHer spec §4.1).

    Args:
        critic: is trained.
        target: gives the values that it is regressed on.
        optimizer: of the critic.
        rows: of the whole step, the same in every process.
        proposals: utterances of the policy for each row of this process (`own_rows`); of several, the one
            that the target critic likes best is taken (Online CHAI, ArCHer spec §3).
        settings: see `StepSettings`.

    Returns:
        The 28 published numbers, means over the micro-batches of B rows.

    Raises:
        NonFiniteLoss: before the optimizer's step.
    """
    optimizer.zero_grad(set_to_none=True)
    mine = [rows[number] for number in own_rows(len(rows))]
    targets = critic_targets(target, mine, proposals, settings)
    values, errors = _critic_backward(critic, mine, targets, settings)
    table = _of_all_rows([*values, *errors, *targets], len(rows), critic)
    step(optimizer, list(critic.parameters()), table[:8], rows, "critic", settings)
    soft_update(target, critic, settings.tau)
    return losses.means(
        losses.critic_metrics(CriticValues(*part[:4]), CriticTargets(*part[8:]), CriticLosses(*part[4:8]))
        for part in torch.split(table, settings.batch_size, dim=1)
    )


@torch.no_grad()
def critic_targets(
    target: DoubleCritic,
    rows: Sequence[Transition],
    proposals: Sequence[Sequence[str]],
    settings: StepSettings,
) -> CriticTargets:
    """What the critics are regressed on. Every distinct text is encoded once."""
    device, dtype = next(target.parameters()).device, next(target.parameters()).dtype
    if not rows:
        return CriticTargets(*torch.zeros(4, 0, device=device, dtype=dtype))
    owners = [number for number, texts in enumerate(proposals) for _ in texts]
    flat = [text for texts in proposals for text in texts]
    following = [number for number, row in enumerate(rows) if row.bootstraps]
    texts = [*(row.observation for row in rows), *flat, *(rows[n].next_observation for n in following)]
    features = target.encode(texts, 4 * settings.max_tokens_per_batch)
    states, actions, nexts = torch.split(features, [len(rows), len(flat), len(following)])
    q1, q2 = target.q(states[torch.tensor(owners, device=device)], actions)
    picked = torch.tensor(best_places(torch.minimum(q1, q2), owners), device=device)
    rewards_S = torch.tensor([row.reward for row in rows], device=device, dtype=dtype)
    goes_on_S, v1_S, v2_S = torch.zeros(3, len(rows), device=device, dtype=dtype)
    if following:
        where = torch.tensor(following, device=device)
        goes_on_S[where] = 1
        v1_S[where], v2_S[where] = target.v(nexts)
    return CriticTargets(
        losses.bootstrapped(rewards_S, goes_on_S, v1_S, settings.gamma),
        losses.bootstrapped(rewards_S, goes_on_S, v2_S, settings.gamma),
        q1[picked],
        q2[picked],
    )


def best_places(values: Tensor, owners: Sequence[int]) -> list[int]:
    """For each owner in order, the place of its largest value; the first of equals."""
    best: dict[int, int] = {}
    found = values.tolist()
    for place, owner in enumerate(owners):
        if owner not in best or found[place] > found[best[owner]]:
            best[owner] = place
    return [best[owner] for owner in sorted(best)]


def _critic_backward(
    critic: DoubleCritic, rows: Sequence[Transition], targets: CriticTargets, settings: StepSettings
) -> tuple[CriticValues, CriticLosses]:
    """Gradients of this process's rows; values and errors, detached. Each distinct text is encoded once."""
    device, dtype = next(critic.parameters()).device, next(critic.parameters()).dtype
    table = torch.zeros(8, len(rows), device=device, dtype=dtype)
    if rows:
        actions = Distinct.of([row.action for row in rows])
        held = HeldFeatures(critic.encoder, actions.texts, settings.max_tokens_per_batch)
        for numbers in row_batches(critic.encoder, rows, settings.max_tokens_per_batch):
            states = critic.encode([rows[n].observation for n in numbers], settings.max_tokens_per_batch)
            spoken = held.features[torch.tensor([actions.places[n] for n in numbers], device=device)]
            values: CriticValues = critic(states, spoken)
            part = CriticTargets(*(tensor[numbers] for tensor in targets))
            errors = losses.critic_losses(values, part)
            torch.autograd.backward(errors.total_B.sum() / settings.batch_size)
            table[:, numbers] = torch.stack([*values, *errors]).detach()
        held.backward()
    return CriticValues(*table[:4]), CriticLosses(*table[4:])


class HeldFeatures:
    """Vectors of texts that several micro-batches use: encoded once, gradients gathered, passed back once.

    Where the texts have more tokens than one batch may, activations are not kept but computed again.

    Args:
        encoder: of the critic that is trained.
        texts: distinct.
        max_tokens: of one batch.
    """

    def __init__(self, encoder: TextEncoder, texts: Sequence[str], max_tokens: int) -> None:
        self._encoder, self._texts, self._max_tokens = encoder, texts, max_tokens
        self._keeps = encoder.tokens(texts) <= max_tokens
        with torch.set_grad_enabled(self._keeps):
            self._made = encoder(texts, max_tokens)
        self.features = self._made.detach().requires_grad_()

    def backward(self) -> None:
        """Pass on what the micro-batches have left."""
        gradient = self.features.grad
        if gradient is None:
            return
        if self._keeps:
            torch.autograd.backward(self._made, gradient)
            return
        for batch in self._encoder.batches(self._texts, self._max_tokens):
            made = self._encoder([self._texts[n] for n in batch], self._max_tokens)
            torch.autograd.backward(made, gradient[batch])


def row_batches(encoder: TextEncoder, rows: Sequence[Transition], max_tokens: int) -> Iterator[list[int]]:
    """Numbers of rows in micro-batches; rows with the same observation stay together, lengths are similar."""
    observations = Distinct.of([row.observation for row in rows])
    members: list[list[int]] = [[] for _ in observations.texts]
    for number, place in enumerate(observations.places):
        members[place].append(number)
    for batch in encoder.batches(observations.texts, max_tokens):
        yield [number for place in batch for number in members[place]]


class ActorRows(NamedTuple):
    """What the policy said to this process's rows of a step, and what the critic thinks of it."""

    observations: Sequence[str]
    utterances: Sequence[Utterance]
    advantages_S: Tensor


@torch.no_grad()
def judge(
    critic: DoubleCritic, observations: Sequence[str], utterances: Sequence[Utterance], max_tokens: int
) -> ActorRows:
    """Advantages under the online critic (ArCHer spec §4.2)."""
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
    """One step of the policy on what it has just said (ArCHer spec §4.2).

    Returns:
        The 14 published numbers, means over the micro-batches of B rows.

    Raises:
        NonFiniteLoss: before the optimizer's step.
    """
    optimizer.zero_grad(set_to_none=True)
    advantages_S = judged.advantages_S.to(policy.device, policy.dtype)
    weights_S = advantages_S
    if settings.normalize_advantages:
        all_R = _of_all_rows([advantages_S], len(rows), policy.model)[0]
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
    everything = _of_all_rows([*table, *values_SW.T, *mask_SW.T], len(rows), policy.model)
    step(optimizer, policy.parameters(), everything, rows, "policy", settings)
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
    """One step of behaviour cloning on the rows' own actions, their ends included (ArCHer spec §5).

    Raises:
        NonFiniteLoss: before the optimizer's step.
    """
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
    table = _of_all_rows([losses_S], len(rows), policy.model)
    step(optimizer, policy.parameters(), table, rows, "policy", settings)
    return {"bc.loss": table[0].mean().item()}


def shared_passes(
    policy: TokenPolicy, observations: Sequence[str], utterances: Sequence[Utterance]
) -> Iterator[list[int]]:
    """Numbers of this process's utterances to score together, with a backward pass after each batch.

    Layers in pieces need every process at every pass. So a process that has fewer batches than another makes
    passes afterwards that weigh nothing.
    """
    batches = list(policy.batches(observations, utterances)) if utterances else []
    passes = most(len(batches), policy.device) if is_sharded(policy.model) else len(batches)  # agreed before
    yield from batches
    for _ in range(passes - len(batches)):
        scores = policy.scores(["a"], [policy.utterance("a", "a")])
        found = [scores.logps_BT, *([scores.values_BT] if scores.values_BT is not None else [])]
        torch.autograd.backward(found, [torch.zeros_like(one) for one in found])


def _of_all_rows(columns: Sequence[Tensor], count: int, model: nn.Module) -> Tensor:
    """Numbers of all rows of a step, as [len(columns), R], from what each process knows of its own."""
    device = next(model.parameters()).device
    table = torch.zeros(len(columns), count, device=device, dtype=columns[0].dtype)
    table[:, own_rows(count)] = torch.stack([column.to(device) for column in columns])
    return summed(table)


def step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    numbers: Tensor,
    rows: Sequence[Row],
    what: str,
    settings: StepSettings,
) -> None:
    """Add up gradients over processes, clip, step; but nothing unless everything is finite.

    Args:
        optimizer: of the parameters.
        parameters: whose gradients count.
        numbers: losses and what they were made of, of all rows.
        rows: kept on disk when a number is not finite.
        what: is trained, for the message.
        settings: see `StepSettings`.

    Raises:
        NonFiniteLoss: a number or the norm of the gradients is NaN or infinite.
    """
    sum_gradients(parameters)
    norm = clip(parameters, settings.max_grad_norm)
    if not (bool(numbers.isfinite().all()) and bool(norm.isfinite())):
        kept = _keep(rows, settings.nonfinite_path)
        raise NonFiniteLoss(
            f"A loss of the {what} is not a finite number (gradient norm {norm.item()}); no step was made. "
            f"{kept}"
            "Lower the learning rate or max_grad_norm, or compute in float32; the newest checkpoint is sound."
        )
    optimizer.step()


def _keep(rows: Sequence[Row], path: Path | None) -> str:
    """Write the rows as JSON Lines; says where."""
    if path is None or rank() != 0:
        return ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row.to_row()) + "\n" for row in rows), encoding="utf-8")
    return f"Its {len(rows)} rows are in {str(path)!r}. "
