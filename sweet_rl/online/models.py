"""Learners, their policies and critics from folders or the hub, on the device and in the precision of the settings.

Published behaviour: docs/published/archer.md#policy, #configuration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from sweet_rl.chat import ChatFormat, load_tokenizer
from sweet_rl.errors import UsageError, first_line
from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.learner import LEARNERS, ArcherLearner, ChaiLearner, Say
from sweet_rl.online.policy import TokenPolicy
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.policies.weights import device_of, pretrained
from sweet_rl.training import models
from sweet_rl.training.checkpoints import TENSORS, load_state
from sweet_rl.training.models import add_adapter
from sweet_rl.training.processes import check_sharding, from_main, is_main, shard, world_size
from sweet_rl.training.settings import ModelSettings
from sweet_rl.types import derive_seed

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
# Folders of `run_bc` (the first two) and of `run_archer`, which `checkpoint_path` may name as a whole.
POLICY, CRITIC, FINAL = "policy", "critic", "final"
_MAY_BE = (
    "It may be a folder of run_bc, a model folder (config.json and weights), an adapter's, the folder of a "
    "run_archer that has ended or one of its checkpoint-N, or a .pt file with model_state_dict. "
    "`sweet-rl run_bc --output_dir FOLDER` trains one from scratch."
)


def dtype_of(settings: ArcherSettings, device: torch.device) -> torch.dtype:
    """The precision of computing: bfloat16 for "auto" on a GPU that has it, else float32."""
    if settings.dtype == "auto":
        half = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if half else torch.float32
    return getattr(torch, settings.dtype)  # type: ignore[no-any-return]


def make_learner(settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None) -> Any:
    """The learner that the settings name, with its models loaded."""
    if settings.shard_with is not None:
        check_sharding()
    kind, device = LEARNERS[settings.agent_type], device_of(settings.device, "device")
    judged = kind in {ArcherLearner, ChaiLearner}
    policy: Any
    if settings.compat == "published":
        if world_size() > 1:
            raise UsageError(
                "compat=published computes in one process only: its gradients depend on their number. Start "
                "one, or take compat=fixed."
            )
        from sweet_rl.online.published import PublishedLearner, PublishedPolicy  # a rare choice

        kind, policy = PublishedLearner, PublishedPolicy(*load_bare(settings, device), settings)
    else:
        policy = load_actor(settings, device)
    critic = load_archer_critic(settings, device) if judged else None
    return kind(settings, policy, critic, chat_format, say)


def load_archer_critic(settings: ArcherSettings, device: torch.device) -> DoubleCritic:
    """A critic with float32 weights on the encoder of a folder or hub name; heads are drawn from the seed.

    A causal model's folder serves, too: its encoder is the model without its head.
    """
    from transformers import AutoModel

    options: dict[str, Any] = {"flag": "critic_lm", "cache_dir": settings.cache_dir, "dtype": torch.float32}
    base, _ = pretrained(settings.critic_lm, lambda _: AutoModel, **options)
    tokenizer, dtype = load_tokenizer(settings.critic_lm), dtype_of(settings, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, "critic"))
        critic = DoubleCritic(base, tokenizer, max_length=settings.max_context, double=settings.double_critic)
    critic.to(device, torch.float64 if dtype == torch.float64 else torch.float32)
    critic.encoder.half = dtype == torch.bfloat16
    return critic


def load_actor(settings: ArcherSettings, device: torch.device) -> TokenPolicy:
    """The policy, with its adapter if one is trained."""
    return actor_of(*load_bare(settings, device), settings)


def load_bare(settings: ArcherSettings, device: torch.device) -> tuple[Any, Any]:
    """The policy's model, adapter in place, and its tokenizer; sharded over processes if settings say so."""
    dtype = dtype_of(settings, device)
    frozen = settings.use_lora or settings.agent_type == "chai"
    weights = dtype if frozen or dtype != torch.bfloat16 else torch.float32
    tokenizer = load_tokenizer(settings.policy_lm)
    half = dtype if weights != dtype else None
    if settings.shard_with is not None:
        model = _in_first(settings, weights)
        shard(model, device, half)
        return model, tokenizer
    model = _whole(settings, weights).to(device)
    if half == torch.bfloat16:  # every forward pass computes in it while the weights stay float32
        model.forward = torch.autocast(next(model.parameters()).device.type, dtype=half)(model.forward)
    return model, tokenizer


def _whole(settings: ArcherSettings, weights: torch.dtype) -> Any:
    """The policy's model on the CPU."""
    model, missing = pretrained(
        settings.policy_lm, flag="policy_lm", cache_dir=settings.cache_dir, dtype=weights
    )
    if missing:
        raise UsageError(
            f"policy_lm: {settings.policy_lm!r} has no weights for {len(missing)} parts of a causal language "
            f"model, such as {min(missing)!r}: it is an encoder, or not whole. Name another one."
        )
    if settings.checkpoint_path is not None:
        load_weights(model, settings.checkpoint_path)
    return with_adapter(model, settings) if settings.use_lora else model


def _in_first(settings: ArcherSettings, weights: torch.dtype) -> Any:
    """The policy's model, loaded by the first process only; elsewhere its shape, without memory."""
    loaded: list[Any] = []

    def load() -> tuple[type, Any, Any, dict[str, torch.dtype]]:
        loaded.append(model := _whole(settings, weights))
        dtypes = {name: parameter.dtype for name, parameter in model.named_parameters()}
        return type(model), model.config, getattr(model, "generation_config", None), dtypes

    kind, config, generation, dtypes = from_main(load)
    if is_main():
        return loaded[0]
    with torch.device("meta"):
        model: Any = kind(config)
        model = with_adapter(model, settings) if settings.use_lora else model
    for name, parameter in model.named_parameters():
        parameter.data = parameter.data.to(dtypes[name])
    model.to_empty(device="cpu")
    model.tie_weights()
    model.generation_config = generation
    return model


def actor_of(model: Any, tokenizer: Any, settings: ArcherSettings) -> TokenPolicy:
    """A policy of a model that is at hand."""
    if settings.gradient_checkpointing:
        models.recompute_activations(model, ModelSettings(pretrain=settings.policy_lm))
    return TokenPolicy(model, tokenizer, settings)


def with_adapter(model: Any, settings: ArcherSettings) -> Any:
    """The bare model with a LoRA adapter in its layers; all else is frozen."""
    names = settings.target_modules
    if names == "auto":
        found = {name.rpartition(".")[2] for name, _ in model.named_modules()}
        names = ",".join(_PROJECTIONS) if found.issuperset(_PROJECTIONS) else "all-linear"
    shape = {name: getattr(settings, name) for name in ("lora_rank", "lora_alpha", "lora_dropout")}
    adapter = ModelSettings(pretrain=settings.policy_lm, target_modules=names, **shape)
    wrapped = add_adapter(model, adapter, seed=derive_seed(settings.seed, "adapter"))
    bare = wrapped.get_base_model()
    object.__setattr__(bare, "adapter_of_policy", wrapped)  # not a submodule: it contains this one
    return bare


def load_weights(model: nn.Module, path: str) -> None:
    """Put weights into the model: the published `.pt`, or a run's checkpoint."""
    try:
        folder = Path(path).is_dir()
        weights: Any = load_state(Path(path)) if folder else torch.load(path, "cpu", weights_only=True)
    except Exception as error:
        raise UsageError(
            f"checkpoint_path={path!r} cannot be read: {first_line(error)} Name a .pt file that holds tensors only."
        ) from error
    try:
        missing, unexpected = model.load_state_dict(weights.get("model_state_dict", weights), strict=False)
    except RuntimeError as error:  # the names fit, the sizes do not
        missing, unexpected = [], [str(error).splitlines()[1].strip()]
    tied = {"lm_head.weight"} if getattr(model.config, "tie_word_embeddings", False) else set()
    if set(missing) - tied or unexpected:
        raise UsageError(
            f"checkpoint_path={path!r} holds weights of another model than policy_lm: {len(missing)} are missing, "
            f"{len(unexpected)} do not belong to it (such as {[*unexpected, *missing][0]!r})."
        )


def find_init_weights(path: str) -> dict[str, Path]:
    """What there is at `checkpoint_path`: a whole `model`, an `adapter`, or `weights`; a `critic` beside it."""
    place = Path(path).expanduser()
    if place.is_file():
        return {"weights": place}
    if (place / "config.json").is_file():
        return {"model": place}
    if (place / "adapter_config.json").is_file():
        return {"adapter": place}
    if (place / TENSORS).is_file():
        return {"weights": place}
    for name in (POLICY, FINAL):
        if (place / name).is_dir():
            critic = {"critic": place / CRITIC} if (place / CRITIC / "config.json").is_file() else {}
            return find_init_weights(str(place / name)) | critic
    if any(place.glob("checkpoint-*")):
        raise UsageError(
            f"checkpoint_path={path!r} is a run that has not ended: name one of its checkpoint-N folders, or "
            "let it end, which makes its final/."
        )
    raise UsageError(f"checkpoint_path={path!r} holds no policy. {_MAY_BE}")
