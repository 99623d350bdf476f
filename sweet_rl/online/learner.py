"""The online algorithms and what they share: policy, critics, their states on disk, and the steps that an update is made of.

`ArcherLearner` trains critic and policy, `ChaiLearner` the critic only, `FilteredBCLearner` the policy on the best episodes (and on
demonstrations, before there are any). `OnPolicyLearner` has no memory: it learns from the whole episodes of the newest iteration.

Each phase clips its own gradients and begins without any. A step's loss is the sum of G means over B rows; it is computed in
micro-batches of similar rows under a token budget, and its value depends on neither that nor on the number of processes.

Axes: R rows of a step, S of a process, B of a mean, T tokens of an utterance.

Published behaviour: docs/published/archer.md#one-update, #policy-loss, #critic-targets, #behaviour-cloning, #online-chai,
#checkpoint, #deviations.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Policy
from sweet_rl.online import losses
from sweet_rl.online.critic import DoubleCritic, best_places, copied, critic_step
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
)
from sweet_rl.types import derive_seed

Draw = Callable[[int], Sequence[Transition]]  # that many transitions from a buffer; the same in every process
Said = tuple[Sequence[str], Sequence[Utterance]]  # what this process's turns saw, and what was said
Columns = Callable[[list[int], TokenScores], Tensor]  # of a batch, by numbers: what is computed, as [C, B]
Say = Callable[[str, int, int], None]  # called with the progress: the phase, steps done, steps in all


class Learner:
    """One algorithm with everything that it trains; its subclasses say what a step of the policy is.

    All processes call all methods but `rollout_policy`.
    """

    phase = "actor"

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
        info = losses.means(self._train_critic(draw)) if hasattr(self, "critic") else {}
        if update_actor and self.learns_words:
            info |= losses.means(self._train_actor(draw))
        self._updates += 1
        return info

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        """The critic's steps; the policy stands still and says everything first."""
        settings, infos = self.settings, []
        steps = [list(draw(settings.rows_per_step)) for _ in range(settings.epochs)]
        asks = [self._asks(f"critic-{number}", rows) for number, rows in enumerate(steps)]
        self._say("sample", 0, len(steps))
        with self.gathered():
            every = [ask for one in asks for ask in one]
            proposed = iter(self._proposals(every, greedy=not settings.do_sample))
        for number, rows in enumerate(steps):
            texts = [[utterance.text for utterance in next(proposed)] for _ in asks[number]]
            infos.append(
                critic_step(self.critic, self.target, self.critic_optimizer, rows, texts, self.steps)
            )
            self._say("critic", number + 1, len(steps))
        return infos

    def _train_actor(self, draw: Draw) -> list[dict[str, float]]:
        """The policy's steps."""
        infos = []
        for number in range(self.settings.actor_epochs):
            infos.append(self._actor_step(number, draw(self.settings.rows_per_step)))
            self._say(self.phase, number + 1, self.settings.actor_epochs)
        return infos

    def _actor_step(self, number: int, rows: Sequence[Transition]) -> dict[str, float]:
        """One step of the policy and its numbers; `number` counts the steps of an update."""
        raise NotImplementedError

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

    def _policy_step(self, rows: Sequence[Transition], turns: Said, columns: Columns) -> Tensor:
        """One step on this process's turns.

        `columns` gives numbers [C, B] of a batch of them, the first two of which add up to a row's loss. Returns
        those of all rows, as [5, R], 0 where there is none.
        """
        policy, (observations, said) = self.policy, turns
        self.lm_optimizer.zero_grad(set_to_none=True)
        table = torch.zeros(5, len(said), device=policy.device, dtype=policy.dtype)
        batches = list(policy.batches(observations, said)) if said else []
        passes = all_reduce_max(len(batches), policy.device) if is_fsdp(policy.model) else len(batches)
        for numbers in batches:
            scores = policy.scores([observations[n] for n in numbers], [said[n] for n in numbers])
            found = columns(numbers, scores)
            torch.autograd.backward((found[0] + found[1]).sum() / self.settings.batch_size)
            table[: len(found), numbers] = found.detach().to(policy.dtype)
        for _ in range(passes - len(batches)):
            # Sharded layers need every process at every pass: one with fewer batches makes passes that weigh nothing.
            scores = policy.scores(["a"], [policy.utterance("a", "a")])
            outputs = [scores.logps_BT, *([scores.values_BT] if policy.value_head is not None else [])]
            torch.autograd.backward(outputs, [torch.zeros_like(one) for one in outputs])
        everything = of_all_rows([*table], len(rows), policy.model)
        losses_R = everything[0] + everything[1]
        step(self.lm_optimizer, policy.parameters(), losses_R, everything, rows, "policy", self.steps)
        return everything

    def _spoken(self, rows: Sequence[Transition]) -> Said:
        """The rows' observations, and their actions in tokens of the policy."""
        said = [self.policy.known_utterance(row.observation, row.action, row.action_ids) for row in rows]
        return [row.observation for row in rows], said

    def _reinforce(self, rows: Sequence[Transition], turns: Said, advantages_S: Tensor) -> dict[str, float]:
        """One step of REINFORCE: this process's observations and utterances, and what they gain."""
        policy = self.policy
        advantages_S = weights_S = advantages_S.to(policy.device, policy.dtype)
        if (
            self.settings.normalize_advantages and len(rows) > 1
        ):  # over all rows of the step; one alone keeps its own
            all_R = of_all_rows([advantages_S], len(rows), policy.model)[0]
            weights_S = ((all_R - all_R.mean()) / (all_R.std() + 1e-8))[own_rows(len(rows))]

        def columns(numbers: list[int], scores: TokenScores) -> Tensor:
            gains_B, weights_B, mask_BT = advantages_S[numbers], weights_S[numbers], scores.mask_BT
            if policy.value_head is None:
                nothing_B = torch.zeros_like(gains_B)
                return torch.stack([-scores.logps_B * weights_B, nothing_B, gains_B])
            policy_B, value_B, _ = losses.baseline_losses(
                scores.logps_BT, scores.values_BT, mask_BT, weights_B
            )
            values_B = (scores.values_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)
            return torch.stack([policy_B, value_B, gains_B, values_B, gains_B - values_B])

        table = self._policy_step(rows, turns, columns)
        return losses.actor_metrics_of(table, self.settings.batch_size)

    def _imitate(self, rows: Sequence[Transition]) -> float:
        """One step of behaviour cloning on the rows' own actions, their ends included; its loss."""
        turns = self._spoken([rows[number] for number in own_rows(len(rows))])
        table = self._policy_step(
            rows, turns, lambda _, scores: torch.stack([-scores.logps_B, torch.zeros_like(scores.logps_B)])
        )
        return table[0].mean().item()

    def gathered(self) -> AbstractContextManager[None]:
        """What all processes enter and leave together when one of them plays."""
        return gathered(self.policy.model)

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The policy at play, inside `gathered`; close it when the episodes are over."""
        greedy = greedy or not self.settings.do_sample
        return self._player(
            lambda asks: self.policy.write([self.policy.request(*ask, greedy=greedy) for ask in asks])
        )

    def _player(self, engine: Engine) -> Player:
        return Player(self.settings.policy_lm, engine, self._format, self.policy.prompt, self.settings.seed)

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


class ArcherLearner(Learner):
    """ArCHer: the critic learns from the buffer, the policy from the critic."""

    def _actor_step(self, number: int, rows: Sequence[Transition]) -> dict[str, float]:
        asks = self._asks(f"actor-{number}", rows)
        observations = [ask.observation for ask in asks]
        with self.gathered():
            said = self.policy.sample(
                observations, [ask.seed for ask in asks], greedy=not self.settings.do_sample
            )
        return self._reinforce(rows, (observations, said), self._advantages(observations, said))

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
    """Online Filtered BC: the policy imitates the best episodes (the loop filters), or recorded dialogues."""

    phase = "imitate"

    def _actor_step(self, _: int, rows: Sequence[Transition]) -> dict[str, float]:
        return {"bc.loss": self._imitate(rows)}

    def clone(
        self, demonstrations: Sequence[Transition], *, iterations: int = 1, whole_games: bool = False
    ) -> list[float]:
        """Imitate what was said in recorded dialogues; returns the losses of the steps.

        Repaired: one convention for newlines (the observation ends as the world writes it, the action is followed by
        what ends an utterance), and the last, smaller step is made, too.
        """
        rows, found, games = self.settings.rows_per_step, list[float](), list[list[Transition]]()
        for one in demonstrations:
            # Turns of one game follow each other: an observation continues the one before it.
            before = games[-1][-1].observation if games else one.observation
            if whole_games and one.observation != before and one.observation.startswith(before):
                games[-1].append(one)
            else:
                games.append([one])
        for iteration in range(iterations):
            parts = games.copy()
            random.Random(f"{self.settings.seed} {iteration}").shuffle(parts)
            order = [one for part in parts for one in part]
            for start in range(0, len(order), rows):
                found.append(self._imitate(order[start : start + rows]))
                self._say(self.phase, len(found), iterations * math.ceil(len(order) / rows))
        return found


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

    def _train_actor(self, draw: Draw) -> list[dict[str, float]]:
        """All is drawn first: PPO needs what every turn's tokens had before any step."""
        steps = [list(draw(self.settings.rows_per_step)) for _ in range(self.settings.actor_epochs)]
        self._before: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # log-probabilities and values [T], by a turn's identity
        if self.settings.agent_type == "ppo":
            distinct = list({id(row): row for rows in steps for row in rows}.values())
            observations, said = self._spoken(distinct)
            with torch.no_grad():
                for numbers in self.policy.batches(observations, said):
                    scores = self.policy.scores(
                        [observations[n] for n in numbers], [said[n] for n in numbers]
                    )
                    for n, logps_T, values_T in zip(numbers, scores.logps_BT, scores.values_BT, strict=True):
                        length = len(said[n].token_ids)
                        self._before[id(distinct[n])] = logps_T[:length], values_T[:length]
        drawn = iter(steps)
        return super()._train_actor(lambda _: next(drawn))

    def _actor_step(self, _: int, rows: Sequence[Transition]) -> dict[str, float]:
        settings, before, owned = self.settings, self._before, own_rows(len(rows))
        mine = [rows[number] for number in owned]
        if settings.agent_type == "reinforce":
            returns_R = torch.tensor([row.mc_return for row in rows], device=self.policy.device)
            return self._reinforce(rows, self._spoken(mine), (returns_R - returns_R.mean())[owned])
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
            residuals_BT, mask_BT = returns_B1 - old_values_BT, scores.mask_BT
            policy_B = losses.clipped_losses(
                scores.logps_BT, old_logps_BT, (residuals_BT - mean) / deviation, mask_BT, settings.clip_range
            )
            errors_BT = (returns_B1 - scores.values_BT) ** 2
            over_tokens = [(one_BT * mask_BT).sum(dim=1) for one_BT in (errors_BT, residuals_BT)]
            return torch.stack([policy_B, *(one_B / mask_BT.sum(dim=1) for one_B in over_tokens)])

        table = self._policy_step(rows, self._spoken(mine), columns)
        return losses.actor_metrics_of(table, settings.batch_size)


LEARNERS: Final[dict[str, type[Learner]]] = {
    "archer": ArcherLearner,
    "archer_llm": ArcherLearner,
    "chai": ChaiLearner,
    "online_filteredbc": FilteredBCLearner,
    "ppo": OnPolicyLearner,
    "reinforce": OnPolicyLearner,
}
