"""The command line: `sweet-rl STAGE --flags`.

`stage` makes a command of a function, `parse` reads its flags, `main` lists, explains and runs all commands; `progress`
and `servers` are what commands share while they run.
"""

from sweet_rl.cli.main import help_text, load, run, stages
from sweet_rl.cli.parse import stage_flags

__all__ = ["help_text", "load", "run", "stage_flags", "stages"]
