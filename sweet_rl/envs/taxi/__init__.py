"""DangerousTaxi as a game; table, pictures and oracle are `sweet_rl.taxi`.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi.
"""

from sweet_rl.envs.taxi.game import CURRICULA, HORIZON, SUCCESS_THRESHOLDS, TaxiGame

__all__ = ["CURRICULA", "HORIZON", "SUCCESS_THRESHOLDS", "TaxiGame"]
