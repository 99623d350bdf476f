"""The scripted eye: a human without a model; `look` sees, `match` pairs, `differences` and `words` say."""

from sweet_rl.worlds.frontend_design.human.human import ScriptedEye

__all__ = ["ScriptedEye"]
