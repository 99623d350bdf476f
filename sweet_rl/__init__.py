"""Train and measure language-model agents that work with someone over several turns.

    import sweet_rl

    episodes = sweet_rl.simulate("code", "mini:test", agent="expert", num_tasks=5)   # an agent and a human talk
    episodes = sweet_rl.grade(episodes)                      # by hidden tests, in a sandbox: episode.reward
    sweet_rl.view(episodes)                                  # a page; in a notebook it shows itself
    pairs = sweet_rl.pairs(episodes)                         # preference pairs, with several repeats of each task
    result = sweet_rl.evaluate("code", "mini:test", agent="openai/NAME", base_url="http://127.0.0.1:8000/v1")
    print(result.report)                                     # success with its interval, turns, tokens

An agent is a name (of the world's own agents, `openai/NAME` behind a server, `vllm/PATH`, a model's folder), a
function of the dialogue, `agent=lambda messages: "What does it cost?"`, or a `Policy`; a human likewise (`User`).
`worlds.names()` lists what there is to play; your own is a `World` with a `BaseEnv`. `load_tasks` reads tasks, `play`
plays one episode, `credit` says which turn made the difference (a `Critic`, in anyone's dialogues), `compare` which of
two agents is better. What was said is `message.content`, of each message in `episode.dialogue_history`.

All of these wait for their result wherever they are called, in a notebook too; `asimulate`, `aplay` and `agrade` are
the same to await. Importing this package is cheap on purpose: it loads nothing but the vocabulary of
`sweet_rl.types`; the rest is imported when it is asked for. Errors are of `sweet_rl.errors`.
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
    from sweet_rl import errors, records, worlds
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
    from sweet_rl.worlds import BaseEnv, Options, World, load_tasks

# Where sweet_rl.environments, .utils and .models are found: names of the published package.
__path__.append(f"{__path__[0]}/published_names")

_INTERFACE = "Critic View agrade aplay asimulate compare credit evaluate grade pairs play simulate view"
_LATER = {
    **dict.fromkeys(("Env", "Policy", "User"), "sweet_rl.contracts"),
    **dict.fromkeys(_INTERFACE.split(), "sweet_rl.interface"),
    **dict.fromkeys(("BaseEnv", "Options", "World", "load_tasks"), "sweet_rl.worlds"),
}
"""Where names are that are imported when they are asked for."""
_MODULES = ("errors", "records", "worlds")

__all__ = [
    "AgentTurn", "BaseEnv", "Completion", "Critic", "Env", "Generation", "Message", "Observation", "Options",
    "Policy", "Score", "StepResult", "StopReason", "Task", "Trajectory", "User", "UserContext", "UserReply",
    "View", "World", "__version__", "agrade", "aplay", "asimulate", "compare", "credit", "errors", "evaluate",
    "grade", "load_tasks", "pairs", "play", "records", "simulate", "view", "worlds",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"sweet_rl.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'sweet_rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
