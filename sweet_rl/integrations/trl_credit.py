"""TRL's trainers on a critic's credit: as a reward of single turns, or turn by turn in whole dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from trl import GRPOTrainer

from sweet_rl.integrations.tokens import agent_turn, agent_turns, centred, on_tokens
from sweet_rl.interface import Critic
from sweet_rl.preferences.ranking import encoding_by
from sweet_rl.types import Json


class CreditReward:
    """A reward function for GRPO and RLOO: the credit of the turn that a completion is.

    A prompt is a dialogue up to where the agent speaks, the column `hidden` what the critic is told. The
    completions of a prompt are compared with each other, as SWEET-RL compares candidates of one turn.
    `tokenizer` is the policy's.
    """

    __name__ = "credit"

    def __init__(self, critic: Critic, tokenizer: Any) -> None:
        self._critic, self._encoding = critic, encoding_by(tokenizer)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[list[int]],
        *,
        hidden: Sequence[str | None],
        **others: Any,
    ) -> list[float | None]:
        """One number for each completion, in nats per token; None, which TRL leaves out, for one without."""
        dialogues = [
            [agent_turn(ids, self._encoding, given)]
            if isinstance(given, str)
            else [*given, agent_turn(ids, self._encoding)]
            for given, ids in zip(prompts, completion_ids, strict=True)
        ]
        return [turns[-1] for turns in self._critic.credit_many(hidden, dialogues)]


class TurnCreditTrainer(GRPOTrainer):
    """GRPO whose advantages are each turn's own: its credit, less the mean of its prompt's turns.

    Rows have a column `hidden`, which the critic is told, or bring `credit` (`Replay`). A `rollout_func`
    plays the dialogues and says which tokens are the agent's. Turns without a score leave the loss.

    Args:
        others: GRPOTrainer's; rewards are only logged.
        critic: loaded; None where rows bring their credit.
    """

    def __init__(self, *others: Any, critic: Critic | None = None, **named: Any) -> None:
        super().__init__(*others, **named)
        self._critic, self._encoding = critic, encoding_by(self.processing_class)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        there = output["completion_mask"]
        masks = (output.get("tool_mask", torch.ones_like(there)) * there).tolist()
        if self._critic is None:
            values = [one["credit"] for one in inputs]
        else:
            given = zip(output["prompt_ids"], output["prompt_mask"].bool(), strict=True)
            prompts = [ids[own].tolist() for ids, own in given]
            played = zip(prompts, output["completion_ids"].tolist(), masks, strict=True)
            dialogues = [agent_turns(*one, self._encoding) for one in played]
            values = self._critic.credit_many([one["hidden"] for one in inputs], dialogues)
        groups = [str(one["prompt"]) for one in inputs]
        rows = [on_tokens(*one) for one in zip(centred(values, groups), masks, strict=True)]
        output["advantages"] = torch.tensor([spread for spread, _ in rows], device=there.device)
        output["tool_mask"] = torch.tensor([learned for _, learned in rows], device=there.device)
        return output


class Replay:
    """A `rollout_func` of stored dialogues, rows of `sweet-rl export_credit`: a prompt's task's next."""

    def __init__(self, rows: Sequence[Mapping[str, Json]]) -> None:
        self._rows: dict[str, list[Mapping[str, Json]]] = {}
        for row in rows:
            self._rows.setdefault(row["task_id"], []).append(row)

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What TRL asks of a rollout, and the credit of each turn."""
        given = []
        for task in prompts:
            given.append(self._rows[task].pop(0))
            self._rows[task].append(given[-1])
        names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "credit")
        columns: dict[str, Any] = {name: [row[name] for row in given] for name in names}
        return columns if all(columns["logprobs"]) else columns | {"logprobs": None}
