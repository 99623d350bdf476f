"""Texts as a tiny model reads them, what it would say next, and whether that passes its school's gates.

The embedded agent's tokenizer is byte-level BPE with Llama-3-style headers, and a line of text at most a token:
a question, a reply or a line of code can be one. So a dialogue is a few dozen tokens, and a question's log-probability
is one number: cheap, and easy to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch

from sweet_rl.chat import TokenizerChat, TurnTemplate, load_tokenizer, model_path, with_system
from sweet_rl.chat.turns import between_marks
from sweet_rl.errors import UsageError
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.prompts import load_prompt
from sweet_rl.reflect_data.pretraining import Figure, School, Text
from sweet_rl.types import Message

BEGIN, END_OF_TEXT, END_OF_TURN = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
HEADER, END_OF_HEADER = "<|start_header_id|>", "<|end_header_id|>"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

_PIECES = r'    if "\w+" in \w+:\n        \w+ \+= \d+\n|\n\n|[^\n]*\n|[^\n]+'
"""What may become one token at most: a condition with its line, a blank line, any other line."""


def byte_level(pieces: str) -> Any:
    """A byte-level BPE that has learnt nothing yet; a token stays within one of the pieces, a regular expression."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    return bpe


def train_tokenizer(corpus: Iterable[str], *, vocab_size: int = 1200) -> Any:
    """A tokenizer learnt from the texts of the mini worlds; other text falls into smaller pieces, or bytes."""
    from tokenizers import pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast  # seconds; only for those who train one

    bpe = byte_level(_PIECES)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BEGIN, END_OF_TEXT, HEADER, END_OF_HEADER, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus, trainer)
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, bos_token=BEGIN, eos_token=END_OF_TURN, pad_token=END_OF_TEXT
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def check_gates(model: str, school: School) -> list[Figure]:
    """Make sure that a study may begin with a model."""
    from transformers import AutoModelForCausalLM  # seconds

    folder = model_path(model)
    reader = Reader(load_tokenizer(folder), load_prompt(school.rules))
    figures = figures_of(AutoModelForCausalLM.from_pretrained(folder), reader, school)
    if failed := [figure for figure in figures if not figure.passed]:
        raise UsageError(
            f"The model in {model!r} does not pass the gates of a study: {'; '.join(map(str, failed))}. Make "
            "another with make_embedded_agent, or begin with the packaged one, 'embedded'."
        )
    return figures


def figures_of(model: Any, reader: Reader, school: School) -> list[Figure]:
    """What a school measures of a model; nothing where it measures nothing."""
    return list(school.figures(partial(beginnings, model, reader))) if school.figures else []


class Reader:
    """Texts to token ids, with a mask over the turns of the assistant that are learnt."""

    def __init__(self, tokenizer: Any, system_prompt: str) -> None:
        self.tokenizer = tokenizer
        self._chat = TokenizerChat(tokenizer)
        self._header = TurnTemplate(self._chat).header
        self._system_prompt = system_prompt

    def read(self, text: Text) -> tuple[list[int], list[int]]:
        """Ids and mask of one text that ends with the agent's turn."""
        *before, last = text.messages
        written = self._written(before, text.solution) + last.content + END_OF_TURN
        turns = between_marks(self._header, END_OF_TURN, "", written)
        ids, mask = list[int](), list[int]()
        for number, turn in enumerate(turns):
            given = self._chat.encode(turn.prompt)[len(ids) :]
            said = self._chat.encode(turn.text + turn.end)
            ids += given + said
            mask += [0] * len(given) + [int(number >= text.skipped)] * len(said)
        return ids, mask

    def prompt(self, text: Text) -> list[int]:
        """Ids of a text that ends before the agent's turn."""
        return self._chat.encode(self._written(text.messages, text.solution))

    def _written(self, messages: Sequence[Message], solution: str | None) -> str:
        written = self._chat.render(with_system(self._system_prompt, messages))
        return written if solution is None else with_solution(written, solution)


def padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows filled up with zeros on the right, and where they are none."""
    width = max(map(len, rows))
    return (
        torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]),
        torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows]),
    )


@torch.no_grad()
def beginnings(
    model: Any, reader: Reader, texts: Sequence[Text], sentences: Sequence[str], batch_size: int = 64
) -> list[list[float]]:
    """The log-probabilities (nats) that the agent's turn begins with each sentence's first token: an `Ask`."""
    chosen = first_tokens(reader.tokenizer, sentences)
    prompts = [reader.prompt(text) for text in texts]
    model.eval()
    logprobs: list[list[float]] = []
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        ids_bt, here_bt = padded(batch)
        logits_btv = model(input_ids=ids_bt, attention_mask=here_bt).logits
        last_bv = logits_btv[range(len(batch)), [len(ids) - 1 for ids in batch]]
        logprobs += last_bv.float().log_softmax(-1)[:, chosen].tolist()
    return logprobs


def first_tokens(tokenizer: Any, sentences: Sequence[str]) -> list[int]:
    """The id with which each sentence begins."""
    return [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in sentences]
