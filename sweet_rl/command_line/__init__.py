"""A command line to the arguments of a stage, checked before anything runs; its help and completion.

`reading` takes a line apart and refuses what has no meaning in a run, `help_pages` explains a stage and completes
its flags. All work on `sweet_rl.flags.Flag`s, which `stage_flags` finds.
"""

from sweet_rl.command_line.reading import Facets, Typed, read, refuse, refuse_idle, values, with_defaults
from sweet_rl.command_line.stage_flags import Options, bound, in_front, stage_flags

__all__ = [
    "Facets",
    "Options",
    "Typed",
    "bound",
    "in_front",
    "read",
    "refuse",
    "refuse_idle",
    "stage_flags",
    "values",
    "with_defaults",
]
