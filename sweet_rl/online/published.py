"""The published arithmetic with its known faults: what `compat: published` computes.

Held to recorded outputs. What differs from the repaired path:

- texts are padded on the side that the tokenizer prefers (GPT-2: the right), so that shorter rows of a batch
  continue after padding, and their first token is scored at a padded place; scoring gives no positions;
- sampling takes the likeliest 50 tokens, scoring all of them; what ends an utterance is not scored, and an
  utterance does not end there but is cut there afterwards; log(softmax) underflows;
- the replay buffer is drawn from over insertions (`ReplayBuffer.sample_published`, by the loop);
- all gradients are clipped together, with those that the other phase has left behind;
- no value is bootstrapped when an episode ends by its time limit;
- a Mistral policy has micro-batches of 2, and BC of a Llama of 1, so their gradients are larger.

Not reproduced: a buffer that takes the type of its first reward, and gradients that shrink with the number of processes.

Axes: B rows, T tokens, O tokens of the padded observations.

Published behaviour: docs/published/archer.md#policy, #behaviour-cloning, #online-chai, #one-update,
#critic-targets, #policy-loss.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sweet_rl.contracts import Policy
from sweet_rl.errors import NonFiniteError
from sweet_rl.online import losses
from sweet_rl.online.critic import soft_update
from sweet_rl.online.learner import Draw, Learner
from sweet_rl.online.losses import CriticTargets
from sweet_rl.online.policy import OBSERVATION, Ask, Prompt, Utterance
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import PUBLISHED_TOP_K, ArcherSettings
from sweet_rl.types import derive_seed

LEADING_NEWLINES = 3
MISTRAL_ROWS, LLAMA_ROWS = 2, 1


class PublishedPolicy:
    """`get_action` and `get_log_prob` of the published agent."""

    value_head = None

    def __init__(self, model: Any, tokenizer: Any, settings: ArcherSettings) -> None:
        self.model, self.tokenizer, self.settings = model.eval(), tokenizer, settings
        tokenizer.truncation_side = "left"
        tokenizer.pad_token = tokenizer.eos_token

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def prompt(self, text: str) -> Prompt:
        return Prompt(text, ())  # how many tokens it has depends on what is beside it

    @torch.no_grad()
    def get_action(self, observations: Sequence[str], *, greedy: bool = False) -> list[str]:
        """An utterance for each observation, drawn with torch's global generator."""
        context = self._batch(self._filled(observations), max_length=512)
        sampling: dict[str, Any] = {"do_sample": False}
        if self.settings.do_sample and not greedy:
            sampling = {"do_sample": True, "temperature": self.settings.temperature, "top_k": PUBLISHED_TOP_K}
        logging.getLogger("transformers.generation.utils").setLevel(logging.ERROR)  # it warns of the padding
        written = self.model.generate(
            **context,
            max_new_tokens=self.settings.max_new_tokens,
            pad_token_id=self.tokenizer.eos_token_id,
            **sampling,
        )
        new = written[:, context["input_ids"].shape[1] :]
        texts: list[str] = self.tokenizer.batch_decode(new, skip_special_tokens=True)
        end = self.settings.eos_str
        for _ in range(LEADING_NEWLINES):
            texts = [text.removeprefix("\n") for text in texts]
        if end is not None:
            kept = end if self.settings.agent_type == "chai" else ""
            texts = [text.split(end)[0] + kept for text in texts]
        return texts

    def get_log_prob(
        self, observations: Sequence[str], actions: Sequence[str], *, max_length: int | None = 512
    ) -> Tensor:
        """Summed log-probabilities of the actions without their ends, as [B]."""
        filled = observations if max_length is None else self._filled(observations)
        context, replies = self._batch(filled, max_length), self._batch(actions, max_length)
        ids_BT = torch.cat([context["input_ids"], replies["input_ids"]], dim=1)
        mask_BT = torch.cat([context["attention_mask"], replies["attention_mask"]], dim=1)
        width = context["input_ids"].shape[1]
        logits_BTV = self.model(input_ids=ids_BT, attention_mask=mask_BT).logits[:, width - 1 : -1]
        likely_BT = logits_BTV.softmax(dim=-1).gather(-1, replies["input_ids"][..., None])[..., 0]
        logps_B: Tensor = (likely_BT.log() * replies["attention_mask"]).sum(dim=1)
        return logps_B

    def _filled(self, observations: Sequence[str]) -> list[str]:
        template = self.settings.template or OBSERVATION
        return [template.replace(OBSERVATION, observation) for observation in observations]

    def _batch(self, texts: Sequence[str], max_length: int | None) -> Any:
        limit = {} if max_length is None else {"truncation": True, "max_length": max_length}
        batch = self.tokenizer(list(texts), return_tensors="pt", padding=True, **limit)
        device = next(self.model.parameters()).device
        return {name: batch[name].to(device) for name in ("input_ids", "attention_mask")}


class PublishedLearner(Learner):
    """The three learners as published, one micro-batch after the other."""

    policy: Any  # a PublishedPolicy

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """Critic epochs, then actor epochs; or BC epochs."""
        settings = self.settings
        critics: list[dict[str, float]] = []
        actors: list[dict[str, float]] = []
        with_critic, size = hasattr(self, "critic"), self.settings.batch_size
        family, few = ("mistral", MISTRAL_ROWS) if with_critic else ("llama", LLAMA_ROWS)
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(settings.seed, "published", self._updates))
            for number in range(settings.epochs if with_critic else 0):
                critics += self._epoch(draw, self.critic_optimizer, self.critic_loss, size)
                soft_update(self.target, self.critic, settings.tau)
                self._say("critic", number + 1, settings.epochs)
            for number in range(settings.actor_epochs if update_actor and self.learns_words else 0):
                loss_of = self.actor_loss if with_critic else self.bc_loss
                rows = few if family in settings.policy_lm else size
                actors += self._epoch(draw, self.lm_optimizer, loss_of, rows)
                self._say("actor" if with_critic else "imitate", number + 1, settings.actor_epochs)
        self._updates += 1
        return losses.means(critics) | losses.means(actors)

    def _epoch(self, draw: Draw, optimizer: Any, loss_of: Any, rows: int) -> list[dict[str, float]]:
        """One optimizer step on G x B draws; the other optimizer's gradients stay, and count in the norm."""
        drawn = draw(self.settings.rows_per_step)
        optimizer.zero_grad()
        infos = []
        for start in range(0, len(drawn), rows):
            loss, info = loss_of(drawn[start : start + rows])
            if not bool(loss.isfinite()):
                raise NonFiniteError(
                    f"A loss is {loss.item()}; no step was made. compat=fixed has no log(softmax)."
                )
            loss.backward()
            infos.append(info)
        norm = nn.utils.clip_grad_norm_(self.parameters(), self.settings.max_grad_norm)
        if not bool(norm.isfinite()):
            raise NonFiniteError(f"The gradient's norm is {norm.item()}; no step was made. Try compat=fixed.")
        optimizer.step()
        return infos

    def parameters(self) -> list[nn.Parameter]:
        """Those of policy, critic and target, which are clipped together."""
        modules = [self.policy.model, *([self.critic, self.target] if hasattr(self, "critic") else [])]
        return [parameter for module in modules for parameter in module.parameters()]

    def critic_loss(self, rows: Sequence[Transition]) -> tuple[Tensor, dict[str, float]]:
        """The critic loss of a micro-batch and its 28 numbers."""
        observations = [row.observation for row in rows]
        weight = next(self.critic.parameters())
        values = self.critic.read(observations, [row.action for row in rows])
        with torch.no_grad():
            chosen = self.target.read(observations, self.choose(observations))
            nexts = self.target.read([row.next_observation for row in rows], observations)
            rewards_B = torch.tensor([row.reward for row in rows]).to(weight)
            bootstrap_mask_B = torch.tensor([not row.done for row in rows]).to(weight)
            gamma, nexts_v = self.settings.gamma, (nexts.v1_B, nexts.v2_B)
            y1_B, y2_B = (losses.td_targets(rewards_B, bootstrap_mask_B, v_B, gamma) for v_B in nexts_v)
            targets = CriticTargets(y1_B, y2_B, chosen.q1_B, chosen.q2_B)
        errors = losses.critic_losses(values, targets)
        return torch.stack(errors).sum(dim=0).mean(), losses.critic_metrics(values, targets, errors)

    def actor_loss(self, rows: Sequence[Transition]) -> tuple[Tensor, dict[str, float]]:
        """The policy-gradient loss of a micro-batch and its 14 numbers."""
        observations = [row.observation for row in rows]
        with torch.no_grad():
            actions = self.choose(observations)
            advantages_B = losses.advantages(self.critic.read(observations, actions))
        losses_B = -self.policy.get_log_prob(observations, actions) * advantages_B
        return losses_B.mean(), losses.actor_metrics(losses_B, advantages_B)

    def bc_loss(self, rows: Sequence[Transition]) -> tuple[Tensor, dict[str, float]]:
        """The imitation loss of a micro-batch; nothing is cut."""
        observations, actions = [row.observation for row in rows], [row.action for row in rows]
        loss = -self.policy.get_log_prob(observations, actions, max_length=None).mean()
        return loss, {"bc.loss": loss.item()}

    def choose(self, observations: Sequence[str], *, greedy: bool = False) -> list[str]:
        """What the agent does: one sample, or the best of five for the target critic."""
        if self.settings.agent_type != "chai":
            return list(self.policy.get_action(observations, greedy=greedy))
        count = self.settings.candidates
        rounds = [self.policy.get_action(observations, greedy=greedy) for _ in range(count)]
        with torch.no_grad():
            values = [self.target.read(observations, actions) for actions in rounds]
        least_CB = torch.stack([torch.minimum(found.q1_B, found.q2_B) for found in values])
        return [rounds[number][row] for row, number in enumerate(least_CB.argmax(dim=0).tolist())]

    def rollout_policy(self, *, greedy: bool) -> Policy:
        """The agent at play; a batch draws from the seed of its first turn."""

        def engine(asks: Sequence[Ask]) -> Generator[Sequence[tuple[int, Utterance]], None, None]:
            with torch.random.fork_rng():
                torch.manual_seed(asks[0].seed)
                texts = self.choose([ask.observation for ask in asks], greedy=greedy)
            yield [(place, Utterance(text, (), finished=True)) for place, text in enumerate(texts)]

        return self._player(engine)

    def state_dict(self) -> dict[str, Any]:
        """Gradients, too: those of the policy's last step count in the norm of the critic's next one."""
        named = self.policy.model.named_parameters()
        return super().state_dict() | {"gradients_left": {n: p.grad for n, p in named if p.grad is not None}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for name, parameter in self.policy.model.named_parameters():
            left = state["gradients_left"].get(name)
            parameter.grad = None if left is None else left.to(parameter, copy=True)
