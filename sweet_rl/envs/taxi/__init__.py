"""DangerousTaxi as a game (Reflect-RL spec §3.5); table, pictures and oracle are `sweet_rl.taxi`."""

from sweet_rl.envs.taxi.game import CURRICULA, HORIZON, SUCCESS_THRESHOLDS, TaxiGame

__all__ = ["CURRICULA", "HORIZON", "SUCCESS_THRESHOLDS", "TaxiGame"]
