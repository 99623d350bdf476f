"""Frontend Design: the agent writes a web page for a simulated human who sees the target page."""

from sweet_rl.worlds.frontend_design.world import WORLD

__all__ = ["WORLD"]
