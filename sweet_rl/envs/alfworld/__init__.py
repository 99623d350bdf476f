"""ALFWorld's household games on their real engine, as Reflect-RL plays them.

`HouseholdGame` is the game, `Household` the engine in processes of its own. The engine's packages are
optional (`pip install 'sweet_rl[alfworld]'`) and are imported by the workers alone.

Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from sweet_rl.envs.alfworld.engine import Engine, Moment
from sweet_rl.envs.alfworld.game import HORIZON, HouseholdGame
from sweet_rl.envs.alfworld.household import Household

__all__ = ["HORIZON", "Engine", "Household", "HouseholdGame", "Moment"]
