"""Models of a folder or of the hub, loaded with clear errors, on a device; have they changed? Imports torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils.logging import disable_progress_bar, get_verbosity, set_verbosity, set_verbosity_error

from sweet_rl.chat import model_path
from sweet_rl.chat.formats import tell_of_search
from sweet_rl.errors import UsageError, first_line


def causal_kind(config: Any) -> Any:
    """The class that loads models with this configuration, whatever a folder's name."""
    text_only = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    return AutoModelForCausalLM if text_only else AutoModelForImageTextToText


def pretrained(
    name: str,
    kind_of: Callable[[Any], Any] = causal_kind,
    *,
    flag: str = "",
    cache_dir: str | None = None,
    **options: Any,
) -> tuple[Any, Collection[str]]:
    """A model in evaluation mode, and the names of weights that its checkpoint lacks."""
    # On an H100 torch >= 2.11 lets cuDNN attend by default. Under a mask its backward pass makes NaN where a
    # length is 64 above a multiple of 128 and scores are below -88 (pytorch issue 196678); others do not.
    torch.backends.cuda.enable_cudnn_sdp(False)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    loud = get_verbosity()
    set_verbosity_error()  # type: ignore[no-untyped-call]  # a new head is what was asked for
    path = model_path(name)
    what = "causal language model" if kind_of is causal_kind else "model"
    what = f"{flag}: no {what}" if flag else f"No {what}"
    tell_of_search(name, what)
    try:
        kind = kind_of(AutoConfig.from_pretrained(path, cache_dir=cache_dir))
        model, info = kind.from_pretrained(path, cache_dir=cache_dir, output_loading_info=True, **options)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{what} could be loaded from {name!r}: {first_line(error)} "
            "Name a folder with config.json and weights, or a model that is in the local cache or on the hub."
        ) from error
    finally:
        set_verbosity(loud)
    model.train(mode=False)
    return model, info["missing_keys"]


def device_of(name: str, flag: str = "--device") -> torch.device:
    """The device that is meant; auto: this process's GPU if there is one."""
    if name == "auto":
        ours = os.environ.get("LOCAL_RANK", "0")
        return torch.device(f"cuda:{ours}" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"{flag} must be auto, cpu, cuda, cuda:1, ..., got {name!r}.") from error


def loaded_on(
    name: str,
    kind_of: Callable[[Any], Any] = causal_kind,
    *,
    device: str = "auto",
    dtype: str = "auto",
    flag: str = "",
) -> Any:
    """A model in evaluation mode on a device."""
    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UsageError(f"--dtype must be auto, float32, bfloat16 or float16, got {dtype!r}.")
    model, _ = pretrained(name, kind_of, dtype=dtype, flag=flag)
    try:
        return model.to(device_of(device))
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"The model cannot be put on the device {device!r}: {error}") from error


def context_length(model: Any) -> int | None:
    """Positions that a model was made for; None where its configuration has no limit."""
    length: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return length


class WeightsState:
    """Tells whether what a model computes may have changed since it was last asked."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._seen = self._now()

    def changed(self) -> bool:
        """Whether weights were replaced or written to, an optimizer made a step, or adapters changed."""
        now = self._now()
        changed, self._seen = now != self._seen, now
        return changed

    def _now(self) -> tuple[object, ...]:
        weights = [  # what inference mode writes does not count, and is not trained
            (one.data_ptr(), 0 if one.is_inference() else one._version) for one in self._model.parameters()
        ]
        adapters = []
        for one in self._model.modules():
            if hasattr(one, "merged_adapters"):
                state = (tuple(one.active_adapters), one.disable_adapters, tuple(one.merged_adapters))
                adapters.append((*state, tuple(getattr(one, "scaling", {}).items())))
        return _steps[0], weights, adapters


_steps = [0]
"""Of all optimizers of this process: fused ones write to weights without being counted by them."""


def _count_step(*_: object) -> None:
    _steps[0] += 1


register_optimizer_step_post_hook(_count_step)
