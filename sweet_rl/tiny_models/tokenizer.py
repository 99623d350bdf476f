"""The embedded agent's tokenizer: byte-level BPE, Llama-3-style headers, a line of text at most a token.

Splitting at lines rather than at words lets a question, a reply or a line of code become one token. So a
dialogue is a few dozen tokens, and a question's log-probability is one number: cheap, and easy to look at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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


def train_tokenizer(corpus: Iterable[str], *, vocab_size: int = 1200) -> Any:
    """A tokenizer learnt from the texts of the mini worlds; other text falls into smaller pieces, or bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast  # seconds; only for those who train one

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
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
