"""TRL's GRPO on an OpenEnv server: a `rollout_func` that plays whole dialogues, token for token.

A completion is all that follows the first prompt: the agent's tokens as they were sampled, and between them
the partner's words, which `env_mask` keeps out of the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from openenv import GenericEnvClient


class Rollout:
    """Plays one episode for every prompt; a prompt's text is the name of a task.

    Args:
        url: of the server (`sweet-rl serve_env`).
        max_tokens: of one turn. The temperature is the trainer's, whose loss counts on it.
    """

    def __init__(self, url: str, *, max_tokens: int = 128) -> None:
        self._url, self._max_tokens = url, max_tokens

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        """What TRL asks of a rollout; `rewards` of its turns for `total` to add up."""
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
        ids: list[int] = []
        logprobs: list[float] = []
        mask: list[int] = []
        rewards: list[float] = []
        while True:
            said, known = self._sample(model, prompt + ids, tokenizer)
            ids, logprobs, mask = ids + said, logprobs + known, mask + [1] * len(said)
            words = tokenizer.decode(said, skip_special_tokens=True)
            before = heard.observation["messages"]
            heard = client.step({"text": words})
            rewards.append(heard.reward)
            if heard.done:
                return prompt, ids, logprobs, mask, rewards
            told = self._told(tokenizer, before, heard.observation["messages"], ended=said[-1:])
            ids, logprobs, mask = ids + told, logprobs + [0.0] * len(told), mask + [0] * len(told)

    def _told(
        self, tokenizer: Any, before: list[dict[str, str]], after: list[dict[str, str]], *, ended: list[int]
    ) -> list[int]:
        """The tokens between two turns of the agent: what it is told, behind the end of one that was cut."""
        own = after[: len(before) + 1]
        text = _rendered(tokenizer, after)
        tail = text[len(_rendered(tokenizer, own, open_turn=False)) :]
        cut = [] if ended == [tokenizer.eos_token_id] else [tokenizer.eos_token_id]
        return cut + list(tokenizer(tail, add_special_tokens=False)["input_ids"])

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
