"""Critic updates: rows in, new weights and the published metrics out.

A step's loss is the sum of G means over B rows; it is computed in micro-batches of similar rows under a token
budget, and its value depends on neither that nor on the number of processes. Importing this module imports
torch.

Axes: R rows of a step, S of a process, M of a micro-batch, C candidates.

Published behaviour: docs/published/archer.md#critic-targets, #deviations, #online-chai.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from sweet_rl.online import losses
from sweet_rl.online.critic import Distinct, DoubleCritic, TextEncoder, soft_update
from sweet_rl.online.distributed.collectives import own_rows
from sweet_rl.online.losses import CriticLosses, CriticTargets, CriticValues
from sweet_rl.online.replay import Transition
from sweet_rl.online.steps import StepSettings, of_all_rows, step


def critic_step(
    critic: DoubleCritic,
    target: DoubleCritic,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Transition],
    proposals: Sequence[Sequence[str]],
    settings: StepSettings,
) -> dict[str, float]:
    """One step of the critic, and of the target towards it."""
    optimizer.zero_grad(set_to_none=True)
    mine = [rows[number] for number in own_rows(len(rows))]
    targets = critic_targets(target, mine, proposals, settings)
    values, errors = _critic_backward(critic, mine, targets, settings)
    table = of_all_rows([*values, *errors, *targets], len(rows), critic)
    step(optimizer, list(critic.parameters()), table[4:8].sum(dim=0), table[:8], rows, "critic", settings)
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
    bootstrap_mask_S, v1_S, v2_S = torch.zeros(3, len(rows), device=device, dtype=dtype)
    if following:
        where = torch.tensor(following, device=device)
        bootstrap_mask_S[where] = 1
        v1_S[where], v2_S[where] = target.v(nexts)
    return CriticTargets(
        losses.td_targets(rewards_S, bootstrap_mask_S, v1_S, settings.gamma),
        losses.td_targets(rewards_S, bootstrap_mask_S, v2_S, settings.gamma),
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
