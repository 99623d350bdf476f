"""Dialogues as models read them: prompt strings (`formats`), and where turns stand in token ids (`turns`)."""

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
)
from sweet_rl.chat.turns import Span, Turn, TurnTemplate, UnparsableError

__all__ = [
    "EMBEDDED",
    "SMOLLM2",
    "ChatFormat",
    "InstructedChat",
    "PlainChat",
    "Span",
    "TokenizerChat",
    "Turn",
]
__all__ += ["TurnTemplate", "UnparsableError", "as_json", "fold_system", "load_tokenizer", "model_path"]
__all__ += ["tokenizer_digest", "with_system"]
