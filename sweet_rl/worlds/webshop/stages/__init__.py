"""The stage that only WebShop has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.command_line.listing import StageEntry

STAGES: Final[Mapping[str, StageEntry]] = {
    "serve_shop": StageEntry(
        "sweet_rl.worlds.webshop.stages.serve_shop:serve_shop",
        "Serve the embedded shop: a small WebShop that needs no data and no download.",
    ),
}
"""What is typed behind `sweet-rl`."""
