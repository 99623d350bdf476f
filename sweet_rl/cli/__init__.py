"""The command line: `sweet-rl STAGE --flags` in, a call of that stage's function out.

Begin with `stage.py`, which makes a command of a function; `parse.py` reads flags, `main.py` lists and explains all
commands. `progress.py` and `servers.py` are what commands share while they run.
"""

from sweet_rl.cli.main import help_text, load, run, stages
from sweet_rl.cli.parse import stage_flags

__all__ = ["help_text", "load", "run", "stage_flags", "stages"]
