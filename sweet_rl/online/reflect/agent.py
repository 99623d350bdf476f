"""A causal language model that plays: it chooses actions by their labels, points at commands, or writes reflections.

Prompts are read in batches of similar length, and a common prefix is read once; nothing depends on what else is in a batch.
Without dropout the forward pass of the first update after play is that of play, whose graphs are kept for it.

A policy that points reads a state up to its list of actions, and from there each command, and the action marker, on branches. A score
compares the states behind a command and the marker, so order and labels are of no influence, and a model need not learn to write.

Axes: B prompts, S steps, K places that are asked, H hidden, C commands on offer, V what is chosen from: labels, or the vocabulary.

Published behaviour: docs/published/reflect_rl.md#episodes, #models, #two-models, #deviations.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import ACTION_MARKER, offered_commands, split_prompt
from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.play import Chosen
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.policies.decoding import Decoder, Request, choose, end_tokens, keep_likeliest, keep_nucleus
from sweet_rl.policies.weights import WeightsState
from sweet_rl.training.batches import lay_out, neighbours, question_of, to_device
from sweet_rl.training.forward import Outputs, asked_at, attention_span, inputs_of
from sweet_rl.training.models import bare_model
from sweet_rl.training.steps import padded_batches, shared_batches


class Example(NamedTuple):
    """Tokens of a text: those that are given, and those behind the marker.

    With `branches` a command is pointed at: the action marker and each command on offer may follow the given tokens,
    and the target is the place of one of these commands, counted from 0.
    """

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...] = ()

    @property
    def sequence(self) -> list[int]:
        """The input for scoring the targets: all tokens but the last."""
        return [*self.prompt_ids, *self.target_ids[:-1]]

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        """The inputs for scoring the commands: the given tokens with each branch."""
        return [(*self.prompt_ids, *branch) for branch in self.branches]

    @property
    def tokens(self) -> int:
        """Tokens that are read before a choice: a prompt branches once."""
        return len(self.prompt_ids) + sum(map(len, self.branches))


def entropy_of(logps_SV: Tensor) -> Tensor:
    """Entropy of distributions given as log-probabilities, in nats; impossible tokens add nothing."""
    return -(logps_SV.exp() * logps_SV.masked_fill(logps_SV == -torch.inf, 0.0)).sum(dim=-1)


def sampling_logps(logits_SV: Tensor, how: Sampling) -> Tensor:
    """What is sampled from: first the temperature, then the `top_k` likeliest, then the fewest that have `top_p` together."""
    logps_SV = logits_SV.float() / how.temperature
    every_S = logps_SV.new_ones(len(logps_SV))
    if how.top_k:  # asking for nothing would have a GPU waited for
        logps_SV = keep_likeliest(logps_SV, how.top_k * every_S.long())
    if how.top_p < 1:
        logps_SV = keep_nucleus(logps_SV, how.top_p * every_S, every_S)
    return logps_SV.log_softmax(dim=-1)


class KeptPasses:
    """What a policy read while it played, until an update takes it or its weights change."""

    def __init__(self, model: Any) -> None:
        self._weights = WeightsState(model)
        self._room = 0
        self._passes: list[tuple[Sequence[Example], Tensor, Tensor]] = []

    def begin(self, tokens: int) -> None:
        """Forget what was kept; keep what is read from now on, so many tokens of it at most."""
        self._passes, self._room = [], tokens
        self._weights.changed()

    def read(
        self, examples: Sequence[Example], read: Callable[[Sequence[Example]], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """One forward pass over examples without a target: kept, with gradients on, where there is room; else without."""
        tokens = sum(one.tokens for one in examples)
        keeps = tokens <= self._room
        with torch.enable_grad() if keeps else torch.inference_mode():
            logits_SV, states_SH = read(examples)
        if keeps:
            self._room -= tokens
            self._passes.append((examples, logits_SV, states_SH))
        return logits_SV, states_SH

    def take(self, examples: Sequence[Example]) -> list[tuple[list[int], Tensor, Tensor]]:
        """What was read of these examples, whatever their targets, pass by pass; forgets everything.

        Each pass: numbers of its examples, what the model said [S, V], and the states behind the prompts [S, H].
        """
        passes, self._passes, self._room = self._passes, [], 0
        if not passes or self._weights.changed():
            return []
        wanted: dict[Example, deque[int]] = defaultdict(deque)
        for number, example in enumerate(examples):
            wanted[example._replace(target_ids=())].append(number)
        found = []
        for asked, logits_SV, states_SH in passes:
            rows = {row: wanted[example].popleft() for row, example in enumerate(asked) if wanted[example]}
            if rows:
                found.append((list(rows.values()), logits_SV[[*rows]], states_SH[[*rows]]))
        return found


CACHED_TEXTS = 65_536  # Whose tokens are remembered
# Tokens of a batch on a CPU at most: more are no faster there, only longer padded, and the memory of large
# tensors is mapped anew each time, which takes longer than the products where graphs are kept.
_CPU_TOKENS = 1024
_WORTH_SHARING = 0.5  # what share of all tokens must be read twice before that costs more than masks


class Agent:
    """A model with its tokenizer, and what it chooses from."""

    head: nn.Module | None = None  # What is trained beside the adapter, where there is something

    def __init__(
        self, model: Any, tokenizer: Any, sampling: Sampling, *, labels: Sequence[str] | None = None,
        label_ids: Sequence[int] | None = None, max_tokens_per_batch: int = 4096, dropout: bool = False,
        keeps_writing: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.tokenizer, self.sampling = model, tokenizer, sampling
        self.max_tokens_per_batch = max_tokens_per_batch
        self._dropout, self._keeps_writing = dropout, keeps_writing
        self.labels = tuple(labels) if labels is not None else None
        self._label_ids: Tensor | None = None
        if labels is not None:
            if sampling.max_new_tokens != 1:
                raise UsageError("--shrink_head writes one token; leave --max_new_tokens at 1.")
            self._label_ids = torch.tensor(label_ids or label_tokens(tokenizer, labels), device=self.device)
        bare: Any = bare_model(model)
        self.config = bare.config.get_text_config()
        self._positions: int | None = getattr(self.config, "max_position_embeddings", None)
        if self._positions is not None and (writes := sampling.max_new_tokens) >= self._positions:
            raise UsageError(
                f"This model reads {self._positions:,} tokens, and is to write {writes:,}: of a prompt "
                "nothing would be left. Lower --max_new_tokens (of reflections --reflect_max_new_tokens)."
            )
        self._span, self._bare = attention_span(bare), bare
        self._most = _CPU_TOKENS if self.device.type == "cpu" else 2**62
        self._end_ids = frozenset() if keeps_writing else end_tokens(bare, tokenizer)
        self._decoder = Decoder(bare, self._end_ids)
        self.kept = KeptPasses(model)  # Of choices of one token
        self.usage = tracking.meter(str(getattr(model.config, "name_or_path", "")), "agent")
        self.encode = lru_cache(maxsize=CACHED_TEXTS)(self._encode)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    @property
    def modules(self) -> list[nn.Module]:
        """All that has weights: the model, and a head of its own."""
        return [self.model] if self.head is None else [self.model, self.head]

    def trainable(self) -> list[nn.Parameter]:
        """Those of the adapter, and of a head of its own."""
        return [one for module in self.modules for one in module.parameters() if one.requires_grad]

    def _encode(self, prompt: str) -> tuple[int, ...]:
        """Tokens of a prompt; a long one loses its beginning."""
        ids = self._tokenized(prompt, begins=True)
        room = len(ids) if self._positions is None else self._positions - self.sampling.max_new_tokens
        return ids[-room:] or (self.tokenizer.eos_token_id or 0,)

    def _tokenized(self, text: str, *, begins: bool = False) -> tuple[int, ...]:
        """Tokens of a text; those that a tokenizer puts around it only where it begins a sequence."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=begins)["input_ids"]
        while begins and len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:  # it ends every text
            ids.pop()
        return tuple(ids)

    def batches(
        self, sequences: Sequence[Sequence[int]], most: int | None = None, *, written: bool = False
    ) -> Iterator[list[int]]:
        """Numbers of sequences to read together: neighbours have a common prefix, or similar lengths."""
        most = most or self.max_tokens_per_batch
        lengths, alike = [len(ids) for ids in sequences], self._alike(sequences)
        if written:  # each text has a cache of its own, padded to the longest
            return iter(padded_batches(lengths, most, order=alike and alike[0]))
        if alike is not None:
            return iter(shared_batches(alike[0], lengths, alike[1], most))
        return iter(padded_batches(lengths, min(self._most, most)))

    def _alike(self, sequences: Sequence[Sequence[int]]) -> tuple[list[int], list[int]] | None:
        """An order with common prefixes side by side, and what each shares with the one before; None if too little."""
        if not self._span:
            return None
        arrays = [np.asarray(ids, dtype=np.uint32) for ids in sequences]
        order, shared = neighbours(arrays)
        return (order, shared) if sum(shared) > _WORTH_SHARING * sum(map(len, arrays)) else None

    def read(
        self, sequences: Sequence[Sequence[int]], places: Sequence[Sequence[int]]
    ) -> tuple[Tensor, Tensor]:
        """What the model says behind some tokens: logits [K, V] in float32, and hidden states [K, H].

        All in one batch, with gradients where they are on.
        """
        span = self._span if self._alike(sequences) else 0
        layout = lay_out([np.asarray(ids, dtype=np.uint32) for ids in sequences], attention_span=span)
        asked_K = np.concatenate([at[list(of)] for at, of in zip(layout.places, places, strict=True)])
        question = to_device(question_of(layout, asked_K), self.device)
        seen: list[Tensor] = []

        def logits(logits_of: Outputs, hidden_KH: Tensor) -> Tensor:
            seen.append(hidden_KH)
            return self._label_logits(logits_of, hidden_KH)

        with asked_at(self._bare.get_output_embeddings(), question["predictors_K"], logits):
            output = self.model(**inputs_of(self._bare, question))
        return output.logits.float(), seen[0]

    def _label_logits(self, logits_of: Outputs, hidden_KH: Tensor) -> Tensor:
        """Of the labels only, where there are labels (logits_small[i] = logits_full[id_i])."""
        head, ids = self._bare.get_output_embeddings(), self._label_ids
        if ids is None or type(head) is not nn.Linear:  # quantized, or with an adapter
            return logits_of(hidden_KH)[:, slice(None) if ids is None else ids]
        return functional.linear(hidden_KH, head.weight[ids], None if head.bias is None else head.bias[ids])

    def choose(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[Chosen]:
        """One action for each prompt; it depends on the prompt and its seed."""
        examples, count = [self.example(prompt, ()) for prompt in prompts], len(prompts)
        draws_BT = torch.tensor([draws_of(seed, self.sampling) for seed in seeds], dtype=torch.float64)
        written: list[list[int]] = [[] for _ in prompts]
        totals_2B, going = torch.zeros(2, count, dtype=torch.float64), list(range(count))
        self.usage.requests += count
        with dropout(self.model, active=self._dropout):
            for turn in range(self.sampling.max_new_tokens):
                asked = [
                    examples[n]._replace(prompt_ids=(*examples[n].prompt_ids, *written[n])) for n in going
                ]
                for batch in self._groups(asked, playing=True):
                    logits_BV, _ = self.kept.read([asked[at] for at in batch], self.scores)
                    logps_BV = sampling_logps(logits_BV.detach(), self.sampling)
                    numbers = [going[at] for at in batch]
                    draws_B = draws_BT[numbers, turn].to(self.device)
                    places_B = choose(logps_BV, torch.ones_like(draws_B), draws_B)
                    told = (places_B, logps_BV.gather(1, places_B[:, None])[:, 0], entropy_of(logps_BV))
                    told_3B = torch.stack([one.double() for one in told]).cpu()
                    totals_2B[:, numbers] += told_3B[1:]
                    for number, token in zip(numbers, told_3B[0].long().tolist(), strict=True):
                        written[number].append(token)
                going = [n for n in going if self.labels is not None or written[n][-1] not in self._end_ids]
        for one, ids in zip(examples, written, strict=True):
            self.usage.add(len(one.prompt_ids), len(ids))
        return list(map(Chosen, map(self._said, prompts, written), map(tuple, written), *totals_2B.tolist()))

    def _said(self, _prompt: str, ids: Sequence[int]) -> str:
        """What was chosen behind a prompt, or written, as text."""
        if self.labels is not None:
            return self.labels[ids[0]]
        options = {"skip_special_tokens": not self._keeps_writing, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(ids), **options))

    def _groups(self, examples: Sequence[Example], *, playing: bool) -> Iterator[list[int]]:
        """Numbers of examples to read together."""
        most = self.max_tokens_per_batch * (4 if playing else 1)
        return self.batches([example.sequence for example in examples], most)

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """What may be chosen behind each prompt: logits [S, V], and the states behind the prompts [S, H]; one batch."""
        return self.read(
            [one.prompt_ids for one in examples], [[len(one.prompt_ids) - 1] for one in examples]
        )

    def write(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """A text behind each prompt; it depends on the prompt and its seed."""
        how = self.sampling
        requests = [
            Request(self.encode(prompt), how.max_new_tokens, how.temperature, seed, how.top_k, how.top_p)
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        self.usage.requests += len(prompts)
        texts = [""] * len(prompts)
        lengths = [request.prompt_ids + (0,) * how.max_new_tokens for request in requests]
        with dropout(self.model, active=self._dropout):
            for batch in self.batches(lengths, 4 * self.max_tokens_per_batch, written=True):
                for finished in self._decoder([requests[number] for number in batch]):
                    for place, written in finished:
                        ids = written.token_ids
                        self.usage.add(len(requests[batch[place]].prompt_ids), len(ids))
                        texts[batch[place]] = self._said("", ids[:-1] if written.ended else ids)
        return texts

    def example(self, prompt: str, token_ids: Sequence[int]) -> Example:
        """A prompt, and the choice behind it that is to be scored."""
        return Example(self.encode(prompt), tuple(token_ids))

    def scored(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Batch by batch, the numbers of its examples, and what `score` says of them.

        What was kept of play comes first, and is not read again.
        """
        known = self.kept.take(examples)
        for numbers, logits_SV, states_SH in known:
            targets_S = torch.tensor([examples[n].target_ids[0] for n in numbers], device=self.device)
            yield numbers, self._logps(logits_SV, targets_S), states_SH.detach().float()
        read = {number for numbers, *_ in known for number in numbers}
        rest = [number for number in range(len(examples)) if number not in read]
        for batch in self._groups([examples[number] for number in rest], playing=False):
            numbers = [rest[number] for number in batch]
            yield numbers, *self.score([examples[number] for number in numbers])

    def _logps(self, logits_KV: Tensor, targets_K: Tensor) -> Tensor:
        """Log-probabilities [K] of targets at the temperature of sampling, before anything is cut off."""
        logits_KV = logits_KV / self.sampling.temperature
        return logits_KV.gather(1, targets_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)

    def score(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Log-probability [S] of each example's target, summed over its tokens; one batch.

        Beside it the hidden state behind each prompt [S, H], as of `hidden`, without gradients.
        """
        sequences, tokens = [one.sequence for one in examples], [one.target_ids for one in examples]
        places = [range(len(all_) - len(ids), len(all_)) for all_, ids in zip(sequences, tokens, strict=True)]
        logits_KV, hidden_KH = self.read(sequences, places)
        targets_K = torch.tensor([token for ids in tokens for token in ids], device=self.device)
        logps_K = self._logps(logits_KV, targets_K)
        rows_K = torch.tensor([n for n, ids in enumerate(tokens) for _ in ids], device=self.device)
        first_S = torch.searchsorted(rows_K, torch.arange(len(tokens), device=self.device))
        logps_S = logps_K.new_zeros(len(tokens)).index_add(0, rows_K, logps_K)
        return logps_S, hidden_KH[first_S].detach().float()

    def hidden(self, prompts: Sequence[str]) -> Tensor:
        """The hidden state behind each prompt [S, H] in float32, without gradients; what a critic reads."""
        sequences = [self._asked(prompt) for prompt in prompts]
        batches = list(self.batches(sequences, 4 * self.max_tokens_per_batch))
        with torch.no_grad():
            parts = [[sequences[number] for number in batch] for batch in batches]
            read = [self.read(part, [[len(ids) - 1] for ids in part])[1].float() for part in parts]
        return torch.cat(read)[np.argsort(np.concatenate(batches))]

    def _asked(self, prompt: str) -> Sequence[int]:
        """The tokens behind which a choice is made."""
        return self.encode(prompt)


@contextmanager
def dropout(model: Any, *, active: bool) -> Iterator[None]:
    """The adapter's dropout is active, or not; that of the model itself never is."""
    named = ((name, module) for name, module in model.named_modules() if isinstance(module, nn.Dropout))
    changed = [one for name, one in named if "lora_dropout" in name and one.training != active]
    for module in changed:
        module.train(active)
    try:
        yield
    finally:
        for module in changed:
            module.train(not active)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn, and how many."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 1

    @classmethod
    def of(cls, settings: ReflectSettings, *, reflection: bool = False) -> Sampling:
        """As the settings say, for actions or for reflections."""
        warmth = settings.reflect_temperature if reflection else None
        most = settings.reflect_max_new_tokens if reflection else settings.max_new_tokens
        return cls(warmth or settings.temperature, settings.top_k, settings.top_p, most)


def label_tokens(tokenizer: Any, labels: Sequence[str]) -> list[int]:
    """The token of each label behind the action marker."""
    before: list[int] = tokenizer(ACTION_MARKER, add_special_tokens=False)["input_ids"]
    found: dict[int, str] = {}
    for label in labels:
        ids = tokenizer(ACTION_MARKER + label, add_special_tokens=False)["input_ids"]
        alone = ids[: len(before)] == before and len(ids) == len(before) + 1
        if not alone or ids[-1] in found or ids[-1] == tokenizer.unk_token_id:
            raise UsageError(
                f"--shrink_head needs a token for every label, and this tokenizer has none for {label!r}. "
                "Take a model with such a tokenizer (gpt2), or --pointing_head, in fine-tuning too."
            )
        found[ids[-1]] = label
    return list(found)


def draws_of(seed: int, sampling: Sampling) -> list[float]:
    """Uniform numbers from 0 to 1 that decide about the tokens of one text."""
    generator = torch.Generator().manual_seed(seed)
    return [*torch.rand(sampling.max_new_tokens, generator=generator, dtype=torch.float64).tolist()]


class PointingHead(nn.Module):
    """Scores commands by their states and the prompt's, normalised and projected, in float32: q . k / sqrt(H)."""

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
        texts = [ACTION_MARKER, *(f"\n{one}" for one in self.offered(prompt).values())]
        branches = [self._tokens(text) for text in texts]
        before = split_prompt(prompt, self._action_head).before
        ids = self._tokens(f"{before}{self._action_head}", begins=True)
        if rooms := [most for most in (room, self._positions) if most is not None]:
            ids = ids[-max(1, min(rooms) - max(map(len, branches))) :]
        return Example(ids, tuple(token_ids), tuple(branches))

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """The commands' scores [S, C] in float32, -inf behind a state's last, and the states behind the marker [S, H]; one batch."""
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
        """The state up to its list, and the marker."""
        return self.example(prompt, ()).sequences[0]

    def _said(self, prompt: str, ids: Sequence[int]) -> str:
        return list(self.offered(prompt))[ids[0]]

    def _groups(self, examples: Sequence[Example], *, playing: bool) -> Iterator[list[int]]:
        """The commands of a state are never in two batches."""
        most = min(self._most, 4 * self.max_tokens_per_batch) if playing else self.max_tokens_per_batch
        return iter(padded_batches([one.tokens for one in examples], most))

    def score(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Log-probability [S] of each example's command among those on offer, and states; as of `Agent`."""
        scores_SC, states_SH = self.scores(examples)
        targets_S = torch.tensor([example.target_ids[0] for example in examples], device=self.device)
        return self._logps(scores_SC, targets_S), states_SH.detach().float()
