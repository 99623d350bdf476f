"""The initial weights of a run: `checkpoint_path` as found on disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.training.checkpoints import TENSORS

POLICY, CRITIC, FINAL = "policy", "critic", "final"
"""Folders of `run_bc` (the first two) and of `run_archer`, which `checkpoint_path` may name as a whole."""

_WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)


class Beginning(NamedTuple):
    """One of the first three: a whole model, an adapter, or weights of `policy_lm`; a critic beside it."""

    model: Path | None = None
    adapter: Path | None = None
    weights: Path | None = None
    critic: Path | None = None


def find_beginning(path: str) -> Beginning:
    """What there is at `checkpoint_path`.

    A folder that transformers loads, one of `run_bc` (its `policy/` and `critic/`), one of `run_archer` that
    has ended (its `final/`), one of its checkpoints, an adapter's, or a file of weights.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return Beginning(weights=place)
    if not place.is_dir():
        raise UsageError(f"checkpoint_path={path!r}: there is no such file or folder. {_MAY_BE}")
    if (place / "config.json").is_file():
        if any((place / name).is_file() for name in _WEIGHTS):
            return Beginning(model=place)
        raise UsageError(f"checkpoint_path={path!r} has a config.json, but no weights ({_WEIGHTS[0]}).")
    if (place / "adapter_config.json").is_file():
        return Beginning(adapter=place)
    if (place / TENSORS).is_file():
        return Beginning(weights=place)
    for name in (POLICY, FINAL):
        if (place / name).is_dir():
            critic = place / CRITIC
            found = find_beginning(str(place / name))
            return found._replace(critic=critic) if (critic / "config.json").is_file() else found
    if any(place.glob("checkpoint-*")):
        raise UsageError(
            f"checkpoint_path={path!r} is a run that has not ended: name one of its checkpoint-N folders, or "
            "let it end, which makes its final/."
        )
    held = sorted(entry.name for entry in place.iterdir())[:5]
    raise UsageError(
        f"checkpoint_path={path!r} holds {', '.join(map(repr, held)) or 'nothing'}, and no model. {_MAY_BE}"
    )


_MAY_BE = (
    "It may be a folder of run_bc, a model folder (config.json and weights), an adapter's, the folder of a "
    "run_archer that has ended or one of its checkpoint-N, or a file: .safetensors, or .pt with "
    "model_state_dict. `sweet-rl run_bc --output_dir FOLDER` makes one from nothing."
)
