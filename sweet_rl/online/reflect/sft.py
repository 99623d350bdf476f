"""Supervised fine-tuning of the policy or the reflection model on the text after the marker; texts as tokens.

An update minimises the mean negative log-likelihood over all target tokens of its rows; published, the mean
over micro-batches of their means. Processes divide an update's rows and add up gradients.

Published behaviour: docs/published/reflect_rl.md#supervised-fine-tuning, #deviations, #flags.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, resolve_label
from sweet_rl.cli.stage import written_by
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.online.reflect.agent import Agent, Example, PointingAgent
from sweet_rl.online.reflect.models import Checkpoints
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.online.reflect.trainer import Training
from sweet_rl.records import read_rows
from sweet_rl.training.models import bare_model, recompute_activations
from sweet_rl.training.processes import is_main, own_rows
from sweet_rl.training.settings import ModelSettings
from sweet_rl.training.steps import rate_factor
from sweet_rl.types import derive_seed
from sweet_rl.worlds import stages

_OPTIMIZERS = {
    "adamw_torch": "", "adamw_hf": "", "paged_adamw_32bit": "PagedAdamW32bit", "paged_adamw_8bit": "PagedAdamW8bit",
    "adamw_bnb_8bit": "AdamW8bit",
}  # fmt: skip  # in torch, or in bitsandbytes


class FineTuning(Training):
    """A run: its model, its texts, its folder."""

    def __init__(
        self, agent: Agent, examples: Sequence[Example], settings: ReflectSettings, checkpoints: Checkpoints | None,
        tell: Callable[[int, Mapping[str, float]], object] = lambda *_: None, say: Callable[[str], object] = print,
    ) -> None:  # fmt: skip
        super().__init__(agent, settings, optimizer_of(agent, settings, say), "the model")
        self._examples, self._tell, self._checkpoints = examples, tell, checkpoints
        name = settings.lr_scheduler_type
        renamed = {"constant_with_warmup": "constant", "cosine": "cosine_with_floor"}
        warm_up = 0.0 if name == "constant" else settings.warmup_ratio  # as published
        how: Any = {"steps": settings.max_steps, "warmup_ratio": warm_up, "published": settings.published}
        self._factor = rate_factor(renamed.get(name, name), **how)
        self._log: list[dict[str, float]] = []
        batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
        lengths = [len(example.sequence) for example in examples]
        self._order = Order(lengths, batch=batch, seed=settings.seed, by_length=settings.group_by_length)
        if settings.gradient_checkpointing:
            adapted = ModelSettings(pretrain=settings.model_name, lora_rank=1)
            recompute_activations(bare_model(agent.model), adapted)

    def run(self, done: int = 0) -> None:
        """Make the updates from `done` on."""
        with _training(self.agent.model):
            for update in range(done, self._settings.max_steps):
                rate = self._settings.learning_rate * self._factor(update)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                numbers = {"step": update + 1, "loss": self._update(update), "learning_rate": rate}
                self._tell(update + 1, numbers)
                if (update + 1) % self._settings.logging_steps == 0:
                    self._log.append(numbers)
                due = update + 1 == self._settings.max_steps or (update + 1) % self._settings.save_steps == 0
                if due and is_main() and self._checkpoints is not None:
                    state = {"done": update + 1, **self.state(), "log": self._log}
                    summary = {"global_step": update + 1, "log_history": self._log}
                    self._checkpoints.save(update + 1, self.agent, state, summary=summary)

    def _update(self, update: int) -> float:
        rows = self._order.rows(update)
        mine, scales = own_rows(len(rows)), self._scales(rows)
        scales_S = torch.tensor([scales[at] for at in mine], device=self.agent.device)
        texts = f"the texts {', '.join(str(row + 1) for row in rows)} of {self._settings.task_file}"
        examples = [self._examples[rows[at]] for at in mine]

        def loss_of(logps_S: Tensor, _: Tensor, at: Tensor) -> Tensor:
            return -(logps_S * scales_S[at]).sum()

        return self._step(examples, loss_of, update + 1, lambda _: texts, seeded=update)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        settings = self._settings
        half = (settings.bf16 or settings.fp16) and self.agent.device.type == "cuda"  # weights: float32
        precision = torch.float16 if settings.fp16 else torch.bfloat16
        with _training(self.agent.model), torch.autocast("cuda", dtype=precision, enabled=half):
            yield

    def _scales(self, rows: Sequence[int]) -> list[float]:
        """What each row's summed log-likelihood counts for."""
        tokens = [len(self._examples[row].target_ids) for row in rows]
        if not self._settings.published:
            return [1 / sum(tokens)] * len(rows)
        size = self._settings.per_device_train_batch_size
        micro = [sum(tokens[at : at + size]) for at in range(0, len(rows), size)]
        return [1 / (micro[place // size] * len(micro)) for place in range(len(rows))]

    def load(self, state: Any) -> None:
        super().load(state)
        self._log = list(state["log"])


def optimizer_of(
    agent: Agent, settings: ReflectSettings, say: Callable[[str], object]
) -> torch.optim.Optimizer:
    """AdamW, kept in the memory that its name gives where that is possible."""
    name, parameters = settings.optim, agent.trainable()
    if name not in _OPTIMIZERS:
        raise UsageError(f"--optim must be one of {', '.join(_OPTIMIZERS)}, got {name!r}.")
    options: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if _OPTIMIZERS[name] and agent.device.type == "cuda":
        try:
            from bitsandbytes import optim  # type: ignore[import-not-found]
        except ImportError as error:
            raise missing_package("bitsandbytes", "quantization", needed_for=f"--optim {name}") from error
        return getattr(optim, _OPTIMIZERS[name])(parameters, **options)  # type: ignore[no-any-return]
    if _OPTIMIZERS[name]:
        say(f"Without a CUDA device --optim {name} is plain AdamW.")
    return torch.optim.AdamW(parameters, **options)


@contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    """Dropout of model and adapter is active, as published for fine-tuning."""
    if model.training:  # telling every layer takes a tenth of a small model's update
        yield
        return
    model.train()
    try:
        yield
    finally:
        model.eval()


def read_texts(path: str | Path) -> list[str]:
    """The texts of a .jsonl file of `{"text": ...}`."""
    path = Path(path).expanduser()
    if not path.is_file() or path.suffix == ".json":
        what = "holds records, not texts" if path.is_file() else "is no file"
        hint = written_by(path, stages()) if path.suffix == ".jsonl" else ""
        raise UsageError(f"--task_file {str(path)!r} {what}.{hint} Name a .jsonl file of training texts.")
    texts = []
    for line, row in read_rows(path):
        if not isinstance(text := row.get("text"), str):
            raise DataError("must be a string", path=path, line=line, field="text", value=text)
        texts.append(text)
    if not texts:
        raise UsageError(f"--task_file {str(path)!r} holds no texts.")
    return texts


def check_kind(texts: Sequence[str], path: str | Path, *, reflect: bool) -> None:
    """Refuse texts of the other model: nothing would be learnt from them, or the wrong thing."""
    for line, text in enumerate(texts, 1):
        action, analysis = text.rfind(ACTION_MARKER), text.rfind(ANALYSE_MARKER)
        where: dict[str, Any] = {"path": path, "line": line, "field": "text", "value": text[-60:]}
        if reflect and (analysis < 0 or action > analysis):
            repair = "Leave --reflect out, or name a file such as sft_reflection.jsonl."
            raise DataError(
                "is no text of a reflection model: it does not end in a reflection", **where, repair=repair
            )
        if not reflect and action < 0:
            ends = "ends in a reflection" if analysis >= 0 else "has no action marker"
            repair = "Add --reflect to train the reflection model on it."
            raise DataError(f"is no text of a policy: it {ends}", **where, repair=repair)


def encode(tokenizer: Any, text: str, *, reflect: bool, room: int) -> Example:
    """A text as tokens; the part after its last marker is the target.

    The target's tokens are those that a model writes behind the prompt; the end of a reflection is one of them, or
    it would never end (published). A text with more than `room` tokens loses its beginning.
    """
    marker = ANALYSE_MARKER if reflect else ACTION_MARKER
    at = text.rfind(marker)
    prompt, target = text[: at + len(marker)], text[at + len(marker) :]
    if at < 0 or not target:
        raise ValueError("there is no marker, or no text after it")
    prompt_ids = list(tokenizer(prompt)["input_ids"])
    while len(prompt_ids) > 1 and prompt_ids[-1] == tokenizer.eos_token_id:
        prompt_ids.pop()  # a tokenizer that ends every text
    bare = tokenizer(marker, add_special_tokens=False)["input_ids"]
    both = tokenizer(marker + target, add_special_tokens=False)["input_ids"]
    alike = both[: len(bare)] == bare
    target_ids = both[len(bare) :] if alike else tokenizer(target, add_special_tokens=False)["input_ids"]
    if reflect and tokenizer.eos_token_id is not None:
        target_ids = [*target_ids, tokenizer.eos_token_id]
    kept = max(1, room - len(target_ids))
    return Example(tuple(prompt_ids[-kept:]), tuple(target_ids[: room - 1]))


def encode_published(tokenizer: Any, text: str, *, reflect: bool, room: int) -> Example | None:
    """The same as published: the whole text as tokens, searched for the marker's; None where it has none."""
    marker = tokenizer(ANALYSE_MARKER if reflect else ACTION_MARKER, add_special_tokens=False)["input_ids"]
    ids = list(tokenizer(text)["input_ids"])[-room:]
    starts = [at for at in range(len(ids)) if ids[at : at + len(marker)] == marker]
    if not starts or starts[-1] + len(marker) >= len(ids):
        return None
    cut = starts[-1] + len(marker)
    return Example(tuple(ids[:cut]), tuple(ids[cut:]))


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


def examples_of(
    texts: Sequence[str], agent: Agent, settings: ReflectSettings, say: Callable[[str], object]
) -> list[Example]:
    """The texts of `task_file` as examples; a published run passes over those without a marker."""
    path = str(settings.task_file)
    if isinstance(agent, PointingAgent):
        return pointed(agent, texts, path, settings.max_seq_length)
    positions = getattr(agent.config, "max_position_embeddings", None)
    how: Any = {
        "reflect": settings.reflect,
        "room": min(settings.max_seq_length, positions or settings.max_seq_length),
    }
    if not settings.published:
        try:
            return [encode(agent.tokenizer, text, **how) for text in texts]
        except ValueError as error:
            raise UsageError(f"--task_file {path!r}: in a text {error}.") from error
    found = [encode_published(agent.tokenizer, text, **how) for text in texts]
    kept = [example for example in found if example is not None]
    if len(kept) < len(found):
        say(f"{len(found) - len(kept)} of {len(found)} texts have no marker; nothing is learnt from them.")
    if not kept:
        raise UsageError(f"--task_file {path!r}: no text has the marker (is --reflect missing?).")
    return kept


class Order:
    """The rows of each update: every pass over them is shuffled again."""

    def __init__(self, lengths: Sequence[int], *, batch: int, seed: int, by_length: bool = False) -> None:
        self._lengths, self._batch, self._seed, self._by_length = lengths, batch, seed, by_length
        self._known: tuple[int, list[int]] = (-1, [])

    def rows(self, update: int) -> list[int]:
        """Numbers of the update's rows; the same whenever it is asked."""
        count, first = len(self._lengths), update * self._batch
        return [self._pass(at // count)[at % count] for at in range(first, first + self._batch)]

    def _pass(self, number: int) -> list[int]:
        if self._known[0] != number:
            order = list(range(len(self._lengths)))
            random.Random(derive_seed(self._seed, "texts", number)).shuffle(order)
            if self._by_length:
                chunks = [order[at : at + 50 * self._batch] for at in range(0, len(order), 50 * self._batch)]
                longest = [sorted(chunk, key=lambda row: -self._lengths[row]) for chunk in chunks]
                order = [row for chunk in longest for row in chunk]
            self._known = (number, order)
        return self._known[1]
