"""The scripted eye: a human without a model; `look` sees, `match` pairs, `differences` and `words` say."""

from sweet_rl.users.eye.human import ScriptedEye

__all__ = ["ScriptedEye"]
