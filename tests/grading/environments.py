"""The four kinds of place where the sandbox has to hold; this process can become one of each.

root: may make namespaces. user: an ordinary one, who gets them through a user namespace. neither: an ordinary
user who gets none. container: root as Docker starts it, with fewer capabilities and without namespaces.

Run something there: python -m tests.grading.environments neither COMMAND ...
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sweet_rl.grading.sandbox.guest import isolation, seccomp
from tests.conftest import ROOT

ENVIRONMENTS = ("root", "user", "neither", "container")

_NOBODY = 65534
_NEW_NAMESPACES = 0x7E020080
_DOCKERS = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
"""The capabilities that Docker leaves to root."""

_UNSHARE, _CLONE, _CLONE3 = 272, 56, 435
_REFUSED = (_UNSHARE, 308, 165, 166, 155, 429, 442)  # and setns, mount, umount2, pivot_root, two of mounts


def why_not(environment: str) -> str:
    """Why this process cannot become such a one; empty where it can."""
    if os.uname().machine != "x86_64":
        return "system calls by the numbers of x86_64"
    if environment in {"root", "container"} and os.geteuid() != 0:
        return "only root can show what root would see"
    if environment in {"root", "user"} and not _may(0 if environment == "root" else 0x10000000):
        return "namespaces are refused here"
    if os.geteuid() == 0 and not _may(0):
        return "" if environment == "container" else "only a root that may mount can become another user"
    return ""


def enter(environment: str) -> None:
    """Become such a process, for good."""
    if environment != "root":
        if os.geteuid() == 0 and _may(0):
            _show_to_everybody([sys.prefix, sys.base_prefix, str(ROOT)])
        if environment == "container":
            for capability in set(range(64)) - _DOCKERS:
                with suppress(OSError):  # a kernel knows fewer
                    isolation.prctl(24, capability)
            _refuse_namespaces()
            isolation.take([isolation.keep_capabilities(_DOCKERS)])
        elif os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        if environment == "neither":
            isolation.prctl(isolation.PR_SET_NO_NEW_PRIVS, 1)
            _refuse_namespaces()
        # a change of user hides a process from itself; exec would make it readable again
        isolation.prctl(isolation.PR_SET_DUMPABLE, 1)


def _may(extra: int) -> bool:
    """Whether a process like this one may make a mount namespace, with what is asked for beside it."""
    child = os.fork()
    if child == 0:
        try:
            isolation.call("unshare", 0x00020000 | extra)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _show_to_everybody(folders: Iterable[str]) -> None:
    """Where a folder lies below one that is root's alone, let other users get there: in this process's mounts."""
    wanted = {os.path.realpath(folder) for folder in folders}
    closed = {
        str(parent): folder
        for folder in sorted(wanted)
        for parent in [next((p for p in reversed(Path(folder).parents) if not p.stat().st_mode & 1), None)]
        if parent is not None
    }
    isolation.call("unshare", 0x00020000)
    isolation.mount("none", "/", None, isolation.MS_REC | isolation.MS_PRIVATE)
    opened = {folder: os.open(folder, os.O_PATH) for folder in wanted}
    for parent in closed:
        isolation.mount("shown", parent, "tmpfs", 0, "mode=755")
    for folder, descriptor in opened.items():
        if any(folder.startswith(f"{parent}/") for parent in closed):
            os.makedirs(folder)
            isolation.mount(f"/proc/self/fd/{descriptor}", folder, None, isolation.MS_BIND | isolation.MS_REC)
        os.close(descriptor)


def _refuse_namespaces() -> None:
    """What a container's filter does."""
    no, yes, flags = seccomp._NO, seccomp._YES, (seccomp._ANY_BIT, 0, 1, _NEW_NAMESPACES)
    cases = [((number,), [no]) for number in _REFUSED]
    cases += [
        ((_CLONE3,), [seccomp._answer(errno.ENOSYS)]),
        ((_CLONE,), [seccomp._argument(0), flags, no, yes]),
    ]
    program = [(seccomp._LOAD, 0, 0, seccomp._NUMBER), *seccomp._switch(0, cases), yes]
    isolation.take([seccomp._loader(program)])


if __name__ == "__main__":
    if reason := why_not(sys.argv[1]):
        sys.exit(reason)
    enter(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
