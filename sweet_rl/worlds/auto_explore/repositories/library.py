"""Repositories by the names that tasks have for them: of a folder, or made from a seed."""

from __future__ import annotations

import difflib
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.worlds.auto_explore.repositories.index import RepositoryIndex, scan


class Library:
    """Looks through every repository once, when it is first asked for; all episodes share what it found.

    Args:
        folder: its sub-folders are the repositories; None for the embedded ones, which live in memory.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder).expanduser()
        self._known: dict[str, RepositoryIndex] = {}
        if self._folder is not None and not self._folder.is_dir():
            raise UsageError(
                f"There is no folder {str(self._folder)!r} (looked in {str(Path.cwd())!r}). Name the folder "
                "whose sub-folders are the repositories that the tasks are about."
            )

    def get(self, name: str) -> RepositoryIndex:
        """The repository called `name`."""
        if name not in self._known:
            self._known[name] = self._embedded(name) if self._folder is None else self._scan(name)
        return self._known[name]

    def names(self) -> list[str]:
        """What there is in the folder, sorted; nothing for embedded repositories, which have no end."""
        if self._folder is None:
            return []
        return sorted(
            entry.name for entry in self._folder.iterdir() if entry.is_dir() and entry.name[:1] != "."
        )

    def _scan(self, name: str) -> RepositoryIndex:
        parts = name.strip("/").split("/")
        if self._folder is None or name.startswith("/") or not {"", ".", ".."}.isdisjoint(parts):
            raise UsageError(f"{name!r} is no name of a repository: it must lie in the folder of them.")
        if not _is_folder(self._folder / name):
            near = difflib.get_close_matches(name, self.names(), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise UsageError(
                f"There is no repository {name!r} in {str(self._folder)!r}{hint}. Give the folder that the "
                "tasks were made from."
            )
        if any(self._folder.joinpath(*parts[: depth + 1]).is_symlink() for depth in range(len(parts))):
            raise UsageError(
                f"The repository {name!r} in {str(self._folder)!r} is a symbolic link, which tasks may not "
                "follow. Copy the repository there."
            )
        return scan(self._folder / name, name)

    @staticmethod
    def _embedded(name: str) -> RepositoryIndex:
        from sweet_rl.worlds.auto_explore.repositories.made import make_repository

        return make_repository(name).index()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name longer than any
        return False
