"""Train and measure language-model agents that work with someone over several turns.

Importing this package is cheap on purpose: it loads nothing but the vocabulary of `sweet_rl.types`.
"""

from sweet_rl.types import (
    AgentTurn,
    Message,
    Observation,
    Score,
    StopReason,
    Task,
    Trajectory,
)

__version__ = "0.1.0"

__all__ = [
    "AgentTurn",
    "Message",
    "Observation",
    "Score",
    "StopReason",
    "Task",
    "Trajectory",
    "__version__",
]
