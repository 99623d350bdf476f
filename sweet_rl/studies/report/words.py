"""Numbers and texts of a report: a share, a count, a difference, a duration, a setting."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from sweet_rl.mini.backend.extras import Verdict
from sweet_rl.statistics import Estimate
from sweet_rl.types import Json

Write: TypeAlias = Callable[[float], str]

NOTHING = "\u2013"  # Stands where a number is not known

GOOD: Final = {str(verdict): verdict.good for verdict in Verdict}
"""What an oracle can say of a turn, and whether it is good."""

VERDICTS: Final = {  # The words for a claim
    "holds": "holds here",
    "reversed": "the other way round here",
    "open": "not settled here",
    "unknown": "no interval",
}

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Not allowed in HTML, or not in UTF-8: control characters and lone surrogates."""


def printable(value: Any) -> Any:
    """The value with every text in it without what a page cannot hold; dataclasses keep their class."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: printable(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {printable(key): printable(each) for key, each in value.items()}
    return tuple(map(printable, value)) if isinstance(value, tuple | list) else value


def is_code(text: str) -> bool:
    """Whether a turn is to be read as Python: it has lines, and a function begins in one of them."""
    return re.search(r"^[^\S\n]*+def \w++\(.*\n", text, re.MULTILINE) is not None


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}\u202f%".replace("-", "\u2212")


def number(value: float | None) -> str:
    if value is None:
        return NOTHING
    written = f"{value:.2f}" if 0.1 <= abs(value) < 100 else f"{value:.3g}"
    return written.replace("-", "\u2212")


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def signed(value: float, unit: str) -> str:
    """A difference: of shares in points, of counts whole, of others as `+1.25`."""
    return _fixed(value, unit, "+")


def _fixed(value: float, unit: str, sign: str = "") -> str:
    digits = {"share": 1, "count": 0}.get(unit, 2)
    scaled = round(100 * value if unit == "share" else value, digits) + 0.0
    return f"{scaled:{sign}.{digits}f}".replace("-", "\u2212")


def writer(unit: str) -> Callable[[float | None], str]:
    return {"share": share, "number": number, "count": count}[unit]


def span(found: Estimate, unit: str) -> str:
    """The interval of an estimate, as `54.3 to 59.4`; empty where it is not known."""
    if found.low is None or found.high is None:
        return ""
    return f"{_fixed(found.low, unit)} to {_fixed(found.high, unit)}"


def tick(unit: str) -> Write:
    if unit == "share":
        return lambda value: f"{100 * value:.0f} %"
    return lambda value: f"{value:.4g}".replace("-", "\u2212")


def signed_tick(unit: str) -> Write:
    """How a difference is written at an axis: with no more decimals than it has, and 0 without a sign."""
    scale = 100 if unit == "share" else 1
    return lambda value: f"{value * scale:+.4g}".replace("-", "\u2212") if round(value, 9) else "0"


def duration(seconds: float) -> str:
    """Seconds as people say them: `8.4 s`, `4 min 10 s`, `1 h 02 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f}\u202fs"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u202fmin {rest:02d}\u202fs"
    return f"{minutes // 60}\u202fh {minutes % 60:02d}\u202fmin"


def setting(value: Json) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
