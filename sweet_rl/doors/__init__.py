"""Doors: every world, with its human, inside the tools that other people train and measure with.

`opened` is what they share: a world whose episodes take their turns from outside. Each other module is one
tool, and imports its package; none is imported before it is asked for (docs/doors).
"""
