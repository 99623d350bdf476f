"""Updates of the policy and its critic from played episodes.

A step's loss depends on nothing but the step, so processes divide the steps and add up gradients: the update is that of one.

Axes: S steps.

Published behaviour: docs/published/reflect_rl.md#online-loop, #losses, #deviations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.agent import Agent, Example, dropout
from sweet_rl.online.reflect.play import Played, Step
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.training.checkpoints import Guard
from sweet_rl.training.models import bare_model
from sweet_rl.training.processes import all_reduce_sum, clipped_step, own_rows, rank
from sweet_rl.types import Compat, derive_seed

# Of a batch: its log-probabilities [S], the states behind its prompts [S, H], its steps' numbers [S].
_Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


class Update(NamedTuple):
    """Losses of one trainer call: means over steps; None where nothing was updated."""

    loss: float | None = None
    critic_loss: float | None = None


class Row(NamedTuple):
    """A step with the cost that remained from it on."""

    step: Step
    q: float


class Training:
    """An agent that is trained: its parameters, its optimizer, what watches its losses."""

    def __init__(
        self, agent: Agent, settings: ReflectSettings, optimizer: torch.optim.Optimizer, what: str
    ) -> None:
        self.agent, self._settings, self.optimizer = agent, settings, optimizer
        self._parameters, self._guard = agent.trainable(), Guard(what, TRIES)

    def _step(
        self, examples: Sequence[Example], loss_of: _Loss, number: int, told: Callable[[list[int]], str],
        *, skips: bool = False, seeded: int | None = None,
    ) -> float:  # fmt: skip
        """One optimizer step over this process's share of examples; the loss of all, which `loss_of` adds up to.

        Where it is not finite, `told` says of which examples; `skips`: their gradients are left out, as published.
        """
        self.optimizer.zero_grad(set_to_none=True)
        whole = torch.zeros((), device=self.agent.device, dtype=torch.float64)
        bad: list[int] = []
        active = not self._settings.disable_dropout
        seed = derive_seed(self._settings.seed, "dropout", number if seeded is None else seeded, rank())
        # What is dropped depends on the seed; torch's own random numbers stay as they are.
        with torch.random.fork_rng(enabled=active), self._mode():
            if active:  # setting a seed takes milliseconds
                torch.manual_seed(seed)
            for batch, logps_S, states_SH in self.agent.scored(examples):
                loss = loss_of(logps_S, states_SH, torch.tensor(batch, device=self.agent.device))
                if not torch.isfinite(loss):
                    bad += batch
                    if skips:
                        continue
                loss.backward()  # type: ignore[no-untyped-call]
                whole += loss.detach()
        found = float(all_reduce_sum(whole))
        check = partial(self._guard.check, found, rows=told(bad), number=number)
        clipped_step(self.optimizer, self._parameters, self._settings.max_grad_norm, check)
        return found

    def _mode(self) -> AbstractContextManager[None]:
        """What a step computes in: dropout of the adapter alone is active."""
        return dropout(self.agent.model, active=not self._settings.disable_dropout)

    def state(self) -> dict[str, Any]:
        """All that later updates depend on, as tensors and plain data."""
        parameters = [parameter.detach() for parameter in self._parameters]
        return {"parameters": parameters, "optimizer": self.optimizer.state_dict()}

    @torch.no_grad()
    def load(self, state: Any) -> None:
        """Continue from `state`."""
        for parameter, saved in zip(self._parameters, state["parameters"], strict=True):
            parameter.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])


class Trainer(Training):
    """Policy gradient or PPO, and the critic's regression."""

    def __init__(self, agent: Agent, settings: ReflectSettings, critic: Critic | None = None) -> None:
        if settings.trainer == "ppo" and critic is None:
            raise UsageError("--trainer ppo needs a critic: add --use_critic --shared_critic.")
        super().__init__(agent, settings, _adam(agent.trainable(), settings), "the policy")
        self.critic = critic
        if critic is not None:
            self._critic_optimizer = _adam(list(critic.head.parameters()), settings)
        self._pooled: list[list[Played]] = []
        self._critic_data: list[Row] = []
        self._updates = self._calls = 0
        self._critic_guard = Guard("the critic", TRIES, unit="step")

    def keep_play(self) -> None:
        """What the policy reads from now on is kept for the next update, where that computes the same."""
        settings, alone = self._settings, self._settings.gradient_accumulation_steps == 1
        same = settings.disable_dropout and not settings.published and self.agent.sampling.max_new_tokens == 1
        self.agent.kept.begin(settings.kept_tokens if same and alone else 0)

    def train(self, episodes: Sequence[Played]) -> Update:
        """Learn from episodes, together with those of the calls before it that were kept for an update."""
        if not (episodes := [episode for episode in episodes if episode.steps]):
            return Update()
        self._pooled.append(episodes)
        if len(self._pooled) < self._settings.gradient_accumulation_steps:
            return Update()
        pooled = [[row for episode in call for row in self.rows(episode)] for call in self._pooled]
        self._pooled, rows = [], [*chain(*pooled)]
        if self.critic is not None:  # published: of the newest call only
            self._critic_data += pooled[-1] if self._settings.published else rows
        self._updates += 1
        loss = self._update_policy(rows)
        critic_loss = None
        if self.critic is not None and self._updates % self._settings.critic_update_freq == 0:
            critic_loss = self._update_critic(self._critic_data)
            self._critic_data = []
        return Update(loss, critic_loss)

    def rows(self, episode: Played) -> list[Row]:
        """An episode's steps with their Q values."""
        costs, entropies = zip(*((step.cost, step.entropy) for step in episode.steps), strict=True)
        return list(map(Row, episode.steps, q_values(costs, entropies, self._settings.entropy_coef)))

    def _update_policy(self, rows: Sequence[Row]) -> float:
        """One optimizer step (PPO: several); the mean loss over steps, and over PPO's passes."""
        settings, critic, total = self._settings, self.critic, len(rows)
        mine = [rows[number] for number in own_rows(total)]
        old_S, ppo = self._tensor([row.step.logprob for row in mine]), settings.trainer == "ppo"
        told = self.told_by_the_update
        gains_S = self._tensor([row.q for row in mine]) if told else self._advantages(mine)

        def loss_of(logps_S: Tensor, states_SH: Tensor, at: Tensor) -> Tensor:
            if ppo:
                return ppo_loss(logps_S, old_S[at], gains_S[at], settings.ppo_clip_coef) / total
            values_S = critic.head(states_SH).detach() if critic and told else 0.0
            return policy_gradient_loss(logps_S, gains_S[at] - values_S) / total

        def told_of(bad: list[int]) -> str:
            return _told([mine[at] for at in bad] or mine)

        examples = [self.agent.example(row.step.prompt, row.step.token_ids) for row in mine]
        losses = []
        for _ in range(settings.ppo_update_iter if ppo else 1):
            self._calls += 1
            losses.append(self._step(examples, loss_of, self._calls, told_of, skips=settings.published))
        return sum(losses) / len(losses)

    @property
    def told_by_the_update(self) -> bool:
        """Without dropout a critic that reads what the policy reads is told its states by the update itself."""
        settings, reads_alike = self._settings, self.critic is not None and self.critic.shared
        return (
            reads_alike and settings.disable_dropout and not settings.published and settings.trainer == "pg"
        )

    def _advantages(self, rows: Sequence[Row]) -> Tensor:
        """How much worse than expected each step turned out; without a critic nothing is expected."""
        q_S, prompts = self._tensor([row.q for row in rows]), [row.step.prompt for row in rows]
        if self.critic is None or not rows:
            return q_S
        # Published, values depend on what they are read beside: as many as published.
        size = self._settings.per_device_train_batch_size if self._settings.published else len(rows)
        parts = [self.critic.values(prompts[at : at + size]) for at in range(0, len(prompts), size)]
        return q_S - torch.cat(parts)

    def _tensor(self, numbers: Sequence[float]) -> Tensor:
        return torch.tensor(numbers, device=self.agent.device)

    def _update_critic(self, rows: Sequence[Row]) -> float:
        """Passes of regression over the rows; the mean loss. Published, only the last micro-batch of a step counts."""
        critic, optimizer, settings = self.critic, self._critic_optimizer, self._settings
        assert critic is not None
        prompts, q_S = [row.step.prompt for row in rows], self._tensor([row.q for row in rows])
        size, accumulation = settings.per_device_train_batch_size, settings.gradient_accumulation_steps
        features_SH = None if settings.published else critic.features(prompts)
        losses: list[float] = []
        for number in range(settings.critic_update_iter):
            order = list(range(len(rows)))
            random.Random(derive_seed(settings.seed, "critic", self._updates, number)).shuffle(order)
            for start in range(0, len(order), size * accumulation):
                chosen = order[start : start + size * accumulation]
                optimizer.zero_grad(set_to_none=True)
                if features_SH is not None:
                    mine = [chosen[at] for at in own_rows(len(chosen))]
                    loss = value_loss(q_S[mine], critic.head(features_SH[mine])) / len(chosen)
                    loss.backward()  # type: ignore[no-untyped-call]
                    losses += [float(all_reduce_sum(loss.detach().double()))] * len(chosen)
                for at in range(0, len(chosen), size) if features_SH is None else ():
                    part = chosen[at : at + size]
                    read_SH = critic.features([prompts[row] for row in part])
                    mean = value_loss(q_S[part], critic.head(read_SH)) / len(part)
                    critic.head.zero_grad(set_to_none=True)
                    (mean / accumulation).backward()  # type: ignore[no-untyped-call]
                    losses.append(float(mean.detach()) / accumulation)
                check = partial(self._critic_guard.check, losses[-1], rows=_told([rows[at] for at in chosen]))
                clipped_step(optimizer, list(critic.head.parameters()), settings.max_grad_norm, check)
        return sum(losses) / len(losses)

    def state(self) -> dict[str, Any]:
        known = {name: getattr(self, f"_{name}") for name in ("pooled", "critic_data", "updates", "calls")}
        critic = self.critic and self.critic.head.state_dict()
        optimizer = self.critic and self._critic_optimizer.state_dict()
        return super().state() | known | {"critic": critic, "critic_optimizer": optimizer}

    def load(self, state: Any) -> None:
        super().load(state)
        if self.critic is not None:
            self.critic.head.load_state_dict(state["critic"])
            self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        self._pooled = [[episode_of(episode) for episode in call] for call in state["pooled"]]
        self._critic_data = [Row(Step(*step), q) for step, q in state["critic_data"]]
        self._updates, self._calls = state["updates"], state["calls"]


TRIES = (
    "The newest checkpoint is from before it. Begin a new run, from a checkpoint with --load_dir, with a "
    "lower --learning_rate or --max_grad_norm, or without --bf16, --use_8bit and --use_4bit."
)


def _told(rows: Sequence[Row]) -> str:
    """Steps of played episodes for a message: how many, and the first."""
    if not rows:
        return "none in this process"
    first = rows[0].step
    return f"{len(rows)} played steps, the first {first.action!r} after ...{first.prompt[-60:]!r}"


def episode_of(state: Sequence[Any]) -> Played:
    """The episode whose fields, as tuples, are in a checkpoint."""
    played = Played(*state)
    return played._replace(steps=tuple(Step(*step) for step in played.steps))


def _adam(parameters: Sequence[nn.Parameter], settings: ReflectSettings) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


PUBLISHED_TOKENS = 20  # how many tokens of a text the published critic reads: a default of the configuration


class ValueHead(nn.Module):
    """Hidden states [S, H] to values [S], in float32."""

    def __init__(self, hidden_size: int, layer_type: str = "linear") -> None:
        super().__init__()
        out = nn.Linear(hidden_size, 1)
        nn.init.xavier_uniform_(out.weight)
        nn.init.zeros_(out.bias)
        layers: list[nn.Module] = [out]
        if layer_type == "mlp":
            layers = [nn.Linear(hidden_size, hidden_size), nn.LayerNorm(hidden_size), nn.ReLU(), out]
        self.score = nn.Sequential(*layers)

    def forward(self, hidden_SH: Tensor) -> Tensor:
        values_S1: Tensor = self.score(hidden_SH.float())
        return values_S1[:, 0]


class Critic:
    """Predicts the remaining cost from the policy's input."""

    def __init__(
        self, agent: Agent, head: ValueHead, *, shared: bool = True, compat: Compat = "fixed"
    ) -> None:
        self.agent, self.head = agent, head.to(agent.device)
        self.shared, self._compat = shared, compat

    def features(self, prompts: Sequence[str]) -> Tensor:
        """What the head reads [S, H]; without gradients."""
        model: Any = self.agent.model
        whole = self.shared or not hasattr(model, "disable_adapter")
        with nullcontext() if whole else model.disable_adapter():
            return self._published(prompts) if self._compat == "published" else self.agent.hidden(prompts)

    def values(self, prompts: Sequence[str]) -> Tensor:
        """V of each prompt [S], without gradients."""
        with torch.no_grad():
            return self.head(self.features(prompts))  # type: ignore[no-any-return]

    def _published(self, prompts: Sequence[str]) -> Tensor:
        """Padded on the left; read out before the first end token, the last place where there is none."""
        tokenizer, bare = self.agent.tokenizer, bare_model(self.agent.model)
        pad = tokenizer.eos_token_id
        rows = [list(tokenizer(prompt)["input_ids"])[-PUBLISHED_TOKENS:] for prompt in prompts]
        width = max(map(len, rows))
        ids_ST = torch.tensor([[pad] * (width - len(ids)) + ids for ids in rows], device=self.agent.device)
        mask_ST = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in rows]).to(ids_ST)
        with torch.no_grad():
            hidden_STH = bare.base_model(input_ids=ids_ST, attention_mask=mask_ST).last_hidden_state
        first_pad_S = (ids_ST == pad).int().argmax(dim=1)  # 0 where there is none: the last place
        return hidden_STH[torch.arange(len(rows)), first_pad_S - 1].float()  # type: ignore[no-any-return]


VALUE_SCALE = 100.0  # The critic's squared error is that of costs divided by this


def q_values(costs: Sequence[float], entropies: Sequence[float], entropy_coef: float = 0.0) -> list[float]:
    """The remaining cost from each step of an episode on, undiscounted.

    Q_t = sum over u >= t of (cost_u - entropy_coef x entropy_u). Entropy is a constant here: no gradient.
    """
    steps = zip(reversed(costs), reversed(entropies), strict=True)
    return [*accumulate(cost - entropy_coef * entropy for cost, entropy in steps)][::-1]


def policy_gradient_loss(logps_S: Tensor, advantages_S: Tensor) -> Tensor:
    """Sum over steps of log pi(action) x advantage; a mean is this over the number of steps."""
    return (logps_S * advantages_S).sum()


def ppo_loss(logps_S: Tensor, old_logps_S: Tensor, advantages_S: Tensor, clip: float) -> Tensor:
    """Sum over steps of PPO's clipped loss, whose advantages are gains: minus ours."""
    ratio_S = torch.exp(logps_S - old_logps_S)
    gains_S = -advantages_S
    clipped_S = ratio_S.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio_S * gains_S, clipped_S * gains_S).sum()


def value_loss(q_S: Tensor, values_S: Tensor) -> Tensor:
    """Sum over steps of the squared error, in hundreds; a mean is this over the number of steps."""
    return (((q_S - values_S) / VALUE_SCALE) ** 2).sum()
