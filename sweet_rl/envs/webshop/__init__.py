"""The WebShop world: any server with its five routes, or a shop in this process.

Published behaviour: docs/published/archer.md#webshop.
"""

from sweet_rl.envs.webshop.address import Address, PageKind
from sweet_rl.envs.webshop.env import INVALID_ACTION, MAX_STEPS, WebShopEnv
from sweet_rl.envs.webshop.page import Page, read_page
from sweet_rl.envs.webshop.quirks import FIXED, PUBLISHED, Quirks, quirks_of
from sweet_rl.envs.webshop.shops import HttpShop, LocalShop, Shop

__all__ = [
    "FIXED",
    "INVALID_ACTION",
    "MAX_STEPS",
    "PUBLISHED",
    "Address",
    "HttpShop",
    "LocalShop",
    "Page",
    "PageKind",
    "Quirks",
    "Shop",
    "WebShopEnv",
    "quirks_of",
    "read_page",
]
