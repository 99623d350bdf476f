"""A tokenizer whose tokens are whole words: what a model wrote reads back as the same tokens."""

from __future__ import annotations

from typing import Any

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %} <{{ m['role'] }}> {{ m['content'] }} <end>{% endfor %}"
    "{% if add_generation_prompt %} <assistant>{% endif %}"
)
SPECIAL = ["<begin>", "<end>", "<system>", "<user>", "<assistant>", "<unknown>"]


def tokenizer_of_words(vocabulary: int) -> Any:
    """The special tokens and the words w0, w1, ... with a chat template; `<end>` has the id 1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *(f"w{number}" for number in range(vocabulary - len(SPECIAL)))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Sequence([])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<begin>", eos_token="<end>", unk_token="<unknown>"
    )
    fast.chat_template = TEMPLATE
    return fast
