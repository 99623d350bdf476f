"""A small shop of our own with the five routes of WebShop (ArCHer spec §9.5)."""

from sweet_rl.shop.catalogue import Product
from sweet_rl.shop.goals import Goal
from sweet_rl.shop.shop import EmbeddedShop, NoSuchPage

__all__ = ["EmbeddedShop", "Goal", "NoSuchPage", "Product"]
