"""A simulated human that needs no model: it reads the hidden function and answers in plain words."""

from sweet_rl.worlds.backend_programming.human.human import ScriptedHuman

__all__ = ["ScriptedHuman"]
