"""Online learning: ArCHer, Online CHAI, online filtered behaviour cloning.

Published behaviour: docs/published/archer.md#configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import Settings, flag


@dataclass(frozen=True, kw_only=True)
class ConfigFlags(Settings):
    """The configuration."""

    config_name: str | None = flag(
        None,
        "a packaged one (those of configs/archer; a wrong name lists them), or a file of your own; default the first published one.",
    )
    config_dir: str | None = flag(None, "folder of that file; default the packaged configurations.")
    settings: bool = flag(False, "list every setting with its value in this configuration, and stop.")


@recorded("run_archer", resumes=True)
@stage()
def run_archer(flags: ConfigFlags, /, *overrides: str) -> None:
    """Train a policy online: it plays, and learns from what it played.

    Settings are Hydra's: a file of configs/archer by its name, and key=value for what is to differ. A setting that does
    not exist is refused. --settings lists all of them with their defaults. A run is a folder (save_path); the
    same command resumes it, from its newest checkpoint, to the weights of a run that was never stopped.

    The smallest run needs no model and no download, and takes a minute:
    sweet-rl run_archer --config-name archer_debug
    Published runs, once there is a policy to begin with (sweet-rl run_bc makes one from nothing):
    sweet-rl run_archer --config-name NAME checkpoint_path=FOLDER use_wandb=false
    Several processes: accelerate launch --num_processes 4 -m sweet_rl run_archer --config-name NAME ...
    Any world that rewards turns, also of another package: world=WORLD or world=module:WORLD

    Args:
        flags: the configuration.
        overrides: key=value for every setting that differs, as in lm_lr=1e-5 rollout_size=32.
    """
    from sweet_rl.commands import archer
    from sweet_rl.worlds import first_for, world_of

    name = flags.config_name or str(world_of(first_for("archer")).archer_config)
    act = archer.list_settings if flags.settings else archer.run
    act(name, overrides, flags.config_dir)
