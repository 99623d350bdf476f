"""Repositories as trees of files: indexed once, read safely, and small ones made from a seed.

Nothing here knows worlds or agents.
"""

from sweet_rl.worlds.auto_explore.repositories.index import Entry, Refused, RepositoryIndex, index_of, scan
from sweet_rl.worlds.auto_explore.repositories.kinds import (
    ALLOWED_SUFFIXES,
    LINE_LIMITS,
    SUFFIXES,
    is_allowed,
    kind_of,
)

__all__ = [
    "ALLOWED_SUFFIXES",
    "LINE_LIMITS",
    "SUFFIXES",
    "Entry",
    "Refused",
    "RepositoryIndex",
    "index_of",
    "is_allowed",
    "kind_of",
    "scan",
]
