"""Learners without a memory: PPO and REINFORCE, on the whole episodes of the newest iteration.

What a turn is worth is what its episode returned from it on (`Transition.mc_return`), not what a critic of
utterances says. REINFORCE takes the mean of a step's rows off it; PPO takes off a value of each token, learnt
by a linear head on the policy's own states, and clips. Importing this module imports torch.

Axes: B rows, T tokens of an utterance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sweet_rl.chat import ChatFormat
from sweet_rl.online import losses
from sweet_rl.online.actor import TokenPolicy, Utterance
from sweet_rl.online.distributed.collectives import own_rows
from sweet_rl.online.learning import Draw, PolicyLearner, Say
from sweet_rl.online.policy_updates import ActorRows, actor_step, shared_passes
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.online.steps import StepSettings, of_all_rows, step


class Sampled(NamedTuple):
    """A turn as it was before the update: its tokens' log-probabilities and values, each as [T]."""

    logps_T: Tensor
    values_T: Tensor


class OnPolicyLearner(PolicyLearner):
    """PPO, or REINFORCE: `actor_epochs` steps on the turns of the newest iteration, drawn with replacement.

    With `actor_epochs` 1 REINFORCE is what it is in textbooks; more steps reuse turns of an older policy.

    Args:
        settings: of the algorithm; `critic_lr` is that of PPO's value head.
    """

    def __init__(
        self,
        settings: ArcherSettings,
        policy: TokenPolicy,
        chat_format: ChatFormat,
        say: Say | None = None,
    ) -> None:
        super().__init__(settings, policy, chat_format, say)
        head = list(policy.value_head.parameters()) if policy.value_head is not None else []
        of_head = {id(parameter) for parameter in head}
        groups: list[dict[str, Any]] = [
            {"params": [parameter for parameter in policy.parameters() if id(parameter) not in of_head]}
        ]
        groups += [{"params": head, "lr": settings.critic_lr}] if head else []
        self.lm_optimizer = torch.optim.Adam(groups, lr=settings.lm_lr)

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """The policy's steps; nothing, {}, while it is too early."""
        settings, infos = self.settings, []
        count = settings.actor_epochs if update_actor else 0
        steps = [list(draw(settings.rows_per_step)) for _ in range(count)]
        before = self._before([row for rows in steps for row in rows]) if self._clips else {}
        for number, rows in enumerate(steps):
            if self._clips:
                infos.append(
                    clipped_step(
                        self.policy, self.lm_optimizer, rows, before, settings.clip_range, self.steps
                    )
                )
            else:
                infos.append(self._reinforce(rows))
            self._say("actor", number + 1, count)
        self._updates += 1
        return losses.means(infos)

    @property
    def _clips(self) -> bool:
        return self.settings.agent_type == "ppo"

    def _reinforce(self, rows: Sequence[Transition]) -> dict[str, float]:
        returns_R = torch.tensor([row.mc_return for row in rows], device=self.policy.device)
        mine = own_rows(len(rows))
        advantages_S = (returns_R - returns_R.mean())[mine]
        own = [rows[number] for number in mine]
        judged = ActorRows([row.observation for row in own], _utterances(self.policy, own), advantages_S)
        return actor_step(self.policy, self.lm_optimizer, judged, rows, self.steps)

    @torch.no_grad()
    def _before(self, rows: Sequence[Transition]) -> dict[int, Sampled]:
        """Every turn that is drawn, once, by its identity."""
        distinct = list({id(row): row for row in rows}.values())
        said = _utterances(self.policy, distinct)
        observations = [row.observation for row in distinct]
        found: dict[int, Sampled] = {}
        for numbers in self.policy.batches(observations, said):
            scores = self.policy.scores([observations[n] for n in numbers], [said[n] for n in numbers])
            values_BT = _known(scores.values_BT)
            for place, number in enumerate(numbers):
                length = int(scores.mask_BT[place].sum())
                found[id(distinct[number])] = Sampled(
                    scores.logps_BT[place, :length], values_BT[place, :length]
                )
        return found

    def state_dict(self) -> dict[str, Any]:
        """The policy, its value head, the optimizer and the counter."""
        return self._policy_state(self.lm_optimizer) | {"updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the policy, its value head, the optimizer and the counter of `state_dict`."""
        self._load_policy_state(state, self.lm_optimizer)


def clipped_step(
    policy: TokenPolicy,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Transition],
    before: dict[int, Sampled],
    clip_range: float,
    settings: StepSettings,
) -> dict[str, float]:
    """One step of PPO on turns that were played."""
    optimizer.zero_grad(set_to_none=True)
    mine = [rows[number] for number in own_rows(len(rows))]
    observations, said = [row.observation for row in mine], _utterances(policy, mine)
    weigh = _weights_of(rows, before) if settings.normalize_advantages else (0.0, 1.0)
    table = torch.zeros(3, len(mine), device=policy.device, dtype=policy.dtype)
    for numbers in shared_passes(policy, observations, said):
        scores = policy.scores([observations[n] for n in numbers], [said[n] for n in numbers])
        old = [before[id(mine[n])] for n in numbers]
        returns_B1 = torch.tensor([[mine[n].mc_return] for n in numbers]).to(scores.logps_BT)
        residuals_BT = returns_B1 - nn.utils.rnn.pad_sequence([one.values_T for one in old], batch_first=True)
        old_logps_BT = nn.utils.rnn.pad_sequence([one.logps_T for one in old], batch_first=True)
        policy_B = losses.clipped_losses(
            scores.logps_BT,
            old_logps_BT,
            (residuals_BT - weigh[0]) / weigh[1],
            scores.mask_BT,
            clip_range,
        )
        counts_B = scores.mask_BT.sum(dim=1)
        errors_BT = (returns_B1 - _known(scores.values_BT)) ** 2 * scores.mask_BT
        value_B = errors_BT.sum(dim=1) / counts_B
        torch.autograd.backward((policy_B + value_B).sum() / settings.batch_size)
        means_B = (residuals_BT * scores.mask_BT).sum(dim=1) / counts_B
        table[:, numbers] = torch.stack([policy_B, value_B, means_B]).detach().to(policy.dtype)
    everything = of_all_rows([*table], len(rows), policy.model)
    step(optimizer, policy.parameters(), everything[0] + everything[1], everything, rows, "policy", settings)
    return losses.means(
        losses.actor_metrics(policy_B, advantages_B, value_losses_B=value_B)
        for policy_B, value_B, advantages_B in torch.split(everything, settings.batch_size, dim=1)
    )


def _weights_of(rows: Sequence[Transition], before: dict[int, Sampled]) -> tuple[float, float]:
    """Mean and deviation of the advantages of a step's tokens; one alone keeps its own: 0 and 1."""
    known = torch.cat([row.mc_return - before[id(row)].values_T for row in rows])
    if len(known) < 2:
        return 0.0, 1.0
    return known.mean().item(), known.std().item() + 1e-8


def _utterances(policy: TokenPolicy, rows: Sequence[Transition]) -> list[Utterance]:
    return [policy.known_utterance(row.observation, row.action, row.action_ids) for row in rows]


def _known(values_BT: Tensor | None) -> Tensor:
    if values_BT is None:
        raise RuntimeError("PPO's policy has a value head")
    return values_BT
