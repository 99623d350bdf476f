"""A simulated human that needs no model: it reads the hidden function and answers in plain words."""

from sweet_rl.mini.backend.human.human import ScriptedHuman

__all__ = ["ScriptedHuman"]
