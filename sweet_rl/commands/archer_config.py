"""Configurations of online runs: composed by Hydra, checked against the file that names every setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.errors import UsageError, missing_package, suggestion
from sweet_rl.types import Json

CONFIGS = Path(sweet_rl.__file__).parent / "configs" / "archer"
"""The packaged configurations; `configs/archer` of the repository."""

DEFAULTS = "default"
_SECRETS = {"huggingface_token": "HF_TOKEN", "wandb_key": "WANDB_API_KEY"}
_MISSING = "???"
_PACKAGED = [f"hydra.searchpath=[file://{CONFIGS}]"]
"""So that a file elsewhere can build on the packaged ones."""


def load_config(name: str, overrides: Sequence[str], folder: str | None = None) -> dict[str, Json]:
    """The settings of a run as plain data.

    Args:
        name: a file in `folder`, without its ending.
        overrides: `key=value`, in Hydra's grammar.
        folder: default `CONFIGS`.

    Raises:
        UsageError: no such file, an unknown or missing setting, a value of the wrong kind, a secret.
    """
    config = _compose(name, overrides, folder)
    defaults = _compose(DEFAULTS, (), None)
    for key, variable in _SECRETS.items():
        if config.pop(key, ""):
            raise UsageError(f"{key}: secrets are taken from the environment only. Set {variable} instead.")
    for key, value in config.items():
        if key not in defaults:
            raise UsageError(f"{key}: there is no such setting{suggestion(key, defaults)}.")
        if value == _MISSING:
            raise UsageError(f"{key}=... is needed: {name!r} does not set it.")
        _check_kind(key, value, defaults[key])
    return config


def described(config: dict[str, Json]) -> str:
    """Every setting with its value and what default.yaml says of it, by section."""
    lines = []
    for line in (CONFIGS / f"{DEFAULTS}.yaml").read_text(encoding="utf-8").splitlines():
        key, colon, rest = line.partition(":")
        if line.startswith("# --"):
            lines += ["", line.strip("# -")]
        elif colon and key in config:
            lines.append(f"  {key}={config[key]!r}\n        {rest.partition('# ')[2]}")
    return "\n".join(lines).strip("\n")


def _compose(name: str, overrides: Sequence[str], folder: str | None) -> dict[str, Json]:
    try:
        from hydra import compose, initialize_config_dir
        from hydra.errors import ConfigCompositionException, MissingConfigException
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
    except ImportError as error:
        raise missing_package("hydra-core", "archer", needed_for="run_archer") from error
    where = Path(folder).expanduser().resolve() if folder else CONFIGS
    known = sorted(path.stem for path in where.glob("*.yaml"))
    if name not in known:
        raise UsageError(
            f"There is no configuration {name!r} in {str(where)!r}{suggestion(name, known)}. "
            f"There are {', '.join(known) or 'none'}."
        )
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals:
            raise UsageError(f"{override!r}: settings are written key=value, as in lm_lr=1e-5.")
        if key.startswith(("+", "~")):
            raise UsageError(f"{override!r}: settings can be changed, neither added nor removed.")
    try:
        with initialize_config_dir(str(where), version_base="1.3"):
            composed = compose(name, overrides=[*_PACKAGED, *overrides])
        config: Any = OmegaConf.to_container(composed, resolve=True)
    except (ConfigCompositionException, MissingConfigException, OmegaConfBaseException) as error:
        raise _composition_error(error, overrides, where) from error
    return {str(key): value for key, value in config.items()}


def _composition_error(error: Exception, overrides: Sequence[str], where: Path) -> UsageError:
    """Hydra's complaint, with the setting that was probably meant."""
    defaults = {} if where != CONFIGS else _compose(DEFAULTS, (), None)
    for override in overrides:
        key = override.partition("=")[0]
        if defaults and key not in defaults:
            return UsageError(f"{key}: there is no such setting{suggestion(key, defaults)}.")
    return UsageError(f"The configuration cannot be read: {str(error).partition(chr(10))[0]}")


def _check_kind(key: str, value: Json, default: Json) -> None:
    """A setting keeps the kind of its default; one whose default is null takes text or a number."""
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        int: ((int,), "a whole number"),
        float: ((int, float), "a number"),
        str: ((str, type(None)), "text"),
    }
    allowed, what = kinds.get(type(default), ((str, int, float, type(None)), "text or a number"))
    wrong = not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)
    if wrong:
        raise UsageError(f"{key} must be {what}, got {value!r}.")
