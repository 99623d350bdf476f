"""The files of a repository that an episode leaves out: drawn, never on the way to a target.

Published behaviour: docs/published/reflect_rl.md#autoexplore.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from random import Random

from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.auto_explore.repositories import Entry, RepositoryIndex


class LeaveOut:
    """A repository with some of its entries missing.

    A folder's entries are drawn when it is first looked at, from the seed and its path alone, so that the
    size of the repository does not matter.

    Args:
        index: the repository.
        seed: of the draws; a `Random` is drawn from at once, entry by entry, as published.
        probability: of each entry to be missing.
        keep: paths that stay with what leads to them.
        compat: "published": whatever a path in `keep` begins with stays, letter by letter: `src` keeps `s`.
    """

    def __init__(
        self,
        index: RepositoryIndex,
        *,
        seed: int | Random = 0,
        probability: float = 0.0,
        keep: Collection[str] = (),
        compat: Compat = "fixed",
    ) -> None:
        self._index, self._probability, self._compat = index, probability, compat
        self._keep = tuple(keep)
        self._seed = 0
        self._drawn: dict[str, Sequence[Entry]] = {}
        if isinstance(seed, Random):
            self._draw_all("", seed)
        else:
            self._seed = seed

    def entries(self, folder: str) -> Sequence[Entry]:
        """The remaining entries of a folder; none for a missing folder."""
        if folder not in self._drawn:
            found = self._index.folders.get(folder, ())
            if self._probability > 0:
                found = self._draw(folder, found, Random(derive_seed(self._seed, "leave out", folder)))
            self._drawn[folder] = found
        return self._drawn[folder]

    def is_file(self, path: str) -> bool:
        """Whether a file is there and not left out."""
        entry = self._index.find(path)
        return entry is not None and not entry.is_folder and self._is_left(path)

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there and not left out."""
        entry = self._index.find(path)
        return entry is not None and entry.is_folder and self._is_left(path)

    def _is_left(self, path: str) -> bool:
        if self._probability <= 0:
            return True
        while path:
            folder, name = posixpath.split(path)
            if not any(entry.name == name for entry in self.entries(folder)):
                return False
            path = folder
        return True

    def _draw(self, folder: str, entries: Sequence[Entry], rng: Random) -> tuple[Entry, ...]:
        return tuple(
            entry
            for entry in entries
            if self._stays(posixpath.join(folder, entry.name)) or rng.random() >= self._probability
        )

    def _draw_all(self, folder: str, rng: Random) -> None:
        self._drawn[folder] = self._draw(folder, self._index.folders[folder], rng)
        for entry in self._drawn[folder]:
            if entry.is_folder:
                self._draw_all(posixpath.join(folder, entry.name), rng)

    def _stays(self, path: str) -> bool:
        if self._compat == "published":
            return any(kept.startswith(path) for kept in self._keep)
        return any(kept == path or kept.startswith(f"{path}/") for kept in self._keep)
