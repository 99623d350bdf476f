"""Detective: the text adventure of ArCHer, played from its game file."""

from sweet_rl.worlds.detective.world import WORLD

__all__ = ["WORLD"]
