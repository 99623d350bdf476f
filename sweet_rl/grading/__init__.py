"""Trajectories to scores. Knows nothing of rollouts, so that old runs can be graded again.

`GRADERS` are those of other packages, for any world.
"""

from sweet_rl.plugins import Registry

GRADERS = Registry("sweet_rl.graders", "grader", parts=("grade",))
"""An object, or a class or factory that takes nothing or the world."""
