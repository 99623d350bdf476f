"""Dialogues as models read them: messages in, prompt strings or token ids with the agent's turns marked out.

Begin with `formats.py` (chat templates, plain transcripts), then `turns.py` (where each turn stands in the ids).
`reflect_format.py` is the format of Reflect-RL.
"""

from sweet_rl.chat.formats import (
    EMBEDDED,
    SMOLLM2,
    ChatFormat,
    InstructedChat,
    PlainChat,
    TokenizerChat,
    as_json,
    fold_system,
    load_tokenizer,
    model_path,
    tokenizer_digest,
    with_system,
)  # fmt: skip
from sweet_rl.chat.turns import Span, Turn, TurnTemplate, UnparsableError

__all__ = [
    "EMBEDDED", "SMOLLM2", "ChatFormat", "InstructedChat", "PlainChat", "Span", "TokenizerChat", "Turn",
    "TurnTemplate", "UnparsableError", "as_json", "fold_system", "load_tokenizer", "model_path", "tokenizer_digest",
    "with_system",
]  # fmt: skip
