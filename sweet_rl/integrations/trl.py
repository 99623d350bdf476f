"""TRL's trainers: GRPO on an OpenEnv server, and on a critic's credit, as a reward or turn by turn in whole dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import torch
from trl import GRPOTrainer

from sweet_rl.integrations.tokens import agent_turn, agent_turns, centred, on_tokens
from sweet_rl.interface import Critic
from sweet_rl.preferences.ranking import encoding_by
from sweet_rl.types import Json


class Rollout:
    """A `rollout_func` that plays one episode of `sweet-rl serve_env` for every prompt, the name of a task.

    A completion is all that follows the first prompt: the agent's tokens as they were sampled, and the
    partner's words, which `env_mask` keeps out of the loss; a turn has `max_tokens` at most.
    """

    def __init__(self, url: str, *, max_tokens: int = 128) -> None:
        self._url, self._max_tokens = url, max_tokens

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        """What TRL asks of a rollout; `rewards` of its turns for `total` to add up."""
        from openenv import GenericEnvClient

        names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "rewards")
        model = trainer.accelerator.unwrap_model(trainer.model)
        self._temperature = trainer.args.temperature
        with GenericEnvClient(base_url=self._url) as client:
            played = [self._play(task, client, model, trainer.processing_class) for task in prompts]
        return {name: [one[place] for one in played] for place, name in enumerate(names)}

    def _play(self, task: str, client: Any, model: Any, tokenizer: Any) -> tuple[list[Any], ...]:
        heard = client.reset(task_id=task)
        text = _rendered(tokenizer, heard.observation["messages"])
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids, mask, logprobs, rewards = list[int](), list[int](), list[float](), list[float]()
        while True:
            said, known = self._sample(model, prompt + ids, tokenizer)
            ids, logprobs, mask = ids + said, logprobs + known, mask + [1] * len(said)
            words = tokenizer.decode(said, skip_special_tokens=True)
            before = heard.observation["messages"]
            heard = client.step({"text": words})
            rewards.append(heard.reward)
            if heard.done:
                return prompt, ids, logprobs, mask, rewards
            after = heard.observation["messages"]
            own = _rendered(tokenizer, after[: len(before) + 1], open_turn=False)
            # what is told between two turns, behind the end of one that was cut
            cut = [] if said[-1:] == [tokenizer.eos_token_id] else [tokenizer.eos_token_id]
            tail = _rendered(tokenizer, after)[len(own) :]
            told = cut + list(tokenizer(tail, add_special_tokens=False)["input_ids"])
            ids, logprobs, mask = ids + told, logprobs + [0.0] * len(told), mask + [0] * len(told)

    @torch.no_grad()
    def _sample(self, model: Any, ids: list[int], tokenizer: Any) -> tuple[list[int], list[float]]:
        given = torch.tensor([ids], device=model.device)
        out = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=self._max_tokens,
            do_sample=True,
            temperature=self._temperature,
            top_k=0,
            top_p=1.0,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_scores=True,
        )
        said = out.sequences[0, len(ids) :]
        scores = torch.stack(out.scores)[:, 0].float().log_softmax(-1)
        return said.tolist(), scores.gather(1, said[:, None])[:, 0].tolist()


def total(rewards: list[list[float]], **others: Any) -> list[float]:
    """The reward function that belongs to `Rollout`: the sum of an episode's rewards."""
    return [sum(one) for one in rewards]


def _rendered(tokenizer: Any, messages: list[dict[str, str]], *, open_turn: bool = True) -> str:
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_turn)
    return text


class CreditReward:
    """A reward function for GRPO and RLOO: the credit of the turn that a completion is.

    A prompt is a dialogue up to where the agent speaks, the column `hidden` what the critic is told; completions of a
    prompt are compared, as SWEET-RL compares candidates of one turn. `tokenizer` is the policy's.
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
    """GRPO whose advantages are each turn's own: its credit, less the mean of its prompt's turns; rewards are logged.

    Rows have a column `hidden`, which the critic is told, or bring `credit` (`Replay`), and then there is no critic. A
    `rollout_func` plays the dialogues and says which tokens are the agent's. Turns without a score leave the loss.
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
    """A `rollout_func` of stored dialogues, rows of `sweet-rl export_credit`: of a prompt's task the next, in turn."""

    def __init__(self, rows: Sequence[Mapping[str, Json]]) -> None:
        tasks = {row["task_id"] for row in rows}
        self._rows = {task: cycle([row for row in rows if row["task_id"] == task]) for task in tasks}

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What TRL asks of a rollout, and the credit of each turn."""
        given = [next(self._rows[task]) for task in prompts]
        names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "credit")
        columns: dict[str, Any] = {name: [row[name] for row in given] for name in names}
        return columns if all(columns["logprobs"]) else columns | {"logprobs": None}
