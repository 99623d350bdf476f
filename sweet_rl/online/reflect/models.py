"""Policy and reflection model from folders or the hub: weights, precision, adapters; their checkpoints.

Published behaviour: docs/published/reflect_rl.md#models, #deviations, #file-formats.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from sweet_rl import tracking
from sweet_rl.chat import load_tokenizer
from sweet_rl.errors import UsageError, first_line, missing_package
from sweet_rl.online.reflect.agent import Agent, PointingAgent, PointingHead, Sampling
from sweet_rl.online.reflect.settings import HEAD_FILE, ReflectSettings, checkpoint_folder, has_head
from sweet_rl.policies.weights import device_of, pretrained
from sweet_rl.training import checkpoints
from sweet_rl.training.models import add_adapter, bare_model, load_adapter, quantization
from sweet_rl.training.settings import ModelSettings
from sweet_rl.types import Json, derive_seed

Say = Callable[[str], None]
_STATE = "state"  # folder in a checkpoint
_MISTRAL = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj,lm_head"


def load_policy(
    settings: ReflectSettings, labels: Sequence[str], say: Say = print, *, trains: bool = True
) -> Agent:
    """The policy with its adapter: that of `load_dir`, or a fresh one where it is to be trained."""
    model, tokenizer = load_trained(settings, settings.model_name, settings.load_dir, say, trains=trains)
    sampling, more = Sampling.of(settings), _playing(settings, trains=trains)
    if not settings.pointing_head:
        return Agent(model, tokenizer, sampling, labels=labels if settings.shrink_head else None, **more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, "pointing head"))
        head = PointingHead(bare_model(model).config.get_text_config().hidden_size)
    if settings.load_dir is not None and has_head(settings.load_dir):
        path = checkpoint_folder(settings.load_dir) / HEAD_FILE
        try:
            head.load_state_dict(load_file(path))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise UsageError(
                f"The pointing head {str(path)!r} does not fit the model: {first_line(error)} "
                "Name the model that it was trained with by --model_name."
            ) from error
    before = settings.world.learning.head or ""
    return PointingAgent(model, tokenizer, sampling, head=head, action_head=before, **more)


def _playing(settings: ReflectSettings, *, trains: bool) -> dict[str, Any]:
    """How an agent computes; beside one that trains its dropout is active as published."""
    active = trains and settings.published and not settings.disable_dropout
    most = settings.max_tokens_per_batch
    return {"max_tokens_per_batch": most, "dropout": active, "keeps_writing": settings.published}


def load_reflector(settings: ReflectSettings, say: Say = print, *, training: bool = False) -> Agent | None:
    """The frozen reflection model; None where nothing is reflected on."""
    if not settings.reflect:
        return None
    name, sampling = settings.reflect_model_name, Sampling.of(settings, reflection=True)
    model, tokenizer = load_trained(settings, name, settings.reflect_load_dir, say, trains=False)
    with tracking.role("reflection"):
        return Agent(model, tokenizer, sampling, **_playing(settings, trains=training))


def load_trained(
    settings: ReflectSettings, name: str, checkpoint: str | None, say: Say, *, trains: bool
) -> tuple[Any, Any]:
    """A model in evaluation mode, with the checkpoint's adapter or, to be trained, a fresh one, and its tokenizer.

    The adapter of a model that is not trained any more is added to its weights: less to compute. A quantized one
    stays as it is: its weights could not hold the adapter exactly.
    """
    folder = None if checkpoint is None else checkpoint_folder(checkpoint)
    has_tokenizer = folder is not None and (folder / "tokenizer_config.json").is_file()
    tokenizer = load_tokenizer(str(folder) if has_tokenizer else name)
    device = device_of(settings.device)
    options: dict[str, Any] = {"dtype": torch.float32}
    if device.type != "cuda" and settings.use_4bit:
        raise UsageError("--use_4bit needs a CUDA device; leave it out to compute in float32.")
    if device.type != "cuda" and settings.use_8bit:
        say("Without a CUDA device models are loaded in float32, not in 8 bits (as with --no_use_8bit).")
    elif settings.use_8bit or settings.use_4bit:
        smaller = quantization(
            "--use_8bit (the default) or --use_4bit",
            load_in_8bit=settings.use_8bit and not settings.use_4bit,
            load_in_4bit=settings.use_4bit,
            bnb_4bit_use_double_quant=settings.use_nested_quant,
            bnb_4bit_compute_dtype=getattr(torch, settings.bnb_4bit_compute_dtype),
            bnb_4bit_quant_type=settings.bnb_4bit_quant_type,
        )
        options = {"quantization_config": smaller, "device_map": {"": device}}
    model, _ = pretrained(name, cache_dir=settings.cache_dir, **options)
    quantized = getattr(model, "is_quantized", False)
    for parent in list(model.modules()):
        for place, child in parent.named_children():
            # GPT-2's: transformers computes the same in eight steps, a tenth of an update on CPUs
            if type(child).__name__ == "NewGELUActivation":
                setattr(parent, place, nn.GELU(approximate="tanh"))
    if folder is not None:
        model = _with_trained_adapter(model, folder, settings, trains=trains)
    elif trains:
        model = _with_fresh_adapter(model, settings, name)
    if not quantized:
        model.to(device)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if settings.disable_dropout:  # whatever mode the model is in
        for module in (one for one in model.modules() if isinstance(one, nn.Dropout)):
            module.p = 0.0
    model.eval()
    if folder is not None and not trains and not settings.published and not quantized:
        model = model.merge_and_unload()
    return model, tokenizer


def _with_fresh_adapter(model: Any, settings: ReflectSettings, name: str) -> Any:
    """A new adapter; "auto" puts it into peft's own choice of modules for the kind of model."""
    names, kind = settings.target_modules, model.config.model_type
    if names == "auto" and ("mistral" in name.lower() or kind == "mistral"):
        names = _MISTRAL
    elif names == "auto":
        try:
            from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN
        except ImportError as error:
            raise missing_package("peft", "lora", needed_for="reflect") from error
        names = ",".join(KNOWN[kind]) if kind in KNOWN else "all-linear"
    adapter = ModelSettings(
        pretrain=name, lora_rank=settings.lora_r, lora_alpha=settings.lora_alpha, target_modules=names,
        lora_dropout=settings.lora_dropout,
    )  # fmt: skip
    return add_adapter(model, adapter, seed=derive_seed(settings.seed, "adapter"))


def _with_trained_adapter(model: Any, folder: Path, settings: ReflectSettings, *, trains: bool) -> Any:
    """The adapter of a checkpoint, in its own rank and scale; published: in those of the flags."""
    changes: dict[str, Any] = {"lora_dropout": 0.0 if settings.disable_dropout else settings.lora_dropout}
    if settings.published:
        changes |= {"lora_alpha": settings.lora_alpha, "r": settings.lora_r}
    flag = "--model_name (or --reflect_model_name)"
    return load_adapter(model, folder, flag=flag, trains=trains, **changes)


def save_agent(model: Any, tokenizer: Any, folder: Path) -> None:
    """Adapter and tokenizer as a folder that `load_dir` and peft load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a base model in a folder has no card on the hub
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Checkpoints:
    """The checkpoints in a run's folder: the published layout, and the state that exact resuming needs.

    A checkpoint has adapter and tokenizer, `critic/score.pt` and `pointing_head.safetensors` where there are such, the
    iterations since the one before (`logs.json`), how far the run is (`trainer_state.json`), what it was made from
    (`manifest.json`), and in the newest two what exact resuming needs (`state/`).

    Published behaviour: docs/published/reflect_rl.md#online-loop, #file-formats.
    """

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        self.folder, self._keep = folder, keep
        self.made_from: dict[str, Json] = {}  # Flags, models and data; a checkpoint of others is refused

    def save(
        self, done: int, agent: Agent, state: Any, *, summary: Mapping[str, Json],
        logs: Sequence[Json] | None = None, critic: nn.Module | None = None,
    ) -> None:  # fmt: skip
        """Write the checkpoint after `done` iterations or updates, at once or not at all."""
        with checkpoints.writing(self.folder, done, summary, self.made_from) as made:
            save_agent(agent.model, agent.tokenizer, made)
            if agent.head is not None:
                weights = {name: value.contiguous() for name, value in agent.head.state_dict().items()}
                save_file(weights, made / HEAD_FILE)
            if critic is not None:
                (made / "critic").mkdir()
                torch.save(critic.state_dict(), made / "critic" / "score.pt")
            if logs is not None:
                (made / "logs.json").write_text(json.dumps(list(logs)), encoding="utf-8")
            (made / _STATE).mkdir()
            checkpoints.save_state(made / _STATE, state)
        if self._keep is not None:
            checkpoints.rotate(self.folder, keep=self._keep, max_gb=float("inf"))
        for older in checkpoints.complete_checkpoints(self.folder)[:-2]:
            shutil.rmtree(older / _STATE, ignore_errors=True)

    def newest(self, say: Say = print) -> Any:
        """The state of the newest checkpoint that is whole; None where there is none at all."""
        whole = f"{self.folder}/checkpoint-N"
        instead = f"start a new run, from a checkpoint that is whole with --load_dir {whole}"
        found = checkpoints.resumable(self.folder, self.made_from, say, instead=instead)
        return None if found is None else checkpoints.load_state(found / _STATE)
