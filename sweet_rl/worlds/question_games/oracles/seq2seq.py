"""An oracle that is an encoder-decoder in this process: flan-t5-small with fine-tuned weights, as published.

Importing this module is cheap, making an oracle loads torch.

Published behaviour: docs/published/archer.md.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import load_tokenizer
from sweet_rl.errors import ServiceError, UsageError, missing_package
from sweet_rl.types import UserContext, UserReply
from sweet_rl.worlds.question_games.asking import Asking

MAX_PROMPT_TOKENS: Final = 512
"""What T5 was trained to read; a longer prompt loses its end."""

WEIGHTS_KEY: Final = "model_state_dict"
"""Where the published file keeps the weights."""


class Seq2SeqOracle:
    """Answers greedily with the published prompt; calls that wait together become one batch.

    Args:
        weights: a torch file with the key `model_state_dict`, put over the model's own. It is read as data:
            a file that would run code is refused.
    """

    def __init__(
        self,
        asking: Asking,
        model: str | Path,
        *,
        weights: str | Path | None = None,
        max_new_tokens: int | None = None,
        max_batch: int = 64,
        device: str = "auto",
    ) -> None:
        self.name = str(weights or model)
        self._asking = asking
        self._max_new_tokens = max_new_tokens or self._asking.max_new_tokens
        self._tokenizer = load_tokenizer(model)
        self._model = _load_model(model)
        if weights is not None:
            _put_weights(self._model, Path(weights).expanduser())
        self._model = _placed(self._model, device)
        self._usage = tracking.meter(self.name, "user")
        self._batcher = MicroBatcher(self._engine, max_batch=max_batch)

    async def reply(self, context: UserContext) -> UserReply:
        """The model's answer to the question asked last."""
        return UserReply(await self._batcher.submit(self._asking.published(context)))

    async def close(self) -> None:
        """Stop after the batch at hand; requests that still wait fail."""
        await self._batcher.close()

    def _engine(self, prompts: Sequence[str]) -> Generator[list[tuple[int, str]], None, None]:
        """In the batcher's thread: all answers of a batch."""
        import torch

        self._usage.requests += len(prompts)
        batch = self._tokenizer(
            list(prompts), padding=True, truncation=True, max_length=MAX_PROMPT_TOKENS, return_tensors="pt"
        ).to(self._model.device)
        try:
            with torch.inference_mode():
                written = self._model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=self._max_new_tokens,
                    do_sample=False,
                    num_beams=1,
                )
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with {len(prompts)} questions in one batch of the oracle. Ask fewer at "
                "once, or put the oracle on the CPU."
            ) from error
        padding = self._tokenizer.pad_token_id
        for read, wrote in zip(batch["attention_mask"].sum(dim=1).tolist(), written.tolist(), strict=True):
            self._usage.add(read, sum(token != padding for token in wrote))
        yield list(enumerate(self._tokenizer.batch_decode(written, skip_special_tokens=True)))


def _load_model(model: str | Path) -> Any:
    try:
        from transformers import AutoModelForSeq2SeqLM
    except ImportError as error:
        raise missing_package("transformers", "transformers", needed_for="an oracle in process") from error
    try:
        return AutoModelForSeq2SeqLM.from_pretrained(str(model)).eval()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"No encoder-decoder could be loaded from {str(model)!r}: {str(error).splitlines()[0]} Name a "
            "folder with such a model, or one that is in the local cache or on the hub."
        ) from error


def _placed(model: Any, device: str) -> Any:
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"The oracle cannot be put on the device {device!r}: {error}") from error


def _put_weights(model: Any, path: Path) -> None:
    """Replace the model's weights by those of a file."""
    import torch

    if not path.is_file():
        raise UsageError(f"There are no oracle weights at {str(path)!r} (looked from {str(Path.cwd())!r}).")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as plain weights: {str(error).splitlines()[0]} Save it again "
            f"with torch.save({{{WEIGHTS_KEY!r}: model.state_dict()}}, path)."
        ) from error
    state = saved.get(WEIGHTS_KEY) if isinstance(saved, dict) else None
    if not isinstance(state, dict):
        keys = ", ".join(map(repr, list(saved)[:5])) if isinstance(saved, dict) else type(saved).__name__
        raise UsageError(f"{str(path)!r} has no {WEIGHTS_KEY!r}; it holds {keys}.")
    state = {str(key).removeprefix("module."): value for key, value in state.items()}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:300]
        raise UsageError(
            f"The weights of {str(path)!r} are not those of this model: {first} Name the model that they "
            "were trained from."
        ) from error
