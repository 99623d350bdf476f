"""The worlds that agents play in, by name: ours, those of installed packages, and `module:ATTRIBUTE`.

A world of your own is an object of a subclass of `World`; an entry point of the group `sweet_rl.worlds` gives
it a name. Nothing outside a world's folder knows its name but the list here.
"""

from sweet_rl.worlds.base import World
from sweet_rl.worlds.options import AgentRequest, Level, LevelRequest, Options, ScriptedFlags
from sweet_rl.worlds.registry import (
    agents_with,
    all_worlds,
    first_for,
    flags_of,
    names,
    options_by_name,
    options_of,
    own_options,
    two_worlds,
    world_in,
    world_named_in,
    world_of,
)
from sweet_rl.worlds.tasks import check_tasks, chosen_tasks, load_tasks

__all__ = [
    "AgentRequest",
    "Level",
    "LevelRequest",
    "Options",
    "ScriptedFlags",
    "World",
    "agents_with",
    "all_worlds",
    "check_tasks",
    "chosen_tasks",
    "first_for",
    "flags_of",
    "load_tasks",
    "names",
    "options_by_name",
    "options_of",
    "own_options",
    "two_worlds",
    "world_in",
    "world_named_in",
    "world_of",
]
