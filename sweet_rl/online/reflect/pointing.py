"""A policy that points at one of the commands on offer, instead of writing its label.

The model reads a state up to its list of actions, and from there each command, and the action marker, on branches of their own.
A command's score compares the state behind it with the state behind the marker, so the order of the list and the labels are of
no influence, and a model need not learn to write.

Axes: S states, C commands on offer, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from sweet_rl.chat.reflect_format import ACTION_MARKER, offered_commands, resolve_label, split_prompt
from sweet_rl.errors import DataError, UsageError, first_line
from sweet_rl.online.reflect.agent import CACHED_TEXTS, Agent, Example, Sampling, draws_of, dropout
from sweet_rl.online.reflect.play import Chosen
from sweet_rl.online.reflect.runs import HEAD_FILE
from sweet_rl.training.steps import padded_batches


class PointingHead(nn.Module):
    """Scores commands by their states and that of the prompt; in float32.

    Both are normalised and projected, and multiplied as in attention: score = q . k / sqrt(H).
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.prompt = nn.Linear(hidden_size, hidden_size, bias=False)
        self.command = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, prompt_H: Tensor, commands_CH: Tensor) -> Tensor:
        """Scores [C] of commands from their states [C, H] and the prompt's [H]."""
        size = prompt_H.shape[-1:]
        asked_H = self.prompt(functional.layer_norm(prompt_H.float(), size))
        offered_CH = self.command(functional.layer_norm(commands_CH.float(), size))
        scores_C: Tensor = offered_CH @ asked_H / size[0] ** 0.5
        return scores_C


class PointingAgent(Agent):
    """A policy with a pointing head; `Chosen.token_ids` is the place of the command in the list."""

    head: PointingHead

    def __init__(
        self, model: Any, tokenizer: Any, sampling: Sampling, *, head: PointingHead, action_head: str, **more: Any
    ) -> None:  # fmt: skip
        if sampling.max_new_tokens != 1:
            raise UsageError("--pointing_head makes one choice; leave --max_new_tokens at 1.")
        super().__init__(model, tokenizer, sampling, **more)
        self.head, self._action_head = head.to(self.device), action_head
        self._tokens = lru_cache(maxsize=CACHED_TEXTS)(self._tokenized)

    def offered(self, prompt: str) -> dict[str, str]:
        """The commands on offer in a prompt, by their labels."""
        found = offered_commands(prompt, self._action_head)
        if not found:
            raise UsageError(
                "--pointing_head: a state offers no commands. It needs a list of them at its end, behind "
                f"{self._action_head.strip()!r}, such as '3. go north'; this one ends in {prompt[-80:]!r}."
            )
        return found

    def example(self, prompt: str, token_ids: Sequence[int], room: int | None = None) -> Example:
        """A prompt as tokens up to its list, what may follow, and the place of the choice."""
        branches = [
            self._tokens(text)
            for text in (ACTION_MARKER, *(f"\n{one}" for one in self.offered(prompt).values()))
        ]
        before = split_prompt(prompt, self._action_head).before
        ids = self._tokens(f"{before}{self._action_head}", begins=True)
        positions = getattr(self.config, "max_position_embeddings", None)
        if rooms := [most for most in (room, positions) if most is not None]:
            ids = ids[-max(1, min(rooms) - max(map(len, branches))) :]
        return Example(ids, tuple(token_ids), tuple(branches))

    def _tokenized(self, text: str, *, begins: bool = False) -> tuple[int, ...]:
        """Tokens of a text; those that a tokenizer puts around it only where it begins a sequence."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=begins)["input_ids"]
        while begins and len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:  # it ends every text
            ids.pop()
        return tuple(ids)

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """The commands' scores [S, C] in float32, -inf behind the last one of a state; one batch.

        Beside them the hidden states behind the marker [S, H].
        """
        sequences = [ids for example in examples for ids in example.sequences]
        _, hidden_KH = self.read(sequences, [[len(ids) - 1] for ids in sequences])
        states = torch.split(hidden_KH, [len(example.branches) for example in examples])
        scores = [self.head(state_KH[0], state_KH[1:]) for state_KH in states]
        scores_SC: Tensor = pad_sequence(scores, batch_first=True, padding_value=-torch.inf)
        return scores_SC, torch.stack([state_KH[0] for state_KH in states])

    def _label_logits(self, _: Any, hidden_KH: Tensor) -> Tensor:
        """The vocabulary is of no interest."""
        return hidden_KH[:, :1]

    def _asked(self, prompt: str) -> Sequence[int]:
        """What a critic reads: the state up to its list, and the marker."""
        return self.example(prompt, ()).sequences[0]

    def choose(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[Chosen]:
        """One command for each prompt, by its label; it depends on the prompt and its seed."""
        examples = [self.example(prompt, ()) for prompt in prompts]
        found: dict[int, Chosen] = {}
        self.usage.requests += len(prompts)
        with dropout(self.model, active=self._dropout):
            tokens = [_tokens_of(one) for one in examples]
            for batch in padded_batches(tokens, self._few(4 * self.max_tokens_per_batch)):
                asked = [examples[number] for number in batch]
                with self.kept.reading(total := sum(tokens[number] for number in batch)) as keeps:
                    scores_SC, states_SH = self.scores(asked)
                if keeps:
                    self.kept.add(asked, total, scores_SC, states_SH)
                draws = [draws_of(seeds[number], self.sampling)[0] for number in batch]
                drawn = self._draw(scores_SC, draws)
                for number, (place, logp, entropy) in zip(batch, drawn, strict=True):
                    label = list(self.offered(prompts[number]))[place]
                    found[number] = Chosen(label, (place,), logp, entropy)
                    self.usage.add(len(examples[number].prompt_ids), 1)
        return [found[number] for number in range(len(prompts))]

    def _unread(self, examples: Sequence[Example]) -> Iterator[list[int]]:
        """The commands of a state are never in two batches."""
        yield from padded_batches([_tokens_of(one) for one in examples], self.max_tokens_per_batch)

    def score(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Log-probability [S] of each example's command among those on offer, and states; as of `Agent`."""
        scores_SC, states_SH = self.scores(examples)
        targets_S = torch.tensor([example.target_ids[0] for example in examples], device=self.device)
        return self._logps(scores_SC, targets_S), states_SH.detach().float()


def _tokens_of(example: Example) -> int:
    """Tokens that are read for it: a prompt that branches once."""
    return len(example.prompt_ids) + sum(map(len, example.branches))


def pointed(agent: PointingAgent, texts: Sequence[str], path: str, room: int) -> list[Example]:
    """Training texts of a policy as examples for the head."""
    found = []
    for line, text in enumerate(texts, 1):
        at = text.rfind(ACTION_MARKER) + len(ACTION_MARKER)
        prompt, written = text[:at], text[at:]
        where: dict[str, Any] = {"path": path, "line": line, "field": "text"}
        try:
            offered = agent.offered(prompt)
        except UsageError as error:
            repair = "If the text is of another world, name that by --env."
            raise DataError(str(error), **where, value=text[-60:], repair=repair) from error
        if (label := resolve_label(written, offered)) is None:
            why = f"chooses what is not on offer; --pointing_head needs one of {', '.join(offered)}"
            raise DataError(why, **where, value=written)
        found.append(agent.example(prompt, (list(offered).index(label),), room))
    return found


def save_head(head: nn.Module, folder: Path) -> None:
    """Write the head's weights beside an adapter."""
    from safetensors.torch import save_file

    save_file({name: value.contiguous() for name, value in head.state_dict().items()}, folder / HEAD_FILE)


def load_head(head: PointingHead, folder: Path) -> None:
    """Read the weights that `save_head` wrote."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        head.load_state_dict(load_file(folder / HEAD_FILE))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"The pointing head {str(folder / HEAD_FILE)!r} does not fit the model: {first_line(error)} "
            "Name the model that it was trained with by --model_name."
        ) from error
