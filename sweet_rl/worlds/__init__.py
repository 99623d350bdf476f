"""The worlds that agents play in, by name: ours, those of installed packages, and `module:ATTRIBUTE`.

Begin with `base.py`, the contract: tasks in, an `Env` for each episode out. A world of your own is an object of a subclass
of `World`; an entry point of the group `sweet_rl.worlds` gives it a name. Nothing outside a world's folder knows its name
but the list here.
"""

from sweet_rl.worlds.base import World, no_agent
from sweet_rl.worlds.options import (
    AgentRequest,
    Answers,
    Archer,
    Learning,
    Level,
    LevelRequest,
    Options,
    Scores,
    ScriptedFlags,
    TaskLists,
)
from sweet_rl.worlds.registry import (
    agents_with,
    all_worlds,
    check_tasks,
    chosen_tasks,
    first_for,
    flags_of,
    learning_options,
    levels_of,
    load_tasks,
    names,
    options_of,
    own_options,
    two_worlds,
    world_in,
    world_named_in,
    world_of,
)

__all__ = ["AgentRequest", "Answers", "Archer", "Learning", "Level", "LevelRequest", "Options", "Scores"]
__all__ += ["ScriptedFlags", "TaskLists", "World", "agents_with", "all_worlds", "check_tasks"]
__all__ += ["chosen_tasks", "first_for", "flags_of", "learning_options", "levels_of", "load_tasks", "names"]
__all__ += ["no_agent", "options_of", "own_options", "two_worlds", "world_in", "world_named_in", "world_of"]
