"""The cost of a run: its tokens by a table of prices."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import Json

_FORMAT = (
    'A table of prices is TOML or JSON: for each model the US dollars of a million tokens, ["gpt-4o-mini"] '
    "with input = 0.15 and output = 0.60 below it."
)


class Price(NamedTuple):
    """US dollars of a million tokens that a model reads, and writes."""

    input: float
    output: float


def load_prices(path: str) -> dict[str, Price]:
    """The table in a file, by the model's name.

    Raises:
        UsageError: it is not there, or not such a table.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"--prices {path!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"--prices {path!r} is broken: {error}. {_FORMAT}") from error
    if not isinstance(table, dict):
        raise UsageError(f"--prices {path!r} holds no table. {_FORMAT}")
    return {name: _price(name, entry, path) for name, entry in table.items()}


def cost_of(usage: Mapping[str, Mapping[str, Json]], prices: Mapping[str, Price]) -> dict[str, Json]:
    """Dollars by role, and in all; null where a price or a number of tokens is unknown: `unknown` says which.

    A model that never replied has cost nothing.

    Args:
        usage: by role, then by model, as in a record.
        prices: the table.
    """
    roles: dict[str, Json] = {}
    unknown: list[str] = []
    for role, models in usage.items():
        parts: list[float] = []
        for model, used in models.items():
            if not used["replies"]:
                parts.append(0.0)
            elif model not in prices:
                unknown.append(f"the price of {model!r} ({role})")
            elif used["prompt_tokens"] is None or used["replies_without_usage"]:
                unknown.append(f"the tokens of {model!r} ({role})")
            else:
                price = prices[model]
                millions = used["prompt_tokens"] * price.input + used["completion_tokens"] * price.output
                parts.append(millions / 1e6)
        roles[role] = round(sum(parts), 6) if len(parts) == len(models) else None
    known = [dollars for dollars in roles.values() if dollars is not None]
    total = round(sum(known), 6) if len(known) == len(roles) else None
    return {"usd": total, **{f"{role}_usd": dollars for role, dollars in roles.items()}} | (
        {"unknown": unknown} if unknown else {}
    )


def _price(name: str, entry: Json, path: str) -> Price:
    if isinstance(entry, dict) and set(entry) == {"input", "output"}:
        values = entry["input"], entry["output"]
        if all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < math.inf for v in values):
            return Price(*values)
    raise UsageError(f"--prices {path!r}: {name!r} is {entry!r}. {_FORMAT}")
