"""Each setting is declared once: the fields of a dataclass are its flags, its validation and its documentation.

`fields` makes them, `common` has those that many stages share. Worlds, trainings and stages say their settings
in the same way.
"""

from sweet_rl.flags.fields import (
    REQUIRED,
    Flag,
    Only,
    Settings,
    any_of,
    check,
    described,
    flag,
    flags_of,
    listed,
    no_flag,
    read_type,
)

__all__ = [
    "REQUIRED",
    "Flag",
    "Only",
    "Settings",
    "any_of",
    "check",
    "described",
    "flag",
    "flags_of",
    "listed",
    "no_flag",
    "read_type",
]
