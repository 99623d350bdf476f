"""A small shop of our own with the five routes of WebShop.

Published behaviour: docs/published/archer.md#webshop.
"""

from sweet_rl.worlds.webshop.shop.catalogue import Product
from sweet_rl.worlds.webshop.shop.goals import Goal
from sweet_rl.worlds.webshop.shop.shop import EmbeddedShop, NoSuchPage

__all__ = ["EmbeddedShop", "Goal", "NoSuchPage", "Product"]
