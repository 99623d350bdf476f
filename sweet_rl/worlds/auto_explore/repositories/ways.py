"""The way to a file of a repository, as the commands that agents have."""

from __future__ import annotations

from sweet_rl.types import Compat
from sweet_rl.worlds.auto_explore.repositories.quoting import wrap


def optimal_path(path: str, *, compat: Compat = "fixed") -> list[str]:
    """The commands that lead from the root to a file and show it, each folder listed on the way."""
    *folders, name = path.split("/")
    commands = [command for folder in folders for command in ("ls", f"cd {wrap(folder, compat=compat)}")]
    return [*commands, "ls", f"cat {wrap(name, compat=compat)}"]


def next_command(folder: str, path: str, *, opened: bool = False) -> str:
    """The next command on the shortest way to a file: through the folders, open it, hand it in."""
    above, _, name = path.rpartition("/")
    if above == folder:
        return f"{'id' if opened else 'cat'} {wrap(name)}"
    inside = f"{folder}/" if folder else ""
    if not above.startswith(inside):
        return "cd .."
    return f"cd {wrap(above.removeprefix(inside).partition('/')[0])}"
