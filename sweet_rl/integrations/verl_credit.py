"""verl on a critic's credit: batches in which every turn has a reward, and the estimator of their advantages.

`algorithm.adv_estimator=turn_credit`, with VERL_USE_EXTERNAL_MODULES=sweet_rl.integrations.verl_credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from verl import DataProto
from verl.trainer.ppo.core_algos import register_adv_est

from sweet_rl.credit.check import runs
from sweet_rl.integrations.tokens import Credit, agent_turns, centred, on_tokens
from sweet_rl.interface import Critic
from sweet_rl.preferences.ranking import encoding_by
from sweet_rl.types import Json


@register_adv_est("turn_credit")
def turn_credit(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any = None, **others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each turn (a run of ones), on all its tokens: its rewards less the mean of its group's; (B, T) twice."""
    masks = response_mask.tolist()
    both = zip(token_level_rewards.tolist(), masks, strict=True)
    values: list[Credit] = [[sum(row[start:end]) for start, end in runs(mask)] for row, mask in both]
    groups = [None] * len(masks) if index is None else list(index)
    spread = [on_tokens(*one)[0] for one in zip(centred(values, groups), masks, strict=True)]
    advantages = token_level_rewards.new_tensor(spread)
    return advantages, advantages


def scored(data: DataProto, values: Sequence[Credit]) -> DataProto:
    """A batch with each turn's credit as its reward, at its last token, and the advantages of that.

    Turns without credit leave `response_mask`. verl's trainer takes `rm_scores` from there.
    """
    rows = [on_tokens(*one) for one in zip(values, data.batch["response_mask"].tolist(), strict=True)]
    spread, mask = (torch.tensor(part, dtype=torch.float32) for part in zip(*rows, strict=True))
    last = mask * (1 - torch.nn.functional.pad(mask[:, 1:], (0, 1)))
    rewards = spread * last
    data.batch["response_mask"] = mask.long()
    for name in ("rm_scores", "token_level_scores", "token_level_rewards"):
        data.batch[name] = rewards
    uid = data.non_tensor_batch.get("uid")
    data.batch["advantages"], data.batch["returns"] = turn_credit(rewards, mask, index=uid)
    return data


def credited(data: DataProto, critic: Critic, tokenizer: Any) -> DataProto:
    """What verl's agent loops played, `scored` by a critic, which is told `reward_model.ground_truth`."""
    encoding, width = encoding_by(tokenizer), data.batch["prompts"].shape[1]
    seen = data.batch["attention_mask"][:, :width].bool()
    prompts = [ids[own].tolist() for ids, own in zip(data.batch["prompts"], seen, strict=True)]
    responses, masks = data.batch["responses"].tolist(), data.batch["response_mask"].tolist()
    dialogues = [agent_turns(*one, encoding) for one in zip(prompts, responses, masks, strict=True)]
    hidden = [one["ground_truth"] for one in data.non_tensor_batch["reward_model"]]
    return scored(data, critic.credit_many(hidden, dialogues))


def batch_of(rows: Sequence[Mapping[str, Json]], *, pad_id: int) -> DataProto:
    """Rows of `sweet-rl export_credit` as a batch, `scored`: prompts padded left, responses right."""
    prompts, responses = ([row[name] for row in rows] for name in ("prompt_ids", "completion_ids"))
    seen = _padded([[1] * len(ids) for ids in prompts], 0, left=True)
    attention = torch.cat([seen, _padded([[1] * len(ids) for ids in responses], 0)], 1)
    tensors = {
        "prompts": _padded(prompts, pad_id, left=True),
        "responses": _padded(responses, pad_id),
        "attention_mask": attention,
        "position_ids": (attention.cumsum(1) - 1).clamp(min=0),
        "response_mask": _padded([row["env_mask"] for row in rows], 0),
    }
    tensors["input_ids"] = torch.cat([tensors["prompts"], tensors["responses"]], 1)
    if all(row["logprobs"] for row in rows):
        tensors["rollout_log_probs"] = _padded([row["logprobs"] for row in rows], 0.0)
    uid = np.array([row["task_id"] for row in rows], dtype=object)
    return scored(DataProto.from_dict(tensors, {"uid": uid}), [row["credit"] for row in rows])


def _padded(rows: Sequence[Sequence[Any]], value: float, *, left: bool = False) -> torch.Tensor:
    side = "left" if left else "right"
    parts = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=value, padding_side=side)
