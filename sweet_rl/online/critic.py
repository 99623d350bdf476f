"""Two Q and two V critics over utterances, on one encoder.

Observations and actions are encoded separately, and what a text becomes does not depend on what else is in its batch.
So each distinct text is encoded once, in batches of similar lengths; of those that begin each other, as an episode's
observations do, a causal encoder reads the longest only. A step's loss is the sum of G means over B rows.

Axes: N texts, B rows, T tokens, H hidden; of a step S rows of a process.

Published behaviour: docs/published/archer.md#critic, #critic-targets, #deviations, #online-chai.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sweet_rl.online import losses
from sweet_rl.online.losses import CriticTargets, CriticValues, StepSettings, of_all_rows, step
from sweet_rl.online.replay import Transition
from sweet_rl.training.batches import chains
from sweet_rl.training.processes import own_rows
from sweet_rl.training.steps import padded_batches

REMEMBERED = 8192  # texts whose tokens are kept: updates come to the same ones again and again

# How the outputs of a text's tokens become one vector: the model's own pooler, the first token's output, the mean of the
# outputs, or the last token's beside the mean of the tokens' embeddings: what a causal model makes of its last token says
# what comes next, after every utterance the same. Which one it was the embeddings say.
Pooling = Literal["pooler", "first", "last", "mean"]

# Tokens from which on a device is busy with a batch: padding then costs more than another batch. For models
# 256 wide or wider; narrower ones need more.
_WORTH = {"cpu": 256, "cuda": 4096}


def distinct(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    """Unique texts in the order of their first appearance, and the index among them of each requested text."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(text, len(numbers)) for text in texts]
    return list(numbers), places


class TextEncoder:
    """Texts to vectors with any transformers encoder. Not a module: it borrows one."""

    def __init__(
        self, model: nn.Module, tokenizer: Any, *, max_length: int = 512, pooling: Pooling | None = None, half: bool = False
    ) -> None:  # fmt: skip
        self.model, self.tokenizer, self.half = model, tokenizer, half
        config: Any = model.config
        self._hidden: int = config.get_text_config().hidden_size
        self.max_length = min(max_length, _positions(config) or max_length)
        tokenizer.truncation_side = "left"
        self.pooling: Pooling = pooling or _pooling_of(model, tokenizer)
        self.width = 2 * self._hidden if self.pooling == "last" else self._hidden
        self.joined_width = 2 * self.width + (self._hidden if self.pooling == "last" else 0)
        self.texts_read = 0  # so far: how a test knows that none was read twice
        causal = [module.is_causal for module in model.modules() if hasattr(module, "is_causal")]
        # Whether no token sees those behind it.
        self._chained = self.pooling == "last" and bool(causal) and all(causal)
        pad_id = tokenizer.pad_token_id
        self._pad_id: int = pad_id if pad_id is not None else (tokenizer.eos_token_id or 0)
        self._adds_begin = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        self._ids = lru_cache(REMEMBERED)(self._tokenize)
        accepted = inspect.signature(model.forward).parameters
        self._options = {"use_cache": False} if "use_cache" in accepted else {}

    def batches(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Numbers of texts that are encoded together; those that one pass reads are not divided."""
        found = self._chains([self._ids(text) for text in texts])
        worth = _WORTH.get(self.device.type, math.inf) * max(1.0, (256 / self._hidden) ** 2)
        lengths = [len(self._ids(texts[chain[-1]])) for chain in found]
        batches = padded_batches(lengths, max_tokens, worth_tokens=worth)
        return [[number for place in batch for number in found[place]] for batch in batches]

    def _chains(self, rows: Sequence[tuple[int, ...]]) -> list[list[int]]:
        return chains(rows) if self._chained else [[number] for number in range(len(rows))]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def __call__(self, texts: Sequence[str], max_tokens: int) -> Tensor:
        """Vectors of the texts, as [N, width]; with gradients where they are on."""
        batches = self.batches(texts, max_tokens)
        features = torch.cat([self._encode([self._ids(texts[n]) for n in batch]) for batch in batches])
        order = torch.tensor([number for batch in batches for number in batch], device=features.device)
        return features[order.argsort()]

    def _encode(self, rows: Sequence[tuple[int, ...]]) -> Tensor:
        """One batch, padded on the right."""
        found = self._chains(rows)
        read = [rows[chain[-1]] for chain in found]
        self.texts_read += len(read)
        device, dtype, width = self.device, next(self.model.parameters()).dtype, max(map(len, read))
        ids_BT = torch.tensor([[*row, *[self._pad_id] * (width - len(row))] for row in read], device=device)
        lengths_B = torch.tensor([len(row) for row in read], device=device)
        mask_BT = (torch.arange(width, device=device) < lengths_B[:, None]).long()
        with torch.autocast(device.type, torch.bfloat16, enabled=self.half):
            output = self.model(input_ids=ids_BT, attention_mask=mask_BT, **self._options)
        if self.pooling == "pooler":
            return output.pooler_output.to(dtype)  # type: ignore[no-any-return]
        hidden_BTH: Tensor = output.last_hidden_state.to(dtype)
        if self.pooling == "first":
            return hidden_BTH[:, 0]
        if self.pooling == "mean":
            return _means(hidden_BTH)[torch.arange(len(rows), device=device), lengths_B - 1]
        model: Any = self.model
        where = {number: place for place, chain in enumerate(found) for number in chain}
        rows_N = torch.tensor([where[number] for number in range(len(rows))], device=device)
        lasts_N = torch.tensor([len(row) - 1 for row in rows], device=device)
        words_BTH = _means(model.get_input_embeddings()(ids_BT).to(dtype))
        said_NH = nn.functional.layer_norm(words_BTH[rows_N, lasts_N], (self._hidden,))
        return torch.cat([hidden_BTH[rows_N, lasts_N], said_NH], dim=1)

    def joined(self, states_BH: Tensor, actions_BH: Tensor) -> Tensor:
        """Vectors of observations and of utterances beside each other, as [B, joined_width].

        Of a causal model the products, too, of what it expects next and the utterance's words: their sum is
        about the utterance's logit, and heads learn slowly from sums what is one.
        """
        both = [states_BH, actions_BH]
        if self.pooling == "last":
            both.append(states_BH[:, : self._hidden] * actions_BH[:, self._hidden :])
        return torch.cat(both, dim=1)

    def _tokenize(self, text: str) -> tuple[int, ...]:
        begin, begin_id = self.tokenizer.bos_token, self.tokenizer.bos_token_id
        written = bool(begin) and text.startswith(str(begin))  # by a chat template
        if written and self._adds_begin:
            text = text.removeprefix(begin)
        ids = self.tokenizer(text, truncation=True, max_length=self.max_length)["input_ids"]
        if self.pooling == "last" and len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:
            ids = ids[:-1]  # a policy has never read its own end
        if written and ids[0] != begin_id:
            ids = [begin_id, *ids[1:]]  # of a text that was cut
        return tuple(ids) or (self._pad_id,)  # GPT-like tokenizers make nothing of an empty text


class DoubleCritic(nn.Module):
    """The encoder and four heads; the names of the weights are the published ones."""

    def __init__(
        self, base_lm: nn.Module, tokenizer: Any, *, max_length: int = 512, double: bool = True
    ) -> None:
        super().__init__()
        self.single, self.base_lm = not double, base_lm
        self.encoder = TextEncoder(base_lm, tokenizer, max_length=max_length)
        width, joined = self.encoder.width, self.encoder.joined_width
        self.critic1, self.critic2, self.v_critic1, self.v_critic2 = (
            nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
            for size in (joined, joined, width, width)
        )  # fmt: skip
        self.eval()

    def encode(self, texts: Sequence[str], max_tokens: int = 4096) -> Tensor:
        """Vectors of texts, each distinct one encoded once, as [N, H]."""
        once, places = distinct(texts)
        features = self.encoder(once, max_tokens)
        return features[torch.tensor(places, device=features.device)]

    def q(self, states_BH: Tensor, actions_BH: Tensor) -> tuple[Tensor, Tensor]:
        """Q1 and Q2 of encoded observations and actions, each as [B]."""
        both_BH = self.encoder.joined(states_BH, actions_BH)
        q1_B = self.critic1(both_BH)[:, 0]
        return q1_B, self.critic2(both_BH)[:, 0] if not self.single else q1_B

    def v(self, states_BH: Tensor) -> tuple[Tensor, Tensor]:
        """V1 and V2 of encoded observations, each as [B]."""
        v1_B = self.v_critic1(states_BH)[:, 0]
        return v1_B, self.v_critic2(states_BH)[:, 0] if not self.single else v1_B

    def forward(self, states_BH: Tensor, actions_BH: Tensor) -> CriticValues:
        """All four values of encoded observations and actions."""
        return CriticValues(*self.q(states_BH, actions_BH), *self.v(states_BH))

    def read(
        self, observations: Sequence[str], actions: Sequence[str], max_tokens: int = 4096
    ) -> CriticValues:
        """All four values of texts; every distinct text is encoded once."""
        features = self.encode([*observations, *actions], max_tokens)
        return CriticValues(*self(features[: len(observations)], features[len(observations) :]))


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


@torch.no_grad()
def soft_update(target: nn.Module, online: nn.Module, tau: float) -> None:
    """Polyak averaging: target := (1 - tau) target + tau online. Buffers are copied."""
    for theirs, ours in zip(target.parameters(), online.parameters(), strict=True):
        theirs.mul_(1 - tau).add_(ours, alpha=tau)
    for kept, copied in zip(target.buffers(), online.buffers(), strict=True):
        kept.copy_(copied)


def _pooling_of(model: nn.Module, tokenizer: Any) -> Pooling:
    if getattr(model, "pooler", None) is not None:
        return "pooler"
    begins = getattr(tokenizer, "cls_token_id", None)
    if begins is not None and tokenizer("a")["input_ids"][:1] == [begins]:
        return "first"
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config: Any = model.config
    return "last" if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else "mean"


def _means(states_BTH: Tensor) -> Tensor:
    """Of all tokens up to each one."""
    counts_T1 = torch.arange(1, states_BTH.shape[1] + 1, device=states_BTH.device)[:, None]
    return states_BTH.cumsum(dim=1) / counts_T1


def _positions(config: Any) -> int | None:
    """Tokens that the model has positions for; RoBERTa's begin behind the padding's id, DeBERTa's are distances only."""
    text = config.get_text_config()
    positions: int | None = getattr(text, "max_position_embeddings", None)
    if positions and "roberta" in text.model_type and "deberta" not in text.model_type:
        positions -= text.pad_token_id + 1
    return positions if getattr(text, "position_biased_input", True) else None


def critic_step(
    critic: DoubleCritic, target: DoubleCritic, optimizer: torch.optim.Optimizer,
    rows: Sequence[Transition], proposals: Sequence[Sequence[str]], settings: StepSettings,
) -> dict[str, float]:  # fmt: skip
    """One step of the critic, and of the target towards it."""
    optimizer.zero_grad(set_to_none=True)
    mine = [rows[number] for number in own_rows(len(rows))]
    targets = critic_targets(target, mine, proposals, settings)
    weight = next(critic.parameters())
    table = torch.zeros(8, len(mine), device=weight.device, dtype=weight.dtype)  # values, then errors
    observations, places = distinct([row.observation for row in mine])
    members: list[list[int]] = [[] for _ in observations]
    for number, place in enumerate(places):
        members[place].append(number)
    # Micro-batches: rows with the same observation stay together, lengths are similar.
    for batch in critic.encoder.batches(observations, settings.max_tokens_per_batch) if mine else ():
        numbers = [number for place in batch for number in members[place]]
        part = [mine[n] for n in numbers]
        texts = [row.observation for row in part], [row.action for row in part]
        values = critic.read(*texts, settings.max_tokens_per_batch)
        errors = losses.critic_losses(values, CriticTargets(*(tensor[numbers] for tensor in targets)))
        torch.autograd.backward(torch.stack(errors).sum() / settings.batch_size)
        table[:, numbers] = torch.stack([*values, *errors]).detach()
    table = of_all_rows([*table, *targets], len(rows), critic)
    step(optimizer, list(critic.parameters()), table[4:8].sum(dim=0), table[:8], rows, "critic", settings)
    soft_update(target, critic, settings.tau)
    return losses.means(
        losses.critic_metrics(CriticValues(*part[:4]), CriticTargets(*part[8:]), CriticValues(*part[4:8]))
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
    y1_S, y2_S = (losses.td_targets(rewards_S, bootstrap_mask_S, v_S, settings.gamma) for v_S in (v1_S, v2_S))
    return CriticTargets(y1_S, y2_S, q1[picked], q2[picked])


def best_places(values: Tensor, owners: Sequence[int]) -> list[int]:
    """For each owner in order, the place of its largest value; the first of equals."""
    best: dict[int, int] = {}
    found = values.tolist()
    for place, owner in enumerate(owners):
        if owner not in best or found[place] > found[best[owner]]:
            best[owner] = place
    return [best[owner] for owner in sorted(best)]
