"""The online algorithms, and behaviour cloning before them.

`ArcherLearner` trains critic and policy, `ChaiLearner` the critic only, `FilteredBCLearner` the policy on the best
episodes. `OnPolicyLearner` has no memory: it learns from the whole episodes of the newest iteration.

Axes: R rows of a step, S of a process, B of a mean, T tokens of an utterance.

Published behaviour: docs/published/archer.md#online-chai, #behaviour-cloning, #critic-targets, #one-update,
#checkpoint.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.online import losses
from sweet_rl.online.critic import best_places
from sweet_rl.online.learner import Draw, Learner, Say, actor_step, imitation_step, policy_step, spoken
from sweet_rl.online.losses import StepSettings
from sweet_rl.online.models import load_actor, load_archer_critic
from sweet_rl.online.policy import Ask, TokenPolicy, TokenScores, Turns, Utterance
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.policies.weights import device_of
from sweet_rl.training.processes import check_sharding, own_rows, world_size


class ArcherLearner(Learner):
    """ArCHer: the critic learns from the buffer, the policy from the critic."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """Critic steps, then policy steps unless it is too early."""
        info = losses.means(self._train_critic(draw))
        if update_actor:
            info |= losses.means(self._train_actor(draw))
        self._updates += 1
        return info

    def _train_actor(self, draw: Draw) -> list[dict[str, float]]:
        settings, infos = self.settings, []
        for number in range(settings.actor_epochs):
            rows = draw(settings.rows_per_step)
            asks = self._asks(f"actor-{number}", rows)
            observations = [ask.observation for ask in asks]
            with self.gathered():
                said = self.policy.sample(
                    observations, [ask.seed for ask in asks], greedy=not settings.do_sample
                )
            gains_S = self._advantages(observations, said)
            turns = observations, said
            infos.append(actor_step(self.policy, self.lm_optimizer, turns, gains_S, rows, self.steps))
            self._say("actor", number + 1, settings.actor_epochs)
        return infos

    @torch.no_grad()
    def _advantages(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> Tensor:
        """What the online critic thinks of what the policy says now, as [S]."""
        if not observations:
            return torch.zeros(0)
        texts = [utterance.text for utterance in utterances]
        return losses.advantages(
            self.critic.read(observations, texts, 4 * self.settings.max_tokens_per_batch)
        )


class ChaiLearner(Learner):
    """Online CHAI: the policy is frozen, the target critic chooses among its candidates."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """Critic steps only."""
        info = losses.means(self._train_critic(draw))
        self._updates += 1
        return info

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """Of several utterances the one with the largest min(Q1, Q2), the first of equals; greedy ones are all alike."""

        @torch.no_grad()
        def engine(asks: Sequence[Ask]) -> Turns:
            proposed = self._proposals(asks, greedy=greedy or not self.settings.do_sample)
            owners = [number for number, utterances in enumerate(proposed) for _ in utterances]
            flat = [utterance for utterances in proposed for utterance in utterances]
            values = self.target.read(
                [asks[number].observation for number in owners],
                [utterance.text for utterance in flat],
                4 * self.policy.max_tokens_per_batch,
            )
            best = best_places(torch.minimum(values.q1_B, values.q2_B), owners)
            yield [(number, flat[place]) for number, place in enumerate(best)]

        return self._player(engine)


class FilteredBCLearner(Learner):
    """Online Filtered BC: the policy imitates the best episodes; the loop filters."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """`actor_epochs` steps of imitation; nothing, {}, while it is too early."""
        infos = []
        for number in range(self.settings.actor_epochs if update_actor else 0):
            rows = draw(self.settings.rows_per_step)
            infos.append(imitation_step(self.policy, self.lm_optimizer, rows, self.steps))
            self._say("imitate", number + 1, self.settings.actor_epochs)
        self._updates += 1
        return losses.means(infos)


class OnPolicyLearner(Learner):
    """PPO, or REINFORCE: `actor_epochs` steps on the turns of the newest iteration, drawn with replacement.

    A turn is worth `Transition.mc_return`. REINFORCE takes the mean of a step's rows off it; PPO a value of each
    token, learnt by a linear head on the policy's own states (at `critic_lr`), and clips.
    """

    @cached_property
    def lm_optimizer(self) -> torch.optim.Optimizer:
        head, every = self.policy.value_head, self.policy.parameters()
        own = [] if head is None else list(head.parameters())
        groups: list[dict[str, Any]] = [{"params": every[: len(every) - len(own)]}]
        groups += [{"params": own, "lr": self.settings.critic_lr}] if own else []
        return torch.optim.Adam(groups, lr=self.settings.lm_lr)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """The policy's steps; nothing, {}, while it is too early."""
        settings, infos = self.settings, []
        clips, optimizer = settings.agent_type == "ppo", self.lm_optimizer
        count = settings.actor_epochs if update_actor else 0
        steps = [list(draw(settings.rows_per_step)) for _ in range(count)]
        before = self._before([row for rows in steps for row in rows]) if clips else {}
        for number, rows in enumerate(steps):
            if clips:
                info = clipped_step(self.policy, optimizer, rows, before, settings.clip_range, self.steps)
            else:
                returns_R = torch.tensor([row.mc_return for row in rows], device=self.policy.device)
                mine = own_rows(len(rows))
                gains_S = (returns_R - returns_R.mean())[mine]
                turns = spoken(self.policy, [rows[number] for number in mine])
                info = actor_step(self.policy, optimizer, turns, gains_S, rows, self.steps)
            infos.append(info)
            self._say("actor", number + 1, count)
        self._updates += 1
        return losses.means(infos)

    @torch.no_grad()
    def _before(self, rows: Sequence[Transition]) -> dict[int, tuple[Tensor, Tensor]]:
        """Log-probabilities and values [T] of every turn that is drawn, by its identity."""
        distinct = list({id(row): row for row in rows}.values())
        observations, said = spoken(self.policy, distinct)
        found = {}
        for numbers in self.policy.batches(observations, said):
            scores = self.policy.scores([observations[n] for n in numbers], [said[n] for n in numbers])
            for number, logps_T, values_T in zip(numbers, scores.logps_BT, scores.values_BT, strict=True):
                length = len(said[number].token_ids)
                found[id(distinct[number])] = logps_T[:length], values_T[:length]
        return found


def clipped_step(
    policy: TokenPolicy, optimizer: torch.optim.Optimizer, rows: Sequence[Transition],
    before: dict[int, tuple[Tensor, Tensor]], clip_range: float, settings: StepSettings,
) -> dict[str, float]:  # fmt: skip
    """One step of PPO on turns that were played."""
    mine = [rows[number] for number in own_rows(len(rows))]
    mean, deviation = 0.0, 1.0
    if settings.normalize_advantages:
        known = torch.cat([row.mc_return - before[id(row)][1] for row in rows])
        if len(known) > 1:  # one token alone keeps its advantage
            mean, deviation = known.mean().item(), known.std().item() + 1e-8

    def columns(numbers: list[int], scores: TokenScores) -> Tensor:
        old_logps_BT, old_values_BT = (
            nn.utils.rnn.pad_sequence([before[id(mine[n])][part] for n in numbers], batch_first=True)
            for part in (0, 1)
        )
        returns_B1 = torch.tensor([[mine[n].mc_return] for n in numbers]).to(scores.logps_BT)
        residuals_BT = returns_B1 - old_values_BT
        weights_BT = (residuals_BT - mean) / deviation
        mask_BT = scores.mask_BT
        policy_B = losses.clipped_losses(scores.logps_BT, old_logps_BT, weights_BT, mask_BT, clip_range)
        errors_BT = (returns_B1 - scores.values_BT) ** 2
        over_tokens = [
            (one_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1) for one_BT in (errors_BT, residuals_BT)
        ]
        return torch.stack([policy_B, *over_tokens])

    table = policy_step(policy, optimizer, spoken(policy, mine), rows, settings, 3, columns)
    return losses.means(
        losses.actor_metrics(policy_B, advantages_B, value_losses_B=value_B)
        for policy_B, value_B, advantages_B in torch.split(table, settings.batch_size, dim=1)
    )


LEARNERS: Final[dict[str, type[Learner]]] = {
    "archer": ArcherLearner,
    "archer_llm": ArcherLearner,
    "chai": ChaiLearner,
    "online_filteredbc": FilteredBCLearner,
    "ppo": OnPolicyLearner,
    "reinforce": OnPolicyLearner,
}


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
    kind = LEARNERS[settings.agent_type]
    critic = load_archer_critic(settings, device) if kind in {ArcherLearner, ChaiLearner} else None
    return kind(settings, policy, critic, chat_format, say)


def train_bc(
    policy: TokenPolicy, demonstrations: Sequence[Transition], *, learning_rate: float = 1e-5, iterations: int = 1,
    batch_size: int = 8, grad_accum_steps: int = 4, max_grad_norm: float = math.inf, whole_games: bool = False,
    seed: int = 0, nonfinite_path: Path | None = None, say: Say | None = None,
) -> list[float]:  # fmt: skip
    """Imitate what was said in recorded dialogues, by Adam; defaults are the published recipe's.

    Repaired: one convention for newlines (the observation ends as the world writes it, the action is followed by
    what ends an utterance), and the last, smaller step is made, too.
    """
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    settings = StepSettings(batch_size, max_grad_norm=max_grad_norm, nonfinite_path=nonfinite_path)
    rows, found, games = batch_size * grad_accum_steps, list[float](), list[list[Transition]]()
    total = iterations * math.ceil(len(demonstrations) / rows)
    for (
        one
    ) in demonstrations:  # turns of one game follow each other: an observation continues the one before it
        before = games[-1][-1].observation if games else one.observation
        if whole_games and one.observation != before and one.observation.startswith(before):
            games[-1].append(one)
        else:
            games.append([one])
    for iteration in range(iterations):
        parts = games.copy()
        random.Random(f"{seed} {iteration}").shuffle(parts)
        order = [one for part in parts for one in part]
        for start in range(0, len(order), rows):
            found.append(imitation_step(policy, optimizer, order[start : start + rows], settings)["bc.loss"])
            if say is not None:
                say("imitate", len(found), total)
    return found
