"""WebShop: find what an instruction asks for, and buy it."""

from sweet_rl.worlds.webshop.world import WORLD

__all__ = ["WORLD"]
