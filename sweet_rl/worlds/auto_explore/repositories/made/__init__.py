"""Small repositories made from a name, with facts to find: no download, no disk, any number of them."""

from sweet_rl.worlds.auto_explore.repositories.made.repository import (
    MadeRepository,
    MadeTask,
    make_repository,
    repository_names,
)

__all__ = ["MadeRepository", "MadeTask", "make_repository", "repository_names"]
