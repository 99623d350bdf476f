"""Stages of a study as calls that follow each other; `sweet_rl.studies.runner` runs them.

A chain is a list of calls of stages; chains of one round do not wait for each other. Every call is what a
person would type (`Call.command`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Flags = Mapping[str, Any]

ADDRESSES = frozenset({"env_base_url"})
"""Flags that say where a server is to be found, and nothing about what comes of the stage."""


@dataclass(frozen=True, slots=True)
class Call:
    """One stage with its arguments; `output` is what it makes.

    `stage` is a command (`reflect gen_sft` of a group), or `package.module:function` for a step that is none.
    `resumes`: it goes on by itself with an output that was not finished; others begin again.
    """

    stage: str
    output: Path
    positional: tuple[str, ...] = ()
    flags: Flags = field(default_factory=dict)
    resumes: bool = False

    @property
    def command(self) -> str:
        """The line that does the same by hand."""
        return self._line(self.flags)

    @property
    def identity(self) -> str:
        """The line without the addresses of servers: alike in two runs whose outputs are alike."""
        return self._line({name: value for name, value in self.flags.items() if name not in ADDRESSES})

    def _line(self, flags: Flags) -> str:
        words = [*([] if ":" in self.stage else ["sweet-rl"]), *self.stage.split(), *self.positional]
        for name, value in flags.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Chain:
    """Calls that follow each other, under one name."""

    name: str
    calls: tuple[Call, ...]
