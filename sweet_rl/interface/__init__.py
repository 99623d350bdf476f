"""The library from Python: the commands on objects in memory. `import sweet_rl` offers it.

A layer over the same parts (`rollout`, `grading`, `preferences`, `viewer`); it computes nothing of its own.
`simulate`, `play` and `grade` work wherever they are called, in a notebook too, whose event loop runs
already; `asimulate`, `aplay` and `agrade` are the same to await.
"""

from sweet_rl.interface.grades import agrade, grade
from sweet_rl.interface.results import Critic, View, compare, credit, pairs, view
from sweet_rl.interface.simulation import aplay, asimulate, evaluate, play, simulate

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
