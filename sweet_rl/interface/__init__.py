"""The library from Python: the commands on objects in memory. `import sweet_rl` offers it.

A layer over the same parts (`rollout`, `grading`, `preferences`, `viewer`); it computes nothing of its own.
`simulate`, `play` and `grade` work wherever they are called, in a notebook too, whose event loop runs
already; `asimulate`, `aplay` and `agrade` are the same to await.
"""

from sweet_rl.interface.evaluation import compare, evaluate
from sweet_rl.interface.grades import agrade, grade
from sweet_rl.interface.preference_pairs import pairs
from sweet_rl.interface.simulation import aplay, asimulate, play, simulate
from sweet_rl.interface.turn_credit import Critic, credit
from sweet_rl.interface.viewing import View, view

__all__ = [
    "Critic",
    "View",
    "agrade",
    "aplay",
    "asimulate",
    "compare",
    "credit",
    "evaluate",
    "grade",
    "pairs",
    "play",
    "simulate",
    "view",
]
