"""Configurations of online runs: composed by Hydra, checked against the file that names every setting.

A world's own options are settings as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import sweet_rl
from sweet_rl.cli.progress import Bar
from sweet_rl.errors import UsageError, missing_package, suggestion
from sweet_rl.flags import any_of
from sweet_rl.records import check_yaml
from sweet_rl.tracking import KINDS, Destination
from sweet_rl.types import Json
from sweet_rl.worlds import all_worlds, own_options, world_of

CONFIGS = Path(sweet_rl.__file__).parent / "configs" / "archer"  # `configs/archer` of the repository
DEFAULTS = "default"
_SECRETS = {"huggingface_token": "HF_TOKEN", "wandb_key": "WANDB_API_KEY"}
_MISSING = "???"
_NAMES = {"world": "env_name", "max_turns": "max_steps"}  # as typed everywhere else, and the published keys
_WHOLE = ("env_idx", "max_steps")  # whole numbers whose default is null; other such settings are text


def load_config(name: str, overrides: Sequence[str], folder: str | None = None) -> dict[str, Json]:
    """The settings of a run as plain data.

    Args:
        overrides: `key=value`; a value that Hydra's grammar does not take is text as it stands.
    """
    typed = [_read(override) for override in overrides]
    defaults = _defaults()
    ours = [override for key, override in typed if key in defaults]
    if absent := defaults.keys() - _compose(name, (), folder).keys():
        raise UsageError(
            f"The configuration {name!r} has no {min(absent)} and {len(absent) - 1} more settings. Start it "
            "from the packaged ones: write `defaults: [default, _self_]` at its top."
        )
    config = _compose(name, ours, folder)
    world = None if config["env_name"] == _MISSING else world_of(str(config["env_name"]))
    own = () if world is None else own_options(world)
    known = {
        option.name: option.default for option in own if option.name != "place"
    }  # which is env_load_path
    known |= defaults
    for key in (*(key for key, _ in typed), *config):
        if key not in known:
            if owners := owners_of(key):
                raise not_of(key, owners, str(config["env_name"]))
            raise UsageError(f"{key}: there is no such setting{suggestion(key, known)}.")
    if len(ours) < len(typed):
        config = _compose(name, [*ours, *(f"++{one}" for key, one in typed if key not in defaults)], folder)
    for key, variable in _SECRETS.items():
        if config.pop(key, ""):
            raise UsageError(f"{key}: secrets are taken from the environment only. Set {variable} instead.")
    if isinstance(ending := config["eos_str"], str):
        config["eos_str"] = ending.replace(r"\n", "\n")  # as it is typed in a shell
    for key, value in config.items():
        if value == _MISSING:
            raise UsageError(f"{key}=... is needed: {name!r} does not set it.")
        # A setting keeps the kind of its default; one whose default is null takes what `default.yaml` says.
        default, none = known[key], type(None)
        kinds = {
            bool: ((bool,), "true or false"), int: ((int,), "a whole number"), float: ((int, float), "a number"),
            str: ((str,) if default == _MISSING else (str, none), "text"),
        }  # fmt: skip
        allowed: tuple[type, ...]
        if default is None and key in defaults:
            allowed, what = ((int, none), "a whole number") if key in _WHOLE else ((str, none), "text")
            what += " or null"
        else:
            allowed, what = kinds.get(type(default), ((str, int, float, none), "text or a number"))
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise UsageError(f"{key} must be {what}, got {value!r}.")
    return config


@cache
def _defaults() -> Mapping[str, Json]:
    return _compose(DEFAULTS, (), None)


def _compose(name: str, overrides: Sequence[str], folder: str | None) -> dict[str, Json]:
    try:
        from hydra import compose, initialize_config_dir
        from hydra.errors import HydraException
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError
    except ImportError as error:
        raise missing_package("hydra-core", "archer", needed_for="run_archer") from error
    where = Path(folder).expanduser().resolve() if folder else CONFIGS
    known = sorted(path.stem for path in where.glob("*.yaml"))
    if name not in known:
        raise UsageError(
            f"There is no configuration {name!r} in {str(where)!r}{suggestion(name, known)}. "
            f"There are {', '.join(known) or 'none'}."
        )
    try:
        for path in where.glob("*.yaml") if folder else ():
            with suppress(YAMLError, UnicodeDecodeError):  # hydra says it better, where it is read at all
                check_yaml(path.read_text(encoding="utf-8"), path)
        with initialize_config_dir(str(where), version_base="1.3"):
            composed = compose(name, overrides=[f"hydra.searchpath=[file://{CONFIGS}]", *overrides])
        config: Any = OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = "; ".join(lines[: 3 if isinstance(error, YAMLError) else 1])
        raise UsageError(f"The configuration {name!r} in {str(where)!r} cannot be read: {what}") from error
    return {str(key): value for key, value in config.items()}


def _read(override: str) -> tuple[str, str]:
    """The key, and what Hydra is given: quoted where it cannot read it, or takes its commas for several runs."""
    key, equals, value = override.partition("=")
    if not equals:
        raise UsageError(f"{override!r}: settings are written key=value, as in lm_lr=1e-5.")
    if key.startswith(("+", "~")):
        raise UsageError(f"{override!r}: settings can be changed, neither added nor removed.")
    key = _NAMES.get(key, key)
    override = f"{key}={value}"
    with suppress(ImportError):  # `_compose` says what is missing
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.errors import HydraException

        with suppress(HydraException):
            if not OverridesParser.create().parse_override(override).is_sweep_override():
                return key, override
        doubled = re.sub(r"(?<!\\)(\\++)(?='|$)", r"\1\1", value)
        quoted = doubled.replace("'", r"\'")
        override = f"{key}='{quoted}'"
    return key, override


def owners_of(key: str) -> tuple[str, ...]:
    """The worlds of which a setting is an option."""
    return tuple(
        world.name for world in all_worlds() if key in {option.name for option in own_options(world)}
    )


def not_of(key: str, owners: Sequence[str], world: str) -> UsageError:
    """The error for a setting of another world."""
    return UsageError(f"{key} belongs to the world {' or '.join(owners)}, and this is {world}. Leave it out.")


def destination_of(config: Mapping[str, Json]) -> Destination:
    """Where the numbers of a run go: by log_to, or, where that is null, by the published switches."""
    named, known = config["log_to"], (*KINDS, "none")
    if named is not None and named not in known:
        raise UsageError(f"log_to must be {any_of(known)}, got {named!r}.")
    switches = {"tensorboard": "tensorboard", "use_wandb": "wandb"}
    kinds = [kind for key, kind in switches.items() if config[key]] if named is None else [str(named)]
    return Destination(
        kinds=tuple(kind for kind in kinds if kind != "none"),
        project=str(config["project_name"]),
        name=str(config["run_name"]),
        may_lack=("wandb",) if named is None else (),  # the published configurations ask for it
    )


_SHOWN: Final = {
    "rollout.mean": "return",
    "eval_rollout.mean": "evaluation",
    "q1.loss": "Q loss",
    "pg.loss": "policy loss",
}


class ProgressBar(Bar):
    """Iterations, what the current one is doing, and the last returns and losses."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        super().__init__(total, 0, unit="iteration", quiet=quiet)
        self._numbers: dict[str, str] = {}

    def say(self, phase: str, done: int, total: int) -> None:
        """Show the phase and how many of its steps are done."""
        self.progress.phase = f"{phase} {done}/{total}"
        self.set_description_str(self.progress.phase, refresh=False)
        self.update(0)

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Show an iteration's numbers beside the bar, and move it to `done` iterations."""
        if done and not self.n:  # a run that goes on began there
            self.progress.first = self.initial = done - 1
        self._numbers |= {_SHOWN[name]: f"{info[name]:.3g}" for name in _SHOWN if name in info}
        self.set_postfix(self._numbers, refresh=False)
        self.update(done - self.n)


def quoted(path: Path) -> str:
    """A path as a value in Hydra's grammar, whatever characters it has."""
    if re.fullmatch(r"[\w./-]+", str(path), re.ASCII):
        return str(path)
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
