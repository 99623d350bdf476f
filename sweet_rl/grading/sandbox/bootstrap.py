"""Loads `guest` into a bare interpreter: as compiled code in one message, under its own short name.

Read from its files there, it would be compiled anew wherever there is no up-to-date bytecode beside them; the
litter of that, and of the search for files, lies between the objects that every fork has to copy by the page.
"""

from __future__ import annotations

import importlib
import marshal
from functools import lru_cache
from importlib.abc import InspectLoader
from types import CodeType
from typing import Any

_PACKAGE = "sweet_rl.grading.sandbox.guest"

MODULES = (
    "",
    ".libc",
    ".descriptors",
    ".kinds",
    ".canonical",
    ".literal",
    ".wire",
    ".programs",
    ".isolation",
    ".landlock",
    ".seccomp",
    ".zygote",
)
"""All of the package, each after those that it imports."""

MOST_BYTES = 1 << 20

_START = """
import _socket, marshal, sys, types
control = _socket.socket(fileno={descriptor})
modules, settings = marshal.loads(control.recv({most_bytes}))
for name, code in modules:
    module = sys.modules[name] = types.ModuleType(name)
    module.__package__ = "guest"
    module.__path__ = []
    setattr(sys.modules["guest"], name.rpartition(".")[2], module)
    exec(code, vars(module))
del modules, code, module
sys.modules["guest.zygote"].main(control, settings)
"""


def start_code(descriptor: int) -> str:
    """What the interpreter is to run that has inherited the control socket under this number."""
    return _START.format(descriptor=descriptor, most_bytes=MOST_BYTES)


def first_message(settings: dict[str, Any]) -> bytes:
    """What that code reads from the control socket: the guest, and the settings of `guest.zygote.main`."""
    return marshal.dumps((_guest(), settings))


@lru_cache(maxsize=1)
def _guest() -> list[tuple[str, CodeType]]:
    return [("guest" + name, _code(_PACKAGE + name)) for name in MODULES]


def _code(name: str) -> CodeType:
    spec = importlib.import_module(name).__spec__
    loader = spec.loader if spec is not None else None
    code = loader.get_code(name) if isinstance(loader, InspectLoader) else None
    if code is None:
        raise ImportError(f"The sandbox needs the code of {name}, and {loader} has none to give.", name=name)
    return code
