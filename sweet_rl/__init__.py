"""Train and measure language-model agents that work with someone over several turns.

From Python: `simulate` and `play` let an agent and a human talk over the tasks of a world, `grade` says how
good an answer is, `credit` which turn made the difference (a `Critic`, in anyone's dialogues), `pairs` makes
preference pairs, `view` a page to look at; `worlds` has the worlds by name.
`asimulate`, `aplay` and `agrade` are the same to await.

Importing this package is cheap on purpose: it loads nothing but the vocabulary of `sweet_rl.types`; the rest
is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sweet_rl.types import (
    AgentTurn,
    Completion,
    Generation,
    Message,
    Observation,
    Score,
    StepResult,
    StopReason,
    Task,
    Trajectory,
    UserContext,
    UserReply,
)
from sweet_rl.version import __version__

if TYPE_CHECKING:
    from sweet_rl import worlds
    from sweet_rl.contracts import Env, Policy, User
    from sweet_rl.interface import (
        Critic,
        View,
        agrade,
        aplay,
        asimulate,
        compare,
        credit,
        evaluate,
        grade,
        pairs,
        play,
        simulate,
        view,
    )
    from sweet_rl.worlds import Options, World, load_tasks

# Where sweet_rl.environments, .utils and .models are found: names of the published package.
__path__.append(f"{__path__[0]}/published_names")

_LATER = {
    **dict.fromkeys(("Env", "Policy", "User"), "sweet_rl.contracts"),
    **dict.fromkeys(
        (
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
        ),
        "sweet_rl.interface",
    ),
    **dict.fromkeys(("Options", "World", "load_tasks"), "sweet_rl.worlds"),
}
"""Where names are that are imported when they are asked for."""

__all__ = [
    "AgentTurn",
    "Completion",
    "Critic",
    "Env",
    "Generation",
    "Message",
    "Observation",
    "Options",
    "Policy",
    "Score",
    "StepResult",
    "StopReason",
    "Task",
    "Trajectory",
    "User",
    "UserContext",
    "UserReply",
    "View",
    "World",
    "__version__",
    "agrade",
    "aplay",
    "asimulate",
    "compare",
    "credit",
    "evaluate",
    "grade",
    "load_tasks",
    "pairs",
    "play",
    "simulate",
    "view",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name == "worlds":
        return import_module("sweet_rl.worlds")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'sweet_rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
