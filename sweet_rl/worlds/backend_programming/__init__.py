"""Backend Programming: the agent writes a function for a simulated human who knows the requirements."""

from sweet_rl.worlds.backend_programming.world import WORLD

__all__ = ["WORLD"]
